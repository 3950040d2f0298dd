//! The firewall: what a statement does to the session it runs in, and who may run it therefore.
//!
//! A statement is looked at once, when it is first prepared: its leading keyword, behind comments and parentheses,
//! and the names of a few functions that lock or set things for the session. It is a lexer, not a parser; what it
//! cannot see is caught after the reply, by the state that `ReadyForQuery` tells.

use crate::error::Error;

/// What a statement does to its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Nothing that anybody else would notice.
    None,
    /// It begins or ends a transaction or a savepoint.
    Transaction(&'static str),
    /// It has a meaning within a transaction alone, and leaves nothing behind.
    WithinTransaction(&'static str),
    /// It changes what stays until the session ends or is reset.
    Session(&'static str, Change),
    /// It has no place anywhere, for this reason.
    Missing(&'static str),
    /// It runs a block or a procedure: nobody can see what that does.
    Hidden,
}

/// What has to be done about a changed session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// A reset.
    Reset,
    /// The same, and the server has forgotten prepared statements by it, or has more of them than we know, or they mean other
    /// tables now.
    Prepared,
}

/// Where a statement is to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// On a connection that others use as well.
    Shared,
    /// On a lease.
    Lease,
    /// In a transaction that `begin` has made.
    Transaction,
}

/// Statements that begin with these are not for everybody's connection.
const KEYWORDS: &[(&str, Effect)] = &[
    ("abort", Effect::Transaction("ABORT")),
    ("begin", Effect::Transaction("BEGIN")),
    ("close", Effect::Session("CLOSE", Change::Reset)),
    ("commit", Effect::Transaction("COMMIT")),
    ("copy", Effect::Missing("COPY is not there yet: it needs a way of its own to move data")),
    ("deallocate", Effect::Session("DEALLOCATE", Change::Prepared)),
    ("declare", Effect::Session("DECLARE", Change::Reset)),
    ("discard", Effect::Session("DISCARD", Change::Prepared)),
    ("end", Effect::Transaction("END")),
    ("execute", Effect::Session("EXECUTE", Change::Reset)),
    ("fetch", Effect::Session("FETCH", Change::Reset)),
    ("listen", Effect::Missing("LISTEN is not there yet: nobody would hear of the notifications")),
    ("load", Effect::Session("LOAD", Change::Reset)),
    ("lock", Effect::WithinTransaction("LOCK")),
    ("move", Effect::Session("MOVE", Change::Reset)),
    ("prepare", Effect::Session("PREPARE", Change::Prepared)),
    ("release", Effect::Transaction("RELEASE")),
    ("reset", Effect::Session("RESET", Change::Reset)),
    ("rollback", Effect::Transaction("ROLLBACK")),
    ("savepoint", Effect::Transaction("SAVEPOINT")),
    ("set", Effect::Session("SET", Change::Reset)),
    ("start", Effect::Transaction("START TRANSACTION")),
    ("unlisten", Effect::Session("UNLISTEN", Change::Reset)),
];

/// Behind SET these mean the transaction, not the session.
const SET_WITHIN_TRANSACTION: &[&str] = &["transaction", "constraints"];

/// Behind these a write is refused whatever the server takes otherwise.
const BEGIN_READ_ONLY: &str = "BEGIN READ ONLY";
const START_READ_ONLY: &str = "START TRANSACTION READ ONLY";
const SET_READ_ONLY: &str = "SET TRANSACTION READ ONLY";

/// It may change what names mean: what was prepared before it, or is prepared behind it, is not what it would be without.
pub(crate) const SET_LOCAL: &str = "SET LOCAL";

/// Functions that hold something for the session.
const FUNCTIONS: &[&str] = &[
    "pg_advisory_lock",
    "pg_advisory_lock_shared",
    "pg_try_advisory_lock",
    "pg_try_advisory_lock_shared",
    "set_config",
];

impl Effect {
    /// Whether it asks for a transaction that may only read.
    pub(crate) fn reads_only(self) -> bool {
        matches!(
            self,
            Effect::Transaction(BEGIN_READ_ONLY | START_READ_ONLY) | Effect::WithinTransaction(SET_READ_ONLY)
        )
    }

    /// Refuses what does not belong where it is to run.
    pub(crate) fn admit(self, place: Place) -> Result<(), Error> {
        match (self, place) {
            (Effect::None | Effect::Hidden, _) => Ok(()),
            (Effect::Missing(words), _) => Err(Error::caller(words)),
            (Effect::Transaction(keyword), Place::Shared) => Err(Error::caller(format!(
                "{keyword} would change the session of a shared connection. Use `pool.begin()` for a transaction, or \
                 `batch` for several statements in one round trip"
            ))),
            (Effect::Transaction(keyword), Place::Transaction) => Err(Error::caller(format!(
                "{keyword} would change the transaction behind its back. Use its `commit`, `rollback` or `savepoint`"
            ))),
            (Effect::WithinTransaction(keyword), Place::Shared) => {
                Err(Error::caller(format!("{keyword} has a meaning within a transaction alone. Use `pool.begin()`")))
            }
            (Effect::Session(what, _), Place::Shared) => Err(Error::caller(format!(
                "{what} would change the session of a shared connection. Use `pool.lease()` for a connection of your own"
            ))),
            (Effect::Session(..), Place::Lease | Place::Transaction)
            | (Effect::Transaction(_), Place::Lease)
            | (Effect::WithinTransaction(_), Place::Lease | Place::Transaction) => Ok(()),
        }
    }
}

/// What a statement does to its session.
pub(crate) fn classify(sql: &str) -> Effect {
    let mut words = Words(sql.as_bytes());
    let Some(first) = words.next() else { return Effect::None };
    let known = KEYWORDS.iter().find(|(keyword, _)| first.eq_ignore_ascii_case(keyword.as_bytes()));
    if let Some(&(keyword, effect)) = known {
        let second = words.next().unwrap_or_default();
        let is = |word: &str| second.eq_ignore_ascii_case(word.as_bytes());
        let reads = Words(sql.as_bytes()).any(|word| word.eq_ignore_ascii_case(b"only"));
        return match keyword {
            "begin" if reads => Effect::Transaction(BEGIN_READ_ONLY),
            "start" if reads => Effect::Transaction(START_READ_ONLY),
            "set" if is("transaction") && reads => Effect::WithinTransaction(SET_READ_ONLY),
            "set" if is("local") => Effect::WithinTransaction(SET_LOCAL),
            "set" if SET_WITHIN_TRANSACTION.iter().any(|word| is(word)) => Effect::WithinTransaction("SET"),
            "set" if is("schema") || words.chain([second]).any(|word| word.eq_ignore_ascii_case(b"search_path")) => {
                Effect::Session("SET", Change::Prepared)
            }
            "prepare" if is("transaction") => Effect::Transaction("PREPARE TRANSACTION"),
            _ => effect,
        };
    }
    let explains = first.eq_ignore_ascii_case(b"explain");
    // Behind these TEMP makes something of the session's own.
    let mut makes = first.eq_ignore_ascii_case(b"create");
    let mut updates = first.eq_ignore_ascii_case(b"update");
    let mut previous = first;
    for word in words {
        let is = |other: &str| word.eq_ignore_ascii_case(other.as_bytes());
        updates |= is("update");
        // The schema of temporary objects, and the view by which settings are set.
        if word.get(..7).is_some_and(|start| start.eq_ignore_ascii_case(b"pg_temp")) {
            return Effect::Session("pg_temp", Change::Prepared);
        }
        if updates && is("pg_settings") {
            return Effect::Session("an update of pg_settings", Change::Reset);
        }
        if makes && (is("temp") || is("temporary")) {
            return Effect::Session("a temporary object", Change::Prepared);
        }
        // CREATE [OR REPLACE] [GLOBAL | LOCAL] TEMP ..., which EXPLAIN ANALYZE runs, too, and SELECT ... INTO [GLOBAL |
        // LOCAL] TEMP ...; but what is inserted or merged into may be called so.
        makes = (explains && is("create"))
            || (is("into") && !["insert", "merge"].iter().any(|verb| previous.eq_ignore_ascii_case(verb.as_bytes())))
            || (makes && ["or", "replace", "global", "local"].into_iter().any(is));
        previous = word;
        if let Some(function) = FUNCTIONS.iter().find(|function| is(function)) {
            return Effect::Session(function, Change::Reset);
        }
    }
    // What a block or a procedure does to the session nobody can see.
    let hidden = ["call", "do"].iter().any(|keyword| first.eq_ignore_ascii_case(keyword.as_bytes()));
    if hidden { Effect::Hidden } else { Effect::None }
}

/// The words of a statement outside of comments, strings and quoted names.
struct Words<'a>(&'a [u8]);

