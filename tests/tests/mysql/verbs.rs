//! What each verb returns on MySQL and MariaDB, and what it makes of too few or too many rows.

use cenote_mysql::value::Format;
use cenote_mysql::{Error, ErrorCode, FromRow, Row};
use cenote_tests::mysql::{OwnDatabase, Server, open, settings};
use cenote_tests::on_each_server;
use futures_util::future::join_all;

on_each_server!(
    columns_are_found_by_number_and_by_name,
    a_column_tells_where_it_comes_from,
    one_row_is_neither_none_nor_more,
    rows_become_values,
    execute_tells_what_it_did,
    found_rows_count_what_was_found,
    what_cannot_be_prepared_is_sent_as_text,
    text_queries_have_the_same_rows,
    empty_results_among_others,
    every_field_of_an_error_is_there,
    a_wrong_number_of_parameters_is_the_callers_error,
    several_results_are_refused_and_leave_the_connection_in_step,
);

async fn columns_are_found_by_number_and_by_name(server: Server) {
    let pool = open(settings(server, "columns").pool_size(1));
    let row = pool.query_one("select 1 as one, 2 as Two, 3 as one", &[]).await.unwrap();
    assert_eq!((row.len(), row.is_empty()), (3, false));
    assert_eq!(row.columns().iter().map(|column| column.name()).collect::<Vec<_>>(), ["one", "Two", "one"]);
    assert_eq!([0, 1, 2].map(|number: usize| row.get::<_, i32>(number).unwrap()), [1, 2, 3]);
    assert_eq!(row.get::<_, i32>("one").unwrap(), 1, "of two of the same name the first");
    assert_eq!(row.get::<_, i32>(String::from("Two")).unwrap(), 2);
    assert_eq!(row.get::<_, i32>("two").unwrap(), 2);
    for error in [row.get::<_, i32>("three").unwrap_err(), row.get::<_, i32>(3).unwrap_err()] {
        assert!(error.is_caller() && error.to_string().contains("one, Two, one"), "{error}");
    }
}

async fn a_column_tells_where_it_comes_from(server: Server) {
    let database = OwnDatabase::create(server, "from_where").await;
    let pool = open(database.settings().pool_size(1));
    pool.execute("create table item (id int unsigned primary key auto_increment, name varchar(20))", &[])
        .await
        .unwrap();
    pool.execute("insert into item (name) values ('a')", &[]).await.unwrap();
    let row = pool.query_one("select i.name as title, i.id, i.id + 1 from item i", &[]).await.unwrap();
    let [name, id, sum] = row.columns() else { panic!("{row:?}") };
    assert_eq!((name.name(), name.original_name()), ("title", Some("name")));
    assert_eq!((name.table(), name.original_table(), name.schema()), (Some("i"), Some("item"), Some(database.name())));
    assert_eq!((name.is_nullable(), name.is_primary_key(), name.is_unsigned()), (true, false, false));
    assert_eq!((id.is_nullable(), id.is_primary_key(), id.is_auto_increment()), (false, true, true));
    assert!(id.is_unsigned());
    assert_eq!((sum.table(), sum.original_table(), sum.original_name()), (None, None, None));
}

async fn one_row_is_neither_none_nor_more(server: Server) {
    let pool = open(settings(server, "row_count").pool_size(1));
    const ROWS: &str = "select id from world where id <= ? order by id";
    for (rows, one, opt) in [(0, false, true), (1, true, true), (2, false, false), (1_000, false, false)] {
        for (verb, fits, error) in [
            ("query_one", one, pool.query_one(ROWS, &[&rows]).await.err()),
            ("query_opt", opt, pool.query_opt(ROWS, &[&rows]).await.err()),
        ] {
            match error {
                None => assert!(fits, "{verb} of {rows} rows"),
                Some(error) => {
                    assert!(!fits && error.is_row_count() && error.is_caller(), "{verb} of {rows} rows: {error}");
                    assert_eq!(error.was_sent(), None, "it was answered");
                }
            }
        }
        assert_eq!(pool.query(ROWS, &[&rows]).await.unwrap().len(), rows as usize);
    }
    assert!(pool.query_opt(ROWS, &[&0]).await.unwrap().is_none());
    assert_eq!(pool.query_opt(ROWS, &[&1]).await.unwrap().unwrap().get::<_, i32>(0).unwrap(), 1);
    // A statement without rows has none.
    assert!(pool.query_opt("do 1", &[]).await.unwrap().is_none());
    assert!(pool.query_one("do 1", &[]).await.unwrap_err().is_row_count());
}

