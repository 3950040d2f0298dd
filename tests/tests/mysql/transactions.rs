//! Transactions on connections of their own, on MySQL and MariaDB: all or nothing, whoever vanishes, whatever ends them, and
//! nobody else ever in them.

use cenote_mysql::{Error, ErrorCode, IsolationLevel, Pool, Transaction, TransactionOptions};
use cenote_tests::mysql::{Admin, OwnDatabase, Server, open};
use cenote_tests::{Direction, Proxy, drop_after_polls, must_end, on_each_server, wait_until};
use futures_util::future::join_all;

on_each_server!(
    what_is_committed_stays_and_what_is_not_does_not,
    every_verb_runs_inside,
    a_transaction_costs_a_round_trip_for_each_statement_and_one_for_its_commit,
    statements_at_once_run_in_their_order,
    an_error_leaves_the_transaction_open_and_it_can_be_committed,
    savepoints_are_undone_by_themselves,
    a_savepoint_dropped_in_mid_flight_is_undone,
    the_server_keeps_to_what_was_asked_for,
    with_room_for_one_statement_a_transaction_is_what_was_asked_for,
    the_transaction_is_nobody_elses_to_end,
    what_was_learned_inside_holds_outside_only_as_far_as_it_is_true,
    what_its_isolation_was_to_be_is_not_left_for_the_next,
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

fn is_refused_for(error: &Error, words: &str) {
    assert!(error.is_caller() && error.code().is_none() && error.to_string().contains(words), "{words:?}: {error}");
}

fn is_lost(error: &Error) {
    assert!(error.is_transaction_lost() && error.was_sent() == Some(false), "{error}");
    assert!(error.to_string().contains("begin the transaction anew"), "{error}");
}

async fn what_is_committed_stays_and_what_is_not_does_not(server: Server) {
    let (_database, pool) = accounts(server, "commit").await;
    let tx = pool.begin().await.unwrap();
    let taken = tx.execute("update account set balance = balance - 10 where id = ?", &[&1]).await.unwrap();
    assert_eq!(taken.affected_rows(), 1);
    assert_eq!(balance(&pool, 1).await, 100, "nobody else sees it before");
    tx.execute("update account set balance = balance + 10 where id = ?", &[&2]).await.unwrap();
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
    assert_eq!((pool.stats().connections_lost, pool.stats().leases_closed, pool.stats().quarantines), (0, 0, 0));
}

/// Every verb runs in the transaction, also one whose text nobody knew.
async fn every_verb_runs_inside(server: Server) {
    let (_database, pool) = accounts(server, "every_verb").await;
    let tx = pool.begin().await.unwrap();
    assert_eq!(tx.query_text("select id from account").await.unwrap().len(), 2);
    tx.execute(INSERT, &[&3]).await.unwrap();
    assert_eq!(tx.query("select id from account", &[]).await.unwrap().len(), 3);
    assert_eq!(tx.query_one("select count(*) from account", &[]).await.unwrap().get::<_, i64>(0).unwrap(), 3);
    assert!(tx.query_opt("select 1 from account where id = ?", &[&3]).await.unwrap().is_some());
    assert_eq!(tx.query_as::<(i32,)>("select id from account order by id desc", &[]).await.unwrap()[0], (3,));
    assert_eq!(tx.query_text("select id from account").await.unwrap().len(), 3);
    assert_eq!(ids(&pool).await, [1, 2], "all of it inside");
    tx.rollback().await.unwrap();
    assert_eq!(ids(&pool).await, [1, 2]);
    all_leases_are_back(&pool).await;
}

/// START TRANSACTION travels with the first statement, and what never began is not ended.
async fn a_transaction_costs_a_round_trip_for_each_statement_and_one_for_its_commit(server: Server) {
    let database = OwnDatabase::create(server, "round_trips").await;
    let proxy = Proxy::start(&server.url());
    let pool = open(proxy.through(database.settings()).pool_size(1));
    fill(&pool).await;
    let update = "update account set balance = balance + 1 where id = ?";
    pool.execute(update, &[&1]).await.unwrap();
    proxy.count(Direction::ToServer, b"START TRANSACTION");
    struct Cost(u64, u64);
    let check = async |what: &str, before: cenote_mysql::PoolStats, cost: Cost| {
        let stats = pool.stats();
        assert_eq!(stats.writes - before.writes, cost.0, "writes of {what}");
        assert_eq!(stats.replies - before.replies, cost.1, "replies to {what}");
        assert!(stats.leases.is_empty(), "it is back at once: {stats:?}");
    };

    let before = pool.stats();
    let tx = pool.begin().await.unwrap();
    tx.execute(update, &[&1]).await.unwrap();
    tx.commit().await.unwrap();
    check("begin, one statement, commit", before, Cost(2, 3)).await;
    assert_eq!(proxy.counted(Direction::ToServer, b"START TRANSACTION"), 1);

    let before = pool.stats();
    let options = TransactionOptions::new().isolation_level(IsolationLevel::ReadCommitted);
    let tx = pool.begin_with(options).await.unwrap();
    tx.execute(update, &[&1]).await.unwrap();
    tx.execute(update, &[&1]).await.unwrap();
    tx.commit().await.unwrap();
    check("begin of a kind, two statements, commit", before, Cost(3, 5)).await;

    for what in ["commit", "rollback", "drop", "a lease"] {
        let before = pool.stats();
        match what {
            "commit" => pool.begin().await.unwrap().commit().await.unwrap(),
            "rollback" => pool.begin().await.unwrap().rollback().await.unwrap(),
            "drop" => drop(pool.begin().await.unwrap()),
            _ => drop(pool.lease().await.unwrap()),
        }
        check(what, before, Cost(0, 0)).await;
    }
    let before = pool.stats();
    let lease = pool.lease().await.unwrap();
    lease.execute(update, &[&1]).await.unwrap();
    drop(lease);
    check("a lease with a statement", before, Cost(1, 1)).await;
    assert_eq!((pool.stats().connects, pool.stats().leases_restored), (1, 0));
}

async fn statements_at_once_run_in_their_order(server: Server) {
    let (_database, pool) = accounts(server, "in_order").await;
    let append = "insert into account select ?, coalesce(max(id), 0) from account a";
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
            assert!(outcomes.await.into_iter().all(|outcome| outcome.unwrap().affected_rows() == 1));
            assert_eq!(pool.stats().writes - before.writes, 100, "one at a time, and the first takes its begin along");
            tx.commit().await.unwrap();
        } else {
            let lease = &lease;
            let outcomes = join_all((1..=100).map(|id| async move { lease.execute(append, &[&id]).await }));
            assert!(outcomes.await.into_iter().all(|outcome| outcome.unwrap().affected_rows() == 1));
            assert_eq!(pool.stats().writes - before.writes, 1, "one write for all");
        }
        drop(lease);
        let rows = pool.query_as::<(i32, i64)>("select id, balance from account order by id", &[]).await.unwrap();
        let expected: Vec<_> = (0..=100).map(|id: i32| (id, i64::from((id - 1).max(0)))).collect();
        assert_eq!(rows, expected, "each saw the one before it");
    }
}

