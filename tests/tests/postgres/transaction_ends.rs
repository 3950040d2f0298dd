//! Transactions that do not come to the end that was meant: dropped in mid flight, leaked, or never begun. Nothing of them
//! stays, and nothing of what comes next is taken into them.

use std::future::Future;
use std::pin::pin;

use cenote_postgres::types::ToSql;
use cenote_postgres::{Error, Pool, Transaction};
use cenote_tests::{Direction, OwnSchema, Proxy, must_end, open, postgres_url, wait_until};

const INSERT: &str = "insert into account values ($1, 0)";

async fn accounts(test: &str) -> (OwnSchema, Pool) {
    let schema = OwnSchema::create(test).await;
    let pool = open(schema.settings().pool_size(4));
    fill(&pool).await;
    (schema, pool)
}

async fn fill(pool: &Pool) {
    pool.execute("create table account(id int primary key, balance bigint not null)", &[]).await.unwrap();
    pool.execute("insert into account values (1, 100), (2, 100)", &[]).await.unwrap();
}

async fn ids(pool: &Pool) -> Vec<i32> {
    pool.query_as::<(i32,)>("select id from account order by id", &[])
        .await
        .unwrap()
        .into_iter()
        .map(|(id,)| id)
        .collect()
}

async fn all_leases_are_back(pool: &Pool) {
    wait_until("all leases are back", async || pool.stats().leases.is_empty()).await;
}

#[tokio::test]
async fn a_panic_rolls_back() {
    let (_schema, pool) = accounts("panic").await;
    let panics = tokio::spawn({
        let pool = pool.clone();
        async move {
            let tx = pool.begin().await.unwrap();
            tx.execute(INSERT, &[&3]).await.unwrap();
            panic!("on purpose");
        }
    });
    assert!(panics.await.unwrap_err().is_panic());
    all_leases_are_back(&pool).await;
    assert_eq!(ids(&pool).await, [1, 2]);
}

/// A statement of a savepoint is on its way when both are dropped: it is undone, and the transaction goes on.
#[tokio::test]
async fn a_savepoint_dropped_in_mid_flight_is_undone() {
    for in_flight_max in [128, 2, 1] {
        let schema = OwnSchema::create("mid_flight").await;
        let pool = open(schema.settings().pool_size(2).max_pipeline(in_flight_max));
        fill(&pool).await;
        pool.execute(INSERT, &[&3]).await.unwrap();
        let mut tx = pool.begin().await.unwrap();
        tx.execute(INSERT, &[&10]).await.unwrap();
        let savepoint = tx.savepoint().await.unwrap();
        let mut insert = Box::pin(savepoint.execute(INSERT, &[&11]));
        assert!(futures_util::poll!(insert.as_mut()).is_pending());
        drop(insert);
        drop(savepoint);
        let after = must_end("a statement behind", tx.execute(INSERT, &[&12])).await;
        match after {
            Ok(_) => {
                tx.commit().await.unwrap();
                assert_eq!(ids(&pool).await, [1, 2, 3, 10, 12], "with {in_flight_max} in flight at most");
            }
            // Where one statement at a time may be on its way the undoing could not be sent: then nothing may stay.
            Err(error) if in_flight_max == 1 => {
                assert!(!error.is_network(), "{error}");
                tx.commit().await.unwrap_err();
                assert_eq!(ids(&pool).await, [1, 2, 3]);
            }
            Err(error) => panic!("with {in_flight_max} in flight at most: {error}"),
        }
        all_leases_are_back(&pool).await;
    }
}

