//! Several statements of one caller in one trip: all of them happen, or none.

use cenote_postgres::types::ToSql;
use cenote_postgres::{Pool, SqlState};
use cenote_tests::{Admin, OwnSchema, must_end, open};
use futures_util::future::join_all;

use super::open_all;

async fn schema(test: &str) -> (OwnSchema, Admin) {
    let schema = OwnSchema::create(test).await;
    let admin = schema.admin().await;
    admin.run("create table account (id int primary key, balance int8 not null); grant all on account to cenote").await;
    admin.run("insert into account select id, 100 from generate_series(1, 10) as id").await;
    (schema, admin)
}

async fn total(pool: &Pool) -> i64 {
    pool.query_one("select sum(balance)::int8 from account", &[]).await.unwrap().get(0).unwrap()
}

const TAKE: &str = "update account set balance = balance - $1 where id = $2";
const GIVE: &str = "update account set balance = balance + $1 where id = $2";

#[tokio::test]
async fn a_batch_is_one_trip_and_one_transaction() {
    let (schema, _) = schema("batch_trip").await;
    let pool = open(schema.settings().pool_size(1));
    let see = "select balance, txid_current() from account where id = $1";
    let run = || pool.batch().add(TAKE, &[&1_i64, &1]).add(GIVE, &[&1_i64, &2]).add(see, &[&1]).add(see, &[&2]).run();
    run().await.unwrap();
    let before = pool.stats();
    let results = run().await.unwrap();
    let after = pool.stats();
    assert_eq!(after.replies - before.replies, 1, "one Sync");
    assert_eq!(after.writes - before.writes, 1, "one write");
    let affected: Vec<u64> = results.iter().map(|result| result.rows_affected()).collect();
    assert_eq!(affected, [1, 1, 1, 1]);
    assert!(results[0].rows().is_empty() && results[1].rows().is_empty());
    let [(taken, first), (given, second)] = [2, 3].map(|index| {
        let row = &results[index].rows()[0];
        (row.get::<_, i64>(0).unwrap(), row.get::<_, i64>(1).unwrap())
    });
    assert_eq!((taken, given), (98, 102), "a later statement sees what an earlier one did");
    assert_eq!(first, second, "one transaction");
}

#[tokio::test]
async fn a_batch_that_fails_has_not_happened() {
    let (schema, _) = schema("batch_fails").await;
    let pool = open(schema.settings().pool_size(2));
    open_all(&pool).await;
    let (insert, divide) = ("insert into account values ($1, 0)", "select 1 / (balance - balance) from account");
    for _ in 0..2 {
        let results = join_all((0..20).map(|number| {
            let pool = &pool;
            async move {
                let id = 1 + number % 10;
                let take: [&(dyn ToSql + Sync); 2] = [&50_i64, &id];
                let batch = pool.batch().add(TAKE, &take).add("select 1", &[]);
                match number % 4 {
                    0 => (Some((2, "23505")), batch.add(insert, &[&id]).add(GIVE, &[&50_i64, &1]).run().await.err()),
                    1 => (Some((2, "22012")), batch.add(divide, &[]).run().await.err()),
                    2 => (Some((2, "42P01")), batch.add("select 1 from nowhere", &[]).run().await.err()),
                    _ => (None, batch.add(GIVE, &[&50_i64, &(11 - id)]).run().await.err()),
                }
            }
        }));
        for (expected, error) in must_end("batches side by side", results).await {
            match (expected, error) {
                (None, None) => {}
                (Some((index, code)), Some(error)) => {
                    assert!(error.is_server(), "{error}");
                    assert_eq!((error.batch_index(), error.code().unwrap().code()), (Some(index), code), "{error}");
                    assert!(error.to_string().contains("statement 2 of the batch"), "{error}");
                }
                (expected, error) => panic!("expected {expected:?}, got {error:?}"),
            }
        }
        assert_eq!(total(&pool).await, 1_000);
    }
    let stats = pool.stats();
    assert_eq!((stats.in_flight(), stats.connections_lost, stats.quarantines), (0, 0, 0));
}

