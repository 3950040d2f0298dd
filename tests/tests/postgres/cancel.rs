//! Stopping what runs on a lease: it hits that alone, and nobody who has the connection afterwards.

use cenote_postgres::{Lease, Pool, SqlState};
use cenote_tests::{Admin, Direction, Proxy, drop_after_polls, must_end, open, postgres_url, settings, wait_until};
use futures_util::future::join_all;

const SLOW: &str = "select pg_sleep(600)";

#[tokio::test]
async fn a_statement_of_a_lease_is_stopped_and_the_lease_lives_on() {
    let pool = open(settings("cancel").pool_size(2));
    let lease = pool.lease().await.unwrap();
    let canceller = lease.canceller();
    assert!(!canceller.cancel().await.unwrap(), "nothing runs");
    let cancelling = async {
        let admin = Admin::connect().await;
        let runs = async || {
            admin
                .backends(&pool)
                .await
                .iter()
                .any(|backend| backend.query.contains("pg_sleep") && backend.state == "active")
        };
        wait_until("the statement runs", runs).await;
        assert!(canceller.cancel().await.unwrap());
    };
    let (slow, ()) =
        must_end("a statement that is cancelled", async { tokio::join!(lease.query(SLOW, &[]), cancelling) }).await;
    assert_eq!(slow.unwrap_err().code(), Some(SqlState::QUERY_CANCELED));
    let one: i32 = lease.query_one("select 1", &[]).await.unwrap().get(0).unwrap();
    assert_eq!(one, 1);
    drop(lease);
    wait_until("it is back", async || pool.stats().leases.is_empty()).await;
    assert!(!canceller.cancel().await.unwrap(), "the lease is over");
    assert_eq!((pool.stats().cancels, pool.stats().leases_closed), (1, 0));
}

#[tokio::test]
async fn what_a_dropped_lease_runs_is_stopped() {
    let pool = open(settings("cancel_dropped").pool_size(2));
    let admin = Admin::connect().await;
    let lease = pool.lease().await.unwrap();
    let runs =
        async || admin.backends(&pool).await.iter().any(|backend| backend.query == SLOW && backend.state == "active");
    tokio::select! {
        _ = lease.query(SLOW, &[]) => panic!("it sleeps for minutes"),
        () = wait_until("the statement runs", runs) => {}
    }
    drop(lease);
    wait_until("the connection is back among the lanes", async || pool.stats().lanes.len() == 1).await;
    assert!(!runs().await, "the server goes on with what nobody waits for");
    assert_eq!((pool.stats().cancels, pool.stats().leases_restored, pool.stats().leases_closed), (1, 1, 0));
}

/// Kept beyond its lease it does nothing: not while the lease is restored, and not to whoever has the connection then.
#[tokio::test]
async fn a_canceller_that_is_used_too_late_hits_nobody() {
    let pool = open(settings("cancel_late").pool_size(1));
    for round in 0..100 {
        let lease = pool.lease().await.unwrap();
        lease.execute("set work_mem = '9MB'", &[]).await.unwrap();
        let canceller = lease.canceller();
        // Its reset is on the way from here on.
        drop(lease);
        let late = async {
            for _ in 0..round % 7 {
                tokio::task::yield_now().await;
            }
            canceller.cancel().await
        };
        let (stranger, late) = tokio::join!(pool.query("select pg_sleep(0.002)", &[]), late);
        stranger.expect("a stranger's statement");
        assert!(!late.unwrap(), "there is nothing of the lease to stop");
    }
    assert_eq!((pool.stats().cancels, pool.stats().leases_closed, pool.stats().connects), (0, 0, 1));
}

async fn sleeps(admin: &Admin, pool: &Pool) -> bool {
    admin.backends(pool).await.iter().any(|backend| backend.query == SLOW && backend.state == "active")
}

