//! How transactions on MySQL and MariaDB end when it is not as their caller meant it: deadlocks, refusals, procedures that
//! commit, callers who vanish.

use cenote_mysql::value::ToValue;
use cenote_mysql::{Error, ErrorCode, Pool, Transaction};
use cenote_tests::mysql::{OwnDatabase, Server, open};
use cenote_tests::{Direction, Proxy, drop_after_polls, must_end, on_each_server, wait_until};

on_each_server!(
    a_deadlock_ends_the_transaction_and_nothing_of_it_stays,
    a_deadlock_takes_nothing_along_that_was_asked_at_the_same_time,
    a_lock_wait_timeout_leaves_the_transaction_open,
    a_procedure_that_commits_is_noticed,
    what_hides_a_commit_is_refused_within_a_transaction,
    what_hides_a_commit_may_be_run_on_a_lease,
    a_commit_that_the_server_refuses_is_the_servers_error,
    when_it_cannot_begin_it_takes_nothing_more,
    a_lease_goes_on_behind_a_transaction_that_was_dropped_in_mid_flight,
    an_end_that_waits_for_room_may_be_dropped,
    a_transaction_that_was_forgotten_is_never_committed_by_another,
);

const INSERT: &str = "insert into account values (?, 0)";

async fn accounts(server: Server, test: &str) -> (OwnDatabase, Pool) {
    accounts_with(server, test, 128).await
}

/// The same with so many statements in flight on a connection at most.
async fn accounts_with(server: Server, test: &str, in_flight_max: usize) -> (OwnDatabase, Pool) {
    let database = OwnDatabase::create(server, test).await;
    let pool = open(database.settings().pool_size(4).max_pipeline(in_flight_max));
    fill(&pool).await;
    (database, pool)
}

async fn fill(pool: &Pool) {
    pool.execute("create table account(id int primary key, balance bigint not null)", &[]).await.unwrap();
    pool.execute("insert into account values (1, 100), (2, 100)", &[]).await.unwrap();
}

async fn balance(pool: &Pool, id: i32) -> i64 {
    pool.query_one("select balance from account where id = ?", &[&id]).await.unwrap().get(0).unwrap()
}

async fn ids(pool: &Pool) -> Vec<i32> {
    let rows = pool.query_as::<(i32,)>("select id from account order by id", &[]).await.unwrap();
    rows.into_iter().map(|(id,)| id).collect()
}

async fn all_leases_are_back(pool: &Pool) {
    wait_until("all leases are back", async || pool.stats().leases.is_empty()).await;
}

fn is_lost(error: &Error) {
    assert!(error.is_transaction_lost() && error.was_sent() == Some(false), "{error}");
}

/// Two transactions that wait for each other: one of them is chosen. Who it is, and its error.
async fn deadlock<'a>(
    pool: &Pool,
    one: Transaction<'a>,
    two: Transaction<'a>,
) -> (Transaction<'a>, Transaction<'a>, Error) {
    let lock = "update account set balance = balance - 1 where id = ?";
    one.execute(lock, &[&1]).await.unwrap();
    two.execute(lock, &[&2]).await.unwrap();
    let (first, second) =
        must_end("a deadlock", async { tokio::join!(one.execute(lock, &[&2]), two.execute(lock, &[&1])) }).await;
    assert_eq!(pool.stats().connections_lost, 0);
    match (first, second) {
        (Err(error), Ok(_)) => (one, two, error),
        (Ok(_), Err(error)) => (two, one, error),
        (first, second) => panic!("one of them is to be chosen: {first:?}, {second:?}"),
    }
}

