part of '../database.dart';

/// How isolated a transaction is.
enum Isolation {
  /// As the server is set.
  serverDefault,

  /// READ UNCOMMITTED; MySQL alone.
  readUncommitted,

  /// READ COMMITTED.
  readCommitted,

  /// REPEATABLE READ.
  repeatableRead,

  /// SERIALIZABLE.
  serializable,
}

/// What one caller has for himself: a connection, until it is given back. One that is forgotten is given back when it is
/// collected, or when its isolate ends.
abstract base class _Session extends Executor {
  _Session(super.context, super.isMySql, this._handle) : super._() {
    _context.library.sessionFinalizer.attach(this, Pointer.fromAddress(_handle), detach: this);
  }

  int _handle;

  @override
  int get _target => _handle;

  @override
  void Function() get _stop =>
      () => cancelRunning().ignore();

  /// Whether it was ended.
  bool get isEnded => _handle == 0;

  /// Asks the server to stop what runs in it; `false` if there was nothing to stop.
  Future<bool> cancelRunning() {
    final handle = _handle;
    return _context.call((context, tag) => _context.library.cancel(context, handle, tag), (reply) => reply.value != 0);
  }

  /// Takes the handle out: nothing of this object's can be asked for any more.
  int _take() {
    final handle = _handle;
    if (handle != 0) _context.library.sessionFinalizer.detach(this);
    _handle = 0;
    return handle;
  }

  void _free() {
    final handle = _take();
    if (handle == 0) return;
    // What was asked for before has to be in front.
    _context.flush();
    _context.library.sessionFree(handle);
  }
}

/// A connection for one caller alone, for what needs a session: `SET`, temporary tables, advisory locks. See [Pool.lease].
final class Lease extends _Session {
  Lease._(super.context, super.isMySql, super.handle);

  /// Gives it back; what was asked for before runs to its end first. What was changed of the session is set back. Harmless when
  /// it was given back already.
  void release() => _free();
}

/// A transaction. See [Pool.begin] and [Pool.transaction].
final class Transaction extends _Session {
  Transaction._(super.context, super.isMySql, super.handle);

  /// Commits it, behind all that was asked for before.
  Future<void> commit() => _end(_context.library.commit);

  /// Rolls it back, behind all that was asked for before.
  Future<void> rollback() => _end(_context.library.rollback);

  Future<void> _end(int Function(int context, int handle, int tag) end) {
    _context.flush();
    final handle = _take();
    return _context.call((context, tag) => end(context, handle, tag), (_) {});
  }
}
