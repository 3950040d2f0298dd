// Results and rows: views over a block. A field is decoded when it is read.
//
// ```text
//  [header 64][column 16] .. [column 16][names][field u32] .. [field u32][end u32][values]
// ```

import 'dart:collection';
import 'dart:convert' show jsonDecode;
import 'dart:ffi' show Finalizable;
import 'dart:typed_data';

import 'column.dart';
import 'decode.dart';
import 'exceptions.dart';
import 'json.dart';
import 'values.dart';

const _magic = 0x31424e43;
const _null = 0x80000000;
const _placeMask = 0x7fffffff;

/// What a statement came to: its rows, and what it did.
///
/// It belongs to its isolate: to send it to another, send [toMaps] or [toJsonBytes].
final class Result extends ListBase<Row> implements Finalizable {
  Result._(this._bytes, this._data, this._at, this._shape)
    : length = _data.getUint32(_at + 12, Endian.host),
      _fieldsAt = _at + _data.getUint32(_at + 40, Endian.host),
      _valuesAt = _at + _data.getUint32(_at + 44, Endian.host);

  final Uint8List _bytes;
  final ByteData _data;
  final int _at;
  final int _fieldsAt;
  final int _valuesAt;
  final Shape _shape;

  /// How many rows there are.
  @override
  final int length;

  /// The columns; none for a statement that returns no rows.
  List<Column> get columns => UnmodifiableListView(_shape.columns);

  /// Rows returned or changed.
  int get rowsAffected => _data.getUint64(_at + 16, Endian.host);

  /// MySQL: the value that an INSERT drew; 0: none.
  int get lastInsertId => _data.getUint64(_at + 24, Endian.host);

  /// MySQL: how many warnings the server has.
  int get warnings => _data.getUint32(_at + 32, Endian.host);

  /// Throws: results are not changed.
  @override
  set length(int length) => throw UnsupportedError('a result is not changed');

  /// Throws: results are not changed.
  @override
  void operator []=(int index, Row value) => throw UnsupportedError('a result is not changed');

  @override
  Row operator [](int index) {
    IndexError.check(index, length, indexable: this);
    return Row._(this, index);
  }

  /// All rows as maps.
  List<Map<String, Object?>> toMaps() => [for (final row in this) row.toMap()];

  /// The rows as a JSON array of objects, in UTF-8, written straight from what the server sent.
  ///
  /// Integers, floats and decimals are numbers (what is none of JSON's, `NaN` for one, is null), dates and times ISO 8601, bytes
  /// base64, arrays arrays, JSON is what it is, and all else text.
  Uint8List toJsonBytes() {
    final out = JsonWriter()..byte(0x5b);
    for (var row = 0; row < length; row++) {
      if (row > 0) out.byte(0x2c);
      _writeRow(out, row);
    }
    out.byte(0x5d);
    return out.take();
  }

  /// The same, into a sink.
  void writeJson(Sink<List<int>> sink) => sink.add(toJsonBytes());

  void _writeRow(JsonWriter out, int row) {
    final columns = _shape.columns;
    out.byte(0x7b);
    var place = _fieldsAt + row * columns.length * 4;
    var entry = _data.getUint32(place, Endian.host);
    for (var number = 0; number < columns.length; number++) {
      final next = _data.getUint32(place += 4, Endian.host);
      final column = columns[number];
      if (number > 0) out.byte(0x2c);
      out.bytes(column.jsonKey, 0, column.jsonKey.length);
      if (entry & _null != 0) {
        out.ascii('null');
      } else {
        try {
          out.value(column, _bytes, _data, _valuesAt + entry, _valuesAt + (next & _placeMask));
        } on FormatException catch (error) {
          throw ValueException('${column.name}: ${error.message}', column: column.name);
        }
      }
      entry = next;
    }
    out.byte(0x7d);
  }
}

/// Reads the result of one statement.
Result readResult(String sql, Uint8List block) {
  final data = ByteData.sublistView(block);
  return _resultAt(sql, block, data, 0);
}

/// Reads the results of a batch.
List<Result> readBatch(List<String> sql, Uint8List block) {
  final data = ByteData.sublistView(block);
  final fieldsAt = data.getUint32(40, Endian.host);
  final valuesAt = data.getUint32(44, Endian.host);
  return [
    for (final (number, text) in sql.indexed)
      _resultAt(text, block, data, valuesAt + data.getUint32(fieldsAt + number * 4, Endian.host)),
  ];
}

