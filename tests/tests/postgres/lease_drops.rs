//! Whoever takes a lease or a transaction may vanish at any await: no connection is lost, none is left unclean, and money
//! is neither made nor lost.

use cenote_postgres::types::ToSql;
use cenote_postgres::{Error, Pool, Transaction};
use cenote_tests::{Admin, Dropped, OwnSchema, drop_after_polls, must_end, open, settings, wait_until};
use futures_util::future::join_all;

/// More than any of these futures needs.
const POLLS_MAX: usize = 24;

const KNOWN: &str = "select $1::int4 as known";

const TAKE: &str = "update account set balance = balance - $2 where id = $1";
const GIVE: &str = "update account set balance = balance + $2 where id = $1";

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
    for (number, lease) in (0_i32..).zip(&leases) {
        assert_eq!(lease.query_one(KNOWN, &[&number]).await.unwrap().get::<_, i32>(0).unwrap(), number);
    }
}

/// clickhouse-go 1759, sqlx 83, bb8 67.
#[tokio::test]
async fn taking_a_lease_may_be_dropped_at_any_poll() {
    let pool = open(settings("any_poll").pool_size(3));
    let mut dropped = 0;
    for round in 0..150 {
        for polls in 0..=POLLS_MAX {
            // With none, some, or all of those that there are in other hands.
            let hogs = join_all((0..round % 3).map(|_| pool.lease())).await;
            let (one, two) =
                tokio::join!(drop_after_polls(polls, pool.lease()), drop_after_polls(POLLS_MAX - polls, pool.begin()),);
            dropped += usize::from(matches!(one, Dropped::Pending)) + usize::from(matches!(two, Dropped::Pending));
            drop((hogs, one, two));
        }
        if round % 50 == 0 {
            all_leases_can_be_had(&pool).await;
        }
    }
    assert!(dropped > 150, "{dropped} were dropped");
    nothing_is_left(&pool).await;
    all_leases_can_be_had(&pool).await;
    let stats = pool.stats();
    assert!(stats.connects <= 3 && stats.connections_lost == 0 && stats.leases_closed == 0, "{stats:?}");
}

