//! `Date` and `DateTime`: also those that are in no calendar.
//!
//! Binary, after their length: nothing (all zero), year month day, then hour minute second, then microseconds; what is
//! zero at the end is left out. Text: `2024-02-29 12:34:56.789`.
//!
//! Source: client/server protocol, "Binary Protocol Value", `ProtocolBinary::MYSQL_TYPE_DATE`.

use std::error::Error as StdError;
use std::fmt;
use std::str::FromStr;

use bytes::{BufMut, BytesMut};

use crate::value::{Field, Format, FromValue, IsNull, ParameterType, ToValue, ValueError};
use crate::wire::column::Column;
use crate::wire::column_type::ColumnType;
use crate::wire::cursor::Cursor;

/// A DATE. Its month and day may be 0, and the day may be past the month's end: the server allows both, depending on its
/// `sql_mode`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Date {
    year: u16,
    month: u8,
    day: u8,
}

impl Date {
    /// A date of a year up to 9999, a month up to 12 and a day up to 31.
    pub const fn new(year: u16, month: u8, day: u8) -> Option<Date> {
        if year <= 9999 && month <= 12 && day <= 31 { Some(Date { year, month, day }) } else { None }
    }

    /// The year; 0 if it is not known.
    pub const fn year(self) -> u16 {
        self.year
    }

    /// The month, from 1; 0 if it is not known.
    pub const fn month(self) -> u8 {
        self.month
    }

    /// The day, from 1; 0 if it is not known.
    pub const fn day(self) -> u8 {
        self.day
    }

    /// Whether it is `0000-00-00`, the server's date for no date.
    pub const fn is_zero(self) -> bool {
        self.year == 0 && self.month == 0 && self.day == 0
    }
}

/// A DATETIME or TIMESTAMP, to the microsecond, without a time zone. Its [`Date`] may be in no calendar.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct DateTime {
    date: Date,
    hour: u8,
    minute: u8,
    second: u8,
    microsecond: u32,
}

impl DateTime {
    /// A date and a time of day: up to 23:59:59.999999.
    pub const fn new(date: Date, hour: u8, minute: u8, second: u8, microsecond: u32) -> Option<DateTime> {
        if hour <= 23 && minute <= 59 && second <= 59 && microsecond <= 999_999 {
            Some(DateTime { date, hour, minute, second, microsecond })
        } else {
            None
        }
    }

    /// The date.
    pub const fn date(self) -> Date {
        self.date
    }

    /// The hour.
    pub const fn hour(self) -> u8 {
        self.hour
    }

    /// The minute.
    pub const fn minute(self) -> u8 {
        self.minute
    }

    /// The second.
    pub const fn second(self) -> u8 {
        self.second
    }

    /// The microsecond of the second.
    pub const fn microsecond(self) -> u32 {
        self.microsecond
    }

    /// Whether it is `0000-00-00 00:00:00`, the server's time for none.
    pub fn is_zero(self) -> bool {
        self == DateTime::default()
    }
}

impl From<Date> for DateTime {
    /// Midnight.
    fn from(date: Date) -> DateTime {
        DateTime { date, ..DateTime::default() }
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }
}

impl fmt::Debug for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for DateTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:02}:{:02}:{:02}", self.date, self.hour, self.minute, self.second)?;
        if self.microsecond != 0 { write!(f, ".{:06}", self.microsecond) } else { Ok(()) }
    }
}

impl fmt::Debug for DateTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn no_date() -> ValueError {
    ValueError::Malformed { what: "date" }
}

fn no_date_time() -> ValueError {
    ValueError::Malformed { what: "date with a time" }
}

impl FromStr for Date {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Date, ValueError> {
        date_from_text(text.as_bytes()).ok_or_else(no_date)
    }
}

impl FromStr for DateTime {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<DateTime, ValueError> {
        date_time_from_text(text.as_bytes()).ok_or_else(no_date_time)
    }
}

fn date_from_text(text: &[u8]) -> Option<Date> {
    let (&[y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2], []) = text.split_first_chunk()? else { return None };
    let year = number(&[y1, y2, y3, y4])?;
    Date::new(year.try_into().ok()?, number(&[m1, m2])?.try_into().ok()?, number(&[d1, d2])?.try_into().ok()?)
}

fn date_time_from_text(text: &[u8]) -> Option<DateTime> {
    let (date, time) = text.split_at_checked(10)?;
    let date = date_from_text(date)?;
    let Some((b' ' | b'T', time)) = time.split_first() else { return None };
    let (&[h1, h2, b':', m1, m2, b':', s1, s2], fraction) = time.split_first_chunk()? else { return None };
    let (hour, minute, second) = (number(&[h1, h2])?, number(&[m1, m2])?, number(&[s1, s2])?);
    DateTime::new(
        date,
        hour.try_into().ok()?,
        minute.try_into().ok()?,
        second.try_into().ok()?,
        microseconds(fraction)?,
    )
}

