// The native library: found, loaded, and its functions by name.
//
// Functions that are called under load are leaves: they neither block nor call back.

// Nothing here is exported.
// ignore_for_file: public_member_api_docs

import 'dart:ffi';
import 'dart:io' show File, Platform;
import 'dart:isolate' show Isolate;

import '../exceptions.dart';
import 'http.dart';
import 'structs.dart';

/// The library, as one isolate has it.
final class Library {
  Library._(DynamicLibrary library)
    : _free = DynamicLibrary.process().lookup('free'),
      freeFunction = DynamicLibrary.process()
          .lookupFunction<Void Function(Pointer<Void>), void Function(Pointer<Void>)>('free', isLeaf: true),
      malloc = DynamicLibrary.process().lookupFunction<Pointer<Void> Function(Size), Pointer<Void> Function(int)>(
        'malloc',
        isLeaf: true,
      ),
      blockFinalizer = library.lookup('cenote_block_finalize'),
      contextFinalizer = NativeFinalizer(library.lookup('cenote_context_finalize')),
      poolFinalizer = NativeFinalizer(library.lookup('cenote_pool_finalize')),
      sessionFinalizer = NativeFinalizer(library.lookup('cenote_session_finalize')),
      abandon = library.lookupFunction<Int32 Function(Uint64, Uint64), int Function(int, int)>(
        'cenote_abandon',
        isLeaf: true,
      ),
      begin = library
          .lookupFunction<Int32 Function(Uint64, Uint64, Int32, Uint32, Uint64), int Function(int, int, int, int, int)>(
            'cenote_begin',
            isLeaf: true,
          ),
      blockFree = library.lookupFunction<Int32 Function(Uint64), int Function(int)>('cenote_block_free', isLeaf: true),
      cancel = library.lookupFunction<Int32 Function(Uint64, Uint64, Uint64), int Function(int, int, int)>(
        'cenote_cancel',
        isLeaf: true,
      ),
      commit = library.lookupFunction<Int32 Function(Uint64, Uint64, Uint64), int Function(int, int, int)>(
        'cenote_commit',
        isLeaf: true,
      ),
      contextNew = library
          .lookupFunction<
            Int32 Function(Pointer<ContextOptions>, Pointer<Uint64>),
            int Function(Pointer<ContextOptions>, Pointer<Uint64>)
          >('cenote_context_new'),
      contextSleep = library.lookupFunction<Int32 Function(Uint64), int Function(int)>(
        'cenote_context_sleep',
        isLeaf: true,
      ),
      counts = library.lookupFunction<Int32 Function(Pointer<Counts>), int Function(Pointer<Counts>)>(
        'cenote_counts',
        isLeaf: true,
      ),
      drain = library
          .lookupFunction<
            Int32 Function(Uint64, Pointer<Uint8>, Size, Pointer<Uint32>, Pointer<Int32>),
            int Function(int, Pointer<Uint8>, int, Pointer<Uint32>, Pointer<Int32>)
          >('cenote_drain', isLeaf: true),
      errorField = library
          .lookupFunction<
            Int32 Function(Uint64, Int32, Pointer<Pointer<Uint8>>, Pointer<Size>),
            int Function(int, int, Pointer<Pointer<Uint8>>, Pointer<Size>)
          >('cenote_error_field', isLeaf: true),
      errorFree = library.lookupFunction<Int32 Function(Uint64), int Function(int)>('cenote_error_free', isLeaf: true),
      errorInfo = library
          .lookupFunction<Int32 Function(Uint64, Pointer<ErrorInfo>), int Function(int, Pointer<ErrorInfo>)>(
            'cenote_error_info',
            isLeaf: true,
          ),
      httpAnswer = library
          .lookupFunction<
            Int32 Function(
              Uint64,
              Uint64,
              Uint32,
              Uint32,
              Pointer<Uint8>,
              Size,
              Pointer<Uint8>,
              Size,
              Pointer<Uint8>,
              Size,
            ),
            int Function(int, int, int, int, Pointer<Uint8>, int, Pointer<Uint8>, int, Pointer<Uint8>, int)
          >('cenote_http_answer', isLeaf: true),
      httpAnswers = library
          .lookupFunction<
            Int32 Function(Uint64, Pointer<Uint8>, Size, Pointer<Uint32>),
            int Function(int, Pointer<Uint8>, int, Pointer<Uint32>)
          >('cenote_http_answers', isLeaf: true),
      httpFree = library.lookupFunction<Int32 Function(Uint64), int Function(int)>('cenote_http_free', isLeaf: true),
      httpListen = library
          .lookupFunction<
            Int32 Function(Uint64, Pointer<HttpOptions>, Int64, Pointer<Uint64>, Pointer<Uint64>),
            int Function(int, Pointer<HttpOptions>, int, Pointer<Uint64>, Pointer<Uint64>)
          >('cenote_http_listen'),
      httpPort = library.lookupFunction<Int32 Function(Uint64, Pointer<Uint16>), int Function(int, Pointer<Uint16>)>(
        'cenote_http_port',
        isLeaf: true,
      ),
      httpStop = library.lookupFunction<Int32 Function(Uint64), int Function(int)>('cenote_http_stop', isLeaf: true),
      wait = library
          .lookupFunction<
            Int32 Function(Uint64, Uint32, Pointer<Uint8>, Size, Pointer<Uint32>, Pointer<Int32>),
            int Function(int, int, Pointer<Uint8>, int, Pointer<Uint32>, Pointer<Int32>)
          >('cenote_wait'),
      lease = library.lookupFunction<Int32 Function(Uint64, Uint64, Uint64), int Function(int, int, int)>(
        'cenote_lease',
        isLeaf: true,
      ),
      poolClose = library
          .lookupFunction<Int32 Function(Uint64, Uint64, Uint32, Uint64), int Function(int, int, int, int)>(
            'cenote_pool_close',
            isLeaf: true,
          ),
      poolOpen = library
          .lookupFunction<
            Int32 Function(Uint64, Pointer<Uint8>, Size, Pointer<Uint64>, Pointer<Uint64>),
            int Function(int, Pointer<Uint8>, int, Pointer<Uint64>, Pointer<Uint64>)
          >('cenote_pool_open'),
      poolStats = library
          .lookupFunction<Int32 Function(Uint64, Pointer<StatsStruct>), int Function(int, Pointer<StatsStruct>)>(
            'cenote_pool_stats',
            isLeaf: true,
          ),
      rollback = library.lookupFunction<Int32 Function(Uint64, Uint64, Uint64), int Function(int, int, int)>(
        'cenote_rollback',
        isLeaf: true,
      ),
      sessionFree = library.lookupFunction<Int32 Function(Uint64), int Function(int)>('cenote_session_free'),
      submit = library
          .lookupFunction<
            Int32 Function(Uint64, Pointer<Uint8>, Size, Pointer<Uint32>),
            int Function(int, Pointer<Uint8>, int, Pointer<Uint32>)
          >('cenote_submit', isLeaf: true),
      version = library
          .lookupFunction<
            Int32 Function(Pointer<Pointer<Uint8>>, Pointer<Size>),
            int Function(Pointer<Pointer<Uint8>>, Pointer<Size>)
          >('cenote_version', isLeaf: true) {
    freeFinalizer = NativeFinalizer(_free);
  }

