//! What the server says of a statement reaches its caller with all its fields, and leaves the connection as it was.

use cenote_postgres::types::{ToSql, Type};
use cenote_postgres::{Error, Pool, Severity, SqlState};
use cenote_tests::{OwnSchema, open, settings};

async fn refused(pool: &Pool, sql: &str) -> Error {
    let error = pool.query(sql, &[]).await.expect_err(sql);
    assert!(error.is_server(), "{sql}: {error}");
    assert_eq!(error.was_sent(), None, "{sql}: there is an answer");
    error
}

#[tokio::test]
async fn the_fields_of_an_error_reach_its_caller() {
    let schema = OwnSchema::create("fields").await;
    let admin = schema.admin().await;
    admin.run("create table kept (id int constraint kept_once primary key, size int constraint kept_small check (size < 9))").await;
    admin.run("grant all on kept to cenote; insert into kept values (1, 1)").await;
    let pool = open(schema.settings().pool_size(1));

    let error = refused(&pool, "insert into kept values (1, 2)").await;
    let server = error.as_server_error().unwrap();
    assert_eq!(server.code(), SqlState::UNIQUE_VIOLATION);
    assert_eq!(server.severity(), Some(Severity::Error));
    assert_eq!((server.schema(), server.table()), (Some(schema.name()), Some("kept")));
    assert_eq!(server.constraint(), Some("kept_once"));
    assert!(server.detail().unwrap().contains("(id)=(1)"), "{server}");
    assert!(error.to_string().contains("23505") && error.to_string().contains("kept_once"), "{error}");

    let error = refused(&pool, "insert into kept values (2, 10)").await;
    let server = error.as_server_error().unwrap();
    assert_eq!((server.code(), server.constraint()), (SqlState::CHECK_VIOLATION, Some("kept_small")));

    let error = refused(&pool, "insert into kept values (null, 1)").await;
    let server = error.as_server_error().unwrap();
    assert_eq!((server.code(), server.column()), (SqlState::NOT_NULL_VIOLATION, Some("id")));

    let error = refused(&pool, "select sizes from kept").await;
    let server = error.as_server_error().unwrap();
    assert_eq!((server.code(), server.position()), (SqlState::UNDEFINED_COLUMN, Some(8)));
    assert!(server.hint().unwrap().contains("kept.size"), "{server}");
    assert!(server.routine().is_some() && server.file().is_some() && server.line().is_some());

    let error = refused(&pool, "do $$ begin perform 1 / 0; end $$").await;
    let server = error.as_server_error().unwrap();
    assert_eq!(server.code(), SqlState::DIVISION_BY_ZERO);
    assert!(server.context().unwrap().contains("PL/pgSQL"), "{server}");

    let sql = "do $$ begin raise exception 'told' using errcode = 'CN001', detail = 'd', hint = 'h', table = 't', \
               column = 'c', datatype = 'y', constraint = 'x', schema = 's'; end $$";
    let error = refused(&pool, sql).await;
    let server = error.as_server_error().unwrap();
    assert_eq!((server.code().code(), server.message()), ("CN001", "told"));
    assert_eq!((server.detail(), server.hint(), server.table()), (Some("d"), Some("h"), Some("t")));
    assert_eq!((server.column(), server.data_type(), server.constraint()), (Some("c"), Some("y"), Some("x")));
    assert_eq!(server.schema(), Some("s"));
    assert_eq!((pool.stats().connects, pool.stats().connections_lost), (1, 0));
}

#[tokio::test]
async fn several_statements_in_one_text_are_refused_by_the_server() {
    let pool = open(settings("several").pool_size(1));
    for sql in ["select 1; select 2", "select 1; begin", "select 1;;select 2"] {
        let error = refused(&pool, sql).await;
        assert_eq!(error.code(), Some(SqlState::SYNTAX_ERROR), "{sql}: {error}");
        assert_eq!(pool.query_one("select 1", &[]).await.unwrap().get::<_, i32>(0).unwrap(), 1);
    }
    // One statement may end.
    assert_eq!(pool.query_one("select 1;", &[]).await.unwrap().get::<_, i32>(0).unwrap(), 1);
    assert_eq!((pool.stats().connects, pool.stats().quarantines, pool.stats().connections_lost), (1, 0, 0));
}

#[tokio::test]
async fn a_text_without_a_statement_does_nothing() {
    let pool = open(settings("nothing").pool_size(1));
    for sql in ["", " \n\t", ";", "-- nothing", "/* nothing */", ";;;"] {
        for _ in 0..2 {
            assert_eq!(pool.query(sql, &[]).await.unwrap().len(), 0, "{sql:?}");
            assert_eq!(pool.execute(sql, &[]).await.unwrap(), 0, "{sql:?}");
            assert!(pool.query_opt(sql, &[]).await.unwrap().is_none(), "{sql:?}");
            assert_eq!(pool.query_typed(sql, &[]).await.unwrap().len(), 0, "{sql:?}");
            let results = pool.batch().add(sql, &[]).add("select 1", &[]).add(sql, &[]).run().await.unwrap();
            let rows: Vec<usize> = results.iter().map(|result| result.rows().len()).collect();
            assert_eq!(rows, [0, 1, 0], "{sql:?}");
        }
        let error = pool.query_one(sql, &[]).await.expect_err("there is no row");
        assert!(error.is_caller() && error.is_row_count(), "{sql:?}: {error}");
        let error = pool.query(sql, &[&1]).await.expect_err("there is no parameter");
        assert!(error.is_caller(), "{sql:?}: {error}");
    }
    assert_eq!((pool.stats().connects, pool.stats().connections_lost), (1, 0));
}

