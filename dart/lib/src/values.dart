// Types of values that Dart has none for, or not one alone.

/// A decimal number as its digits: `12.50` keeps its last zero. Postgres' `NaN` and `Infinity` are among them.
final class Decimal {
  /// A decimal number by its digits. Throws a [FormatException] if they are no number.
  Decimal(this.text) {
    if (!_pattern.hasMatch(text)) throw FormatException('not a decimal number', text);
  }

  /// What the server sent, or what has been looked at before.
  const Decimal.unchecked(this.text);

  static final _pattern = RegExp(r'^(?:[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|NaN|-?Infinity)$');

  /// The digits.
  final String text;

  /// The nearest double.
  double toDouble() => double.parse(text);

  /// The same as an integer, or `null` if it is none.
  BigInt? toBigInt() {
    final point = text.indexOf('.');
    if (point < 0) return BigInt.tryParse(text);
    for (var at = point + 1; at < text.length; at++) {
      if (text.codeUnitAt(at) != 0x30) return null;
    }
    return BigInt.tryParse(text.substring(0, point));
  }

  @override
  bool operator ==(Object other) => other is Decimal && other.text == text;

  @override
  int get hashCode => text.hashCode;

  @override
  String toString() => text;
}

/// A date of no time and no zone.
final class Date implements Comparable<Date> {
  /// A date by its parts; those out of range carry over, as in [DateTime.utc].
  factory Date(int year, int month, int day) =>
      Date.fromDays(DateTime.utc(year, month, day).millisecondsSinceEpoch ~/ _dayMs);

  /// The date that a moment has where it is: its own year, month and day.
  factory Date.of(DateTime moment) => Date(moment.year, moment.month, moment.day);

  /// A date by its days since 1970-01-01.
  const Date.fromDays(this.days);

  static const _dayMs = Duration.millisecondsPerDay;

  /// Days since 1970-01-01.
  final int days;

  /// Midnight of it, UTC.
  DateTime toDateTime() => DateTime.fromMillisecondsSinceEpoch(days * _dayMs, isUtc: true);

  /// The year.
  int get year => toDateTime().year;

  /// The month, from 1.
  int get month => toDateTime().month;

  /// The day of the month, from 1.
  int get day => toDateTime().day;

  @override
  int compareTo(Date other) => days.compareTo(other.days);

  @override
  bool operator ==(Object other) => other is Date && other.days == days;

  @override
  int get hashCode => days.hashCode;

  @override
  String toString() => toDateTime().toIso8601String().split('T').first;
}

/// A time of day of no date and no zone, to the microsecond.
final class TimeOfDay implements Comparable<TimeOfDay> {
  /// A time by its parts.
  const TimeOfDay(int hour, int minute, [int second = 0, int microsecond = 0])
    : microseconds = ((hour * 60 + minute) * 60 + second) * 1000000 + microsecond;

  /// A time by its microseconds since midnight.
  const TimeOfDay.fromMicroseconds(this.microseconds);

  /// Microseconds since midnight.
  final int microseconds;

  /// The hour.
  int get hour => microseconds ~/ 3600000000;

  /// The minute.
  int get minute => microseconds ~/ 60000000 % 60;

  /// The second.
  int get second => microseconds ~/ 1000000 % 60;

  /// The microsecond within the second.
  int get microsecond => microseconds % 1000000;

  @override
  int compareTo(TimeOfDay other) => microseconds.compareTo(other.microseconds);

  @override
  bool operator ==(Object other) => other is TimeOfDay && other.microseconds == microseconds;

  @override
  int get hashCode => microseconds.hashCode;

  @override
  String toString() {
    String two(int number) => number.toString().padLeft(2, '0');
    final fraction = microsecond == 0 ? '' : '.${microsecond.toString().padLeft(6, '0')}';
    return '${two(hour)}:${two(minute)}:${two(second)}$fraction';
  }
}

/// Postgres' interval: its months, days and microseconds do not add up to one length of time.
final class Interval {
  /// An interval by its parts.
  const Interval({this.months = 0, this.days = 0, this.microseconds = 0});

  /// Months.
  final int months;

  /// Days.
  final int days;

  /// Microseconds.
  final int microseconds;

  /// The same as a length of time, with days of 24 hours. Throws a [StateError] if there are months in it.
  Duration toDuration() {
    if (months != 0) throw StateError('an interval with months has no length of its own');
    return Duration(days: days, microseconds: microseconds);
  }

  @override
  bool operator ==(Object other) =>
      other is Interval && other.months == months && other.days == days && other.microseconds == microseconds;

  @override
  int get hashCode => Object.hash(months, days, microseconds);

  @override
  String toString() => '$months months $days days $microseconds microseconds';
}

/// A parameter that is JSON, whatever its Dart type: a list, text, a number.
final class Json {
  /// JSON of a value that `jsonEncode` knows.
  const Json(this.value);

  /// The value.
  final Object? value;
}

/// A UUID as a parameter. As a field it is text.
final class Uuid {
  /// A UUID by its text, with or without dashes. Throws a [FormatException] if it is none.
  Uuid(String text) : text = text.toLowerCase() {
    if (!_pattern.hasMatch(this.text)) throw FormatException('not a UUID', text);
  }

  static final _pattern = RegExp(r'^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$');

  /// Its text, in lower case.
  final String text;

  @override
  bool operator ==(Object other) => other is Uuid && other.text.replaceAll('-', '') == text.replaceAll('-', '');

  @override
  int get hashCode => text.replaceAll('-', '').hashCode;

  @override
  String toString() => text;
}
