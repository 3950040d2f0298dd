//! What one leaves in a session of MySQL or MariaDB is gone for the next, whatever it was.

use std::time::Duration;

use cenote_mysql::{Error, ErrorCode, Lease, Pool};
use cenote_tests::mysql::{Admin, OwnDatabase, OwnUser, Server, open, settings, settings_at};
use cenote_tests::{PrivateServer, must_end, on_each_server, wait_until};

on_each_server!(
    what_one_leaves_behind_is_gone_for_the_next,
    what_a_transaction_leaves_behind_is_gone_for_the_next,
    no_session_speaks_anything_but_utf8mb4,
    what_last_insert_id_was_given_is_gone_for_the_next,
    a_session_that_was_reset_is_as_after_its_log_in,
    the_default_database_is_what_it_was,
    statements_that_were_prepared_before_are_not_run_as_they_were_then,
    roles_are_those_of_the_log_in,
    statements_are_prepared_anew_when_a_session_was_reset,
    emoji_make_the_round_trip_behind_a_reset_whatever_the_servers_character_set,
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
    Change { statements: &["set names utf8mb4 collate utf8mb4_bin"], look: "select @@collation_connection" },
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

async fn no_session_speaks_anything_but_utf8mb4(server: Server) {
    let pool = open(settings(server, "utf8mb4").pool_size(1));
    let mut lease = pool.lease().await.unwrap();
    let is_refused = |error: Error| {
        assert!(error.is_caller() && error.to_string().contains("utf8mb4"), "{error}");
    };
    for sql in ["set names latin1", "set character_set_results = null", "set character set latin1"] {
        is_refused(lease.execute(sql, &[]).await.expect_err(sql));
        is_refused(lease.query_text(sql).await.expect_err(sql));
        is_refused(lease.call_text(sql).await.expect_err(sql));
        let tx = lease.begin();
        is_refused(tx.execute(sql, &[]).await.expect_err(sql));
        tx.commit().await.unwrap();
    }
    lease.execute("set names utf8mb4 collate utf8mb4_bin", &[]).await.expect("it is spoken");
    lease.execute("set character_set_results = 'utf8mb4'", &[]).await.expect("it is spoken");
    let row = lease.query_one("select '😀 ä 漢'", &[]).await.unwrap();
    assert_eq!(row.get::<_, String>(0).unwrap(), "😀 ä 漢");
}

/// Only a lease may ask for it.
async fn what_last_insert_id_was_given_is_gone_for_the_next(server: Server) {
    let (_database, pool) = prepare(server, "last_id").await;
    let given =
        async |lease: &Lease| lease.query_one("select last_insert_id()", &[]).await.unwrap().get::<_, i64>(0).unwrap();
    for sql in ["select last_insert_id(77)", "select 1 + last_insert_id(70 + 7)"] {
        let lease = pool.lease().await.unwrap();
        lease.query(sql, &[]).await.unwrap();
        assert_eq!(given(&lease).await, 77, "{sql}");
        drop(lease);
        all_leases_are_back(&pool).await;
        assert_eq!(given(&pool.lease().await.unwrap()).await, 0, "{sql}");
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
        "set sql_mode = '', names utf8mb4 collate utf8mb4_bin",
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
