//! Equal settings share one pool, for the whole process; the last one to close it drains it.

use std::sync::Arc;
use std::time::Duration;

use cenote_postgres::Pool;
use cenote_tests::{Admin, Dropped, block_on_without_runtime, drop_after_polls, must_end, open, settings, wait_until};
use futures_util::future::join_all;

/// Far more than any drain here takes: what waits for it to pass is a failure.
const AMPLE: Duration = Duration::from_secs(3_600);

const LOCK: &str = "select pg_advisory_xact_lock($1)";

/// Begins a statement that lasts until the lock is given up, and returns when it waits for that.
async fn begin_blocked(
    pool: &Pool,
    admin: &Admin,
    lock: i64,
) -> tokio::task::JoinHandle<Result<(), cenote_postgres::Error>> {
    let blocked = tokio::spawn({
        let pool = pool.clone();
        async move { pool.query_one(LOCK, &[&lock]).await.map(|_| ()) }
    });
    wait_until("the statement waits for its lock", async || {
        admin.backends(pool).await.iter().any(|backend| backend.wait_event_type.as_deref() == Some("Lock"))
    })
    .await;
    blocked
}

fn lock() -> i64 {
    i64::from(fastrand::u32(..))
}

#[tokio::test]
async fn equal_settings_are_one_pool() {
    let admin = Admin::connect().await;
    let settings = settings("equal").pool_size(1).build().unwrap();
    let (first, second) = (Pool::open(&settings).unwrap(), Pool::open(settings.clone()).unwrap());
    let different = Pool::open(settings.to_builder().max_pipeline(7).build().unwrap()).unwrap();
    let pid =
        async |pool: &Pool| pool.query_one("select pg_backend_pid()", &[]).await.unwrap().get::<_, i32>(0).unwrap();
    assert_eq!(pid(&first).await, pid(&second).await);
    assert_eq!(admin.backends(&first).await.len(), 1);
    assert_eq!(first.stats(), second.stats());
    assert_ne!(pid(&first).await, pid(&different).await, "other settings are another pool");
}

#[tokio::test]
async fn sixteen_threads_share_their_few_connections() {
    const THREADS: usize = 16;
    const CONNECTIONS: usize = 4;
    let admin = Admin::connect().await;
    let settings = settings("sixteen").pool_size(CONNECTIONS).build().unwrap();
    let pool = Pool::open(&settings).unwrap();
    let all_done = Arc::new(tokio::sync::Barrier::new(THREADS));
    let threads: Vec<_> = (0..THREADS as i64)
        .map(|thread| {
            let (settings, all_done) = (settings.clone(), Arc::clone(&all_done));
            std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(async {
                    let pool = Pool::open(settings).unwrap();
                    for number in 0..20 {
                        let answers = join_all((0..10).map(|caller| {
                            let pool = &pool;
                            let token = thread * 1_000_000 + number * 1_000 + caller;
                            async move {
                                let row = pool.query_one("select $1::int8", &[&token]).await.unwrap();
                                assert_eq!(row.get::<_, i64>(0).unwrap(), token);
                            }
                        }));
                        answers.await;
                    }
                    // A connection ends with the thread that drives it: none goes before all are done.
                    all_done.wait().await;
                });
            })
        })
        .collect();
    let mut most = 0;
    while threads.iter().any(|thread| !thread.is_finished()) {
        most = most.max(admin.backends(&pool).await.len());
        let stats = pool.stats();
        assert!(stats.lanes.len() <= CONNECTIONS, "{stats:?}");
    }
    for thread in threads {
        thread.join().expect("each thread got its own answers");
    }
    assert!((1..=CONNECTIONS).contains(&most), "the server had {most} sessions");
}

#[tokio::test]
async fn one_open_closed_leaves_the_others() {
    let settings = settings("others").pool_size(1).build().unwrap();
    let (first, second) = (Pool::open(&settings).unwrap(), Pool::open(&settings).unwrap());
    let clone_of_first = first.clone();
    second.query_one("select 1", &[]).await.unwrap();
    must_end("closing one open of two", first.close(AMPLE)).await;
    for closed in [&first, &clone_of_first] {
        let error = closed.query("select 1", &[]).await.expect_err("it is closed");
        assert!(error.is_closed() && error.was_sent() == Some(false), "{error}");
        assert!(error.to_string().contains("closed"), "{error}");
    }
    second.query_one("select 1", &[]).await.expect("the other open is not closed");
    assert_eq!(second.stats().connects, 1, "nor was the connection");
    drop((first, clone_of_first));
    second.query_one("select 1", &[]).await.expect("dropping what is closed closes nothing again");
}

