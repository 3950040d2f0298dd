//! Results: their columns, those without rows, and those whose columns are told only when they come.

use cenote_mysql::ColumnType;
use cenote_mysql::value::{Format, ToValue};
use cenote_tests::mysql::Server;
use cenote_tests::on_each_server;
use futures_util::future::join_all;

use super::{Place, read};

on_each_server!(
    columns_say_what_they_are,
    results_without_rows_are_in_nobodys_way,
    columns_are_those_of_the_execution,
    rows_of_both_protocols_are_read_alike,
);

async fn columns_say_what_they_are(server: Server) {
    let place = Place::new(server, "columns").await;
    place
        .admin
        .run("create table item (id int unsigned not null auto_increment primary key, price decimal(7, 2))")
        .await;
    let sql = "select i.id as number, i.price, 1 + 1 as two from item i";
    assert!(place.pool.query(sql, &[]).await.unwrap().is_empty());
    place.admin.run("insert into item values (1, 2.50)").await;
    let row = place.pool.query_one(sql, &[]).await.unwrap();
    let [number, price, two] = row.columns() else { panic!("{:?}", row.columns()) };
    assert_eq!((number.name(), number.original_name(), number.type_()), ("number", Some("id"), ColumnType::Int));
    assert_eq!((number.table(), number.original_table()), (Some("i"), Some("item")));
    assert!(number.is_unsigned() && number.is_primary_key() && number.is_auto_increment() && !number.is_nullable());
    assert_eq!((price.type_(), price.decimals(), price.is_nullable()), (ColumnType::Decimal, 2, true));
    assert_eq!((two.name(), two.original_name(), two.table()), ("two", None, None));
    assert_eq!((row.get::<_, u32>("NUMBER").unwrap(), row.get::<_, &str>("price").unwrap()), (1, "2.50"));
}

/// Case 47.
async fn results_without_rows_are_in_nobodys_way(server: Server) {
    let place = Place::new(server, "no_rows").await;
    place.admin.run("create table t (id int primary key); insert into t values (1), (2), (3)").await;
    let ids: Vec<i32> = (0..200).map(|number| number % 6).collect();
    let asked = ids.iter().map(|id| {
        let (id, place) = (*id, &place);
        async move {
            match id {
                5 => {
                    let executed = place.pool.execute("update t set id = id where id = ?", &[&-1]).await.unwrap();
                    assert_eq!(executed.affected_rows(), 0);
                }
                4 => assert_eq!(place.pool.query("do 1", &[]).await.unwrap().len(), 0, "not even columns"),
                _ => {
                    let rows = place.pool.query("select id from t where id = ?", &[&id]).await.unwrap();
                    assert_eq!(
                        rows.iter().map(read::<i32>).collect::<Vec<_>>(),
                        if id == 0 { vec![] } else { vec![id] }
                    );
                }
            }
        }
    });
    join_all(asked).await;
    assert_eq!(place.pool.query_opt("select id from t where id = ?", &[&9]).await.unwrap().map(|row| row.len()), None);
    assert!(place.pool.query_text("select id from t where id = 9").await.unwrap().is_empty());
}

/// Case 20: what a statement gives is told with each result, whatever PREPARE said.
async fn columns_are_those_of_the_execution(server: Server) {
    let place = Place::new(server, "returning").await;
    if server == Server::Mariadb {
        place.admin.run("create table t (id int auto_increment primary key, name varchar(20))").await;
        for (id, name) in [(1, "a"), (2, "b"), (3, "c")] {
            let sql = "insert into t (name) values (?) returning id, name";
            let row = place.pool.query_one(sql, &[&name]).await.unwrap();
            assert_eq!((row.get::<_, i32>("id").unwrap(), row.get::<_, &str>("name").unwrap()), (id, name));
        }
    }
    for _ in 0..3 {
        let parameters: [(&(dyn ToValue + Sync), bool); 3] = [(&7_i32, true), (&"seven", false), (&8_i64, true)];
        for (parameter, is_integer) in parameters {
            let row = place.pool.query_one("select ? as v", &[parameter]).await.unwrap();
            let ty = row.columns()[0].type_();
            assert_eq!((ty.is_integer(), ty.is_text()), (is_integer, !is_integer), "{ty}");
        }
    }
    // A table whose columns change under a statement that was used before.
    place.admin.run("create table changing (a int, b varchar(20)); insert into changing values (1, 'b')").await;
    let sql = "select * from changing";
    let row = place.pool.query_one(sql, &[]).await.unwrap();
    assert_eq!((row.get::<_, i32>(0).unwrap(), row.get::<_, &str>(1).unwrap()), (1, "b"));
    place.admin.run("alter table changing modify a bigint after b, add c date default '2024-02-29'").await;
    let row = place.pool.query_one(sql, &[]).await.unwrap();
    assert_eq!(row.columns().iter().map(|column| column.name()).collect::<Vec<_>>(), ["b", "a", "c"]);
    assert_eq!((row.get::<_, &str>(0).unwrap(), row.get::<_, i64>(1).unwrap()), ("b", 1));
    assert_eq!(row.columns()[1].type_(), ColumnType::BigInt);
}

async fn rows_of_both_protocols_are_read_alike(server: Server) {
    let place = Place::new(server, "alike").await;
    let sql = "select 1 as a, 'text' as b, null as c, cast('2024-02-29' as date) as d, 1.50 as e, x'FF' as f";
    let binary = place.pool.query_one(sql, &[]).await.unwrap();
    let text = place.pool.query_text(sql).await.unwrap().pop().expect("one row");
    assert_eq!((binary.format(), text.format()), (Format::Binary, Format::Text));
    assert_eq!(text.get_bytes("d").unwrap(), Some(&b"2024-02-29"[..]));
    assert_eq!(binary.get_bytes("d").unwrap(), Some(&b"\xe8\x07\x02\x1d"[..]));
    for number in 0..binary.len() {
        let (one, other) = (&binary.columns()[number], &text.columns()[number]);
        assert_eq!((one.name(), one.type_()), (other.name(), other.type_()));
        let read = |row: &cenote_mysql::Row| row.get::<_, cenote_mysql::value::Value>(number).unwrap();
        assert_eq!(read(&binary), read(&text), "{}", one.name());
    }
}
