//! Callers who wait for a lease on MySQL and MariaDB, or vanish while they take one, and what goes on beside those who hold
//! one.

use std::time::Duration;

use cenote_mysql::{Error, Pool};
use cenote_tests::mysql::{Admin, OwnDatabase, Server, open, settings};
use cenote_tests::{Dropped, drop_after_polls, must_end, on_each_server, wait_until};
use futures_util::future::join_all;

on_each_server!(
    with_one_connection_an_ordinary_query_waits_for_the_transaction_beside_it,
    with_one_connection_an_ordinary_query_inside_a_transaction_is_told_who_holds_it,
    callers_who_need_two_leases_each_all_come_to_an_end,
    a_pool_that_was_exhausted_serves_again_when_the_hog_is_gone,
    closing_does_not_wait_beyond_its_deadline_for_a_lease,
    a_close_may_be_dropped_at_any_poll,
    taking_a_lease_may_be_dropped_at_any_poll,
    a_transaction_may_be_dropped_at_any_poll,
);

const KNOWN: &str = "select ? as known";

/// Long enough for a statement that has room, short enough for a test.
const SHORT: Duration = Duration::from_millis(200);

/// Nothing waits for this to pass.
const AMPLE: Duration = Duration::from_secs(3_600);

/// More than any of these futures needs.
const POLLS_MAX: usize = 24;

async fn ask(pool: &Pool, number: i64) -> Result<i64, Error> {
    pool.query_one(KNOWN, &[&number]).await?.get(0)
}

async fn nothing_is_left(pool: &Pool) {
    wait_until("nobody holds anything or waits", async || {
        let stats = pool.stats();
        stats.leases.is_empty() && stats.waiting == 0 && stats.waiting_for_lease == 0 && stats.in_flight() == 0
    })
    .await;
}

/// As many leases as there may be can be had at the same time, and each works.
async fn all_leases_can_be_had(pool: &Pool) {
    let count = pool.stats().connections_max - 1;
    let leases = must_end("all leases", join_all((0..count).map(|_| pool.lease()))).await;
    let leases: Vec<_> = leases.into_iter().map(|lease| lease.expect("none was lost")).collect();
    for (number, lease) in (0_i64..).zip(&leases) {
        assert_eq!(lease.query_one(KNOWN, &[&number]).await.unwrap().get::<_, i64>(0).unwrap(), number);
    }
}

