//! Dates and times of the `chrono` crate, those without a time zone.
//!
//! They are dates of the calendar: what is none (`0000-00-00`) is an error; [`Date`] and [`DateTime`] hold it.

use chrono::{Datelike, NaiveDate, NaiveDateTime, NaiveTime, TimeDelta, Timelike};

use crate::value::converted::converted;
use crate::value::time_of_day::not_held;
use crate::value::{Date, DateTime, Time, ValueError};

const YEARS: &str = "the years 0 to 9999, without leap seconds";
const HOURS: &str = "up to 838:59:59.999999 in both directions";

impl TryFrom<Date> for NaiveDate {
    type Error = ValueError;

    fn try_from(date: Date) -> Result<NaiveDate, ValueError> {
        NaiveDate::from_ymd_opt(date.year().into(), date.month().into(), date.day().into())
            .ok_or(ValueError::NoSuchDate(date))
    }
}

impl TryFrom<NaiveDate> for Date {
    type Error = ValueError;

    fn try_from(date: NaiveDate) -> Result<Date, ValueError> {
        let own =
            || Date::new(date.year().try_into().ok()?, date.month().try_into().ok()?, date.day().try_into().ok()?);
        own().ok_or_else(|| not_held(format!("{date:?}"), "DATE", YEARS))
    }
}

impl TryFrom<DateTime> for NaiveDateTime {
    type Error = ValueError;

    fn try_from(own: DateTime) -> Result<NaiveDateTime, ValueError> {
        let date = NaiveDate::try_from(own.date()).map_err(|_| ValueError::NoSuchDateTime(own))?;
        date.and_hms_micro_opt(own.hour().into(), own.minute().into(), own.second().into(), own.microsecond())
            .ok_or(ValueError::NoSuchDateTime(own))
    }
}

impl TryFrom<NaiveDateTime> for DateTime {
    type Error = ValueError;

    /// What is finer than a microsecond is cut off.
    fn try_from(date_time: NaiveDateTime) -> Result<DateTime, ValueError> {
        let own = || {
            let (date, time) = (Date::try_from(date_time.date()).ok()?, Time::try_from(date_time.time()).ok()?);
            DateTime::new(date, time.hours().try_into().ok()?, time.minutes(), time.seconds(), time.microseconds())
        };
        own().ok_or_else(|| not_held(format!("{date_time:?}"), "DATETIME", YEARS))
    }
}

impl TryFrom<Time> for NaiveTime {
    type Error = ValueError;

    fn try_from(time: Time) -> Result<NaiveTime, ValueError> {
        let hours = time.hours().into();
        Some(time)
            .filter(|time| !time.is_negative())
            .and_then(|_| {
                NaiveTime::from_hms_micro_opt(hours, time.minutes().into(), time.seconds().into(), time.microseconds())
            })
            .ok_or_else(|| not_held(time.to_string(), "NaiveTime", "00:00:00 to 23:59:59.999999"))
    }
}

impl TryFrom<NaiveTime> for Time {
    type Error = ValueError;

    /// What is finer than a microsecond is cut off.
    fn try_from(time: NaiveTime) -> Result<Time, ValueError> {
        let own = || {
            let (hours, minutes, seconds) =
                (time.hour(), time.minute().try_into().ok()?, time.second().try_into().ok()?);
            Time::new(false, hours.try_into().ok()?, minutes, seconds, time.nanosecond() / 1000)
        };
        own().ok_or_else(|| not_held(format!("{time:?}"), "TIME", "without leap seconds"))
    }
}

impl From<Time> for TimeDelta {
    fn from(time: Time) -> TimeDelta {
        TimeDelta::microseconds(time.as_microseconds())
    }
}

impl TryFrom<TimeDelta> for Time {
    type Error = ValueError;

    /// What is finer than a microsecond is cut off.
    fn try_from(duration: TimeDelta) -> Result<Time, ValueError> {
        duration
            .num_microseconds()
            .and_then(Time::from_microseconds)
            .ok_or_else(|| not_held(duration.to_string(), "TIME", HOURS))
    }
}

converted!(NaiveDate: Date, NaiveDateTime: DateTime, NaiveTime: Time, TimeDelta: Time);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::tests::{column, read_text, refused, sent};
    use crate::value::{Field, Format, ToValue};
    use bytes::BytesMut;

    #[test]
    fn dates_of_the_calendar_are_read_and_sent() {
        let (date_column, datetime_column) = (column(10, 0, 63, 0), column(12, 0, 63, 6));
        let date = NaiveDate::from_ymd_opt(2024, 2, 29).unwrap();
        assert_eq!(read_text::<NaiveDate>(&date_column, b"2024-02-29"), date);
        assert_eq!(sent(&date), sent(&"2024-02-29".parse::<Date>().unwrap()));
        let date_time = date.and_hms_micro_opt(23, 59, 59, 999_999).unwrap();
        assert_eq!(read_text::<NaiveDateTime>(&datetime_column, b"2024-02-29 23:59:59.999999"), date_time);
        assert_eq!(sent(&date_time), sent(&"2024-02-29 23:59:59.999999".parse::<DateTime>().unwrap()));
        let finer = date_time.with_nanosecond(999_999_999).unwrap();
        assert_eq!(sent(&finer), sent(&date_time), "what is finer than a microsecond is cut off");
    }

    #[test]
    fn what_is_in_no_calendar_is_an_error_that_holds_it() {
        let (date_column, datetime_column) = (column(10, 0, 63, 0), column(12, 0, 63, 6));
        for text in ["0000-00-00", "2024-00-15", "2024-02-30"] {
            let error = refused::<NaiveDate>(&date_column, Field::new(text.as_bytes(), Format::Text));
            assert_eq!(error, ValueError::NoSuchDate(text.parse().unwrap()));
            let text = format!("{text} 12:00:00");
            let error = refused::<NaiveDateTime>(&datetime_column, Field::new(text.as_bytes(), Format::Text));
            assert_eq!(error, ValueError::NoSuchDateTime(text.parse().unwrap()));
        }
        for date in [NaiveDate::MIN, NaiveDate::MAX, NaiveDate::from_ymd_opt(-1, 1, 1).unwrap()] {
            assert!(date.to_value(&mut BytesMut::new()).is_err(), "{date}");
        }
        let leap_second =
            NaiveDate::from_ymd_opt(2016, 12, 31).unwrap().and_hms_micro_opt(23, 59, 59, 1_500_000).unwrap();
        let error = leap_second.to_value(&mut BytesMut::new()).expect_err("the server has no leap seconds");
        assert!(error.to_string().contains("leap"), "{error}");
    }

    #[test]
    fn times_are_a_time_of_day_or_a_duration() {
        let time_column = column(11, 0, 63, 6);
        let time = NaiveTime::from_hms_micro_opt(23, 59, 59, 1).unwrap();
        assert_eq!(read_text::<NaiveTime>(&time_column, b"23:59:59.000001"), time);
        assert_eq!(sent(&time), sent(&"23:59:59.000001".parse::<Time>().unwrap()));
        for text in ["24:00:00", "-00:00:01", "838:59:59"] {
            let error = refused::<NaiveTime>(&time_column, Field::new(text.as_bytes(), Format::Text));
            assert!(error.to_string().starts_with(text), "{error}");
            let delta = read_text::<TimeDelta>(&time_column, text.as_bytes());
            assert_eq!(sent(&delta), sent(&text.parse::<Time>().unwrap()));
        }
        assert!(TimeDelta::hours(839).to_value(&mut BytesMut::new()).is_err());
        assert!(TimeDelta::MAX.to_value(&mut BytesMut::new()).is_err());
    }
}
