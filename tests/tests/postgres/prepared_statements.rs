//! Statements are prepared once on each connection, in passing, and what failed to be is forgotten.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use cenote_postgres::types::Type;
use cenote_postgres::{Pool, SqlState};
use cenote_tests::{Direction, Proxy, must_end, open, postgres_url, settings, wait_until};
use futures_util::future::join_all;
use tokio::task::JoinSet;

/// On each connection of the pool: its process, and how many statements of this text it has prepared.
async fn prepared_copies(pool: &Pool, sql: &str) -> HashMap<i32, i64> {
    const COPIES: &str = "select pg_backend_pid(), count(*) from pg_prepared_statements where statement = $1";
    let connections = pool.stats().lanes.len();
    let found = Mutex::new(HashMap::new());
    wait_until("every connection has been asked for what it has prepared", async || {
        let rows: Vec<Vec<(i32, i64)>> =
            join_all((0..16 * connections).map(|_| async { pool.query_as(COPIES, &[&sql]).await.unwrap() })).await;
        let mut found = found.lock().unwrap();
        found.extend(rows.into_iter().flatten());
        found.len() >= connections
    })
    .await;
    found.into_inner().unwrap()
}

/// In flight must not drift when a statement fails before it runs (vert.x 1644).
#[tokio::test]
async fn statements_that_cannot_be_prepared_leave_nothing_behind() {
    const STATEMENTS: i32 = 1_000;
    let pool = open(settings("unprepared").pool_size(2));
    let outcomes = join_all((0..STATEMENTS).map(|number| {
        let pool = &pool;
        async move {
            let sql = format!("select $1 is null as c{number}");
            // The server cannot tell what type is meant; with one named it can.
            let error = pool.query(&sql, &[&number]).await.expect_err("the type cannot be told");
            assert_eq!(error.code(), Some(SqlState::INDETERMINATE_DATATYPE), "{error}");
            let rows = pool.query_typed(&sql, &[(&number, Type::INT4)]).await.unwrap();
            assert!(!rows[0].get::<_, bool>(0).unwrap());
            let error = pool.query(&sql, &[&number]).await.expect_err("the failure was not taken for a success");
            assert_eq!(error.code(), Some(SqlState::INDETERMINATE_DATATYPE), "{error}");
        }
    }));
    must_end("statements that cannot be prepared", outcomes).await;
    let stats = pool.stats();
    assert_eq!((stats.in_flight(), stats.waiting, stats.connections_lost), (0, 0, 0), "{stats:?}");
    assert!(stats.lanes.iter().all(|lane| lane.prepared <= pool.settings().statement_cache_size()), "{stats:?}");
    let copies = prepared_copies(&pool, "select $1 is null as c999").await;
    assert_eq!(copies.values().sum::<i64>(), 1, "only with the type named, and only where it ran: {copies:?}");
}

/// A first use takes two trips; those who come behind it do not wait for the second (vert.x, bun).
#[tokio::test]
async fn a_first_use_pauses_nobody() {
    const NEIGHBOURS: usize = 20;
    const KNOWN: &str = "select 'known'";
    let pool = open(settings("first_use").pool_size(1));
    pool.query_one(KNOWN, &[]).await.unwrap();
    for round in 0..20 {
        let before = pool.stats();
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut callers = JoinSet::new();
        // Tasks of their own: they run on in the order in which their answers come.
        let call = |sql: String, name: &'static str| {
            let (pool, order) = (pool.clone(), Arc::clone(&order));
            async move {
                pool.query_one(&sql, &[]).await.unwrap();
                order.lock().unwrap().push(name);
            }
        };
        callers.spawn(call(format!("select {round}, 'new'"), "first use"));
        for _ in 0..NEIGHBOURS {
            callers.spawn(call(KNOWN.to_owned(), "known"));
        }
        callers.join_all().await;
        let order = order.lock().unwrap();
        assert_eq!(order.last(), Some(&"first use"), "all others were served between its two trips: {order:?}");
        let writes = pool.stats().writes - before.writes;
        assert_eq!(writes, 2, "one write for its first trip and all others together, one for its second");
    }
}