async fn an_error_leaves_the_transaction_open_and_it_can_be_committed(server: Server) {
    for in_flight_max in [128, 1] {
        let (_database, pool) = accounts_with(server, "error", in_flight_max).await;
        // As the very first, in the middle, from its preparation, as text.
        let tx = pool.begin().await.unwrap();
        let error = tx.execute(INSERT, &[&1]).await.unwrap_err();
        assert_eq!(error.code(), Some(ErrorCode::DUPLICATE_ENTRY), "{error}");
        tx.execute(INSERT, &[&3]).await.unwrap();
        tx.execute(INSERT, &[&3]).await.unwrap_err();
        let error = tx.query("select * from nowhere", &[]).await.unwrap_err();
        assert_eq!(error.code(), Some(ErrorCode::UNKNOWN_TABLE), "{error}");
        tx.query_text("insert into account values (3, 0)").await.unwrap_err();
        tx.query("select 1", &[]).await.unwrap();
        assert_eq!(ids(&pool).await, [1, 2], "it is still open");
        tx.execute(INSERT, &[&4]).await.unwrap();
        tx.execute(INSERT, &[&4]).await.unwrap_err();
        tx.commit().await.unwrap();
        assert_eq!(ids(&pool).await, [1, 2, 3, 4]);

        // And rolled back.
        let tx = pool.begin().await.unwrap();
        tx.execute(INSERT, &[&5]).await.unwrap();
        tx.execute(INSERT, &[&5]).await.unwrap_err();
        tx.rollback().await.unwrap();
        assert_eq!(ids(&pool).await, [1, 2, 3, 4]);
        all_leases_are_back(&pool).await;
        assert_eq!((pool.stats().connections_lost, pool.stats().leases_closed), (0, 0));
    }
}

