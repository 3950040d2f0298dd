//! `SqlState`: the five-character code by which Postgres names a condition.
//!
//! Only the codes that this driver or its users are likely to branch on have a name here; any other code
//! is still carried and compared by its characters. What a condition means for a connection or a retry is
//! not decided here.

use std::fmt;

/// What a code that is no SQLSTATE (wrong length, odd characters, missing) is kept as. No real code has
/// a question mark, so it equals none of them.
const MALFORMED: [u8; 5] = *b"?????";

/// A SQLSTATE: five digits or capital letters, of which the first two are the class.
///
/// Source: the appendix "PostgreSQL Error Codes" of the PostgreSQL documentation.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SqlState([u8; 5]);

macro_rules! named {
    ($($name:ident = $code:literal, $words:literal;)*) => {
        impl SqlState {
            $(
                #[doc = concat!("`", $code, "`: ", $words, ".")]
                pub const $name: SqlState = SqlState::named($code);
            )*
        }

        #[cfg(test)]
        const NAMED: &[(SqlState, &str)] = &[$((SqlState::$name, $code)),*];
    };
}

named! {
    PROTOCOL_VIOLATION = "08P01", "protocol violation";
    FEATURE_NOT_SUPPORTED = "0A000", "feature not supported, also a cached plan whose result type changed";
    NUMERIC_VALUE_OUT_OF_RANGE = "22003", "numeric value out of range";
    DIVISION_BY_ZERO = "22012", "division by zero";
    INVALID_PARAMETER_VALUE = "22023", "invalid parameter value";
    INVALID_TEXT_REPRESENTATION = "22P02", "invalid text representation";
    NOT_NULL_VIOLATION = "23502", "not-null constraint violated";
    FOREIGN_KEY_VIOLATION = "23503", "foreign key constraint violated";
    UNIQUE_VIOLATION = "23505", "unique constraint violated";
    CHECK_VIOLATION = "23514", "check constraint violated";
    EXCLUSION_VIOLATION = "23P01", "exclusion constraint violated";
    READ_ONLY_SQL_TRANSACTION = "25006", "a write inside a read-only transaction";
    IN_FAILED_SQL_TRANSACTION = "25P02", "the transaction has failed and waits for its rollback";
    IDLE_IN_TRANSACTION_SESSION_TIMEOUT = "25P03", "the session was idle inside a transaction for too long";
    INVALID_SQL_STATEMENT_NAME = "26000", "no prepared statement of that name";
    INVALID_AUTHORIZATION_SPECIFICATION = "28000", "this user may not connect like this";
    INVALID_PASSWORD = "28P01", "wrong password, or no such user";
    INVALID_CATALOG_NAME = "3D000", "no such database";
    SERIALIZATION_FAILURE = "40001", "the transaction could not be serialized and may be tried again";
    DEADLOCK_DETECTED = "40P01", "deadlock; the transaction may be tried again";
    INSUFFICIENT_PRIVILEGE = "42501", "insufficient privilege";
    SYNTAX_ERROR = "42601", "syntax error";
    UNDEFINED_COLUMN = "42703", "no such column";
    UNDEFINED_OBJECT = "42704", "no such object";
    UNDEFINED_FUNCTION = "42883", "no such function or operator for these types";
    UNDEFINED_TABLE = "42P01", "no such table";
    DUPLICATE_PREPARED_STATEMENT = "42P05", "a prepared statement of that name exists already";
    DUPLICATE_TABLE = "42P07", "a table of that name exists already";
    INDETERMINATE_DATATYPE = "42P18", "the type of a parameter could not be determined";
    TOO_MANY_CONNECTIONS = "53300", "too many connections";
    PROGRAM_LIMIT_EXCEEDED = "54000", "a limit of the server was exceeded";
    OBJECT_IN_USE = "55006", "object in use";
    LOCK_NOT_AVAILABLE = "55P03", "lock not available";
    QUERY_CANCELED = "57014", "the statement was cancelled, by request or by its timeout";
    ADMIN_SHUTDOWN = "57P01", "the connection was ended by an administrator's command";
    CRASH_SHUTDOWN = "57P02", "the connection was ended because another server process crashed";
    CANNOT_CONNECT_NOW = "57P03", "the server is starting up, shutting down or recovering";
    IDLE_SESSION_TIMEOUT = "57P05", "the session was idle for too long";
    INTERNAL_ERROR = "XX000", "internal error of the server";
}

impl SqlState {
    const fn named(code: &str) -> SqlState {
        match code.as_bytes() {
            [a, b, c, d, e] => SqlState([*a, *b, *c, *d, *e]),
            _ => panic!("a SQLSTATE has five characters"),
        }
    }

    /// What stands in a message's code field.
    pub(super) fn from_field(field: &[u8]) -> SqlState {
        let well_formed = |byte: &u8| byte.is_ascii_digit() || byte.is_ascii_uppercase();
        match <[u8; 5]>::try_from(field) {
            Ok(code) if code.iter().all(well_formed) => SqlState(code),
            _ => SqlState::malformed(),
        }
    }

    pub(super) const fn malformed() -> SqlState {
        SqlState(MALFORMED)
    }

    /// The five characters, `"?????"` if the server sent something that is no SQLSTATE.
    pub fn code(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or("?????")
    }

    /// The first two characters: the class of the condition, `"23"` for every violated constraint.
    pub fn class(&self) -> &str {
        self.code().get(..2).unwrap_or("??")
    }
}

impl fmt::Display for SqlState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

impl fmt::Debug for SqlState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SqlState({})", self.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_named_code_is_read_back_from_its_field() {
        for (state, code) in NAMED {
            assert_eq!(SqlState::from_field(code.as_bytes()), *state, "{code}");
            assert_eq!(state.code(), *code);
            assert_eq!(state.class(), &code[..2]);
            assert_eq!(state.to_string(), *code);
        }
    }

    #[test]
    fn no_two_names_share_a_code() {
        for (index, (state, code)) in NAMED.iter().enumerate() {
            let again = NAMED[index + 1..].iter().any(|(other, _)| other == state);
            assert!(!again, "{code} has two names");
        }
    }

    #[test]
    fn an_unnamed_code_is_kept() {
        let state = SqlState::from_field(b"ZZ999");
        assert_eq!(state.code(), "ZZ999");
        assert_eq!(format!("{state:?}"), "SqlState(ZZ999)");
    }

    #[test]
    fn what_is_no_code_equals_no_code() {
        for field in [&b""[..], b"2350", b"235055", b"2350x", b"\xff\xff\xff\xff\xff", b"23 05"] {
            let state = SqlState::from_field(field);
            assert_eq!(state.code(), "?????", "{field:?}");
            assert_eq!(state.class(), "??");
            assert!(NAMED.iter().all(|(named, _)| *named != state));
        }
    }
}