struct Item {
    id: i32,
    name: Option<String>,
}

impl FromRow for Item {
    fn from_row(row: &Row) -> Result<Item, Error> {
        Ok(Item { id: row.get("id")?, name: row.get("name")? })
    }
}

async fn rows_become_values(server: Server) {
    let pool = open(settings(server, "from_row").pool_size(1));
    let sql = "select 1 as id, 'a' as name union all select 2, null order by id";
    let tuples: Vec<(i32, Option<String>)> = pool.query_as(sql, &[]).await.unwrap();
    assert_eq!(tuples, [(1, Some("a".to_owned())), (2, None)]);
    let items: Vec<Item> = pool.query_as(sql, &[]).await.unwrap();
    assert_eq!(items.into_iter().map(|item| (item.id, item.name)).collect::<Vec<_>>(), tuples);
    let error = pool.query_as::<(i32,)>(sql, &[]).await.expect_err("two columns are no tuple of one");
    assert!(error.is_caller() && error.to_string().contains('2'), "{error}");
    let error = pool.query_as::<(i32, String)>(sql, &[]).await.expect_err("NULL is no String");
    assert!(error.is_caller() && error.to_string().contains("name"), "{error}");
}

async fn execute_tells_what_it_did(server: Server) {
    let database = OwnDatabase::create(server, "did").await;
    let pool = open(database.settings().pool_size(1));
    for (sql, affected, id) in [
        ("create table item (id bigint unsigned primary key auto_increment, name varchar(20) unique)", 0, None),
        ("insert into item (name) values ('a')", 1, Some(1)),
        ("insert into item (name) values ('b'), ('c'), ('d')", 3, Some(2)),
        ("update item set name = 'e' where id = 1", 1, None),
        ("update item set name = 'e' where id = 1", 0, None),
        ("update item set id = last_insert_id(id + 1000) where id = 4", 1, Some(1004)),
        ("replace into item values (2, 'f')", 2, Some(2)),
        ("insert ignore into item (name) values ('c')", 0, None),
        ("delete from item where id = 1", 1, None),
        ("delete from item where id = 1", 0, None),
        ("select * from item", 0, None),
        ("do 1", 0, None),
        ("create table copy_of_item as select * from item", 3, None),
        ("alter table item auto_increment = 18446744073709551614", 0, None),
        ("insert into item (name) values ('last')", 1, Some(18_446_744_073_709_551_614)),
    ] {
        let executed = pool.execute(sql, &[]).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
        assert_eq!(executed.affected_rows(), affected, "{sql}");
        assert_eq!(executed.last_insert_id(), id, "{sql}");
    }
    let executed = pool.execute("select cast('no number' as signed)", &[]).await.unwrap();
    assert_eq!(executed.warnings(), 1);
    assert_eq!(pool.execute("do 1", &[]).await.unwrap().warnings(), 0);
    for error in [pool.execute("", &[]).await.err(), pool.query_text("").await.err()] {
        // `ER_EMPTY_QUERY`.
        assert_eq!(error.and_then(|error| error.code()).map(ErrorCode::number), Some(1065));
    }
    assert_eq!(pool.execute("-- nothing but a comment", &[]).await.unwrap().affected_rows(), 0);
    assert!(pool.query_text("-- nothing but a comment").await.unwrap().is_empty());
    let error = pool.execute("select 1; select 2", &[]).await.expect_err("two statements are not one");
    assert_eq!(error.code(), Some(ErrorCode::SYNTAX_ERROR), "{error}");
    let error = pool.query_text("select 1; select 2").await.expect_err("two statements are not one");
    assert_eq!(error.code(), Some(ErrorCode::SYNTAX_ERROR), "{error}");
}