Result _resultAt(String sql, Uint8List block, ByteData data, int at) {
  if (data.getUint32(at, Endian.host) != _magic) throw const LibraryException('a block that is none');
  return Result._(block, data, at, Shapes.of(sql, block, data, at));
}

/// A row of a result. Columns are named by a [String], or by an [int] from 0.
///
/// A getter throws a [ValueException] if there is no such column, if its value cannot be had as what was asked for, or if it is
/// NULL; those that end in `OrNull` return null instead of the last.
final class Row implements Finalizable {
  Row._(this._result, this._row);

  final Result _result;
  final int _row;

  /// The columns.
  List<Column> get columns => _result.columns;

  /// How many fields it has.
  int get length => _result._shape.columns.length;

  /// A field as its type has it in Dart: `bool`, `int` (`BigInt` for MySQL's unsigned ones past it), `double`, [Decimal],
  /// `String` (also UUIDs, enums, addresses), [Uint8List], [DateTime] (UTC), [Date], [TimeOfDay], [Interval] (Postgres) or [Duration] (MySQL's
  /// TIME), a decoded JSON value, or a `List` of these for an array. Of a type that is not known here it is the bytes.
  Object? operator [](Object column) {
    final number = _number(column);
    return _isNull(number) ? null : _decoded(number);
  }

  /// A field as [T], which may be nullable: `row.get<String?>('name')`.
  T get<T>(Object column) {
    final value = this[column];
    if (value is T) return value;
    final number = _number(column);
    throw _unfit(number, value == null ? 'NULL' : 'a ${value.runtimeType}', '$T');
  }

  /// Whether a field is NULL.
  bool isNull(Object column) => _isNull(_number(column));

  /// An integer: of integer types, or a decimal number without a fraction.
  int getInt(Object column) => _notNull(column, 'int', getIntOrNull(column));

  /// The same, or null.
  int? getIntOrNull(Object column) {
    final number = _number(column);
    final entry = _entry(number);
    if (entry & _null != 0) return null;
    final at = _result._valuesAt + entry;
    switch (_result._shape.columns[number].wire) {
      case Wire.pgInt4:
        return _result._data.getInt32(at);
      case Wire.pgInt8:
        return _result._data.getInt64(at);
      case Wire.myInt32:
        return _result._data.getInt32(at, Endian.little);
      case Wire.myInt64:
        return _result._data.getInt64(at, Endian.little);
      default:
        final value = switch (_decoded(number)) {
          final int value => value,
          final Decimal value => value.toBigInt(),
          final other => other,
        };
        if (value is int) return value;
        if (value is BigInt && value.isValidInt) return value.toInt();
        throw _unfit(number, '$value', 'int');
    }
  }

  /// A floating-point number, or any other number as the nearest one.
  double getDouble(Object column) => _notNull(column, 'double', getDoubleOrNull(column));

  /// The same, or null.
  double? getDoubleOrNull(Object column) => _converted(
    column,
    'double',
    (value) => switch (value) {
      final double value => value,
      final int value => value.toDouble(),
      final Decimal value => value.toDouble(),
      final BigInt value => value.toDouble(),
      _ => null,
    },
  );

  /// A truth value; on MySQL an integer that is not 0.
  bool getBool(Object column) => _notNull(column, 'bool', getBoolOrNull(column));

  /// The same, or null.
  bool? getBoolOrNull(Object column) => _converted(
    column,
    'bool',
    (value) => switch (value) {
      final bool value => value,
      final int value when _wire(column).index >= Wire.myInt8.index => value != 0,
      _ => null,
    },
  );

  /// Text. Of JSON its text; of types that are no text what they look like as text.
  String getString(Object column) => _notNull(column, 'String', getStringOrNull(column));

