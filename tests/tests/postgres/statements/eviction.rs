//! More statements than are kept prepared: the least recently used make room, and both sides agree on what is there.

use cenote_postgres::{Error, Pool};
use cenote_tests::{OwnSchema, must_end, open, settings};
use futures_util::future::join_all;

use super::{open_all, prepared_at_server};

const KEPT: usize = 4;
const TEXTS: i32 = 50;

/// Of those, some cannot be prepared, and some cannot be run.
async fn use_one(pool: &Pool, number: i32, value: i32) {
    let sum = async |sql: &str| pool.query_one(sql, &[&value]).await?.get::<_, i32>(0);
    let result: Result<i32, Error> = match number % 10 {
        3 => sum(&format!("select $1::int4 from nowhere_{number}")).await,
        7 => sum(&format!("select $1::int4 / ({number} - {number})")).await,
        _ => sum(&format!("select $1::int4 + {number}")).await,
    };
    match (number % 10, result) {
        (3, Err(error)) => assert_eq!(error.code().unwrap().code(), "42P01", "{error}"),
        (7, Err(error)) => assert_eq!(error.code().unwrap().code(), "22012", "{error}"),
        (3 | 7, Ok(sum)) => panic!("statement {number} gave {sum}"),
        (_, Err(error)) => panic!("statement {number}: {error}"),
        (_, Ok(sum)) => assert_eq!(sum, value + number),
    }
}

async fn assert_agreement(pool: &Pool) {
    let at_server = prepared_at_server(pool).await;
    let mut here: Vec<i64> = pool.stats().lanes.iter().map(|lane| lane.prepared as i64).collect();
    let mut there: Vec<i64> = at_server.values().copied().collect();
    here.sort_unstable();
    there.sort_unstable();
    assert_eq!(here, there, "here and at the server");
    assert!(there.iter().all(|prepared| *prepared <= KEPT as i64), "{there:?}");
}

#[tokio::test]
async fn the_cache_and_the_server_agree_on_what_is_prepared() {
    let pool = open(settings("evicted").pool_size(3).statement_cache_size(KEPT));
    open_all(&pool).await;
    for round in 0..5 {
        let uses = join_all((0..4 * TEXTS).map(|index| use_one(&pool, (index * 7 + round) % TEXTS, index)));
        must_end("statements that make room for each other", uses).await;
        assert_agreement(&pool).await;
    }
    assert_eq!((pool.stats().in_flight(), pool.stats().connections_lost), (0, 0));
}

/// A batch may hold more statements than are kept; they are there while it runs.
#[tokio::test]
async fn a_batch_of_more_statements_than_are_kept_runs() {
    let pool = open(settings("batch_evicted").pool_size(2).statement_cache_size(KEPT));
    open_all(&pool).await;
    let texts: Vec<String> = (0..3 * KEPT).map(|number| format!("select $1::int4 + {number}")).collect();
    for round in 0..10 {
        let batch = texts.iter().cycle().skip(round).take(2 * KEPT + 1);
        let batch = batch.fold(pool.batch(), |batch, text| batch.add(text, &[&100]));
        let results = must_end("a large batch", batch.run()).await.unwrap_or_else(|error| panic!("{round}: {error}"));
        let sums: Vec<i32> = results.iter().map(|result| result.rows()[0].get(0).unwrap()).collect();
        let expected: Vec<i32> =
            (round..).take(2 * KEPT + 1).map(|number| 100 + (number % texts.len()) as i32).collect();
        assert_eq!(sums, expected);
    }
    // The next ones that are prepared bring the number down again.
    for number in 0..20 {
        use_one(&pool, number, number).await;
    }
    assert_agreement(&pool).await;
}

/// The server passes over what follows an error, and so over what was to be prepared.
#[tokio::test]
async fn batches_that_fail_leave_nothing_behind() {
    let schema = OwnSchema::create("batch_left").await;
    let admin = schema.admin().await;
    let pool = open(schema.settings().pool_size(2).statement_cache_size(KEPT));
    open_all(&pool).await;
    // Every third is of a table that comes and goes.
    let texts: Vec<String> = (0..12)
        .map(|number| match number % 3 {
            2 => format!("select a + {number} from gone where a = $1"),
            _ => format!("select $1::int4 + {number}"),
        })
        .collect();
    for _ in 0..5 {
        admin.run("create table gone (a int); grant all on gone to cenote").await;
        let known = join_all(texts.iter().map(|text| {
            let pool = &pool;
            async move { pool.query(text, &[&1]).await }
        }));
        must_end("statements on a table", known).await.into_iter().for_each(|rows| assert!(rows.is_ok(), "{rows:?}"));
        admin.run("drop table gone").await;
        let fail = async |first: usize| {
            let batch = texts.iter().cycle().skip(first).take(6);
            let run = batch.fold(pool.batch(), |batch, text| batch.add(text, &[&1])).run();
            let error = run.await.expect_err("there is no table");
            assert_eq!(error.code().unwrap().code(), "42P01", "{error}");
        };
        must_end("batches that fail", join_all((0..12).map(fail))).await;
    }
    for number in 0..20 {
        use_one(&pool, number, number).await;
    }
    assert_agreement(&pool).await;
}
