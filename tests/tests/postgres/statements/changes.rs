//! Tables and types that change under statements that are known and prepared: each caller gets what is true now, on every
//! connection, and hears nothing of the change.

use cenote_postgres::types::{FromSql, ToSql};
use cenote_postgres::{Error, FromRow, Pool, SettingsBuilder, SqlState};
use cenote_tests::{Admin, OwnSchema, must_end, open, wait_until};
use futures_util::future::join_all;

use super::{everywhere, open_all};

/// A schema with a table of so many columns and a hundred rows.
async fn schema_with_table(test: &str, columns: usize) -> (OwnSchema, Admin) {
    let schema = OwnSchema::create(test).await;
    let admin = schema.admin().await;
    let more: String = (1..columns).map(|number| format!(", c{number} int not null default {number}")).collect();
    admin.run(&format!("create table t (id int primary key{more}); grant all on t to cenote")).await;
    admin.run("insert into t (id) select generate_series(0, 99)").await;
    (schema, admin)
}

const FIND: &str = "select * from t where id = $1";

/// With fifty callers in flight, whose statements are bound when the change is made: the table is locked until then.
async fn add_a_column_under_callers(settings: SettingsBuilder, admin: &Admin, columns: usize) {
    let pool = open(settings.pool_size(2));
    open_all(&pool).await;
    for _ in 0..2 {
        for row in join_all((0..50_i32).map(|id| find(&pool, id))).await {
            assert_eq!(row.unwrap().len(), columns);
        }
    }
    admin.run("begin; alter table t add column added text not null default 'new'").await;
    let callers: Vec<_> = (0..50)
        .map(|id| {
            let pool = pool.clone();
            tokio::spawn(async move { find(&pool, id).await })
        })
        .collect();
    let blocked = || async {
        let backends = admin.backends(&pool).await;
        let waiting = backends.iter().filter(|backend| backend.wait_event_type.as_deref() == Some("Lock")).count();
        pool.stats().in_flight() == 50 && waiting == 2
    };
    wait_until("fifty statements are in flight behind the lock", blocked).await;
    let connections = pool.stats().connects;
    admin.run("commit").await;
    for (id, caller) in (0..).zip(callers) {
        let row = must_end("a caller while the table changes", caller).await.expect("no panic");
        let row = row.unwrap_or_else(|error| panic!("{id}: {error}"));
        assert_eq!((row.len(), row.get::<_, i32>("id").unwrap()), (columns + 1, id));
        assert_eq!(row.get::<_, &str>("added").unwrap(), "new");
    }
    let stats = pool.stats();
    assert_eq!((stats.in_flight(), stats.connects, stats.connections_lost), (0, connections, 0));
}

async fn find(pool: &Pool, id: i32) -> Result<cenote_postgres::Row, Error> {
    pool.query_one(FIND, &[&id]).await
}

#[tokio::test]
async fn a_column_is_added_under_fifty_callers() {
    let (schema, admin) = schema_with_table("column_added", 2).await;
    add_a_column_under_callers(schema.settings(), &admin, 2).await;
}

/// A driver that looked for one digit in the server's text would miss twelve columns.
#[tokio::test]
async fn a_column_is_added_to_twelve_under_fifty_callers() {
    let (schema, admin) = schema_with_table("columns_12", 12).await;
    add_a_column_under_callers(schema.settings(), &admin, 12).await;
}

#[tokio::test]
async fn a_column_is_added_under_fifty_callers_of_a_server_that_speaks_german() {
    let (schema, admin) = schema_with_table("column_german", 2).await;
    let settings = || schema.settings().options(format!("-c search_path={} -c lc_messages=de_DE.UTF-8", schema.name()));
    let german = open(settings());
    let error = german.query("select 1 / (id - id) from t", &[]).await.expect_err("a division by zero");
    assert!(error.to_string().contains("Division durch Null"), "the server speaks German: {error}");
    add_a_column_under_callers(settings(), &admin, 2).await;
}

/// Each change of the column's type, with rows whose value tells which one they are of.
#[tokio::test]
async fn a_table_made_anew_with_another_type_is_read_right_on_every_connection() {
    const READ: &str = "select pg_backend_pid(), value from made";
    let schema = OwnSchema::create("made_anew").await;
    let admin = schema.admin().await;
    let pool = open(schema.settings().pool_size(4));
    open_all(&pool).await;
    let make = async |ty: &str, value: &str| {
        let sql = format!("create table made as select {value}::{ty} as value");
        admin.run(&format!("drop table if exists made; {sql}; grant all on made to cenote")).await;
    };
    make("int4", "1").await;
    // On one connection only: the others meet the change before they have prepared it.
    let row = pool.query_one(READ, &[]).await.unwrap();
    assert_eq!(row.get::<_, i32>(1).unwrap(), 1);
    for round in 0..3 {
        make("text", &format!("'text {round}'")).await;
        for row in everywhere(&pool, READ).await.values().flatten() {
            assert_eq!(row.get::<_, &str>(1).unwrap(), format!("text {round}"));
        }
        make("int8", &format!("{round}")).await;
        for row in everywhere(&pool, READ).await.values().flatten() {
            assert_eq!(row.get::<_, i64>(1).unwrap(), round);
        }
        make("bool[]", "array[true, null]").await;
        for row in everywhere(&pool, READ).await.values().flatten() {
            assert_eq!(row.get::<_, Vec<Option<bool>>>(1).unwrap(), [Some(true), None]);
        }
    }
    assert_eq!(pool.stats().connections_lost, 0);
}

