// Errors of the library as exceptions, with all their fields.

// Nothing here is exported.
// ignore_for_file: public_member_api_docs

import 'dart:convert' show utf8;
import 'dart:ffi';

import '../exceptions.dart';
import 'library.dart';
import 'structs.dart';

const _message = 0;
const _sqlState = 1;
const _serverMessage = 2;

/// Reads an error and frees it.
CenoteException takeError(Library library, int handle) {
  final info = library.allocate(sizeOf<ErrorInfo>() + sizeOf<Pointer<Uint8>>() + sizeOf<Size>()).cast<ErrorInfo>();
  try {
    info.ref.size = sizeOf<ErrorInfo>();
    final status = library.errorInfo(handle, info);
    if (status != statusOk) return refusal(status);
    final place = Pointer<Pointer<Uint8>>.fromAddress(info.address + sizeOf<ErrorInfo>());
    final length = Pointer<Size>.fromAddress(place.address + sizeOf<Pointer<Uint8>>());
    String? field(int number) {
      if (library.errorField(handle, number, place, length) != statusOk || length.value == 0) return null;
      return utf8.decode(place.value.asTypedList(length.value), allowMalformed: true);
    }

    return _exception(info.ref, field);
  } finally {
    library.free(info);
    library.errorFree(handle);
  }
}

CenoteException _exception(ErrorInfo info, String? Function(int field) field) {
  final message = field(_message) ?? 'no words';
  final wasSent = info.sent < 0 ? null : info.sent == 1;
  final batchIndex = info.batchIndex < 0 ? null : info.batchIndex;
  int? place(int number) => number == 0 ? null : number;
  return switch (info.status) {
    statusServer => ServerException(
      message,
      sqlState: field(_sqlState) ?? '',
      serverMessage: field(_serverMessage) ?? message,
      number: info.number,
      batchIndex: batchIndex,
      detail: field(3),
      hint: field(4),
      severity: field(5),
      schema: field(6),
      table: field(7),
      column: field(8),
      dataType: field(9),
      constraint: field(10),
      context: field(11),
      internalQuery: field(12),
      file: field(13),
      routine: field(14),
      line: place(info.line),
      position: place(info.position),
      internalPosition: place(info.internalPosition),
    ),
    statusNetwork => NetworkException(message, wasSent: wasSent),
    statusTimeout => CenoteTimeoutException(message, wasSent: wasSent),
    statusClosed => ClosedException(message),
    statusPeer => PeerException(message),
    statusTransaction => TransactionLostException(message),
    statusStatement || statusArgument => StatementException(message, batchIndex: batchIndex),
    statusTooLarge || statusFull => LimitException(message),
    _ => LibraryException(message),
  };
}

/// A status that comes without an error object: the call itself was refused.
CenoteException refusal(int status) => switch (status) {
  statusHandle || statusClosed => const ClosedException('the pool, lease or transaction was closed'),
  statusFull => const LimitException('as many operations are under way in this isolate as may be (65,536)'),
  statusArgument => const StatementException('the library does not take these arguments'),
  statusForked => const LibraryException('this process is a forked child of the one that loaded the library'),
  statusPanic => const LibraryException('cenote panicked, which is a defect of it; please report it'),
  statusSystem => const LibraryException('the system gives no thread, no descriptor or no memory'),
  _ => LibraryException('the library answers with status $status'),
};