/// With the parameters' types named there is nothing to learn first.
#[tokio::test]
async fn a_typed_first_use_takes_one_trip() {
    let pool = open(settings("typed").pool_size(1));
    pool.query_one("select 1", &[]).await.unwrap();
    let before = pool.stats();
    let rows = pool.query_typed("select $1 + 1", &[(&41, Type::INT4)]).await.unwrap();
    assert_eq!(rows[0].get::<_, i32>(0).unwrap(), 42);
    assert_eq!(pool.stats().replies - before.replies, 1);
    assert_eq!(pool.stats().writes - before.writes, 1);
}

#[tokio::test]
async fn first_users_at_once_prepare_a_statement_once_per_connection() {
    const SQL: &str = "select $1::int4 as everybody_at_once";
    let proxy = Proxy::start(&postgres_url());
    proxy.count(Direction::ToServer, SQL.as_bytes());
    proxy.count(Direction::ToClient, b"42P05");
    let pool = open(proxy.through(settings("at_once")).pool_size(4));
    for round in 0..50 {
        let answers = join_all((0..100).map(|number| {
            let pool = &pool;
            async move { pool.query_one(SQL, &[&number]).await }
        }));
        for (number, answer) in (0..).zip(must_end("first users", answers).await) {
            assert_eq!(answer.unwrap().get::<_, i32>(0).unwrap(), number, "round {round}");
        }
    }
    let connections = pool.stats().lanes.len();
    assert!(connections > 1, "it is about several connections: {:?}", pool.stats());
    assert_eq!(pool.stats().connects, connections as u64);
    let sent = proxy.counted(Direction::ToServer, SQL.as_bytes());
    let copies = prepared_copies(&pool, SQL).await;
    assert_eq!(copies.len(), connections);
    assert!(copies.values().all(|copies| *copies <= 1), "{copies:?}");
    assert_eq!(copies.values().sum::<i64>(), sent as i64, "its text went to each of them once: {copies:?}");
    assert_eq!(proxy.counted(Direction::ToClient, b"42P05"), 0, "nothing was prepared twice under one name");
}

#[tokio::test]
async fn the_least_recently_used_statement_makes_room() {
    const KEPT: usize = 8;
    let pool = open(settings("room").pool_size(1).statement_cache_size(KEPT));
    let count = "select count(*) from pg_prepared_statements";
    for number in 0..10 * KEPT {
        let sql = format!("select {number}");
        for _ in 0..2 {
            let row = pool.query_one(&sql, &[]).await.unwrap();
            assert_eq!(row.get::<_, i32>(0).unwrap(), number as i32);
        }
        let prepared: i64 = pool.query_one(count, &[]).await.unwrap().get(0).unwrap();
        assert!(prepared <= KEPT as i64, "{prepared} after {number}");
        assert_eq!(prepared, pool.stats().lanes[0].prepared as i64, "both sides agree");
    }
    // Evicted long since: prepared anew.
    assert_eq!(pool.query_one("select 0", &[]).await.unwrap().get::<_, i32>(0).unwrap(), 0);
}

#[tokio::test]
async fn without_a_cache_no_statement_is_named() {
    let pool = open(settings("unnamed").pool_size(1).statement_cache_size(0));
    let answers = join_all((0..100).map(|number| {
        let pool = &pool;
        async move { pool.query_one("select $1::int4 + 1", &[&number]).await }
    }));
    for (number, answer) in (0..).zip(answers.await) {
        assert_eq!(answer.unwrap().get::<_, i32>(0).unwrap(), number + 1);
    }
    let count = "select count(*) from pg_prepared_statements where name <> ''";
    assert_eq!(pool.query_one(count, &[]).await.unwrap().get::<_, i64>(0).unwrap(), 0);
}