async fn savepoints_are_undone_by_themselves(server: Server) {
    for in_flight_max in [128, 2, 1] {
        let (_database, pool) = accounts_with(server, "savepoints", in_flight_max).await;
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
        failed.execute(INSERT, &[&14]).await.unwrap();
        failed.rollback().await.unwrap();

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
        assert_eq!(ids(&pool).await, [1, 2, 10, 11, 20, 23, 24], "with {in_flight_max} in flight at most");
        all_leases_are_back(&pool).await;

        // As the very first of a transaction.
        let mut tx = pool.begin().await.unwrap();
        let first = tx.savepoint().await.unwrap();
        first.execute(INSERT, &[&30]).await.unwrap();
        drop(first);
        tx.execute(INSERT, &[&31]).await.unwrap();
        tx.rollback().await.unwrap();
        assert_eq!(ids(&pool).await, [1, 2, 10, 11, 20, 23, 24]);
    }
}

/// A statement of a savepoint is on its way when both are dropped: it is undone, and the transaction goes on.
async fn a_savepoint_dropped_in_mid_flight_is_undone(server: Server) {
    for in_flight_max in [128, 2, 1] {
        let (_database, pool) = accounts_with(server, "mid_flight", in_flight_max).await;
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
                is_lost(&error);
                tx.commit().await.unwrap_err();
                assert_eq!(ids(&pool).await, [1, 2, 3]);
            }
            Err(error) => panic!("with {in_flight_max} in flight at most: {error}"),
        }
        all_leases_are_back(&pool).await;
    }
}

/// What the server itself says of the transaction that this connection is in. (InnoDB's own list is a copy, some time old.)
async fn shown(admin: &Admin, tx: &Transaction<'_>) -> String {
    tx.query("select * from account", &[]).await.unwrap();
    let id: i64 = tx.query_one("select connection_id()", &[]).await.unwrap().get(0).unwrap();
    let sql = "select lower(isolation_level), lower(access_mode) from performance_schema.events_transactions_current \
               join performance_schema.threads using (thread_id) where processlist_id = ? and state = 'ACTIVE'";
    let shown: Vec<(String, String)> = admin.rows_as(sql, (id,)).await;
    let [(level, access)] = &shown[..] else { panic!("{shown:?}") };
    format!("{level}, {access}")
}

/// MariaDB watches no transactions unless it is told to.
async fn watch_transactions(admin: &Admin) {
    for (table, what) in [("setup_consumers", "events_transactions_current"), ("setup_instruments", "transaction")] {
        admin.run(&format!("update performance_schema.{table} set enabled = 'YES' where name = '{what}'")).await;
    }
}

