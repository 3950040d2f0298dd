//! Statements and values at the limits of the protocol, and past them.

use cenote_postgres::types::{IsNull, ToSql, Type, to_sql_checked};
use cenote_postgres::{Pool, SqlState};
use cenote_tests::{must_end, open, settings};
use futures_util::future::join_all;

type Values<'a> = Vec<&'a (dyn ToSql + Sync)>;

/// How many bytes have been written, which is 0 more when nothing was sent.
fn written(pool: &Pool) -> u64 {
    pool.stats().bytes_written
}

fn sum_of_parameters(count: usize) -> String {
    let all: Vec<String> = (1..=count).map(|number| format!("${number}::int4")).collect();
    format!("select cardinality(array[{}]), sum(value) from unnest(array[{}]) as value", all.join(","), all.join(","))
}

#[tokio::test]
async fn as_many_parameters_as_there_can_be() {
    const MAX: usize = 65_535;
    let pool = open(settings("parameters_max").pool_size(1));
    let numbers: Vec<i32> = (0..MAX as i32 + 1).collect();
    let values: Values<'_> = numbers.iter().map(|number| number as _).collect();
    let row = must_end("65,535 parameters", pool.query_one(&sum_of_parameters(MAX), &values[..MAX])).await.unwrap();
    assert_eq!((row.get::<_, i32>(0).unwrap(), row.get::<_, i64>(1).unwrap()), (65_535, 65_534 * 65_535 / 2));

    let (one_more, before) = (sum_of_parameters(MAX + 1), written(&pool));
    let typed: Vec<_> = values.iter().map(|value| (*value, Type::INT4)).collect();
    for (verb, error) in [
        ("query", must_end("one more", pool.query(&one_more, &values)).await.expect_err("too many")),
        ("execute", must_end("one more", pool.execute(&one_more, &values)).await.expect_err("too many")),
        ("query_typed", must_end("one more", pool.query_typed(&one_more, &typed)).await.expect_err("too many")),
        ("batch", must_end("one more", pool.batch().add(&one_more, &values).run()).await.expect_err("too many")),
        ("query known", must_end("one more", pool.query("select 1", &values)).await.expect_err("too many")),
    ] {
        assert!(error.is_caller() && error.to_string().contains("65536"), "{verb}: {error}");
    }
    assert_eq!(written(&pool), before, "nothing was sent");
}

#[tokio::test]
async fn a_nul_in_a_text_is_its_callers_error_alone() {
    let pool = open(settings("nul").pool_size(1));
    let sql = "select $1::text";
    pool.query_one(sql, &[&"good"]).await.unwrap();
    let results = join_all((0..50).map(|number| {
        let pool = &pool;
        async move {
            let text = if number % 5 == 0 { format!("nul \0 {number}") } else { number.to_string() };
            (number, pool.query_one(sql, &[&text]).await)
        }
    }));
    for (number, result) in must_end("texts with NUL", results).await {
        match result {
            Ok(row) => assert_eq!(row.get::<_, String>(0).unwrap(), number.to_string()),
            Err(error) => {
                assert_eq!(number % 5, 0, "{error}");
                assert!(error.is_server(), "{error}");
                assert_eq!(error.code().unwrap().code(), "22021", "{error}");
            }
        }
    }
    let before = written(&pool);
    for sql in ["select 1 \0", "\0", "select '\0'"] {
        let error = pool.query(sql, &[]).await.expect_err("no text of a statement");
        assert!(error.is_caller() && error.to_string().contains("NUL"), "{error}");
        let error = pool.batch().add("select 1", &[]).add(sql, &[]).run().await.expect_err("no text of a statement");
        assert!(error.is_caller() && error.batch_index() == Some(1), "{error}");
    }
    assert!(written(&pool) < before + 200, "no more than `select 1` was sent");
    let stats = pool.stats();
    assert_eq!((stats.connects, stats.connections_lost, stats.in_flight()), (1, 0, 0));
}

/// A value that does not go with the others of its kind.
#[derive(Debug)]
enum Odd {
    Fails,
    Panics,
}

