//! Values go to the server and come back the same, or there is an error that says why not.

use std::fmt::Debug;
use std::net::IpAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cenote_postgres::types::{FromSql, Json, Kind, ToSql, Type};
use cenote_postgres::{Pool, SqlState};
use cenote_tests::{OwnSchema, open, settings};
use chrono::{DateTime, NaiveDate, NaiveDateTime, NaiveTime, Utc};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::json;
use uuid::Uuid;

/// Sends values of one type and gets them back, alone and with NULL.
async fn round_trip<T>(pool: &Pool, sql_type: &str, values: impl IntoIterator<Item = T>)
where
    T: ToSql + Sync + PartialEq + Debug + for<'a> FromSql<'a>,
{
    let sql = format!("select $1::{sql_type}");
    for value in values {
        let row = pool.query_one(&sql, &[&value]).await.unwrap_or_else(|error| panic!("{sql_type} {value:?}: {error}"));
        let back: T = row.get(0).unwrap_or_else(|error| panic!("{sql_type} {value:?}: {error}"));
        assert_eq!(back, value, "{sql_type}");
        assert_eq!(row.get::<_, Option<T>>(0).unwrap(), Some(value), "{sql_type}");
    }
    let row = pool.query_one(&sql, &[&None::<T>]).await.unwrap();
    assert_eq!(row.get::<_, Option<T>>(0).unwrap(), None, "{sql_type}");
    let error = row.get::<_, T>(0).expect_err("NULL is no value");
    assert!(error.is_caller(), "{sql_type}: {error}");
}

#[tokio::test]
async fn built_in_types_make_the_round_trip() {
    let pool = open(settings("built_in").pool_size(1));
    round_trip(&pool, "bool", [true, false]).await;
    round_trip(&pool, "int2", [0_i16, 1, -1, i16::MIN, i16::MAX]).await;
    round_trip(&pool, "int4", [0_i32, 1, -1, i32::MIN, i32::MAX]).await;
    round_trip(&pool, "int8", [0_i64, 1, -1, i64::MIN, i64::MAX]).await;
    round_trip(&pool, "oid", [0_u32, 1, u32::MAX]).await;
    round_trip(&pool, "\"char\"", [0_i8, 65, -1, i8::MIN, i8::MAX]).await;
    round_trip(&pool, "float4", [0.0_f32, -0.5, f32::MIN, f32::MAX, f32::MIN_POSITIVE, f32::INFINITY]).await;
    round_trip(&pool, "float8", [0.0_f64, -0.5, f64::MIN, f64::MAX, f64::MIN_POSITIVE, f64::NEG_INFINITY]).await;
    let texts = ["", "a", "äöü €uro 🐘", "it's \"quoted\" \\ %", "line\nbreak\ttab"].map(str::to_owned);
    round_trip(&pool, "text", texts.clone()).await;
    round_trip(&pool, "varchar", texts.clone()).await;
    round_trip(&pool, "varchar(40)", texts).await;
    round_trip(&pool, "bpchar", ["abc".to_owned()]).await;
    round_trip(&pool, "name", ["a_name".to_owned()]).await;
    let all_bytes: Vec<u8> = (0..=255).collect();
    round_trip(&pool, "bytea", [Vec::new(), vec![0], all_bytes.clone(), all_bytes.repeat(1_000)]).await;
    round_trip(&pool, "inet", ["127.0.0.1", "::1", "2001:db8::ff"].map(|text| text.parse::<IpAddr>().unwrap())).await;
    let nan: f64 = pool.query_one("select $1::float8", &[&f64::NAN]).await.unwrap().get(0).unwrap();
    assert!(nan.is_nan());
}