#[tokio::test]
async fn the_last_close_finishes_what_is_in_flight() {
    let admin = Admin::connect().await;
    let holder = Admin::connect().await;
    let lock = lock();
    holder.run(&format!("select pg_advisory_lock({lock})")).await;
    let pool = open(settings("last_close").pool_size(1));
    let blocked = begin_blocked(&pool, &admin, lock).await;
    let behind = tokio::spawn({
        let pool = pool.clone();
        async move { pool.query_one("select 'behind'", &[]).await.map(|row| row.get::<_, String>(0).unwrap()) }
    });
    wait_until("both are in flight", async || pool.stats().in_flight() == 2).await;
    let closing = tokio::spawn({
        let pool = pool.clone();
        async move { pool.close(AMPLE).await }
    });
    // Not to its end: until the close has begun, it would wait like the others.
    let refused = async || match drop_after_polls(1, pool.query("select 1", &[])).await {
        Dropped::Ready(outcome) => outcome.is_err_and(|error| error.is_closed()),
        Dropped::Pending => false,
    };
    wait_until("the pool takes no more", refused).await;
    assert!(!closing.is_finished() && !blocked.is_finished(), "it waits for what is in flight");
    holder.run(&format!("select pg_advisory_unlock({lock})")).await;
    must_end("the close", closing).await.unwrap();
    blocked.await.unwrap().expect("it was in flight and was answered");
    // Whether it was learned in time or not: an answer or a clear word.
    match behind.await.unwrap() {
        Ok(text) => assert_eq!(text, "behind"),
        Err(error) => assert!(error.is_closed(), "{error}"),
    }
    admin.wait_for_no_backend(&pool).await;
    assert_eq!(pool.stats().connections(), 0);
    must_end("a second close", pool.close(AMPLE)).await;
    must_end("closes at once", async { tokio::join!(pool.close(AMPLE), pool.close(AMPLE)) }).await;
}

#[tokio::test]
async fn a_close_ends_by_its_deadline_though_a_statement_does_not() {
    let admin = Admin::connect().await;
    let holder = Admin::connect().await;
    let lock = lock();
    holder.run(&format!("select pg_advisory_lock({lock})")).await;
    let pool = open(settings("deadline").pool_size(1));
    let blocked = begin_blocked(&pool, &admin, lock).await;
    must_end("a close with a deadline", pool.close(Duration::from_millis(50))).await;
    let error = must_end("the statement that did not end", blocked).await.unwrap().expect_err("it was given up");
    assert!(error.is_network() && error.was_sent() == Some(true), "{error}");
    assert!(error.to_string().contains("pool was closed"), "{error}");
    wait_until("no connection is left", async || pool.stats().connections() == 0).await;
    // The server finds out when it wants to answer.
    holder.run(&format!("select pg_advisory_unlock({lock})")).await;
    admin.wait_for_no_backend(&pool).await;
}

#[tokio::test]
async fn those_who_wait_are_told_of_the_close() {
    let admin = Admin::connect().await;
    let holder = Admin::connect().await;
    let lock = lock();
    holder.run(&format!("select pg_advisory_lock({lock})")).await;
    let pool = open(settings("told").pool_size(1).max_pipeline(1).acquire_timeout(AMPLE));
    // Learned beforehand, or one of them would wait for room and the others for him.
    pool.query("select 1", &[]).await.unwrap();
    let blocked = begin_blocked(&pool, &admin, lock).await;
    let waiting: Vec<_> = (0..10)
        .map(|_| {
            let pool = pool.clone();
            tokio::spawn(async move { pool.query("select 1", &[]).await })
        })
        .collect();
    wait_until("ten wait", async || pool.stats().waiting == 10).await;
    let closing = tokio::spawn({
        let pool = pool.clone();
        async move { pool.close(AMPLE).await }
    });
    for answer in must_end("those who wait", join_all(waiting)).await {
        let error = answer.unwrap().expect_err("the pool is closed");
        assert!(error.is_closed(), "{error}");
    }
    holder.run(&format!("select pg_advisory_unlock({lock})")).await;
    must_end("the close", closing).await.unwrap();
    blocked.await.unwrap().expect("what was in flight was answered");
}

#[tokio::test]
async fn dropping_all_handles_closes_the_connections() {
    let admin = Admin::connect().await;
    let settings = settings("all_dropped").pool_size(4).build().unwrap();
    let name = settings.application_name().unwrap().to_owned();
    let (pool, second) = (Pool::open(&settings).unwrap(), Pool::open(&settings).unwrap());
    for answer in join_all((0..64).map(|_| pool.query_one("select 1", &[]))).await {
        answer.unwrap();
    }
    let clone = pool.clone();
    drop(pool);
    drop(second);
    clone.query_one("select 1", &[]).await.expect("a clone holds it open");
    assert!(!admin.backends_named(&name).await.is_empty());
    drop(clone);
    let none = async || admin.backends_named(&name).await.is_empty();
    wait_until("the server has no session of it any more", none).await;

    let again = Pool::open(&settings).unwrap();
    again.query_one("select 1", &[]).await.expect("opened again, it is a new pool");
    assert_eq!(again.stats().connects, 1);
    must_end("the close", again.close(AMPLE)).await;
    let again = Pool::open(&settings).unwrap();
    again.query_one("select 1", &[]).await.expect("also after a close");
}