impl ToSql for Odd {
    fn to_sql(&self, _: &Type, out: &mut bytes::BytesMut) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        out.extend_from_slice(b"half of it");
        match self {
            Odd::Fails => Err("it is odd".into()),
            Odd::Panics => panic!("it is very odd"),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

#[tokio::test]
async fn values_that_cannot_be_written_are_told_before_anything_is_sent() {
    let pool = open(settings("conversion").pool_size(1));
    let sql = "select $1::int4, $2::int4, $3::text";
    pool.query_one(sql, &[&1, &2, &"three"]).await.unwrap();
    // A value of another type is the first reason to look whether the server has changed its mind, once for all.
    pool.query_one(sql, &[&1, &"two", &"three"]).await.expect_err("a text for a number");
    let before = written(&pool);
    let wrong: [(&[&(dyn ToSql + Sync)], &str); 6] = [
        (&[&1, &"two", &"three"], "$2"),
        (&[&1_i64, &2, &"three"], "$1"),
        (&[&1, &2, &3], "$3"),
        (&[&1, &Odd::Fails, &"three"], "$2: it is odd"),
        (&[&1, &2], "3 parameters, and 2 were given"),
        (&[&1, &2, &"three", &4], "3 parameters, and 4 were given"),
    ];
    for (values, words) in wrong {
        let error = pool.query_one(sql, values).await.expect_err(words);
        assert!(error.is_caller() && error.to_string().contains(words), "{error}");
        assert_eq!(error.was_sent(), None, "{error}");
        let error = pool.batch().add(sql, values).run().await.expect_err(words);
        assert!(error.is_caller() && error.to_string().contains(words), "{error}");
    }
    assert_eq!(written(&pool), before, "nothing was sent");
    assert_eq!(pool.stats().in_flight(), 0);
    pool.query_one(sql, &[&1, &2, &"three"]).await.unwrap();
}

#[tokio::test]
async fn a_panic_of_a_value_stays_in_its_task() {
    let pool = open(settings("panic").pool_size(1));
    let sql = "select $1::int4";
    pool.query_one(sql, &[&0]).await.unwrap();
    let callers = (0..60).map(|number: i32| {
        let pool = pool.clone();
        tokio::spawn(async move {
            match number % 6 {
                0 => pool.query_one(sql, &[&Odd::Panics]).await,
                1 => pool.query_one("select $1::int4 + 1", &[&Odd::Panics]).await,
                2 => {
                    let mut results = pool.batch().add(sql, &[&1]).add(sql, &[&Odd::Panics]).run().await?;
                    Ok(results.remove(0).into_rows().remove(0))
                }
                3 => pool.query_typed(sql, &[(&Odd::Panics, Type::INT4)]).await.map(|mut rows| rows.remove(0)),
                _ => pool.query_one(sql, &[&number]).await,
            }
        })
    });
    for (number, caller) in callers.collect::<Vec<_>>().into_iter().enumerate() {
        match must_end("a caller beside one that panics", caller).await {
            Ok(row) => assert_eq!(row.unwrap().get::<_, i32>(0).unwrap(), number as i32),
            Err(error) => assert!(error.is_panic() && number % 6 < 4, "{number}: {error}"),
        }
    }
    let row = must_end("the next", pool.query_one("select $1::int4 + 1", &[&1])).await.unwrap();
    assert_eq!(row.get::<_, i32>(0).unwrap(), 2, "a text that was never learned for the panic can be");
    let stats = pool.stats();
    assert_eq!((stats.connects, stats.connections_lost, stats.in_flight(), stats.waiting), (1, 0, 0, 0));
}

#[tokio::test]
async fn a_text_of_20_megabytes() {
    let pool = open(settings("long_text").pool_size(1));
    let sql = format!("select length('{}'), $1::int4", "x".repeat(20_000_000));
    for number in 0..2 {
        let row = must_end("a long text", pool.query_one(&sql, &[&number])).await.unwrap();
        assert_eq!((row.get::<_, i32>(0).unwrap(), row.get::<_, i32>(1).unwrap()), (20_000_000, number));
    }
    let wrong = format!("select length('{}'", "x".repeat(20_000_000));
    let error = must_end("a long text with an error", pool.query_one(&wrong, &[])).await.expect_err("a syntax error");
    assert_eq!(error.code(), Some(SqlState::SYNTAX_ERROR), "{}", error.code().unwrap());
    pool.query_one("select 1", &[]).await.unwrap();
    assert_eq!(pool.stats().connections_lost, 0);
}

#[tokio::test]
async fn a_value_of_64_mebibytes_there_and_back() {
    const BYTES: usize = 64 << 20;
    let sql = "select $1::bytea";
    let value: Vec<u8> = (0..BYTES).map(|index| (index ^ (index >> 8) ^ (index >> 16)) as u8).collect();
    let pool = open(settings("large_value").pool_size(1).reply_bytes_max(BYTES + 1024));
    let neighbours = join_all((0..20).map(|_| pool.query_one("select 1", &[])));
    let large: Values<'_> = vec![&value];
    let large = pool.query_one(sql, &large);
    let (row, neighbours) = must_end("a large value", futures_util::future::join(large, neighbours)).await;
    let row = row.unwrap();
    assert!(row.get::<_, &[u8]>(0).unwrap() == value, "the value came back as it was");
    neighbours.into_iter().for_each(|row| assert!(row.is_ok(), "{row:?}"));

    let pool = open(settings("large_value").pool_size(1).reply_bytes_max(BYTES));
    let error = must_end("one byte too many", pool.query_one(sql, &[&value])).await.expect_err("too large");
    assert!(error.is_caller() && error.to_string().contains("larger than 67108864 bytes"), "{error}");
    pool.query_one("select 1", &[]).await.unwrap();
    assert_eq!((pool.stats().connects, pool.stats().connections_lost), (1, 0));
}

#[tokio::test]
async fn a_text_longer_than_any_message_is_the_callers_error() {
    let pool = open(settings("too_long").pool_size(1));
    // Of NULs, for which the system needs no memory.
    let sql = String::from_utf8(vec![0; 1 << 30]).unwrap();
    for error in [
        must_end("a text of 1 GiB", pool.query(&sql, &[])).await.expect_err("too long"),
        must_end("a text of 1 GiB", pool.query_typed(&sql, &[])).await.expect_err("too long"),
        must_end("a text of 1 GiB", pool.batch().add(&sql, &[]).run()).await.expect_err("too long"),
    ] {
        assert!(error.is_caller() && error.to_string().contains("1073741824 bytes"), "{error}");
    }
    assert_eq!(written(&pool), 0);
}