impl<'a> Iterator for Words<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        loop {
            let sql = self.0;
            match sql {
                [] => return None,
                [b'-', b'-', ..] => self.0 = after_line(sql),
                [b'/', b'*', ..] => self.0 = after_comment(sql),
                // E'..' alone knows the backslash; taken for a plain string it would end too early or too late.
                [b'e' | b'E', b'\'', ..] => self.0 = after_quote(&sql[1..], true),
                [b'\'', ..] => self.0 = after_quote(sql, false),
                // What is escaped in it could be any name.
                [b'u' | b'U', b'&', b'"', ..] => {
                    self.0 = after_quote(&sql[2..], false);
                    if sql[..sql.len() - self.0.len()].contains(&b'\\') {
                        return Some(FUNCTIONS[0].as_bytes());
                    }
                }
                [b'"', ..] => {
                    self.0 = after_quote(sql, false);
                    // A quoted name is no keyword, but it may be a function's, or that of something in a catalogue.
                    let name = sql.get(1..(sql.len() - self.0.len()).saturating_sub(1)).unwrap_or_default();
                    if after_blank(self.0).first() == Some(&b'(')
                        || name.starts_with(b"pg_temp")
                        || name == b"pg_settings"
                    {
                        return Some(name);
                    }
                }
                [b'$', ..] => self.0 = after_dollar(sql),
                [first, ..] if is_word(*first) => {
                    let length = sql.iter().position(|&byte| !is_word(byte) && byte != b'$').unwrap_or(sql.len());
                    let (word, rest) = sql.split_at(length);
                    self.0 = rest;
                    return Some(word);
                }
                [_, rest @ ..] => self.0 = rest,
            }
        }
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii()
}

