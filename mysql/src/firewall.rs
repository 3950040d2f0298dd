//! The firewall: which statements may not run on a shared connection, because they would change its session, leave a
//! transaction open for whoever comes next, or ask the session for what a stranger left in it.
//!
//! A statement is looked at once, when it is first prepared: its leading keyword, behind comments and parentheses and
//! within executable comments (`/*! ... */`), user variables, and the names of a few functions. It is a lexer, not a
//! parser; what it cannot see is caught after the reply, by the status flags.

use crate::error::Error;

/// What to use instead, as the end of an error message.
const LEASE: &str = "It needs a connection of its own, which this version does not hand out yet";

/// Statements that begin with these are refused.
const KEYWORDS: &[&str] = &[
    "begin",
    "call",
    "commit",
    "deallocate",
    "execute",
    "get",
    "handler",
    "load",
    "lock",
    "prepare",
    "release",
    "rollback",
    "savepoint",
    "set",
    "start",
    "unlock",
    "use",
    "xa",
];

/// Statements that begin with these may name accounts: `'user'@'host'`.
const ACCOUNT_KEYWORDS: &[&str] = &["alter", "create", "drop", "grant", "rename", "revoke", "show"];

/// Functions that hold something for the session, or tell of the session's last statement, which may be a stranger's.
const FUNCTIONS: &[&str] = &["found_rows", "get_lock", "release_all_locks", "release_lock", "row_count"];

/// Of the session when it stands alone; with an argument it is a value like any other.
const LAST_INSERT_ID: &str = "last_insert_id";

/// Refuses what does not belong on a shared connection.
pub(crate) fn admit(sql: &str) -> Result<(), Error> {
    let mut tokens = Tokens::new(sql);
    let Some(Token::Word(first)) = tokens.next() else { return refuse_variable(sql) };
    let is = |word: &[u8], other: &str| word.eq_ignore_ascii_case(other.as_bytes());
    if let Some(keyword) = KEYWORDS.iter().find(|keyword| is(first, keyword)) {
        let keyword = keyword.to_ascii_uppercase();
        return Err(Error::caller(format!("{keyword} would change the session of a shared connection. {LEASE}")));
    }
    let makes = is(first, "create") || is(first, "drop");
    let shows = is(first, "show");
    let names_accounts = ACCOUNT_KEYWORDS.iter().any(|keyword| is(first, keyword));
    let mut second = true;
    while let Some(token) = tokens.next() {
        let word = match token {
            Token::Word(word) => word,
            Token::Variable { behind_name: true } if names_accounts => continue,
            Token::Variable { .. } => return Err(variable()),
        };
        if shows && (is(word, "warnings") || is(word, "errors")) {
            return Err(Error::caller(format!("they would be those of a stranger's statement. {LEASE}")));
        }
        // CREATE [OR REPLACE] TEMPORARY; a column may be called so.
        if makes && second && is(word, "temporary") {
            return Err(Error::caller(format!("a temporary table would belong to a shared connection. {LEASE}")));
        }
        second = is(word, "or") || is(word, "replace");
        let alone = |argument: &[u8]| argument.trim_ascii_start().first() == Some(&b')');
        let call = tokens.rest.trim_ascii_start().strip_prefix(b"(");
        if let Some(argument) = call
            && (FUNCTIONS.iter().any(|function| is(word, function)) || is(word, LAST_INSERT_ID) && alone(argument))
        {
            let function = String::from_utf8_lossy(word).to_ascii_uppercase();
            let instead = match is(word, LAST_INSERT_ID) {
                true => "`execute` returns it with its result",
                false => LEASE,
            };
            return Err(Error::caller(format!("{function} would ask the session of a shared connection. {instead}")));
        }
    }
    Ok(())
}

/// A statement without a leading word: empty, or noise that the server will refuse.
fn refuse_variable(sql: &str) -> Result<(), Error> {
    match Tokens::new(sql).any(|token| matches!(token, Token::Variable { .. })) {
        true => Err(variable()),
        false => Ok(()),
    }
}

