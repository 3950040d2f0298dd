// What goes wrong, by whose fault it was.
//
// It does not ask the library for the fields of an error; native/errors.dart does.

import 'dart:async' show TimeoutException;

/// What a call of this package failed with. The subclasses say whose fault it was.
sealed class CenoteException implements Exception {
  /// An exception with these words.
  const CenoteException(this.message);

  /// What went wrong, for a person. Never holds a password.
  final String message;

  @override
  String toString() => '$runtimeType: $message';
}

/// The server refused the statement or the log-in: its own words, with every field it sent.
final class ServerException extends CenoteException {
  /// An exception with the server's fields.
  const ServerException(
    super.message, {
    required this.sqlState,
    required this.serverMessage,
    this.number = 0,
    this.batchIndex,
    this.severity,
    this.detail,
    this.hint,
    this.schema,
    this.table,
    this.column,
    this.dataType,
    this.constraint,
    this.context,
    this.internalQuery,
    this.file,
    this.routine,
    this.line,
    this.position,
    this.internalPosition,
  });

  /// The SQLSTATE: five characters, `23505` for a row that exists already.
  final String sqlState;

  /// The server's own words, without where it happened.
  final String serverMessage;

  /// MySQL's number of the error, 1062 for a row that exists already; 0 on Postgres.
  final int number;

  /// In a batch: the number of the statement that failed, from 0.
  final int? batchIndex;

  /// Postgres: `ERROR`, `FATAL` or `PANIC`, never translated.
  final String? severity;

  /// Postgres: more about it.
  final String? detail;

  /// Postgres: what to do about it.
  final String? hint;

  /// Postgres: the schema it is about.
  final String? schema;

  /// Postgres: the table it is about.
  final String? table;

  /// Postgres: the column it is about.
  final String? column;

  /// Postgres: the data type it is about.
  final String? dataType;

  /// Postgres: the constraint that was violated.
  final String? constraint;

  /// Postgres: where in the server's calls it happened.
  final String? context;

  /// Postgres: the query that the server made by itself.
  final String? internalQuery;

  /// Postgres: the server's source file.
  final String? file;

  /// Postgres: the routine in it.
  final String? routine;

  /// Postgres: the line in it.
  final int? line;

  /// Postgres: the place in the statement, from 1, in characters.
  final int? position;

  /// Postgres: the place in [internalQuery].
  final int? internalPosition;
}

/// No room, or no answer, in time. Also a [TimeoutException] of `dart:async`.
final class CenoteTimeoutException extends CenoteException implements TimeoutException {
  /// An exception with these words.
  const CenoteTimeoutException(super.message, {this.duration, this.wasSent});

  /// The time that was allowed, where the caller named it.
  @override
  final Duration? duration;

  /// Whether the statement had left: then it may run, or have run, all the same. `null`: not known.
  final bool? wasSent;
}

/// The pool, lease or transaction was closed.
final class ClosedException extends CenoteException {
  /// An exception with these words.
  const ClosedException(super.message);
}

/// The caller's [CancelToken](../cenote/CancelToken-class.html) was cancelled.
final class CancelledException extends CenoteException {
  /// An exception with these words.
  const CancelledException([super.message = 'cancelled by its caller']);
}

/// The connection could not be made, or was lost.
final class NetworkException extends CenoteException {
  /// An exception with these words.
  const NetworkException(super.message, {this.wasSent});

  /// `true`: the statement was sent and there is no answer, so it may have happened. `false`: nothing happened. `null`: the
  /// question does not arise.
  final bool? wasSent;
}

/// The other end does not keep to the protocol.
final class PeerException extends CenoteException {
  /// An exception with these words.
  const PeerException(super.message);
}

/// The server has ended the transaction by itself.
final class TransactionLostException extends CenoteException {
  /// An exception with these words.
  const TransactionLostException(super.message);
}

/// The statement was at fault: a parameter that its type cannot hold, a number of parameters that is wrong, a statement that
/// does not belong where it was sent.
final class StatementException extends CenoteException {
  /// An exception with these words.
  const StatementException(super.message, {this.batchIndex});

  /// In a batch: the number of the statement, from 0.
  final int? batchIndex;
}

/// A query that was to return one row returned none, or several.
final class RowCountException extends CenoteException {
  /// An exception for so many rows.
  const RowCountException(super.message, this.rows);

  /// How many it returned.
  final int rows;
}

/// A field cannot be read as what it was asked for: another type, NULL, or bytes that are no text.
final class ValueException extends CenoteException {
  /// An exception with these words.
  const ValueException(super.message, {this.column});

  /// The column's name.
  final String? column;
}

/// A bound was met: operations under way at once, or the bytes of a result.
final class LimitException extends CenoteException {
  /// An exception with these words.
  const LimitException(super.message);
}

/// The native library is not to be found, is of another version, or failed in itself.
final class LibraryException extends CenoteException {
  /// An exception with these words.
  const LibraryException(super.message);
}
