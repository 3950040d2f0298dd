//! The firewall: which statements may not run on a shared connection, because they would change its session, leave a
//! transaction open for whoever comes next, or ask the session for what a stranger left in it.
//!
//! A statement is looked at once, when it is first prepared: its leading keyword, behind comments and parentheses, user
//! variables, and the names of a few functions. What is within an executable comment (`/*! ... */`, `/*!80000 ... */`)
//! one server runs and another passes over, so whatever would be refused in either case is. It is a lexer, not a parser;
//! what it cannot see is caught after the reply, by the status flags. What a stored function does to its session, it does
//! not see.

use crate::error::Error;

/// What to use instead, as the end of an error message.
const LEASE: &str = "It needs a connection of its own, which this version does not hand out yet";

/// Statements that begin with these are refused.
const KEYWORDS: &[&str] = &[
    "backup",
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

/// MariaDB runs these outside of stored programs, too; what they hold may be any of the above.
const COMPOUND_KEYWORDS: &[&str] = &["case", "for", "if", "loop", "repeat", "while"];

/// Statements that begin with these may name accounts: `'user'@'host'`.
const ACCOUNT_KEYWORDS: &[&str] = &["alter", "create", "drop", "grant", "rename", "revoke", "show"];

/// Functions that hold something for the session, or tell of the session's last statement, which may be a stranger's.
const FUNCTIONS: &[&str] = &["found_rows", "get_lock", "lastval", "release_all_locks", "release_lock", "row_count"];

/// Of the session when it stands alone; with an argument it is a value like any other.
const LAST_INSERT_ID: &str = "last_insert_id";

/// System variables that tell of the session's last statement.
const SESSION_VALUES: &[&str] = &["error_count", "identity", "insert_id", "last_insert_id", "warning_count"];

/// What stands right behind these is no account's host, although the statement may name accounts.
const NO_ACCOUNTS: &[&str] = &[
    "all", "and", "between", "by", "case", "distinct", "div", "else", "having", "in", "into", "is", "like", "limit",
    "mod", "not", "on", "or", "return", "returns", "select", "set", "then", "values", "when", "where", "xor",
];

/// Refuses what does not belong on a shared connection.
pub(crate) fn admit(sql: &str) -> Result<(), Error> {
    // A server skips executable comments of versions that it is not, to the next `*/` whatever is in them. A quote or
    // another comment's beginning in there would hide what follows, so they are read both ways.
    read(sql, Executable::Run)?;
    if sql.contains("/*!") || sql.contains("/*M!") { read(sql, Executable::Skipped) } else { Ok(()) }
}

/// What a server does with an executable comment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Executable {
    Run,
    Skipped,
}

fn read(sql: &str, executable: Executable) -> Result<(), Error> {
    let mut tokens = Tokens::new(sql, executable);
    let mut previous: &[u8] = &[];
    let (mut front, mut call) = (Front::default(), Call::default());
    while let Some(token) = tokens.next() {
        let comment = tokens.comment;
        if let Token::Word(word) = token {
            front.look(word, comment)?;
        }
        if let Token::Variable { behind_name } = token
            && !(behind_name && front.names_accounts() && !any(previous, NO_ACCOUNTS))
        {
            return Err(Error::caller(format!(
                "a user variable (@name) would belong to the session of a shared connection. {LEASE}"
            )));
        }
        if let Token::System(name) = token
            && any(name, SESSION_VALUES)
        {
            return Err(asks(name, LEASE));
        }
        call.look(token, comment.is_some())?;
        previous = if let Token::Word(word) = token { word } else { &[] };
    }
    Ok(())
}

fn is(word: &[u8], other: &str) -> bool {
    word.eq_ignore_ascii_case(other.as_bytes())
}

fn any(word: &[u8], others: &[&str]) -> bool {
    others.iter().any(|other| is(word, other))
}

/// What kind of statement it is.
#[derive(Default)]
struct Front {
    /// Its first word outside of executable comments has come; and of which of those the first word has.
    begun: bool,
    comment: Option<u32>,
    makes: bool,
    shows: bool,
    flushes: bool,
    accounts: bool,
    others: bool,
    /// The next word is where TEMPORARY would be.
    second: bool,
}

impl Front {
    fn names_accounts(&self) -> bool {
        self.accounts && !self.others
    }

    fn look(&mut self, word: &[u8], comment: Option<u32>) -> Result<(), Error> {
        let leads = !self.begun && (comment.is_none() || comment != self.comment);
        if leads {
            self.begun = comment.is_none();
            self.comment = comment;
            return self.lead(word);
        }
        if self.shows && any(word, &["warnings", "errors"]) {
            return Err(Error::caller(format!("they would be those of a stranger's statement. {LEASE}")));
        }
        if self.flushes && any(word, &["lock", "export"]) {
            return Err(Error::caller(format!("the tables would be locked by a shared connection. {LEASE}")));
        }
        // CREATE [OR REPLACE] TEMPORARY; a column may be called so.
        if self.second && is(word, "temporary") {
            return Err(Error::caller(format!("a temporary table would belong to a shared connection. {LEASE}")));
        }
        if comment.is_none() {
            self.second = self.second && any(word, &["or", "replace"]);
        }
        Ok(())
    }

    /// A word that the statement begins with, for one server or another.
    fn lead(&mut self, word: &[u8]) -> Result<(), Error> {
        if any(word, KEYWORDS) {
            let keyword = upper(word);
            return Err(Error::caller(format!("{keyword} would change the session of a shared connection. {LEASE}")));
        }
        if any(word, COMPOUND_KEYWORDS) {
            let keyword = upper(word);
            return Err(Error::caller(format!("{keyword} holds statements that could be any. {LEASE}")));
        }
        self.makes |= any(word, &["create", "drop"]);
        self.second |= self.makes;
        self.shows |= is(word, "show");
        self.flushes |= is(word, "flush");
        let accounts = any(word, ACCOUNT_KEYWORDS);
        self.accounts |= accounts;
        self.others |= !accounts;
        Ok(())
    }
}

