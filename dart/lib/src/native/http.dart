// HTTP servers of an isolate: what its context passes them, and the answers that wait to be handed over.

// Nothing here is exported.
// ignore_for_file: public_member_api_docs

import 'dart:ffi';
import 'dart:typed_data';

import 'memory.dart';

const httpSharePort = 1;
const httpHeaders = 2;

/// `CenoteHttpOptions`.
final class HttpOptions extends Struct {
  @Uint32()
  external int size;
  @Uint32()
  external int flags;
  external Pointer<Uint8> address;
  @Size()
  external int addressLength;
  @Uint64()
  external int bodyBytesMax;
  @Uint64()
  external int connectionsMax;
  @Uint32()
  external int stopDeadlineMs;
  @Uint32()
  external int keepAliveTimeoutMs;
}

/// What a context knows of a server.
abstract interface class HttpHost {
  /// A request came: these are its bytes, until the call returns.
  void request(Uint8List bytes, ByteData data, int at);

  /// It has ended, as it should or not.
  void ended(Object? failure);

  /// Hands over the answers that wait.
  void flush();
}

/// `CenoteHttpAnswer`, without what follows it.
const answerBytes = 40;

/// Answers that wait to be handed over.
final class AnswerWriter extends Memory {
  AnswerWriter(super.library);

  void write(
    int request,
    int status,
    String contentType,
    Map<String, String>? headers,
    List<int> body, {
    required bool closes,
  }) {
    final begin = length;
    try {
      _write(begin, request, status, contentType, headers, body, closes);
    } on Object {
      // A header or a byte that is none. What was written before stays.
      length = begin;
      rethrow;
    }
  }

  void _write(
    int begin,
    int request,
    int status,
    String contentType,
    Map<String, String>? headers,
    List<int> body,
    bool closes,
  ) {
    reserve(answerBytes);
    final typeLength = writeString(contentType);
    var headersLength = 0;
    headers?.forEach((name, value) {
      headersLength += writeString('$name: ${value.replaceAll('\n', ' ')}\n');
    });
    final bodyLength = writeBytes(body);
    align();
    put(begin, length - begin);
    put(begin + 8, request);
    data
      ..setUint32(begin + 16, status, Endian.host)
      ..setUint32(begin + 20, closes ? 1 : 0, Endian.host)
      ..setUint32(begin + 24, typeLength, Endian.host)
      ..setUint32(begin + 28, headersLength, Endian.host);
    put(begin + 32, bodyLength);
  }
}
