//! Nothing that one caller does may change the session of those who share the connection with him, on MySQL and MariaDB.

use std::time::Duration;

use cenote_mysql::{Error, ErrorCode, Pool};
use cenote_tests::mysql::{Admin, OwnDatabase, Server, open, settings, settings_at};
use cenote_tests::{Direction, PrivateServer, Proxy, must_end, on_each_server, wait_until};
use futures_util::future::join_all;

on_each_server!(
    what_a_backslash_hides_is_as_the_server_reads_it,
    what_would_change_the_session_is_refused_before_anything_is_sent,
    a_connection_left_in_a_transaction_is_closed_and_nobody_is_told_a_lie,
    a_connection_left_without_autocommit_is_closed,
    sessions_that_begin_without_autocommit_lose_nothing_unsaid,
    sessions_that_begin_in_a_transaction_are_not_used,
    what_ends_with_its_statement_is_let_through,
    a_trigger_that_fails_takes_nobody_with_it,
);

/// Each with a word that the error must hold, so that a person knows what was refused.
const REFUSED: &[(&str, &str)] = &[
    ("begin", "BEGIN"),
    ("  /* for the books */ Begin work", "BEGIN"),
    ("start transaction with consistent snapshot", "START"),
    ("/*x*/ begin", "BEGIN"),
    ("/*!50000 start*/ transaction", "START"),
    ("/*!99999 select*/ start transaction", "START"),
    ("/*M!100100 select*/ begin", "BEGIN"),
    ("# here\nbegin", "BEGIN"),
    ("commit", "COMMIT"),
    ("rollback", "ROLLBACK"),
    ("savepoint here", "SAVEPOINT"),
    ("release savepoint here", "RELEASE"),
    ("xa start 'here'", "XA"),
    ("set autocommit = 0", "SET"),
    ("set statement max_statement_time = 1 for select 1", "SET"),
    ("set names latin1", "utf8mb4"),
    ("use mysql", "USE"),
    ("lock tables world write", "LOCK"),
    ("unlock tables", "UNLOCK"),
    ("flush tables world with read lock", "lock"),
    ("prepare s1 from 'select 1'", "PREPARE"),
    ("execute s1", "EXECUTE"),
    ("execute immediate 'begin'", "EXECUTE"),
    ("deallocate prepare s1", "DEALLOCATE"),
    ("begin not atomic set @here = 1; end", "BEGIN"),
    ("if 1 then start transaction; end if", "IF"),
    ("while 1 do commit; end while", "WHILE"),
    ("handler world open", "HANDLER"),
    ("call somebody()", "CALL"),
    ("load data local infile '/etc/passwd' into table world", "LOAD"),
    ("create temporary table here (id int)", "temporary"),
    ("create or replace temporary table here (id int)", "temporary"),
    ("drop temporary table here", "temporary"),
    ("select get_lock('here', 1)", "GET_LOCK"),
    ("select `get_lock` /* here */ ('here', 1)", "GET_LOCK"),
    ("do release_all_locks()", "RELEASE_ALL_LOCKS"),
    ("select @here := 1", "variable"),
    ("select 1 into @here", "variable"),
    ("select @.here := 1", "variable"),
    ("select last_insert_id()", "LAST_INSERT_ID"),
    ("select found_rows()", "FOUND_ROWS"),
    ("select row_count()", "ROW_COUNT"),
    ("show warnings", "stranger"),
    ("get diagnostics @here = number", "GET"),
];

fn check(sql: &str, word: &str, error: &Error) {
    assert!(error.is_caller() && error.code().is_none(), "{sql}: {error}");
    assert!(error.to_string().contains(word), "{sql}: {error}");
}

/// Where a backslash is a letter like any other, it hides no quote; where it is none, the same text has no function in it.
async fn what_a_backslash_hides_is_as_the_server_reads_it(server: Server) {
    const HIDES: &str = "select '\\', get_lock('here', 1) -- '";
    const ESCAPES: &str = "select 'it\\'s @home'";
    let private = PrivateServer::mysql(server, "backslash").await;
    Admin::connect_to(private.admin_url()).await.run("set global sql_mode = 'NO_BACKSLASH_ESCAPES'").await;
    for as_text in [false, true] {
        // A pool that has never met its server does not know.
        let ask = async |pool: &Pool, sql: &str| match as_text {
            true => pool.query_text(sql).await,
            false => pool.query(sql, &[]).await,
        };
        let pool = open(settings_at(private.url(), "letter").pool_size(1));
        for _ in 0..2 {
            check(HIDES, "GET_LOCK", &ask(&pool, HIDES).await.expect_err("it locks"));
        }
        let pool = open(settings(server, "escape").pool_size(1));
        for _ in 0..2 {
            ask(&pool, ESCAPES).await.expect("it names no variable");
            let error = ask(&pool, HIDES).await.expect_err("it is none of the server's language");
            assert_eq!(error.code(), Some(ErrorCode::SYNTAX_ERROR), "{error}");
        }
        // A lease may have set it.
        let mut lease = pool.lease().await.unwrap();
        lease.execute("set sql_mode = 'NO_BACKSLASH_ESCAPES'", &[]).await.unwrap();
        let tx = lease.begin();
        tx.execute("do 0", &[]).await.unwrap();
        let hidden = "set @a = '\\', autocommit = 1 -- '";
        for error in [tx.execute(hidden, &[]).await.unwrap_err(), tx.query_text(hidden).await.unwrap_err()] {
            check(hidden, "autocommit", &error);
        }
        tx.rollback().await.unwrap();
    }
}