/// What follows the first `end`.
fn after<'a>(sql: &'a [u8], end: &[u8]) -> &'a [u8] {
    sql.windows(end.len()).position(|window| window == end).map_or(&[], |at| &sql[at + end.len()..])
}

/// What follows a comment to the end of the line.
fn after_line(sql: &[u8]) -> &[u8] {
    sql.iter().position(|byte| matches!(byte, b'\n' | b'\r')).map_or(&[], |at| &sql[at + 1..])
}

/// What follows white space and comments.
fn after_blank(mut sql: &[u8]) -> &[u8] {
    loop {
        sql = sql.trim_ascii_start();
        match sql {
            [b'-', b'-', ..] => sql = after_line(sql),
            [b'/', b'*', ..] => sql = after_comment(sql),
            _ => return sql,
        }
    }
}

/// What follows a comment, which may hold others.
fn after_comment(sql: &[u8]) -> &[u8] {
    let (mut rest, mut depth) = (sql, 0_usize);
    loop {
        match rest {
            [] => return rest,
            [b'/', b'*', behind @ ..] => {
                depth += 1;
                rest = behind;
            }
            [b'*', b'/', behind @ ..] => {
                depth -= 1;
                rest = behind;
                if depth == 0 {
                    return rest;
                }
            }
            [_, behind @ ..] => rest = behind,
        }
    }
}

/// What follows a quoted string or name. A doubled quote within reads as two strings in a row, which is as good here.
fn after_quote(sql: &[u8], backslash: bool) -> &[u8] {
    let Some((quote, mut rest)) = sql.split_first() else { return &[] };
    loop {
        match rest {
            [] => return rest,
            [b'\\', _, behind @ ..] if backslash => rest = behind,
            [byte, behind @ ..] if byte == quote => return behind,
            [_, behind @ ..] => rest = behind,
        }
    }
}

