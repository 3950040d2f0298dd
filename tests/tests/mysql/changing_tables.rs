//! Tables that change under prepared statements: rows are read by the columns that came with them, every time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use cenote_mysql::{ErrorCode, Row};
use cenote_tests::mysql::{Admin, OwnDatabase, Server, open, settings_at};
use cenote_tests::{PrivateServer, must_end, on_each_server};
use futures_util::future::join_all;
use tokio::task::JoinSet;

on_each_server!(
    readers_get_the_right_types_while_the_table_changes,
    tables_are_flushed_under_load,
    a_table_that_is_made_anew_is_read_as_it_is,
    more_tables_than_the_server_keeps_open,
    rows_of_an_insert_come_every_time,
);

/// What every shape of the table holds, by the names of its columns.
fn check(row: &Row) {
    for column in row.columns() {
        match column.name() {
            "id" => assert_eq!(row.get::<_, i64>("id").unwrap(), 1),
            "a" => assert_eq!(row.get::<_, i64>("a").unwrap(), 7),
            "b" => assert_eq!(row.get::<_, &str>("b").unwrap(), "bee"),
            "c" => assert_eq!(row.get::<_, f64>("c").unwrap(), 1.5),
            other => panic!("a column {other} that no shape has"),
        }
    }
    assert!(row.len() >= 3, "{row:?}");
}

async fn readers_get_the_right_types_while_the_table_changes(server: Server) {
    const READERS: usize = 64;
    const ROUNDS: usize = 15;
    let database = OwnDatabase::create(server, "changing").await;
    let admin = database.admin().await;
    admin.run("create table t (id int primary key, a int, b varchar(10))").await;
    admin.run("insert into t values (1, 7, 'bee')").await;
    let pool = open(database.settings().pool_size(4));
    let (over, read, wide) = (Arc::new(AtomicBool::new(false)), Arc::default(), Arc::<AtomicUsize>::default());
    let mut readers = JoinSet::new();
    for _ in 0..READERS {
        let (pool, over, read, wide): (_, _, Arc<AtomicUsize>, _) =
            (pool.clone(), Arc::clone(&over), Arc::clone(&read), Arc::clone(&wide));
        readers.spawn(async move {
            while !over.load(Ordering::SeqCst) {
                let rows = pool.query("select * from t where id = ?", &[&1]).await.unwrap();
                assert_eq!(rows.len(), 1);
                check(&rows[0]);
                read.fetch_add(1, Ordering::SeqCst);
                wide.fetch_add(usize::from(rows[0].len() == 4), Ordering::SeqCst);
            }
        });
    }
    for _ in 0..ROUNDS {
        for change in [
            "alter table t modify a bigint",
            "alter table t add column c double default 1.5 first",
            "alter table t modify b text after id",
            "alter table t modify a smallint unsigned first",
            "alter table t drop column c",
            "alter table t modify id bigint unsigned, modify a tinyint after id",
            "alter table t modify id int, modify a int, modify b varchar(10) after a",
        ] {
            admin.run(change).await;
            let before = read.load(Ordering::SeqCst);
            let seen = async || read.load(Ordering::SeqCst) > before + READERS;
            cenote_tests::wait_until("this shape has been read", seen).await;
        }
    }
    over.store(true, Ordering::SeqCst);
    must_end("readers of a table that changes", readers.join_all()).await;
    assert!(wide.load(Ordering::SeqCst) > 0, "the column that comes and goes was seen");
    assert_eq!((pool.stats().connections_lost, pool.stats().in_flight()), (0, 0));
}

async fn tables_are_flushed_under_load(server: Server) {
    let database = OwnDatabase::create(server, "flushed").await;
    let admin = database.admin().await;
    admin.run("create table t (id int primary key, a int)").await;
    admin.run("insert into t values (1, 7)").await;
    admin.run("create view v as select id, a from t").await;
    let pool = open(database.settings().pool_size(2));
    let over = Arc::new(AtomicBool::new(false));
    let mut readers = JoinSet::new();
    for number in 0..32 {
        let (pool, over) = (pool.clone(), Arc::clone(&over));
        readers.spawn(async move {
            let mut read = 0;
            while read < 20 || !over.load(Ordering::SeqCst) {
                let sql = if number % 2 == 0 { "select a from t where id = ?" } else { "select a from v where id = ?" };
                assert_eq!(pool.query_one(sql, &[&1]).await.unwrap().get::<_, i32>(0).unwrap(), 7);
                read += 1;
            }
        });
    }
    for _ in 0..50 {
        admin.run("flush tables t").await;
        admin.run("create or replace view v as select id, a + 0 as a from t").await;
        admin.run("create or replace view v as select id, a from t").await;
    }
    over.store(true, Ordering::SeqCst);
    must_end("readers of a table that is flushed", readers.join_all()).await;
    assert_eq!(pool.stats().connections_lost, 0);
}