/// The lease's slow statement, stopped by `stop` once it runs.
async fn stopped_by(pool: &Pool, admin: &Admin, lease: &Lease, stop: impl Future<Output = ()>) {
    let stop = async {
        wait_until("the statement runs", async || sleeps(admin, pool).await).await;
        stop.await;
    };
    let (slow, ()) =
        must_end("a statement that is stopped", async { tokio::join!(lease.query(SLOW, &[]), stop) }).await;
    assert_eq!(slow.unwrap_err().code(), Some(SqlState::QUERY_CANCELED));
    let one: i32 = lease.query_one("select 1", &[]).await.expect("what comes later is not stopped").get(0).unwrap();
    assert_eq!(one, 1);
}

/// However often one asks, there is one connection more, and not a hundred.
#[tokio::test]
async fn many_who_stop_the_same_statement_share_one_request() {
    let (admin, proxy) = (Admin::connect().await, Proxy::start(&postgres_url()));
    let pool = open(proxy.through(settings("cancel_many").pool_size(1)));
    let lease = pool.lease().await.unwrap();
    let canceller = lease.canceller();
    let stop = async {
        proxy.stall(Direction::ToServer);
        let all = join_all((0..100).map(|_| canceller.cancel()));
        let begun = async {
            wait_until("the request is on its way", async || proxy.accepted() > 1).await;
            proxy.resume(Direction::ToServer);
        };
        let (all, ()) = tokio::join!(biased; all, begun);
        for told in all {
            assert!(told.expect("the server was told"));
        }
    };
    stopped_by(&pool, &admin, &lease, stop).await;
    assert_eq!((pool.stats().cancels, proxy.accepted()), (1, 2));
    // The next is a request of its own.
    stopped_by(&pool, &admin, &lease, async { assert!(canceller.cancel().await.unwrap()) }).await;
    assert_eq!((pool.stats().cancels, pool.stats().connects), (2, 1));
}

/// Those who share a request share what comes of it.
#[tokio::test]
async fn a_request_that_fails_is_told_to_all_who_share_it() {
    let (admin, proxy) = (Admin::connect().await, Proxy::start(&postgres_url()));
    let pool = open(proxy.through(settings("cancel_fails").pool_size(1)));
    let lease = pool.lease().await.unwrap();
    let canceller = lease.canceller();
    let stop = async {
        wait_until("the statement runs", async || sleeps(&admin, &pool).await).await;
        proxy.stall(Direction::ToServer);
        let cut = async {
            wait_until("the request is on its way", async || proxy.accepted() > 1).await;
            proxy.reset();
        };
        let (all, ()) = tokio::join!(biased; join_all((0..10).map(|_| canceller.cancel())), cut);
        for told in all {
            let error = told.expect_err("the server could not be told");
            assert!(error.to_string().contains("could not be asked to stop") && error.was_sent().is_none(), "{error}");
        }
    };
    let (slow, ()) = must_end("a lost statement", async { tokio::join!(lease.query(SLOW, &[]), stop) }).await;
    assert!(slow.unwrap_err().is_network());
    assert_eq!(pool.stats().cancels, 1);
    admin.terminate(&pool).await;
}

#[tokio::test]
async fn a_cancel_may_be_dropped_at_any_poll() {
    let admin = Admin::connect().await;
    let pool = open(settings("cancel_polls").pool_size(2));
    let lease = pool.lease().await.unwrap();
    let canceller = lease.canceller();
    for polls in 0..=12 {
        let stop = async {
            drop(drop_after_polls(polls, canceller.cancel()).await);
            if polls == 0 {
                assert_eq!(pool.stats().cancels, 0, "it was never polled");
                assert!(canceller.cancel().await.unwrap());
            }
        };
        stopped_by(&pool, &admin, &lease, stop).await;
        assert_eq!(pool.stats().cancels, polls as u64 + 1, "after {polls} polls");
    }
    drop(lease);
    wait_until("it is back", async || pool.stats().leases.is_empty()).await;
    assert_eq!((pool.stats().connections_lost, pool.stats().leases_closed), (0, 0));
}
