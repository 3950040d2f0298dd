//! Callers who wait for a lease, and what goes on beside those who hold one.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cenote_postgres::{Error, Lease, Pool, SqlState};
use cenote_tests::{
    Admin, Direction, Proxy, block_on_without_runtime, drop_after_polls, must_end, open, postgres_url, settings,
    wait_until,
};
use futures_util::future::join_all;

const KNOWN: &str = "select $1::int4 as known";

/// Long enough for a statement that has room, short enough for a test.
const SHORT: Duration = Duration::from_millis(200);

/// Nothing waits for this to pass.
const AMPLE: Duration = Duration::from_secs(3_600);

async fn ask(pool: &Pool, number: i32) -> Result<i32, Error> {
    pool.query_one(KNOWN, &[&number]).await?.get(0)
}

async fn nothing_is_left(pool: &Pool) {
    wait_until("nobody holds anything or waits", async || {
        let stats = pool.stats();
        stats.leases.is_empty() && stats.waiting == 0 && stats.waiting_for_lease == 0 && stats.in_flight() == 0
    })
    .await;
}

/// As many leases as may be at once, at the same time.
async fn all_leases(pool: &Pool) -> Vec<Lease> {
    let count = pool.stats().connections_max.saturating_sub(1).max(1);
    let mut leases = Vec::new();
    while leases.len() < count {
        match must_end("a lease", pool.lease()).await {
            Ok(lease) => leases.push(lease),
            // Connecting may take longer than some of these tests wait.
            Err(error) => assert!(error.is_timeout() && !error.to_string().contains(" 0 connecting"), "{error}"),
        }
    }
    for (number, lease) in (0..).zip(&leases) {
        assert_eq!(lease.query_one(KNOWN, &[&number]).await.unwrap().get::<_, i32>(0).unwrap(), number);
    }
    leases
}

/// A pool whose first connection is there, however long that took.
async fn connected(pool: &Pool) {
    must_end("connecting", async { while ask(pool, 0).await.is_err() {} }).await;
}

/// npgsql 4369, postgresql-dart 229.
#[tokio::test]
async fn with_one_connection_an_ordinary_query_waits_for_the_transaction_beside_it() {
    let pool = open(settings("one_waits").pool_size(1).acquire_timeout(AMPLE));
    ask(&pool, 0).await.unwrap();
    let tx = pool.begin().await.unwrap();
    tx.query_one(KNOWN, &[&1]).await.unwrap();
    let beside = tokio::spawn({
        let pool = pool.clone();
        async move { ask(&pool, 7).await }
    });
    wait_until("it waits", async || pool.stats().waiting == 1).await;
    tx.query_one(KNOWN, &[&2]).await.expect("the transaction goes on");
    assert_eq!(pool.stats().waiting, 1, "and nobody else is in it");
    tx.commit().await.unwrap();
    assert_eq!(must_end("the query beside it", beside).await.unwrap().unwrap(), 7);
    assert_eq!(pool.stats().connects, 1);
}

#[tokio::test]
async fn with_one_connection_an_ordinary_query_inside_a_transaction_is_told_who_holds_it() {
    let pool = open(settings("one_inside").pool_size(1).acquire_timeout(SHORT));
    connected(&pool).await;
    let before = pool.stats().acquire_timeouts;
    for round in 0..3 {
        let line = line!() + 1;
        let tx = pool.begin().await.unwrap();
        tx.query_one(KNOWN, &[&round]).await.unwrap();
        let outcomes = tokio::join!(ask(&pool, 1), async { pool.lease().await.map(|_| 0) });
        for error in [outcomes.0.unwrap_err(), outcomes.1.unwrap_err()] {
            assert!(error.is_timeout() && error.was_sent() == Some(false), "{error}");
            let holder = format!("postgres/lease_waits.rs:{line}:");
            for part in [
                "acquire timed out",
                "1/1",
                "0 lanes",
                "1 leased",
                &holder,
                "methods of that lease",
                "larger pool_size",
            ] {
                assert!(error.to_string().contains(part), "{part:?} is not in: {error}");
            }
        }
        tx.commit().await.expect("it is as good as before");
        assert_eq!(must_end("an ordinary query", ask(&pool, round)).await.unwrap(), round);
    }
    nothing_is_left(&pool).await;
    assert_eq!((pool.stats().connects, pool.stats().acquire_timeouts - before), (1, 6));
}

