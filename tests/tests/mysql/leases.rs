//! Leases on MySQL and MariaDB: a session for one caller, who leaves nothing of it to the next, whatever he did and however
//! he went.

use std::time::Duration;

use cenote_mysql::Pool;
use cenote_tests::mysql::{Admin, OwnDatabase, Server, open, settings};
use cenote_tests::{Direction, Proxy, drop_after_polls, must_end, on_each_server, unique_name, wait_until};

on_each_server!(
    a_transaction_that_is_dropped_is_rolled_back_at_once,
    a_runtime_that_ends_with_a_transaction_open_leaves_none,
    a_large_result_that_nobody_waits_for_holds_up_nobody,
    a_lease_whose_server_falls_silent_is_closed_when_it_is_dropped,
    a_lease_whose_session_was_ended_fails_for_ever_and_gives_its_place_back,
    a_transaction_that_loses_its_connection_gives_its_place_back,
    what_was_learned_by_a_lease_stays_refused_on_the_pool,
    who_learns_a_text_and_is_stuck_blocks_nobody_on_the_other_side,
    a_lease_may_ask_what_its_own_last_statement_left,
);

const KNOWN: &str = "select ? as known";

/// Nothing waits for this to pass.
const AMPLE: Duration = Duration::from_secs(3_600);

async fn all_leases_are_back(pool: &Pool) {
    wait_until("all leases are back", async || pool.stats().leases.is_empty()).await;
}

async fn known(pool: &Pool, number: i64) {
    assert_eq!(pool.query_one(KNOWN, &[&number]).await.unwrap().get::<_, i64>(0).unwrap(), number);
}

/// bun 36075, asyncmy 36: nobody has to borrow the connection for that.
async fn a_transaction_that_is_dropped_is_rolled_back_at_once(server: Server) {
    let database = OwnDatabase::create(server, "dropped").await;
    let admin = database.admin().await;
    let pool = open(database.settings().pool_size(2));
    pool.execute("create table item (id int primary key)", &[]).await.unwrap();
    let insert = "insert into item values (1)";
    for way in ["a transaction", "a lease", "a lease's transaction", "in flight", "a savepoint"] {
        if way == "in flight" {
            let tx = pool.begin().await.unwrap();
            assert!(drop_after_polls(1, tx.execute(insert, &[])).await.ready().is_none());
        } else if way == "a transaction" {
            let tx = pool.begin().await.unwrap();
            tx.execute(insert, &[]).await.unwrap();
        } else if way == "a savepoint" {
            let mut tx = pool.begin().await.unwrap();
            tx.savepoint().await.unwrap().execute(insert, &[]).await.unwrap();
        } else {
            let mut lease = pool.lease().await.unwrap();
            if way == "a lease" {
                lease.execute("begin", &[]).await.unwrap();
                lease.execute(insert, &[]).await.unwrap();
                assert!(lease.is_in_transaction());
            } else {
                lease.begin().execute(insert, &[]).await.unwrap();
            }
        }
        // It would wait if anybody still had the row, and fail if it was there.
        admin.run("set innodb_lock_wait_timeout = 100").await;
        must_end(way, admin.run(insert)).await;
        admin.run("delete from item").await;
        all_leases_are_back(&pool).await;
    }
    assert_eq!((pool.stats().leases_closed, pool.stats().connections_lost), (0, 0));
}

/// Whoever ends a thread ends its transactions.
async fn a_runtime_that_ends_with_a_transaction_open_leaves_none(server: Server) {
    let database = OwnDatabase::create(server, "runtime_ends").await;
    let admin = database.admin().await;
    let pool = open(database.settings().pool_size(2));
    admin.run("create table item (id int primary key)").await;
    let other = pool.clone();
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (told, is_told) = std::sync::mpsc::channel();
        runtime.spawn(async move {
            let tx = other.begin().await.unwrap();
            tx.execute("insert into item values (1)", &[]).await.unwrap();
            told.send(()).unwrap();
            std::future::pending::<()>().await;
        });
        while is_told.try_recv().is_err() {
            runtime.block_on(tokio::task::yield_now());
        }
    });
    must_end("the thread", async { tokio::task::spawn_blocking(|| thread.join()).await }).await.unwrap().unwrap();
    all_leases_are_back(&pool).await;
    must_end("a row that nobody has", admin.run("insert into item values (1)")).await;
    must_end("a lease", pool.begin()).await.unwrap().execute("delete from item", &[]).await.unwrap();
}

