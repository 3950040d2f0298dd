// An isolate's context: what it has under way, and how it hears of what has ended.
//
// ```text
//  query ──> writer ──(once per microtask turn: one submit)──> library
//                                                                │ one message to the port, for any number
//  completers <──(a turn: at most 1,024 drained)── port <────────┘
// ```

// Nothing here is exported.
// ignore_for_file: public_member_api_docs

import 'dart:async';
import 'dart:convert' show utf8;
import 'dart:ffi';
import 'dart:isolate' show RawReceivePort;
import 'dart:typed_data';

import '../cancel_token.dart';
import '../exceptions.dart';
import 'errors.dart';
import 'http.dart';
import 'library.dart';
import 'memory.dart';
import 'operation.dart';
import 'request.dart';
import 'structs.dart';

/// What is drained in one turn of the event loop at most, so that timers and sockets of the isolate have their turn.
const _turnMax = 1024;

/// The drain buffer, and the least that the library takes.
const _bufferBytes = 64 * 1024;
const _bufferBytesMin = 4096;

/// Behind the buffer: what the library writes besides.
const _scratchBytes = 64;

/// How long a turn of an isolate that serves HTTP waits for what is under way: so long nobody else of the isolate is served,
/// and so seldom another thread has to be woken.
const _waitMs = 1;

/// What is handed to the library in one call, at most, unless one is larger: it takes less than 1 GiB.
const _pieceBytes = 64 * 1024 * 1024;

/// The longest time a statement may be given: what the library takes.
const _timeoutMsMax = 0xffffffff;

/// The context of an isolate.
final class Context implements Finalizable {
  Context._(this.library) : _writer = RequestWriter(library), _buffer = library.allocate(_bufferBytes + _scratchBytes) {
    library.freeFinalizer.attach(this, _buffer.cast());
    _bytes = _buffer.asTypedList(_bufferBytes);
    _data = ByteData.sublistView(_bytes);
    final scratch = _buffer.address + _bufferBytes;
    _count = Pointer.fromAddress(scratch);
    _more = Pointer.fromAddress(scratch + 8);
    _number = Pointer.fromAddress(scratch + 16);
    _error = Pointer.fromAddress(scratch + 24);
    _port = RawReceivePort(_turn, 'cenote')..keepIsolateAlive = false;
    _handle = _make();
    // An isolate that ends without a word takes all of this along.
    library.contextFinalizer.attach(this, Pointer.fromAddress(_handle));
  }

  static Context? _current;

  /// The context of this isolate, made on first use.
  static Context get current => _current ??= Context._(Library.current);

  final Library library;
  final RequestWriter _writer;
  final Slots _slots = Slots();
  final Reply _reply = Reply();
  final Pointer<Uint8> _buffer;
  late final Uint8List _bytes;
  late final ByteData _data;
  late final Pointer<Uint32> _count;
  late final Pointer<Int32> _more;
  late final Pointer<Uint64> _number;
  late final Pointer<Uint64> _error;
  late final RawReceivePort _port;
  late final int _handle;
  bool _flushes = false;

  /// Servers by their tags, which are negative: those of operations are not.
  final Map<int, HttpHost> _servers = {};
  int _lastServer = 0;

  /// A turn of our own is under way, as a message to ourselves.
  bool _turns = false;

  /// How many operations are under way.
  int get operations => _slots.taken;

  int _make() {
    final options = library.allocate(sizeOf<ContextOptions>()).cast<ContextOptions>();
    try {
      options.ref
        ..size = sizeOf<ContextOptions>()
        ..wake = wakeDartPort
        ..function = nullptr
        ..data = nullptr
        ..dartApi = NativeApi.initializeApiDLData
        ..dartPort = _port.sendPort.nativePort
        ..operationsMax = 0;
      final status = library.contextNew(options, _number);
      if (status != statusOk) {
        _port.close();
        throw refusal(status);
      }
      return _number.value;
    } finally {
      library.free(options);
    }
  }

