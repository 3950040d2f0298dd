//! Leases: a session for one caller, who leaves nothing of it to the next, whatever he did and however he went.

use std::time::Duration;

use cenote_postgres::{Error, Pool, SqlState, Transaction};
use cenote_tests::{
    Admin, Direction, OwnSchema, Proxy, drop_after_polls, must_end, open, postgres_url, settings, unique_name,
    wait_until,
};

const KNOWN: &str = "select $1::int4 as known";

/// Nothing waits for this to pass.
const AMPLE: Duration = Duration::from_secs(3_600);

async fn all_leases_are_back(pool: &Pool) {
    wait_until("all leases are back", async || pool.stats().leases.is_empty()).await;
}

async fn text(pool: &Pool, sql: &str) -> String {
    pool.query_one(sql, &[]).await.unwrap_or_else(|error| panic!("{sql}: {error}")).get(0).unwrap()
}

async fn pid(pool: &Pool) -> i32 {
    pool.query_one("select pg_backend_pid()", &[]).await.unwrap().get(0).unwrap()
}

/// A way to change a session, and what shows it.
struct Change {
    statements: &'static [&'static str],
    look: &'static str,
}

const CHANGES: &[Change] = &[
    Change {
        statements: &["select pg_advisory_lock(hashtext(current_setting('application_name')))"],
        look: "select count(*)::text from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()",
    },
    Change {
        statements: &["create temp table left_here(id int)"],
        look: "select coalesce(to_regclass('left_here')::text, '')",
    },
    Change { statements: &["set search_path to elsewhere"], look: "select current_setting('search_path')" },
    Change {
        statements: &["select set_config('search_path', 'elsewhere', false)"],
        look: "select current_setting('search_path')",
    },
    Change {
        statements: &["do $$ begin perform set_config('search_path', 'elsewhere', false); end $$"],
        look: "select current_setting('search_path')",
    },
    Change { statements: &["set role cenote"], look: "select current_setting('role')" },
    Change {
        statements: &["set session characteristics as transaction read only"],
        look: "show transaction_read_only",
    },
    Change {
        statements: &["do $$ begin execute 'listen left_here'; end $$"],
        look: "select count(*)::text from pg_listening_channels()",
    },
    Change {
        statements: &["prepare left_here as select 1"],
        look: "select count(*)::text from pg_prepared_statements where from_sql",
    },
    Change {
        statements: &["declare left_here cursor with hold for select 1"],
        look: "select count(*)::text from pg_cursors where is_holdable",
    },
    Change {
        statements: &["begin", "set local search_path to elsewhere"],
        look: "select current_setting('search_path')",
    },
    Change {
        statements: &["begin", "select pg_advisory_xact_lock(hashtext(current_setting('application_name')))"],
        look: "select count(*)::text from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()",
    },
    Change {
        // As it is done where nobody can see it.
        statements: &["set cenote.left_here to '1'", "reset search_path", "discard plans"],
        look: "select coalesce(current_setting('cenote.left_here', true), '')",
    },
    // Nothing knows a prepared statement any more, least of all the one that looks.
    Change { statements: &["set work_mem to '1MB'", "deallocate all"], look: "show work_mem" },
    Change { statements: &["set work_mem to '1MB'"], look: "show work_mem" },
];

/// pgdog 1407, odyssey 810.
#[tokio::test]
async fn what_one_leaves_behind_is_gone_for_the_next() {
    let pool = open(settings("left_behind").pool_size(1));
    let first = pid(&pool).await;
    for (number, Change { statements, look }) in (1..).zip(CHANGES) {
        let before = text(&pool, look).await;
        let lease = pool.lease().await.unwrap();
        for sql in *statements {
            lease.query(sql, &[]).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
        }
        let changed: String = lease.query_one(look, &[]).await.unwrap().get(0).unwrap();
        assert_ne!(changed, before, "{statements:?} should show by {look}");
        drop(lease);
        assert_eq!(text(&pool, look).await, before, "{statements:?}");
        let lease = pool.lease().await.unwrap();
        let row = lease.query_one(look, &[]).await.unwrap();
        assert_eq!(row.get::<_, String>(0).unwrap(), before, "{statements:?}, for the next lease");
        drop(lease);
        assert_eq!(pool.query_one(KNOWN, &[&number]).await.unwrap().get::<_, i32>(0).unwrap(), number);
        assert_eq!(pool.stats().leases_restored, number as u64, "{statements:?}");
    }
    assert_eq!(pid(&pool).await, first, "it was the same connection all the time");
    assert_eq!((pool.stats().connects, pool.stats().leases_closed), (1, 0));
}

