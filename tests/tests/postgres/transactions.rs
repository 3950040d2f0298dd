//! Transactions on connections of their own: all or nothing, whoever vanishes, and nobody else ever in them.

use cenote_postgres::types::{ToSql, Type};
use cenote_postgres::{Error, IsolationLevel, Pool, SqlState, TransactionOptions};
use cenote_tests::{Admin, Direction, OwnSchema, Proxy, open, postgres_url, wait_until};
use futures_util::future::join_all;

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

async fn balance(pool: &Pool, id: i32) -> i64 {
    pool.query_one("select balance from account where id = $1", &[&id]).await.unwrap().get(0).unwrap()
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

fn is_refused_for(error: &Error, words: &str) {
    assert!(error.is_caller() && error.code().is_none() && error.to_string().contains(words), "{words:?}: {error}");
}

#[tokio::test]
async fn what_is_committed_stays_and_what_is_not_does_not() {
    let (_schema, pool) = accounts("commit").await;
    let tx = pool.begin().await.unwrap();
    assert_eq!(tx.execute("update account set balance = balance - 10 where id = $1", &[&1]).await.unwrap(), 1);
    assert_eq!(balance(&pool, 1).await, 100, "nobody else sees it before");
    tx.execute("update account set balance = balance + 10 where id = $1", &[&2]).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!((balance(&pool, 1).await, balance(&pool, 2).await), (90, 110));
    let tx = pool.begin().await.unwrap();
    tx.execute("update account set balance = 0", &[]).await.unwrap();
    tx.rollback().await.unwrap();
    let tx = pool.begin().await.unwrap();
    tx.execute("update account set balance = 0", &[]).await.unwrap();
    drop(tx);
    assert_eq!((balance(&pool, 1).await, balance(&pool, 2).await), (90, 110));
    let _: Result<(), Error> = pool.begin().await.unwrap().commit().await;
    all_leases_are_back(&pool).await;
}

/// Every verb runs in the transaction, also one whose text nobody knew; on any kind of connection.
#[tokio::test]
async fn every_verb_runs_inside() {
    for (max_pipeline, kept) in [(128, 256), (1, 256), (128, 0), (1, 0), (2, 1)] {
        let schema = OwnSchema::create("every_verb").await;
        let pool = open(schema.settings().pool_size(2).max_pipeline(max_pipeline).statement_cache_size(kept));
        fill(&pool).await;
        let mut tx = pool.begin().await.unwrap();
        tx.execute(INSERT, &[&3]).await.unwrap();
        assert_eq!(tx.query("select id from account", &[]).await.unwrap().len(), 3);
        assert_eq!(tx.query_one("select count(*) from account", &[]).await.unwrap().get::<_, i64>(0).unwrap(), 3);
        assert!(tx.query_opt("select 1 from account where id = $1", &[&3]).await.unwrap().is_some());
        assert_eq!(tx.query_as::<(i32,)>("select id from account order by id desc", &[]).await.unwrap()[0], (3,));
        let typed: &[(&(dyn ToSql + Sync), Type)] = &[(&3, Type::INT4)];
        assert_eq!(tx.query_typed("select 1 from account where id = $1", typed).await.unwrap().len(), 1);
        let results = tx.batch().add(INSERT, &[&4]).add("select count(*) from account", &[]).run().await.unwrap();
        assert_eq!(results[1].rows()[0].get::<_, i64>(0).unwrap(), 4);
        let savepoint = tx.savepoint().await.unwrap();
        join_all([5, 6, 7].map(|id| {
            let savepoint = &savepoint;
            async move { savepoint.execute(INSERT, &[&id]).await.unwrap() }
        }))
        .await;
        savepoint.commit().await.unwrap();
        assert_eq!(tx.query("select id from account", &[]).await.unwrap().len(), 7);
        assert_eq!(ids(&pool).await, [1, 2], "all of it inside");
        tx.rollback().await.unwrap();
        assert_eq!(ids(&pool).await, [1, 2]);
        all_leases_are_back(&pool).await;
        assert_eq!(pool.stats().leases_restored, 0, "nothing had to be undone");
    }
}

/// The caller is told that his result was too large; the transaction goes on, whichever statement it was.
#[tokio::test]
async fn a_result_too_large_does_not_end_the_transaction() {
    let schema = OwnSchema::create("too_large").await;
    let pool = open(schema.settings().pool_size(2).reply_bytes_max(16 * 1024));
    fill(&pool).await;
    let large = "select repeat('x', 100) from generate_series(1, 10000)";
    for first in [true, false] {
        let tx = pool.begin().await.unwrap();
        if !first {
            tx.execute(INSERT, &[&3]).await.unwrap();
        }
        let error = tx.query(large, &[]).await.unwrap_err();
        assert!(error.is_caller() && error.was_sent() == Some(true), "{error}");
        tx.execute(INSERT, &[&4]).await.unwrap();
        assert_eq!(ids(&pool).await, [1, 2]);
        tx.rollback().await.unwrap();
        assert_eq!(ids(&pool).await, [1, 2], "it was inside");
    }
    all_leases_are_back(&pool).await;
    assert_eq!((pool.stats().connections_lost, pool.stats().leases_closed), (0, 0));
}

/// BEGIN travels with the first statement, and what never began is not ended.
#[tokio::test]
async fn a_transaction_costs_a_round_trip_for_each_statement_and_one_for_its_commit() {
    let schema = OwnSchema::create("round_trips").await;
    let proxy = Proxy::start(&postgres_url());
    let pool = open(proxy.through(schema.settings()).pool_size(1));
    fill(&pool).await;
    let update = "update account set balance = balance + 1 where id = $1";
    pool.execute(update, &[&1]).await.unwrap();
    const SYNC: &[u8] = b"S\0\0\0\x04";
    proxy.count(Direction::ToServer, SYNC);
    proxy.count(Direction::ToServer, b"begin");
    let cost = async |what: &str, expected: u64| {
        let stats = pool.stats();
        let bytes = proxy.bytes(Direction::ToServer);
        let syncs = proxy.counted(Direction::ToServer, SYNC);
        (what.to_owned(), expected, stats.writes, stats.replies, bytes, syncs)
    };
    let check = async |before: (String, u64, u64, u64, u64, usize)| {
        let (what, expected, writes, replies, bytes, syncs) = before;
        let stats = pool.stats();
        assert_eq!(stats.writes - writes, expected, "writes of {what}");
        assert_eq!(stats.replies - replies, expected, "replies to {what}");
        assert_eq!(proxy.counted(Direction::ToServer, SYNC) - syncs, expected as usize, "round trips of {what}");
        if expected == 0 {
            assert_eq!(proxy.bytes(Direction::ToServer), bytes, "bytes sent for {what}");
        }
        assert!(stats.leases.is_empty(), "it is back at once: {stats:?}");
    };

    let before = cost("begin, one statement, commit", 2).await;
    let tx = pool.begin().await.unwrap();
    tx.execute(update, &[&1]).await.unwrap();
    tx.commit().await.unwrap();
    check(before).await;
    assert_eq!(proxy.counted(Direction::ToServer, b"begin"), 1);

    let before = cost("begin, three statements at once, commit", 4).await;
    let stats = pool.stats();
    let tx = pool.begin().await.unwrap();
    let (one, two, three) =
        tokio::join!(tx.execute(update, &[&1]), tx.execute(update, &[&2]), tx.execute(update, &[&1]));
    assert_eq!((one.unwrap(), two.unwrap(), three.unwrap()), (1, 1, 1));
    assert_eq!(pool.stats().writes - stats.writes, 2, "one write with BEGIN, and one for the others");
    tx.commit().await.unwrap();
    assert_eq!(pool.stats().writes - stats.writes, 3);
    assert_eq!(pool.stats().replies - stats.replies, before.1);

    let before = cost("begin, commit", 0).await;
    pool.begin().await.unwrap().commit().await.unwrap();
    check(before).await;
    let before = cost("begin, rollback", 0).await;
    pool.begin().await.unwrap().rollback().await.unwrap();
    check(before).await;
    let before = cost("begin, dropped", 0).await;
    drop(pool.begin().await.unwrap());
    check(before).await;
    let before = cost("a lease", 0).await;
    drop(pool.lease().await.unwrap());
    check(before).await;
    let before = cost("a lease with a statement", 1).await;
    let lease = pool.lease().await.unwrap();
    lease.execute(update, &[&1]).await.unwrap();
    drop(lease);
    check(before).await;
    assert_eq!((pool.stats().connects, pool.stats().leases_restored), (1, 0));
}

#[tokio::test]
async fn a_hundred_statements_at_once_are_pipelined_in_their_order() {
    let (_schema, pool) = accounts("pipelined").await;
    let append = "insert into account select $1, coalesce(max(id), 0) from account";
    pool.execute(append, &[&10]).await.unwrap();
    for in_transaction in [false, true] {
        pool.execute("truncate account", &[]).await.unwrap();
        let mut lease = pool.lease().await.unwrap();
        // Known on this connection.
        lease.execute(append, &[&0]).await.unwrap();
        let before = pool.stats();
        if in_transaction {
            let tx = lease.begin();
            let outcomes = join_all((1..=100).map(|id| {
                let tx = &tx;
                async move { tx.execute(append, &[&id]).await }
            }));
            assert!(outcomes.await.into_iter().all(|outcome| outcome.unwrap() == 1));
            // Nothing follows BEGIN before it is known to have begun.
            assert_eq!(pool.stats().writes - before.writes, 2, "one write with BEGIN, and one for all others");
            tx.commit().await.unwrap();
        } else {
            let lease = &lease;
            let outcomes = join_all((1..=100).map(|id| async move { lease.execute(append, &[&id]).await }));
            assert!(outcomes.await.into_iter().all(|outcome| outcome.unwrap() == 1));
            assert_eq!(pool.stats().writes - before.writes, 1, "one write for all");
        }
        drop(lease);
        let rows = pool.query_as::<(i32, i64)>("select id, balance from account order by id", &[]).await.unwrap();
        let expected: Vec<_> = (0..=100).map(|id: i32| (id, i64::from((id - 1).max(0)))).collect();
        assert_eq!(rows, expected, "each saw the one before it");
    }
}

fn says_why_it_was_undone(error: &Error, code: SqlState) {
    assert!(error.is_caller() && error.code() == Some(code), "{error}");
    assert!(error.to_string().contains("rolled back") && error.to_string().contains(&code.to_string()), "{error}");
}

#[tokio::test]
async fn a_failed_statement_makes_the_commit_an_error_and_nothing_stays() {
    let (_schema, pool) = accounts("failed").await;
    let tx = pool.begin().await.unwrap();
    tx.execute(INSERT, &[&3]).await.unwrap();
    let error = tx.execute(INSERT, &[&3]).await.unwrap_err();
    assert_eq!(error.code(), Some(SqlState::UNIQUE_VIOLATION), "{error}");
    let error = tx.execute(INSERT, &[&4]).await.unwrap_err();
    assert_eq!(error.code(), Some(SqlState::IN_FAILED_SQL_TRANSACTION), "{error}");
    says_why_it_was_undone(&tx.commit().await.unwrap_err(), SqlState::UNIQUE_VIOLATION);
    assert_eq!(ids(&pool).await, [1, 2]);

    // The same when all of them were on their way at once: what follows the one that fails does not happen.
    let tx = pool.begin().await.unwrap();
    let outcomes = join_all([3, 1, 4, 5].map(|id| {
        let tx = &tx;
        async move { tx.execute(INSERT, &[&id]).await }
    }));
    let codes: Vec<_> =
        outcomes.await.into_iter().map(|outcome| outcome.err().and_then(|error| error.code())).collect();
    let failed = Some(SqlState::IN_FAILED_SQL_TRANSACTION);
    assert_eq!(codes, [None, Some(SqlState::UNIQUE_VIOLATION), failed, failed]);
    says_why_it_was_undone(&tx.commit().await.unwrap_err(), SqlState::UNIQUE_VIOLATION);
    assert_eq!(ids(&pool).await, [1, 2]);

    // And when it was the very first, which took BEGIN along.
    let tx = pool.begin().await.unwrap();
    tx.execute(INSERT, &[&1]).await.unwrap_err();
    says_why_it_was_undone(&tx.commit().await.unwrap_err(), SqlState::UNIQUE_VIOLATION);
    all_leases_are_back(&pool).await;
    assert_eq!((pool.stats().connections_lost, pool.stats().quarantines), (0, 0));
}

/// Of several that failed it is the one that made the transaction fail; of none that was heard, nobody knows.
#[tokio::test]
async fn a_commit_names_the_error_that_it_failed_by_and_no_other() {
    const NOT_A_NUMBER: &str = "select 1 / ($1::int4 - 1)";
    let (_schema, pool) = accounts("failed_by").await;
    let mut lease = pool.lease().await.unwrap();
    lease.execute(INSERT, &[&1]).await.unwrap_err();
    let tx = lease.begin();
    tx.query(NOT_A_NUMBER, &[&1]).await.unwrap_err();
    tx.execute(INSERT, &[&1]).await.unwrap_err();
    says_why_it_was_undone(&tx.commit().await.unwrap_err(), SqlState::DIVISION_BY_ZERO);

    // Not one of a savepoint that was undone, in whatever way; and the statement that fails then was dropped.
    for way in 0..3 {
        let mut tx = lease.begin();
        let savepoint = tx.savepoint().await.unwrap();
        savepoint.execute(INSERT, &[&1]).await.unwrap_err();
        match way {
            0 => savepoint.rollback().await.unwrap(),
            1 => drop(savepoint),
            _ => says_why_it_was_undone(&savepoint.commit().await.unwrap_err(), SqlState::UNIQUE_VIOLATION),
        }
        assert!(futures_util::poll!(Box::pin(tx.query(NOT_A_NUMBER, &[&1]))).is_pending());
        let error = tx.commit().await.unwrap_err();
        is_refused_for(&error, "rolled back");
    }

    let typed: &[(&(dyn ToSql + Sync), Type)] = &[(&1, Type::INT4)];
    let tx = lease.begin();
    tx.query_typed("select 1 / ($1::int4 - 1) as typed", typed).await.unwrap_err();
    says_why_it_was_undone(&tx.commit().await.unwrap_err(), SqlState::DIVISION_BY_ZERO);
    let tx = lease.begin();
    tx.batch().add("select 1", &[]).add(NOT_A_NUMBER, &[&1]).run().await.unwrap_err();
    says_why_it_was_undone(&tx.commit().await.unwrap_err(), SqlState::DIVISION_BY_ZERO);
    let tx = lease.begin();
    tx.query("select * from nowhere", &[]).await.unwrap_err();
    says_why_it_was_undone(&tx.commit().await.unwrap_err(), SqlState::UNDEFINED_TABLE);
}

/// What is checked when it ends.
#[tokio::test]
async fn a_commit_that_the_server_refuses_is_the_servers_error() {
    let (_schema, pool) = accounts("deferred").await;
    pool.execute("create table owner(account int references account deferrable initially deferred)", &[])
        .await
        .unwrap();
    let tx = pool.begin().await.unwrap();
    tx.execute("insert into owner values (99)", &[]).await.unwrap();
    let error = tx.commit().await.unwrap_err();
    assert_eq!(error.code(), Some(SqlState::FOREIGN_KEY_VIOLATION), "{error}");
    assert!(pool.query("select 1 from owner", &[]).await.unwrap().is_empty());
    all_leases_are_back(&pool).await;
}

/// pg-promise 625: a text with NUL within a transaction.
#[tokio::test]
async fn a_value_that_the_server_cannot_read_leaves_a_clean_connection() {
    let (_schema, pool) = accounts("nul").await;
    let admin = Admin::connect().await;
    for first in [true, false] {
        let tx = pool.begin().await.unwrap();
        if !first {
            tx.execute(INSERT, &[&3]).await.unwrap();
        }
        let error = tx.query("select $1::text", &[&"a\0b"]).await.unwrap_err();
        assert!(error.is_server() || error.is_caller(), "{error}");
        drop(tx);
        all_leases_are_back(&pool).await;
    }
    assert_eq!(ids(&pool).await, [1, 2]);
    let backends = admin.backends(&pool).await;
    assert!(backends.iter().all(|backend| backend.state == "idle"), "{backends:?}");
    assert_eq!((pool.stats().connections_lost, pool.stats().leases_closed), (0, 0));
}

#[tokio::test]
async fn savepoints_are_undone_by_themselves() {
    let (_schema, pool) = accounts("savepoints").await;
    let mut tx = pool.begin().await.unwrap();
    tx.execute(INSERT, &[&10]).await.unwrap();

    let kept = tx.savepoint().await.unwrap();
    kept.execute(INSERT, &[&11]).await.unwrap();
    kept.commit().await.unwrap();

    let undone = tx.savepoint().await.unwrap();
    undone.execute(INSERT, &[&12]).await.unwrap();
    undone.rollback().await.unwrap();

    let dropped = tx.savepoint().await.unwrap();
    dropped.execute(INSERT, &[&13]).await.unwrap();
    drop(dropped);

    // A statement fails within it, and the transaction goes on.
    let failed = tx.savepoint().await.unwrap();
    failed.execute(INSERT, &[&10]).await.unwrap_err();
    failed.execute(INSERT, &[&14]).await.unwrap_err();
    says_why_it_was_undone(&failed.commit().await.unwrap_err(), SqlState::UNIQUE_VIOLATION);
    tx.rollback().await.unwrap();
    assert_eq!(ids(&pool).await, [1, 2]);

    let mut tx = pool.begin().await.unwrap();
    let failed = tx.savepoint().await.unwrap();
    failed.execute(INSERT, &[&1]).await.unwrap_err();
    failed.rollback().await.unwrap();
    let failed = tx.savepoint().await.unwrap();
    failed.execute(INSERT, &[&1]).await.unwrap_err();
    drop(failed);

    // Nested, and each of the inner ones ends otherwise.
    let mut outer = tx.savepoint().await.unwrap();
    outer.execute(INSERT, &[&20]).await.unwrap();
    let mut middle = outer.savepoint().await.unwrap();
    middle.execute(INSERT, &[&21]).await.unwrap();
    let inner = middle.savepoint().await.unwrap();
    inner.execute(INSERT, &[&22]).await.unwrap();
    inner.commit().await.unwrap();
    drop(middle);
    let middle = outer.savepoint().await.unwrap();
    middle.execute(INSERT, &[&23]).await.unwrap();
    middle.commit().await.unwrap();
    outer.commit().await.unwrap();
    tx.execute(INSERT, &[&24]).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(ids(&pool).await, [1, 2, 20, 23, 24]);
    all_leases_are_back(&pool).await;
}

#[tokio::test]
async fn the_server_keeps_to_what_was_asked_for() {
    let (_schema, pool) = accounts("options").await;
    let show = async |options: TransactionOptions| {
        let tx = pool.begin_with(options).await.unwrap();
        let row = tx
            .query_one(
                "select current_setting('transaction_isolation') || ', ' || current_setting('transaction_read_only') \
                 || ', ' || current_setting('transaction_deferrable')",
                &[],
            )
            .await
            .unwrap();
        tx.commit().await.unwrap();
        row.get::<_, String>(0).unwrap()
    };
    let options = TransactionOptions::new();
    assert_eq!(show(options).await, "read committed, off, off");
    let level = |level| options.isolation_level(level);
    assert_eq!(show(level(IsolationLevel::ReadCommitted)).await, "read committed, off, off");
    assert_eq!(show(level(IsolationLevel::RepeatableRead)).await, "repeatable read, off, off");
    assert_eq!(show(level(IsolationLevel::Serializable)).await, "serializable, off, off");
    assert_eq!(show(options.read_only(true)).await, "read committed, on, off");
    let all = level(IsolationLevel::Serializable).read_only(true).deferrable(true);
    assert_eq!(show(all).await, "serializable, on, on");

    let tx = pool.begin_with(options.read_only(true)).await.unwrap();
    let error = tx.execute(INSERT, &[&3]).await.unwrap_err();
    assert_eq!(error.code(), Some(SqlState::READ_ONLY_SQL_TRANSACTION), "{error}");
    tx.rollback().await.unwrap();
    // A lease's transactions as well, and none of it lasts longer than the transaction.
    let mut lease = pool.lease().await.unwrap();
    let tx = lease.begin_with(options.read_only(true));
    tx.execute(INSERT, &[&3]).await.unwrap_err();
    drop(tx);
    lease.execute(INSERT, &[&3]).await.unwrap();
    let tx = lease.begin();
    tx.execute(INSERT, &[&4]).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(ids(&pool).await, [1, 2, 3, 4]);
}

#[tokio::test]
async fn of_two_serializable_transactions_that_cannot_both_have_been_one_fails() {
    let (_schema, pool) = accounts("serializable").await;
    let serializable = TransactionOptions::new().isolation_level(IsolationLevel::Serializable);
    let (one, two) = (pool.begin_with(serializable).await.unwrap(), pool.begin_with(serializable).await.unwrap());
    for tx in [&one, &two] {
        tx.query_one("select sum(balance)::bigint from account", &[]).await.unwrap();
    }
    let write = "update account set balance = balance - 150 where id = $1";
    let first = async {
        one.execute(write, &[&1]).await?;
        one.commit().await
    };
    first.await.unwrap();
    let second = async {
        two.execute(write, &[&2]).await?;
        two.commit().await
    };
    let error = second.await.unwrap_err();
    assert_eq!(error.code(), Some(SqlState::SERIALIZATION_FAILURE), "{error}");
    assert_eq!((balance(&pool, 1).await, balance(&pool, 2).await), (-50, 100));
    all_leases_are_back(&pool).await;
}

/// What would end it behind its back.
#[tokio::test]
async fn the_transaction_is_nobody_elses_to_end() {
    let (_schema, pool) = accounts("inside").await;
    let tx = pool.begin().await.unwrap();
    tx.execute(INSERT, &[&3]).await.unwrap();
    for (sql, word) in [
        ("commit", "COMMIT"),
        ("/* so */ end", "END"),
        ("rollback", "ROLLBACK"),
        ("rollback to savepoint cenote_1", "ROLLBACK"),
        ("abort", "ABORT"),
        ("begin", "BEGIN"),
        ("start transaction", "START"),
        ("savepoint a", "SAVEPOINT"),
        ("release savepoint a", "RELEASE"),
        ("prepare transaction 'a'", "PREPARE TRANSACTION"),
        ("copy account to stdout", "COPY"),
    ] {
        let before = pool.stats().bytes_written;
        is_refused_for(&tx.execute(sql, &[]).await.expect_err(sql), word);
        is_refused_for(&tx.query_typed(sql, &[]).await.expect_err(sql), word);
        is_refused_for(&tx.batch().add(sql, &[]).run().await.expect_err(sql), word);
        assert_eq!(pool.stats().bytes_written, before, "{sql}: nothing was sent");
    }
    tx.execute("set local lock_timeout = '1s'", &[]).await.unwrap();
    tx.execute("lock table account in share mode", &[]).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(ids(&pool).await, [1, 2, 3]);
}

/// A text that was learned where a table is seen which nobody else sees.
#[tokio::test]
async fn what_was_learned_inside_holds_outside_only_as_far_as_it_is_true() {
    let (_schema, pool) = accounts("learned_inside").await;
    let select = "select * from fresh";
    let tx = pool.begin().await.unwrap();
    tx.execute("create table fresh(id int not null)", &[]).await.unwrap();
    tx.execute("insert into fresh values (1)", &[]).await.unwrap();
    assert_eq!(tx.query_as::<(i32,)>(select, &[]).await.unwrap(), [(1,)]);
    for _ in 0..3 {
        let error = pool.query(select, &[]).await.unwrap_err();
        assert_eq!(error.code(), Some(SqlState::UNDEFINED_TABLE), "{error}");
    }
    assert_eq!(tx.query_as::<(i32,)>(select, &[]).await.unwrap(), [(1,)], "inside it is as it was");
    tx.rollback().await.unwrap();
    assert_eq!(pool.query(select, &[]).await.unwrap_err().code(), Some(SqlState::UNDEFINED_TABLE));

    // Another one under the same name, with other columns.
    pool.execute("create table fresh(name text, id bigint)", &[]).await.unwrap();
    pool.execute("insert into fresh values ('a', 2)", &[]).await.unwrap();
    let tx = pool.begin().await.unwrap();
    tx.execute("drop table fresh", &[]).await.unwrap();
    tx.execute("create table fresh(at float8)", &[]).await.unwrap();
    tx.execute("insert into fresh values (0.5)", &[]).await.unwrap();
    assert_eq!(tx.query_as::<(f64,)>(select, &[]).await.unwrap(), [(0.5,)]);
    tx.rollback().await.unwrap();
    for row in join_all((0..20).map(|_| pool.query_as::<(String, i64)>(select, &[]))).await {
        assert_eq!(row.unwrap(), [("a".to_owned(), 2)]);
    }
}
