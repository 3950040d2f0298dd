//! What is refused, where, and what is not.

use proptest::prelude::*;

use super::*;

/// In a session that is set as servers are.
fn classify(sql: &str) -> Effect {
    super::classify(sql).of(Backslashes::ESCAPE)
}

#[test]
fn what_a_backslash_hides_depends_on_the_session() {
    // As text, and what is hidden by the first string where a backslash is a letter.
    let letter = "select '\\', get_lock('a', 1) -- '";
    let escape = "select 'it\\'s @home'";
    for (sql, escape_ok, letter_ok) in [
        (letter, true, false),
        (escape, true, false),
        ("select '\\\\', get_lock('a', 1)", false, false),
        ("select 'a\\\\' from t", true, true),
        // Where double quotes hold names, no backslash escapes within.
        ("select \"\\\", get_lock(\"a\", 1) -- \"", false, false),
        ("select `\\`, get_lock('a', 1)", false, false),
        ("select '\\' /* ', get_lock('a', 1) -- */ '", false, true),
        ("insert into t values ('\\n', \"\\t\")", true, true),
    ] {
        let effects = super::classify(sql);
        let admitted = |backslashes| effects.of(backslashes).admit(Place::Shared).is_ok();
        assert_eq!(admitted(Backslashes::ESCAPE), escape_ok, "{sql}");
        assert_eq!(admitted(Backslashes::LETTERS), letter_ok, "{sql}");
        assert_eq!(admitted(Backslashes::EITHER), escape_ok && letter_ok, "{sql}");
        assert_eq!(admitted(Backslashes::default()), escape_ok && letter_ok, "{sql}");
        assert_eq!(effects.is_none(), escape_ok && letter_ok, "{sql}");
    }
    let effects = super::classify("set @a = '\\', autocommit = 1 -- '");
    assert!(effects.depend() && effects.of(Backslashes::ESCAPE).admit(Place::Transaction).is_ok());
    assert!(effects.of(Backslashes::EITHER).admit(Place::Transaction).is_err());
}

#[test]
fn what_changes_or_asks_the_session_is_refused() {
    for sql in [
        "BEGIN",
        "begin work",
        "  \n\tStart Transaction",
        "-- hello\nbegin",
        "--\tx\nbegin",
        "# hello\nbegin",
        "/*x*/ begin",
        "/*!50000 start*/ transaction",
        "/*!start*/ transaction",
        "/*M!100100 begin */",
        "(( begin",
        ";;set names latin1",
        "set autocommit = 0",
        "SET @a = 1",
        "use mysql",
        "commit",
        "Rollback",
        "savepoint a",
        "lock tables t write",
        "unlock tables",
        "xa start 'a'",
        "prepare a from 'select 1'",
        "execute a",
        "deallocate prepare a",
        "handler t open",
        "call p()",
        "load data local infile 'a' into table t",
        "get diagnostics @a = number",
        "create temporary table t(a int)",
        "create or replace temporary table t(a int)",
        "drop temporary table t",
        "select get_lock('a', 1)",
        "do release_lock('a')",
        "select @a := 1",
        "select 1 into @a",
        "select @`a`",
        "select@a",
        "create table t as select @a",
        "create table t select@a:=77 as a",
        "show tables where@a:=78",
        "--\x7f'\nset names latin1 -- '",
        "/*!99999 # */ set names latin1",
        "/*!99999 ' */ use information_schema -- '",
        "/*!999999 ` */ set names latin1 -- `",
        "/*M!999999 ' */ set @a = 1 -- '",
        "/*!99999 -- */ create temporary table t(a int)",
        "select @@identity",
        "select @@session.last_insert_id, 1",
        "select @@warning_count",
        "@a",
        "select last_insert_id()",
        "select LAST_INSERT_ID ( )",
        "select found_rows()",
        "select row_count()",
        "show warnings",
        "show count(*) errors",
        "select /*! get_lock('a', 1) */",
        // What one server passes over and another does not.
        "/*!99999 x*/ begin",
        "/*!99999 select*/ set names latin1",
        "/*M!100100 x*/ commit",
        "/*!50700 select*/ /*!99999 insert*/ rollback",
        "/*!80000 /*!99999 x */ begin */",
        "create /*!99999 x*/ temporary table t(a int)",
        "select get_lock/*!99999 x*/('a', 1)",
        "select last_insert_id(/*!99999 x*/)",
        "/*!99999 create*/ select@a",
        // Where the server sees a function's name as well.
        "select get_lock /* here */ ('a', 1)",
        "select get_lock -- here\n ('a', 1)",
        "select `get_lock`('a', 1)",
        "select \"GET_LOCK\"('a', 1)",
        "select last_insert_id(/* nothing */)",
        "select @.a := 1",
        "select @$a",
        "if 1 then start transaction; end if",
        "while 1 do set names latin1; end while",
        "case 1 when 1 then commit; end case",
        "for i in 1..2 do commit; end for",
        "repeat commit; until 1 end repeat",
        "loop commit; end loop",
        "flush tables with read lock",
        "flush local tables t for export",
        "backup stage start",
        "select lastval(s)",
    ] {
        let error = classify(sql).admit(Place::Shared).expect_err(sql);
        assert!(error.is_caller(), "{sql}");
    }
}