/// The same where no connection is there yet.
#[tokio::test]
async fn taking_the_first_lease_of_a_pool_may_be_dropped_at_any_poll() {
    for polls in 0..=POLLS_MAX {
        let pool = open(settings("first_lease").pool_size(2));
        drop(drop_after_polls(polls, pool.begin()).await);
        drop(drop_after_polls(polls, pool.lease()).await);
        nothing_is_left(&pool).await;
        all_leases_can_be_had(&pool).await;
        assert!(pool.stats().connects <= 2 && pool.stats().connections() <= 2, "{:?}", pool.stats());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn drops_on_several_threads_lose_no_lease() {
    let pool = open(settings("threads_lease").pool_size(4));
    let callers = (0..32).map(|_| {
        let pool = pool.clone();
        tokio::spawn(async move {
            for _ in 0..300 {
                let polls = fastrand::usize(..=POLLS_MAX);
                match fastrand::u8(..3) {
                    0 => drop(drop_after_polls(polls, pool.lease()).await),
                    1 => drop(drop_after_polls(polls, pool.begin()).await),
                    _ => drop(
                        drop_after_polls(polls, async {
                            let tx = pool.begin().await?;
                            tx.query_one(KNOWN, &[&1]).await?;
                            tx.commit().await
                        })
                        .await,
                    ),
                }
            }
        })
    });
    for caller in must_end("callers who drop", join_all(callers)).await {
        caller.unwrap();
    }
    nothing_is_left(&pool).await;
    all_leases_can_be_had(&pool).await;
    let stats = pool.stats();
    assert!(stats.connects <= 4 && stats.connections_lost == 0 && stats.leases_closed == 0, "{stats:?}");
}

/// Moves an amount, in a way that has everything in it: a savepoint kept, one undone, and an end.
async fn transfer(pool: &Pool, from: i32, to: i32, amount: i64, fails: bool) -> Result<(), Error> {
    let mut tx = pool.begin().await?;
    tx.execute(TAKE, &[&from, &amount]).await?;
    let undone = tx.savepoint().await?;
    undone.execute(GIVE, &[&to, &1_000_000_i64]).await?;
    undone.rollback().await?;
    let kept = tx.savepoint().await?;
    kept.execute(GIVE, &[&to, &amount]).await?;
    if fails {
        kept.query("select 1 / (balance - balance) from account", &[]).await?;
    }
    kept.commit().await?;
    tx.commit().await
}

async fn accounts(test: &str, pool_size: usize, max_pipeline: usize) -> (OwnSchema, Pool) {
    let schema = OwnSchema::create(test).await;
    let pool = open(schema.settings().pool_size(pool_size).max_pipeline(max_pipeline));
    pool.execute("create table account(id int primary key, balance bigint not null)", &[]).await.unwrap();
    pool.execute("insert into account select id, 1000 from generate_series(1, 10) id", &[]).await.unwrap();
    (schema, pool)
}

async fn sum(pool: &Pool) -> i64 {
    pool.query_one("select sum(balance)::bigint from account", &[]).await.unwrap().get(0).unwrap()
}

/// A balance is moved as a whole or not at all, wherever the caller was when he vanished.
#[tokio::test]
async fn a_transaction_may_be_dropped_at_any_poll() {
    for max_pipeline in [128, 1] {
        let (_schema, pool) = accounts("tx_any_poll", 2, max_pipeline).await;
        let admin = Admin::connect().await;
        transfer(&pool, 1, 2, 1, false).await.unwrap();
        let (mut done, mut dropped) = (0, 0);
        // Each poll is a turn of the scheduler, and an answer takes many of them.
        let many = std::iter::successors(Some(POLLS_MAX), |polls| Some(polls + polls / 8)).take(48);
        for polls in (0..POLLS_MAX).chain(many) {
            for fails in [false, true] {
                match drop_after_polls(polls, transfer(&pool, 1, 2, 1, fails)).await {
                    Dropped::Ready(Ok(())) => done += 1,
                    Dropped::Ready(Err(error)) => assert!(fails && error.is_server(), "{error}"),
                    Dropped::Pending => dropped += 1,
                }
                // Whoever comes next is in nobody's transaction.
                let tx = must_end("the next transaction", pool.begin()).await.unwrap();
                assert_eq!(tx.execute(GIVE, &[&3, &0_i64]).await.expect("no 25P02 for the next one"), 1);
                tx.commit().await.expect("nor for his commit");
            }
            assert_eq!(sum(&pool).await, 10_000, "after {polls} polls");
        }
        assert!(done > 0 && dropped > POLLS_MAX, "{done} done, {dropped} dropped");
        nothing_is_left(&pool).await;
        let backends = admin.backends(&pool).await;
        assert!(backends.iter().all(|backend| backend.state == "idle"), "{backends:?}");
        let stats = pool.stats();
        assert_eq!((stats.connections_lost, stats.leases_closed, stats.quarantines), (0, 0, 0), "{stats:?}");
    }
}

/// Each future of a transaction by itself, in the middle of others.
#[tokio::test]
async fn any_part_of_a_leases_transaction_may_be_dropped_at_any_poll() {
    async fn part(tx: &mut Transaction<'_>, number: usize, polls: usize) {
        let one: &[&(dyn ToSql + Sync)] = &[&3, &0_i64];
        match number {
            0 => drop(drop_after_polls(polls, tx.execute(GIVE, one)).await),
            1 => drop(drop_after_polls(polls, tx.batch().add(GIVE, one).add(TAKE, one).run()).await),
            2 => drop(drop_after_polls(polls, tx.savepoint()).await),
            3 => {
                let savepoint = tx.savepoint().await.unwrap();
                savepoint.execute(GIVE, one).await.unwrap();
                drop(drop_after_polls(polls, savepoint.commit()).await);
            }
            _ => {
                let savepoint = tx.savepoint().await.unwrap();
                savepoint.execute(GIVE, &[&3, &500_i64]).await.unwrap();
                drop(drop_after_polls(polls, savepoint.rollback()).await);
            }
        }
    }
    let (_schema, pool) = accounts("tx_parts", 2, 128).await;
    let mut lease = pool.lease().await.unwrap();
    for number in 0..5 {
        for polls in 0..=POLLS_MAX {
            let mut tx = lease.begin();
            tx.execute(TAKE, &[&1, &1_i64]).await.unwrap();
            part(&mut tx, number, polls).await;
            tx.execute(GIVE, &[&2, &1_i64])
                .await
                .unwrap_or_else(|error| panic!("part {number}, {polls} polls: {error}"));
            tx.commit().await.unwrap_or_else(|error| panic!("part {number}, {polls} polls: {error}"));
            assert_eq!(sum(&pool).await, 10_000, "part {number}, {polls} polls");
        }
    }
    for commits in [true, false] {
        for polls in 0..=POLLS_MAX {
            let tx = lease.begin();
            tx.execute(TAKE, &[&1, &1_i64]).await.unwrap();
            tx.execute(GIVE, &[&2, &1_i64]).await.unwrap();
            if commits {
                drop(drop_after_polls(polls, tx.commit()).await);
            } else {
                drop(drop_after_polls(polls, tx.rollback()).await);
            }
            lease.execute(GIVE, &[&3, &0_i64]).await.unwrap();
            assert!(!lease.is_in_transaction(), "{polls} polls");
        }
    }
    assert_eq!(sum(&pool).await, 10_000);
    let moved: i64 = pool.query_one("select balance from account where id = 2", &[]).await.unwrap().get(0).unwrap();
    assert!((1_000 + 5 * 25..=1_000 + 6 * 25).contains(&moved), "{moved}");
    drop(lease);
    nothing_is_left(&pool).await;
}

/// Many at once, on several threads, with deadlocks, failures and drops; the sum stays.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_befalls_transfers_the_sum_stays() {
    let (_schema, pool) = accounts("transfers", 4, 128).await;
    let admin = Admin::connect().await;
    let callers = (0..24).map(|_| {
        let pool = pool.clone();
        tokio::spawn(async move {
            let mut committed = 0;
            for _ in 0..40 {
                let (from, to) = (fastrand::i32(1..=10), fastrand::i32(1..=10));
                let one = transfer(&pool, from, to, fastrand::i64(1..100), fastrand::u8(..5) == 0);
                // Some to their end, some only so far.
                let outcome = match fastrand::bool() {
                    true => one.await,
                    false => match drop_after_polls(fastrand::usize(..200), one).await {
                        Dropped::Ready(outcome) => outcome,
                        Dropped::Pending => continue,
                    },
                };
                match outcome {
                    Ok(()) => committed += 1,
                    // Divided by zero, or a deadlock.
                    Err(error) => assert!(error.is_server(), "{error}"),
                }
            }
            committed
        })
    });
    let committed: usize =
        must_end("transfers", join_all(callers)).await.into_iter().map(|committed| committed.unwrap()).sum();
    assert!(committed > 100, "{committed} were committed");
    nothing_is_left(&pool).await;
    assert_eq!(sum(&pool).await, 10_000);
    all_leases_can_be_had(&pool).await;
    let backends = admin.backends(&pool).await;
    assert!(backends.len() <= 4 && backends.iter().all(|backend| backend.state == "idle"), "{backends:?}");
    let stats = pool.stats();
    assert_eq!((stats.connections_lost, stats.quarantines), (0, 0), "{stats:?}");
}

/// Threads with runtimes of their own, which come and go: connections go where they are wanted, and nothing is lost with a
/// thread.
#[tokio::test]
async fn threads_that_come_and_go_with_transactions_lose_no_money_and_no_lease() {
    let (_schema, pool) = accounts("threads_go", 3, 128).await;
    for _ in 0..3 {
        let threads: Vec<_> = (0..6)
            .map(|thread| {
                let pool = pool.clone();
                std::thread::spawn(move || {
                    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                    let (other, own) = (pool.clone(), pool);
                    // One is in the middle of something when its thread ends.
                    let stays = async move {
                        let tx = other.begin().await?;
                        tx.execute(TAKE, &[&thread, &1_i64]).await?;
                        std::future::pending::<()>().await;
                        tx.commit().await
                    };
                    if thread == 1 {
                        runtime.spawn(stays);
                    }
                    runtime.block_on(async move {
                        for _ in 0..10 {
                            let (from, to) = (fastrand::i32(7..=10), fastrand::i32(7..=10));
                            match transfer(&own, from, to, 1, false).await {
                                Err(error) if !error.is_server() => panic!("{error}"),
                                _ => {}
                            }
                        }
                    });
                })
            })
            .collect();
        let joined = tokio::task::spawn_blocking(|| threads.into_iter().all(|thread| thread.join().is_ok()));
        assert!(must_end("threads", joined).await.unwrap(), "a thread panicked");
        nothing_is_left(&pool).await;
        assert_eq!(sum(&pool).await, 10_000);
        all_leases_can_be_had(&pool).await;
    }
    assert!(pool.stats().connections() <= 3);
}