/// A BEGIN that fails takes its statement along, and nothing runs outside of the transaction that was to be. The proxy
/// spoils it: a real server refuses BEGIN where it recovers, for one.
#[tokio::test]
async fn when_the_begin_fails_nothing_runs() {
    let schema = OwnSchema::create("begin_fails").await;
    let proxy = Proxy::start(&postgres_url());
    let pool = open(proxy.through(schema.settings()).pool_size(2));
    fill(&pool).await;
    pool.execute(INSERT, &[&3]).await.unwrap();
    proxy.replace(Direction::ToServer, b"begin ", b"bogus ");
    for _ in 0..3 {
        let tx = pool.begin().await.unwrap();
        let error = tx.execute(INSERT, &[&4]).await.unwrap_err();
        assert!(!error.is_network(), "{error}");
        tx.execute(INSERT, &[&5]).await.expect_err("there is no transaction");
        tx.commit().await.expect_err("there was no transaction");
        let tx = pool.begin().await.unwrap();
        let at_once = tokio::join!(tx.execute(INSERT, &[&6]), tx.execute(INSERT, &[&7]), tx.execute(INSERT, &[&8]));
        assert!(at_once.0.is_err() && at_once.1.is_err() && at_once.2.is_err(), "{at_once:?}");
        drop(tx);
        let tx = pool.begin().await.unwrap();
        abandon(&tx, 9).await;
        tx.commit().await.expect_err("nobody has heard that it had begun");
        let mut lease = pool.lease().await.unwrap();
        let tx = lease.begin();
        tx.execute(INSERT, &[&4]).await.unwrap_err();
        tx.rollback().await.expect("nothing is left of it");
        let tx = lease.begin();
        tx.execute(INSERT, &[&4]).await.unwrap_err();
        drop(tx);
        lease.execute("delete from account where id = 4", &[]).await.expect("the lease is as good as before");
    }
    assert_eq!(ids(&pool).await, [1, 2, 3]);
    all_leases_are_back(&pool).await;
    assert_eq!((pool.stats().leases_closed, pool.stats().quarantines), (0, 0));
}

/// Puts it on its way and vanishes, before anything else happens.
async fn abandon(tx: &Transaction<'_>, id: i32) {
    let parameters: &[&(dyn ToSql + Sync)] = &[&id];
    vanish(tx.execute(INSERT, parameters)).await;
}

/// Polls it once and drops it, without a turn for anybody else.
async fn vanish<F: Future>(future: F) {
    assert!(futures_util::poll!(pin!(future)).is_pending());
}

/// What was rolled back is not taken along by the next transaction of the same lease. Where only one statement may be on its
/// way the rollback cannot follow at once; then the lease takes no other.
#[tokio::test]
async fn a_lease_goes_on_behind_a_transaction_that_was_dropped_in_mid_flight() {
    for in_flight_max in [128, 2, 1] {
        let schema = OwnSchema::create("lease_goes_on").await;
        let pool = open(schema.settings().pool_size(2).max_pipeline(in_flight_max));
        fill(&pool).await;
        pool.execute(INSERT, &[&3]).await.unwrap();
        let mut lease = pool.lease().await.unwrap();
        let tx = lease.begin();
        abandon(&tx, 10).await;
        drop(tx);
        let tx = lease.begin();
        let outcome = async move {
            tx.execute(INSERT, &[&11]).await?;
            tx.commit().await
        };
        let outcome = outcome.await;
        let expected: &[i32] = match outcome {
            Ok(()) => &[1, 2, 3, 11],
            Err(error) if in_flight_max == 1 => {
                assert!(!error.is_network(), "{error}");
                &[1, 2, 3]
            }
            Err(error) => panic!("with {in_flight_max} in flight at most: {error}"),
        };
        drop(lease);
        all_leases_are_back(&pool).await;
        assert_eq!(ids(&pool).await, expected, "with {in_flight_max} in flight at most");
    }
}