/// The same when it was committed in a transaction of ours.
#[tokio::test]
async fn what_a_transaction_leaves_behind_is_gone_for_the_next() {
    let pool = open(settings("left_by_transaction").pool_size(1));
    for Change { statements, look } in CHANGES {
        if statements.contains(&"begin") {
            continue;
        }
        let before = text(&pool, look).await;
        for commits in [true, false] {
            let tx = pool.begin().await.unwrap();
            for sql in *statements {
                tx.query(sql, &[]).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
            }
            if commits {
                tx.commit().await.unwrap();
            } else {
                drop(tx);
            }
            assert_eq!(text(&pool, look).await, before, "{statements:?}, committed: {commits}");
        }
    }
    assert_eq!((pool.stats().connects, pool.stats().leases_closed), (1, 0));
}

#[tokio::test]
async fn statements_stay_prepared_when_a_session_is_reset() {
    let pool = open(settings("stay_prepared").pool_size(1));
    let when = "select prepare_time::text from pg_prepared_statements where statement = $1 and not from_sql";
    pool.query_one(KNOWN, &[&1]).await.unwrap();
    let row = pool.query_one(when, &[&KNOWN]).await.unwrap();
    let prepared: String = row.get(0).unwrap();
    let lease = pool.lease().await.unwrap();
    lease.execute("set work_mem to '1MB'", &[]).await.unwrap();
    lease.query_one("select 'by the lease'", &[]).await.unwrap();
    drop(lease);
    all_leases_are_back(&pool).await;
    assert_eq!(pool.stats().leases_restored, 1);
    pool.query_one(KNOWN, &[&1]).await.unwrap();
    let rows = pool.query(when, &[&KNOWN]).await.unwrap();
    let now: Vec<String> = rows.iter().map(|row| row.get(0).unwrap()).collect();
    assert_eq!(now, [prepared], "it is the one that was prepared before");
    let before = pool.stats();
    pool.query_one("select 'by the lease'", &[]).await.unwrap();
    let after = pool.stats();
    assert_eq!(after.replies - before.replies, 1, "what a lease has learned is known");
    let at_the_server = pool.query_one("select count(*) from pg_prepared_statements", &[]).await.unwrap();
    assert_eq!(pool.stats().lanes[0].prepared as i64, at_the_server.get::<_, i64>(0).unwrap());
}