async fn found_rows_count_what_was_found(server: Server) {
    let database = OwnDatabase::create(server, "found").await;
    let [changed, found] = [false, true].map(|on| open(database.settings().pool_size(1).found_rows(on)));
    changed.execute("create table item (id int primary key, name varchar(20))", &[]).await.unwrap();
    changed.execute("insert into item values (1, 'a'), (2, 'b')", &[]).await.unwrap();
    let same = "update item set name = 'a'";
    assert_eq!(found.execute("update item set name = 'b' where id = 2", &[]).await.unwrap().affected_rows(), 1);
    assert_eq!(changed.execute(same, &[]).await.unwrap().affected_rows(), 1);
    assert_eq!(found.execute(same, &[]).await.unwrap().affected_rows(), 2);
}

/// MySQL prepares some sorts of statements only; MariaDB all that a lane takes.
async fn what_cannot_be_prepared_is_sent_as_text(server: Server) {
    let database = OwnDatabase::create(server, "text").await;
    let pool = open(database.settings().pool_size(1));
    pool.execute("create table item (id int primary key)", &[]).await.unwrap();
    let format = if server == Server::Mysql { Format::Text } else { Format::Binary };
    for round in 0..3 {
        pool.execute("create function first_of_all() returns int deterministic return 1", &[]).await.unwrap();
        assert_eq!(pool.query_one("select first_of_all()", &[]).await.unwrap().get::<_, i32>(0).unwrap(), 1);
        pool.execute("drop function first_of_all", &[]).await.unwrap();
        let rows = pool.query("check table item", &[]).await.unwrap();
        assert_eq!(rows[0].format(), format, "round {round}");
        assert_eq!(rows.last().unwrap().get::<_, &str>("Msg_text").unwrap(), "OK");
    }
    // Among others, in their order.
    let answers = join_all((0..100).map(|number: i32| {
        let pool = &pool;
        async move {
            match number % 2 {
                0 => pool.query("check table item", &[]).await.map(|rows| assert!(!rows.is_empty())),
                _ => pool
                    .query_one("select ?", &[&number])
                    .await
                    .map(|row| assert_eq!(row.get::<_, i32>(0).unwrap(), number)),
            }
        }
    }));
    for answer in answers.await {
        answer.unwrap();
    }
    let error = pool.query("check table item", &[&1]).await.expect_err("a text has no parameters");
    assert!(error.is_caller() && error.to_string().contains("0 parameters"), "{error}");
    assert_eq!(pool.stats().connects, 1);
}

async fn text_queries_have_the_same_rows(server: Server) {
    let pool = open(settings(server, "text_query").pool_size(1));
    let sql = "select id, randomnumber, null, 'text' from world where id <= 100 order by id";
    let (text, binary) = (pool.query_text(sql).await.unwrap(), pool.query(sql, &[]).await.unwrap());
    assert_eq!(text.len(), 100);
    for (text, binary) in text.iter().zip(&binary) {
        assert_eq!((text.format(), binary.format()), (Format::Text, Format::Binary));
        let values = [text, binary].map(|row| {
            let numbers = (row.get::<_, i32>(0).unwrap(), row.get::<_, i64>(1).unwrap());
            (numbers, row.get::<_, Option<i32>>(2).unwrap(), row.get::<_, String>(3).unwrap())
        });
        assert_eq!(values[0], values[1]);
    }
    let prepared = pool.stats().lanes[0].prepared;
    pool.query_text("select 1 -- another").await.unwrap();
    assert_eq!(pool.stats().lanes[0].prepared, prepared, "a text is not prepared");
    let error = pool.query_text("begin").await.expect_err("it is looked at like any other");
    assert!(error.is_caller() && error.to_string().contains("BEGIN"), "{error}");
    let error = pool.query_text("selec 1").await.expect_err("there is no selec");
    assert_eq!(error.code(), Some(ErrorCode::SYNTAX_ERROR));
}

async fn empty_results_among_others(server: Server) {
    let pool = open(settings(server, "empty").pool_size(1));
    let answers = join_all((0..400).map(|number: i32| {
        let pool = &pool;
        async move {
            match number % 4 {
                0 => assert_eq!(pool.query("select * from world where id = ?", &[&-number]).await?.len(), 0),
                1 => assert_eq!(pool.query("do ?", &[&number]).await?.len(), 0),
                2 => assert!(pool.query_text("select 1 from world where 1 = 0").await?.is_empty()),
                _ => assert_eq!(pool.query_one("select ?", &[&number]).await?.get::<_, i32>(0)?, number),
            }
            Ok::<(), Error>(())
        }
    }));
    for (number, answer) in answers.await.into_iter().enumerate() {
        answer.unwrap_or_else(|error| panic!("{number}: {error}"));
    }
    assert_eq!(pool.stats().connects, 1);
}

