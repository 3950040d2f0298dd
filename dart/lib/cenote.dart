/// Postgres and MySQL for Dart servers: one pool of pipelined connections for all isolates of a process, results that are
/// decoded only where they are read.
///
/// ```dart
/// final pool = Pool.open('postgres://app:secret@localhost/shop');
/// final row = await pool.queryOne(r'select id, name from item where id = $1', parameters: [42]);
/// print(row.getString('name'));
/// ```
library;

export 'src/cancel_token.dart' show CancelToken;
export 'src/column.dart' show Column;
export 'src/database.dart'
    show Cenote, CenoteCounts, Executor, Isolation, Lease, Pool, PoolStats, Statement, Transaction;
export 'src/exceptions.dart';
export 'src/http.dart' show Handler, Request, Response, Server;
export 'src/result.dart' show Result, Row;
export 'src/values.dart';