/// mysql_async 45: what nobody reads any more.
async fn a_large_result_that_nobody_waits_for_holds_up_nobody(server: Server) {
    let database = OwnDatabase::create(server, "unread").await;
    let pool = open(database.settings().pool_size(2));
    pool.execute("create table wide (id int primary key, filler text)", &[]).await.unwrap();
    for number in 0..60 {
        pool.execute("insert into wide values (?, repeat('x', 60000))", &[&number]).await.unwrap();
    }
    known(&pool, 0).await;
    for round in 1..=3 {
        let reading = tokio::spawn({
            let pool = pool.clone();
            async move {
                let tx = pool.begin().await?;
                tx.query("select a.filler from wide a join wide b on b.id < 15", &[]).await?;
                tx.commit().await
            }
        });
        let before = pool.stats().bytes_read;
        wait_until("some of it has come", async || pool.stats().bytes_read > before + 100_000).await;
        reading.abort();
        while !pool.stats().leases.is_empty() {
            for number in 0..10 {
                must_end("a neighbour", known(&pool, number)).await;
            }
        }
        let lease = must_end("the next lease", pool.lease()).await.unwrap();
        assert_eq!(lease.query_one(KNOWN, &[&round]).await.unwrap().get::<_, i64>(0).unwrap(), round);
    }
}

/// asyncpg 431: the way back is bounded, and the place in the pool is free then.
async fn a_lease_whose_server_falls_silent_is_closed_when_it_is_dropped(server: Server) {
    let proxy = Proxy::start(&server.url());
    let pool = open(proxy.through(settings(server, "silent")).pool_size(1).acquire_timeout(AMPLE));
    let tx = pool.begin().await.unwrap();
    tx.query_one(KNOWN, &[&1]).await.unwrap();
    proxy.silence();
    drop(tx);
    must_end("those who wait for its place", async {
        // Whichever comes first: the lease is given back without waiting for the other.
        let leased = async { pool.lease().await.unwrap().query_one(KNOWN, &[&3]).await.unwrap() };
        tokio::join!(known(&pool, 2), leased);
    })
    .await;
    let stats = pool.stats();
    assert_eq!((stats.leases_closed, stats.connects), (1, 2), "{stats:?}");
    all_leases_are_back(&pool).await;
}

/// Whoever ends the session: what a lease had is gone with it, and the lease says so each time.
async fn a_lease_whose_session_was_ended_fails_for_ever_and_gives_its_place_back(server: Server) {
    let admin = Admin::connect(server).await;
    let pool = open(settings(server, "ended").pool_size(2));
    for round in 0..10_i64 {
        let mut lease = pool.lease().await.unwrap();
        if round % 2 == 0 {
            lease.query_one(KNOWN, &[&round]).await.unwrap();
        }
        let held = pool.stats().leases[0].lane;
        admin.terminate(&pool).await;
        wait_until("it is noticed", async || pool.stats().leases.iter().all(|lease| lease.lane != held)).await;
        for _ in 0..3 {
            let error = lease.query_one(KNOWN, &[&round]).await.expect_err("the session is gone");
            assert!(error.is_network() && error.was_sent() == Some(false), "{error}");
        }
        let tx = lease.begin();
        tx.query_one(KNOWN, &[&round]).await.expect_err("the session is gone");
        // Nothing of it was sent, so there is nothing that was not done.
        let _ = tx.commit().await;
        drop(lease);
        let next = must_end("the next lease", pool.lease()).await.unwrap();
        assert_eq!(next.query_one(KNOWN, &[&round]).await.unwrap().get::<_, i64>(0).unwrap(), round);
    }
    all_leases_are_back(&pool).await;
}

/// drizzle 6114, go 1.9.3: START TRANSACTION, a statement, or COMMIT meets a connection that is gone.
async fn a_transaction_that_loses_its_connection_gives_its_place_back(server: Server) {
    let database = OwnDatabase::create(server, "loses").await;
    let admin = database.admin().await;
    admin.run("create table item (id int primary key)").await;
    let proxy = Proxy::start(&server.url());
    let pool = open(proxy.through(database.settings()).pool_size(1));
    let insert = "insert into item values (?)";
    pool.execute(insert, &[&0]).await.unwrap();
    for id in 1..=10 {
        let tx = pool.begin().await.unwrap();
        proxy.reset();
        let error = tx.execute(insert, &[&id]).await.expect_err("the connection is gone");
        assert!(error.is_network(), "{error}");
        drop(tx);
        let tx = must_end("the next transaction", pool.begin()).await.unwrap();
        tx.execute(insert, &[&id]).await.unwrap();
        proxy.stall(Direction::ToServer);
        let (outcome, ()) = tokio::join!(biased; tx.commit(), async {
            tokio::task::yield_now().await;
            proxy.reset();
        });
        proxy.resume(Direction::ToServer);
        let error = outcome.expect_err("the connection is gone");
        assert!(error.is_network() && error.was_sent() == Some(true), "{error}");
        must_end("an ordinary query", known(&pool, id)).await;
        all_leases_are_back(&pool).await;
    }
    wait_until("none of it was committed", async || admin.number("select count(*) from item", ()).await == 1).await;
    assert!(pool.stats().connections() <= 1);
}