#[test]
fn what_does_not_is_let_through() {
    for sql in [
        "",
        "-- only a comment",
        "/* begin",
        "select 1",
        "select 'begin; set x', \"@a\", `@b`",
        "select 'it''s', 'a\\' get_lock(', 1",
        "select `get_lock` from t",
        "select get_lock from t",
        "select @@version, @@session.sql_mode",
        "select 5--1",
        "select a--get_lock",
        "insert into t values (?, ?)",
        "replace into t values (?)",
        "create table t(temporary int)",
        "create table temporary_things(a int)",
        "with a as (select 1) select * from a",
        "(select 1) union (select 2)",
        "show tables",
        "explain analyze select 1",
        "select a from t where email = 'a@b.c'",
        "grant select on a.* to 'a'@'localhost', b@localhost",
        "create definer=`a`@`%` view v as select 1",
        "begins",
        "start replica",
        "start slave until a = 1",
        "stop replica",
        "select * from t for update",
        "alter table t add column a int",
        "flush tables",
        "select if(a, 1, 2), case a when 1 then 2 end, repeat('x', 3) from t",
        "select /*!50000 straight_join */ a from t",
        "/*!50000 select 1 as begin, a from t */",
        "insert into `get_lock` values ('(')",
        "select 'get_lock', ('a')",
        "select get_lock, (1)",
        "create procedure p() begin set @a = 1; select last_insert_id(); end",
        "create or replace definer = a@`%` function f() returns int return get_lock('a', 1)",
        "create definer='a'@'%' procedure p() select @a",
        "create definer = procedure@localhost trigger t before insert on a for each row set @a = 1",
        "create event e on schedule every 1 day do set @a = 1",
        "select a /* get_lock */ (1)",
    ] {
        let admitted = classify(sql).admit(Place::Shared);
        assert!(admitted.is_ok(), "{sql}: {}", admitted.unwrap_err());
    }
}

#[test]
fn a_body_is_only_what_is_one() {
    for sql in [
        "create table procedure_a as select @a := 1",
        "create table t (`function` int) as select @a := 1",
        "create table t as select 1 as `procedure`, @a := 1",
        "create definer = procedure@localhost view v as select @a",
        // For one server a procedure, for another a table.
        "create /*!99999 procedure */ temporary table t (a int)",
        "create /*!50000 procedure */ table t select @a := 1",
    ] {
        assert!(classify(sql).admit(Place::Shared).is_err(), "{sql}");
    }
}

