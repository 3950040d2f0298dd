//! Dates and times of the `time` crate, those without a time zone.
//!
//! They are dates of the calendar: what is none (`0000-00-00`) is an error; [`Date`] and [`DateTime`] hold it.

use ::time::{Duration, Month, PrimitiveDateTime};

use crate::value::converted::converted;
use crate::value::time_of_day::not_held;
use crate::value::{Date, DateTime, Time, ValueError};

const YEARS: &str = "the years 0 to 9999";
const HOURS: &str = "up to 838:59:59.999999 in both directions";

impl TryFrom<Date> for ::time::Date {
    type Error = ValueError;

    fn try_from(date: Date) -> Result<::time::Date, ValueError> {
        let month = Month::try_from(date.month()).map_err(|_| ValueError::NoSuchDate(date))?;
        ::time::Date::from_calendar_date(date.year().into(), month, date.day())
            .map_err(|_| ValueError::NoSuchDate(date))
    }
}

impl TryFrom<::time::Date> for Date {
    type Error = ValueError;

    fn try_from(date: ::time::Date) -> Result<Date, ValueError> {
        let year = u16::try_from(date.year()).ok();
        year.and_then(|year| Date::new(year, date.month().into(), date.day()))
            .ok_or_else(|| not_held(date.to_string(), "DATE", YEARS))
    }
}

impl TryFrom<DateTime> for PrimitiveDateTime {
    type Error = ValueError;

    fn try_from(own: DateTime) -> Result<PrimitiveDateTime, ValueError> {
        let date = ::time::Date::try_from(own.date()).map_err(|_| ValueError::NoSuchDateTime(own))?;
        date.with_hms_micro(own.hour(), own.minute(), own.second(), own.microsecond())
            .map_err(|_| ValueError::NoSuchDateTime(own))
    }
}

impl TryFrom<PrimitiveDateTime> for DateTime {
    type Error = ValueError;

    /// What is finer than a microsecond is cut off.
    fn try_from(date_time: PrimitiveDateTime) -> Result<DateTime, ValueError> {
        let (hour, minute, second, microsecond) = date_time.as_hms_micro();
        let date = Date::try_from(date_time.date()).ok();
        date.and_then(|date| DateTime::new(date, hour, minute, second, microsecond))
            .ok_or_else(|| not_held(date_time.to_string(), "DATETIME", YEARS))
    }
}

impl TryFrom<Time> for ::time::Time {
    type Error = ValueError;

    fn try_from(time: Time) -> Result<::time::Time, ValueError> {
        let hours = u8::try_from(time.hours()).ok().filter(|_| !time.is_negative());
        hours
            .and_then(|hours| {
                ::time::Time::from_hms_micro(hours, time.minutes(), time.seconds(), time.microseconds()).ok()
            })
            .ok_or_else(|| not_held(time.to_string(), "Time", "00:00:00 to 23:59:59.999999"))
    }
}

impl From<::time::Time> for Time {
    /// What is finer than a microsecond is cut off.
    fn from(time: ::time::Time) -> Time {
        let (hours, minutes, seconds, microseconds) = time.as_hms_micro();
        // A time of day is always less than what there is room for.
        Time::new(false, hours.into(), minutes, seconds, microseconds).unwrap_or_default()
    }
}

impl From<Time> for Duration {
    fn from(time: Time) -> Duration {
        Duration::microseconds(time.as_microseconds())
    }
}

impl TryFrom<Duration> for Time {
    type Error = ValueError;

    /// What is finer than a microsecond is cut off.
    fn try_from(duration: Duration) -> Result<Time, ValueError> {
        i64::try_from(duration.whole_microseconds())
            .ok()
            .and_then(Time::from_microseconds)
            .ok_or_else(|| not_held(duration.to_string(), "TIME", HOURS))
    }
}

converted!(::time::Date: Date, PrimitiveDateTime: DateTime, ::time::Time: Time, Duration: Time);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::tests::{column, read_text, refused, sent};
    use crate::value::{Field, Format, ToValue};
    use bytes::BytesMut;

    #[test]
    fn dates_of_the_calendar_are_read_and_sent() {
        let (date_column, datetime_column) = (column(10, 0, 63, 0), column(12, 0, 63, 6));
        let date = ::time::Date::from_calendar_date(2024, Month::February, 29).unwrap();
        assert_eq!(read_text::<::time::Date>(&date_column, b"2024-02-29"), date);
        assert_eq!(sent(&date), sent(&"2024-02-29".parse::<Date>().unwrap()));
        let date_time = date.with_hms_nano(23, 59, 59, 999_999_999).unwrap();
        let cut = date.with_hms_micro(23, 59, 59, 999_999).unwrap();
        assert_eq!(read_text::<PrimitiveDateTime>(&datetime_column, b"2024-02-29 23:59:59.999999"), cut);
        assert_eq!(sent(&date_time), sent(&"2024-02-29 23:59:59.999999".parse::<DateTime>().unwrap()));
    }

    #[test]
    fn what_is_in_no_calendar_is_an_error_that_holds_it() {
        let (date_column, datetime_column) = (column(10, 0, 63, 0), column(12, 0, 63, 6));
        for text in ["0000-00-00", "2024-00-15", "2024-02-30"] {
            let error = refused::<::time::Date>(&date_column, Field::new(text.as_bytes(), Format::Text));
            assert_eq!(error, ValueError::NoSuchDate(text.parse().unwrap()));
            let text = format!("{text} 12:00:00");
            let error = refused::<PrimitiveDateTime>(&datetime_column, Field::new(text.as_bytes(), Format::Text));
            assert_eq!(error, ValueError::NoSuchDateTime(text.parse().unwrap()));
        }
        assert!(::time::Date::MIN.to_value(&mut BytesMut::new()).is_err());
    }

    #[test]
    fn times_are_a_time_of_day_or_a_duration() {
        let time_column = column(11, 0, 63, 6);
        let time = ::time::Time::from_hms_micro(23, 59, 59, 1).unwrap();
        assert_eq!(read_text::<::time::Time>(&time_column, b"23:59:59.000001"), time);
        assert_eq!(sent(&time), sent(&"23:59:59.000001".parse::<Time>().unwrap()));
        for text in ["24:00:00", "-00:00:01", "838:59:59"] {
            let error = refused::<::time::Time>(&time_column, Field::new(text.as_bytes(), Format::Text));
            assert!(error.to_string().starts_with(text), "{error}");
            let duration = read_text::<Duration>(&time_column, text.as_bytes());
            assert_eq!(sent(&duration), sent(&text.parse::<Time>().unwrap()));
        }
        assert!(Duration::hours(839).to_value(&mut BytesMut::new()).is_err());
        assert!(Duration::MAX.to_value(&mut BytesMut::new()).is_err());
    }
}
