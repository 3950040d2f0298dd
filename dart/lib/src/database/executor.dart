part of '../database.dart';

/// A statement of a batch, with its parameters.
final class Statement {
  /// A statement with its parameters.
  const Statement(this.sql, [this.parameters = const []]);

  /// The SQL.
  final String sql;

  /// Its parameters, in the order of `$1`, `$2`, or of the question marks.
  final List<Object?> parameters;
}

/// What runs statements: a [Pool], a [Lease] or a [Transaction].
///
/// Parameters are `null`, `bool`, `int`, `double`, `String`, `Uint8List`, `DateTime` (the moment: a local one is converted),
/// `Duration`, `BigInt`, a `Map` (as JSON), a `List` (on Postgres an array, on MySQL JSON), and the wrappers `Decimal`, `Json`,
/// `Date`, `TimeOfDay`, `Interval` and `Uuid`. Text goes to a parameter of any type of Postgres, as the server reads text.
///
/// `timeout` is how long the answer is waited for, with a [CenoteTimeoutException] at its end; `cancel` ends the wait from
/// outside. What was sent on a shared connection runs to its end all the same, and its result is dropped. `idempotent`: the
/// statement may run twice, so it is sent once more if its connection is lost with it.
///
/// Statements that are asked for in one turn of the event loop leave together; each succeeds or fails by itself.
abstract base class Executor implements Finalizable {
  Executor._(this._context, this._isMySql);

  final Context _context;
  final bool _isMySql;

  /// The handle that statements go to; 0 where there is none any more, which the library refuses.
  int get _target;

  /// Has the server stop what a cancelled call runs, where that hits nobody else.
  void Function()? get _stop;

  /// Runs a statement and returns its rows.
  Future<Result> query(
    String sql, {
    List<Object?> parameters = const [],
    Duration? timeout,
    CancelToken? cancel,
    bool idempotent = false,
  }) => _query(sql, parameters, (result) => result, timeout, cancel, idempotent);

  /// Runs a statement that returns one row; a [RowCountException] if there is none, or another.
  Future<Row> queryOne(
    String sql, {
    List<Object?> parameters = const [],
    Duration? timeout,
    CancelToken? cancel,
    bool idempotent = false,
  }) => _query(
    sql,
    parameters,
    (result) => result.length == 1 ? result[0] : throw _rowCount('one row', result.length),
    timeout,
    cancel,
    idempotent,
  );

  /// Runs a statement that returns one row, or none.
  Future<Row?> queryOpt(
    String sql, {
    List<Object?> parameters = const [],
    Duration? timeout,
    CancelToken? cancel,
    bool idempotent = false,
  }) => _query(
    sql,
    parameters,
    (result) => result.length > 1 ? throw _rowCount('one row at most', result.length) : result.firstOrNull,
    timeout,
    cancel,
    idempotent,
  );

  /// Runs a statement and returns how many rows it changed. What else it did is in the [Result] of [query].
  Future<int> execute(
    String sql, {
    List<Object?> parameters = const [],
    Duration? timeout,
    CancelToken? cancel,
    bool idempotent = false,
  }) => _query(sql, parameters, (result) => result.rowsAffected, timeout, cancel, idempotent);

  /// Runs several statements, of which all happen or none: on Postgres in one round trip, on MySQL in a transaction. Their results
  /// are in their order.
  Future<List<Result>> batch(List<Statement> statements, {Duration? timeout, CancelToken? cancel}) {
    if (statements.isEmpty) return Future.value(const []);
    final texts = [for (final statement in statements) statement.sql];
    return _context.run(
      _target,
      [for (final statement in statements) (statement.sql, statement.parameters)],
      (reply) => readBatch(texts, reply.block!),
      isBatch: true,
      isMySql: _isMySql,
      timeout: timeout,
      token: cancel,
      onCancel: cancel == null ? null : _stop,
    );
  }

  Future<T> _query<T>(
    String sql,
    List<Object?> parameters,
    T Function(Result result) read,
    Duration? timeout,
    CancelToken? cancel,
    bool idempotent,
  ) => _context.run(
    _target,
    [(sql, parameters)],
    (reply) => read(readResult(sql, reply.block!)),
    isBatch: false,
    isMySql: _isMySql,
    idempotent: idempotent,
    timeout: timeout,
    token: cancel,
    onCancel: cancel == null ? null : _stop,
  );

  static RowCountException _rowCount(String expected, int rows) =>
      RowCountException('$expected was expected, and there are $rows', rows);
}
