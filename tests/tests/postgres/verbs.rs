//! What each verb returns, and what it makes of too few or too many rows.

use std::sync::{Arc, Mutex};

use cenote_postgres::{Error, FromRow, Row, Severity, SqlState};
use cenote_tests::{OwnSchema, open, settings};
use futures_util::future::join_all;

#[tokio::test]
async fn columns_are_found_by_number_and_by_name() {
    let pool = open(settings("columns").pool_size(1));
    let row = pool.query_one("select 1 as one, 2 as \"Two\", 3 as one", &[]).await.unwrap();
    assert_eq!((row.len(), row.is_empty()), (3, false));
    assert_eq!(row.columns().iter().map(|column| column.name()).collect::<Vec<_>>(), ["one", "Two", "one"]);
    assert_eq!([0, 1, 2].map(|number: usize| row.get::<_, i32>(number).unwrap()), [1, 2, 3]);
    assert_eq!(row.get::<_, i32>("one").unwrap(), 1, "of two of the same name the first");
    assert_eq!(row.get::<_, i32>(String::from("Two")).unwrap(), 2);
    assert_eq!(row.get::<_, i32>("two").unwrap(), 2);
    assert_eq!(row.get_bytes("one").unwrap(), Some(&[0, 0, 0, 1][..]));
    let row = pool.query_one("select", &[]).await.unwrap();
    assert!(row.is_empty());
}

#[tokio::test]
async fn a_column_tells_where_it_comes_from() {
    let schema = OwnSchema::create("from_where").await;
    let pool = open(schema.settings().pool_size(1));
    pool.execute("create table item (id int primary key, name varchar(20))", &[]).await.unwrap();
    pool.execute("insert into item values (1, 'a')", &[]).await.unwrap();
    let row = pool.query_one("select name, id, id + 1 from item", &[]).await.unwrap();
    let table: u32 = pool.query_one("select 'item'::regclass::oid", &[]).await.unwrap().get(0).unwrap();
    let [name, id, sum] = row.columns() else { panic!("{row:?}") };
    assert_eq!((name.table_oid(), name.column_id(), name.type_modifier()), (Some(table), Some(2), 24));
    assert_eq!((id.table_oid(), id.column_id(), id.type_modifier()), (Some(table), Some(1), -1));
    assert_eq!((sum.table_oid(), sum.column_id()), (None, None));
}