#[test]
fn who_is_refused_is_told_what_to_use() {
    for (sql, place, words) in [
        ("begin", Place::Shared, "`pool.begin()`"),
        ("set autocommit = 0", Place::Shared, "`pool.lease()`"),
        ("call p()", Place::Shared, "`pool.lease()`"),
        ("select get_lock('a', 1)", Place::Shared, "`pool.lease()`"),
        ("show warnings", Place::Shared, "SHOW WARNINGS or ERRORS would ask"),
        ("select last_insert_id()", Place::Shared, "`execute`"),
        ("commit", Place::Transaction, "its `commit`"),
        ("/*!50000 start*/ transaction", Place::Transaction, "its `commit`"),
        ("savepoint a", Place::Transaction, "`savepoint`"),
        ("set @@session.`autocommit` = 1", Place::Transaction, "SET autocommit"),
        ("set names utf8mb4, autocommit = 1", Place::Transaction, "SET autocommit"),
        ("create table t(a int)", Place::Transaction, "CREATE would commit"),
        ("create /*!99999 temporary*/ table t(a int)", Place::Transaction, "CREATE would commit"),
        ("create procedure p() set @a = 1", Place::Transaction, "CREATE would commit"),
        ("drop table t", Place::Transaction, "DROP would commit"),
        ("truncate t", Place::Transaction, "TRUNCATE would commit"),
        ("/*!80000 alter*/ table t add b int", Place::Transaction, "ALTER would commit"),
        ("lock tables t read", Place::Transaction, "LOCK would commit"),
        ("analyze local table t", Place::Transaction, "ANALYZE TABLE would commit"),
        ("grant select on a.* to b", Place::Transaction, "GRANT would commit"),
        ("start replica", Place::Transaction, "START REPLICA would commit"),
        ("start slave 'a'", Place::Transaction, "START REPLICA would commit"),
        ("start all slaves", Place::Transaction, "START REPLICA would commit"),
        ("start group_replication", Place::Transaction, "START REPLICA would commit"),
        ("stop replica", Place::Transaction, "STOP REPLICA would commit"),
        ("start transaction read only", Place::Transaction, "START TRANSACTION would change the transaction"),
        ("/*!99999 start */ transaction", Place::Transaction, "START TRANSACTION would change the transaction"),
        ("start transaction", Place::Shared, "`pool.begin()`"),
        ("load index into cache t", Place::Transaction, "LOAD INDEX INTO CACHE would commit"),
        ("set password = 'a'", Place::Transaction, "SET PASSWORD"),
        ("set default role all to a", Place::Transaction, "SET DEFAULT ROLE would commit"),
        ("clone local data directory 'a'", Place::Transaction, "CLONE would commit"),
        ("execute immediate 'commit'", Place::Transaction, "EXECUTE runs statements that could commit"),
        ("execute immediate concat('com', 'mit')", Place::Transaction, "EXECUTE runs"),
        ("execute a", Place::Transaction, "EXECUTE runs"),
        ("if 1 then commit; end if", Place::Transaction, "IF runs"),
        ("case 1 when 1 then commit; end case", Place::Transaction, "CASE runs"),
        ("while 1 do commit; end while", Place::Transaction, "WHILE runs"),
        ("repeat commit; until 1 end repeat", Place::Transaction, "REPEAT runs"),
        ("loop commit; end loop", Place::Transaction, "LOOP runs"),
        ("for i in 1..2 do commit; end for", Place::Transaction, "FOR runs"),
        ("declare a int; begin commit; end", Place::Transaction, "DECLARE runs"),
        ("begin not atomic commit; end", Place::Transaction, "its `commit`"),
        ("set statement max_statement_time = 1 for commit", Place::Transaction, "COMMIT would change"),
        ("set statement a = 1 for /*!99999 x*/ commit", Place::Transaction, "COMMIT would change"),
        ("set /*M! statement*/ a = 1 for drop table t", Place::Transaction, "DROP would commit"),
        ("set statement a = 1 for execute immediate 'commit'", Place::Transaction, "EXECUTE runs"),
    ] {
        let error = classify(sql).admit(place).expect_err(sql);
        assert!(error.is_caller() && error.to_string().contains(words), "{sql}: {error}");
    }
}

#[test]
fn a_lease_may_do_to_its_session_what_it_likes_and_is_reset_for_it() {
    for (sql, changes) in [
        ("begin", false),
        ("begin not atomic set session time_zone = '+05:00'; end", true),
        ("xa start 'a'", true),
        ("set names utf8mb4", true),
        ("set @a = 1", true),
        ("select @a := 1", true),
        ("use mysql", true),
        ("create temporary table t(a int)", true),
        ("select get_lock('a', 1)", true),
        ("lock tables t read", true),
        ("call p()", true),
        ("execute immediate 'set names utf8mb4'", true),
        ("if 1 then set @a = 1; end if", true),
        ("prepare a from 'select 1'", true),
        ("drop database a", true),
        ("/*!99999 set*/ select 1", true),
        ("select last_insert_id(5)", true),
        ("insert into t values (last_insert_id(last_insert_id()))", true),
        ("select last_insert_id(/*!99999 1*/)", true),
        ("show warnings", false),
        ("select last_insert_id(), found_rows(), row_count(), @@warning_count", false),
        ("select 1", false),
        ("create table t(a int)", false),
        ("drop table t", false),
    ] {
        let effect = classify(sql);
        assert!(effect.admit(Place::Lease).is_ok(), "{sql}");
        assert_eq!(effect.changes_session(), changes, "{sql}");
    }
}