  /// The same, or null.
  String? getStringOrNull(Object column) {
    final number = _number(column);
    final entry = _entry(number);
    if (entry & _null != 0) return null;
    final (begin, end) = _range(number, entry);
    final wire = _result._shape.columns[number].wire;
    try {
      switch (wire) {
        case Wire.pgText || Wire.myText || Wire.pgOther || Wire.myBytes || Wire.myDecimal || Wire.textDateTime:
        case Wire.textDate || Wire.textTime || Wire.textInt || Wire.textDouble:
          return text(_result._bytes, begin, end);
        case Wire.pgJson || Wire.pgJsonb || Wire.myJson:
          return text(_result._bytes, jsonTextBegin(wire, begin), end);
        case Wire.pgBytes || Wire.pgArray:
          break;
        default:
          final value = _decoded(number);
          return value is DateTime ? value.toIso8601String() : value.toString();
      }
    } on FormatException catch (error) {
      throw ValueException('${_name(number)}: not text: ${error.message}', column: _name(number));
    }
    throw _unfit(number, wire == Wire.pgArray ? 'an array' : 'bytes', 'String');
  }

  /// The bytes of a field of any type, as the server sent them: a copy.
  Uint8List getBytes(Object column) => _notNull(column, 'Uint8List', getBytesOrNull(column));

  /// The same, or null.
  Uint8List? getBytesOrNull(Object column) {
    final number = _number(column);
    final entry = _entry(number);
    if (entry & _null != 0) return null;
    final (begin, end) = _range(number, entry);
    return Uint8List.fromList(Uint8List.sublistView(_result._bytes, begin, end));
  }

  /// A moment, in UTC: of a type without a zone its fields are taken for UTC's, of a date it is midnight.
  DateTime getDateTime(Object column) => _notNull(column, 'DateTime', getDateTimeOrNull(column));

  /// The same, or null.
  DateTime? getDateTimeOrNull(Object column) => _converted(
    column,
    'DateTime',
    (value) => switch (value) {
      final DateTime value => value,
      final Date value => value.toDateTime(),
      _ => null,
    },
  );

  /// A date, also of a moment.
  Date getDate(Object column) => _notNull(column, 'Date', getDateOrNull(column));

  /// The same, or null.
  Date? getDateOrNull(Object column) => _converted(
    column,
    'Date',
    (value) => switch (value) {
      final Date value => value,
      final DateTime value => Date.of(value),
      _ => null,
    },
  );

  /// A time of day, also of MySQL's TIME where it is one.
  TimeOfDay getTime(Object column) => _notNull(column, 'TimeOfDay', getTimeOrNull(column));

  /// The same, or null.
  TimeOfDay? getTimeOrNull(Object column) => _converted(
    column,
    'TimeOfDay',
    (value) => switch (value) {
      final TimeOfDay value => value,
      final Duration value when !value.isNegative && value.inDays == 0 => TimeOfDay.fromMicroseconds(
        value.inMicroseconds,
      ),
      _ => null,
    },
  );

  /// A length of time: of an interval without months, of MySQL's TIME, or of a time of day since midnight.
  Duration getDuration(Object column) => _notNull(column, 'Duration', getDurationOrNull(column));

  /// The same, or null.
  Duration? getDurationOrNull(Object column) => _converted(
    column,
    'Duration',
    (value) => switch (value) {
      final Duration value => value,
      final Interval value when value.months == 0 => value.toDuration(),
      final TimeOfDay value => Duration(microseconds: value.microseconds),
      _ => null,
    },
  );

  /// An integer of any size.
  BigInt getBigInt(Object column) => _notNull(column, 'BigInt', getBigIntOrNull(column));

  /// The same, or null.
  BigInt? getBigIntOrNull(Object column) => _converted(
    column,
    'BigInt',
    (value) => switch (value) {
      final BigInt value => value,
      final int value => BigInt.from(value),
      final Decimal value => value.toBigInt(),
      _ => null,
    },
  );

  /// A decimal number, also of an integer.
  Decimal getDecimal(Object column) => _notNull(column, 'Decimal', getDecimalOrNull(column));

  /// The same, or null.
  Decimal? getDecimalOrNull(Object column) => _converted(
    column,
    'Decimal',
    (value) => switch (value) {
      final Decimal value => value,
      final int value => Decimal.unchecked('$value'),
      final BigInt value => Decimal.unchecked('$value'),
      _ => null,
    },
  );