/// What a lease may do is not what everybody may; whichever of them is first to use a text.
async fn what_was_learned_by_a_lease_stays_refused_on_the_pool(server: Server) {
    let pool = open(settings(server, "stays_refused").pool_size(2));
    for round in 0..2 {
        let lease = pool.lease().await.unwrap();
        for sql in [
            "set lc_time_names = 'de_DE'",
            "set @here = 1",
            "select @here",
            "begin",
            "savepoint here",
            "commit",
            "create temporary table here (id int)",
            "drop temporary table here",
            "select get_lock('here and now', 10)",
            "do release_all_locks()",
            "use information_schema",
            "show warnings",
            "select last_insert_id()",
            "/*!50000 set */ @here = 2",
        ] {
            lease.query(sql, &[]).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
            let written = pool.stats().bytes_written;
            for _ in 0..2 {
                let error = pool.query(sql, &[]).await.expect_err(sql);
                assert!(error.is_caller() && error.code().is_none(), "{sql}: {error}");
                pool.execute(sql, &[]).await.expect_err(sql);
                pool.query_text(sql).await.expect_err(sql);
            }
            assert_eq!(pool.stats().bytes_written, written, "{sql}, round {round}");
        }
        drop(lease);
        all_leases_are_back(&pool).await;
    }
    assert_eq!((pool.stats().quarantines, pool.stats().leases_closed), (0, 0));
}

/// Somebody learns a text and does not come on: on the one side everybody, on the other a lease.
async fn who_learns_a_text_and_is_stuck_blocks_nobody_on_the_other_side(server: Server) {
    let pool = open(settings(server, "stuck_learner").pool_size(2).acquire_timeout(AMPLE));
    known(&pool, 0).await;
    let lease = pool.lease().await.unwrap();
    lease.query_one(KNOWN, &[&0]).await.unwrap();

    let sql = format!("select '{}'", unique_name("by_all"));
    let mut stuck = Box::pin(pool.query_one(&sql, &[]));
    assert!(futures_util::poll!(stuck.as_mut()).is_pending());
    must_end("a lease beside a stuck learner", lease.query_one(&sql, &[])).await.unwrap();
    must_end("the stuck one", stuck).await.unwrap();

    let sql = format!("select '{}'", unique_name("by_lease"));
    let mut stuck = Box::pin(lease.query_one(&sql, &[]));
    assert!(futures_util::poll!(stuck.as_mut()).is_pending());
    must_end("everybody beside a lease that learns", pool.query_one(&sql, &[])).await.unwrap();
    must_end("the stuck one", stuck).await.unwrap();
}

/// What is refused where the last statement may be a stranger's.
async fn a_lease_may_ask_what_its_own_last_statement_left(server: Server) {
    let database = OwnDatabase::create(server, "last").await;
    let pool = open(database.settings().pool_size(1));
    pool.execute("create table item (id int primary key auto_increment, name varchar(3))", &[]).await.unwrap();
    let lease = pool.lease().await.unwrap();
    let executed = lease.execute("insert ignore into item (name) values ('too long')", &[]).await.unwrap();
    assert_eq!(executed.warnings(), 1);
    let warnings = lease.query_text("show warnings").await.unwrap();
    assert!(warnings[0].get::<_, &str>("Message").unwrap().contains("name"));
    let last: u64 = lease.query_one("select last_insert_id()", &[]).await.unwrap().get(0).unwrap();
    assert_eq!(Some(last), executed.last_insert_id());
    lease.execute("update item set name = 'a'", &[]).await.unwrap();
    let row = lease.query_text("select row_count()").await.unwrap();
    assert_eq!(row[0].get::<_, i64>(0).unwrap(), 1);
    drop(lease);
    assert!(pool.stats().leases.is_empty(), "none of it needs a reset");
    assert_eq!(pool.stats().leases_restored, 0);
}
