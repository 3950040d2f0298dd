//! Nothing that one caller does may change the session of those who share the connection with him.

use cenote_postgres::types::Type;
use cenote_postgres::{Error, Pool};
use cenote_tests::{Admin, Direction, OwnSchema, Proxy, must_end, open, postgres_url, settings, wait_until};
use futures_util::future::join_all;

/// Each with a word that the error must hold, so that a person knows what was refused.
const REFUSED: &[(&str, &str)] = &[
    ("begin", "BEGIN"),
    ("  /* for the books */ Begin isolation level serializable", "BEGIN"),
    ("start transaction", "START"),
    ("commit", "COMMIT"),
    ("end", "END"),
    ("rollback", "ROLLBACK"),
    ("abort", "ABORT"),
    ("savepoint here", "SAVEPOINT"),
    ("prepare transaction 'here'", "PREPARE"),
    ("set search_path to elsewhere", "SET"),
    ("set role cenote", "SET"),
    ("set local work_mem = '1MB'", "SET"),
    ("reset all", "RESET"),
    ("select set_config('search_path', 'elsewhere', false)", "set_config"),
    ("discard all", "DISCARD"),
    ("deallocate all", "DEALLOCATE"),
    ("prepare s1 as select 1", "PREPARE"),
    ("execute s1", "EXECUTE"),
    ("declare here cursor with hold for select 1", "DECLARE"),
    ("listen here", "LISTEN"),
    ("unlisten *", "UNLISTEN"),
    ("copy world to stdout", "COPY"),
    ("copy world from stdin", "COPY"),
    ("create temp table here (id int)", "temporary"),
    ("create temporary table here as select 1", "temporary"),
    ("select 1 as id into temp here", "temporary"),
    ("select pg_advisory_lock(1)", "pg_advisory_lock"),
    ("select pg_try_advisory_lock_shared(1, 2)", "pg_try_advisory_lock_shared"),
    ("lock table world", "LOCK"),
    ("load 'auto_explain'", "LOAD"),
];

fn check(sql: &str, word: &str, error: &Error) {
    assert!(error.is_caller() && error.code().is_none(), "{sql}: {error}");
    assert!(error.to_string().contains(word), "{sql}: {error}");
}

/// What every verb says to it.
async fn refuse(pool: &Pool, sql: &str, word: &str) {
    check(sql, word, &pool.query(sql, &[]).await.expect_err(sql));
    check(sql, word, &pool.query_one(sql, &[]).await.expect_err(sql));
    check(sql, word, &pool.execute(sql, &[]).await.expect_err(sql));
    check(
        sql,
        word,
        &pool.query_typed(sql, &[] as &[(&(dyn cenote_postgres::types::ToSql + Sync), Type)]).await.expect_err(sql),
    );
    let error = pool.batch().add("select 1", &[]).add(sql, &[]).run().await.expect_err(sql);
    check(sql, word, &error);
    assert_eq!(error.batch_index(), Some(1), "{sql}: {error}");
}

/// Npgsql tells users to begin transactions by its own method only (3241); here nothing else gets through.
#[tokio::test]
async fn what_would_change_the_session_is_refused_before_anything_is_sent() {
    let pool = open(settings("refused").pool_size(1));
    let error = pool.query("begin", &[]).await.expect_err("begin");
    check("begin", "BEGIN", &error);
    assert!(error.to_string().contains("batch"), "it says what to use instead: {error}");
    assert_eq!((pool.stats().connections(), pool.stats().connects), (0, 0), "not even a connection was made");

    // Of the batches with a refused statement in them, the first statement is learned; that is sent, once.
    pool.query_one("select 1", &[]).await.unwrap();
    let before = pool.stats();
    for (sql, word) in REFUSED {
        refuse(&pool, sql, word).await;
        assert_eq!(pool.stats().bytes_written, before.bytes_written, "{sql}: nothing was sent");
    }
    let after = pool.stats();
    assert_eq!((after.connects, after.quarantines), (1, 0), "{after:?}");
    pool.query_one("select 1", &[]).await.expect("the connection is as good as ever");
}