  static const _abiMajor = 0;
  static const _abiMinor = 1;

  static Library? _current;

  /// The library of this isolate, found on first use.
  static Library get current => _current ??= _find();

  /// Loads the library from a path, before anything else is done with it.
  static void open(String? path) {
    if (_current != null) return;
    _current = path == null ? _find() : _load(path);
  }

  static Library _load(String path) {
    final DynamicLibrary library;
    try {
      library = DynamicLibrary.open(path);
      // The only thing that it is asked for here is a function that every version has.
      // ignore: avoid_catching_errors
    } on ArgumentError catch (error) {
      throw LibraryException('cannot load $path: ${error.message}');
    }
    if (!library.providesSymbol('cenote_abi_version')) {
      throw LibraryException('$path is no cenote library');
    }
    final abi = library.lookupFunction<Uint32 Function(), int Function()>('cenote_abi_version', isLeaf: true)();
    if (abi >> 16 != _abiMajor || (abi & 0xffff) < _abiMinor || !library.providesSymbol('cenote_session_finalize')) {
      throw LibraryException('$path has ABI ${abi >> 16}.${abi & 0xffff}, $_abiMajor.$_abiMinor or later is needed');
    }
    return Library._(library);
  }

  static Library _find() {
    final named = Platform.environment['CENOTE_LIBRARY'];
    if (named != null && named.isNotEmpty) return _load(named);
    for (final place in _places()) {
      if (File(place).existsSync()) return _load(place);
    }
    try {
      return _load(_fileName);
    } on LibraryException {
      throw LibraryException(
        '$_fileName is not to be found: name its path in CENOTE_LIBRARY or by Cenote.open(path: ..), or put it beside the '
        'program or into the package (looked for ${_places().join(', ')}, and where the system looks)',
      );
    }
  }

