// Columns of a result: names, and how their values are written. Shared by all results of the same shape.

// Only Column is exported.
// ignore_for_file: public_member_api_docs

import 'dart:convert' show jsonEncode, utf8;
import 'dart:typed_data';

/// How the values of a column are written by the server.
enum Wire {
  /// Postgres.
  pgBool,
  pgInt2,
  pgInt4,
  pgInt8,
  pgOid,
  pgFloat4,
  pgFloat8,
  pgNumeric,
  pgText,
  pgBytes,
  pgJson,
  pgJsonb,
  pgDate,
  pgTime,
  pgTimetz,
  pgTimestamp,
  pgInterval,
  pgUuid,
  pgInet,
  pgBit,
  pgArray,

  /// A type that is not known here.
  pgOther,

  /// MySQL, in the binary protocol.
  myInt8,
  myInt16,
  myInt32,
  myInt64,
  myUint8,
  myUint16,
  myUint32,
  myUint64,
  myFloat,
  myDouble,
  myDecimal,
  myText,
  myBytes,
  myBit,
  myJson,
  myDate,
  myDateTime,
  myTime,

  /// MySQL, in text.
  textInt,
  textDouble,
  textDate,
  textDateTime,
  textTime,
}

/// How values of a Postgres type are written.
Wire wireOfOid(int oid) => _oids[oid] ?? Wire.pgOther;

const _oids = <int, Wire>{
  16: Wire.pgBool,
  17: Wire.pgBytes,
  18: Wire.pgText,
  19: Wire.pgText,
  20: Wire.pgInt8,
  21: Wire.pgInt2,
  23: Wire.pgInt4,
  25: Wire.pgText,
  26: Wire.pgOid,
  28: Wire.pgOid,
  29: Wire.pgOid,
  114: Wire.pgJson,
  142: Wire.pgText,
  650: Wire.pgInet,
  700: Wire.pgFloat4,
  701: Wire.pgFloat8,
  705: Wire.pgText,
  869: Wire.pgInet,
  1042: Wire.pgText,
  1043: Wire.pgText,
  1082: Wire.pgDate,
  1083: Wire.pgTime,
  1114: Wire.pgTimestamp,
  1184: Wire.pgTimestamp,
  1186: Wire.pgInterval,
  1266: Wire.pgTimetz,
  1560: Wire.pgBit,
  1562: Wire.pgBit,
  1700: Wire.pgNumeric,
  2950: Wire.pgUuid,
  3802: Wire.pgJsonb,
};

Wire _wireOfMySql(int code, int flags, bool isText) {
  final isUnsigned = flags & 1 != 0;
  final isBytes = flags & 2 != 0;
  return switch (code) {
    1 || 2 || 3 || 8 || 9 || 13 when isText => Wire.textInt,
    4 || 5 when isText => Wire.textDouble,
    10 when isText => Wire.textDate,
    7 || 12 when isText => Wire.textDateTime,
    11 when isText => Wire.textTime,
    1 => isUnsigned ? Wire.myUint8 : Wire.myInt8,
    2 => isUnsigned ? Wire.myUint16 : Wire.myInt16,
    3 || 9 => isUnsigned ? Wire.myUint32 : Wire.myInt32,
    8 => isUnsigned ? Wire.myUint64 : Wire.myInt64,
    4 => Wire.myFloat,
    5 => Wire.myDouble,
    7 || 12 => Wire.myDateTime,
    10 => Wire.myDate,
    11 => Wire.myTime,
    13 => Wire.myUint16,
    16 => Wire.myBit,
    245 => Wire.myJson,
    246 => Wire.myDecimal,
    _ => isBytes ? Wire.myBytes : Wire.myText,
  };
}

/// A column of a result.
final class Column {
  Column._(this.name, this.typeCode, this.wire, this.isTextArray) : jsonKey = utf8.encode('${jsonEncode(name)}:');

  /// Its name.
  final String name;

  /// The type as the server numbers it: on Postgres the OID, on MySQL the protocol's number.
  final int typeCode;

  /// How its values are written. Of the package's own concern.
  final Wire wire;

  /// Whether it is an array of an enum. Of the package's own concern.
  final bool isTextArray;

  /// Its name with a colon, as JSON. Of the package's own concern.
  final Uint8List jsonKey;

  @override
  String toString() => name;
}

/// The columns of a result, read from its block once and recognised later.
final class Shape {
  Shape._(this._front, this._flags, this.columns);

  /// Reads it from a block.
  factory Shape.read(Uint8List bytes, ByteData data, int at) {
    final flags = data.getUint32(at + 4, Endian.host);
    final count = data.getUint32(at + 8, Endian.host);
    final begin = at + data.getUint32(at + 36, Endian.host);
    final end = at + data.getUint32(at + 40, Endian.host);
    final isMySql = flags & 1 != 0;
    final isText = flags & 2 != 0;
    final columns = List<Column>.generate(count, (number) {
      final entry = begin + number * 16;
      final nameAt = at + data.getUint32(entry, Endian.host);
      final nameLength = data.getUint32(entry + 4, Endian.host);
      final code = data.getUint32(entry + 8, Endian.host);
      final columnFlags = data.getUint32(entry + 12, Endian.host);
      final name = utf8.decode(Uint8List.sublistView(bytes, nameAt, nameAt + nameLength), allowMalformed: true);
      final isOwnText = !isMySql && columnFlags & 4 != 0;
      final wire = isMySql
          ? _wireOfMySql(code, columnFlags, isText)
          : columnFlags & 8 != 0
          ? Wire.pgArray
          : isOwnText
          ? Wire.pgText
          : wireOfOid(code);
      return Column._(name, code, wire, isOwnText);
    }, growable: false);
    return Shape._(Uint8List.fromList(Uint8List.sublistView(bytes, begin, end)), flags, columns);
  }

  final Uint8List _front;
  final int _flags;

  /// The columns.
  final List<Column> columns;

  /// Whether a block has this shape.
  bool fits(Uint8List bytes, ByteData data, int at) {
    final begin = at + data.getUint32(at + 36, Endian.host);
    final length = at + data.getUint32(at + 40, Endian.host) - begin;
    if (length != _front.length || data.getUint32(at + 4, Endian.host) != _flags) return false;
    for (var place = 0; place < length; place++) {
      if (bytes[begin + place] != _front[place]) return false;
    }
    return true;
  }

  /// The number of a column; -1 if there is none of this name.
  int indexOf(String name) {
    final columns = this.columns;
    for (var number = 0; number < columns.length; number++) {
      if (columns[number].name == name) return number;
    }
    return -1;
  }
}

/// Shapes by the SQL they are of, for an isolate.
final class Shapes {
  /// Texts remembered: more than a program has that are no accident.
  static const _max = 512;

  static final Map<String, Shape> _shapes = {};

  /// The shape of a block that this text brought.
  static Shape of(String sql, Uint8List bytes, ByteData data, int at) {
    final known = _shapes[sql];
    if (known != null && known.fits(bytes, data, at)) return known;
    if (_shapes.length >= _max) _shapes.clear();
    return _shapes[sql] = Shape.read(bytes, data, at);
  }
}