async fn a_deadlock_ends_the_transaction_and_nothing_of_it_stays(server: Server) {
    for in_flight_max in [128, 1] {
        let (_database, pool) = accounts_with(server, "deadlock", in_flight_max).await;
        let mut expected = 100;
        for end in ["statement", "commit", "rollback", "drop"] {
            let (one, two) = (pool.begin().await.unwrap(), pool.begin().await.unwrap());
            let (chosen, other, error) = deadlock(&pool, one, two).await;
            assert_eq!(error.code(), Some(ErrorCode::DEADLOCK), "{error}");
            match end {
                "statement" => {
                    is_lost(&chosen.execute("insert into account values (9, 9)", &[]).await.unwrap_err());
                    is_lost(&chosen.query_text("insert into account values (9, 9)").await.unwrap_err());
                    is_lost(&chosen.commit().await.unwrap_err());
                }
                "commit" => is_lost(&chosen.commit().await.unwrap_err()),
                "rollback" => chosen.rollback().await.expect("nothing is left to be undone"),
                _ => drop(chosen),
            }
            other.commit().await.unwrap();
            expected -= 1;
            assert_eq!((balance(&pool, 1).await, balance(&pool, 2).await), (expected, expected), "by {end}");
        }
        assert_eq!(ids(&pool).await, [1, 2]);
        // A lease's transaction that was chosen is no obstacle to the next on the same lease.
        let (mut first, mut second) = (pool.lease().await.unwrap(), pool.lease().await.unwrap());
        let (chosen, other, _) = deadlock(&pool, first.begin(), second.begin()).await;
        drop(chosen);
        drop(other);
        for lease in [&mut first, &mut second] {
            let tx = lease.begin();
            tx.execute("update account set balance = 0 where id = 1", &[]).await.unwrap();
            tx.commit().await.unwrap();
        }
        drop((first, second));
        assert_eq!((balance(&pool, 1).await, balance(&pool, 2).await), (0, expected));
        all_leases_are_back(&pool).await;
    }
}

/// What was asked for at the same time as the statement that ended it would have run by itself, and stayed.
async fn a_deadlock_takes_nothing_along_that_was_asked_at_the_same_time(server: Server) {
    let (_database, pool) = accounts(server, "along").await;
    let lock = "update account set balance = balance - 1 where id = ?";
    for row in [3, 4] {
        pool.execute(INSERT, &[&row]).await.unwrap();
    }
    for round in 0..5 {
        let (one, two) = (pool.begin().await.unwrap(), pool.begin().await.unwrap());
        one.execute(lock, &[&1]).await.unwrap();
        two.execute(lock, &[&2]).await.unwrap();
        let at_once = async |tx: &Transaction<'_>, row: i32, own: i32| {
            let outcomes = tokio::join!(
                async { tx.execute(lock, &[&row]).await },
                async { tx.execute("update account set balance = balance + 1 where id = ?", &[&own]).await },
                tx.query_text("select 1"),
            );
            (outcomes.0.err(), outcomes.1.err(), outcomes.2.err())
        };
        let (first, second) =
            must_end("a deadlock", async { tokio::join!(at_once(&one, 2, 3), at_once(&two, 1, 4)) }).await;
        let (chosen, others) = match (first, second) {
            ((Some(error), behind, text), others) => ((error, behind, text), others),
            (others, (Some(error), behind, text)) => ((error, behind, text), others),
            _ => panic!("one of them is to be chosen"),
        };
        assert_eq!(chosen.0.code(), Some(ErrorCode::DEADLOCK));
        is_lost(&chosen.1.expect("it was not to run"));
        is_lost(&chosen.2.expect("it was not to run"));
        assert!(matches!(others, (None, None, None)), "{others:?}");
        let outcomes = (one.commit().await, two.commit().await);
        assert!(outcomes.0.is_ok() != outcomes.1.is_ok());
        let sums = balance(&pool, 3).await + balance(&pool, 4).await;
        assert_eq!(sums, round + 1, "that of the one that was committed, and no other");
    }
}