async fn with_one_connection_an_ordinary_query_waits_for_the_transaction_beside_it(server: Server) {
    let pool = open(settings(server, "one_waits").pool_size(1).acquire_timeout(AMPLE));
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

async fn with_one_connection_an_ordinary_query_inside_a_transaction_is_told_who_holds_it(server: Server) {
    let pool = open(settings(server, "one_inside").pool_size(1).acquire_timeout(SHORT));
    // Connecting to a loaded machine may take longer.
    while ask(&pool, 0).await.is_err() {}
    let timeouts = pool.stats().acquire_timeouts;
    for round in 0..3 {
        let line = line!() + 1;
        let tx = pool.begin().await.unwrap();
        tx.query_one(KNOWN, &[&round]).await.unwrap();
        let outcomes = tokio::join!(ask(&pool, 1), async { pool.lease().await.map(|_| 0) });
        for error in [outcomes.0.unwrap_err(), outcomes.1.unwrap_err()] {
            assert!(error.is_timeout() && error.was_sent() == Some(false), "{error}");
            let holder = format!("mysql/lease_waits.rs:{line}:");
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
    assert_eq!((pool.stats().connects, pool.stats().acquire_timeouts - timeouts), (1, 6));
}

/// HikariCP 442, sequelize 10976, aiopg 113.
async fn callers_who_need_two_leases_each_all_come_to_an_end(server: Server) {
    let pool = open(settings(server, "two_each").pool_size(10).acquire_timeout(SHORT));
    let tasks = (0..50_i64).map(|number| {
        let pool = pool.clone();
        tokio::spawn(async move {
            let first = pool.lease().await?;
            first.query_one(KNOWN, &[&number]).await?;
            let second = pool.lease().await?;
            second.query_one(KNOWN, &[&number]).await?.get::<_, i64>(0)
        })
    });
    for outcome in must_end("callers who need two leases", join_all(tasks)).await {
        if let Err(error) = outcome.unwrap() {
            assert!(error.is_timeout(), "{error}");
        }
    }
    nothing_is_left(&pool).await;
    assert!(pool.stats().connects <= 10, "{:?}", pool.stats());
    assert_eq!(must_end("an ordinary query", ask(&pool, 3)).await.unwrap(), 3);
}

/// postgresql-dart 414; and vertx-sql-client 1232: the time limit is everybody's.
async fn a_pool_that_was_exhausted_serves_again_when_the_hog_is_gone(server: Server) {
    let pool = open(settings(server, "hog").pool_size(1).acquire_timeout(SHORT));
    while ask(&pool, 0).await.is_err() {}
    let hog = pool.lease().await.unwrap();
    hog.query_one(KNOWN, &[&0]).await.unwrap();
    let outcomes = tokio::join!(
        async { pool.query(KNOWN, &[&1]).await.map(drop) },
        async { pool.query_one(KNOWN, &[&1]).await.map(drop) },
        async { pool.query_opt(KNOWN, &[&1]).await.map(drop) },
        async { pool.query_as::<(i64,)>(KNOWN, &[&1]).await.map(drop) },
        async { pool.execute(KNOWN, &[&1]).await.map(drop) },
        async { pool.query_text("select 1").await.map(drop) },
        async { pool.lease().await.map(drop) },
        async { pool.begin().await.map(drop) },
    );
    let (a, b, c, d, e, f, g, h) = outcomes;
    for (place, outcome) in [a, b, c, d, e, f, g, h].into_iter().enumerate() {
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

/// pgx and sqlx wait for ever.
async fn closing_does_not_wait_beyond_its_deadline_for_a_lease(server: Server) {
    let admin = Admin::connect(server).await;
    let pool = open(settings(server, "close_held").pool_size(3));
    let held = pool.begin().await.unwrap();
    held.query_one(KNOWN, &[&1]).await.unwrap();
    let other = pool.lease().await.unwrap();
    let mut waiting = Box::pin(pool.lease());
    assert!(futures_util::poll!(waiting.as_mut()).is_pending());
    must_end("closing", pool.close(SHORT)).await;
    must_end("closing twice", pool.close(SHORT)).await;
    let error = must_end("who waited", waiting).await.expect_err("the pool is closed");
    assert!(error.is_closed(), "{error}");
    let error = must_end("a statement of it", held.query_one(KNOWN, &[&2])).await.expect_err("the pool is closed");
    assert!(error.is_closed() && !error.is_network() && error.was_sent() == Some(false), "{error}");
    assert!(error.to_string().contains("closed by this program"), "{error}");
    let error = held.commit().await.expect_err("nothing was committed");
    assert!(error.is_closed() && !error.is_network(), "{error}");
    wait_until("the connections are closed", async || pool.stats().connections() == 0).await;
    let error = must_end("a statement of the other", other.query_one(KNOWN, &[&2])).await.expect_err("it is closed");
    assert!(error.is_closed() && !error.is_network(), "{error}");
    drop(other);
    admin.wait_for_no_session(&pool).await;
    nothing_is_left(&pool).await;
}

/// Dropped, it has closed the pool all the same, if it was polled at all.
async fn a_close_may_be_dropped_at_any_poll(server: Server) {
    let admin = Admin::connect(server).await;
    for polls in 0..=10 {
        let pool = open(settings(server, "close_polls").pool_size(3));
        let lease = pool.lease().await.unwrap();
        lease.query_one("select 1", &[]).await.unwrap();
        pool.query("select 1", &[]).await.unwrap();
        let mut in_flight = Box::pin(pool.query("select sleep(0.1)", &[]));
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
            admin.wait_for_no_session(&pool).await;
        }
        must_end("the close", pool.close(AMPLE)).await;
        admin.wait_for_no_session(&pool).await;
        assert_eq!((pool.stats().connections(), pool.stats().connections_lost), (0, 0), "after {polls} polls");
    }
}

/// clickhouse-go 1759, sqlx 83, bb8 67.
async fn taking_a_lease_may_be_dropped_at_any_poll(server: Server) {
    let pool = open(settings(server, "any_poll").pool_size(3));
    let mut dropped = 0;
    for round in 0..60 {
        for polls in 0..=POLLS_MAX {
            let hogs = join_all((0..round % 3).map(|_| pool.lease())).await;
            let (one, two) =
                tokio::join!(drop_after_polls(polls, pool.lease()), drop_after_polls(POLLS_MAX - polls, pool.begin()));
            dropped += usize::from(matches!(one, Dropped::Pending)) + usize::from(matches!(two, Dropped::Pending));
            drop((hogs, one, two));
        }
    }
    assert!(dropped > 60, "{dropped} were dropped");
    nothing_is_left(&pool).await;
    all_leases_can_be_had(&pool).await;
    let stats = pool.stats();
    assert!(stats.connects <= 3 && stats.connections_lost == 0 && stats.leases_closed == 0, "{stats:?}");
}

/// Moves an amount, in a way that has everything in it: a savepoint kept, one undone, and an end.
async fn transfer(pool: &Pool, amount: i64, fails: bool) -> Result<(), Error> {
    const TAKE: &str = "update account set balance = balance - ? where id = ?";
    const GIVE: &str = "update account set balance = balance + ? where id = ?";
    let mut tx = pool.begin().await?;
    tx.execute(TAKE, &[&amount, &1]).await?;
    let undone = tx.savepoint().await?;
    undone.execute(GIVE, &[&1_000_000, &2]).await?;
    undone.rollback().await?;
    let kept = tx.savepoint().await?;
    kept.execute(GIVE, &[&amount, &2]).await?;
    if fails {
        kept.execute("insert into account values (1, 0)", &[]).await?;
    }
    kept.commit().await?;
    tx.commit().await
}

/// A balance is moved as a whole or not at all, wherever the caller was when he vanished.
async fn a_transaction_may_be_dropped_at_any_poll(server: Server) {
    for max_pipeline in [128, 2, 1] {
        let database = OwnDatabase::create(server, "tx_any_poll").await;
        let pool = open(database.settings().pool_size(2).max_pipeline(max_pipeline));
        pool.execute("create table account (id int primary key, balance bigint not null)", &[]).await.unwrap();
        pool.execute("insert into account values (1, 1000), (2, 1000), (3, 1000)", &[]).await.unwrap();
        transfer(&pool, 1, false).await.unwrap();
        let (mut done, mut dropped) = (0, 0);
        let mut polls = 0;
        // A server that takes its time needs more of them.
        while done < 4 {
            polls += 1 + polls / 20;
            for fails in [false, true] {
                match drop_after_polls(polls, transfer(&pool, 1, fails)).await {
                    Dropped::Ready(Ok(())) => done += 1,
                    Dropped::Ready(Err(error)) => assert!(fails && error.is_server(), "{error}"),
                    Dropped::Pending => dropped += 1,
                }
                // Whoever comes next is in nobody's transaction.
                let tx = must_end("the next transaction", pool.begin()).await.unwrap();
                tx.execute("update account set balance = balance + 0 where id = 3", &[]).await.unwrap();
                tx.commit().await.expect("it is his own");
            }
            let row = pool.query_one("select cast(sum(balance) as signed) from account", &[]).await.unwrap();
            assert_eq!(row.get::<_, i64>(0).unwrap(), 3_000, "after {polls} polls");
        }
        assert!(done > 0 && dropped > POLLS_MAX, "{done} done, {dropped} dropped");
        nothing_is_left(&pool).await;
        let stats = pool.stats();
        assert_eq!((stats.connections_lost, stats.leases_closed, stats.quarantines), (0, 0, 0), "{stats:?}");
    }
}