/// Nothing of it had left when the future of `commit`, `rollback` or `savepoint` was dropped: there was no room yet, as the proxy
/// holds the answers back.
#[tokio::test]
async fn an_end_that_waits_for_room_may_be_dropped() {
    let schema = OwnSchema::create("no_room").await;
    let proxy = Proxy::start(&postgres_url());
    let pool = open(proxy.through(schema.settings()).pool_size(2).max_pipeline(2));
    fill(&pool).await;
    pool.execute(INSERT, &[&3]).await.unwrap();
    let mut lease = pool.lease().await.unwrap();
    // The statement is prepared there.
    lease.execute("delete from account where id = 3", &[]).await.unwrap();
    lease.execute(INSERT, &[&3]).await.unwrap();
    let hold = || proxy.stall(Direction::ToClient);
    let go_on = || proxy.resume(Direction::ToClient);

    let tx = lease.begin();
    hold();
    abandon(&tx, 10).await;
    abandon(&tx, 11).await;
    vanish(tx.commit()).await;
    go_on();
    lease.execute(INSERT, &[&12]).await.unwrap();
    assert_eq!(ids(&pool).await, [1, 2, 3, 12], "the commit was not sent, and what comes next is outside");
    let tx = lease.begin();
    hold();
    abandon(&tx, 10).await;
    abandon(&tx, 11).await;
    vanish(tx.rollback()).await;
    go_on();
    lease.execute(INSERT, &[&13]).await.unwrap();
    assert_eq!(ids(&pool).await, [1, 2, 3, 12, 13]);

    let mut tx = lease.begin();
    let savepoint = tx.savepoint().await.unwrap();
    hold();
    abandon(&savepoint, 20).await;
    abandon(&savepoint, 21).await;
    vanish(savepoint.rollback()).await;
    go_on();
    tx.execute(INSERT, &[&22]).await.unwrap();
    hold();
    abandon(&tx, 23).await;
    abandon(&tx, 24).await;
    vanish(tx.savepoint()).await;
    go_on();
    tx.execute(INSERT, &[&25]).await.expect("the transaction has not failed");
    tx.commit().await.unwrap();
    assert_eq!(ids(&pool).await, [1, 2, 3, 12, 13, 22, 23, 24, 25]);
    drop(lease);
    all_leases_are_back(&pool).await;
}

/// A transaction that was leaked is not continued by the next one, nor does that say that it had begun.
#[tokio::test]
async fn a_transaction_that_was_forgotten_is_never_committed_by_another() {
    let (_schema, pool) = accounts("forgotten").await;
    let is_refused = |error: Error| {
        assert!(error.is_caller() && error.was_sent() == Some(false) && !error.is_transaction_lost(), "{error}");
        assert!(error.to_string().contains("cannot begin within another"), "{error}");
    };
    for by_hand in [false, true] {
        let mut lease = pool.lease().await.unwrap();
        if by_hand {
            lease.execute("begin", &[]).await.unwrap();
            lease.execute(INSERT, &[&10]).await.unwrap();
        } else {
            let tx = lease.begin();
            tx.execute(INSERT, &[&10]).await.unwrap();
            std::mem::forget(tx);
        }
        is_refused(lease.begin().commit().await.expect_err("it could not begin"));
        let mut tx = lease.begin();
        is_refused(tx.execute(INSERT, &[&11]).await.expect_err("it could not begin"));
        is_refused(tx.batch().add(INSERT, &[&11]).run().await.expect_err("it could not begin"));
        is_refused(tx.savepoint().await.expect_err("it could not begin"));
        is_refused(tx.commit().await.expect_err("it could not begin"));
        let tx = lease.begin();
        tx.execute(INSERT, &[&11]).await.unwrap_err();
        tx.rollback().await.expect("there is nothing of it");
        drop(lease.begin());
        assert!(lease.is_in_transaction(), "the first is as it was");
        lease.execute("rollback", &[]).await.unwrap();
        let tx = lease.begin();
        tx.execute(INSERT, &[&12]).await.expect("nothing is in its way any more");
        tx.rollback().await.unwrap();
        drop(lease);
        all_leases_are_back(&pool).await;
    }
    assert_eq!(ids(&pool).await, [1, 2]);
    // Going back is as good an end as any.
    let mut lease = pool.lease().await.unwrap();
    let tx = lease.begin();
    tx.execute(INSERT, &[&10]).await.unwrap();
    std::mem::forget(tx);
    is_refused(lease.begin().commit().await.expect_err("it could not begin"));
    drop(lease);
    all_leases_are_back(&pool).await;
    assert_eq!(ids(&pool).await, [1, 2]);
}
