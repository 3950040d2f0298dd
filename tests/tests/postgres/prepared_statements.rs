//! Statements are prepared once on each connection, in passing, and what failed to be is forgotten.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use cenote_postgres::types::{ToSql, Type};
use cenote_postgres::{Error, Lease, Pool, SqlState};
use cenote_tests::{Direction, Proxy, drop_after_polls, must_end, open, postgres_url, settings, wait_until};
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

/// So many at once that each has its first use in flight before the first is answered.
const AT_ONCE: i32 = 100;

/// Times that the server was asked to prepare a text and did, on this lease's connection.
async fn prepared_times(lease: &Lease, sql: &str) -> i64 {
    let count = "select count(*) from pg_prepared_statements where statement = $1";
    lease.query_one(count, &[&sql]).await.unwrap().get(0).unwrap()
}

/// On a lease nobody waits for another's first use, and yet the text is prepared once: the others follow in the same stream.
#[tokio::test]
async fn a_hundred_first_uses_on_a_lease_prepare_a_text_once() {
    let pool = open(settings("first_uses").pool_size(2));
    let mut lease = pool.lease().await.unwrap();
    let sql = "select $1::int4 + 1";
    for sum in join_all((0..AT_ONCE).map(|n| add_one(&lease, sql, n))).await.into_iter().enumerate() {
        assert_eq!(sum.1.unwrap(), sum.0 as i32 + 1);
    }
    assert_eq!(prepared_times(&lease, sql).await, 1);
    let sql = "select $1 + 2";
    let typed: Vec<_> = (0..AT_ONCE).collect();
    let typed: Vec<[(&(dyn ToSql + Sync), Type); 1]> = typed.iter().map(|n| [(n as _, Type::INT4)]).collect();
    for rows in join_all(typed.iter().map(|typed| lease.query_typed(sql, typed))).await {
        assert_eq!(rows.unwrap().len(), 1);
    }
    assert_eq!(prepared_times(&lease, sql).await, 1, "types named");
    let tx = lease.begin();
    let sql = "select $1::int4 + 3";
    let numbers: Vec<i32> = (0..AT_ONCE).collect();
    let parameters: Vec<[&(dyn ToSql + Sync); 1]> = numbers.iter().map(|n| [n as _]).collect();
    for row in join_all(parameters.iter().map(|parameters| tx.query_one(sql, parameters))).await {
        row.unwrap();
    }
    tx.commit().await.unwrap();
    assert_eq!(prepared_times(&lease, sql).await, 1, "in a transaction");
    let before = pool.stats().replies;
    lease.query_one(sql, &[&1]).await.unwrap();
    assert_eq!(pool.stats().replies - before, 1, "it is known");
}

async fn add_one(lease: &Lease, sql: &str, n: i32) -> Result<i32, Error> {
    lease.query_one(sql, &[&n]).await?.get(0)
}

/// Whoever is first may never come back for his answer, and what he asks for may not be possible: the others hear the
/// server's own words.
#[tokio::test]
async fn those_who_follow_a_first_use_depend_on_nobody() {
    let pool = open(settings("followers").pool_size(2));
    let lease = pool.lease().await.unwrap();
    let sql = "select $1::int4 + 4";
    let mut first = Box::pin(lease.query_one(sql, &[&0]));
    assert!(futures_util::poll!(first.as_mut()).is_pending());
    must_end("one behind a first use that stands still", lease.query_one(sql, &[&1])).await.unwrap();
    drop(first);
    let sql = "select $1::int4 + 5";
    assert!(drop_after_polls(1, lease.query_one(sql, &[&0])).await.ready().is_none());
    must_end("one behind a first use that was dropped", lease.query_one(sql, &[&1])).await.unwrap();

    for sql in ["select $1::int4 from nowhere", "selekt $1"] {
        let expected = pool.query(sql, &[&1]).await.expect_err(sql).code();
        for outcome in join_all((0..20).map(|n| add_one(&lease, sql, n))).await {
            let error = outcome.expect_err(sql);
            assert_eq!(error.code(), expected, "{sql}: {error}");
        }
        let typed: [(&(dyn ToSql + Sync), Type); 1] = [(&1, Type::INT4)];
        for outcome in join_all((0..20).map(|_| lease.query_typed(sql, &typed))).await {
            let error = outcome.expect_err(sql);
            assert_eq!(error.code(), expected, "{sql}: {error}");
        }
    }
    // Between two first uses the text comes to mean something else.
    let sql = "select * from pg_temp.changes where a = $1";
    lease.execute("create temp table changes as select 1::int4 as a", &[]).await.unwrap();
    let anew = async {
        lease.execute("drop table pg_temp.changes", &[]).await?;
        lease.execute("create temp table changes as select 'x'::text as a", &[]).await?;
        lease.query_one(sql, &[&"x"]).await?.get::<_, String>(0)
    };
    let (_, text) = tokio::join!(biased; lease.query_one(sql, &[&1]), anew);
    assert_eq!(text.unwrap(), "x");
    assert_eq!((pool.stats().connections_lost, pool.stats().quarantines), (0, 0));
}