#[tokio::test]
async fn times_make_the_round_trip() {
    let pool = open(settings("times").pool_size(1));
    let microseconds = |count| Duration::from_micros(count);
    let times =
        [UNIX_EPOCH, UNIX_EPOCH + microseconds(1_700_000_000_123_456), UNIX_EPOCH - microseconds(86_400_000_001)];
    round_trip::<SystemTime>(&pool, "timestamptz", times).await;
    round_trip::<SystemTime>(&pool, "timestamp", times).await;
    let days = [(2024, 2, 29), (1970, 1, 1), (1, 1, 1), (9999, 12, 31)]
        .map(|(year, month, day)| NaiveDate::from_ymd_opt(year, month, day).unwrap());
    let clock = NaiveTime::from_hms_micro_opt(23, 59, 59, 999_999).unwrap();
    round_trip(&pool, "date", days).await;
    round_trip(&pool, "time", [clock, NaiveTime::MIN]).await;
    round_trip::<NaiveDateTime>(&pool, "timestamp", days.map(|day| day.and_time(clock))).await;
    round_trip::<DateTime<Utc>>(&pool, "timestamptz", days.map(|day| day.and_time(clock).and_utc())).await;
    let row = pool.query_one("select timestamptz '2024-02-29 12:34:56.789012+02'", &[]).await.unwrap();
    assert_eq!(row.get::<_, DateTime<Utc>>(0).unwrap().to_rfc3339(), "2024-02-29T10:34:56.789012+00:00");
    // What the type of the program cannot hold is an error, not another time.
    for beyond in ["infinity", "-infinity"] {
        let row = pool.query_one("select $1::text::timestamptz", &[&beyond]).await.unwrap();
        let error = row.get::<_, DateTime<Utc>>(0).expect_err(beyond);
        assert!(error.is_caller(), "{beyond}: {error}");
    }
}

#[tokio::test]
async fn types_of_other_crates_make_the_round_trip() {
    let pool = open(settings("other_crates").pool_size(1));
    round_trip(&pool, "uuid", [Uuid::nil(), Uuid::max(), Uuid::from_u128(fastrand::u128(..))]).await;
    let values = [json!(null), json!([1, "two", {"three": [4.5, false]}]), json!("ä \" \\ \u{1F418}"), json!({})];
    round_trip(&pool, "jsonb", values.clone()).await;
    round_trip(&pool, "json", values).await;
    let id = Uuid::from_u128(fastrand::u128(..));
    let row = pool.query_one("select $1::uuid::text", &[&id]).await.unwrap();
    assert_eq!(row.get::<_, String>(0).unwrap(), id.to_string());
    let typed = Json(vec![1, 2, 3]);
    let row = pool.query_one("select $1::jsonb", &[&typed]).await.unwrap();
    assert_eq!(row.get::<_, Json<Vec<i32>>>(0).unwrap().0, [1, 2, 3]);
}

#[tokio::test]
async fn arrays_make_the_round_trip() {
    let pool = open(settings("arrays").pool_size(1));
    round_trip(&pool, "int4[]", [vec![], vec![1, 2, 3], (0..10_000).collect::<Vec<i32>>()]).await;
    round_trip(&pool, "text[]", [vec![Some("a".to_owned()), None, Some(String::new())], vec![None]]).await;
    round_trip(&pool, "bytea[]", [vec![vec![0_u8, 255], vec![]]]).await;
    round_trip(&pool, "uuid[]", [vec![Uuid::nil(), Uuid::max()]]).await;
    let row = pool.query_one("select count(*) from world where id = any($1)", &[&vec![1, 2, 3, 99_999]]).await.unwrap();
    assert_eq!(row.get::<_, i64>(0).unwrap(), 3);
    // Two dimensions are not a list.
    let row = pool.query_one("select array[array[1, 2], array[3, 4]]", &[]).await.unwrap();
    let error = row.get::<_, Vec<i32>>(0).expect_err("it has two dimensions");
    assert!(error.is_caller(), "{error}");
}

#[derive(Debug, Clone, Copy, PartialEq, ToSql, FromSql)]
#[postgres(name = "mood", rename_all = "snake_case")]
enum Mood {
    Happy,
    SoSo,
}

