//! Leases on MySQL and MariaDB: a session for one caller, who leaves nothing of it to the next, whatever he did and however
//! he went.

use std::time::Duration;

use cenote_mysql::{ErrorCode, Pool};
use cenote_tests::mysql::{Admin, OwnDatabase, OwnUser, Server, open, settings, settings_at};
use cenote_tests::{
    Direction, PrivateServer, Proxy, drop_after_polls, must_end, on_each_server, unique_name, wait_until,
};

on_each_server!(
    what_one_leaves_behind_is_gone_for_the_next,
    what_a_transaction_leaves_behind_is_gone_for_the_next,
    a_session_that_was_reset_is_as_after_its_log_in,
    the_default_database_is_what_it_was,
    statements_that_were_prepared_before_are_not_run_as_they_were_then,
    roles_are_those_of_the_log_in,
    statements_are_prepared_anew_when_a_session_was_reset,
    emoji_make_the_round_trip_behind_a_reset_whatever_the_servers_character_set,
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

/// The one value of a query, as text; NULL is empty.
async fn text(pool: &Pool, sql: &str) -> String {
    let row = pool.query_one(sql, &[]).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    row.get::<_, Option<String>>(0).unwrap().unwrap_or_default()
}

async fn session(pool: &Pool) -> i64 {
    pool.query_one("select connection_id()", &[]).await.unwrap().get(0).unwrap()
}

async fn known(pool: &Pool, number: i64) {
    assert_eq!(pool.query_one(KNOWN, &[&number]).await.unwrap().get::<_, i64>(0).unwrap(), number);
}

/// A way to change a session, and what shows it: on the lease, and to anybody who has a pool.
struct Change {
    statements: &'static [&'static str],
    look: &'static str,
}

const CHANGES: &[Change] = &[
    Change {
        statements: &["select get_lock(concat('left ', connection_id()), 10)"],
        look: "select cast(coalesce(is_used_lock(concat('left ', connection_id())), 0) as char)",
    },
    Change { statements: &["set sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES'"], look: "select @@sql_mode" },
    Change { statements: &["set time_zone = '+05:00'"], look: "select @@time_zone" },
    Change { statements: &["set names latin1"], look: "select concat(@@character_set_client, @@collation_connection)" },
    Change { statements: &["set character_set_results = null"], look: "select @@character_set_results" },
    Change {
        statements: &["set session transaction isolation level serializable"],
        look: "select @@transaction_isolation",
    },
    Change { statements: &["set autocommit = 0"], look: "select cast(@@autocommit as char)" },
    Change { statements: &["set autocommit = 0", "do 1"], look: "select cast(@@autocommit as char)" },
    Change { statements: &["set foreign_key_checks = 0"], look: "select cast(@@foreign_key_checks as char)" },
    Change { statements: &["call alter_session()"], look: "select @@lc_time_names" },
    Change { statements: &["/*!50000 set */ lc_time_names = 'de_DE'"], look: "select @@lc_time_names" },
    Change {
        statements: &["start transaction", "insert into item values (1)"],
        look: "select cast(count(*) as char) from item",
    },
    Change { statements: &["begin", "set lc_time_names = 'de_DE'"], look: "select @@lc_time_names" },
];

async fn prepare(server: Server, test: &str) -> (OwnDatabase, Pool) {
    let database = OwnDatabase::create(server, test).await;
    let pool = open(database.settings().pool_size(1));
    pool.execute("create table item (id int primary key)", &[]).await.unwrap();
    pool.execute("create procedure alter_session() set lc_time_names = 'de_DE'", &[]).await.unwrap();
    (database, pool)
}

/// pgdog 1407, odyssey 810.
async fn what_one_leaves_behind_is_gone_for_the_next(server: Server) {
    let (_database, pool) = prepare(server, "left_behind").await;
    let first = session(&pool).await;
    for (number, Change { statements, look }) in (1..).zip(CHANGES) {
        let before = text(&pool, look).await;
        let lease = pool.lease().await.unwrap();
        for sql in *statements {
            lease.query(sql, &[]).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
        }
        let row = lease.query_one(look, &[]).await.unwrap();
        let changed = row.get_bytes(0).unwrap().unwrap_or_default();
        assert_ne!(changed, before.as_bytes(), "{statements:?} should show by {look}");
        drop(lease);
        assert_eq!(text(&pool, look).await, before, "{statements:?}");
        known(&pool, number).await;
        assert_eq!(pool.stats().leases_restored, number as u64, "{statements:?}");
    }
    assert_eq!(session(&pool).await, first, "it was the same connection all the time");
    assert_eq!((pool.stats().connects, pool.stats().leases_closed, pool.stats().quarantines), (1, 0, 0));
}

