//! Callers who find no room: how long they wait, what they are told, and that the pool is whole afterwards.

use std::time::Duration;

use cenote_postgres::{Error, Pool, Row};
use cenote_tests::{Admin, Direction, Proxy, drop_after_polls, must_end, open, postgres_url, settings, wait_until};
use futures_util::future::join_all;
use tokio::task::JoinHandle;

/// Long enough for a statement that has room, short enough for a test.
const SHORT: Duration = Duration::from_millis(200);

/// Nothing waits for this to pass.
const AMPLE: Duration = Duration::from_secs(3_600);

/// Statements on all connections of a pool that takes one at a time, stuck until the lock is given up.
struct Stuck {
    holder: Admin,
    lock: i64,
    statements: Vec<JoinHandle<Result<Row, Error>>>,
}

impl Stuck {
    async fn on(pool: &Pool) -> Stuck {
        let (admin, holder) = (Admin::connect().await, Admin::connect().await);
        let lock = i64::from(fastrand::u32(..));
        holder.run(&format!("select pg_advisory_lock({lock})")).await;
        // Learned beforehand, or all would wait for the one who learns.
        pool.query_one("select 1", &[]).await.unwrap();
        pool.query_one("select pg_advisory_xact_lock($1)", &[&(lock + 1)]).await.unwrap();
        let connections = pool.stats().connections_max;
        let statements = (0..connections).map(|_| {
            let pool = pool.clone();
            tokio::spawn(async move { pool.query_one("select pg_advisory_xact_lock($1)", &[&lock]).await })
        });
        let statements = statements.collect();
        wait_until("all connections are stuck", async || {
            let backends = admin.backends(pool).await;
            let stuck = backends.iter().filter(|backend| backend.wait_event_type.as_deref() == Some("Lock"));
            stuck.count() == connections
        })
        .await;
        Stuck { holder, lock, statements }
    }

    async fn end(self) {
        self.holder.run(&format!("select pg_advisory_unlock({})", self.lock)).await;
        for statement in must_end("the stuck statements", join_all(self.statements)).await {
            statement.unwrap().expect("a stuck statement is answered in the end");
        }
    }
}

#[tokio::test]
async fn a_caller_who_waited_too_long_is_told_what_the_pool_looked_like() {
    let pool = open(settings("too_long").pool_size(2).max_pipeline(1).acquire_timeout(SHORT));
    let stuck = Stuck::on(&pool).await;
    let outcomes = join_all((0..10).map(|_| pool.query_one("select 1", &[])));
    for outcome in must_end("callers who find no room", outcomes).await {
        let error = outcome.expect_err("there was no room");
        assert!(error.is_timeout() && !error.is_network() && !error.is_server(), "{error}");
        assert_eq!(error.was_sent(), Some(false), "{error}");
        let words = error.to_string();
        for part in ["acquire timed out after", "2/2", "2 lanes", "waiting"] {
            assert!(words.contains(part), "{part:?} is not in: {words}");
        }
    }
    let stats = pool.stats();
    assert_eq!((stats.acquire_timeouts, stats.waiting, stats.in_flight()), (10, 0, 2), "{stats:?}");
    stuck.end().await;
    for answer in join_all((0..50).map(|_| pool.query_one("select 1", &[]))).await {
        answer.expect("the pool serves again");
    }
    assert_eq!(pool.stats().connects, 2);
}

#[tokio::test]
async fn one_waiter_too_many_is_told_at_once() {
    const WAITERS: usize = 3;
    let pool = open(settings("too_many").pool_size(1).max_pipeline(1).waiters_max(WAITERS).acquire_timeout(AMPLE));
    let stuck = Stuck::on(&pool).await;
    let waiting: Vec<_> = (0..WAITERS)
        .map(|_| {
            let pool = pool.clone();
            tokio::spawn(async move { pool.query_one("select 1", &[]).await })
        })
        .collect();
    wait_until("as many wait as may", async || pool.stats().waiting == WAITERS).await;
    let error = must_end("one too many", pool.query_one("select 1", &[])).await.expect_err("one too many");
    assert!(error.is_timeout() && error.was_sent() == Some(false), "{error}");
    assert!(error.to_string().contains("3 callers wait"), "{error}");
    stuck.end().await;
    for answer in must_end("those who waited", join_all(waiting)).await {
        answer.unwrap().expect("they were not too many");
    }
    pool.query_one("select 1", &[]).await.expect("there is room again");
}

#[tokio::test]
async fn a_waiter_who_vanishes_leaves_his_place_to_another() {
    let pool = open(settings("no_waiters").pool_size(1).max_pipeline(1).waiters_max(1).acquire_timeout(AMPLE));
    let stuck = Stuck::on(&pool).await;
    // The one who may wait vanishes: his place is another's.
    for _ in 0..5 {
        assert!(drop_after_polls(3, pool.query_one("select 1", &[])).await.ready().is_none());
        assert_eq!(pool.stats().waiting, 0);
    }
    stuck.end().await;
    pool.query_one("select 1", &[]).await.expect("there is room again");
}

/// Connecting belongs to nobody: when all who wanted the connection are gone, it is made all the same.
#[tokio::test]
async fn a_connection_that_took_too_long_is_there_for_the_next_caller() {
    let proxy = Proxy::start(&postgres_url());
    proxy.stall(Direction::ToClient);
    let pool = open(proxy.through(settings("detached")).pool_size(1).acquire_timeout(SHORT).connect_timeout(AMPLE));
    for outcome in must_end("callers who cannot wait", join_all((0..5).map(|_| pool.query_one("select 1", &[])))).await
    {
        let error = outcome.expect_err("there was no connection in time");
        assert!(error.is_timeout() && error.to_string().contains("1 connecting"), "{error}");
    }
    assert!(drop_after_polls(3, pool.query_one("select 1", &[])).await.ready().is_none());
    assert_eq!((pool.stats().connecting, pool.stats().lanes.len()), (1, 0));
    proxy.resume(Direction::ToClient);
    wait_until("the connection is there", async || pool.stats().lanes.len() == 1).await;
    assert_eq!(pool.stats().in_flight(), 0, "nobody's statement was sent after he had given up");
    pool.query_one("select 1", &[]).await.expect("the next caller finds it");
    assert_eq!((proxy.accepted(), pool.stats().connects), (1, 1));
}

#[tokio::test]
async fn an_address_that_does_not_answer_is_given_up_after_its_own_time() {
    let proxy = Proxy::start(&postgres_url());
    proxy.stall(Direction::ToClient);
    let settings = proxy.through(settings("no_answer")).pool_size(1).connect_timeout(Duration::from_millis(100));
    let pool = open(settings.acquire_timeout(AMPLE));
    let waiting = tokio::spawn({
        let pool = pool.clone();
        async move { pool.query_one("select 1", &[]).await }
    });
    wait_until("some attempts have timed out", async || pool.stats().connect_failures >= 3).await;
    assert_eq!(pool.stats().connecting, 1, "one prober while nobody answers");
    proxy.resume(Direction::ToClient);
    must_end("a caller who waited", waiting).await.unwrap().expect("he is served as soon as the server answers");
}