#[tokio::test]
async fn ordinary_queries_run_on_beside_as_many_leases_as_there_may_be() {
    for connections in [2, 4] {
        let pool = open(settings("beside").pool_size(connections).acquire_timeout(SHORT));
        let leases = all_leases(&pool).await;
        connected(&pool).await;
        for number in 0..50 {
            assert_eq!(must_end("an ordinary query", ask(&pool, number)).await.unwrap(), number);
        }
        for (number, answer) in (0..).zip(join_all((0..50).map(|number| ask(&pool, number))).await) {
            assert_eq!(answer.unwrap(), number);
        }
        let error = must_end("one lease too many", pool.lease()).await.unwrap_err();
        assert!(error.is_timeout(), "{error}");
        let words = error.to_string();
        assert_eq!(
            words.matches("postgres/lease_waits.rs:").count(),
            connections - 1,
            "all holders are named: {words}"
        );
        assert!(words.contains(&format!("{} leased", connections - 1)), "{words}");
        drop(leases);
        all_leases(&pool).await;
        assert_eq!(pool.stats().connects, connections as u64);
    }
}

/// HikariCP 442, sequelize 10976, aiopg 113.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_who_need_two_leases_each_all_come_to_an_end() {
    let pool = open(settings("two_each").pool_size(10).acquire_timeout(SHORT));
    drop(all_leases(&pool).await);
    let all_hold = Arc::new(tokio::sync::Barrier::new(9));
    let tasks = (0..50).map(|number| {
        let (pool, all_hold) = (pool.clone(), Arc::clone(&all_hold));
        tokio::spawn(async move {
            let first = pool.lease().await?;
            first.query_one(KNOWN, &[&number]).await?;
            if number < 9 {
                // The nine who have one each now want another.
                let _ = tokio::time::timeout(SHORT, all_hold.wait()).await;
            }
            let second = pool.lease().await?;
            second.query_one(KNOWN, &[&number]).await?.get::<_, i32>(0)
        })
    });
    let outcomes = must_end("callers who need two leases", join_all(tasks)).await;
    let mut failed = 0;
    for outcome in outcomes {
        if let Err(error) = outcome.unwrap() {
            failed += 1;
            assert!(error.is_timeout(), "{error}");
            let words = error.to_string();
            // Those who waited as long may have given up just before.
            assert!(
                words.contains("postgres/lease_waits.rs:") || words.contains(" 0 leased"),
                "the holders are named: {error}"
            );
        }
    }
    assert!(failed > 0, "they were in each other's way");
    nothing_is_left(&pool).await;
    all_leases(&pool).await;
    assert!(pool.stats().connects <= 10, "{:?}", pool.stats());
}