/// The same when it was done in a transaction of ours.
async fn what_a_transaction_leaves_behind_is_gone_for_the_next(server: Server) {
    let (_database, pool) = prepare(server, "left_by_tx").await;
    for Change { statements, look } in CHANGES {
        if ["begin", "start transaction", "set autocommit = 0"].iter().any(|word| statements.contains(word)) {
            continue;
        }
        let before = text(&pool, look).await;
        for commits in [true, false] {
            let tx = pool.begin().await.unwrap();
            for sql in *statements {
                let ran = tx.query(sql, &[]).await;
                // It cannot be set within one.
                assert!(ran.is_ok() || sql.contains("isolation"), "{sql}: {ran:?}");
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

/// All that can be seen of it.
async fn a_session_that_was_reset_is_as_after_its_log_in(server: Server) {
    let (database, pool) = prepare(server, "as_new").await;
    // These say when it is, which session, or what its last statement was.
    const OWN: &[&str] = &[
        "error_count",
        "gtid_next",
        "identity",
        "insert_id",
        "last_gtid",
        "last_insert_id",
        "pseudo_thread_id",
        "rand_seed1",
        "rand_seed2",
        "statement_id",
        "timestamp",
        "warning_count",
    ];
    let lines = async |pool: &Pool| {
        let rows = pool.query_text("show session variables").await.unwrap();
        let lines = rows.iter().map(|row| (row.get::<_, String>(0).unwrap(), row.get::<_, String>(1).unwrap()));
        lines.filter(|(name, _)| !OWN.contains(&&**name)).collect::<Vec<_>>()
    };
    let fresh = open(database.settings().pool_size(1));
    let expected = lines(&fresh).await;
    assert!(expected.len() > 100, "{expected:?}");

    let lease = pool.lease().await.unwrap();
    for sql in [
        "set @left = 'here'",
        "set sql_mode = '', names latin1",
        "set session max_execution_time = 77",
        "set session max_statement_time = 77",
        "set session transaction isolation level read uncommitted",
        "set session wait_timeout = 77, session sort_buffer_size = 65536, session sql_select_limit = 7",
        "set session group_concat_max_len = 77",
        "set session time_zone = '+03:00', session lc_time_names = 'de_DE'",
        "set session unique_checks = 0, session foreign_key_checks = 0",
        "create temporary table left_here (id int)",
        "prepare left_here from 'select 1'",
        "select get_lock(concat('left ', connection_id()), 10)",
        "set session transaction read only",
    ] {
        // Some of it one of the servers does not know.
        if let Err(error) = lease.query_text(sql).await {
            assert_eq!(error.code().map(u16::from), Some(1193), "{sql}: {error}");
        }
    }
    let insert = "insert into item values (last_insert_id(7))";
    assert!(lease.execute(insert, &[]).await.is_err() || lease.query("select @left", &[]).await.is_ok());
    drop(lease);
    all_leases_are_back(&pool).await;
    let lease = pool.lease().await.unwrap();
    let row = lease.query_one("select @left is null, last_insert_id()", &[]).await.unwrap();
    assert_eq!(row.get::<_, i64>(0).unwrap(), 1, "user variables are gone");
    assert_eq!(row.get::<_, i64>(1).unwrap(), 0);
    let error = lease.query("select * from left_here", &[]).await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::UNKNOWN_TABLE), "temporary tables are gone");
    lease.query_text("execute left_here").await.expect_err("prepared statements are gone");
    let held = lease.query_one("select is_used_lock(concat('left ', connection_id()))", &[]).await.unwrap();
    assert_eq!(held.get::<_, Option<i64>>(0).unwrap(), None, "locks are gone");
    drop(lease);
    all_leases_are_back(&pool).await;
    let now = lines(&pool).await;
    let differ: Vec<_> = expected.iter().zip(&now).filter(|(expected, now)| expected != now).collect();
    assert!(differ.is_empty() && expected.len() == now.len(), "{differ:#?}");
    assert_eq!((pool.stats().connects, pool.stats().leases_closed), (1, 0));
}

/// A reset leaves it as it is.
async fn the_default_database_is_what_it_was(server: Server) {
    let database = OwnDatabase::create(server, "default").await;
    let look = "select database()";
    let elsewhere = "use information_schema";
    let pool = open(database.settings().pool_size(1));
    for in_transaction in [false, true] {
        if in_transaction {
            let tx = pool.begin().await.unwrap();
            tx.query(elsewhere, &[]).await.unwrap();
            assert_eq!(tx.query_one(look, &[]).await.unwrap().get::<_, String>(0).unwrap(), "information_schema");
            tx.commit().await.unwrap();
        } else {
            let lease = pool.lease().await.unwrap();
            lease.query(elsewhere, &[]).await.unwrap();
            assert_eq!(lease.query_one(look, &[]).await.unwrap().get::<_, String>(0).unwrap(), "information_schema");
        }
        assert_eq!(text(&pool, look).await, database.name());
    }
    assert_eq!((pool.stats().connects, pool.stats().leases_closed), (1, 0));

    // Where there was none, a session that has one cannot be given back.
    let url = server.url();
    let bare = url.rsplit_once('/').map_or(&*url, |(bare, _)| bare);
    let pool = open(settings_at(bare, "no_default").pool_size(1));
    assert_eq!(text(&pool, look).await, "");
    for (round, sql) in (0..).zip(["set @a = 1", elsewhere, "set @a = 1"]) {
        let lease = pool.lease().await.unwrap();
        lease.query(sql, &[]).await.unwrap();
        drop(lease);
        assert_eq!(text(&pool, look).await, "", "{sql}");
        assert_eq!(pool.stats().leases_closed, u64::from(round >= 1), "{sql}");
    }
    assert_eq!(pool.stats().connects, 2);

    // One that is gone is no session for anybody.
    let database = OwnDatabase::create(server, "dropped").await;
    let admin = database.admin().await;
    let pool = open(database.settings().pool_size(1));
    let lease = pool.lease().await.unwrap();
    lease.execute(&format!("drop database {}", database.name()), &[]).await.unwrap();
    drop(lease);
    all_leases_are_back(&pool).await;
    admin.run(&format!("create database {}", database.name())).await;
    assert_eq!(text(&pool, look).await, database.name());
    assert_eq!(pool.stats().connects, 2);
}

/// Whatever a text meant when it was prepared on this connection: it means what it says now.
async fn statements_that_were_prepared_before_are_not_run_as_they_were_then(server: Server) {
    let (one, two) = (OwnDatabase::create(server, "one").await, OwnDatabase::create(server, "two").await);
    for database in [&one, &two] {
        let admin = database.admin().await;
        admin.run("create table item (name varchar(50))").await;
        admin.run(&format!("insert into item values ('{}')", database.name())).await;
    }
    for in_flight_max in [128, 1] {
        let pool = open(one.settings().pool_size(1).max_pipeline(in_flight_max));
        let name = "select name from item";
        let quoted = "select \"name\" from item";
        assert_eq!(text(&pool, name).await, one.name());
        assert_eq!(text(&pool, quoted).await, "name");
        let lease = pool.lease().await.unwrap();
        let in_lease = async |sql: &str| lease.query_one(sql, &[]).await.unwrap().get::<_, String>(0).unwrap();
        for (database, round) in [&two, &one, &two].into_iter().zip(0..) {
            let switch = format!("use {}", database.name());
            if round == 2 {
                lease.query_text(&switch).await.unwrap();
            } else {
                lease.execute(&switch, &[]).await.unwrap();
            }
            assert_eq!(in_lease(name).await, database.name());
        }
        assert_eq!(in_lease(quoted).await, "name");
        lease.execute("set sql_mode = 'ANSI_QUOTES'", &[]).await.unwrap();
        assert_eq!(in_lease(quoted).await, two.name());
        lease.call_text("set sql_mode = ''").await.unwrap();
        assert_eq!(in_lease(quoted).await, "name");
        drop(lease);
        assert_eq!(text(&pool, name).await, one.name());
        assert_eq!(text(&pool, quoted).await, "name");
        assert_eq!((pool.stats().connects, pool.stats().leases_closed), (1, 0));
    }
}

async fn roles_are_those_of_the_log_in(server: Server) {
    let admin = Admin::connect(server).await;
    let user = OwnUser::create(server, "identified by 'secret'").await;
    let role = format!("{}_r", user.name());
    admin.run(&format!("create role {role}")).await;
    admin.run(&format!("grant {role} to {}", user.name())).await;
    let default = match server {
        Server::Mysql => format!("set default role {role} to {}", user.name()),
        Server::Mariadb => format!("set default role {role} for {}", user.name()),
    };
    admin.run(&default).await;
    let pool = open(settings(server, "roles").pool_size(1).user(user.name()).password("secret"));
    let look = "select current_role()";
    let before = text(&pool, look).await;
    assert!(before.contains(&role), "{before}");
    let lease = pool.lease().await.unwrap();
    lease.query_text("set role none").await.unwrap();
    let row = lease.query_one(look, &[]).await.unwrap();
    assert_ne!(row.get::<_, Option<String>>(0).unwrap().unwrap_or_default(), before);
    drop(lease);
    // No reset undoes it.
    let now = text(&pool, look).await;
    admin.run(&format!("drop role {role}")).await;
    assert_eq!(now, before);
    assert_eq!((pool.stats().connects, pool.stats().leases_closed), (2, 1));
}

async fn statements_are_prepared_anew_when_a_session_was_reset(server: Server) {
    let admin = Admin::connect(server).await;
    let pool = open(settings(server, "prepared_anew").pool_size(1));
    for round in 0..50_i64 {
        known(&pool, round).await;
        let lease = pool.lease().await.unwrap();
        lease.execute("set @a = 1", &[]).await.unwrap();
        let row = lease.query_one(KNOWN, &[&round]).await.unwrap();
        assert_eq!(row.get::<_, i64>(0).unwrap(), round);
        lease.query_one("select 'by the lease'", &[]).await.unwrap();
        drop(lease);
        pool.query_one("select 'by the lease'", &[]).await.unwrap();
        assert_eq!(pool.stats().leases_restored, round as u64 + 1);
        assert_eq!(pool.stats().lanes[0].prepared, 1, "those of before are forgotten");
    }
    assert_eq!((pool.stats().connects, pool.stats().leases_closed), (1, 0));
    must_end("the close", pool.close(AMPLE)).await;
    admin.wait_for_no_session(&pool).await;
}

/// MySqlConnector 66 and 1090, boost 187, mariadb-nodejs 38.
async fn emoji_make_the_round_trip_behind_a_reset_whatever_the_servers_character_set(server: Server) {
    const EMOJI: &str = "😀 ä 漢";
    let private = PrivateServer::mysql(server, "latin1").await;
    let admin = Admin::connect_to(private.admin_url()).await;
    admin.run("create table cenote.words (id int primary key, word text character set utf8mb4)").await;
    admin.run("set global character_set_server = latin1").await;
    admin.run("set global character_set_client = latin1, global character_set_results = latin1").await;
    admin.run("set global character_set_connection = latin1").await;
    let pool = open(settings_at(private.url(), "emoji").pool_size(1));
    for id in 0..4 {
        let lease = pool.lease().await.unwrap();
        lease.execute("set @a = 1", &[]).await.unwrap();
        lease.execute("insert into words values (?, ?)", &[&(id * 2), &EMOJI]).await.unwrap();
        drop(lease);
        all_leases_are_back(&pool).await;
        assert_eq!(pool.stats().leases_restored, id as u64 + 1);
        pool.execute("insert into words values (?, ?)", &[&(id * 2 + 1), &EMOJI]).await.unwrap();
        let literal = format!("select word from words where word = '{EMOJI}'");
        let words = pool.query_text(&literal).await.unwrap();
        assert_eq!(words.len(), id as usize * 2 + 2);
        for word in words.iter().chain(&pool.query("select word from words", &[]).await.unwrap()) {
            assert_eq!(word.get::<_, &str>(0).unwrap(), EMOJI);
        }
    }
    assert_eq!((pool.stats().connects, pool.stats().leases_closed), (1, 0));
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
        let ((), lease) = tokio::join!(known(&pool, 2), pool.lease());
        lease.unwrap().query_one(KNOWN, &[&3]).await.unwrap();
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