async fn the_server_keeps_to_what_was_asked_for(server: Server) {
    let (database, pool) = accounts(server, "options").await;
    let admin = database.admin().await;
    watch_transactions(&admin).await;
    let show = async |options: TransactionOptions| {
        let tx = pool.begin_with(options).await.unwrap();
        let shown = shown(&admin, &tx).await;
        tx.commit().await.unwrap();
        shown
    };
    let options = TransactionOptions::new();
    assert_eq!(show(options).await, "repeatable read, read write");
    let level = |level| options.isolation_level(level);
    assert_eq!(show(level(IsolationLevel::ReadUncommitted)).await, "read uncommitted, read write");
    assert_eq!(show(level(IsolationLevel::ReadCommitted)).await, "read committed, read write");
    assert_eq!(show(level(IsolationLevel::RepeatableRead)).await, "repeatable read, read write");
    assert_eq!(show(level(IsolationLevel::Serializable)).await, "serializable, read write");
    assert_eq!(show(options.read_only(true)).await, "repeatable read, read only");
    assert_eq!(show(options.read_only(false)).await, "repeatable read, read write");
    let all = level(IsolationLevel::RepeatableRead).read_only(true).consistent_snapshot(true);
    assert_eq!(show(all).await, "repeatable read, read only");
    assert_eq!(show(options).await, "repeatable read, read write", "none of it is left");

    // A snapshot is of the moment when it begins: with the first statement, which looks at something else.
    for consistent in [true, false] {
        let tx = pool.begin_with(options.consistent_snapshot(consistent)).await.unwrap();
        tx.query("select 1", &[]).await.unwrap();
        let id = if consistent { 10 } else { 11 };
        pool.execute(INSERT, &[&id]).await.unwrap();
        let seen = tx.query_opt("select 1 from account where id = ?", &[&id]).await.unwrap();
        assert_eq!(seen.is_none(), consistent, "a consistent snapshot: {consistent}");
        tx.commit().await.unwrap();
    }

    let tx = pool.begin_with(options.read_only(true)).await.unwrap();
    let error = tx.execute(INSERT, &[&3]).await.unwrap_err();
    assert_eq!(error.code().map(u16::from), Some(1792), "{error}");
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
    assert_eq!(ids(&pool).await, [1, 2, 3, 4, 10, 11]);
}

/// What goes in front of the first statement goes there one by one, and the statement behind it.
async fn with_room_for_one_statement_a_transaction_is_what_was_asked_for(server: Server) {
    for in_flight_max in [1, 2] {
        let (database, pool) = accounts_with(server, "room_for_one", in_flight_max).await;
        let admin = database.admin().await;
        watch_transactions(&admin).await;
        let options = TransactionOptions::new().isolation_level(IsolationLevel::ReadCommitted).read_only(true);
        for _ in 0..3 {
            let tx = pool.begin_with(options).await.unwrap();
            assert_eq!(shown(&admin, &tx).await, "read committed, read only");
            tx.commit().await.unwrap();
        }
        for polls in 0..12 {
            let tx = pool.begin_with(options).await.unwrap();
            drop(drop_after_polls(polls, tx.query("select * from account", &[])).await);
            drop(tx);
            // Whoever comes next has nothing of it.
            let tx = pool.begin().await.unwrap();
            tx.execute("update account set balance = balance + 1 where id = 1", &[]).await.unwrap();
            assert_eq!(shown(&admin, &tx).await, "repeatable read, read write", "after {polls} polls");
            tx.commit().await.unwrap();
        }
        assert_eq!(balance(&pool, 1).await, 112);
        all_leases_are_back(&pool).await;
        assert_eq!((pool.stats().connections_lost, pool.stats().leases_closed), (0, 0));
    }
}

/// What would end it behind its back.
async fn the_transaction_is_nobody_elses_to_end(server: Server) {
    let (_database, pool) = accounts(server, "inside").await;
    let tx = pool.begin().await.unwrap();
    tx.execute(INSERT, &[&3]).await.unwrap();
    for (sql, word) in [
        ("commit", "COMMIT"),
        ("/*!50000 commit */", "COMMIT"),
        ("rollback", "ROLLBACK"),
        ("rollback to savepoint cenote_1", "ROLLBACK"),
        ("begin", "BEGIN"),
        ("start transaction", "START"),
        ("savepoint a", "SAVEPOINT"),
        ("release savepoint a", "RELEASE"),
        ("xa start 'a'", "XA"),
        ("set autocommit = 1", "autocommit"),
        ("create table other(id int)", "CREATE"),
        ("create index other on account(balance)", "CREATE"),
        ("alter table account add column more int", "ALTER"),
        ("drop table account", "DROP"),
        ("truncate account", "TRUNCATE"),
        ("rename table account to other", "RENAME"),
        ("lock tables account write", "LOCK"),
        ("unlock tables", "UNLOCK"),
        ("analyze table account", "ANALYZE"),
        ("grant select on *.* to nobody", "GRANT"),
        ("flush tables", "FLUSH"),
    ] {
        let before = pool.stats().bytes_written;
        is_refused_for(&tx.execute(sql, &[]).await.expect_err(sql), word);
        is_refused_for(&tx.query_text(sql).await.expect_err(sql), word);
        is_refused_for(&tx.call(sql, &[]).await.expect_err(sql), word);
        is_refused_for(&tx.call_text(sql).await.expect_err(sql), word);
        assert_eq!(pool.stats().bytes_written, before, "{sql}: nothing was sent");
    }
    tx.execute("create temporary table mine(id int)", &[]).await.unwrap();
    tx.execute("insert into mine values (3)", &[]).await.unwrap();
    tx.execute("set @mine = 1", &[]).await.unwrap();
    tx.execute("drop temporary table mine", &[]).await.unwrap();
    assert_eq!(ids(&pool).await, [1, 2], "it is still open");
    tx.commit().await.unwrap();
    assert_eq!(ids(&pool).await, [1, 2, 3]);
}