#[derive(Debug, Clone, PartialEq, ToSql, FromSql)]
#[postgres(name = "positive")]
struct Positive(i32);

#[derive(Debug, Clone, PartialEq, ToSql, FromSql)]
#[postgres(name = "person")]
struct Person {
    name: String,
    mood: Option<Mood>,
    age: Positive,
    nicknames: Vec<String>,
}

#[tokio::test]
async fn types_of_the_database_make_the_round_trip() {
    let schema = OwnSchema::create("own_types").await;
    schema
        .admin()
        .await
        .run(
            "create type mood as enum ('happy', 'so_so'); \
             create domain positive as int check (value > 0); \
             create type person as (name text, mood mood, age positive, nicknames text[])",
        )
        .await;
    let pool = open(schema.settings().pool_size(1));
    let anna = Person {
        name: "Anna".to_owned(),
        mood: Some(Mood::SoSo),
        age: Positive(33),
        nicknames: vec!["A".to_owned(), "Annie".to_owned()],
    };
    let nobody = Person { name: String::new(), mood: None, age: Positive(1), nicknames: vec![] };
    round_trip(&pool, "mood", [Mood::Happy, Mood::SoSo]).await;
    round_trip(&pool, "mood[]", [vec![Mood::Happy, Mood::SoSo, Mood::Happy]]).await;
    round_trip(&pool, "person", [anna.clone(), nobody.clone()]).await;
    round_trip(&pool, "person[]", [vec![anna.clone(), nobody]]).await;
    let row = pool.query_one("select $1::positive", &[&Positive(7)]).await.unwrap();
    // The server describes a domain in a result as its base type.
    assert_eq!(row.columns()[0].type_(), &Type::INT4);
    assert_eq!(row.get::<_, i32>(0).unwrap(), 7);
    let error = pool.query_one("select $1::positive", &[&Positive(-7)]).await.expect_err("it is not positive");
    assert_eq!(error.code(), Some(SqlState::CHECK_VIOLATION), "{error}");

    let row = pool.query_one("select $1::mood as m, $2::person as p", &[&Mood::Happy, &anna]).await.unwrap();
    let types: Vec<&Type> = row.columns().iter().map(|column| column.type_()).collect();
    assert_eq!((types[0].name(), types[0].schema()), ("mood", schema.name()));
    assert_eq!(types[0].kind(), &Kind::Enum(vec!["happy".to_owned(), "so_so".to_owned()]));
    let Kind::Composite(fields) = types[1].kind() else { panic!("{:?}", types[1]) };
    assert_eq!(fields.iter().map(|field| field.name()).collect::<Vec<_>>(), ["name", "mood", "age", "nicknames"]);
}

#[tokio::test]
async fn a_type_that_does_not_fit_is_the_callers_error() {
    let pool = open(settings("does_not_fit").pool_size(1));
    let error = pool.query_one("select $1::int4", &[&"text"]).await.expect_err("a text is no int4");
    assert!(error.is_caller() && error.code().is_none(), "{error}");
    assert!(error.to_string().contains("$1"), "it says which parameter: {error}");
    for (given, wanted) in [(0, 1), (2, 1), (1, 2)] {
        let sql = if wanted == 1 { "select $1::int4" } else { "select $1::int4 + $2::int4" };
        let parameters: Vec<&(dyn ToSql + Sync)> = vec![&1_i32; given];
        let error = pool.query_one(sql, &parameters).await.expect_err("a wrong number of parameters");
        assert!(error.is_caller() && error.to_string().contains(&wanted.to_string()), "{error}");
    }
    let row = pool.query_one("select 1::int4 as number, null::text as nothing", &[]).await.unwrap();
    for error in [
        row.get::<_, i64>(0).expect_err("an int4 is no int8"),
        row.get::<_, &str>("number").expect_err("an int4 is no text"),
    ] {
        assert!(error.is_caller() && error.to_string().contains("number"), "it says which column: {error}");
    }
    let error = row.get::<_, &str>("nothing").expect_err("NULL is no text");
    assert!(error.is_caller() && error.to_string().contains("nothing"), "{error}");
    let error = row.get::<_, i32>("missing").expect_err("there is no such column");
    assert!(error.is_caller() && error.to_string().contains("number, nothing"), "it says what there is: {error}");
    assert!(row.get::<_, i32>(2).expect_err("there is no third column").is_caller());
    // What went wrong before it left has cost the connection nothing.
    let stats = pool.stats();
    assert_eq!((stats.connects, stats.in_flight(), stats.connections_lost), (1, 0, 0), "{stats:?}");
}