async fn a_lock_wait_timeout_leaves_the_transaction_open(server: Server) {
    let (database, pool) = accounts(server, "lock_wait").await;
    pool.execute("create procedure ends() commit", &[]).await.unwrap();
    let admin = database.admin().await;
    admin.run("start transaction").await;
    admin.run("update account set balance = 1 where id = 1").await;
    let mut lease = pool.lease().await.unwrap();
    lease.execute("set innodb_lock_wait_timeout = 1", &[]).await.unwrap();
    let tx = lease.begin();
    tx.execute(INSERT, &[&3]).await.unwrap();
    let error = must_end("a lock", tx.execute("update account set balance = 2 where id = 1", &[])).await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::LOCK_WAIT_TIMEOUT), "{error}");
    tx.execute(INSERT, &[&4]).await.expect("it goes on");
    tx.commit().await.unwrap();
    // An error that undoes everything where the server is set so did not here.
    let tx = lease.begin();
    tx.execute(INSERT, &[&5]).await.unwrap();
    must_end("a lock", tx.execute("update account set balance = 2 where id = 1", &[])).await.unwrap_err();
    tx.execute("call ends()", &[]).await.unwrap();
    is_lost(&tx.rollback().await.expect_err("it was committed"));
    drop(lease);
    admin.run("rollback").await;
    assert_eq!(ids(&pool).await, [1, 2, 3, 4, 5]);
    all_leases_are_back(&pool).await;
}

async fn a_procedure_that_commits_is_noticed(server: Server) {
    let (database, pool) = accounts(server, "commits").await;
    pool.execute("create procedure ends(id int) begin insert into account values (id, 0); commit; end", &[])
        .await
        .unwrap();
    let fails = "create procedure ends_and_fails(id int) begin insert into account values (id, 0); commit; \
                 insert into account values (id, 0); end";
    pool.execute(fails, &[]).await.unwrap();
    let mut expected = vec![1, 2];
    for in_flight_max in [128, 1] {
        let pool = open(database.settings().pool_size(4).max_pipeline(in_flight_max));
        for (call, fails) in [("call ends(?)", false), ("call ends_and_fails(?)", true)] {
            for end in ["statement", "commit", "rollback", "rollback of a lease's", "rollback behind what is abandoned"]
            {
                let id = i32::try_from(expected.len()).unwrap() + 1;
                expected.push(id);
                let mut lease = pool.lease().await.unwrap();
                let tx = if end.contains("lease") { lease.begin() } else { pool.begin().await.unwrap() };
                if end.contains("abandoned") {
                    tx.query("select 1", &[]).await.unwrap();
                    let call = call.replace('?', &id.to_string());
                    assert!(drop_after_polls(1, tx.query_text(&call)).await.ready().is_none());
                } else {
                    let called = tx.execute(call, &[&id]).await;
                    assert_eq!(called.is_err(), fails, "{called:?}");
                }
                let error = match end {
                    "statement" => {
                        let next = tx.execute(INSERT, &[&10_000]).await;
                        is_lost(&next.expect_err("it would stay, whatever became of the rest"));
                        tx.commit().await
                    }
                    "commit" => tx.commit().await,
                    _ => tx.rollback().await,
                };
                let error = error.expect_err(end);
                is_lost(&error);
                assert!(error.to_string().contains("what ran in it is committed"), "{end}: {error}");
                let tx = lease.begin();
                tx.execute("delete from account where id = ?", &[&id]).await.expect("the next transaction is one");
                tx.rollback().await.expect("it is rolled back");
            }
        }
        assert_eq!(ids(&pool).await, expected);
        all_leases_are_back(&pool).await;
    }
}

/// One server or both would commit with each of them.
const HIDE_A_COMMIT: &[&str] = &[
    "execute immediate 'commit'",
    "execute immediate concat('com', 'mit')",
    "execute ends",
    "if 1 then commit; end if",
    "case 1 when 1 then commit; end case",
    "repeat commit; until 1 end repeat",
    "begin not atomic commit; end",
    "set statement max_statement_time = 1 for commit",
    "load index into cache account",
    "set password = ''",
    "start replica",
    "start slave",
    "stop replica",
    "clone local data directory = '/nowhere'",
];

