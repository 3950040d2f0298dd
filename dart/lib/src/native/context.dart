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
import 'library.dart';
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
    } on CenoteException catch (error) {
      _end(operation.tag);
      operation.fail(error);
      return operation.future;
    }
    if (!_flushes) {
      _flushes = true;
      scheduleMicrotask(_flushLater);
    }
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
      final rest = _writer.length - place;
      final status = library.submit(_handle, Pointer.fromAddress(_writer.memory.address + place), rest, _count);
      if (status == statusOk) break;
      for (var submitted = _count.value; submitted > 0; submitted--) {
        place += _writer.lengthAt(place);
      }
      // The next was refused; those behind it have nothing to do with it.
      final refused = _end(_writer.tagAt(place));
      refused?.fail(refusal(status));
      place += _writer.lengthAt(place);
    }
    _writer.clear();
  }

  void _flushLater() {
    _flushes = false;
    flush();
  }

  void _begin(Operation<Object?> operation) {
    if (_slots.taken == 0) _port.keepIsolateAlive = true;
    _slots.take(operation);
  }

  Operation<Object?>? _end(int tag) {
    final operation = _slots.remove(tag);
    if (operation == null) return null;
    if (_slots.taken == 0) _port.keepIsolateAlive = false;
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

  /// One turn: drains, and lets others have theirs.
  void _turn(Object? _) {
    var left = _turnMax;
    while (true) {
      final capacity = (left * completionBytes).clamp(_bufferBytesMin, _bufferBytes);
      final status = library.drain(_handle, _buffer, capacity, _count, _more);
      if (status != statusOk) {
        _failed(status);
        return;
      }
      final count = _count.value;
      final more = _more.value != 0;
      for (var number = 0; number < count; number++) {
        _complete(number * completionBytes);
      }
      if (!more) return;
      left -= count;
      if (left * completionBytes < _bufferBytesMin) break;
    }
    _port.sendPort.send(null);
  }

  void _failed(int status) {
    if (status == statusBusy) {
      _port.sendPort.send(null);
      return;
    }
    for (final tag in _slots.tags) {
      _end(tag)?.fail(refusal(status));
    }
  }

  void _complete(int at) {
    final operation = _end(_data.getInt64(at, Endian.host));
    final flags = _data.getUint32(at + 12, Endian.host);
    final value = _data.getUint64(at + 16, Endian.host);
    final length = _data.getUint64(at + 24, Endian.host);
    final handle = _data.getUint64(at + 32, Endian.host);
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
}
