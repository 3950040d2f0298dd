//! `ErrorCode`: the number by which MySQL and MariaDB name a condition.
//!
//! Only the codes that this driver or its users are likely to branch on have a name here; any other is still carried
//! and compared. The two servers agree on codes below 1,900; from there on a code can be one server's alone, and from
//! 4,000 on they give the same numbers to different things.

use std::fmt;

/// A condition's number.
///
/// Source: MySQL's "Server Error Message Reference", MariaDB's "Error Codes".
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ErrorCode(u16);

macro_rules! named {
    ($($name:ident = $number:literal, $words:literal;)*) => {
        impl ErrorCode {
            $(
                #[doc = concat!($number, ": ", $words, ".")]
                pub const $name: ErrorCode = ErrorCode($number);
            )*
        }

        #[cfg(test)]
        const NAMED: &[ErrorCode] = &[$(ErrorCode::$name),*];
    };
}

named! {
    RECORD_HAS_CHANGED = 1020, "the row was changed by somebody else since it was read";
    DUPLICATE_KEY = 1022, "a duplicate key, of which the table's engine does not say which";
    TOO_MANY_CONNECTIONS = 1040, "too many connections";
    BAD_HANDSHAKE = 1043, "the server did not understand the log-in";
    DATABASE_ACCESS_DENIED = 1044, "this user may not use this database";
    ACCESS_DENIED = 1045, "wrong password, no such user, or none that may connect from here";
    NO_DATABASE_SELECTED = 1046, "no database is selected";
    UNKNOWN_COMMAND = 1047, "the server, or what stands before it, does not know the command";
    NOT_NULL_VIOLATION = 1048, "a column cannot be null";
    UNKNOWN_DATABASE = 1049, "no such database";
    TABLE_EXISTS = 1050, "a table of that name exists already";
    SERVER_SHUTDOWN = 1053, "the server is shutting down";
    UNKNOWN_COLUMN = 1054, "no such column";
    DUPLICATE_ENTRY = 1062, "a duplicate entry for a unique key";
    SYNTAX_ERROR = 1064, "syntax error";
    HOST_BLOCKED = 1129, "the client's host is blocked after too many failed connections";
    HOST_NOT_PRIVILEGED = 1130, "the client's host may not connect";
    TABLE_ACCESS_DENIED = 1142, "this user lacks the right for this table";
    UNKNOWN_TABLE = 1146, "no such table";
    ABORTING_CONNECTION = 1152, "the server has given the connection up";
    PACKET_TOO_LARGE = 1153, "a packet larger than `max_allowed_packet`";
    PACKETS_OUT_OF_ORDER = 1156, "packets out of order";
    NETWORK_READ_ERROR = 1158, "the server could not read from the connection";
    NETWORK_READ_INTERRUPTED = 1159, "the server waited too long for the rest of a packet";
    NETWORK_WRITE_ERROR = 1160, "the server could not write to the connection";
    NETWORK_WRITE_INTERRUPTED = 1161, "the server waited too long to write";
    NEW_ABORTING_CONNECTION = 1184, "the server has given the connection up during the log-in";
    TOO_MANY_USER_CONNECTIONS = 1203, "too many connections of this user";
    LOCK_WAIT_TIMEOUT = 1205, "waited too long for a lock; the statement may be tried again";
    LOCK_TABLE_FULL = 1206, "there are more locks than the server has room for";
    WRONG_ARGUMENTS = 1210, "an argument of a kind that does not fit";
    DEADLOCK = 1213, "deadlock; the transaction was rolled back and may be tried again";
    USER_LIMIT_REACHED = 1226, "this user has used up what its account may use";
    PRIVILEGE_MISSING = 1227, "this user lacks a privilege";
    UNKNOWN_STATEMENT = 1243, "no prepared statement of that id";
    AUTHENTICATION_NOT_SUPPORTED = 1251, "the server asks for an authentication the client did not offer";
    VALUE_OUT_OF_RANGE = 1264, "a value is out of a column's range";
    OPTION_PREVENTS_STATEMENT = 1290, "an option of the server forbids it, often `--read-only`";
    WRONG_VALUE = 1292, "a value that is none of its type";
    UNSUPPORTED_PREPARED = 1295, "a statement that cannot be prepared";
    QUERY_INTERRUPTED = 1317, "the statement was interrupted, by KILL QUERY or a shutdown";
    DIVISION_BY_ZERO = 1365, "division by zero";
    DATA_TOO_LONG = 1406, "a value is too long for its column";
    ROW_IS_REFERENCED = 1451, "a foreign key refers to the row";
    REFERENCED_ROW_MISSING = 1452, "a foreign key refers to no row";
    TOO_MANY_PREPARED_STATEMENTS = 1461, "the server has `max_prepared_stmt_count` prepared statements already";
    PLUGIN_NOT_LOADED = 1524, "the server does not have the authentication plugin of this account";
    NEED_REPREPARE = 1615, "a prepared statement has to be prepared anew";
    RESULT_OUT_OF_RANGE = 1690, "a computed value is out of range";
    ACCESS_DENIED_WITHOUT_PASSWORD = 1698, "this user may not connect, and a password does not change that";
    READ_ONLY_TRANSACTION = 1792, "a write inside a read-only transaction";
    PASSWORD_MUST_BE_CHANGED = 1820, "the password must be changed before anything else";
    READ_ONLY_MODE = 1836, "the server is in read-only mode";
    PASSWORD_EXPIRED = 1862, "the password has expired";
    CONNECTION_KILLED = 1927, "MariaDB: the connection was killed";
    STATEMENT_TIMEOUT = 1969, "MariaDB: the statement ran longer than `max_statement_time`";
    QUERY_TIMEOUT = 3024, "MySQL: the statement ran longer than `max_execution_time`";
    OFFLINE_MODE = 3032, "MySQL: the server is offline for ordinary users";
    ACCOUNT_LOCKED = 3118, "MySQL: the account is locked";
    SECURE_TRANSPORT_REQUIRED = 3159, "MySQL: only encrypted connections are accepted";
    SERVER_NOT_AVAILABLE = 3168, "MySQL: the server is not available";
    SESSION_KILLED = 3169, "MySQL: the session was killed";
    LOCK_NOT_AVAILABLE = 3572, "MySQL: a row is locked, and NOWAIT was said";
    CHECK_VIOLATION = 3819, "MySQL: check constraint violated";
    LOCAL_INFILE_DISABLED = 3948, "MySQL: LOAD DATA LOCAL is disabled";
    MARIADB_CHECK_VIOLATION = 4025, "MariaDB: check constraint violated";
    IDLE_TOO_LONG = 4031, "MySQL: the connection was idle for longer than `wait_timeout`";
    MARIADB_ACCOUNT_LOCKED = 4151, "MariaDB: the account is locked";
}