async fn what_hides_a_commit_is_refused_within_a_transaction(server: Server) {
    let (_database, pool) = accounts(server, "hidden").await;
    for sql in HIDE_A_COMMIT {
        let tx = pool.begin().await.unwrap();
        tx.execute(INSERT, &[&3]).await.unwrap();
        for error in [tx.execute(sql, &[]).await.expect_err(sql), tx.query_text(sql).await.expect_err(sql)] {
            assert!(error.is_caller() && error.code().is_none(), "{sql}: {error}");
        }
        tx.rollback().await.unwrap_or_else(|error| panic!("{sql}: {error}"));
        assert_eq!(ids(&pool).await, [1, 2], "{sql}");
    }
    all_leases_are_back(&pool).await;
    assert_eq!((pool.stats().leases_restored, pool.stats().leases_closed), (0, 0));
}

/// MySQL knows none of these; either way the session is none that the next caller gets as it is.
async fn what_hides_a_commit_may_be_run_on_a_lease(server: Server) {
    let (_database, pool) = accounts(server, "on_lease").await;
    for (round, sql) in (1..).zip([
        "execute immediate 'set @a = 1'",
        "if 1 then set @a = 1; end if",
        "begin not atomic set @a = 1; end",
    ]) {
        let lease = pool.lease().await.unwrap();
        let ran = lease.query_text(sql).await;
        assert_eq!(ran.is_ok(), server == Server::Mariadb, "{sql}: {ran:?}");
        drop(lease);
        all_leases_are_back(&pool).await;
        assert_eq!(pool.stats().leases_restored, round, "{sql}");
    }
}

/// The proxy spoils it; a real server refuses a COMMIT where it is in a cluster, or has become read-only, for one.
async fn a_commit_that_the_server_refuses_is_the_servers_error(server: Server) {
    let database = OwnDatabase::create(server, "refused").await;
    let proxy = Proxy::start(&server.url());
    let pool = open(proxy.through(database.settings()).pool_size(2));
    fill(&pool).await;
    proxy.replace(Direction::ToServer, b"COMMIT", b"BOGUS!");
    let tx = pool.begin().await.unwrap();
    tx.execute(INSERT, &[&3]).await.unwrap();
    let error = tx.commit().await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::SYNTAX_ERROR), "{error}");
    let mut lease = pool.lease().await.unwrap();
    let tx = lease.begin();
    tx.execute(INSERT, &[&3]).await.unwrap();
    tx.commit().await.unwrap_err();
    lease.execute(INSERT, &[&4]).await.expect("the lease goes on, and outside of what was not committed");
    assert_eq!(ids(&pool).await, [1, 2, 4]);
    drop(lease);
    all_leases_are_back(&pool).await;
    assert_eq!(pool.stats().leases_closed, 0);
}

/// The first statement then fails for the server's reason. The proxy spoils it.
async fn when_it_cannot_begin_it_takes_nothing_more(server: Server) {
    for in_flight_max in [128, 1] {
        let database = OwnDatabase::create(server, "begin_fails").await;
        let proxy = Proxy::start(&server.url());
        let pool = open(proxy.through(database.settings()).pool_size(2).max_pipeline(in_flight_max));
        fill(&pool).await;
        proxy.replace(Direction::ToServer, b"START ", b"BOGUS ");
        for first_text in [INSERT, "insert into account values (?, 0 + 0)"] {
            let tx = pool.begin().await.unwrap();
            let error = tx.execute(first_text, &[&4]).await.unwrap_err();
            assert_eq!(error.code(), Some(ErrorCode::SYNTAX_ERROR), "{error}");
            is_lost(&tx.execute(INSERT, &[&5]).await.expect_err("there is no transaction"));
            is_lost(&tx.commit().await.expect_err("there was no transaction"));
            pool.execute("delete from account where id = 4", &[]).await.unwrap();

            let mut lease = pool.lease().await.unwrap();
            let tx = lease.begin();
            tx.execute(first_text, &[&4]).await.unwrap_err();
            let error = tx.rollback().await.expect_err("it may have run outside of what was to be rolled back");
            is_lost(&error);
            let tx = lease.begin();
            tx.execute(first_text, &[&6]).await.unwrap_err();
            drop(tx);
            lease.execute("delete from account where id in (4, 6)", &[]).await.expect("it is as good as before");
        }
        assert_eq!(ids(&pool).await, [1, 2]);
        all_leases_are_back(&pool).await;
        assert_eq!((pool.stats().leases_closed, pool.stats().quarantines), (0, 0));
    }
}