  /// A decoded JSON value, also of text that is JSON (as MariaDB has it). SQL's NULL and JSON's are both null.
  Object? getJson(Object column) {
    final number = _number(column);
    if (_isNull(number)) return null;
    switch (_result._shape.columns[number].wire) {
      case Wire.pgJson || Wire.pgJsonb || Wire.myJson || Wire.pgText || Wire.myText:
        try {
          return jsonDecode(getString(number));
        } on FormatException catch (error) {
          throw ValueException('${_name(number)}: not JSON: ${error.message}', column: _name(number));
        }
      default:
        throw _unfit(number, 'no JSON', 'JSON');
    }
  }

  /// A JSON object.
  Map<String, Object?> getMap(Object column) => switch (getJson(column)) {
    final Map<String, Object?> value => value,
    final value => throw _unfit(_number(column), value == null ? 'NULL' : 'a ${value.runtimeType}', 'Map'),
  };

  /// An array of Postgres, or a JSON array, with members of type [T].
  List<T> getList<T>(Object column) {
    final number = _number(column);
    final value = _wireAt(number) == Wire.pgArray ? this[number] : getJson(number);
    if (value is! List<Object?>) {
      throw _unfit(number, value == null ? 'NULL' : 'a ${value.runtimeType}', 'List<$T>');
    }
    return [
      for (final member in value)
        if (member is T) member else throw _unfit(number, 'with a member $member', 'List<$T>'),
    ];
  }

  /// A UUID as text, also of 16 bytes (as MySQL has it).
  String getUuid(Object column) {
    final number = _number(column);
    if (!_isNull(number)) {
      final (begin, end) = _range(number, _entry(number));
      if (end - begin == 16 && (_wireAt(number) == Wire.pgUuid || _wireAt(number) == Wire.myBytes)) {
        return decode(Wire.pgUuid, _result._bytes, _result._data, begin, end)! as String;
      }
    }
    return getString(column);
  }

  /// All fields by their columns' names; of several columns of one name the last.
  Map<String, Object?> toMap() => {
    for (final (number, column) in _result._shape.columns.indexed) column.name: this[number],
  };

  /// The row as a JSON object in UTF-8, as [Result.toJsonBytes] has it.
  Uint8List toJsonBytes() {
    final out = JsonWriter();
    _result._writeRow(out, _row);
    return out.take();
  }

  @override
  String toString() => toMap().toString();

  int _number(Object column) {
    if (column is String) {
      final number = _result._shape.indexOf(column);
      if (number >= 0) return number;
      throw ValueException('there is no column $column, but ${_result._shape.columns.join(', ')}', column: column);
    }
    if (column is int && column >= 0 && column < length) return column;
    throw ValueException('there is no column $column: there are $length');
  }

  int _entry(int number) => _result._data.getUint32(_result._fieldsAt + (_row * length + number) * 4, Endian.host);

  bool _isNull(int number) => _entry(number) & _null != 0;

  (int, int) _range(int number, int entry) {
    final next = _entry(number + 1) & _placeMask;
    return (_result._valuesAt + entry, _result._valuesAt + next);
  }

  Wire _wireAt(int number) => _result._shape.columns[number].wire;

  Wire _wire(Object column) => _wireAt(_number(column));

  String _name(int number) => _result._shape.columns[number].name;

  Object? _decoded(int number) {
    final (begin, end) = _range(number, _entry(number));
    final column = _result._shape.columns[number];
    try {
      if (column.isTextArray && column.wire == Wire.pgArray) {
        return pgArray(_result._bytes, _result._data, begin, end, isText: true);
      }
      return decode(column.wire, _result._bytes, _result._data, begin, end);
    } on FormatException catch (error) {
      throw ValueException('${column.name}: ${error.message}', column: column.name);
      // Bytes that are too short for their type: no server of good faith sends them.
      // ignore: avoid_catching_errors
    } on RangeError {
      throw ValueException('${column.name}: the value is cut short', column: column.name);
    }
  }

  T? _converted<T extends Object>(Object column, String type, T? Function(Object value) convert) {
    final number = _number(column);
    if (_isNull(number)) return null;
    final value = _decoded(number)!;
    return convert(value) ?? (throw _unfit(number, 'a ${value.runtimeType}', type));
  }

  T _notNull<T>(Object column, String type, T? value) => value ?? (throw _unfit(_number(column), 'NULL', type));

  ValueException _unfit(int number, String value, String type) =>
      ValueException('${_name(number)}: $value cannot be had as $type', column: _name(number));
}