#[test]
fn a_pool_is_closed_from_a_thread_without_a_runtime() {
    let pool = open(settings("no_runtime").pool_size(2));
    block_on_without_runtime(async {
        pool.query_one("select 1", &[]).await.unwrap();
        pool.close(AMPLE).await;
    });
    assert_eq!(pool.stats().connections(), 0);
}

#[tokio::test]
async fn a_pool_that_never_connected_closes() {
    let pool = open(settings("never"));
    must_end("the close", pool.close(AMPLE)).await;
    assert!(pool.query("select 1", &[]).await.is_err_and(|error| error.is_closed()));
    assert_eq!(pool.stats().connects, 0);
}

/// Whoever has a lease may end what he began, until the time is over; from then on he hears why he may not.
#[tokio::test]
async fn a_lease_hears_that_its_pool_was_closed() {
    let admin = Admin::connect().await;
    let pool = open(settings("close_lease").pool_size(3));
    let (mut lease, tx) = (pool.lease().await.unwrap(), pool.begin().await.unwrap());
    tx.query_one("select 1", &[]).await.unwrap();
    let mut closing = Box::pin(pool.close(AMPLE));
    assert!(futures_util::poll!(closing.as_mut()).is_pending());
    lease.query_one("select 1", &[]).await.expect("there is time left");
    tx.query_one("select 1", &[]).await.expect("there is time left");
    drop(closing);
    must_end("the close", pool.close(Duration::ZERO)).await;
    let closed = |outcome: Result<(), cenote_postgres::Error>| {
        let error = outcome.expect_err("the pool is closed");
        assert!(error.is_closed() && !error.is_network() && error.was_sent() == Some(false), "{error}");
        let words = error.to_string();
        assert!(words.contains("closed by this program") && !words.contains("lost"), "{words}");
    };
    for _ in 0..2 {
        closed(must_end("a statement", lease.query_one("select 1", &[])).await.map(drop));
        closed(must_end("a statement", tx.query_one("select 1", &[])).await.map(drop));
        closed(must_end("a batch", lease.batch().add("select 1", &[]).run()).await.map(drop));
        closed(must_end("another lease", pool.lease()).await.map(drop));
        closed(must_end("a transaction", pool.begin()).await.map(drop));
        wait_until("the connections are closed", async || pool.stats().connections() == 0).await;
    }
    closed(must_end("the commit", tx.commit()).await);
    closed(must_end("a transaction without a statement", lease.begin().commit()).await);
    admin.wait_for_no_backend(&pool).await;
}

/// Dropped, it has closed the pool all the same, if it was polled at all.
#[tokio::test]
async fn a_close_may_be_dropped_at_any_poll() {
    let admin = Admin::connect().await;
    for polls in 0..=10 {
        let pool = open(settings("close_polls").pool_size(3));
        let lease = pool.lease().await.unwrap();
        lease.query_one("select 1", &[]).await.unwrap();
        pool.query("select 1", &[]).await.unwrap();
        let mut in_flight = Box::pin(pool.query("select pg_sleep(0.1)", &[]));
        wait_until("it is in flight", async || {
            assert!(futures_util::poll!(in_flight.as_mut()).is_pending(), "it takes longer");
            pool.stats().in_flight() > 0
        })
        .await;
        let _ = drop_after_polls(polls, pool.close(AMPLE)).await;
        if polls == 0 {
            pool.query("select 1", &[]).await.expect("it was never closed");
        } else {
            for outcome in [pool.query("select 1", &[]).await.map(drop), pool.lease().await.map(drop)] {
                assert!(outcome.is_err_and(|error| error.is_closed()), "after {polls} polls");
            }
            lease.query_one("select 1", &[]).await.expect("nobody has set it a time that is over");
        }
        drop((lease, in_flight));
        if polls > 0 {
            // Nobody waits for it, and it comes to its end.
            admin.wait_for_no_backend(&pool).await;
        }
        must_end("the close", pool.close(AMPLE)).await;
        admin.wait_for_no_backend(&pool).await;
        assert_eq!((pool.stats().connections(), pool.stats().connections_lost), (0, 0), "after {polls} polls");
    }
}