  /// Opens a pool; its handle.
  int openPool(String url) {
    final bytes = utf8.encode(url);
    final text = library.allocate(bytes.length + 1);
    try {
      text.asTypedList(bytes.length).setAll(0, bytes);
      _error.value = 0;
      final status = library.poolOpen(_handle, text, bytes.length, _number, _error);
      if (status == statusOk) return _number.value;
      throw _error.value == 0 ? refusal(status) : takeError(library, _error.value);
    } finally {
      library.free(text);
    }
  }

  /// Has a server listen; its handle.
  int listen(
    HttpHost host,
    String address, {
    required int flags,
    required int bodyBytesMax,
    required int connectionsMax,
    required Duration stopDeadline,
    required Duration keepAliveTimeout,
  }) {
    final bytes = utf8.encode(address);
    final options = library.allocate(sizeOf<HttpOptions>() + bytes.length);
    try {
      final text = Pointer<Uint8>.fromAddress(options.address + sizeOf<HttpOptions>());
      text.asTypedList(bytes.length).setAll(0, bytes);
      options.cast<HttpOptions>().ref
        ..size = sizeOf<HttpOptions>()
        ..flags = flags
        ..address = text
        ..addressLength = bytes.length
        ..bodyBytesMax = bodyBytesMax
        ..connectionsMax = connectionsMax
        ..stopDeadlineMs = _milliseconds(stopDeadline)
        ..keepAliveTimeoutMs = _milliseconds(keepAliveTimeout);
      final tag = _lastServer - 1;
      _error.value = 0;
      final status = library.httpListen(_handle, options.cast(), tag, _number, _error);
      if (status != statusOk) throw _error.value == 0 ? refusal(status) : takeError(library, _error.value);
      _lastServer = tag;
      _servers[tag] = host;
      _port.keepIsolateAlive = true;
      return _number.value;
    } finally {
      library.free(options);
    }
  }

  /// The port of a server.
  int portOf(int server) {
    final status = library.httpPort(server, _number.cast());
    if (status != statusOk) throw refusal(status);
    return _number.cast<Uint16>().value;
  }

  /// Asks a server to end.
  void stop(int server) => library.httpStop(server);

  /// Lets go of one that has ended.
  void forget(int server) => library.httpFree(server);

  /// Hands answers over.
  void handOver(int server, AnswerWriter answers) {
    var place = 0;
    while (place < answers.length) {
      final piece = _piece(answers, place);
      _count.value = 0;
      final status = library.httpAnswers(server, Pointer.fromAddress(answers.pointer.address + place), piece, _count);
      for (var read = _count.value; read > 0; read--) {
        place += answers.lengthAt(place);
      }
      if (status == statusOk) continue;
      if (status != statusArgument || answers.lengthAt(place) < answerBytes) return;
      // The next cannot be sent as it is (a header that is none, for instance): its client is told.
      final request = answers.data.getUint64(place + 8, Endian.host);
      library.httpAnswer(server, request, 500, 0, nullptr, 0, nullptr, 0, nullptr, 0);
      place += answers.lengthAt(place);
    }
  }

  /// How many bytes of what was written are handed over at once: whole ones, of a size that the library takes.
  static int _piece(Memory written, int place) {
    if (written.length - place <= _pieceBytes) return written.length - place;
    var end = place + written.lengthAt(place);
    while (end < written.length && end + written.lengthAt(end) - place <= _pieceBytes) {
      end += written.lengthAt(end);
    }
    return end - place;
  }

  /// Answers wait to be handed over.
  void answered() {
    if (!_turns) _flushSoon();
  }

  /// Runs statements: one, or a batch.
  Future<T> run<T>(
    int target,
    List<(String, List<Object?>)> statements,
    T Function(Reply reply) read, {
    required bool isBatch,
    required bool isMySql,
    bool idempotent = false,
    Duration? timeout,
    CancelToken? token,
    void Function()? onCancel,
  }) {
    if (token != null && token.isCancelled) return Future.error(const CancelledException(), StackTrace.current);
    final operation = Operation<T>(read);
    _begin(operation);
    try {
      _writer.write(
        operation.tag,
        target,
        statements,
        isBatch: isBatch,
        isMySql: isMySql,
        idempotent: idempotent,
        timeoutMs: isBatch ? 0 : _milliseconds(timeout),
      );
    } on Object catch (error) {
      _end(operation.tag);
      operation.fail(error);
      return operation.future;
    }
    _flushSoon();
    if (isBatch) _limit(operation, timeout);
    if (token != null) _listen(operation, token, onCancel);
    return operation.future;
  }