/// Whether one of the [`FUNCTIONS`] is called.
#[derive(Default)]
struct Call<'a> {
    named: Option<&'a [u8]>,
    opened: bool,
}

impl<'a> Call<'a> {
    fn look(&mut self, token: Token<'a>, optional: bool) -> Result<(), Error> {
        match (token, self.named) {
            // The server knows functions by quoted names, too.
            (Token::Word(name) | Token::Quoted(name), _) if any(name, FUNCTIONS) || is(name, LAST_INSERT_ID) => {
                *self = Call { named: Some(name), opened: false };
            }
            (Token::Open, Some(name)) if any(name, FUNCTIONS) => return Err(asks(name, LEASE)),
            (Token::Open, Some(_)) => self.opened = true,
            (Token::Close, Some(name)) if self.opened => {
                return Err(asks(name, "`execute` returns it with its result"));
            }
            // What a server may pass over stands between nothing.
            _ if optional => {}
            _ => *self = Call::default(),
        }
        Ok(())
    }
}

fn asks(function: &[u8], instead: &str) -> Error {
    let function = upper(function);
    Error::caller(format!("{function} would ask the session of a shared connection. {instead}"))
}

fn upper(word: &[u8]) -> String {
    String::from_utf8_lossy(word).to_ascii_uppercase()
}

/// What is not in a comment, and no space.
#[derive(Clone, Copy)]
enum Token<'a> {
    Word(&'a [u8]),
    /// In back quotes or double quotes: a name, or text.
    Quoted(&'a [u8]),
    /// `@name`; not a system variable, `@@name`. Right behind a name it may be an account's host.
    /// `@@name`, without its scope.
    System(&'a [u8]),
    Variable {
        behind_name: bool,
    },
    Open,
    Close,
    Other,
}

struct Tokens<'a> {
    rest: &'a [u8],
    executable: Executable,
    /// A word or something quoted has just ended.
    behind_name: bool,
    /// Within an executable comment, and in which.
    comment: Option<u32>,
    comments: u32,
}

impl<'a> Tokens<'a> {
    fn new(sql: &'a str, executable: Executable) -> Tokens<'a> {
        Tokens { rest: sql.as_bytes(), executable, behind_name: false, comment: None, comments: 0 }
    }
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        loop {
            let sql = self.rest;
            let behind_name = std::mem::take(&mut self.behind_name);
            let (token, rest) = match sql {
                [] => return None,
                [b'#', ..] => (None, after(sql, b"\n")),
                // Two dashes begin a comment only before a space or a control character.
                [b'-', b'-', rest @ ..] if rest.first().is_none_or(|byte| *byte <= b' ' || *byte == 0x7F) => {
                    (None, after(sql, b"\n"))
                }
                // Executable: what is in it is run, perhaps depending on the server's version.
                [b'/', b'*', b'!', rest @ ..] | [b'/', b'*', b'M', b'!', rest @ ..]
                    if self.executable == Executable::Run =>
                {
                    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
                    self.comments += 1;
                    self.comment = Some(self.comments);
                    (None, &rest[digits..])
                }
                [b'*', b'/', rest @ ..] if self.comment.is_some() => {
                    self.comment = None;
                    (None, rest)
                }
                [b'/', b'*', rest @ ..] => (None, after(rest, b"*/")),
                [quote @ (b'\'' | b'"' | b'`'), inside @ ..] => {
                    let rest = after_quote(sql);
                    self.behind_name = true;
                    let inside = &inside[..(inside.len() - rest.len()).saturating_sub(1)];
                    (Some(if *quote == b'\'' { Token::Other } else { Token::Quoted(inside) }), rest)
                }
                [b'@', b'@', rest @ ..] => {
                    let (name, rest) = system_variable(rest);
                    (Some(Token::System(name)), rest)
                }
                // What follows may be any sort of name, or quoted.
                [b'@', rest @ ..] => (Some(Token::Variable { behind_name }), rest),
                [first, ..] if is_word(*first) => {
                    let length = sql.iter().position(|&byte| !is_word(byte)).unwrap_or(sql.len());
                    let (word, rest) = sql.split_at(length);
                    self.behind_name = true;
                    (Some(Token::Word(word)), rest)
                }
                [b'(', rest @ ..] => (Some(Token::Open), rest),
                [b')', rest @ ..] => (Some(Token::Close), rest),
                [first, rest @ ..] => ((*first > b' ').then_some(Token::Other), rest),
            };
            self.rest = rest;
            if token.is_some() {
                return token;
            }
        }
    }
}

/// The name of a system variable, behind its scope if it has one, and what follows it.
fn system_variable(sql: &[u8]) -> (&[u8], &[u8]) {
    let bare = |sql: &'_ [u8]| sql.iter().position(|byte| !is_word(*byte)).unwrap_or(sql.len());
    let (name, rest) = sql.split_at(bare(sql));
    match rest.strip_prefix(b".") {
        Some(behind) if any(name, &["session", "local", "global"]) => behind.split_at(bare(behind)),
        _ => (name, rest),
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
            "flush tables",
            "select if(a, 1, 2), case a when 1 then 2 end, repeat('x', 3) from t",
            "select /*!50000 straight_join */ a from t",
            "/*!50000 select 1 as begin, a from t */",
            "insert into `get_lock` values ('(')",
            "select 'get_lock', ('a')",
            "select last_insert_id(?), last_insert_id('a'), last_insert_id(- 1)",
            "select get_lock, (1)",
            "select a /* get_lock */ (1)",
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
