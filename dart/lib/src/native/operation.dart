// What is under way: an operation has a slot, whose number and generation are its tag, and ends once.

// Nothing here is exported.
// ignore_for_file: public_member_api_docs

import 'dart:async';
import 'dart:typed_data';

import '../cancel_token.dart';

/// What an operation came to, for as long as it is read.
final class Reply {
  /// Its block, the host's own by now.
  Uint8List? block;

  /// The answer to a question.
  int value = 0;

  /// A lease or a transaction.
  int handle = 0;
}

/// One operation.
final class Operation<T> {
  Operation(this._read);

  final T Function(Reply reply) _read;
  final Completer<T> _completer = Completer<T>();

  /// Its slot and that slot's generation; -1 when it has none any more.
  int tag = -1;

  /// What ends it early.
  Timer? timer;
  CancelToken? token;
  void Function()? onCancel;

  Future<T> get future => _completer.future;

  void complete(Reply reply) {
    final T value;
    try {
      value = _read(reply);
    } on Object catch (error, trace) {
      _completer.completeError(error, trace);
      return;
    }
    _completer.complete(value);
  }

  void fail(Object error) => _completer.completeError(error, StackTrace.current);

  /// Nothing will end it early any more.
  void settle() {
    timer?.cancel();
    final onCancel = this.onCancel;
    if (onCancel != null) token?.forget(onCancel);
  }
}

/// Operations by their slots. A slot is used again and again; a generation tells one use from the next.
final class Slots {
  final List<Operation<Object?>?> _operations = [];
  final List<int> _generations = [];
  final List<int> _free = [];
  int _taken = 0;

  /// How many are under way.
  int get taken => _taken;

  void take(Operation<Object?> operation) {
    final int slot;
    if (_free.isNotEmpty) {
      slot = _free.removeLast();
      _operations[slot] = operation;
    } else {
      slot = _operations.length;
      _operations.add(operation);
      _generations.add(0);
    }
    _taken++;
    operation.tag = _generations[slot] << 32 | slot;
  }

  /// Takes the operation with this tag out of its slot; `null` if there is none any more.
  Operation<Object?>? remove(int tag) {
    final slot = tag & 0xffffffff;
    if (tag < 0 || slot >= _operations.length || _generations[slot] != tag >> 32) return null;
    final operation = _operations[slot];
    if (operation == null) return null;
    _operations[slot] = null;
    // Stays positive, as a tag has to.
    _generations[slot] = (_generations[slot] + 1) & 0x7fffffff;
    _free.add(slot);
    _taken--;
    operation.tag = -1;
    return operation;
  }

  /// All that are under way.
  List<int> get tags => [
    for (final operation in _operations)
      if (operation != null) operation.tag,
  ];
}
