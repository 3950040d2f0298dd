//! Parameters: how their types tell statements apart, how many there may be, and those that go wrong.

use bytes::BytesMut;
use cenote_mysql::Pool;
use cenote_mysql::value::{Date, Decimal, IsNull, ParameterType, ToValue, Value};
use cenote_tests::mysql::Server;
use cenote_tests::on_each_server;

use super::{Place, read};

on_each_server!(
    callers_of_other_types_do_not_make_the_server_prepare_again,
    what_one_caller_sends_does_not_change_what_another_gets,
    any_integer_is_a_limit,
    as_many_parameters_as_the_protocol_has,
    a_value_that_cannot_be_sent_leaves_the_statement_as_it_was,
    a_type_that_does_not_fit_is_the_callers_error,
);

/// How often the server prepared a statement of this session anew. The pool has one connection.
async fn prepared_anew(pool: &Pool) -> u64 {
    let rows = pool.query_text("show session status like 'Com_stmt_reprepare'").await.expect("the session's status");
    let [row] = &rows[..] else { panic!("{} rows", rows.len()) };
    row.get::<_, &str>(1).unwrap().parse().expect("a number")
}

async fn callers_of_other_types_do_not_make_the_server_prepare_again(server: Server) {
    let place = Place::new(server, "prepared_anew").await;
    place.admin.run("create table t (id int, n bigint unsigned, name varchar(20), price decimal(10, 2))").await;
    let text = "text".to_owned();
    let decimal: Decimal = "1.50".parse().unwrap();
    let values: [&(dyn ToValue + Sync); 16] = [
        &1_i32,
        &1_i64,
        &1_u32,
        &u64::MAX,
        &text,
        &"text",
        &None::<i64>,
        &None::<String>,
        &true,
        &1_u64,
        &1.5_f32,
        &1.5_f64,
        &b"bytes",
        &decimal,
        &"2024-02-29".parse::<Date>().unwrap(),
        &Value::Null,
    ];
    for sql in [
        "select id from t where id = ?",
        "select id from t where n = ?",
        "select id from t where name = ?",
        "select id from t where price = ?",
        "select ?",
        "select concat(?, 'a')",
    ] {
        let run = async || {
            for value in values {
                place.pool.query(sql, &[value]).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
            }
        };
        // The server learns of the types at the first execution of each statement. A NULL does not tell it.
        run().await;
        run().await;
        let before = prepared_anew(&place.pool).await;
        for _ in 0..5 {
            run().await;
        }
        assert_eq!(prepared_anew(&place.pool).await - before, 0, "{sql}");
    }
    // MySQL did so at the first executions, or what is counted here says nothing.
    assert!(server != Server::Mysql || prepared_anew(&place.pool).await > 0);
}

async fn what_one_caller_sends_does_not_change_what_another_gets(server: Server) {
    let place = Place::new(server, "types_apart").await;
    let pool = &place.pool;
    for _ in 0..3 {
        assert_eq!(read::<i64>(&pool.query_one("select ?", &[&1_i32]).await.unwrap()), 1);
        assert_eq!(read::<String>(&pool.query_one("select ?", &[&"abc"]).await.unwrap()), "abc");
        assert_eq!(read::<i64>(&pool.query_one("select ?", &[&-1_i8]).await.unwrap()), -1);
        assert_eq!(read::<u64>(&pool.query_one("select ?", &[&u64::MAX]).await.unwrap()), u64::MAX);
        assert_eq!(read::<f64>(&pool.query_one("select ?", &[&1.5]).await.unwrap()), 1.5);
        assert_eq!(read::<Option<i64>>(&pool.query_one("select ?", &[&None::<i64>]).await.unwrap()), None);
        assert_eq!(read::<Value>(&pool.query_one("select ?", &[&Value::Null]).await.unwrap()), Value::Null);
    }
}

/// Case 21.
async fn any_integer_is_a_limit(server: Server) {
    let place = Place::new(server, "limit").await;
    place.admin.run("create table t (id int); insert into t values (1), (2), (3)").await;
    let two: [&(dyn ToValue + Sync); 8] = [&2_i8, &2_i16, &2_i32, &2_i64, &2_u8, &2_u16, &2_u32, &2_u64];
    for limit in two {
        let rows = place.pool.query("select id from t order by id limit ? offset ?", &[limit, &1_u8]).await.unwrap();
        assert_eq!(rows.iter().map(read::<i32>).collect::<Vec<_>>(), [2, 3]);
    }
    let rows = place.pool.query("select id from t limit ?", &[&u64::MAX]).await.unwrap();
    assert_eq!(rows.len(), 3);
}