  /// Does what the library has a call for. What was asked before goes first.
  Future<T> call<T>(
    int Function(int context, int tag) submit,
    T Function(Reply reply) read, {
    Duration? timeout,
    CancelToken? token,
  }) {
    if (token != null && token.isCancelled) return Future.error(const CancelledException(), StackTrace.current);
    flush();
    final operation = Operation<T>(read);
    _begin(operation);
    final status = submit(_handle, operation.tag);
    if (status != statusOk) {
      _end(operation.tag);
      operation.fail(refusal(status));
      return operation.future;
    }
    _limit(operation, timeout);
    if (token != null) _listen(operation, token, null);
    return operation.future;
  }

  /// Submits what was written.
  void flush() {
    if (_writer.isEmpty) return;
    var place = 0;
    while (place < _writer.length) {
      final piece = _piece(_writer, place);
      _count.value = 0;
      final status = library.submit(_handle, Pointer.fromAddress(_writer.pointer.address + place), piece, _count);
      for (var submitted = _count.value; submitted > 0; submitted--) {
        place += _writer.lengthAt(place);
      }
      if (status == statusOk) continue;
      // The next was refused; those behind it have nothing to do with it.
      final refused = _end(_writer.tagAt(place));
      refused?.fail(refusal(status));
      place += _writer.lengthAt(place);
    }
    _writer.clear();
  }

  void _flushSoon() {
    if (_flushes) return;
    _flushes = true;
    scheduleMicrotask(_flushLater);
  }

  void _flushLater() {
    _flushes = false;
    flush();
    if (!_turns) _flushServers();
  }

  void _flushServers() {
    for (final server in _servers.values) {
      server.flush();
    }
  }

  void _begin(Operation<Object?> operation) {
    if (_slots.taken == 0) _port.keepIsolateAlive = true;
    _slots.take(operation);
  }

  Operation<Object?>? _end(int tag) {
    final operation = _slots.remove(tag);
    if (operation == null) return null;
    if (_slots.taken == 0 && _servers.isEmpty) _port.keepIsolateAlive = false;
    operation.settle();
    return operation;
  }

  /// Ends an operation early: nobody waits for it any more.
  void _abandon(Operation<Object?> operation, CenoteException error) {
    final tag = operation.tag;
    if (tag < 0) return;
    // It may not be known to the library yet.
    flush();
    if (_end(tag) == null) return;
    library.abandon(_handle, tag);
    operation.fail(error);
  }

  void _limit(Operation<Object?> operation, Duration? timeout) {
    if (timeout == null) return;
    operation.timer = Timer(timeout, () {
      _abandon(operation, CenoteTimeoutException('not answered within $timeout', duration: timeout));
    });
  }

  void _listen(Operation<Object?> operation, CancelToken token, void Function()? onCancel) {
    operation
      ..token = token
      ..onCancel = () {
        // Asked before it is abandoned: then the request is behind it.
        flush();
        onCancel?.call();
        _abandon(operation, const CancelledException());
      };
    token.listen(operation.onCancel!);
  }

  static int _milliseconds(Duration? timeout) {
    if (timeout == null) return 0;
    // 0 would be for ever.
    return ((timeout.inMicroseconds + 999) ~/ 1000).clamp(1, _timeoutMsMax);
  }

  /// A message: of the library, that there is something (an integer), or our own, for another turn.
  void _turn(Object? message) {
    if (message == null) {
      _turns = false;
    } else if (_turns) {
      // It will be seen in the turn that comes.
      return;
    }
    try {
      if (_servers.isEmpty) {
        _drain();
      } else {
        _serve();
      }
    } on Object {
      // Whatever it was: what comes is still seen.
      _turnAgain();
      rethrow;
    }
  }