#[test]
fn what_was_prepared_before_some_statements_is_outdated_by_them() {
    for (sql, outdates) in [
        ("use other", true),
        ("/*!99999 use */ other", true),
        ("set sql_mode = ''", true),
        ("set @@session.SQL_MODE = ''", true),
        ("set @a = 1, names utf8mb4", true),
        ("set character_set_client = utf8mb4", true),
        ("set `collation_connection` = utf8mb4_bin", true),
        ("set @a = 1", false),
        ("set time_zone = '+00:00'", false),
        ("select sql_mode, names from t", false),
    ] {
        assert_eq!(classify(sql).outdates_prepared(), outdates, "{sql}");
    }
}

#[test]
fn nothing_but_utf8mb4_is_spoken_anywhere() {
    for sql in [
        "set names latin1",
        "SET NAMES 'utf8'",
        "set names utf8mb3",
        "set names default",
        "set names binary",
        "set names",
        "set @a = 1, names latin1",
        "set character set latin1",
        "set char set 'latin1'",
        "set charset latin1",
        "set character_set_results = null",
        "set character_set_results := latin1",
        "set session character_set_client = 'latin1'",
        "set @@session.character_set_connection = latin1",
        "set `character_set_results` = latin1",
        "set character_set_results = ?",
        "set character_set_results = @a",
        "set character_set_results = default",
        "set time_zone = '+00:00', character_set_results = (select 1)",
        "set statement character_set_results = latin1 for select 1",
        "begin not atomic set names latin1; end",
        "if 1 then set character_set_results = null; end if",
        "/*!50000 set */ names latin1",
        "set /*!99999 names */ latin1",
        "set names /*!99999 utf8mb4 */ latin1",
        "set names /*!50000 latin1 */",
    ] {
        for place in [Place::Shared, Place::Lease, Place::Transaction] {
            let error = classify(sql).admit(place).expect_err(sql).to_string();
            assert!(error.contains("utf8mb4") || sql.contains("names */"), "{sql}: {error}");
        }
    }
    for sql in [
        "set names utf8mb4",
        "SET NAMES 'UTF8MB4' collate utf8mb4_bin",
        "/*!40101 set names utf8mb4 */",
        "set character set utf8mb4",
        "set character_set_results = utf8mb4, @@character_set_client := 'utf8mb4'",
        "set @a = (select a, names, charset from t)",
        "set @names = 'latin1', @a = @@character_set_results",
        "set time_zone = '+00:00', @a = charset('a'), @b = 1 + char(65)",
        "set collation_connection = utf8mb4_bin",
        "select names, character_set_results = latin1 from t",
        "create procedure p() set names latin1",
    ] {
        assert!(classify(sql).admit(Place::Lease).is_ok(), "{sql}");
    }
}

#[test]
fn what_no_reset_undoes_is_seen() {
    for (sql, spoils) in [
        ("set role none", true),
        ("SET /*!80000 role */ 'a'@'b'", true),
        ("set resource group a", true),
        ("set session authorization a@b", true),
        ("set default role a to b", false),
        ("set @role = 1", false),
        ("set names utf8mb4", false),
        ("select role from t", false),
    ] {
        assert_eq!(classify(sql).spoils_session(), spoils, "{sql}");
    }
}

#[test]
fn a_transaction_may_do_what_does_not_end_it() {
    for sql in [
        "select 1",
        "insert into t values (?)",
        "call p()",
        "set @a = 1",
        "set session sql_mode = ''",
        "set statement max_statement_time = 1 for select a from t for update",
        "set a = 1, b = default",
        "load data infile 'a' into table t",
        "select if(a, 1, 2), case a when 1 then 2 end from t",
        "prepare a from 'commit'",
        "create temporary table t(a int)",
        "drop temporary table if exists t",
        "select get_lock('a', 1)",
        "analyze select 1",
        "select a from t for update",
        "do sleep(0)",
        "show create table t",
        "explain analyze select 1",
    ] {
        assert!(classify(sql).admit(Place::Transaction).is_ok(), "{sql}");
    }
}

proptest! {
    #[test]
    fn noise_never_panics(sql in "[-/*'\"`#;!M@() a-eBE\\\\\n0-9_]{0,80}") {
        let _ = classify(&sql);
    }
}