/// A number of up to nine digits.
pub(crate) fn number(digits: &[u8]) -> Option<u32> {
    if digits.is_empty() || digits.len() > 9 {
        return None;
    }
    digits.iter().try_fold(0, |number, &digit| digit.is_ascii_digit().then(|| number * 10 + u32::from(digit - b'0')))
}

/// What is behind the seconds: nothing, or a point and up to six digits, of which the first are the greatest.
pub(crate) fn microseconds(fraction: &[u8]) -> Option<u32> {
    match fraction {
        [] => Some(0),
        [b'.', digits @ ..] if digits.len() <= 6 => Some(number(digits)? * 10_u32.pow(6 - digits.len() as u32)),
        _ => None,
    }
}

fn date_from_bytes(cursor: &mut Cursor<'_>) -> Option<Date> {
    Date::new(cursor.u16()?, cursor.u8()?, cursor.u8()?)
}

fn date_time_from_bytes(bytes: &[u8]) -> Option<DateTime> {
    let mut cursor = Cursor::new(bytes);
    match bytes.len() {
        0 => Some(DateTime::default()),
        4 => date_from_bytes(&mut cursor).map(DateTime::from),
        7 => DateTime::new(date_from_bytes(&mut cursor)?, cursor.u8()?, cursor.u8()?, cursor.u8()?, 0),
        11 => DateTime::new(date_from_bytes(&mut cursor)?, cursor.u8()?, cursor.u8()?, cursor.u8()?, cursor.u32()?),
        _ => None,
    }
}

impl<'a> FromValue<'a> for Date {
    fn accepts(column: &Column) -> bool {
        column.type_() == ColumnType::Date
    }

    fn from_value(_: &Column, field: Field<'a>) -> Result<Date, Box<dyn StdError + Send + Sync>> {
        let date = match (field.format(), field.bytes()) {
            (Format::Text, text) => date_from_text(text),
            (Format::Binary, []) => Some(Date::default()),
            (Format::Binary, bytes @ [_, _, _, _]) => date_from_bytes(&mut Cursor::new(bytes)),
            (Format::Binary, _) => None,
        };
        date.ok_or_else(|| no_date().into())
    }
}

impl<'a> FromValue<'a> for DateTime {
    fn accepts(column: &Column) -> bool {
        matches!(column.type_(), ColumnType::DateTime | ColumnType::Timestamp)
    }

    fn from_value(_: &Column, field: Field<'a>) -> Result<DateTime, Box<dyn StdError + Send + Sync>> {
        let date_time = match field.format() {
            Format::Text => date_time_from_text(field.bytes()),
            Format::Binary => date_time_from_bytes(field.bytes()),
        };
        date_time.ok_or_else(|| no_date_time().into())
    }
}

impl ToValue for Date {
    fn null_type() -> ParameterType {
        ParameterType::Date
    }

    fn parameter_type(&self) -> ParameterType {
        ParameterType::Date
    }

    fn to_value(&self, out: &mut BytesMut) -> Result<IsNull, Box<dyn StdError + Send + Sync>> {
        if self.is_zero() {
            out.put_u8(0);
        } else {
            out.put_u8(4);
            append_date(*self, out);
        }
        Ok(IsNull::No)
    }
}

impl ToValue for DateTime {
    fn null_type() -> ParameterType {
        ParameterType::DateTime
    }

    fn parameter_type(&self) -> ParameterType {
        ParameterType::DateTime
    }

    fn to_value(&self, out: &mut BytesMut) -> Result<IsNull, Box<dyn StdError + Send + Sync>> {
        if self.is_zero() {
            out.put_u8(0);
            return Ok(IsNull::No);
        }
        let has_microseconds = self.microsecond != 0;
        let has_time = has_microseconds || (self.hour, self.minute, self.second) != (0, 0, 0);
        out.put_u8(if has_microseconds {
            11
        } else if has_time {
            7
        } else {
            4
        });
        append_date(self.date, out);
        if has_time {
            out.extend_from_slice(&[self.hour, self.minute, self.second]);
        }
        if has_microseconds {
            out.put_u32_le(self.microsecond);
        }
        Ok(IsNull::No)
    }
}

