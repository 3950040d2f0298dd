//! Without a statement cache (as behind a pooler): every statement is unnamed, and everything works.

use cenote_postgres::types::Type;
use cenote_postgres::{Error, Pool, SqlState};
use cenote_tests::{OwnSchema, must_end, open};
use futures_util::future::join_all;

use super::{everywhere, open_all, prepared_at_server};

async fn all_verbs(pool: &Pool, number: i32) -> Result<(), Error> {
    let row = pool.query_one("select $1::int4 + 1", &[&number]).await?;
    assert_eq!(row.get::<_, i32>(0)?, number + 1);
    let rows = pool.query_typed("select $1 + 2", &[(&number, Type::INT4)]).await?;
    assert_eq!(rows[0].get::<_, i32>(0)?, number + 2);
    let values: Vec<(i32, String)> =
        pool.query_as("select $1::int4 + 3, $2::text", &[&number, &number.to_string()]).await?;
    assert_eq!(values, [(number + 3, number.to_string())]);
    assert_eq!(pool.execute("select generate_series(1, $1::int4)", &[&(number % 7)]).await?, number as u64 % 7);
    assert!(pool.query_opt("select 1 where $1::int4 < 0", &[&number]).await?.is_none());
    let (first, second) = (number + 4, format!("text {number}"));
    let (first, second): ([&(dyn cenote_postgres::types::ToSql + Sync); 1], [_; 1]) =
        ([&first], [&second as &(dyn cenote_postgres::types::ToSql + Sync)]);
    let results = pool
        .batch()
        .add("select $1::int4", &first)
        .add("select $1::text", &second)
        .add("select 'end'", &[])
        .run()
        .await?;
    assert_eq!(results[0].rows()[0].get::<_, i32>(0)?, number + 4);
    assert_eq!(results[1].rows()[0].get::<_, String>(0)?, format!("text {number}"));
    assert_eq!(results[2].rows()[0].get::<_, &str>(0)?, "end");
    Ok(())
}

#[tokio::test]
async fn every_verb_works_without_a_cache() {
    let pool = open(cenote_tests::settings("no_cache").pool_size(3).statement_cache_size(0));
    open_all(&pool).await;
    for round in 0..3 {
        let results = join_all((0..50).map(|number| all_verbs(&pool, 100 * round + number)));
        for result in must_end("every verb", results).await {
            result.expect("all verbs");
        }
    }
    assert!(prepared_at_server(&pool).await.values().all(|prepared| *prepared == 0), "no statement is named");
}

#[tokio::test]
async fn errors_and_changes_are_met_without_a_cache() {
    let schema = OwnSchema::create("no_cache").await;
    let admin = schema.admin().await;
    let pool = open(schema.settings().pool_size(2).statement_cache_size(0));
    open_all(&pool).await;
    let read = "select pg_backend_pid(), * from changing";
    for round in 0..3 {
        let error = pool.query(read, &[]).await.expect_err("there is no table yet");
        assert_eq!(error.code(), Some(SqlState::UNDEFINED_TABLE), "{error}");
        admin.run("create table changing as select 7 as value; grant all on changing to cenote").await;
        for row in everywhere(&pool, read).await.values().flatten() {
            assert_eq!((row.len(), row.get::<_, i32>("value").unwrap()), (2, 7));
        }
        admin.run("alter table changing add column more text default 'more'").await;
        for row in everywhere(&pool, read).await.values().flatten() {
            assert_eq!((row.len(), row.get::<_, &str>("more").unwrap()), (3, "more"));
        }
        admin.run("alter table changing alter column value type text using 'seven'").await;
        for row in everywhere(&pool, read).await.values().flatten() {
            assert_eq!(row.get::<_, &str>("value").unwrap(), "seven");
        }
        let find = "select count(*) from changing where value = $1";
        // From the second round on it is known with a number, until the server refuses that.
        let error = pool.query_one(find, &[&7]).await.expect_err("a number for a text");
        assert!(error.is_caller() && error.to_string().contains("$1"), "{error}");
        assert_eq!(pool.query_one(find, &[&"seven"]).await.unwrap().get::<_, i64>(0).unwrap(), 1);
        admin.run("alter table changing alter column value type int using 8").await;
        let error = pool.query_one(find, &[&"eight"]).await.expect_err("a text for a number");
        assert!(error.is_caller() && error.to_string().contains("$1"), "{error}");
        let found = pool.query_one(find, &[&8]).await.unwrap_or_else(|error| panic!("round {round}: {error}"));
        assert_eq!(found.get::<_, i64>(0).unwrap(), 1);
        admin.run("drop table changing").await;
    }
    assert_eq!(pool.stats().connections_lost, 0);
}