#[tokio::test]
async fn one_row_is_neither_none_nor_more() {
    let pool = open(settings("row_count").pool_size(1));
    const ROWS: &str = "select generate_series(1, $1::int4)";
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

#[tokio::test]
async fn rows_become_values() {
    let pool = open(settings("from_row").pool_size(1));
    let sql = "select * from (values (1, 'a'), (2, null)) as item(id, name)";
    let tuples: Vec<(i32, Option<String>)> = pool.query_as(sql, &[]).await.unwrap();
    assert_eq!(tuples, [(1, Some("a".to_owned())), (2, None)]);
    let items: Vec<Item> = pool.query_as(sql, &[]).await.unwrap();
    assert_eq!(items.into_iter().map(|item| (item.id, item.name)).collect::<Vec<_>>(), tuples);
    let error = pool.query_as::<(i32,)>(sql, &[]).await.expect_err("two columns are no tuple of one");
    assert!(error.is_caller() && error.to_string().contains('2'), "{error}");
    let error = pool.query_as::<(i32, String)>(sql, &[]).await.expect_err("NULL is no String");
    assert!(error.is_caller() && error.to_string().contains("name"), "{error}");
}

#[tokio::test]
async fn execute_counts_what_it_affected() {
    let schema = OwnSchema::create("counts").await;
    let pool = open(schema.settings().pool_size(1));
    for (sql, count) in [
        ("create table item (id int primary key)", 0),
        ("insert into item select generate_series(1, 10)", 10),
        ("update item set id = id + 100 where id > 5", 5),
        ("delete from item where id = 1", 1),
        ("delete from item where id = 1", 0),
        ("insert into item values (1) returning id", 1),
        ("select * from item", 10),
        ("with gone as (delete from item where id > 100 returning id) select count(*) from gone", 1),
        ("insert into item values (1) on conflict do nothing", 0),
        ("create table copy_of_item as select * from item", 5),
        ("truncate item", 0),
        ("", 0),
        ("-- nothing but a comment", 0),
        ("do $$ begin end $$", 0),
    ] {
        assert_eq!(pool.execute(sql, &[]).await.unwrap_or_else(|error| panic!("{sql}: {error}")), count, "{sql}");
    }
    assert!(pool.query("", &[]).await.unwrap().is_empty());
    let error = pool.execute("select 1; select 2", &[]).await.expect_err("two statements are not one");
    assert_eq!(error.code(), Some(SqlState::SYNTAX_ERROR), "{error}");
}

#[tokio::test]
async fn a_batch_happens_whole_or_not_at_all() {
    let schema = OwnSchema::create("batch").await;
    let pool = open(schema.settings().pool_size(1));
    pool.execute("create table account (id int primary key, balance int8 check (balance >= 0))", &[]).await.unwrap();
    pool.execute("insert into account values (1, 100), (2, 0)", &[]).await.unwrap();
    let transfer = async |amount: i64| {
        pool.batch()
            .add("update account set balance = balance + $1 where id = $2", &[&amount, &2])
            .add("update account set balance = balance - $1 where id = $2", &[&amount, &1])
            .add("select balance from account order by id", &[])
            .run()
            .await
    };
    let balances = async || -> Vec<i64> {
        let rows: Vec<(i64,)> = pool.query_as("select balance from account order by id", &[]).await.unwrap();
        rows.into_iter().map(|(balance,)| balance).collect()
    };
    let results = transfer(70).await.unwrap();
    assert_eq!(results.iter().map(|result| result.rows_affected()).collect::<Vec<_>>(), [1, 1, 2]);
    let seen: Vec<i64> = results[2].rows().iter().map(|row| row.get(0).unwrap()).collect();
    assert_eq!(seen, [30, 70], "a later statement sees what an earlier one did");
    assert_eq!(balances().await, [30, 70]);

    let error = transfer(31).await.expect_err("there is not as much");
    assert_eq!((error.code(), error.batch_index()), (Some(SqlState::CHECK_VIOLATION), Some(1)), "{error}");
    assert_eq!(balances().await, [30, 70], "nothing has happened");

    // What fails before anything is sent, too.
    let error = pool
        .batch()
        .add("update account set balance = 0", &[])
        .add("update account set balance = $1", &[&"no number"])
        .run()
        .await
        .expect_err("a text is no int8");
    assert!(error.is_caller() && error.batch_index() == Some(1), "{error}");
    let error = pool
        .batch()
        .add("update account set balance = 0", &[])
        .add("select 1", &[])
        .add("selec 1", &[])
        .run()
        .await
        .expect_err("there is no selec");
    assert_eq!((error.code(), error.batch_index()), (Some(SqlState::SYNTAX_ERROR), Some(2)), "{error}");
    assert_eq!(balances().await, [30, 70], "nothing has happened");
    assert!(pool.batch().run().await.unwrap().is_empty());
    assert_eq!((pool.stats().connects, pool.stats().quarantines), (1, 0));
}

/// The statements of a batch are one caller's alone, though others are in front of and behind it.
#[tokio::test]
async fn batches_among_others_on_one_connection_stay_whole() {
    let schema = OwnSchema::create("batches").await;
    let pool = open(schema.settings().pool_size(1));
    pool.execute("create table item (owner int, id int, unique (owner, id))", &[]).await.unwrap();
    let outcomes = join_all((0..100).map(|owner: i32| {
        let pool = &pool;
        async move {
            let fails = owner % 3 == 0;
            let second = if fails { 0 } else { 1 };
            let insert = "insert into item values ($1, $2)";
            let parameter: [&(dyn cenote_postgres::types::ToSql + Sync); 1] = [&owner];
            let single = pool.query_one("select $1::int4", &parameter);
            let parameters: [[&(dyn cenote_postgres::types::ToSql + Sync); 2]; 2] = [[&owner, &0], [&owner, &second]];
            let batch = pool.batch().add(insert, &parameters[0]).add(insert, &parameters[1]).run();
            let (single, batch) = tokio::join!(single, batch);
            assert_eq!(single.unwrap().get::<_, i32>(0).unwrap(), owner);
            assert_eq!(batch.is_err(), fails, "{owner}");
        }
    }));
    outcomes.await;
    let sql = "select owner, count(*) from item group by owner order by owner";
    let kept: Vec<(i32, i64)> = pool.query_as(sql, &[]).await.unwrap();
    assert!(kept.iter().copied().eq((0..100).filter(|owner| owner % 3 != 0).map(|owner| (owner, 2))), "{kept:?}");
}

#[tokio::test]
async fn every_field_of_an_error_is_there() {
    let schema = OwnSchema::create("fields").await;
    let pool = open(schema.settings().pool_size(1));
    pool.execute("create table item (id int constraint item_id_key primary key)", &[]).await.unwrap();
    pool.execute("insert into item values (1)", &[]).await.unwrap();
    let error = pool.execute("insert into item values ($1)", &[&1]).await.expect_err("it is there already");
    assert!(error.is_server() && error.was_sent().is_none(), "{error}");
    let fields = error.as_server_error().unwrap();
    assert_eq!(fields.severity(), Some(Severity::Error));
    assert_eq!(fields.detail(), Some("Key (id)=(1) already exists."));
    assert_eq!((fields.schema(), fields.table()), (Some(schema.name()), Some("item")));
    assert_eq!(fields.constraint(), Some("item_id_key"));
    assert!(fields.file().is_some() && fields.line().is_some() && fields.routine().is_some());
    let error = pool.query("select 1 + nothing", &[]).await.expect_err("there is no such column");
    assert_eq!(error.as_server_error().unwrap().position(), Some(12));
    assert_eq!(error.code(), Some(SqlState::UNDEFINED_COLUMN));
}

#[tokio::test]
async fn notices_are_heard() {
    let pool = open(settings("notices_heard").pool_size(1));
    let heard = Arc::new(Mutex::new(Vec::new()));
    pool.on_notice({
        let heard = Arc::clone(&heard);
        move |notice| heard.lock().unwrap().push((notice.severity(), notice.message().to_owned()))
    });
    let raise = "do $$ begin raise notice 'first'; raise warning 'second'; raise debug 'unheard'; end $$";
    pool.execute(raise, &[]).await.unwrap();
    let expected = [(Some(Severity::Notice), "first".to_owned()), (Some(Severity::Warning), "second".to_owned())];
    assert_eq!(*heard.lock().unwrap(), expected);
    // Also when the statement fails behind it.
    let error = pool.execute("do $$ begin raise notice 'third'; perform 1 / 0; end $$", &[]).await.expect_err("1 / 0");
    assert_eq!(error.code(), Some(SqlState::DIVISION_BY_ZERO));
    assert_eq!(heard.lock().unwrap().last().unwrap().1, "third");
}