/// No statement that the firewall lets through leaves a transaction open on a real server, so the proxy makes one of a
/// harmless text: the server runs BEGIN.
#[tokio::test]
async fn a_connection_left_in_a_transaction_is_closed_and_nobody_is_told_a_lie() {
    const NEIGHBOURS: i32 = 40;
    const HIDDEN: &str = "b3gin";
    let schema = OwnSchema::create("left_open").await;
    let admin = schema.admin().await;
    admin.run("create table item (id int primary key); grant all on item to cenote").await;
    let proxy = Proxy::start(&postgres_url());
    proxy.replace(Direction::ToServer, HIDDEN.as_bytes(), b"begin");
    let pool = open(proxy.through(schema.settings()).pool_size(1));
    pool.execute("insert into item values ($1)", &[&-1]).await.unwrap();
    let before = admin.backends(&pool).await;

    let neighbours = join_all((0..NEIGHBOURS).map(|id| {
        let pool = &pool;
        async move {
            if id == NEIGHBOURS / 2 {
                // In two trips, so its BEGIN runs behind some of the others and before the rest.
                pool.execute(HIDDEN, &[]).await
            } else {
                pool.execute("insert into item values ($1)", &[&id]).await?;
                pool.execute("insert into item values ($1 + 1000)", &[&id]).await
            }
        }
    }));
    let outcomes = must_end("neighbours of a statement that left a transaction open", neighbours).await;

    wait_until("the server has ended the session", async || {
        let now = admin.backends(&pool).await;
        before.iter().all(|old| now.iter().all(|new| new.pid != old.pid))
    })
    .await;
    let rows = admin.rows("select id from item", &[]).await;
    let kept: Vec<i32> = rows.iter().map(|row| row.get(0)).collect();
    for (id, outcome) in (0..).zip(outcomes) {
        match outcome {
            Err(error) if id == NEIGHBOURS / 2 => {
                assert!(error.is_caller() && error.to_string().contains("transaction"), "the offender: {error}");
            }
            Ok(_) if id == NEIGHBOURS / 2 => panic!("the offender was told that all is well"),
            Ok(_) => assert!(kept.contains(&id) && kept.contains(&(id + 1000)), "{id} was told that its rows are kept"),
            Err(error) => {
                assert!(error.is_network(), "neighbour {id}: {error}");
                assert!(error.to_string().contains("transaction"), "it says why the connection was closed: {error}");
            }
        }
    }
    assert_eq!(pool.stats().quarantines, 1);
    pool.query_one("select 1", &[]).await.expect("the pool goes on");
    let states: Vec<String> = admin.backends(&pool).await.into_iter().map(|backend| backend.state).collect();
    assert_eq!(states, ["idle"], "outside of any transaction");
}

/// A statement of the server's own sort may set things for its own transaction; that is no neighbour's concern.
#[tokio::test]
async fn what_ends_with_its_statement_is_let_through() {
    let admin = Admin::connect().await;
    let pool = open(settings("let_through").pool_size(1));
    pool.query_one("select pg_advisory_xact_lock($1)", &[&i64::from(fastrand::u32(..))]).await.unwrap();
    pool.execute("do $$ begin perform 1; end $$", &[]).await.unwrap();
    pool.query_one("select 'begin; set role x'", &[]).await.unwrap();
    pool.query("show search_path", &[]).await.unwrap();
    pool.query("explain select 1", &[]).await.unwrap();
    let backends = admin.backends(&pool).await;
    let locks = "select count(*) from pg_locks where pid = $1";
    assert_eq!(admin.number(locks, &[&backends[0].pid]).await, 0, "nothing is held");
    assert_eq!(pool.stats().connects, 1);
}