/// What every verb says to it.
async fn refuse(pool: &Pool, sql: &str, word: &str) {
    check(sql, word, &pool.query(sql, &[]).await.expect_err(sql));
    check(sql, word, &pool.query_one(sql, &[]).await.expect_err(sql));
    check(sql, word, &pool.query_opt(sql, &[]).await.expect_err(sql));
    check(sql, word, &pool.execute(sql, &[]).await.expect_err(sql));
    check(sql, word, &pool.query_text(sql).await.expect_err(sql));
}

async fn what_would_change_the_session_is_refused_before_anything_is_sent(server: Server) {
    let pool = open(settings(server, "refused").pool_size(1));
    refuse(&pool, "begin", "BEGIN").await;
    assert_eq!((pool.stats().connections(), pool.stats().connects), (0, 0), "not even a connection was made");
    pool.query_one("select 1", &[]).await.unwrap();
    let before = pool.stats();
    for (sql, word) in REFUSED {
        refuse(&pool, sql, word).await;
        assert_eq!(pool.stats().bytes_written, before.bytes_written, "{sql}: nothing was sent");
    }
    let after = pool.stats();
    assert_eq!((after.connects, after.quarantines), (1, 0), "{after:?}");
    pool.query_one("select 1", &[]).await.expect("the connection is as good as ever");
}

/// Puts one statement, which the proxy makes another of, among the inserts of forty neighbours on one connection.
async fn disturb(server: Server, test: &str, hidden: &str, meant: &str) {
    const NEIGHBOURS: i32 = 40;
    let database = OwnDatabase::create(server, test).await;
    let admin = database.admin().await;
    admin.run("create table item (id int primary key)").await;
    let proxy = Proxy::start(&server.url());
    proxy.replace(Direction::ToServer, hidden.as_bytes(), meant.as_bytes());
    let pool = open(proxy.through(database.settings()).pool_size(1));
    pool.execute("insert into item values (?)", &[&-1]).await.unwrap();
    pool.execute("insert into item values (? + 1000)", &[&-1]).await.unwrap();
    let before = admin.sessions(&pool).await;

    let neighbours = join_all((0..NEIGHBOURS).map(|id| {
        let pool = &pool;
        async move {
            if id == NEIGHBOURS / 2 {
                pool.query_text(hidden).await.map(|_| ())
            } else {
                pool.execute("insert into item values (?)", &[&id]).await?;
                pool.execute("insert into item values (? + 1000)", &[&id]).await.map(|_| ())
            }
        }
    }));
    let outcomes = must_end("neighbours of a statement that changed the session", neighbours).await;
    wait_until("the server has ended the session", async || {
        let now = admin.sessions(&pool).await;
        before.iter().all(|old| now.iter().all(|new| new.id != old.id))
    })
    .await;
    let kept: Vec<(i32,)> = admin.rows_as("select id from item", ()).await;
    for (id, outcome) in (0..).zip(outcomes) {
        match outcome {
            Err(error) if id == NEIGHBOURS / 2 => {
                assert!(error.is_caller() && error.to_string().contains("transaction"), "the offender: {error}");
            }
            Ok(()) if id == NEIGHBOURS / 2 => panic!("the offender was told that all is well"),
            Ok(()) => {
                assert!(kept.contains(&(id,)) && kept.contains(&(id + 1000,)), "{id} was told that its rows are kept");
            }
            Err(error) => {
                assert!(error.is_network(), "neighbour {id}: {error}");
                assert!(error.to_string().contains("transaction"), "it says why the connection was closed: {error}");
                assert!(!kept.contains(&(id + 1000,)), "neighbour {id} ran in a stranger's transaction that was kept");
            }
        }
    }
    assert_eq!(pool.stats().quarantines, 1);
    let state = pool.query_one("select @@autocommit", &[]).await.expect("the pool goes on");
    assert_eq!(state.get::<_, i64>(0).unwrap(), 1);
}