fn append_date(date: Date, out: &mut BytesMut) {
    out.put_u16_le(date.year);
    out.extend_from_slice(&[date.month, date.day]);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::value::tests::{column, read, read_text, refused, sent};

    fn date_column() -> Column {
        column(10, 0, 63, 0)
    }

    fn datetime_column() -> Column {
        column(12, 0, 63, 6)
    }

    #[test]
    fn zero_and_partial_dates_are_values() {
        for (text, bytes) in [
            ("0000-00-00", &b"\0"[..]),
            ("2024-00-15", b"\x04\xe8\x07\0\x0f"),
            ("2024-02-00", b"\x04\xe8\x07\x02\0"),
            ("2024-02-30", b"\x04\xe8\x07\x02\x1e"),
            ("9999-12-31", b"\x04\x0f\x27\x0c\x1f"),
        ] {
            let date = text.parse::<Date>().unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(date.to_string(), text);
            assert_eq!(sent(&date), bytes, "{text}");
            assert_eq!(read::<Date>(&date_column(), &bytes[1..]), date, "{text}");
            assert_eq!(read_text::<Date>(&date_column(), text.as_bytes()), date, "{text}");
            assert_eq!(date.is_zero(), text == "0000-00-00");
        }
    }

    #[test]
    fn midnight_and_microseconds_are_read_and_sent() {
        for (text, bytes) in [
            ("0000-00-00 00:00:00", &b"\0"[..]),
            ("2024-02-29 00:00:00", b"\x04\xe8\x07\x02\x1d"),
            ("2024-02-29 23:59:58", b"\x07\xe8\x07\x02\x1d\x17\x3b\x3a"),
            ("2024-02-29 00:00:00.000001", b"\x0b\xe8\x07\x02\x1d\0\0\0\x01\0\0\0"),
            ("0000-00-00 00:00:01", b"\x07\0\0\0\0\0\0\x01"),
        ] {
            let date_time = text.parse::<DateTime>().unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(date_time.to_string(), text);
            assert_eq!(sent(&date_time), bytes, "{text}");
            assert_eq!(read::<DateTime>(&datetime_column(), &bytes[1..]), date_time, "{text}");
            assert_eq!(read_text::<DateTime>(&datetime_column(), text.as_bytes()), date_time, "{text}");
        }
        let tenth = "2024-02-29 00:00:00.1".parse::<DateTime>().unwrap();
        assert_eq!(tenth.microsecond(), 100_000, "the digits begin at the greatest");
        assert_eq!("2024-02-29T00:00:00.100000".parse(), Ok(tenth));
    }

    #[test]
    fn what_is_no_date_is_refused() {
        for text in [
            "",
            "2024-02-3",
            "2024-13-01",
            "2024-01-32",
            "24-01-01",
            "2024/01/01",
            "2024-01-01 ",
            "-024-01-01",
            "２024",
        ] {
            assert!(text.parse::<Date>().is_err(), "{text}");
        }
        for text in [
            "2024-01-01",
            "2024-01-01 ",
            "2024-01-01 24:00:00",
            "2024-01-01 00:60:00",
            "2024-01-01 00:00:60",
            "2024-01-01 00:00:00.",
            "2024-01-01 00:00:00.1234567",
            "2024-01-01 00:00:00+01",
        ] {
            assert!(text.parse::<DateTime>().is_err(), "{text}");
        }
        for bytes in [&b"\x01"[..], b"\xe8\x07\x0d\x01", b"\x10\x27\x01\x01", b"\xe8\x07\x01\x01\0\0\0"] {
            refused::<Date>(&date_column(), Field::new(bytes, Format::Binary));
        }
        for bytes in
            [&b"\x01"[..], b"\xe8\x07\x01\x01\x18\0\0", b"\xe8\x07\x01\x01\0\0\0\x40\x42\x0f\0", b"\xe8\x07\x01\x01\0"]
        {
            refused::<DateTime>(&datetime_column(), Field::new(bytes, Format::Binary));
        }
    }

    proptest! {
        #[test]
        fn noise_never_panics(noise in proptest::collection::vec(any::<u8>(), 0..30)) {
            for format in [Format::Binary, Format::Text] {
                let field = Field::new(&noise, format);
                let _ = Date::from_value(&date_column(), field);
                let _ = DateTime::from_value(&datetime_column(), field);
            }
        }

        #[test]
        fn any_date_makes_the_round_trip(
            (year, month, day) in (0_u16..=9999, 0_u8..=12, 0_u8..=31),
            (hour, minute, second, microsecond) in (0_u8..24, 0_u8..60, 0_u8..60, 0_u32..1_000_000),
        ) {
            let date = Date::new(year, month, day).unwrap();
            let date_time = DateTime::new(date, hour, minute, second, microsecond).unwrap();
            prop_assert_eq!(read::<Date>(&date_column(), &sent(&date)[1..]), date);
            prop_assert_eq!(read::<DateTime>(&datetime_column(), &sent(&date_time)[1..]), date_time);
            prop_assert_eq!(date.to_string().parse(), Ok(date));
            prop_assert_eq!(date_time.to_string().parse(), Ok(date_time));
        }
    }
}