/// What follows a dollar-quoted string, or a parameter (`$1`).
fn after_dollar(sql: &[u8]) -> &[u8] {
    let tag = sql[1..].iter().position(|&byte| !is_word(byte)).map_or(sql.len(), |at| at + 1);
    let quotes = sql.get(tag) == Some(&b'$') && !sql.get(1).is_some_and(u8::is_ascii_digit);
    if quotes { after(&sql[tag + 1..], &sql[..=tag]) } else { &sql[tag..] }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_changes_the_session_is_refused() {
        for sql in [
            "BEGIN",
            "begin isolation level serializable",
            "  \n\tStart Transaction",
            "-- hello\nbegin",
            "/* a /* nested */ one */ begin",
            "/*x*/-- y\n/**/SET search_path to a",
            "((( listen x",
            ";;begin",
            "commit",
            "Rollback",
            "savepoint a",
            "RESET ALL",
            "discard all",
            "copy t from stdin",
            "prepare a as select 1",
            "create temp table t(a int)",
            "create local temporary table t(a int)",
            "create or replace temp view v as select 1",
            "explain analyze create temp table t as select 1",
            "select 1 as a into temp t",
            "with a as (select 1) select * into local temporary table t from a",
            "select pg_advisory_lock(1)",
            "select pg_catalog.\"set_config\" ('a', 'b', false)",
            "select a from b where PG_TRY_ADVISORY_LOCK ($1)",
            "select set_config('a.b', $1, false)",
            "lock table a",
            "declare c cursor for select 1",
            "--x\rset search_path to a",
            "update pg_settings set setting = '1' where name = 'work_mem'",
            "with a as (select 1) update pg_catalog.\"pg_settings\" set setting = '1'",
            "create table pg_temp.x(a int)",
            "select 1 as a into \"pg_temp\".x",
            "create view pg_temp.v as select 1",
            "select \"set_config\"/**/('a', 'b', false)",
            "select U&\"set\\005fconfig\"('a', 'b', false)",
        ] {
            let error = classify(sql).admit(Place::Shared).expect_err(sql);
            assert!(error.is_caller(), "{sql}");
        }
    }

    #[test]
    fn who_is_refused_is_told_what_to_use() {
        for (sql, place, words) in [
            ("begin", Place::Shared, "`pool.begin()`"),
            ("lock table a", Place::Shared, "`pool.begin()`"),
            ("set local a.b = 1", Place::Shared, "`pool.begin()`"),
            ("set search_path to a", Place::Shared, "`pool.lease()`"),
            ("select set_config('a.b', '1', false)", Place::Shared, "`pool.lease()`"),
            ("commit", Place::Transaction, "its `commit`"),
            ("prepare transaction 'a'", Place::Transaction, "its `commit`"),
            ("copy t from stdin", Place::Lease, "not there yet"),
            ("listen x", Place::Lease, "LISTEN is not there yet"),
            ("listen x", Place::Transaction, "LISTEN is not there yet"),
            ("listen x", Place::Shared, "LISTEN is not there yet"),
        ] {
            let error = classify(sql).admit(place).expect_err(sql);
            assert!(error.to_string().contains(words), "{sql}: {error}");
        }
    }

    #[test]
    fn a_lease_may_do_to_its_session_what_it_likes() {
        for sql in
            ["begin", "set search_path to a", "unlisten x", "create temp table t(a int)", "lock table a", "do $$ $$"]
        {
            assert!(classify(sql).admit(Place::Lease).is_ok(), "{sql}");
        }
        for sql in ["lock table a", "set local a.b = 1", "declare c cursor for select 1", "select 1"] {
            assert!(classify(sql).admit(Place::Transaction).is_ok(), "{sql}");
        }
        assert_eq!(classify("deallocate all"), Effect::Session("DEALLOCATE", Change::Prepared));
        assert_eq!(classify("set transaction read write"), Effect::WithinTransaction("SET"));
        for sql in [
            "set transaction read only",
            "begin isolation level serializable, Read Only",
            "start transaction read only",
        ] {
            assert!(classify(sql).reads_only(), "{sql}");
        }
        assert!(!classify("begin").reads_only() && !classify("begin read write /* only */").reads_only());
    }

    #[test]
    fn what_does_not_is_let_through() {
        for sql in [
            "",
            "-- only a comment",
            "/* begin",
            "select 1",
            "select 'begin; set x'",
            "select \"pg_advisory_lock\" from t",
            "select * from pg_settings",
            "select U&\"a\" from t",
            "select E'a\\' set_config', 1",
            "select $$pg_advisory_lock(1)$$, $1, $a$ $$ set_config $a$",
            "select pg_advisory_xact_lock(1)",
            "with a as (insert into b values (1) returning *) select * from a",
            "(select 1)",
            "update setting set begin = 1",
            "insert into t values ($1, $2)",
            "create table temp(a int)",
            "create table t(temp int)",
            "create table t as select 1 as temp",
            "select 1 into t",
            "insert into temp values (1)",
            "with a as (insert into temp values (1) returning *) select * from a",
            "merge into temporary using a on true when matched then delete",
            "grant create, temporary on database a to b",
            "do $$ begin perform 1; end $$",
            "call p()",
            "begins",
            "show search_path",
            "explain select 1",
            "vacuum t",
        ] {
            let admitted = classify(sql).admit(Place::Shared);
            assert!(admitted.is_ok(), "{sql}: {}", admitted.unwrap_err());
        }
    }

    proptest! {
        #[test]
        fn noise_never_panics(sql in "[-/*'\"$;() a-eBE\\\\\n0-9_]{0,80}") {
            let _ = classify(&sql);
        }
    }
}
