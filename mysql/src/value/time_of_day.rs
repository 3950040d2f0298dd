//! `Time`: a TIME, which is a duration as well as a time of day.
//!
//! Binary, after their length: nothing (zero), or sign, days, hours, minutes, seconds, and then microseconds, which are
//! left out when they are zero. Text: `-838:59:59.000001`.
//!
//! Source: client/server protocol, "Binary Protocol Value", `ProtocolBinary::MYSQL_TYPE_TIME`.

use std::error::Error as StdError;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use bytes::{BufMut, BytesMut};

use crate::value::date::{microseconds, number};
use crate::value::{Field, Format, FromValue, IsNull, ParameterType, ToValue, ValueError};
use crate::wire::column::Column;
use crate::wire::column_type::ColumnType;
use crate::wire::cursor::Cursor;

/// 838:59:59.999999
const MICROSECONDS_MAX: i64 = 3_020_399_999_999;

/// A TIME: up to 838:59:59.999999 in both directions. (MySQL itself stops at 838:59:59, and from 838 hours on takes no
/// parameter with a fraction; MariaDB does both.)
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time {
    microseconds: i64,
}

impl Time {
    /// The greatest.
    pub const MAX: Time = Time { microseconds: MICROSECONDS_MAX };
    /// The least.
    pub const MIN: Time = Time { microseconds: -MICROSECONDS_MAX };

    /// A time of up to 838 hours, 59 minutes, 59 seconds and 999,999 microseconds.
    pub const fn new(is_negative: bool, hours: u16, minutes: u8, seconds: u8, microseconds: u32) -> Option<Time> {
        if hours > 838 || minutes > 59 || seconds > 59 || microseconds > 999_999 {
            return None;
        }
        let all_seconds = hours as i64 * 3600 + minutes as i64 * 60 + seconds as i64;
        let all = all_seconds * 1_000_000 + microseconds as i64;
        Some(Time { microseconds: if is_negative { -all } else { all } })
    }

    /// So many microseconds; `None` past 838:59:59.999999.
    pub const fn from_microseconds(microseconds: i64) -> Option<Time> {
        if -MICROSECONDS_MAX <= microseconds && microseconds <= MICROSECONDS_MAX {
            Some(Time { microseconds })
        } else {
            None
        }
    }

    /// All of it, in microseconds.
    pub const fn as_microseconds(self) -> i64 {
        self.microseconds
    }

    /// Whether it is less than zero.
    pub const fn is_negative(self) -> bool {
        self.microseconds < 0
    }

    /// The hours, whatever the sign.
    pub const fn hours(self) -> u16 {
        (self.microseconds.unsigned_abs() / 3_600_000_000) as u16
    }

    /// The minutes of the hour.
    pub const fn minutes(self) -> u8 {
        (self.microseconds.unsigned_abs() / 60_000_000 % 60) as u8
    }

    /// The seconds of the minute.
    pub const fn seconds(self) -> u8 {
        (self.microseconds.unsigned_abs() / 1_000_000 % 60) as u8
    }