/// bun 36075, node-postgres 154: nobody has to borrow the connection for that.
#[tokio::test]
async fn a_transaction_that_is_dropped_is_rolled_back_at_once() {
    let schema = OwnSchema::create("dropped").await;
    let admin = schema.admin().await;
    let pool = open(schema.settings().pool_size(2));
    pool.execute("create table item(id int primary key)", &[]).await.unwrap();
    let insert = "insert into item values (1)";
    for way in ["a transaction", "a lease", "a lease's transaction", "in flight"] {
        let locks = async || {
            let sql = "select count(*) from pg_locks join pg_stat_activity using (pid) where application_name = $1";
            admin.number(sql, &[&pool.settings().application_name()]).await
        };
        if way == "in flight" {
            let tx = pool.begin().await.unwrap();
            assert!(drop_after_polls(1, tx.execute(insert, &[])).await.ready().is_none());
        } else if way == "a transaction" {
            let tx = pool.begin().await.unwrap();
            tx.execute(insert, &[]).await.unwrap();
            assert!(locks().await > 0);
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
        wait_until("it is rolled back", async || {
            let backends = admin.backends(&pool).await;
            locks().await == 0 && backends.iter().all(|backend| backend.state == "idle")
        })
        .await;
        // It would wait for ever if anybody still had the row.
        must_end(way, admin.run("insert into item values (1); delete from item")).await;
        all_leases_are_back(&pool).await;
    }
    assert_eq!((pool.stats().leases_closed, pool.stats().connections_lost), (0, 0));
}

/// Whoever ends a thread ends its transactions.
#[tokio::test]
async fn a_runtime_that_ends_with_a_transaction_open_leaves_none() {
    let schema = OwnSchema::create("runtime_ends").await;
    let admin = schema.admin().await;
    let pool = open(schema.settings().pool_size(2));
    admin.run("create table item(id int primary key); grant all on item to cenote").await;
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

/// pgdog PR 139, mysql_async 45: what nobody reads any more.
#[tokio::test]
async fn a_large_result_that_nobody_waits_for_holds_up_nobody() {
    let pool = open(settings("unread").pool_size(2));
    pool.query_one(KNOWN, &[&0]).await.unwrap();
    for round in 1..=3 {
        let reading = tokio::spawn({
            let pool = pool.clone();
            async move {
                let tx = pool.begin().await?;
                tx.query("select repeat('x', 1000) from generate_series(1, 60000)", &[]).await?;
                tx.commit().await
            }
        });
        let before = pool.stats().bytes_read;
        wait_until("some of it has come", async || pool.stats().bytes_read > before + 100_000).await;
        reading.abort();
        while !pool.stats().leases.is_empty() {
            for number in 0..10 {
                let row = must_end("a neighbour", pool.query_one(KNOWN, &[&number])).await.unwrap();
                assert_eq!(row.get::<_, i32>(0).unwrap(), number);
            }
        }
        let lease = must_end("the next lease", pool.lease()).await.unwrap();
        assert_eq!(lease.query_one(KNOWN, &[&round]).await.unwrap().get::<_, i32>(0).unwrap(), round);
    }
}

/// asyncpg 431: the way back is bounded, and the place in the pool is free then.
#[tokio::test]
async fn a_lease_whose_server_falls_silent_is_closed_when_it_is_dropped() {
    let proxy = Proxy::start(&postgres_url());
    let pool = open(proxy.through(settings("silent")).pool_size(1).acquire_timeout(AMPLE));
    let tx = pool.begin().await.unwrap();
    tx.query_one(KNOWN, &[&1]).await.unwrap();
    proxy.silence();
    drop(tx);
    must_end("those who wait for its place", async {
        // Whichever comes first: the lease is given back without waiting for the other.
        let leased = async { pool.lease().await.unwrap().query_one(KNOWN, &[&3]).await };
        let (row, leased) = tokio::join!(pool.query_one(KNOWN, &[&2]), leased);
        assert_eq!(row.unwrap().get::<_, i32>(0).unwrap(), 2);
        leased.unwrap();
    })
    .await;
    let stats = pool.stats();
    assert_eq!((stats.leases_closed, stats.connects), (1, 2), "{stats:?}");
    all_leases_are_back(&pool).await;
}

/// postgres.js PR 1155: a transaction whose connection is gone never goes on upon another.
#[tokio::test]
async fn a_transaction_that_idled_for_too_long_fails_for_ever() {
    let schema = OwnSchema::create("idled").await;
    let admin = schema.admin().await;
    admin.run("create table item(id int primary key); grant all on item to cenote").await;
    let options = format!("-c search_path={},public -c idle_in_transaction_session_timeout=100", schema.name());
    let pool = open(schema.settings().options(options).pool_size(2));
    pool.execute("insert into item values ($1)", &[&0]).await.unwrap();
    let tx = pool.begin().await.unwrap();
    tx.execute("insert into item values ($1)", &[&1]).await.unwrap();
    wait_until("the server has ended it", async || pool.stats().connections_lost == 1).await;
    for id in 2..10 {
        let error = tx.execute("insert into item values ($1)", &[&id]).await.expect_err("it is gone");
        assert!(error.is_network() && error.was_sent() == Some(false), "{error}");
        assert_eq!(error.code(), Some(SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT), "{error}");
    }
    let error = tx.commit().await.expect_err("it is gone");
    assert_eq!(error.code(), Some(SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT), "{error}");
    assert_eq!(admin.number("select count(*) from item", &[]).await, 1);
    all_leases_are_back(&pool).await;
    let tx = pool.begin().await.unwrap();
    tx.execute("insert into item values ($1)", &[&1]).await.unwrap();
    tx.commit().await.unwrap();
}

/// Whoever ends the session: what a lease had is gone with it, and the lease says so each time.
#[tokio::test]
async fn a_lease_whose_session_was_ended_fails_for_ever_and_gives_its_place_back() {
    let admin = Admin::connect().await;
    let pool = open(settings("ended").pool_size(2));
    for round in 0..10 {
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
        tx.commit().await.expect_err("nothing was done");
        drop(lease);
        let next = must_end("the next lease", pool.lease()).await.unwrap();
        assert_eq!(next.query_one(KNOWN, &[&round]).await.unwrap().get::<_, i32>(0).unwrap(), round);
    }
    all_leases_are_back(&pool).await;
}

/// drizzle 6114: BEGIN, a statement, or COMMIT meets a connection that is gone.
#[tokio::test]
async fn a_transaction_that_loses_its_connection_gives_its_place_back() {
    let schema = OwnSchema::create("loses").await;
    let admin = schema.admin().await;
    admin.run("create table item(id int primary key); grant all on item to cenote").await;
    let proxy = Proxy::start(&postgres_url());
    let pool = open(proxy.through(schema.settings()).pool_size(1));
    let insert = "insert into item values ($1)";
    pool.execute(insert, &[&0]).await.unwrap();
    for id in 1..=10 {
        // Before BEGIN has left.
        let tx = pool.begin().await.unwrap();
        proxy.reset();
        let error = tx.execute(insert, &[&id]).await.expect_err("the connection is gone");
        assert!(error.is_network(), "{error}");
        tx.commit().await.expect_err("the connection is gone");
        // COMMIT is on its way.
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
        must_end("an ordinary query", pool.query_one(KNOWN, &[&id])).await.unwrap();
        all_leases_are_back(&pool).await;
    }
    wait_until("none of it was committed", async || admin.number("select count(*) from item", &[]).await == 1).await;
    assert!(pool.stats().connections() <= 1);
}

/// What a lease may do is not what everybody may; whichever of them is first to use a text.
#[tokio::test]
async fn what_was_learned_by_a_lease_stays_refused_on_the_pool() {
    let pool = open(settings("stays_refused").pool_size(2));
    for round in 0..2 {
        let lease = pool.lease().await.unwrap();
        for sql in [
            "set work_mem to '2MB'",
            "begin",
            "lock table pg_class in access share mode",
            "declare c cursor for select 1",
            "fetch c",
            "commit",
            "create temp table here(id int)",
            "select pg_advisory_lock(1, 1)",
            "discard temp",
        ] {
            lease.query(sql, &[]).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
            let written = pool.stats().bytes_written;
            for _ in 0..2 {
                let error: Error = pool.query(sql, &[]).await.expect_err(sql);
                assert!(error.is_caller() && error.code().is_none(), "{sql}: {error}");
                pool.query_typed(sql, &[]).await.expect_err(sql);
                pool.batch().add(sql, &[]).run().await.expect_err(sql);
            }
            assert_eq!(pool.stats().bytes_written, written, "{sql}, round {round}");
        }
        for (sql, word) in
            [("copy pg_class to stdout", "COPY"), ("listen here", "LISTEN"), ("-- x\nLISTEN x", "LISTEN")]
        {
            let error = lease.query(sql, &[]).await.expect_err(sql);
            assert!(error.is_caller() && error.to_string().contains(word), "{error}");
            assert!(error.to_string().contains("not there yet"), "{error}");
        }
        drop(lease);
        all_leases_are_back(&pool).await;
    }
    assert_eq!((pool.stats().quarantines, pool.stats().leases_closed), (0, 0));
}

/// Somebody learns a text and does not come on: on the one side everybody, on the other a lease.
#[tokio::test]
async fn who_learns_a_text_and_is_stuck_blocks_nobody_on_the_other_side() {
    let pool = open(settings("stuck_learner").pool_size(2).acquire_timeout(AMPLE));
    pool.query_one(KNOWN, &[&0]).await.unwrap();
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

    let sql = format!("select '{}'", unique_name("typed"));
    let mut stuck = Box::pin(lease.query_typed(&sql, &[]));
    assert!(futures_util::poll!(stuck.as_mut()).is_pending());
    must_end("everybody beside a lease that learns", pool.query_typed(&sql, &[])).await.unwrap();
    must_end("the stuck one", stuck).await.unwrap();
}

/// In a transaction that has failed the server prepares nothing; who asked for it may have vanished before he heard of that.
/// Where the next one believed it prepared it would fail for it, and in a transaction there is no other try.
#[tokio::test]
async fn what_a_failed_transaction_could_not_prepare_is_prepared_by_the_next() {
    let pool = open(settings("not_prepared").pool_size(2));
    let mut lease = pool.lease().await.unwrap();
    lease.query_one(KNOWN, &[&0]).await.unwrap();
    for round in 0..4 {
        // Known, but not to the lease's connection.
        let sql = format!("select 'not prepared {round}'");
        pool.query_one(&sql, &[]).await.unwrap();
        let abandon = async |tx: &Transaction<'_>| {
            tx.query_one("select 1 / 0", &[]).await.unwrap_err();
            assert!(drop_after_polls(1, tx.query_one(&sql, &[])).await.ready().is_none());
        };
        if round < 2 {
            let tx = lease.begin();
            abandon(&tx).await;
            match round {
                0 => drop(tx),
                _ => tx.rollback().await.unwrap(),
            }
            let tx = lease.begin();
            tx.query_one(&sql, &[]).await.expect("the next transaction is in order");
            tx.commit().await.unwrap();
        } else {
            let mut tx = lease.begin();
            let savepoint = tx.savepoint().await.unwrap();
            abandon(&savepoint).await;
            match round {
                2 => drop(savepoint),
                _ => savepoint.rollback().await.unwrap(),
            }
            tx.query_one(&sql, &[]).await.expect("the transaction goes on");
            tx.commit().await.unwrap();
        }
    }
    drop(lease);
    // The same from one lease to the next.
    let sql = "select 'not prepared'";
    let other = pool.lease().await.unwrap();
    pool.query_one(sql, &[]).await.unwrap();
    drop(other);
    let tx = pool.begin().await.unwrap();
    tx.query_one("select 1 / 0", &[]).await.unwrap_err();
    assert!(drop_after_polls(1, tx.query_one(sql, &[])).await.ready().is_none());
    drop(tx);
    all_leases_are_back(&pool).await;
    let tx = pool.begin().await.unwrap();
    tx.query_one(sql, &[]).await.expect("the next transaction is in order");
    tx.commit().await.unwrap();
}

/// What drops prepared statements drops ours.
#[tokio::test]
async fn a_transaction_after_a_discard_is_in_order() {
    let pool = open(settings("discard").pool_size(1));
    pool.query_one(KNOWN, &[&0]).await.unwrap();
    let mut lease = pool.lease().await.unwrap();
    for round in 0..2 {
        lease.execute("discard all", &[]).await.unwrap();
        let tx = lease.begin();
        tx.query_one(KNOWN, &[&round]).await.expect("its statements are prepared anew");
        for _ in 0..2 {
            tx.execute("deallocate all", &[]).await.expect("this one as well");
            tx.query_one(KNOWN, &[&round]).await.expect("its statements are prepared anew");
        }
        tx.commit().await.unwrap();
    }
    drop(lease);
    pool.query_one(KNOWN, &[&0]).await.unwrap();
    assert_eq!(pool.stats().connects, 1);
}

/// Rows outlive the lease that they came from.
#[tokio::test]
async fn rows_may_be_kept_when_the_lease_has_gone_back() {
    let pool = open(settings("kept_rows").pool_size(1));
    let lease = pool.lease().await.unwrap();
    let rows = lease.query("select generate_series(1, 1000), repeat('x', 100)", &[]).await.unwrap();
    lease.execute("set work_mem to '3MB'", &[]).await.unwrap();
    drop(lease);
    for round in 0..100 {
        pool.query_one(KNOWN, &[&round]).await.unwrap();
    }
    let sum: i32 = rows.iter().map(|row| row.get::<_, i32>(0).unwrap()).sum();
    assert_eq!(sum, 500_500);
    assert!(rows.iter().all(|row| row.get::<_, &str>(1).unwrap().len() == 100));
}