async fn every_field_of_an_error_is_there(server: Server) {
    let database = OwnDatabase::create(server, "fields").await;
    let pool = open(database.settings().pool_size(1));
    pool.execute("create table item (id int primary key, name varchar(3) not null)", &[]).await.unwrap();
    pool.execute("insert into item values (1, 'a')", &[]).await.unwrap();
    let error = pool.execute("insert into item values (?, 'b')", &[&1]).await.expect_err("it is there already");
    assert!(error.is_server() && error.was_sent().is_none(), "{error}");
    assert!(!error.is_caller() && !error.is_network() && !error.is_timeout() && !error.is_peer(), "{error}");
    let fields = error.as_server_error().unwrap();
    assert_eq!((fields.code(), fields.sql_state()), (ErrorCode::DUPLICATE_ENTRY, "23000"));
    assert!(fields.message().contains("Duplicate entry '1'") && !fields.ends_session(), "{error}");
    for part in ["1062", "23000", "Duplicate entry '1'"] {
        assert!(error.to_string().contains(part), "{part:?} is not in: {error}");
    }
    for (sql, code) in [
        ("insert into item values (2, null)", ErrorCode::NOT_NULL_VIOLATION),
        ("insert into item values (2, 'long')", ErrorCode::DATA_TOO_LONG),
        ("select 1 + nothing", ErrorCode::UNKNOWN_COLUMN),
        ("select * from nowhere", ErrorCode::UNKNOWN_TABLE),
        ("selec 1", ErrorCode::SYNTAX_ERROR),
        ("create table item (id int)", ErrorCode::TABLE_EXISTS),
    ] {
        for _ in 0..2 {
            let error = pool.execute(sql, &[]).await.expect_err(sql);
            assert_eq!(error.code(), Some(code), "{sql}: {error}");
        }
    }
    assert_eq!(pool.stats().connects, 1);
}

async fn a_wrong_number_of_parameters_is_the_callers_error(server: Server) {
    let pool = open(settings(server, "wrong_number").pool_size(1));
    for _ in 0..2 {
        let error = pool.query("select ?, ?", &[&1]).await.expect_err("one of two");
        assert!(error.is_caller() && error.to_string().contains("2 parameters, and 1"), "{error}");
        let error = pool.query("select 1", &[&1]).await.expect_err("one of none");
        assert!(error.is_caller() && error.to_string().contains("0 parameters, and 1"), "{error}");
    }
    assert_eq!(pool.query_one("select ?, ?", &[&1, &2]).await.unwrap().get::<_, i64>(1).unwrap(), 2);
}

/// The firewall refuses CALL, so the proxy makes one of a harmless text.
async fn several_results_are_refused_and_leave_the_connection_in_step(server: Server) {
    let database = OwnDatabase::create(server, "several").await;
    let admin = database.admin().await;
    admin.run("create procedure several() begin select 1; select 2, 3; select 4; end").await;
    let proxy = cenote_tests::Proxy::start(&server.url());
    proxy.replace(cenote_tests::Direction::ToServer, b"coll several", b"call several");
    let pool = open(proxy.through(database.settings()).pool_size(1));
    let answers = join_all((0..60).map(|number: i32| {
        let pool = &pool;
        async move {
            match number % 3 {
                0 => pool.query_text("coll several()").await.map(|rows| panic!("{} rows", rows.len())),
                1 => pool.query("coll several()", &[]).await.map(|rows| panic!("{} rows", rows.len())),
                _ => pool
                    .query_one("select ?", &[&number])
                    .await
                    .map(|row| assert_eq!(row.get::<_, i32>(0).unwrap(), number)),
            }
        }
    }));
    for (number, answer) in answers.await.into_iter().enumerate() {
        match answer {
            Ok(()) => assert_eq!(number % 3, 2),
            Err(error) => {
                assert!(number % 3 != 2 && error.is_caller(), "{number}: {error}");
                assert!(error.to_string().contains("several results"), "{number}: {error}");
            }
        }
    }
    assert_eq!(pool.stats().connects, 1);
}