/// Puts it on its way and vanishes.
async fn abandon(tx: &Transaction<'_>, id: i32) {
    let parameters: &[&(dyn ToValue + Sync)] = &[&id];
    assert!(drop_after_polls(1, tx.execute(INSERT, parameters)).await.ready().is_none());
}

/// What was rolled back is not taken along by the next transaction of the same lease. Where only one statement may be on its
/// way the rollback cannot follow at once; then the lease takes no other.
async fn a_lease_goes_on_behind_a_transaction_that_was_dropped_in_mid_flight(server: Server) {
    for in_flight_max in [128, 3, 1] {
        let (_database, pool) = accounts_with(server, "lease_goes_on", in_flight_max).await;
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
        let outcome = must_end("the next transaction", outcome).await;
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

/// Nothing of it had left when the future of `commit`, `rollback` or `savepoint` was dropped: something was in flight.
async fn an_end_that_waits_for_room_may_be_dropped(server: Server) {
    let database = OwnDatabase::create(server, "no_room").await;
    let proxy = Proxy::start(&server.url());
    let pool = open(proxy.through(database.settings()).pool_size(2));
    fill(&pool).await;
    pool.execute(INSERT, &[&3]).await.unwrap();
    let mut lease = pool.lease().await.unwrap();
    lease.execute("delete from account where id = ?", &[&3]).await.unwrap();
    lease.execute(INSERT, &[&3]).await.unwrap();
    // No answer comes before both are dropped.
    let hold = || proxy.stall(Direction::ToClient);
    let go_on = || proxy.resume(Direction::ToClient);

    let tx = lease.begin();
    hold();
    abandon(&tx, 10).await;
    assert!(drop_after_polls(1, tx.commit()).await.ready().is_none());
    go_on();
    lease.execute(INSERT, &[&12]).await.unwrap();
    assert_eq!(ids(&pool).await, [1, 2, 3, 12], "the commit was not sent, and what comes next is outside");
    let tx = lease.begin();
    hold();
    abandon(&tx, 10).await;
    assert!(drop_after_polls(1, tx.rollback()).await.ready().is_none());
    go_on();
    lease.execute(INSERT, &[&13]).await.unwrap();
    assert_eq!(ids(&pool).await, [1, 2, 3, 12, 13]);

    let mut tx = lease.begin();
    let savepoint = tx.savepoint().await.unwrap();
    hold();
    abandon(&savepoint, 20).await;
    assert!(drop_after_polls(1, savepoint.rollback()).await.ready().is_none());
    go_on();
    tx.execute(INSERT, &[&22]).await.unwrap();
    hold();
    abandon(&tx, 23).await;
    assert!(drop_after_polls(1, tx.savepoint()).await.ready().is_none());
    go_on();
    tx.execute(INSERT, &[&24]).await.expect("the transaction has not failed");
    tx.commit().await.unwrap();
    assert_eq!(ids(&pool).await, [1, 2, 3, 12, 13, 22, 23, 24]);
    drop(lease);
    all_leases_are_back(&pool).await;
}

/// A transaction that was leaked is not continued by the next one, nor committed by its beginning.
async fn a_transaction_that_was_forgotten_is_never_committed_by_another(server: Server) {
    let (_database, pool) = accounts(server, "forgotten").await;
    let mut lease = pool.lease().await.unwrap();
    let tx = lease.begin();
    tx.execute(INSERT, &[&10]).await.unwrap();
    std::mem::forget(tx);
    let tx = lease.begin();
    tx.execute(INSERT, &[&11]).await.unwrap_err();
    drop(tx);
    drop(lease);
    all_leases_are_back(&pool).await;
    assert_eq!(ids(&pool).await, [1, 2]);
}