  void _turnAgain() {
    _turns = true;
    _port.sendPort.send(null);
  }

  /// One turn: drains, and lets others have theirs.
  void _drain() {
    var left = _turnMax;
    while (true) {
      final capacity = (left * completionBytes).clamp(_bufferBytesMin, _bufferBytes);
      final status = library.drain(_handle, _buffer, capacity, _count, _more);
      if (status != statusOk) {
        _failed(status);
        return;
      }
      final count = _count.value;
      _completeAll(count);
      if (_more.value == 0) return;
      left -= count;
      if (left * completionBytes < _bufferBytesMin) break;
    }
    _turnAgain();
  }

  /// One turn of an isolate that serves HTTP: on this thread answers are written, requests read, queries sent and their
  /// answers collected. While there is nothing to do a thread of the library watches, and this one sleeps.
  void _serve() {
    flush();
    _flushServers();
    final status = library.wait(_handle, _slots.taken > 0 ? _waitMs : 0, _buffer, _bufferBytes, _count, _more);
    if (status != statusOk) {
      _failed(status);
      return;
    }
    final count = _count.value;
    _completeAll(count);
    if (count > 0 || _slots.taken > 0 || _flushes) {
      _turnAgain();
    } else {
      library.contextSleep(_handle);
    }
  }

  void _completeAll(int count) {
    final more = _more.value;
    for (var number = 0; number < count; number++) {
      try {
        _complete(number * completionBytes);
      } on Object catch (error, trace) {
        // One is not to cost the others that came with it.
        Zone.current.handleUncaughtError(error, trace);
      }
    }
    _more.value = more;
  }

  void _failed(int status) {
    if (status == statusBusy) {
      _turnAgain();
      return;
    }
    for (final tag in _slots.tags) {
      _end(tag)?.fail(refusal(status));
    }
    if (status == statusPanic) {
      _turnAgain();
      return;
    }
    // The context is gone, and its servers with it.
    final servers = _servers.values.toList();
    _servers.clear();
    _port.keepIsolateAlive = false;
    for (final server in servers) {
      server.ended(refusal(status));
    }
  }

  void _complete(int at) {
    final tag = _data.getInt64(at, Endian.host);
    final flags = _data.getUint32(at + 12, Endian.host);
    final value = _data.getUint64(at + 16, Endian.host);
    final length = _data.getUint64(at + 24, Endian.host);
    final handle = _data.getUint64(at + 32, Endian.host);
    if (tag < 0) {
      _pass(tag, flags, value, length, handle);
      return;
    }
    final operation = _end(tag);
    if (flags & completionError != 0) {
      final error = takeError(library, handle);
      operation?.fail(error);
      return;
    }
    if (operation == null) {
      // Nobody waits for it any more.
      if (flags & completionBlock != 0) library.blockFree(handle);
      if (flags & completionSession != 0) library.sessionFree(handle);
      return;
    }
    if (flags & completionInline != 0) {
      _reply.block = Uint8List(length)..setRange(0, length, _bytes, value);
    } else if (flags & completionBlock != 0) {
      _reply.block = Pointer<Uint8>.fromAddress(
        value,
      ).asTypedList(length, finalizer: library.blockFinalizer, token: Pointer.fromAddress(handle));
    } else {
      _reply.block = null;
    }
    _reply
      ..value = value
      ..handle = handle;
    operation.complete(_reply);
    _reply.block = null;
  }

  /// Passes a server what is its own.
  void _pass(int tag, int flags, int value, int length, int handle) {
    final server = _servers[tag];
    if (flags & completionEnded != 0) {
      _servers.remove(tag);
      if (_servers.isEmpty && _slots.taken == 0) _port.keepIsolateAlive = false;
      server?.ended(flags & completionError != 0 ? takeError(library, handle) : null);
    } else if (flags & completionInline != 0) {
      server?.request(_bytes, _data, value);
    } else {
      try {
        final bytes = Pointer<Uint8>.fromAddress(value).asTypedList(length);
        server?.request(bytes, ByteData.sublistView(bytes), 0);
      } finally {
        library.blockFree(handle);
      }
    }
  }
}
