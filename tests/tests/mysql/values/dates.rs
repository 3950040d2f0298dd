//! DATE, DATETIME, TIMESTAMP and TIME.

use std::time::Duration;

use cenote_mysql::value::{Date, DateTime, Time, Value, ValueError};
use cenote_tests::mysql::Server;
use cenote_tests::on_each_server;
use chrono::{NaiveDate, NaiveDateTime};

use super::{Place, read};

on_each_server!(
    dates_and_times_make_the_round_trip,
    zero_and_partial_dates_are_values_and_typed_errors,
    zero_dates_can_be_sent,
    times_make_the_round_trip_at_their_edges,
    a_fraction_keeps_its_leading_zeros,
);

fn parse<T: std::str::FromStr<Err = ValueError>>(text: &str) -> T {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

async fn dates_and_times_make_the_round_trip(server: Server) {
    let place = Place::new(server, "dates").await;
    place.round_trip::<Date>("date", ["1000-01-01", "2024-02-29", "9999-12-31"].map(parse)).await;
    let whole = ["1000-01-01 00:00:00", "2024-02-29 00:00:00", "2024-02-29 23:59:58", "9999-12-31 23:59:59"];
    place.round_trip::<DateTime>("datetime", whole.map(parse)).await;
    let finer = ["2024-02-29 00:00:00.000001", "2024-02-29 12:34:56.789", "9999-12-31 23:59:59.999999"];
    place.round_trip::<DateTime>("datetime(6)", finer.map(parse)).await;
    place.round_trip::<DateTime>("datetime(6)", whole.map(parse)).await;
    let of_the_age = ["1971-01-01 00:00:01", "2024-02-29 00:00:00", "2037-12-31 23:59:59.999999"];
    place.round_trip::<DateTime>("timestamp(6) null", of_the_age.map(parse)).await;
    for row in place.made_by("datetime(3)", "'2024-02-29 12:34:56.789'").await {
        assert_eq!(read::<Value>(&row), Value::DateTime(parse("2024-02-29 12:34:56.789")));
        assert_eq!(row.columns()[0].decimals(), 3);
    }
}

/// Case 23.
async fn zero_and_partial_dates_are_values_and_typed_errors(server: Server) {
    let place = Place::new(server, "zero_dates").await;
    let reason = |error: cenote_mysql::Error| {
        let source = std::error::Error::source(&error).and_then(|source| source.downcast_ref::<ValueError>());
        source.cloned().unwrap_or_else(|| panic!("it does not say why: {error}"))
    };
    for text in ["0000-00-00", "2024-00-15", "2024-02-00"] {
        for row in place.made_by("date", &format!("'{text}'")).await {
            let date: Date = read(&row);
            assert_eq!((date, date.is_zero()), (parse(text), text.starts_with("0000")), "{text}");
            let error = row.get::<_, NaiveDate>(0).expect_err("it is in no calendar");
            assert_eq!(reason(error), ValueError::NoSuchDate(date));
        }
        for sql_type in ["datetime", "datetime(6)"] {
            for row in place.made_by(sql_type, &format!("'{text} 00:00:00'")).await {
                let date_time: DateTime = read(&row);
                assert_eq!(date_time, parse::<Date>(text).into(), "{text}");
                let error = row.get::<_, NaiveDateTime>(0).expect_err("it is in no calendar");
                assert_eq!(reason(error), ValueError::NoSuchDateTime(date_time));
            }
        }
    }
    for row in place.made_by("timestamp null", "'0000-00-00 00:00:00'").await {
        assert!(read::<DateTime>(&row).is_zero());
    }
    // With a time, and without a date.
    for row in place.made_by("datetime(6)", "'0000-00-00 00:00:00'").await {
        assert_eq!(read::<DateTime>(&row).to_string(), "0000-00-00 00:00:00");
    }
}

async fn zero_dates_can_be_sent(server: Server) {
    let place = Place::new(server, "send_zero_dates").await;
    for text in ["0000-00-00", "2024-00-15"] {
        let table = place.table("date").await;
        place.admin.run(&format!("set session sql_mode = ''; insert into {table} (v) values ('{text}')")).await;
        let sql = format!("select v from {table} where v = ?");
        let row =
            place.pool.query_one(&sql, &[&parse::<Date>(text)]).await.unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(read::<Date>(&row), parse(text));
    }
}

/// Case 24.
async fn times_make_the_round_trip_at_their_edges(server: Server) {
    let place = Place::new(server, "times").await;
    let times = ["00:00:00", "-838:59:59", "838:59:59", "-00:00:01", "23:59:59", "24:00:00", "100:00:00"];
    place.round_trip::<Time>("time", times.map(parse)).await;
    place.round_trip::<Time>("time(6)", times.map(parse)).await;
    place.round_trip::<Time>("time(6)", ["00:00:00.000001", "-00:00:00.1", "-837:59:59.999999"].map(parse)).await;
    place.round_trip("time(6)", [Duration::ZERO, Duration::from_micros(1), Duration::from_secs(3_020_399)]).await;
    for row in place.made_by("time(6)", "'-00:00:00.000001'").await {
        assert_eq!(read::<Time>(&row).as_microseconds(), -1);
        assert!(row.get::<_, Duration>(0).expect_err("it is negative").to_string().contains("-00:00:00.000001"));
    }
    // One that is too great is the server's to refuse or to cut, and the next is fine.
    let error = place.pool.execute("insert into t0 (v) values (?)", &[&Duration::from_secs(900 * 3600)]).await;
    assert!(error.is_err_and(|error| error.is_caller()));
    place.pool.execute("insert into t0 (v) values (?)", &[&Duration::from_secs(1)]).await.expect("it is fine");
}

async fn a_fraction_keeps_its_leading_zeros(server: Server) {
    let place = Place::new(server, "fractions").await;
    for (digits, text, microseconds) in
        [(1, "0.1", 100_000), (3, "0.001", 1_000), (5, "0.00001", 10), (6, "0.000001", 1)]
    {
        for row in place.made_by(&format!("time({digits})"), &format!("'{text}'")).await {
            assert_eq!(read::<Time>(&row).microseconds(), microseconds, "{text}");
        }
        let date_time = format!("'2024-01-01 00:00:00{}'", &text[1..]);
        for row in place.made_by(&format!("datetime({digits})"), &date_time).await {
            assert_eq!(read::<DateTime>(&row).microsecond(), microseconds, "{date_time}");
        }
    }
}
