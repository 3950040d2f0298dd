// Requests of one piece, as ffi/src/request.rs reads them: written one behind the other into memory of the C heap.
//
// ```text
//  [request 48][statement 32] .. [value 32] .. [texts and bytes] up to a multiple of 8
// ```

// Nothing here is exported.
// ignore_for_file: public_member_api_docs

import 'dart:convert' show jsonEncode;
import 'dart:typed_data';

import '../exceptions.dart';
import '../values.dart';
import 'memory.dart';

const _requestBytes = 48;
const _statementBytes = 32;
const _valueBytes = 32;

/// Lists within lists, as many as the library takes.
const _listDepthMax = 6;

const _bool = 1;
const _int = 2;
const _uint = 3;
const _double = 4;
const _text = 5;
const _bytesKind = 6;
const _json = 7;
const _timestamp = 8;
const _date = 10;
const _time = 11;
const _interval = 12;
const _uuid = 13;
const _decimal = 14;
const _list = 15;

/// Requests that wait to be submitted.
final class RequestWriter extends Memory {
  RequestWriter(super.library);

  /// Where the request that is being written begins.
  int _begin = 0;

  /// The tag of the request at this place.
  int tagAt(int place) => data.getUint64(place + 8, Endian.host);

  /// Writes a request behind the others; `false` for [isMySql] where lists are to be arrays. If a parameter cannot be sent
  /// nothing is written.
  void write(
    int tag,
    int target,
    List<(String, List<Object?>)> statements, {
    required bool isBatch,
    required bool isMySql,
    bool idempotent = false,
    int timeoutMs = 0,
  }) {
    _begin = length;
    try {
      final statementsAt = reserve(_requestBytes + statements.length * _statementBytes) + _requestBytes;
      var index = 0;
      for (final (sql, parameters) in statements) {
        final valuesAt = _values(parameters, isMySql, 0);
        final sqlAt = length;
        final sqlLength = writeString(sql);
        final at = statementsAt + index * _statementBytes;
        put(at, sqlAt - _begin);
        put(at + 8, sqlLength);
        put(at + 16, valuesAt - _begin);
        put(at + 24, parameters.length);
        align();
        index++;
      }
      put(_begin, length - _begin);
      put(_begin + 8, tag);
      put(_begin + 16, target);
      data
        ..setUint32(_begin + 24, idempotent ? 1 : 0, Endian.host)
        ..setUint32(_begin + 28, timeoutMs, Endian.host);
      put(_begin + 32, _requestBytes);
      data
        ..setUint32(_begin + 40, statements.length, Endian.host)
        ..setUint32(_begin + 44, isBatch ? 1 : 0, Endian.host);
    } on Object {
      length = _begin;
      rethrow;
    }
  }

  int _values(List<Object?> values, bool isMySql, int depth) {
    if (depth > _listDepthMax) throw const StatementException('lists within lists within lists: more than six');
    final valuesAt = reserve(values.length * _valueBytes);
    var at = valuesAt;
    for (final value in values) {
      _value(at, value, isMySql, depth);
      at += _valueBytes;
    }
    return valuesAt;
  }

  void _value(int at, Object? value, bool isMySql, int depth) {
    switch (value) {
      case null:
        break;
      case final int value:
        _bits(at, _int, value);
      case final String value:
        _textual(at, _text, value);
      case final double value:
        _kind(at, _double);
        data.setFloat64(at + 8, value, Endian.host);
      case final bool value:
        _bits(at, _bool, value ? 1 : 0);
      case final DateTime value:
        _bits(at, _timestamp, value.microsecondsSinceEpoch);
      case final Uint8List value:
        _binary(at, _bytesKind, value);
      case final Duration value:
        _bits(at, _interval, value.inMicroseconds);
      case final BigInt value when value.isValidInt:
        _bits(at, _int, value.toInt());
      case final BigInt value when !value.isNegative && value.bitLength <= 64:
        _bits(at, _uint, value.toSigned(64).toInt());
      case final BigInt value:
        _textual(at, _decimal, value.toString());
      case final Decimal value:
        _textual(at, _decimal, value.text);
      case final Json value:
        _jsonText(at, value.value);
      case final Map<Object?, Object?> value:
        _jsonText(at, value);
      case final Date value:
        _bits(at, _date, value.days);
      case final TimeOfDay value:
        _bits(at, _time, value.microseconds);
      case final Interval value:
        _textual(at, _text, value.toString());
      case final Uuid value:
        _binary(at, _uuid, _uuidBytes(value.text));
      case final List<Object?> value when isMySql:
        _jsonText(at, value);
      case final List<Object?> value:
        final membersAt = _values(value, isMySql, depth + 1);
        _kind(at, _list);
        _reference(at, membersAt, value.length);
      default:
        throw StatementException(
          'a parameter of type ${value.runtimeType} cannot be sent; wrap it in Json(..), or send its text',
        );
    }
  }

  void _jsonText(int at, Object? value) {
    final String text;
    try {
      text = jsonEncode(value);
      // An object that is no JSON is the caller's mistake, and told like his others.
      // ignore: avoid_catching_errors
    } on Error catch (error) {
      throw StatementException('a parameter cannot be sent as JSON: $error');
    }
    _textual(at, _json, text);
  }

  void _kind(int at, int kind) => data.setInt32(at, kind, Endian.host);

  void _bits(int at, int kind, int bits) {
    _kind(at, kind);
    data.setInt64(at + 8, bits, Endian.host);
  }

  void _textual(int at, int kind, String text) {
    final begin = length;
    final count = writeString(text);
    _kind(at, kind);
    _reference(at, begin, count);
    align();
  }

  void _binary(int at, int kind, List<int> bytes) {
    final begin = length;
    final count = writeBytes(bytes);
    _kind(at, kind);
    _reference(at, begin, count);
    align();
  }

  void _reference(int at, int begin, int length) {
    put(at + 16, begin - _begin);
    put(at + 24, length);
  }

  static Uint8List _uuidBytes(String text) {
    final digits = text.replaceAll('-', '');
    final bytes = Uint8List(16);
    for (var at = 0; at < 16; at++) {
      bytes[at] = int.parse(digits.substring(at * 2, at * 2 + 2), radix: 16);
    }
    return bytes;
  }
}
