part of '../database.dart';

/// A pool's counters. Those that count run from its opening and never go back.
final class PoolStats {
  PoolStats._(StatsStruct now)
    : connectionsMax = now.connectionsMax,
      connections = now.connections,
      leases = now.leases,
      inFlight = now.inFlight,
      waiting = now.waiting,
      waitingForLease = now.waitingForLease,
      replies = now.replies,
      writes = now.writes,
      reads = now.reads,
      bytesWritten = now.bytesWritten,
      bytesRead = now.bytesRead,
      connects = now.connects,
      connectFailures = now.connectFailures,
      connectionsLost = now.connectionsLost,
      leasesTaken = now.leasesTaken,
      leasesRestored = now.leasesRestored,
      lostAfterSent = now.lostAfterSent;

  /// The bound on connections.
  final int connectionsMax;

  /// Connections that exist or are being made.
  final int connections;

  /// Of these: leased, for leases and transactions.
  final int leases;

  /// Statements in flight on shared connections.
  final int inFlight;

  /// Callers that wait for room.
  final int waiting;

  /// Callers that wait for a lease.
  final int waitingForLease;

  /// Replies received.
  final int replies;

  /// Write system calls.
  final int writes;

  /// Read system calls that brought bytes.
  final int reads;

  /// Bytes written.
  final int bytesWritten;

  /// Bytes read.
  final int bytesRead;

  /// Connections made.
  final int connects;

  /// Attempts to connect that failed.
  final int connectFailures;

  /// Connections that ended before they were closed from here.
  final int connectionsLost;

  /// Leases taken.
  final int leasesTaken;

  /// Leases that had to be rolled back or reset when they came back.
  final int leasesRestored;

  /// Statements whose connection was lost after they were sent.
  final int lostAfterSent;
}

/// A pool of connections, shared by all isolates of the process that open it with equal settings.
///
/// It belongs to its isolate: another opens its own, by the same URL, and has the same connections.
final class Pool extends Executor {
  Pool._(super.context, super.isMySql, this._handle) : super._() {
    _context.library.poolFinalizer.attach(this, Pointer.fromAddress(_handle), detach: this);
  }

  /// Opens a pool by its URL: `postgres://user:password@host/database?pool_size=8`, or `mysql://..`. Nothing is connected yet.
  ///
  /// Throws a [StatementException] if the URL makes no sense.
  factory Pool.open(String url) {
    final context = Context.current;
    return Pool._(context, _mySqlUrl.hasMatch(url), context.openPool(url));
  }

  static final _mySqlUrl = RegExp('^(?:mysql|mariadb):', caseSensitive: false);

  int _handle;

  @override
  int get _target => _handle;

  @override
  void Function()? get _stop => null;

  /// Begins a transaction on a connection of its own. It costs no round trip: it begins with its first statement.
  ///
  /// [deferrable] is Postgres' (with [Isolation.serializable] and [readOnly] it never fails), [snapshot] MySQL's (its snapshot is taken at
  /// once). One that is neither committed nor rolled back is rolled back when it is collected, or when its isolate ends.
  Future<Transaction> begin({
    Isolation isolation = Isolation.serverDefault,
    bool readOnly = false,
    bool deferrable = false,
    bool snapshot = false,
    Duration? timeout,
    CancelToken? cancel,
  }) {
    final flags = (readOnly ? 1 : 0) | (deferrable ? 2 : 0) | (snapshot ? 4 : 0);
    final library = _context.library;
    return _context.call(
      (context, tag) => library.begin(context, _handle, isolation.index, flags, tag),
      (reply) => Transaction._(_context, _isMySql, reply.handle),
      timeout: timeout,
      token: cancel,
    );
  }

  /// Runs [work] in a transaction: committed when it returns, rolled back when it throws.
  Future<T> transaction<T>(
    Future<T> Function(Transaction transaction) work, {
    Isolation isolation = Isolation.serverDefault,
    bool readOnly = false,
    bool deferrable = false,
    bool snapshot = false,
    Duration? timeout,
    CancelToken? cancel,
  }) async {
    final transaction = await begin(
      isolation: isolation,
      readOnly: readOnly,
      deferrable: deferrable,
      snapshot: snapshot,
      timeout: timeout,
      cancel: cancel,
    );
    final T value;
    try {
      value = await work(transaction);
    } on Object {
      if (!transaction.isEnded) {
        // What was thrown says more than a roll-back that fails because of it.
        await transaction.rollback().onError<CenoteException>((_, _) {});
      }
      rethrow;
    }
    if (!transaction.isEnded) await transaction.commit();
    return value;
  }

  /// Takes a connection for the caller alone, to be given back by [Lease.release].
  Future<Lease> lease({Duration? timeout, CancelToken? cancel}) {
    final library = _context.library;
    return _context.call(
      (context, tag) => library.lease(context, _handle, tag),
      (reply) => Lease._(_context, _isMySql, reply.handle),
      timeout: timeout,
      token: cancel,
    );
  }

  /// Its counters right now, of the whole process.
  PoolStats get stats {
    final library = _context.library;
    final stats = library.allocate(sizeOf<StatsStruct>()).cast<StatsStruct>();
    try {
      stats.ref.size = sizeOf<StatsStruct>();
      final status = library.poolStats(_handle, stats);
      if (status != statusOk) throw refusal(status);
      return PoolStats._(stats.ref);
    } finally {
      library.free(stats);
    }
  }

  /// Closes this open of the pool; others, of this isolate or another, are not touched. What is in flight finishes; whoever is
  /// last waits for that, for at most [deadline]. What still waits for a connection fails with a [ClosedException]. Harmless when
  /// it was closed already.
  Future<void> close({Duration deadline = const Duration(seconds: 5)}) {
    final handle = _handle;
    if (handle == 0) return Future.value();
    _context.flush();
    _handle = 0;
    final library = _context.library;
    library.poolFinalizer.detach(this);
    final milliseconds = deadline.inMilliseconds.clamp(0, 0xffffffff);
    return _context.call((context, tag) => library.poolClose(context, handle, milliseconds, tag), (_) {});
  }
}