  static String get _fileName => Platform.isMacOS ? 'libcenote.dylib' : 'libcenote.so';

  static List<String> _places() {
    final places = <String>[];
    final program = File(Platform.resolvedExecutable).parent.path;
    places
      ..add('$program/$_fileName')
      ..add('$program/../lib/$_fileName');
    final package = _packageFolder();
    if (package != null) {
      for (final folder in ['native', '../target/release', '../target/debug']) {
        places.add('$package/$folder/$_fileName');
      }
    }
    return places;
  }

  /// The package's own folder; `null` in a compiled program, which has none.
  static String? _packageFolder() {
    try {
      final uri = Isolate.resolvePackageUriSync(Uri.parse('package:cenote/cenote.dart'));
      if (uri == null || !uri.isScheme('file')) return null;
      return File.fromUri(uri).parent.parent.path;
      // Thrown where there are no packages, as in a compiled program.
      // ignore: avoid_catching_errors
    } on UnsupportedError {
      return null;
    }
  }

  final Pointer<NativeFinalizerFunction> _free;

  /// Frees memory of [allocate].
  late final NativeFinalizer freeFinalizer;

  final Pointer<Void> Function(int bytes) malloc;
  final void Function(Pointer<Void> pointer) freeFunction;

  final Pointer<NativeFinalizerFunction> blockFinalizer;
  final NativeFinalizer contextFinalizer;
  final NativeFinalizer poolFinalizer;
  final NativeFinalizer sessionFinalizer;

  final int Function(int context, int tag) abandon;
  final int Function(int context, int pool, int isolation, int flags, int tag) begin;
  final int Function(int block) blockFree;
  final int Function(int context, int session, int tag) cancel;
  final int Function(int context, int transaction, int tag) commit;
  final int Function(Pointer<ContextOptions> options, Pointer<Uint64> context) contextNew;
  final int Function(int context) contextSleep;
  final int Function(Pointer<Counts> counts) counts;
  final int Function(int context, Pointer<Uint8> buffer, int capacity, Pointer<Uint32> count, Pointer<Int32> more)
  drain;
  final int Function(int error, int field, Pointer<Pointer<Uint8>> text, Pointer<Size> length) errorField;
  final int Function(int error) errorFree;
  final int Function(int error, Pointer<ErrorInfo> info) errorInfo;
  final int Function(
    int server,
    int request,
    int status,
    int flags,
    Pointer<Uint8> contentType,
    int contentTypeLength,
    Pointer<Uint8> headers,
    int headersLength,
    Pointer<Uint8> body,
    int bodyLength,
  )
  httpAnswer;
  final int Function(int server, Pointer<Uint8> answers, int length, Pointer<Uint32> answered) httpAnswers;
  final int Function(int server) httpFree;
  final int Function(int context, Pointer<HttpOptions> options, int tag, Pointer<Uint64> server, Pointer<Uint64> error)
  httpListen;
  final int Function(int server, Pointer<Uint16> port) httpPort;
  final int Function(int server) httpStop;
  final int Function(int context, int pool, int tag) lease;
  final int Function(int context, int pool, int deadlineMs, int tag) poolClose;
  final int Function(int context, Pointer<Uint8> url, int length, Pointer<Uint64> pool, Pointer<Uint64> error) poolOpen;
  final int Function(int pool, Pointer<StatsStruct> stats) poolStats;
  final int Function(int context, int transaction, int tag) rollback;
  final int Function(int session) sessionFree;
  final int Function(int context, Pointer<Uint8> requests, int length, Pointer<Uint32> submitted) submit;
  final int Function(Pointer<Pointer<Uint8>> text, Pointer<Size> length) version;
  final int Function(
    int context,
    int timeoutMs,
    Pointer<Uint8> buffer,
    int capacity,
    Pointer<Uint32> count,
    Pointer<Int32> more,
  )
  wait;

  /// Memory of the C heap.
  Pointer<Uint8> allocate(int bytes) {
    final pointer = malloc(bytes);
    if (pointer == nullptr) throw const LibraryException('the system gives no memory');
    return pointer.cast();
  }

  /// Gives it back.
  void free(Pointer<NativeType> pointer) => freeFunction(pointer.cast());
}