/// Case 22.
async fn as_many_parameters_as_the_protocol_has(server: Server) {
    let place = Place::new(server, "many_parameters").await;
    for count in [32_767_usize, 32_768, 65_535] {
        let sql = format!("select 7 in ({})", vec!["?"; count].join(","));
        let mut parameters: Vec<&(dyn ToValue + Sync)> = vec![&1_i32; count];
        parameters[count - 1] = &7_i32;
        let row = place.pool.query_one(&sql, &parameters).await.unwrap_or_else(|error| panic!("{count}: {error}"));
        assert!(read::<bool>(&row), "the last of {count} counts");
    }
    let sql = format!("select 7 in ({})", vec!["?"; 65_536].join(","));
    let before = place.pool.stats().connects;
    let error = place.pool.query(&sql, &vec![&1_i32 as &(dyn ToValue + Sync); 65_536]).await.expect_err("too many");
    assert!(error.is_caller() && error.to_string().contains("65535"), "{error}");
    place.pool.query("select 1", &[]).await.expect("the connection is as good as ever");
    assert_eq!(place.pool.stats().connects, before);
}

/// Case 48.
async fn a_value_that_cannot_be_sent_leaves_the_statement_as_it_was(server: Server) {
    struct Unwritable;

    impl ToValue for Unwritable {
        fn null_type() -> ParameterType {
            ParameterType::Text
        }

        fn parameter_type(&self) -> ParameterType {
            ParameterType::Text
        }

        fn to_value(&self, out: &mut BytesMut) -> Result<IsNull, Box<dyn std::error::Error + Send + Sync>> {
            out.extend_from_slice(b"some of it");
            Err("there is no writing it".into())
        }
    }

    let place = Place::new(server, "unwritable").await;
    for _ in 0..3 {
        let error = place.pool.query("select ?, ?", &[&1, &Unwritable]).await.expect_err("it cannot be written");
        assert!(error.is_caller() && error.to_string().contains("there is no writing it"), "{error}");
        assert!(error.to_string().contains("parameter 2"), "{error}");
        let row = place.pool.query_one("select ?, ?", &[&1, &"whole"]).await.unwrap();
        assert_eq!(row.get::<_, &str>(1).unwrap(), "whole");
    }
    // What the server refuses when it runs costs no more.
    let table = place.table("tinyint").await;
    let insert = format!("insert into {table} (v) values (?)");
    for value in [1_i64, 1_000, 2] {
        let outcome = place.pool.execute(&insert, &[&value]).await;
        assert_eq!(outcome.is_ok(), value < 100, "{outcome:?}");
    }
    let stats = place.pool.stats();
    assert_eq!((stats.connects, stats.in_flight(), stats.connections_lost), (1, 0, 0), "{stats:?}");
}

async fn a_type_that_does_not_fit_is_the_callers_error(server: Server) {
    let place = Place::new(server, "does_not_fit").await;
    for (given, wanted) in [(0, 1), (2, 1), (1, 2)] {
        let sql = if wanted == 1 { "select ?" } else { "select ?, ?" };
        let parameters: Vec<&(dyn ToValue + Sync)> = vec![&1_i32; given];
        let error = place.pool.query_one(sql, &parameters).await.expect_err("a wrong number of parameters");
        assert!(error.is_caller() && error.to_string().contains(&wanted.to_string()), "{error}");
    }
    let row = place.pool.query_one("select 1 as number, null as nothing", &[]).await.unwrap();
    let error = row.get::<_, &str>("number").expect_err("a number is no text");
    assert!(error.is_caller() && error.to_string().contains("number"), "it says which column: {error}");
    let error = row.get::<_, &str>("nothing").expect_err("NULL is no text");
    assert!(error.is_caller() && error.to_string().contains("nothing"), "{error}");
    let error = row.get::<_, i32>("missing").expect_err("there is no such column");
    assert!(error.is_caller() && error.to_string().contains("number, nothing"), "it says what there is: {error}");
    assert!(row.get::<_, i32>(2).expect_err("there is no third column").is_caller());
}
