//! Connections that die with statements in flight: every caller hears of it, and nothing runs twice.

use std::collections::HashMap;

use cenote_postgres::{Error, Pool, SqlState};
use cenote_tests::{Admin, Direction, OwnSchema, Proxy, must_end, open, postgres_url, settings, wait_until};
use futures_util::future::join_all;
use tokio::task::JoinSet;

const IN_FLIGHT: i32 = 100;

/// A table without a key, so that an insert that ran twice shows.
async fn schema(test: &str) -> (OwnSchema, Admin) {
    let schema = OwnSchema::create(test).await;
    let admin = schema.admin().await;
    admin.run("create table arrival (caller int, filler text); grant all on arrival to cenote").await;
    (schema, admin)
}

/// How often each caller's insert is in the table.
async fn arrivals(admin: &Admin) -> HashMap<i32, i64> {
    let rows = admin.rows("select caller, count(*) from arrival group by caller", &[]).await;
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

/// Nothing ran twice; what was said to have run did, and what was said not to have been sent did not.
fn check(outcomes: &[(i32, Result<u64, Error>)], arrivals: &HashMap<i32, i64>) {
    for (caller, outcome) in outcomes {
        let arrived = arrivals.get(caller).copied().unwrap_or(0);
        match outcome {
            Ok(count) => assert_eq!((*count, arrived), (1, 1), "caller {caller} was told that it ran"),
            Err(error) if error.was_sent() == Some(false) => {
                assert_eq!(arrived, 0, "caller {caller} was told that it was not sent: {error}");
            }
            Err(error) => {
                assert!(error.is_network(), "caller {caller}: {error}");
                assert!(arrived <= 1, "caller {caller}'s insert ran {arrived} times");
            }
        }
    }
}

/// Puts inserts in flight on the pool's one connection, behind a lock that lasts until the administrator who is
/// returned commits. All of them have been written.
async fn in_flight(schema: &OwnSchema, pool: &Pool, admin: &Admin) -> (Admin, JoinSet<(i32, Result<u64, Error>)>) {
    const INSERT: &str = "insert into arrival values ($1)";
    pool.execute(INSERT, &[&-1]).await.unwrap();
    // Not `admin`: within a transaction the list of sessions does not change.
    let holder = schema.admin().await;
    holder.run("begin; lock table arrival").await;
    let mut callers = JoinSet::new();
    for caller in 0..IN_FLIGHT {
        let pool = pool.clone();
        callers.spawn(async move { (caller, pool.execute(INSERT, &[&caller]).await) });
    }
    wait_until("the first insert waits for the lock and all others behind it", async || {
        let backends = admin.backends(pool).await;
        let blocked = backends.iter().any(|backend| backend.wait_event_type.as_deref() == Some("Lock"));
        blocked && pool.stats().in_flight() == IN_FLIGHT as usize
    })
    .await;
    (holder, callers)
}

async fn all_ended(callers: JoinSet<(i32, Result<u64, Error>)>) -> Vec<(i32, Result<u64, Error>)> {
    let outcomes = must_end("callers whose connection has died", callers.join_all()).await;
    assert_eq!(outcomes.len(), IN_FLIGHT as usize);
    outcomes
}

/// The server's reason reaches each caller, and not just that the connection is gone (node-postgres PR 3736).
#[tokio::test]
async fn a_terminated_connection_tells_everyone_in_flight_why() {
    let (schema, admin) = schema("terminated").await;
    let pool = open(schema.settings().pool_size(1));
    let (holder, callers) = in_flight(&schema, &pool, &admin).await;
    assert_eq!(admin.terminate(&pool).await, 1);
    holder.run("commit").await;
    let outcomes = all_ended(callers).await;
    for (caller, outcome) in &outcomes {
        let error = outcome.as_ref().expect_err("its session was terminated");
        assert!(error.is_network() && error.was_sent() == Some(true), "caller {caller}: {error}");
        assert_eq!(error.code(), Some(SqlState::ADMIN_SHUTDOWN), "caller {caller}: {error}");
        assert!(error.to_string().contains("terminating connection due to administrator command"), "{error}");
    }
    check(&outcomes, &arrivals(&admin).await);
    let stats = pool.stats();
    assert_eq!((stats.in_flight(), stats.lost_after_sent), (0, IN_FLIGHT as u64), "{stats:?}");
    assert_eq!((stats.connections_lost, stats.resubmits), (1, 0), "{stats:?}");
    pool.execute("insert into arrival values ($1)", &[&-2]).await.expect("the pool goes on with a new connection");
}

#[tokio::test]
async fn a_reset_connection_runs_nothing_twice() {
    let (schema, admin) = schema("reset").await;
    let proxy = Proxy::start(&postgres_url());
    let pool = open(proxy.through(schema.settings()).pool_size(1));
    let (holder, callers) = in_flight(&schema, &pool, &admin).await;
    proxy.reset();
    let outcomes = all_ended(callers).await;
    // The server has received the inserts and does not know yet that nobody waits for them: it may run them.
    let backends = admin.backends(&pool).await;
    holder.run("commit").await;
    wait_until("the server has noticed", async || {
        let now = admin.backends(&pool).await;
        backends.iter().all(|old| now.iter().all(|new| new.pid != old.pid))
    })
    .await;
    for (caller, outcome) in &outcomes {
        let error = outcome.as_ref().expect_err("its connection was reset");
        assert!(error.is_network() && error.was_sent() == Some(true), "caller {caller}: {error}");
        assert_eq!(error.code(), None, "the server has said nothing: {error}");
    }
    check(&outcomes, &arrivals(&admin).await);
    assert_eq!(pool.stats().in_flight(), 0);
    pool.execute("insert into arrival values ($1)", &[&-2]).await.expect("the pool goes on with a new connection");
}

/// Some of the statements are written when the connection dies, some are not: those are sent elsewhere, unseen.
#[tokio::test]
async fn what_was_never_written_moves_to_another_connection() {
    const CALLERS: i32 = 300;
    const INSERT: &str = "insert into arrival values ($1, $2)";
    let (schema, admin) = schema("moves").await;
    let proxy = Proxy::start(&postgres_url());
    let settings = proxy.through(schema.settings()).pool_size(1).max_pipeline(2 * CALLERS as usize);
    let pool = open(settings.unsent_bytes_max(64 << 20));
    pool.execute(INSERT, &[&-1, &"first"]).await.unwrap();
    // Together more than the kernel holds for a connection.
    let filler = "x".repeat(64 * 1024);
    proxy.stall(Direction::ToServer);
    let before = pool.stats();
    let callers = join_all((0..CALLERS).map(|caller| {
        let (pool, filler) = (&pool, &filler);
        async move { (caller, pool.execute(INSERT, &[&caller, filler]).await) }
    }));
    let cutting = async {
        let queued = async || pool.stats().in_flight() == CALLERS as usize;
        wait_until("all statements are queued", queued).await;
        let mut written = 0;
        wait_until("the kernel takes no more", async || {
            let earlier = std::mem::replace(&mut written, pool.stats().bytes_written);
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            earlier == pool.stats().bytes_written
        })
        .await;
        let after = pool.stats();
        assert!(after.bytes_written > before.bytes_written, "some are written");
        assert!(after.bytes_written - before.bytes_written < CALLERS as u64 * filler.len() as u64, "some are not");
        proxy.reset();
        wait_until("the pool has seen the cut", async || pool.stats().connections_lost == 1).await;
        proxy.resume(Direction::ToServer);
    };
    let (outcomes, ()) = must_end("statements that were to move", async { tokio::join!(callers, cutting) }).await;
    check(&outcomes, &arrivals(&admin).await);
    let (moved, lost): (Vec<_>, Vec<_>) = outcomes.iter().partition(|(_, outcome)| outcome.is_ok());
    let stats = pool.stats();
    assert!(!moved.is_empty() && !lost.is_empty(), "{} moved, {} lost", moved.len(), lost.len());
    assert_eq!((moved.len() as u64, lost.len() as u64), (stats.resubmits, stats.lost_after_sent), "{stats:?}");
    assert!(lost.iter().all(|(_, outcome)| outcome.as_ref().is_err_and(|error| error.was_sent() == Some(true))));
    assert_eq!((stats.in_flight(), stats.connects), (0, 2), "{stats:?}");
}

/// A session that ends while nobody uses it is nobody's error (postgres.js PR 1155).
#[tokio::test]
async fn an_idle_connection_that_dies_is_not_the_next_callers_error() {
    let admin = Admin::connect().await;
    let pool = open(settings("idle_dies").pool_size(4));
    for round in 1..=10 {
        // As many at once as make the pool open more than one connection.
        for answer in join_all((0..64).map(|_| pool.query_one("select 1", &[]))).await {
            answer.expect("it begins with sessions that are well");
        }
        let idle = async || pool.stats().connecting == 0;
        wait_until("no connection is being made", idle).await;
        let lost_before = pool.stats().connections_lost;
        let ended = admin.terminate(&pool).await as u64;
        assert!(ended > 0, "round {round}");
        wait_until("the pool has seen that its idle connections ended", async || pool.stats().connections() == 0).await;
        // The first to end has the others left, too, and some may be gone before it was their turn.
        let lost = pool.stats().connections_lost - lost_before;
        assert!((1..=ended).contains(&lost), "round {round}: {lost} of {ended}");
        let row = pool.query_one("select 2", &[]).await.expect("the next caller gets a new connection");
        assert_eq!(row.get::<_, i32>(0).unwrap(), 2);
    }
    assert_eq!(pool.stats().lost_after_sent, 0);
}

/// The server's own timeout ends idle sessions, too.
#[tokio::test]
async fn an_idle_session_timeout_is_not_the_next_callers_error() {
    let pool = open(settings("idle_timeout").pool_size(1).options("-c idle_session_timeout=50ms"));
    for round in 1..=3 {
        let row = pool.query_one("select $1::int4", &[&round]).await.expect("a session that is well");
        assert_eq!(row.get::<_, i32>(0).unwrap(), round);
        let ended = async || pool.stats().connections_lost == round as u64;
        wait_until("the server has ended the idle session", ended).await;
    }
    assert_eq!(pool.stats().lost_after_sent, 0);
}

/// A session that ends while its thread is busy with something else: the runtime has not looked at the socket yet.
#[tokio::test]
async fn a_connection_that_died_while_the_thread_was_busy_is_not_the_next_callers_error() {
    let pool = open(settings("busy").pool_size(1));
    for _ in 0..20 {
        pool.query_one("select 1", &[]).await.unwrap();
        let killed = pool.clone();
        // The runtime of the pool's connection does not run meanwhile.
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                assert_eq!(Admin::connect().await.terminate(&killed).await, 1);
            });
        })
        .join()
        .unwrap();
        pool.query_one("select 1", &[]).await.expect("its last words had come long before");
    }
}