/// A text that was learned where a table is seen which nobody else sees.
async fn what_was_learned_inside_holds_outside_only_as_far_as_it_is_true(server: Server) {
    let (_database, pool) = accounts(server, "learned_inside").await;
    let select = "select * from fresh";
    let tx = pool.begin().await.unwrap();
    tx.execute("create temporary table fresh(id int not null)", &[]).await.unwrap();
    tx.execute("insert into fresh values (1)", &[]).await.unwrap();
    assert_eq!(tx.query_as::<(i32,)>(select, &[]).await.unwrap(), [(1,)]);
    for _ in 0..3 {
        let error = pool.query(select, &[]).await.unwrap_err();
        assert_eq!(error.code(), Some(ErrorCode::UNKNOWN_TABLE), "{error}");
    }
    assert_eq!(tx.query_as::<(i32,)>(select, &[]).await.unwrap(), [(1,)], "inside it is as it was");
    tx.rollback().await.unwrap();
    all_leases_are_back(&pool).await;
    assert_eq!(pool.query(select, &[]).await.unwrap_err().code(), Some(ErrorCode::UNKNOWN_TABLE));

    // Another one under the same name, with other columns.
    pool.execute("create table fresh(name text, id bigint)", &[]).await.unwrap();
    pool.execute("insert into fresh values ('a', 2)", &[]).await.unwrap();
    let tx = pool.begin().await.unwrap();
    tx.execute("create temporary table fresh(at double)", &[]).await.unwrap();
    tx.execute("insert into fresh values (0.5)", &[]).await.unwrap();
    assert_eq!(tx.query_as::<(f64,)>(select, &[]).await.unwrap(), [(0.5,)]);
    for row in join_all((0..20).map(|_| pool.query_as::<(String, i64)>(select, &[]))).await {
        assert_eq!(row.unwrap(), [("a".to_owned(), 2)]);
    }
    tx.rollback().await.unwrap();
    all_leases_are_back(&pool).await;
    for row in join_all((0..20).map(|_| pool.query_as::<(String, i64)>(select, &[]))).await {
        assert_eq!(row.unwrap(), [("a".to_owned(), 2)]);
    }
}

/// SET TRANSACTION is for the transaction that comes next, whoever that belongs to.
async fn what_its_isolation_was_to_be_is_not_left_for_the_next(server: Server) {
    for in_flight_max in [128, 1] {
        let database = OwnDatabase::create(server, "torn").await;
        let admin = database.admin().await;
        watch_transactions(&admin).await;
        let proxy = Proxy::start(&server.url());
        let pool = open(proxy.through(database.settings()).pool_size(1).max_pipeline(in_flight_max));
        fill(&pool).await;
        proxy.replace(Direction::ToServer, b"START TRANSACTION READ WRITE", b"BOGUS TRANSACTION READ WRITE");
        let options = TransactionOptions::new().isolation_level(IsolationLevel::Serializable).read_only(false);
        let tx = pool.begin_with(options).await.unwrap();
        tx.query("select id from account where id = 99", &[]).await.unwrap_err();
        drop(tx);
        let tx = pool.begin().await.unwrap();
        assert_eq!(shown(&admin, &tx).await, "repeatable read, read write", "with {in_flight_max} in flight at most");
        tx.commit().await.unwrap();
        all_leases_are_back(&pool).await;
    }
}
