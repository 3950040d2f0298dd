//! Values of other crates: chrono, time, uuid, serde_json, rust_decimal. And any value at all.

use cenote_mysql::Pool;
use cenote_mysql::value::{Date, DateTime, Json, Time};
use cenote_tests::mysql::{Server, settings};
use cenote_tests::on_each_server;
use chrono::{NaiveDate, NaiveTime, TimeDelta};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use rust_decimal::Decimal;
use serde_json::json;
use uuid::Uuid;

use super::{Place, read};

on_each_server!(
    dates_of_chrono_make_the_round_trip,
    dates_of_time_make_the_round_trip,
    uuids_make_the_round_trip,
    json_makes_the_round_trip,
    decimals_make_the_round_trip,
);

async fn dates_of_chrono_make_the_round_trip(server: Server) {
    let place = Place::new(server, "chrono").await;
    let days = [(2024, 2, 29), (1970, 1, 1), (1000, 1, 1), (9999, 12, 31)]
        .map(|(year, month, day)| NaiveDate::from_ymd_opt(year, month, day).unwrap());
    let clock = NaiveTime::from_hms_micro_opt(23, 59, 59, 999_999).unwrap();
    place.round_trip("date", days).await;
    place.round_trip("datetime(6)", days.map(|day| day.and_time(clock))).await;
    place.round_trip("datetime", days.map(|day| day.and_time(NaiveTime::MIN))).await;
    place.round_trip("time(6)", [clock, NaiveTime::MIN]).await;
    place.round_trip("time(6)", [TimeDelta::microseconds(-1), TimeDelta::hours(838), TimeDelta::zero()]).await;
    for row in place.made_by("time", "'24:00:00'").await {
        assert!(row.get::<_, NaiveTime>(0).expect_err("no time of day").is_caller());
    }
}

async fn dates_of_time_make_the_round_trip(server: Server) {
    use time::{Duration, Month, PrimitiveDateTime};

    let place = Place::new(server, "time").await;
    let day = time::Date::from_calendar_date(2024, Month::February, 29).unwrap();
    let clock = time::Time::from_hms_micro(23, 59, 59, 999_999).unwrap();
    place.round_trip("date", [day, time::Date::from_calendar_date(9999, Month::December, 31).unwrap()]).await;
    place.round_trip("datetime(6)", [PrimitiveDateTime::new(day, clock), day.midnight()]).await;
    place.round_trip("time(6)", [clock, time::Time::MIDNIGHT]).await;
    place.round_trip("time(6)", [Duration::microseconds(-1), Duration::hours(838), Duration::ZERO]).await;
}

async fn uuids_make_the_round_trip(server: Server) {
    let place = Place::new(server, "uuid").await;
    // MariaDB's own type has only UUIDs of a version that there is.
    let random = uuid::Builder::from_random_bytes(fastrand::u128(..).to_le_bytes()).into_uuid();
    let uuids = [Uuid::nil(), Uuid::max(), random];
    place.round_trip("binary(16)", uuids).await;
    place.round_trip("char(36)", uuids.map(Uuid::hyphenated)).await;
    if server == Server::Mariadb {
        place.round_trip("uuid", uuids.map(Uuid::hyphenated)).await;
    }
    for row in place.made_by("char(36)", &format!("'{}'", uuids[2])).await {
        assert_eq!(read::<Uuid>(&row), uuids[2]);
    }
    let row = place.pool.query_one("select hex(?)", &[&uuids[2]]).await.unwrap();
    assert_eq!(read::<String>(&row).to_lowercase(), uuids[2].simple().to_string());
}

async fn json_makes_the_round_trip(server: Server) {
    let place = Place::new(server, "json").await;
    let values = [json!(null), json!([1, "two", {"three": [4.5, false]}]), json!("ä \" \\ 🐘"), json!({})];
    place.round_trip("json", values.clone()).await;
    place.round_trip("text", values).await;
    place.round_trip("json", [Json(vec![1, 2, 3]), Json(vec![])]).await;
    place.round_trip("json", [json!("x".repeat(70_000))]).await;
    let table = place.table("json").await;
    let insert = format!("insert into {table} (v) values (?)");
    let error = place.pool.execute(&insert, &[&"{"]).await.expect_err("it is no JSON");
    assert!(error.is_server(), "{error}");
    place.pool.execute(&insert, &[&"{}"]).await.expect("the statement is as good as ever");
}