/// A value that cannot be written does not keep the connection, nor the statement's place on it.
#[tokio::test]
async fn a_value_that_fails_to_encode_is_the_callers_error() {
    #[derive(Debug)]
    struct Unwritable;

    impl ToSql for Unwritable {
        fn to_sql(
            &self,
            _: &Type,
            out: &mut bytes::BytesMut,
        ) -> Result<cenote_postgres::types::IsNull, Box<dyn std::error::Error + Sync + Send>> {
            out.extend_from_slice(b"some of it");
            Err("there is no writing it".into())
        }

        fn accepts(_: &Type) -> bool {
            true
        }

        cenote_postgres::types::to_sql_checked!();
    }

    let pool = open(settings("unwritable").pool_size(1));
    for _ in 0..3 {
        let error =
            pool.query("select $1::text, $2::int4", &[&Unwritable, &1]).await.expect_err("it cannot be written");
        assert!(error.is_caller() && error.to_string().contains("there is no writing it"), "{error}");
        let row = pool.query_one("select $1::text", &[&"whole"]).await.unwrap();
        assert_eq!(row.get::<_, &str>(0).unwrap(), "whole");
    }
    assert_eq!(pool.stats().connects, 1);
}

/// What is a NUL to us cannot be in a text of the server.
#[tokio::test]
async fn a_nul_in_a_text_is_an_error_and_nothing_is_cut() {
    let pool = open(settings("nul").pool_size(1));
    let error = pool.query_one("select $1::text", &[&"before\0behind"]).await.expect_err("Postgres has no NUL");
    assert_eq!(error.code().map(|code| code.code().to_owned()).as_deref(), Some("22021"), "{error}");
    let error = pool.query_one("select 'before\0behind'", &[]).await.expect_err("Postgres has no NUL");
    assert!(error.is_caller() && error.to_string().contains("NUL"), "{error}");
    pool.query_one("select 1", &[]).await.expect("the connection is as good as ever");
}

/// Any value at all, many times.
#[test]
fn any_value_makes_the_round_trip() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let pool = open(settings("any_value").pool_size(1));
    const SQL: &str = "select $1::int8, $2::float8, $3::text, $4::bytea, $5::int2[], $6::bool";
    let strategy = (
        any::<i64>(),
        any::<f64>(),
        "[^\0]{0,200}",
        proptest::collection::vec(any::<u8>(), 0..500),
        proptest::collection::vec(any::<Option<i16>>(), 0..50),
        any::<Option<bool>>(),
    );
    let mut runner = TestRunner::new(ProptestConfig { cases: 300, failure_persistence: None, ..Default::default() });
    let outcome = runner.run(&strategy, |(a, b, c, d, e, f)| {
        let row = runtime.block_on(pool.query_one(SQL, &[&a, &b, &c, &d, &e, &f])).unwrap();
        prop_assert_eq!(row.get::<_, i64>(0).unwrap(), a);
        prop_assert_eq!(row.get::<_, f64>(1).unwrap().to_bits(), b.to_bits());
        prop_assert_eq!(row.get::<_, &str>(2).unwrap(), c);
        prop_assert_eq!(row.get::<_, &[u8]>(3).unwrap(), d);
        prop_assert_eq!(row.get::<_, Vec<Option<i16>>>(4).unwrap(), e);
        prop_assert_eq!(row.get::<_, Option<bool>>(5).unwrap(), f);
        Ok(())
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
}