/// postgresql-dart 414; and vertx-sql-client 1232: the time limit is everybody's.
#[tokio::test]
async fn a_pool_that_was_exhausted_serves_again_when_the_hog_is_gone() {
    let pool = open(settings("hog").pool_size(1).acquire_timeout(SHORT));
    connected(&pool).await;
    let hog = pool.lease().await.unwrap();
    hog.query_one(KNOWN, &[&0]).await.unwrap();
    let batch = async || pool.batch().add("select 1", &[]).run().await.map(drop);
    let typed = async || pool.query_typed("select 1", &[]).await.map(drop);
    let outcomes = tokio::join!(
        async { pool.query(KNOWN, &[&1]).await.map(drop) },
        async { pool.query_one(KNOWN, &[&1]).await.map(drop) },
        async { pool.query_opt(KNOWN, &[&1]).await.map(drop) },
        async { pool.query_as::<(i32,)>(KNOWN, &[&1]).await.map(drop) },
        async { pool.execute(KNOWN, &[&1]).await.map(drop) },
        typed(),
        batch(),
        async { pool.lease().await.map(drop) },
        async { pool.begin().await.map(drop) },
    );
    let (a, b, c, d, e, f, g, h, i) = outcomes;
    for (place, outcome) in [a, b, c, d, e, f, g, h, i].into_iter().enumerate() {
        let error = outcome.expect_err("there was no room");
        assert!(error.is_timeout() && error.was_sent() == Some(false), "{place}: {error}");
    }
    drop(hog);
    nothing_is_left(&pool).await;
    for number in 0..50 {
        assert_eq!(ask(&pool, number).await.unwrap(), number);
        drop(pool.lease().await.unwrap());
    }
    assert_eq!(pool.stats().connects, 1);
}

#[tokio::test]
async fn leases_are_handed_out_in_turn() {
    let pool = open(settings("in_turn").pool_size(2).acquire_timeout(AMPLE));
    let hog = pool.lease().await.unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = Vec::new();
    for number in 0..20 {
        let (pool, order) = (pool.clone(), Arc::clone(&order));
        let waiting = pool.clone();
        tasks.push(tokio::spawn(async move {
            let lease = pool.lease().await?;
            order.lock().unwrap().push(number);
            lease.query_one(KNOWN, &[&number]).await?;
            // Every other one goes back in need of a reset.
            if number % 2 == 0 {
                lease.execute("set work_mem to '2MB'", &[]).await?;
            }
            Ok::<(), Error>(())
        }));
        wait_until("it waits", async || waiting.stats().waiting_for_lease == number as usize + 1).await;
    }
    drop(hog);
    for task in must_end("those who wait", join_all(tasks)).await {
        task.unwrap().unwrap();
    }
    assert_eq!(*order.lock().unwrap(), (0..20).collect::<Vec<_>>());
    nothing_is_left(&pool).await;
}

/// Cf. pgdog's waiting.rs, vertx' SqlConnectionPool: a lease that comes when its caller has just given up is lost to nobody.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_that_comes_at_the_instant_of_the_timeout_is_lost_to_nobody() {
    const TIMEOUT: Duration = Duration::from_millis(5);
    let pool = open(settings("instant").pool_size(2).acquire_timeout(TIMEOUT));
    // Long enough to connect.
    while pool.lease().await.is_err() {}
    let (mut granted, mut timed_out) = (0, 0);
    for round in 0_u64..400 {
        nothing_is_left(&pool).await;
        let hog = loop {
            // On a loaded machine even an idle pool may need longer.
            if let Ok(lease) = pool.lease().await {
                break lease;
            }
        };
        let waiting: Vec<_> = (0..3)
            .map(|_| {
                let pool = pool.clone();
                tokio::spawn(async move { pool.lease().await })
            })
            .collect();
        tokio::time::sleep(TIMEOUT - Duration::from_millis(1) + Duration::from_micros(round * 5)).await;
        drop(hog);
        for outcome in must_end("waiters", join_all(waiting)).await {
            match outcome.unwrap() {
                Ok(lease) => {
                    granted += 1;
                    drop(lease);
                }
                Err(error) => {
                    assert!(error.is_timeout(), "{error}");
                    timed_out += 1;
                }
            }
        }
    }
    nothing_is_left(&pool).await;
    assert!(granted > 0 && timed_out > 0, "{granted} granted, {timed_out} timed out");
    let stats = pool.stats();
    assert!(stats.connects <= 2 && stats.connections_lost == 0, "{stats:?}");
    let pool = pool.clone();
    must_end("a lease", async { while pool.lease().await.is_err() {} }).await;
}