async fn a_table_that_is_made_anew_is_read_as_it_is(server: Server) {
    let database = OwnDatabase::create(server, "anew").await;
    let pool = open(database.settings().pool_size(1));
    for round in 0..5 {
        for (columns, values) in
            [("a int, b int", "1, 2"), ("b int, a int", "2, 1"), ("b int, c text, a int", "2, 'c', 1")]
        {
            pool.execute(&format!("create table t ({columns})"), &[]).await.unwrap();
            pool.execute(&format!("insert into t values ({values})"), &[]).await.unwrap();
            let row = pool.query_one("select * from t", &[]).await.unwrap();
            let read = (row.get::<_, i32>("a").unwrap(), row.get::<_, i32>("b").unwrap());
            assert_eq!(read, (1, 2), "round {round}: {columns}");
            pool.execute("drop table t", &[]).await.unwrap();
            let error = pool.query("select * from t", &[]).await.expect_err("it is gone");
            assert_eq!(error.code(), Some(ErrorCode::UNKNOWN_TABLE), "{error}");
        }
    }
    assert_eq!(pool.stats().connects, 1);
}

/// 1615: a server that has to close tables and views all the time cannot keep up with its prepared statements.
async fn more_tables_than_the_server_keeps_open(server: Server) {
    const VIEWS: usize = 500;
    let private = PrivateServer::mysql(server, "many-tables").await;
    let admin = Admin::connect_to(private.admin_url()).await;
    admin.run("set global table_definition_cache = 400").await;
    admin.run("set global table_open_cache = 10").await;
    for view in 0..VIEWS {
        admin.run(&format!("create view v{view} as select id, {view} as a from world where id = 1")).await;
    }
    let pool = open(settings_at(private.url(), "many_tables").pool_size(4).statement_cache_size(VIEWS));
    for _ in 0..3 {
        let answers = join_all((0..VIEWS).map(|view| {
            let pool = &pool;
            async move { pool.query_one(&format!("select a from v{view}"), &[]).await?.get::<_, u64>(0) }
        }));
        for (view, answer) in must_end("many views", answers).await.into_iter().enumerate() {
            assert_eq!(answer.unwrap_or_else(|error| panic!("view {view}: {error}")), view as u64);
        }
        admin.run("flush tables").await;
    }
    assert_eq!(pool.stats().connections_lost, 0);
}

/// MariaDB's way to leave out what has not changed has lost the columns of such rows (MySqlConnector 1652).
async fn rows_of_an_insert_come_every_time(server: Server) {
    let database = OwnDatabase::create(server, "returning").await;
    let pool = open(database.settings().pool_size(1));
    pool.execute("create table t (id int primary key auto_increment, name varchar(10))", &[]).await.unwrap();
    const INSERT: &str = "insert into t (name) values (?), (?) returning id, name";
    if server == Server::Mysql {
        let error = pool.query(INSERT, &[&"a", &"b"]).await.expect_err("it does not know it");
        assert_eq!(error.code(), Some(ErrorCode::SYNTAX_ERROR), "{error}");
        return;
    }
    for round in 0..5 {
        let rows: Vec<(i32, String)> = pool.query_as(INSERT, &[&"a", &"b"]).await.unwrap();
        let first = 2 * round + 1;
        assert_eq!(rows, [(first, "a".to_owned()), (first + 1, "b".to_owned())]);
    }
    let deleted: Vec<(i32,)> = pool.query_as("delete from t where id <= ? returning id", &[&3]).await.unwrap();
    assert_eq!(deleted, [(1,), (2,), (3,)]);
}