#[tokio::test]
async fn a_batch_may_make_tables_too() {
    let schema = OwnSchema::create("batch_ddl").await;
    let pool = open(schema.settings().pool_size(1));
    for round in 0..3 {
        let create = format!("create table {}.made_{round} (id int)", schema.name());
        let results = pool
            .batch()
            .add("select generate_series(1, 3)", &[])
            .add(&create, &[])
            .add("select 1 where false", &[])
            .add("comment on role cenote_admin is null", &[])
            .run()
            .await;
        // The ordinary user may not, and then there is no table either.
        let error = results.expect_err("no right to it");
        assert_eq!((error.batch_index(), error.code()), (Some(3), Some(SqlState::INSUFFICIENT_PRIVILEGE)), "{error}");
        let results = pool
            .batch()
            .add("select generate_series(1, 3)", &[])
            .add(&create, &[])
            .add("select 1 where false", &[])
            .run()
            .await
            .unwrap();
        let seen: Vec<(usize, u64)> =
            results.iter().map(|result| (result.rows().len(), result.rows_affected())).collect();
        assert_eq!(seen, [(3, 3), (0, 0), (0, 0)]);
    }
}

#[tokio::test]
async fn a_batch_heals_when_its_tables_have_changed() {
    let (schema, admin) = schema("batch_heals").await;
    let pool = open(schema.settings().pool_size(2));
    open_all(&pool).await;
    let (all, find) = ("select * from account where id = $1", "select id from account where balance = $1 and id = $2");
    let run = async |columns: usize| {
        let results = join_all((1..=10).map(|id| {
            let pool = &pool;
            async move { pool.batch().add("select 1", &[]).add(all, &[&id]).add(find, &[&100_i64, &id]).run().await }
        }));
        for (id, results) in (1..).zip(must_end("batches on a table that changes", results).await) {
            let results = results.unwrap_or_else(|error| panic!("{columns} columns: {error}"));
            let row = &results[1].rows()[0];
            assert_eq!((row.len(), row.get::<_, i32>("id").unwrap()), (columns, id));
            assert_eq!(results[2].rows()[0].get::<_, i32>(0).unwrap(), id);
        }
    };
    run(2).await;
    for columns in 3..7 {
        admin.run(&format!("alter table account add column c{columns} text default 'c'")).await;
        run(columns).await;
    }
    for _ in 0..3 {
        admin.run("create table anew as select * from account; drop table account").await;
        admin.run("alter table anew rename to account; grant all on account to cenote").await;
        run(6).await;
        let drop_all = "do $$ begin execute 'deallocate all'; end $$";
        for _ in 0..8 {
            pool.execute(drop_all, &[]).await.expect("the server does it");
        }
        run(6).await;
    }
    assert_eq!(pool.stats().connections_lost, 0);
}

#[tokio::test]
async fn what_does_not_belong_in_a_batch_is_told_before_anything_is_sent() {
    let (schema, _) = schema("batch_refused").await;
    let pool = open(schema.settings().pool_size(1));
    total(&pool).await;
    pool.batch().add(TAKE, &[&0_i64, &1]).run().await.unwrap();
    // A value of another type is the first reason to look whether the server has changed its mind, once for all.
    pool.batch().add(TAKE, &[&"much", &1]).run().await.expect_err("a text");
    let before = pool.stats();
    assert!(pool.batch().run().await.unwrap().is_empty());
    let many = (0..1_001).fold(pool.batch(), |batch, _| batch.add("select 1", &[]));
    let error = many.run().await.expect_err("too many");
    assert!(error.is_caller() && error.to_string().contains("1001"), "{error}");
    for (sql, word) in [("begin", "BEGIN"), ("set search_path = public", "SET"), ("commit", "COMMIT")] {
        let error = pool.batch().add(TAKE, &[&1_i64, &1]).add(sql, &[]).run().await.expect_err(sql);
        assert!(error.is_caller() && error.batch_index() == Some(1), "{error}");
        assert!(error.to_string().contains(word), "{error}");
    }
    let error = pool.batch().add(TAKE, &[&1_i64, &1]).add(TAKE, &[&"much", &1]).run().await.expect_err("a text");
    assert!(error.is_caller() && error.batch_index() == Some(1) && error.to_string().contains("$1"), "{error}");
    let after = pool.stats();
    assert_eq!((after.bytes_written, after.in_flight()), (before.bytes_written, 0), "nothing was sent");
    assert_eq!(total(&pool).await, 1_000);

    let many = (0..1_000).fold(pool.batch(), |batch, _| batch.add("select 1", &[]));
    let results = must_end("a thousand statements", many.run()).await.unwrap();
    assert!(results.len() == 1_000 && results.iter().all(|result| result.rows().len() == 1));
}
