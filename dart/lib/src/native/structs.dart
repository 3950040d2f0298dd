// The library's structs and numbers, as ffi/src has them.

// Nothing here is exported.
// ignore_for_file: public_member_api_docs

import 'dart:ffi';

/// `CenoteContextOptions`.
final class ContextOptions extends Struct {
  @Uint32()
  external int size;
  @Int32()
  external int wake;
  external Pointer<Void> function;
  external Pointer<Void> data;
  external Pointer<Void> dartApi;
  @Int64()
  external int dartPort;
  @Uint64()
  external int operationsMax;
}

/// `CenoteErrorInfo`.
final class ErrorInfo extends Struct {
  @Uint32()
  external int size;
  @Int32()
  external int status;
  @Uint32()
  external int number;
  @Int32()
  external int sent;
  @Uint32()
  external int position;
  @Uint32()
  external int internalPosition;
  @Uint32()
  external int line;
  @Int32()
  external int batchIndex;
}

/// `CenoteCounts`.
final class Counts extends Struct {
  @Uint32()
  external int size;
  @Uint32()
  external int reserved;
  @Uint64()
  external int contexts;
  @Uint64()
  external int pools;
  @Uint64()
  external int sessions;
  @Uint64()
  external int blocks;
  @Uint64()
  external int errors;
  @Uint64()
  external int servers;
}

/// `CenotePoolStats`.
final class StatsStruct extends Struct {
  @Uint32()
  external int size;
  @Uint32()
  external int reserved;
  @Uint64()
  external int connectionsMax;
  @Uint64()
  external int connections;
  @Uint64()
  external int leases;
  @Uint64()
  external int inFlight;
  @Uint64()
  external int waiting;
  @Uint64()
  external int waitingForLease;
  @Uint64()
  external int replies;
  @Uint64()
  external int writes;
  @Uint64()
  external int reads;
  @Uint64()
  external int bytesWritten;
  @Uint64()
  external int bytesRead;
  @Uint64()
  external int connects;
  @Uint64()
  external int connectFailures;
  @Uint64()
  external int connectionsLost;
  @Uint64()
  external int leasesTaken;
  @Uint64()
  external int leasesRestored;
  @Uint64()
  external int lostAfterSent;
}

/// A `CenoteCompletion`, by places: tag, status, flags, value, length, handle.
const completionBytes = 40;

const wakeDartPort = 3;

const completionInline = 1;
const completionBlock = 2;
const completionError = 4;
const completionSession = 8;
const completionEnded = 32;

const statusOk = 0;
const statusHandle = -2;
const statusArgument = -3;
const statusClosed = -4;
const statusFull = -5;
const statusPanic = -6;
const statusForked = -7;
const statusServer = -8;
const statusNetwork = -9;
const statusTimeout = -10;
const statusPeer = -11;
const statusTransaction = -12;
const statusStatement = -13;
const statusSystem = -14;
const statusTooLarge = -15;
const statusBusy = -16;