async fn a_connection_left_in_a_transaction_is_closed_and_nobody_is_told_a_lie(server: Server) {
    disturb(server, "left_open", "b3gin", "begin").await;
}

async fn a_connection_left_without_autocommit_is_closed(server: Server) {
    disturb(server, "autocommit_off", "sat autocommit = 0", "set autocommit = 0").await;
}

/// MySQL's status flags do not tell such sessions at first: a statement that begins a transaction does, and is told of it.
async fn sessions_that_begin_without_autocommit_lose_nothing_unsaid(server: Server) {
    let private = PrivateServer::mysql(server, "autocommit").await;
    let admin = Admin::connect_to(private.admin_url()).await;
    admin.run("create table cenote.item (id int primary key)").await;
    admin.run("set global autocommit = 0").await;
    let pool = open(settings_at(private.url(), "autocommit").pool_size(2));
    let outcomes = join_all((0..50).map(|id: i32| {
        let pool = &pool;
        async move { pool.execute("insert into item values (?)", &[&id]).await }
    }));
    let outcomes = must_end("inserts without autocommit", outcomes).await;
    // What the server is to roll back goes with its sessions.
    must_end("the close", pool.close(Duration::from_secs(60))).await;
    admin.wait_for_no_session(&pool).await;
    let kept: Vec<(i32,)> = admin.rows_as("select id from cenote.item", ()).await;
    for (id, outcome) in (0..).zip(outcomes) {
        match outcome {
            Ok(_) => assert!(kept.contains(&(id,)), "{id} was told that its row is kept"),
            Err(error) => {
                assert!(error.to_string().contains("autocommit") || error.is_network(), "{id}: {error}");
                assert!(!kept.contains(&(id,)), "{id} was told that its row is not kept");
            }
        }
    }
}

/// `init_connect` runs behind the log-in, for everyone but those who may do everything.
async fn sessions_that_begin_in_a_transaction_are_not_used(server: Server) {
    let private = PrivateServer::mysql(server, "init-connect").await;
    let admin = Admin::connect_to(private.admin_url()).await;
    for init in ["start transaction"] {
        admin.run(&format!("set global init_connect = '{init}'")).await;
        let settings = settings_at(private.url(), "init_connect").pool_size(1);
        let pool = open(settings.acquire_timeout(Duration::from_millis(500)));
        let outcome = must_end("a session that begins so", pool.query_one("select 1", &[])).await;
        let error = outcome.expect_err("nobody is to run in a transaction that another keeps open");
        assert_eq!(error.was_sent(), Some(false), "{init}: {error}");
        assert!(error.to_string().contains("autocommit"), "{init}: {error}");
        assert_eq!((pool.stats().lanes.len(), pool.stats().quarantines), (0, 0));
    }
}

/// What a statement does within its own transaction is no neighbour's concern.
async fn what_ends_with_its_statement_is_let_through(server: Server) {
    let pool = open(settings(server, "let_through").pool_size(1));
    for sql in [
        "select 'begin; set names latin1'",
        "select * from world where id = 1 for update",
        "select id from world where id = 1 lock in share mode",
        "explain select 1",
        "show variables like 'autocommit'",
        "do sleep(0)",
        "select `id` from `world` where id = 1",
        "select if(1, 2, 3), case 1 when 1 then 2 end, repeat('x', 3)",
        "select /*!50000 1 + */ 1",
        "analyze table world",
    ] {
        pool.query(sql, &[]).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
        pool.query_text(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    assert_eq!((pool.stats().connects, pool.stats().quarantines), (1, 0));
}

async fn a_trigger_that_fails_takes_nobody_with_it(server: Server) {
    let database = OwnDatabase::create(server, "trigger").await;
    let admin = database.admin().await;
    admin.run("create table item (id int primary key)").await;
    admin.run("create table noted (id int)").await;
    let body = "begin insert into noted values (new.id); \
                if new.id % 3 = 0 then signal sqlstate '45000' set message_text = 'by three'; end if; end";
    admin.run(&format!("create trigger note after insert on item for each row {body}")).await;
    let pool = open(database.settings().pool_size(1));
    let outcomes = join_all((0..90).map(|id: i32| {
        let pool = &pool;
        async move { pool.execute("insert into item values (?)", &[&id]).await }
    }));
    for (id, outcome) in (0..).zip(outcomes.await) {
        assert_eq!(outcome.is_err(), id % 3 == 0, "{id}: {outcome:?}");
    }
    for table in ["item", "noted"] {
        assert_eq!(admin.number(&format!("select count(*) from {table}"), ()).await, 60, "{table}");
    }
    assert_eq!((pool.stats().connects, pool.stats().quarantines), (1, 0));
}