async fn decimals_make_the_round_trip(server: Server) {
    let place = Place::new(server, "rust_decimal").await;
    place.round_trip("decimal(10,2)", ["12.50", "-0.01", "0.00"].map(|text| text.parse::<Decimal>().unwrap())).await;
    place.round_trip("decimal(30,0)", [Decimal::MAX, Decimal::MIN]).await;
    place.round_trip("decimal(65,30)", ["0.0000000000000000000000000001".parse::<Decimal>().unwrap()]).await;
    for row in place.made_by("decimal(65,30)", "0.000000000000000000000000000001").await {
        let error = row.get::<_, Decimal>(0).expect_err("it has more digits");
        assert!(error.is_caller() && error.to_string().contains("0.000000000000000000000000000001"), "{error}");
    }
}

#[test]
fn any_value_makes_the_round_trip_on_mysql() {
    any_value_makes_the_round_trip(Server::Mysql);
}

#[test]
fn any_value_makes_the_round_trip_on_mariadb() {
    any_value_makes_the_round_trip(Server::Mariadb);
}

/// Any value at all, many times.
fn any_value_makes_the_round_trip(server: Server) {
    const SQL: &str = "select ?, ?, ?, cast(? as char), hex(?), cast(? as date), cast(? as datetime(6)), cast(? as time(6)), cast(? as signed)";
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let pool = Pool::open(settings(server, "any_value").pool_size(1).build().unwrap()).unwrap();
    let date =
        (1000_u16..=9999, 1_u8..=12, 1_u8..=28).prop_map(|(year, month, day)| Date::new(year, month, day).unwrap());
    let date_time = (date.clone(), 0_u8..24, 0_u8..60, 0_u8..60, 0_u32..1_000_000)
        .prop_map(|(date, hour, minute, second, micro)| DateTime::new(date, hour, minute, second, micro).unwrap());
    // Up to 838 hours: from there on MySQL refuses fractions.
    let time = (-3_016_800_000_000_i64..=3_016_800_000_000).prop_map(|micros| Time::from_microseconds(micros).unwrap());
    let bytes = proptest::collection::vec(any::<u8>(), 0..300);
    let finite = any::<f64>().prop_filter("the server has no other", |value| value.is_finite());
    let strategy =
        (any::<i64>(), any::<u64>(), finite, ".{0,200}", bytes, date, date_time, time, any::<Option<bool>>());
    let mut runner = TestRunner::new(ProptestConfig { cases: 200, failure_persistence: None, ..Default::default() });
    let outcome = runner.run(&strategy, |(a, b, c, d, e, f, g, h, i)| {
        let row = runtime.block_on(pool.query_one(SQL, &[&a, &b, &c, &d, &e, &f, &g, &h, &i])).unwrap();
        prop_assert_eq!(row.get::<_, i64>(0).unwrap(), a);
        prop_assert_eq!(row.get::<_, u64>(1).unwrap(), b);
        prop_assert_eq!(row.get::<_, f64>(2).unwrap(), c);
        prop_assert_eq!(row.get::<_, &str>(3).unwrap(), d);
        let hex: String = e.iter().map(|byte| format!("{byte:02X}")).collect();
        prop_assert_eq!(row.get::<_, &str>(4).unwrap(), hex);
        prop_assert_eq!(row.get::<_, Date>(5).unwrap(), f);
        prop_assert_eq!(row.get::<_, DateTime>(6).unwrap(), g);
        prop_assert_eq!(row.get::<_, Time>(7).unwrap(), h);
        prop_assert_eq!(row.get::<_, Option<bool>>(8).unwrap(), i);
        Ok(())
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
}