/// The type of a parameter is learned from the table, so it changes with it.
#[tokio::test]
async fn a_table_made_anew_may_want_another_type_of_parameter() {
    let schema = OwnSchema::create("parameter_anew").await;
    let admin = schema.admin().await;
    let pool = open(schema.settings().pool_size(2));
    open_all(&pool).await;
    let sqls = ["select id from p where id = $1", "update p set id = id where id = $1 returning id"];
    let make = async |ty: &str| {
        let sql = format!("create table p as select n::{ty} as id from generate_series(0, 49) as n");
        admin.run(&format!("drop table if exists p; {sql}; grant all on p to cenote")).await;
    };
    make("int").await;
    for _ in 0..3 {
        let found = join_all((0..100_i32).map(|index| find_as::<(i32,)>(&pool, sqls[index as usize % 2], index / 2)));
        for (index, found) in (0..).zip(must_end("numbers", found).await) {
            assert_eq!(found.unwrap(), [(index / 2,)]);
        }
        make("text").await;
        // Whoever still sends numbers is told, and that they are wanted no more is learned by it.
        for sql in sqls {
            let error = pool.query(sql, &[&1_i32]).await.expect_err("a number for a text");
            assert!(error.is_caller() && error.to_string().contains("$1"), "{error}");
        }
        let found =
            join_all((0..100).map(|index| find_as::<(String,)>(&pool, sqls[index % 2], (index / 2).to_string())));
        for (index, found) in (0..).zip(must_end("texts", found).await) {
            assert_eq!(found.unwrap(), [((index / 2).to_string(),)]);
        }
        make("int").await;
        for sql in sqls {
            let error = pool.query(sql, &[&"text"]).await.expect_err("a text for a number");
            assert!(error.is_caller() && error.to_string().contains("$1"), "{error}");
        }
    }
}

async fn find_as<T: FromRow>(pool: &Pool, sql: &str, id: impl ToSql + Sync) -> Result<Vec<T>, Error> {
    pool.query_as(sql, &[&id]).await
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ToSql, FromSql)]
#[postgres(name = "mood")]
enum Mood {
    #[postgres(name = "happy")]
    Happy,
    #[postgres(name = "sad")]
    Sad,
}

/// Under the same names and with other numbers: `cache lookup failed for type`.
#[tokio::test]
async fn a_type_made_anew_is_known_anew() {
    let schema = OwnSchema::create("type_anew").await;
    let admin = schema.admin().await;
    for pool in [open(schema.settings().pool_size(2)), open(schema.settings().pool_size(2).statement_cache_size(0))] {
        open_all(&pool).await;
        for labels in ["'happy', 'sad'", "'sad', 'happy'", "'happy', 'sad'"] {
            admin.run("drop table if exists moods; drop type if exists mood").await;
            admin.run(&format!("create type mood as enum ({labels}); create table moods (id int, value mood)")).await;
            admin.run("grant all on moods to cenote; grant usage on type mood to cenote").await;
            let results = join_all((0..50_i32).map(|id| {
                let (pool, mood) = (&pool, if id % 2 == 0 { Mood::Happy } else { Mood::Sad });
                async move {
                    pool.execute("insert into moods values ($1, $2)", &[&id, &mood]).await?;
                    let sql = "select value, $2::mood, array[value] from moods where id = $1 and value = $2";
                    let row = pool.query_one(sql, &[&id, &mood]).await?;
                    assert_eq!((row.get::<_, Mood>(0)?, row.get::<_, Mood>(1)?), (mood, mood));
                    assert_eq!(row.get::<_, Vec<Mood>>(2)?, [mood]);
                    Ok::<_, Error>(())
                }
            }));
            let cache = pool.settings().statement_cache_size();
            for result in must_end("a type made anew", results).await {
                result.unwrap_or_else(|error| panic!("as ({labels}), with {cache} statements kept: {error}"));
            }
        }
    }
}

