// Values, from the bytes in which the server sent them.
//
// It knows neither rows nor columns. Sources: Postgres' binary formats (the type's send function), MySQL's client/server
// protocol, "Binary Protocol Value".

// Nothing here is exported.
// ignore_for_file: public_member_api_docs

import 'dart:convert';
import 'dart:io' show InternetAddress;
import 'dart:typed_data';

import 'column.dart';
import 'values.dart';

/// 2000-01-01, from which Postgres counts.
const _pgEpochUs = 946684800000000;
const _pgEpochDays = 10957;

const _int64Max = 0x7fffffffffffffff;
const _int64Min = -_int64Max - 1;
const _int32Max = 0x7fffffff;
const _int32Min = -_int32Max - 1;

/// A value; throws a [FormatException] if the bytes hold none.
Object? decode(Wire wire, Uint8List bytes, ByteData data, int begin, int end) {
  switch (wire) {
    case Wire.pgBool:
      return data.getUint8(begin) != 0;
    case Wire.pgInt2:
      return data.getInt16(begin);
    case Wire.pgInt4:
      return data.getInt32(begin);
    case Wire.pgInt8:
      return data.getInt64(begin);
    case Wire.pgOid:
      return data.getUint32(begin);
    case Wire.pgFloat4:
      return data.getFloat32(begin);
    case Wire.pgFloat8:
      return data.getFloat64(begin);
    case Wire.pgNumeric:
      return Decimal.unchecked(pgNumeric(data, begin, end));
    case Wire.pgText || Wire.myText:
      return text(bytes, begin, end);
    case Wire.pgJson || Wire.myJson:
      return jsonDecode(text(bytes, begin, end));
    case Wire.pgJsonb:
      // A version in front.
      return jsonDecode(text(bytes, begin + 1, end));
    case Wire.pgBytes || Wire.pgOther || Wire.myBytes:
      return Uint8List.fromList(Uint8List.sublistView(bytes, begin, end));
    case Wire.pgDate:
      final days = data.getInt32(begin);
      if (days == _int32Max || days == _int32Min) throw const FormatException('an infinite date');
      return Date.fromDays(days + _pgEpochDays);
    case Wire.pgTime:
      return TimeOfDay.fromMicroseconds(data.getInt64(begin));
    case Wire.pgTimetz:
      return '${TimeOfDay.fromMicroseconds(data.getInt64(begin))}${_zone(-data.getInt32(begin + 8))}';
    case Wire.pgTimestamp:
      final us = data.getInt64(begin);
      if (us == _int64Max || us == _int64Min) throw const FormatException('an infinite timestamp');
      return _moment(us + _pgEpochUs);
    case Wire.pgInterval:
      return Interval(
        months: data.getInt32(begin + 12),
        days: data.getInt32(begin + 8),
        microseconds: data.getInt64(begin),
      );
    case Wire.pgUuid:
      return _uuid(bytes, begin);
    case Wire.pgInet:
      return _inet(bytes, begin, end);
    case Wire.pgBit:
      final length = data.getInt32(begin);
      return String.fromCharCodes([
        for (var bit = 0; bit < length; bit++) 0x30 + (bytes[begin + 4 + bit ~/ 8] >> (7 - bit % 8) & 1),
      ]);
    case Wire.pgArray:
      return pgArray(bytes, data, begin, end, isText: false);
    case Wire.myInt8:
      return data.getInt8(begin);
    case Wire.myInt16:
      return data.getInt16(begin, Endian.little);
    case Wire.myInt32:
      return data.getInt32(begin, Endian.little);
    case Wire.myInt64:
      return data.getInt64(begin, Endian.little);
    case Wire.myUint8:
      return data.getUint8(begin);
    case Wire.myUint16:
      return data.getUint16(begin, Endian.little);
    case Wire.myUint32:
      return data.getUint32(begin, Endian.little);
    case Wire.myUint64:
      final value = data.getInt64(begin, Endian.little);
      return value < 0 ? BigInt.from(value).toUnsigned(64) : value;
    case Wire.myFloat:
      return data.getFloat32(begin, Endian.little);
    case Wire.myDouble:
      return data.getFloat64(begin, Endian.little);
    case Wire.myDecimal:
      return Decimal.unchecked(text(bytes, begin, end));
    case Wire.myBit:
      return _bits(bytes, begin, end);
    case Wire.myDate:
      final (:year, :month, :day) = _myDay(data, begin, end);
      if (month == 0 || day == 0) throw const FormatException('a zero date');
      return Date(year, month, day);
    case Wire.myDateTime:
      final (:year, :month, :day) = _myDay(data, begin, end);
      if (month == 0 || day == 0) throw const FormatException('a zero date');
      return _moment(DateTime.utc(year, month, day).microsecondsSinceEpoch + _myTimeOfDay(data, begin + 4, end));
    case Wire.myTime:
      return Duration(microseconds: _myTime(data, begin, end));
    case Wire.textInt:
      final number = text(bytes, begin, end);
      return int.tryParse(number) ?? BigInt.parse(number);
    case Wire.textDouble:
      return double.parse(text(bytes, begin, end));
    case Wire.textDate:
      final moment = _textMoment(text(bytes, begin, end));
      return Date(moment.year, moment.month, moment.day);
    case Wire.textDateTime:
      return _textMoment(text(bytes, begin, end));
    case Wire.textTime:
      return Duration(microseconds: _textTime(text(bytes, begin, end)));
  }
}