/// sqlx 1869: chosen for somebody who then vanishes, a connection stays.
#[tokio::test]
async fn a_lease_that_was_granted_and_never_looked_at_goes_to_the_next() {
    let pool = open(settings("unseen").pool_size(2).acquire_timeout(AMPLE));
    drop(all_leases(&pool).await);
    ask(&pool, 0).await.unwrap();
    let before = pool.stats();
    for round in 0..20 {
        let hog = pool.lease().await.unwrap();
        let mut unseen: Vec<_> = (0..3).map(|_| Box::pin(pool.lease())).collect();
        for waiting in &mut unseen {
            assert!(futures_util::poll!(waiting.as_mut()).is_pending());
        }
        assert_eq!(pool.stats().waiting_for_lease, 3);
        drop(hog);
        assert_eq!((pool.stats().leases.len(), pool.stats().waiting_for_lease), (1, 2), "round {round}");
        // The first holds it without knowing; each that is dropped hands it on.
        drop(unseen.remove(0));
        assert_eq!((pool.stats().leases.len(), pool.stats().waiting_for_lease), (1, 1));
        drop(unseen.remove(1));
        let lease = must_end("the one who is left", unseen.remove(0)).await.unwrap();
        lease.query_one(KNOWN, &[&round]).await.unwrap();
        drop(lease);
        assert_eq!((pool.stats().leases.len(), pool.stats().waiting_for_lease), (0, 0));
    }
    let after = pool.stats();
    assert_eq!((after.connects, after.leases_restored), (before.connects, before.leases_restored), "{after:?}");
}

/// sqlx 3513, 4369: connecting belongs to nobody.
#[tokio::test]
async fn a_connection_that_came_too_late_for_a_lease_is_there_for_the_next() {
    let proxy = Proxy::start(&postgres_url());
    proxy.stall(Direction::ToClient);
    let pool = open(proxy.through(settings("late")).pool_size(2).acquire_timeout(SHORT).connect_timeout(AMPLE));
    for outcome in must_end("callers who cannot wait", join_all((0..5).map(|_| pool.begin()))).await {
        let error = outcome.expect_err("there was no connection in time");
        assert!(error.is_timeout() && error.to_string().contains("connecting"), "{error}");
    }
    assert!(drop_after_polls(3, pool.lease()).await.ready().is_none());
    assert_eq!(pool.stats().waiting_for_lease, 0);
    proxy.resume(Direction::ToClient);
    wait_until("a connection is there", async || !pool.stats().lanes.is_empty()).await;
    let lease = pool.lease().await.expect("the next caller finds it");
    lease.query_one(KNOWN, &[&1]).await.unwrap();
    assert!(proxy.accepted() <= 2 && pool.stats().connects <= 2);
}

#[tokio::test]
async fn a_refused_log_in_fails_all_who_wait_for_a_lease_at_once() {
    let pool = open(settings("refused_lease").password("wrong").acquire_timeout(AMPLE));
    for outcome in must_end("callers who are refused", join_all((0..20).map(|_| pool.begin()))).await {
        let error = outcome.expect_err("the password is wrong");
        assert_eq!(error.code(), Some(SqlState::INVALID_PASSWORD), "{error}");
    }
    nothing_is_left(&pool).await;
}

#[tokio::test]
async fn one_too_many_who_wait_for_a_lease_is_told_at_once() {
    let pool = open(settings("too_many_leases").pool_size(2).waiters_max(3).acquire_timeout(AMPLE));
    let hog = pool.lease().await.unwrap();
    let mut waiting: Vec<_> = (0..3).map(|_| Box::pin(pool.lease())).collect();
    for waiting in &mut waiting {
        assert!(futures_util::poll!(waiting.as_mut()).is_pending());
    }
    let error = must_end("one too many", pool.begin()).await.unwrap_err();
    assert!(error.is_timeout() && error.to_string().contains("3 callers wait"), "{error}");
    waiting.pop();
    let mut another = Box::pin(pool.lease());
    assert!(futures_util::poll!(another.as_mut()).is_pending(), "a place was free");
    drop((hog, waiting));
    must_end("the last", another).await.unwrap();
    nothing_is_left(&pool).await;
}

