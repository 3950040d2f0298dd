// JSON, written straight from the bytes in which the server sent the values.

// Nothing here is exported.
// ignore_for_file: public_member_api_docs

import 'dart:convert' show Utf8Decoder, base64, jsonEncode, utf8;
import 'dart:typed_data';

import 'column.dart';
import 'decode.dart';
import 'values.dart';

/// JSON text in UTF-8 that grows.
final class JsonWriter {
  Uint8List _bytes = Uint8List(256);
  int _length = 0;

  /// What was written.
  Uint8List take() => Uint8List.sublistView(_bytes, 0, _length);

  void byte(int byte) {
    _room(1);
    _bytes[_length++] = byte;
  }

  void bytes(Uint8List bytes, int begin, int end) {
    _room(end - begin);
    _bytes.setRange(_length, _length + end - begin, bytes, begin);
    _length += end - begin;
  }

  /// Text that is ASCII and needs no quotes.
  void ascii(String text) {
    _room(text.length);
    for (var at = 0; at < text.length; at++) {
      _bytes[_length++] = text.codeUnitAt(at);
    }
  }

  /// The value of a column; throws a [FormatException] if it is none.
  void value(Column column, Uint8List bytes, ByteData data, int begin, int end) {
    switch (column.wire) {
      case Wire.pgInt2:
        integer(data.getInt16(begin));
      case Wire.pgInt4:
        integer(data.getInt32(begin));
      case Wire.pgInt8:
        integer(data.getInt64(begin));
      case Wire.myInt32:
        integer(data.getInt32(begin, Endian.little));
      case Wire.myInt64:
        integer(data.getInt64(begin, Endian.little));
      case Wire.pgText || Wire.myText:
        quoted(bytes, begin, end);
      case Wire.pgJson || Wire.pgJsonb || Wire.myJson:
        this.bytes(bytes, jsonTextBegin(column.wire, begin), end);
      case Wire.pgArray:
        object(pgArray(bytes, data, begin, end, isText: column.isTextArray));
      default:
        object(decode(column.wire, bytes, data, begin, end));
    }
  }

  /// A decoded value.
  void object(Object? value) {
    switch (value) {
      case null:
        ascii('null');
      case final int value:
        integer(value);
      case final double value:
        ascii(value.isFinite ? '$value' : 'null');
      case final bool value:
        ascii('$value');
      case final Decimal value:
        ascii(value.text.endsWith('N') || value.text.endsWith('y') ? 'null' : value.text);
      case final BigInt value:
        ascii('$value');
      case final Uint8List value:
        ascii('"${base64.encode(value)}"');
      case final DateTime value:
        ascii('"${value.toIso8601String()}"');
      case final Duration value:
        ascii('"${_duration(value.inMicroseconds)}"');
      case final Interval value:
        ascii('"${_interval(value)}"');
      case Date() || TimeOfDay():
        ascii('"$value"');
      case final List<Object?> value:
        byte(0x5b);
        for (final (number, member) in value.indexed) {
          if (number > 0) byte(0x2c);
          object(member);
        }
        byte(0x5d);
      default:
        final text = utf8.encode(jsonEncode(value));
        bytes(text, 0, text.length);
    }
  }

  /// An integer, without a text in between.
  void integer(int value) {
    if (value < 0) {
      // The least has no positive.
      ascii('$value');
      return;
    }
    var digits = 1;
    for (var rest = value; rest >= 10; rest ~/= 10) {
      digits++;
    }
    _room(digits);
    var at = _length += digits;
    var rest = value;
    do {
      _bytes[--at] = 0x30 + rest % 10;
      rest ~/= 10;
    } while (rest > 0);
  }

  /// Text that is UTF-8 already: looked through, and copied piece by piece.
  void quoted(Uint8List bytes, int begin, int end) {
    byte(0x22);
    var copied = begin;
    var isAscii = true;
    for (var at = begin; at < end; at++) {
      final unit = bytes[at];
      if (unit >= 0x80) isAscii = false;
      if (unit >= 0x20 && unit != 0x22 && unit != 0x5c) continue;
      this.bytes(bytes, copied, at);
      copied = at + 1;
      switch (unit) {
        case 0x22 || 0x5c:
          byte(0x5c);
          byte(unit);
        case 0x0a:
          ascii(r'\n');
        case 0x0d:
          ascii(r'\r');
        case 0x09:
          ascii(r'\t');
        default:
          ascii('\\u${unit.toRadixString(16).padLeft(4, '0')}');
      }
    }
    // JSON is UTF-8, and a server may send what is not.
    if (!isAscii) const Utf8Decoder().convert(bytes, begin, end);
    this.bytes(bytes, copied, end);
    byte(0x22);
  }

  static String _duration(int us) {
    final sign = us < 0 ? '-' : '';
    final rest = us.abs();
    final hours = (rest ~/ 3600000000).toString().padLeft(2, '0');
    final within = TimeOfDay.fromMicroseconds(rest % 3600000000).toString();
    return '$sign$hours${within.substring(2)}';
  }

  /// ISO 8601: `P1M2DT3.5S`.
  static String _interval(Interval value) {
    final us = value.microseconds.abs();
    final fraction = us % 1000000;
    final seconds = '${us ~/ 1000000}${fraction == 0 ? '' : '.${fraction.toString().padLeft(6, '0')}'}';
    final months = value.months == 0 ? '' : '${value.months}M';
    final days = value.days == 0 ? '' : '${value.days}D';
    return 'P$months${days}T${value.microseconds < 0 ? '-' : ''}${seconds}S';
  }

  void _room(int more) {
    if (_length + more <= _bytes.length) return;
    _bytes = Uint8List((_length + more) * 2)..setRange(0, _length, _bytes);
  }
}