fn variable() -> Error {
    Error::caller(format!("a user variable (@name) would belong to the session of a shared connection. {LEASE}"))
}

/// What is not in a comment, a string or a quoted name.
enum Token<'a> {
    Word(&'a [u8]),
    /// `@name`; not a system variable, `@@name`. Right behind a name it may be an account's host.
    Variable {
        behind_name: bool,
    },
}

struct Tokens<'a> {
    rest: &'a [u8],
    /// A word or something quoted has just ended.
    behind_name: bool,
}

impl<'a> Tokens<'a> {
    fn new(sql: &'a str) -> Tokens<'a> {
        Tokens { rest: sql.as_bytes(), behind_name: false }
    }
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        loop {
            let sql = self.rest;
            let behind_name = std::mem::take(&mut self.behind_name);
            match sql {
                [] => return None,
                [b'#', ..] => self.rest = after(sql, b"\n"),
                // Two dashes begin a comment only before a space or a control character.
                [b'-', b'-', rest @ ..] if rest.first().is_none_or(|byte| *byte <= b' ') => {
                    self.rest = after(sql, b"\n");
                }
                // Executable: what is in it is run, perhaps depending on the server's version.
                [b'/', b'*', b'!', rest @ ..] | [b'/', b'*', b'M', b'!', rest @ ..] => {
                    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
                    self.rest = &rest[digits..];
                }
                [b'/', b'*', rest @ ..] => self.rest = after(rest, b"*/"),
                [b'\'' | b'"' | b'`', ..] => {
                    self.rest = after_quote(sql);
                    self.behind_name = true;
                }
                [b'@', b'@', rest @ ..] => self.rest = rest,
                [b'@', rest @ ..] if rest.first().is_some_and(|byte| is_word(*byte) || b"'\"`".contains(byte)) => {
                    self.rest = rest;
                    return Some(Token::Variable { behind_name });
                }
                [first, ..] if is_word(*first) => {
                    let length = sql.iter().position(|&byte| !is_word(byte)).unwrap_or(sql.len());
                    let (word, rest) = sql.split_at(length);
                    self.rest = rest;
                    self.behind_name = true;
                    return Some(Token::Word(word));
                }
                [_, rest @ ..] => self.rest = rest,
            }
        }
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || !byte.is_ascii()
}

/// What follows the first `end`.
fn after<'a>(sql: &'a [u8], end: &[u8]) -> &'a [u8] {
    sql.windows(end.len()).position(|window| window == end).map_or(&[], |at| &sql[at + end.len()..])
}

/// What follows a quoted string or name. A doubled quote within reads as two strings in a row, which is as good here.
fn after_quote(sql: &[u8]) -> &[u8] {
    let Some((quote, mut rest)) = sql.split_first() else { return &[] };
    loop {
        match rest {
            [] => return rest,
            [b'\\', _, behind @ ..] if *quote != b'`' => rest = behind,
            [byte, behind @ ..] if byte == quote => return behind,
            [_, behind @ ..] => rest = behind,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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
            "@a",
            "select last_insert_id()",
            "select LAST_INSERT_ID ( )",
            "select found_rows()",
            "select row_count()",
            "show warnings",
            "show count(*) errors",
            "select /*! get_lock('a', 1) */",
        ] {
            let error = admit(sql).expect_err(sql);
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
            "update t set id = last_insert_id(id + 1)",
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
            "select * from t for update",
            "alter table t add column a int",
        ] {
            assert!(admit(sql).is_ok(), "{sql}: {}", admit(sql).unwrap_err());
        }
    }

    proptest! {
        #[test]
        fn noise_never_panics(sql in "[-/*'\"`#;!M@() a-eBE\\\\\n0-9_]{0,80}") {
            let _ = admit(&sql);
        }
    }
}