/// A lane that never rests is drained for a lease, and nobody who uses it notices.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_are_taken_from_lanes_that_are_never_idle() {
    for connections in [1, 2, 3] {
        let pool = open(settings("never_idle").pool_size(connections));
        let (over, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let callers: Vec<_> = (0..256)
            .map(|caller: i32| {
                let (pool, over, answered) = (pool.clone(), Arc::clone(&over), Arc::clone(&answered));
                tokio::spawn(async move {
                    while !over.load(Ordering::Relaxed) {
                        assert_eq!(ask(&pool, caller).await.expect("an ordinary query"), caller);
                        answered.fetch_add(1, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        wait_until("the pool is busy", async || answered.load(Ordering::Relaxed) > 10_000).await;
        let takers = (0..4).map(|taker: i32| {
            let pool = pool.clone();
            tokio::spawn(async move {
                for round in 0..15 {
                    let tx = pool.begin().await.expect("a lease within the time limit");
                    let row = tx.query_one(KNOWN, &[&(taker * 100 + round)]).await.expect("a statement inside");
                    assert_eq!(row.get::<_, i32>(0).unwrap(), taker * 100 + round);
                    match round % 3 {
                        0 => tx.commit().await.unwrap(),
                        1 => tx.rollback().await.unwrap(),
                        _ => drop(tx),
                    }
                }
            })
        });
        for taker in must_end("those who want leases", join_all(takers)).await {
            taker.unwrap();
        }
        let during = answered.load(Ordering::Relaxed);
        wait_until("lookups go on", async || answered.load(Ordering::Relaxed) > during + 1_000).await;
        over.store(true, Ordering::Relaxed);
        for caller in must_end("lookups", join_all(callers)).await {
            caller.unwrap();
        }
        nothing_is_left(&pool).await;
        let stats = pool.stats();
        assert_eq!((stats.connects, stats.connections_lost), (connections as u64, 0), "{stats:?}");
    }
}

/// The last handle of the pool is gone, and somebody is still in the middle of something.
#[tokio::test]
async fn a_lease_outlives_the_last_handle_of_its_pool() {
    let admin = Admin::connect().await;
    let pool = open(settings("outlives").pool_size(2));
    ask(&pool, 0).await.unwrap();
    let name = pool.settings().application_name().unwrap().to_owned();
    let tx = pool.begin().await.unwrap();
    tx.query_one(KNOWN, &[&1]).await.unwrap();
    let lease_less = pool.clone();
    drop((pool, lease_less));
    tx.query_one(KNOWN, &[&2]).await.expect("it goes on");
    tx.commit().await.expect("to its end");
    wait_until("all connections are closed", async || admin.backends_named(&name).await.is_empty()).await;
}

#[test]
fn a_transaction_needs_no_runtime() {
    let pool = open(settings("no_runtime").pool_size(2));
    block_on_without_runtime(async {
        for number in 0..10 {
            let mut tx = pool.begin().await.unwrap();
            tx.query_one(KNOWN, &[&number]).await.unwrap();
            tx.savepoint().await.unwrap().rollback().await.unwrap();
            if number % 2 == 0 {
                tx.commit().await.unwrap();
            }
        }
        let leases = [pool.lease().await.unwrap()];
        leases[0].execute("set work_mem to '2MB'", &[]).await.unwrap();
        drop(leases);
        pool.lease().await.unwrap().query_one(KNOWN, &[&1]).await.unwrap();
        pool.close(AMPLE).await;
    });
    assert_eq!(pool.stats().connections(), 0);
}

/// pgx and sqlx wait for ever.
#[tokio::test]
async fn closing_does_not_wait_beyond_its_deadline_for_a_lease() {
    let admin = Admin::connect().await;
    let pool = open(settings("close_held").pool_size(3));
    let held = pool.begin().await.unwrap();
    held.query_one(KNOWN, &[&1]).await.unwrap();
    let other = pool.lease().await.unwrap();
    let mut waiting = Box::pin(pool.lease());
    assert!(futures_util::poll!(waiting.as_mut()).is_pending());
    must_end("closing", pool.close(SHORT)).await;
    must_end("closing twice", pool.close(SHORT)).await;
    let error = must_end("who waited", waiting).await.expect_err("the pool is closed");
    assert!(error.is_closed(), "{error}");
    assert!(pool.begin().await.unwrap_err().is_closed());
    let error = must_end("a statement of it", held.query_one(KNOWN, &[&2])).await.expect_err("the pool is closed");
    assert!(error.is_network() || error.is_closed(), "{error}");
    held.commit().await.expect_err("nothing was committed");
    drop(other);
    admin.wait_for_no_backend(&pool).await;
    nothing_is_left(&pool).await;
}

/// A lease that is held when the pool closes may come to its end within the deadline.
#[tokio::test]
async fn closing_lets_a_lease_finish() {
    let admin = Admin::connect().await;
    let pool = open(settings("close_finish").pool_size(2));
    let held = pool.begin().await.unwrap();
    held.query_one(KNOWN, &[&1]).await.unwrap();
    let closing = tokio::spawn({
        let pool = pool.clone();
        async move { pool.close(AMPLE).await }
    });
    wait_until("the pool is closed", async || pool.lease().await.is_err()).await;
    held.query_one(KNOWN, &[&2]).await.expect("it goes on");
    held.commit().await.expect("to its end");
    must_end("closing", closing).await.unwrap();
    admin.wait_for_no_backend(&pool).await;
}

/// puddle 1.1.1 to 2.0.1, mysql_async 243.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closing_from_several_threads_while_leases_come_and_go_leaves_nothing() {
    let admin = Admin::connect().await;
    for round in 0..10_u64 {
        let pool = open(settings("close_threads").pool_size(3));
        let users: Vec<_> = (0..8)
            .map(|user| {
                let pool = pool.clone();
                tokio::spawn(async move {
                    loop {
                        let outcome = async {
                            let lease = pool.lease().await?;
                            // So that it has to be restored.
                            lease.execute("set work_mem to '2MB'", &[]).await?;
                            lease.query_one(KNOWN, &[&user]).await.map(drop)
                        };
                        if let Err(error) = outcome.await {
                            return error;
                        }
                    }
                })
            })
            .collect();
        wait_until("leases come and go", async || pool.stats().leases_restored > round).await;
        let closers = (0..4).map(|closer| {
            let pool = pool.clone();
            tokio::spawn(async move { pool.close(Duration::from_secs(closer % 2 * 3_600)).await })
        });
        for closer in must_end("closing", join_all(closers)).await {
            closer.unwrap();
        }
        for user in must_end("users", join_all(users)).await {
            let error = user.unwrap();
            assert!(error.is_closed() || error.is_network(), "{error}");
        }
        admin.wait_for_no_backend(&pool).await;
        nothing_is_left(&pool).await;
        assert_eq!(pool.stats().connections(), 0);
    }
}

/// dox_mysql_native 3.0.0-alpha.6: one of two who opened it closes it.
#[tokio::test]
async fn who_closes_his_own_open_takes_no_lease_from_the_other() {
    let admin = Admin::connect().await;
    let shared = settings("two_opens").pool_size(2).build().unwrap();
    let (one, two) = (Pool::open(&shared).unwrap(), Pool::open(&shared).unwrap());
    let lease = two.lease().await.unwrap();
    lease.query_one(KNOWN, &[&1]).await.unwrap();
    must_end("closing one", one.close(AMPLE)).await;
    assert!(one.lease().await.unwrap_err().is_closed());
    lease.query_one(KNOWN, &[&2]).await.expect("the other keeps working");
    drop(lease);
    all_leases(&two).await;
    ask(&two, 3).await.unwrap();
    must_end("closing the last", two.close(AMPLE)).await;
    admin.wait_for_no_backend(&two).await;
}