#[tokio::test]
async fn wrong_named_types_are_told() {
    let pool = open(settings("named_types").pool_size(1));
    for _ in 0..2 {
        // The server's word: there is no such operator.
        let error = pool.query_typed("select $1 + 1", &[(&true, Type::BOOL)]).await.expect_err("no sum of a truth");
        assert_eq!(error.code(), Some(SqlState::UNDEFINED_FUNCTION), "{error}");
        // Ours: the value is not of the type that was named.
        let error = pool.query_typed("select $1 + 1", &[(&"one", Type::INT4)]).await.expect_err("a text is no number");
        assert!(error.is_caller() && error.to_string().contains("$1"), "{error}");
        let rows = pool.query_typed("select $1 + 1", &[(&1, Type::INT4)]).await.unwrap();
        assert_eq!(rows[0].get::<_, i32>(0).unwrap(), 2);
        let rows = pool.query_typed("select $1 + 1", &[(&1_i64, Type::INT8)]).await.unwrap();
        assert_eq!(rows[0].get::<_, i64>(0).unwrap(), 2, "other types make another statement");
        let error = pool.query_typed("select $1 + $2", &[(&1, Type::INT4)]).await.expect_err("one parameter too few");
        assert!(error.is_server() || error.is_caller(), "{error}");
    }
    assert_eq!((pool.stats().connects, pool.stats().connections_lost, pool.stats().in_flight()), (1, 0, 0));
}

/// It is checked when the transaction ends, behind the statement's own end.
#[tokio::test]
async fn an_error_at_the_end_of_the_transaction_is_the_statements() {
    let schema = OwnSchema::create("deferred").await;
    let admin = schema.admin().await;
    admin.run("create table twice (id int unique deferrable initially deferred); grant all on twice to cenote").await;
    let pool = open(schema.settings().pool_size(1));
    let insert = "insert into twice values ($1) returning id";
    pool.execute(insert, &[&1]).await.unwrap();
    for error in [
        pool.execute(insert, &[&1]).await.expect_err("execute"),
        pool.query(insert, &[&1]).await.expect_err("query"),
        pool.query_one(insert, &[&1]).await.expect_err("query_one"),
        pool.batch().add(insert, &[&2]).add(insert, &[&1]).run().await.expect_err("batch"),
    ] {
        assert!(error.is_server() && error.code() == Some(SqlState::UNIQUE_VIOLATION), "{error}");
    }
    assert_eq!(admin.number("select count(*) from twice", &[]).await, 1);
}

/// The server quotes what a user typed, however long that is: still an error of its caller's alone.
#[tokio::test]
async fn an_error_of_any_length_is_its_callers_alone() {
    let pool = open(settings("long_error").pool_size(1));
    let long = "x".repeat(6 << 20);
    let parameters: [&(dyn ToSql + Sync); 1] = [&long];
    let (refused, neighbour) =
        tokio::join!(pool.query_one("select $1::text::int", &parameters), pool.query_one("select 7", &[]));
    let error = refused.expect_err("no number");
    assert!(
        error.is_server() && error.code() == Some(SqlState::INVALID_TEXT_REPRESENTATION),
        "{:.100}",
        error.to_string()
    );
    assert_eq!(neighbour.expect("his own answer").get::<_, i32>(0).unwrap(), 7);
    assert_eq!((pool.stats().connects, pool.stats().connections_lost), (1, 0));
}

/// A procedure may commit and then fail with any code, also with those that make a statement be prepared anew.
#[tokio::test]
async fn what_may_have_committed_is_not_run_again() {
    let schema = OwnSchema::create("commits").await;
    let admin = schema.admin().await;
    admin.run("create table kept (code text); grant all on kept to cenote").await;
    admin
        .run(
            "create procedure keep(code text) language plpgsql as $$ begin insert into kept values (code); commit; \
             raise exception 'cache lookup failed for type 5' using errcode = code; end $$",
        )
        .await;
    let pool = open(schema.settings().pool_size(1));
    for code in ["26000", "42P05", "XX000", "0A000", "42P01", "22012"] {
        for _ in 0..2 {
            let error = pool.execute("call keep($1)", &[&code]).await.expect_err(code);
            assert_eq!(error.code().map(|state| state.code().to_owned()), Some(code.to_owned()), "{error}");
        }
        let kept = pool.query_one("select count(*) from kept where code = $1", &[&code]).await.unwrap();
        assert_eq!(kept.get::<_, i64>(0).unwrap(), 2, "{code}: as often as it was called");
    }
}