    /// The microseconds of the second.
    pub const fn microseconds(self) -> u32 {
        (self.microseconds.unsigned_abs() % 1_000_000) as u32
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.is_negative() { "-" } else { "" };
        write!(f, "{sign}{:02}:{:02}:{:02}", self.hours(), self.minutes(), self.seconds())?;
        if self.microseconds() != 0 { write!(f, ".{:06}", self.microseconds()) } else { Ok(()) }
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn no_time() -> ValueError {
    ValueError::Malformed { what: "time" }
}

impl FromStr for Time {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Time, ValueError> {
        from_text(text.as_bytes()).ok_or_else(no_time)
    }
}

fn from_text(text: &[u8]) -> Option<Time> {
    let (is_negative, text) = match text {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    let colon = text.iter().position(|&byte| byte == b':')?;
    let (hours, rest) = text.split_at_checked(colon)?;
    let (&[b':', m1, m2, b':', s1, s2], fraction) = rest.split_first_chunk()? else { return None };
    let (hours, minutes, seconds) = (number(hours)?, number(&[m1, m2])?, number(&[s1, s2])?);
    let (hours, minutes, seconds) = (hours.try_into().ok()?, minutes.try_into().ok()?, seconds.try_into().ok()?);
    Time::new(is_negative, hours, minutes, seconds, microseconds(fraction)?)
}

fn from_bytes(bytes: &[u8]) -> Option<Time> {
    if bytes.is_empty() {
        return Some(Time::default());
    }
    if !matches!(bytes.len(), 8 | 12) {
        return None;
    }
    let mut cursor = Cursor::new(bytes);
    let (is_negative, days) = (cursor.u8()? != 0, cursor.u32()?);
    let (hours, minutes, seconds) = (cursor.u8()?, cursor.u8()?, cursor.u8()?);
    let hours = days.checked_mul(24)?.checked_add(hours.into())?;
    let microseconds = if cursor.is_empty() { 0 } else { cursor.u32()? };
    Time::new(is_negative, hours.try_into().ok()?, minutes, seconds, microseconds)
}

impl<'a> FromValue<'a> for Time {
    fn accepts(column: &Column) -> bool {
        column.type_() == ColumnType::Time
    }

    fn from_value(_: &Column, field: Field<'a>) -> Result<Time, Box<dyn StdError + Send + Sync>> {
        let time = match field.format() {
            Format::Text => from_text(field.bytes()),
            Format::Binary => from_bytes(field.bytes()),
        };
        time.ok_or_else(|| no_time().into())
    }
}

impl ToValue for Time {
    fn null_type() -> ParameterType {
        ParameterType::Time
    }

    fn parameter_type(&self) -> ParameterType {
        ParameterType::Time
    }

    fn to_value(&self, out: &mut BytesMut) -> Result<IsNull, Box<dyn StdError + Send + Sync>> {
        if self.microseconds == 0 {
            out.put_u8(0);
            return Ok(IsNull::No);
        }
        out.put_u8(if self.microseconds() == 0 { 8 } else { 12 });
        out.put_u8(self.is_negative().into());
        out.put_u32_le(u32::from(self.hours() / 24));
        out.extend_from_slice(&[(self.hours() % 24) as u8, self.minutes(), self.seconds()]);
        if self.microseconds() != 0 {
            out.put_u32_le(self.microseconds());
        }
        Ok(IsNull::No)
    }
}

impl TryFrom<Duration> for Time {
    type Error = ValueError;

    /// What is finer than a microsecond is cut off.
    fn try_from(duration: Duration) -> Result<Time, ValueError> {
        let time = i64::try_from(duration.as_micros()).ok().and_then(Time::from_microseconds);
        time.ok_or_else(|| not_held(format!("{duration:?}"), "TIME", "up to 838:59:59.999999"))
    }
}

pub(crate) fn not_held(value: String, wanted: &'static str, range: &str) -> ValueError {
    ValueError::OutOfRange { value, wanted, range: range.to_owned() }
}

/// A TIME that is not negative.
impl<'a> FromValue<'a> for Duration {
    fn accepts(column: &Column) -> bool {
        Time::accepts(column)
    }

    fn from_value(column: &Column, field: Field<'a>) -> Result<Duration, Box<dyn StdError + Send + Sync>> {
        let time = Time::from_value(column, field)?;
        match u64::try_from(time.as_microseconds()) {
            Ok(microseconds) => Ok(Duration::from_micros(microseconds)),
            Err(_) => Err(not_held(time.to_string(), "Duration", "from 0").into()),
        }
    }
}

/// As a TIME, to the microsecond.
impl ToValue for Duration {
    fn null_type() -> ParameterType {
        ParameterType::Time
    }

    fn parameter_type(&self) -> ParameterType {
        ParameterType::Time
    }

    fn to_value(&self, out: &mut BytesMut) -> Result<IsNull, Box<dyn StdError + Send + Sync>> {
        Time::try_from(*self)?.to_value(out)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::value::tests::{column, read, read_text, refused, sent};

    fn time_column() -> Column {
        column(11, 0, 63, 6)
    }

    #[test]
    fn times_are_read_and_sent_at_their_edges() {
        for (text, bytes) in [
            ("00:00:00", &b"\0"[..]),
            ("00:00:00.000001", b"\x0c\0\0\0\0\0\0\0\0\x01\0\0\0"),
            ("-838:59:59", b"\x08\x01\x22\0\0\0\x16\x3b\x3b"),
            ("838:59:59.999999", b"\x0c\0\x22\0\0\0\x16\x3b\x3b\x3f\x42\x0f\0"),
            ("-00:00:00.100000", b"\x0c\x01\0\0\0\0\0\0\0\xa0\x86\x01\0"),
            ("24:00:00", b"\x08\0\x01\0\0\0\0\0\0"),
        ] {
            let time = text.parse::<Time>().unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(time.to_string(), text);
            assert_eq!(sent(&time), bytes, "{text}");
            assert_eq!(read::<Time>(&time_column(), &bytes[1..]), time, "{text}");
            assert_eq!(read_text::<Time>(&time_column(), text.as_bytes()), time, "{text}");
        }
        assert_eq!("-00:00:00".parse(), Ok(Time::default()), "zero has no sign");
        assert!(Time::MIN < "-00:00:01".parse().unwrap() && Time::default() < Time::MAX);
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in
            ["", "-", "00:00", "839:00:00", "00:60:00", "00:00:60", "1:2:3", ":00:00", "00:00:00.1234567", "+1:00:00"]
        {
            assert!(text.parse::<Time>().is_err(), "{text}");
        }
        for bytes in [
            &b"\0"[..],
            b"\0\xff\xff\xff\xff\0\0\0",
            b"\0\x22\0\0\0\x17\0\0",
            b"\0\0\0\0\0\0\x3c\0",
            b"\0\0\0\0\0\0\0\0\x40\x42\x0f\0",
            b"\0\0\0\0\0\0\0\0\0",
        ] {
            refused::<Time>(&time_column(), Field::new(bytes, Format::Binary));
        }
    }

    #[test]
    fn a_duration_is_a_time_that_is_not_negative() {
        let duration = Duration::from_micros(3_600_000_001);
        assert_eq!(sent(&duration), sent(&"01:00:00.000001".parse::<Time>().unwrap()));
        assert_eq!(read_text::<Duration>(&time_column(), b"01:00:00.000001"), duration);
        let error = refused::<Duration>(&time_column(), Field::new(b"-00:00:01", Format::Text));
        assert_eq!(error.to_string(), "-00:00:01 is no Duration (from 0)");
        assert!(Duration::from_secs(838 * 3600 + 3599).to_value(&mut BytesMut::new()).is_ok());
        assert!(Duration::from_secs(839 * 3600).to_value(&mut BytesMut::new()).is_err());
        assert!(Duration::MAX.to_value(&mut BytesMut::new()).is_err());
    }

    proptest! {
        #[test]
        fn noise_never_panics(noise in proptest::collection::vec(any::<u8>(), 0..30)) {
            for format in [Format::Binary, Format::Text] {
                let _ = Time::from_value(&time_column(), Field::new(&noise, format));
            }
        }

        #[test]
        fn any_time_makes_the_round_trip(microseconds in -MICROSECONDS_MAX..=MICROSECONDS_MAX) {
            let time = Time::from_microseconds(microseconds).unwrap();
            prop_assert_eq!(read::<Time>(&time_column(), &sent(&time)[1..]), time);
            prop_assert_eq!(time.to_string().parse(), Ok(time));
        }
    }
}