/// Text; most of it is ASCII. Throws a [FormatException] if it is no UTF-8.
String text(Uint8List bytes, int begin, int end) {
  for (var at = begin; at < end; at++) {
    if (bytes[at] >= 0x80) return const Utf8Decoder().convert(bytes, begin, end);
  }
  return String.fromCharCodes(bytes, begin, end);
}

/// Where the JSON text of a JSON value begins.
int jsonTextBegin(Wire wire, int begin) => wire == Wire.pgJsonb ? begin + 1 : begin;

DateTime _moment(int us) {
  try {
    return DateTime.fromMicrosecondsSinceEpoch(us, isUtc: true);
    // What Postgres can say and Dart cannot.
    // ignore: avoid_catching_errors
  } on ArgumentError {
    throw const FormatException('a timestamp past the range of DateTime');
  }
}

/// A numeric's digits: groups of four, how many of them before the point, sign, digits behind the point.
String pgNumeric(ByteData data, int begin, int end) {
  final groups = data.getInt16(begin);
  final weight = data.getInt16(begin + 2);
  final sign = data.getUint16(begin + 4);
  final scale = data.getUint16(begin + 6);
  switch (sign) {
    case 0xc000:
      return 'NaN';
    case 0xd000:
      return 'Infinity';
    case 0xf000:
      return '-Infinity';
  }
  int group(int number) => number >= 0 && number < groups ? data.getInt16(begin + 8 + number * 2) : 0;
  final digits = StringBuffer(sign == 0x4000 ? '-' : '');
  if (weight < 0) {
    digits.write('0');
  } else {
    digits.write(group(0));
    for (var number = 1; number <= weight; number++) {
      digits.write(group(number).toString().padLeft(4, '0'));
    }
  }
  if (scale > 0) {
    digits.write('.');
    final fraction = StringBuffer();
    for (var number = weight + 1; fraction.length < scale; number++) {
      fraction.write(group(number).toString().padLeft(4, '0'));
    }
    digits.write(fraction.toString().substring(0, scale));
  }
  return digits.toString();
}