impl ErrorCode {
    pub(crate) const fn from_number(number: u16) -> ErrorCode {
        ErrorCode(number)
    }

    /// The number.
    pub const fn number(self) -> u16 {
        self.0
    }

    /// Whether the server closes the connection after it. 4031 means it on MySQL only; on MariaDB it is about triggers
    /// and one connection is made anew without need.
    pub(crate) fn ends_session(self) -> bool {
        use ErrorCode as E;
        matches!(
            self,
            E::SERVER_SHUTDOWN
                | E::ABORTING_CONNECTION
                | E::PACKET_TOO_LARGE
                | E::PACKETS_OUT_OF_ORDER
                | E::NETWORK_READ_ERROR
                | E::NETWORK_READ_INTERRUPTED
                | E::NETWORK_WRITE_ERROR
                | E::NETWORK_WRITE_INTERRUPTED
                | E::NEW_ABORTING_CONNECTION
                | E::CONNECTION_KILLED
                | E::OFFLINE_MODE
                | E::SERVER_NOT_AVAILABLE
                | E::SESSION_KILLED
                | E::IDLE_TOO_LONG
        )
    }

    /// Whether a transaction that has ended with this error was rolled back by it.
    pub(crate) fn may_undo_transaction(self) -> bool {
        use ErrorCode as E;
        // Of the second and the third: where the server is set so, or its table of locks is full.
        matches!(self, E::DEADLOCK | E::LOCK_WAIT_TIMEOUT | E::LOCK_TABLE_FULL | E::RECORD_HAS_CHANGED)
    }
}

impl From<ErrorCode> for u16 {
    fn from(code: ErrorCode) -> u16 {
        code.0
    }
}

impl PartialEq<u16> for ErrorCode {
    fn eq(&self, number: &u16) -> bool {
        self.0 == *number
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ErrorCode({})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_in_order_and_no_two_share_a_code() {
        for pair in NAMED.windows(2) {
            assert!(pair[0] < pair[1], "{:?} stands before {:?}", pair[0], pair[1]);
        }
    }

    #[test]
    fn a_code_is_its_number() {
        assert_eq!(ErrorCode::DUPLICATE_ENTRY, 1062);
        assert_eq!(u16::from(ErrorCode::from_number(60_000)), 60_000);
        assert_eq!(ErrorCode::NEED_REPREPARE.to_string(), "1615");
    }
}