/// Of the ways to drop prepared statements behind the driver's back this is the one that the firewall cannot see.
#[tokio::test]
async fn statements_dropped_behind_our_back_are_prepared_again() {
    let pool = open(cenote_tests::settings("deallocated").pool_size(2));
    open_all(&pool).await;
    let sqls: Vec<String> = (0..5).map(|number| format!("select $1::int4 + {number}")).collect();
    let use_all = async || {
        let sqls = sqls.iter().cycle().take(50).enumerate();
        let results = join_all(sqls.map(|(index, sql)| {
            let pool = &pool;
            async move { pool.query_one(sql, &[&100]).await?.get::<_, i32>(0).map(|sum| (index, sum)) }
        }));
        for result in must_end("statements that were dropped", results).await {
            let (index, sum) = result.expect("prepared again");
            assert_eq!(sum as usize, 100 + index % 5);
        }
    };
    for _ in 0..10 {
        // Some of the statements in flight are behind it on their connection, and some before.
        let drop_all = pool.execute("do $$ begin execute 'deallocate all'; end $$", &[]);
        let (dropped, ()) = futures_util::future::join(drop_all, use_all()).await;
        dropped.expect("the server does it");
        use_all().await;
    }
    assert_eq!(pool.stats().connections_lost, 0);
}

#[tokio::test]
async fn what_could_not_be_prepared_is_tried_anew() {
    let schema = OwnSchema::create("not_prepared").await;
    let admin = schema.admin().await;
    let pool = open(schema.settings().pool_size(2));
    let sql = "select count(*) from late where id = $1";
    for round in 0..3 {
        for result in join_all((0..3).map(|id| {
            let pool = &pool;
            async move { pool.query_one(sql, &[&id]).await }
        }))
        .await
        {
            let error = result.expect_err("there is no such table");
            assert_eq!(error.code(), Some(SqlState::UNDEFINED_TABLE), "round {round}: {error}");
        }
        admin.run("create table late (id int); grant all on late to cenote").await;
        let row = pool.query_one(sql, &[&3]).await.unwrap_or_else(|error| panic!("round {round}: {error}"));
        assert_eq!(row.get::<_, i64>(0).unwrap(), 0);
        admin.run("drop table late").await;
    }
}

/// The parameters of a known statement are wider than they were. Nobody asks for that unless a value is at odds with what is
/// known, and then one does for all: whoever is right is heard at once, and who is wrong is told.
#[tokio::test]
async fn a_column_that_was_widened_takes_wider_values_at_once() {
    const CHANGES: [&str; 3] =
        ["update wide set n = $1 where n is null", "select n from wide where n = $1", "delete from wide where n = $1"];
    const WIDE: i64 = 1 << 40;
    for statement_cache_size in [256, 0] {
        let schema = OwnSchema::create("widened").await;
        let admin = schema.admin().await;
        admin.run("create table wide (n int4); grant all on wide to cenote").await;
        let pool = open(schema.settings().pool_size(2).statement_cache_size(statement_cache_size));
        open_all(&pool).await;
        for sql in CHANGES {
            for row in join_all((0..20_i32).map(|n| find_as::<(i32,)>(&pool, sql, n))).await {
                row.expect("a number");
            }
        }
        admin.run("alter table wide alter n type int8").await;
        for sql in CHANGES {
            let before = pool.stats().replies;
            let rows = must_end("wider values", join_all((0..20).map(|_| find_as::<(i64,)>(&pool, sql, WIDE)))).await;
            for row in rows {
                row.unwrap_or_else(|error| panic!("{sql}, {statement_cache_size} kept: {error}"));
            }
            let asked = pool.stats().replies - before - 20;
            // Once by whoever doubts what is known, and once to learn it.
            assert_eq!(asked, 2, "{sql}, {statement_cache_size} kept");
        }
        pool.query(CHANGES[0], &[&7_i32]).await.expect_err("a narrower value");
        let before = pool.stats().bytes_written;
        for _ in 0..20 {
            let error = pool.query(CHANGES[0], &[&7_i32]).await.expect_err("a narrower value");
            assert!(error.is_caller() && error.to_string().contains("$1"), "{error}");
        }
        assert_eq!(pool.stats().bytes_written, before, "who errs all the time costs nothing");
        // In a batch, which says which of its values it was, and tells as well.
        admin.run("alter table wide alter n type text").await;
        let results = pool.batch().add(CHANGES[2], &[&"a"]).add(CHANGES[1], &[&"b"]).run().await.expect("texts");
        assert_eq!(results.len(), 2);
        let error = pool.batch().add("select 1", &[]).add(CHANGES[1], &[&1_i64]).run().await.expect_err("a number");
        assert!(error.is_caller() && error.batch_index() == Some(1), "{error}");
        let lease = pool.lease().await.unwrap();
        admin.run("alter table wide alter n type float8 using null").await;
        lease.batch().add(CHANGES[2], &[&0.5_f64]).run().await.expect("a lease's own batch");
        drop(lease);
        assert_eq!(pool.stats().connections_lost, 0);
    }
}

/// What is there no more is told as such, and not as a value of the wrong type.
#[tokio::test]
async fn a_value_for_a_table_that_is_gone_is_told_that() {
    let (schema, admin) = schema_with_table("gone", 1).await;
    let pool = open(schema.settings().pool_size(1));
    find(&pool, 1).await.unwrap();
    admin.run("drop table t").await;
    let error = pool.query(FIND, &[&1_i64]).await.expect_err("there is no table");
    assert_eq!(error.code(), Some(SqlState::UNDEFINED_TABLE), "{error}");
}