/// An array, of as many dimensions as it has. [isText]: its members are text, whatever their type is called.
List<Object?> pgArray(Uint8List bytes, ByteData data, int begin, int end, {required bool isText}) {
  final dimensions = data.getInt32(begin);
  if (dimensions == 0) return [];
  final wire = isText ? Wire.pgText : wireOfOid(data.getUint32(begin + 8));
  final lengths = [for (var number = 0; number < dimensions; number++) data.getInt32(begin + 12 + number * 8)];
  var at = begin + 12 + dimensions * 8;
  List<Object?> read(int dimension) => List<Object?>.generate(lengths[dimension], (_) {
    if (dimension + 1 < dimensions) return read(dimension + 1);
    final length = data.getInt32(at);
    at += 4;
    if (length < 0) return null;
    at += length;
    return decode(wire, bytes, data, at - length, at);
  });
  return read(0);
}

String _zone(int seconds) {
  final sign = seconds < 0 ? '-' : '+';
  final minutes = seconds.abs() ~/ 60;
  final hours = (minutes ~/ 60).toString().padLeft(2, '0');
  return minutes % 60 == 0 ? '$sign$hours' : '$sign$hours:${(minutes % 60).toString().padLeft(2, '0')}';
}

const _hex = '0123456789abcdef';

String _uuid(Uint8List bytes, int begin) {
  final out = StringBuffer();
  for (var at = 0; at < 16; at++) {
    if (at == 4 || at == 6 || at == 8 || at == 10) out.write('-');
    final byte = bytes[begin + at];
    out
      ..write(_hex[byte >> 4])
      ..write(_hex[byte & 15]);
  }
  return out.toString();
}

/// Family, bits of the mask, whether it is a network, length, address.
String _inet(Uint8List bytes, int begin, int end) {
  final bits = bytes[begin + 1];
  final isNetwork = bytes[begin + 2] != 0;
  final address = InternetAddress.fromRawAddress(Uint8List.sublistView(bytes, begin + 4, end)).address;
  return isNetwork || bits != (end - begin - 4) * 8 ? '$address/$bits' : address;
}

Object _bits(Uint8List bytes, int begin, int end) {
  var value = BigInt.zero;
  for (var at = begin; at < end; at++) {
    value = value << 8 | BigInt.from(bytes[at]);
  }
  return value.isValidInt ? value.toInt() : value;
}

/// Zeros at the end are left out.
({int year, int month, int day}) _myDay(ByteData data, int begin, int end) => end - begin < 4
    ? (year: 0, month: 0, day: 0)
    : (year: data.getUint16(begin, Endian.little), month: data.getUint8(begin + 2), day: data.getUint8(begin + 3));

int _myTimeOfDay(ByteData data, int begin, int end) {
  if (end - begin < 3) return 0;
  final seconds = (data.getUint8(begin) * 60 + data.getUint8(begin + 1)) * 60 + data.getUint8(begin + 2);
  return seconds * 1000000 + (end - begin < 7 ? 0 : data.getUint32(begin + 3, Endian.little));
}

int _myTime(ByteData data, int begin, int end) {
  if (end - begin < 8) return 0;
  final days = data.getUint32(begin + 1, Endian.little);
  final us = days * Duration.microsecondsPerDay + _myTimeOfDay(data, begin + 5, end);
  return data.getUint8(begin) == 0 ? us : -us;
}

DateTime _textMoment(String text) {
  if (text.startsWith('0000-') || text.contains('-00')) throw const FormatException('a zero date');
  return DateTime.parse('${text.replaceFirst(' ', 'T')}${text.length > 10 ? 'Z' : ''}');
}

int _textTime(String text) {
  final isNegative = text.startsWith('-');
  final [hours, minutes, seconds] = text.substring(isNegative ? 1 : 0).split(':');
  final [whole, ...fraction] = seconds.split('.');
  final us =
      ((int.parse(hours) * 60 + int.parse(minutes)) * 60 + int.parse(whole)) * 1000000 +
      (fraction.isEmpty ? 0 : int.parse(fraction.first.padRight(6, '0')));
  return isNegative ? -us : us;
}
