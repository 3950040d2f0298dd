//! `LoginError`: why a connection did not come to be, whose fault that was, and whether trying again can help.

use std::error::Error;
use std::fmt;

use cenote_pool::TlsFailure;

use crate::server_error::{ServerError, SqlState};

/// Why a log-in failed, by whose fault it was. Never holds the password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LoginError {
    /// The server refused, in its own words.
    Server(ServerError),
    /// The other side broke the protocol, or is no Postgres server at all.
    Peer(String),
    /// The settings do not fit what this server asks for.
    Caller(String),
    /// TLS was to be, and did not come about.
    Tls(TlsFailure),
}

impl LoginError {
    pub(crate) fn peer(words: impl Into<String>) -> LoginError {
        LoginError::Peer(words.into())
    }

    /// Whether the next attempt would end the same way until somebody changes something: who waits for a
    /// connection is told at once.
    ///
    /// A broken protocol is not of that kind: what sits between may be restarting.
    pub(crate) fn is_fatal(&self) -> bool {
        match self {
            LoginError::Server(error) => refuses_for_good(error.code()),
            LoginError::Peer(_) => false,
            LoginError::Caller(_) => true,
            LoginError::Tls(failure) => failure.is_lasting(),
        }
    }

    /// What the settings, or a file they name, would have to change.
    pub(crate) fn is_caller(&self) -> bool {
        matches!(self, LoginError::Caller(_) | LoginError::Tls(TlsFailure::Settings(_) | TlsFailure::Refused(_)))
    }

    /// What is at the other end is not what it should be.
    pub(crate) fn is_peer(&self) -> bool {
        use TlsFailure::{Broken, Injected, Untrusted};
        matches!(self, LoginError::Peer(_) | LoginError::Tls(Broken(_) | Injected | Untrusted(_)))
    }

    /// The two sides did not come to terms about TLS, though nobody did wrong.
    pub(super) fn is_tls_failed(&self) -> bool {
        matches!(self, LoginError::Tls(TlsFailure::Broken(_) | TlsFailure::Refused(_)))
    }
}

/// Whether a server that said `code` at log-in will say it again.
fn refuses_for_good(code: SqlState) -> bool {
    // Class 28: user, password, pg_hba.conf. Classes 22 and 42: `options` names a setting that is not there,
    // a value that it cannot have, or something for which the user lacks the right (42501).
    matches!(code.class(), "22" | "28" | "42")
        || code == SqlState::INVALID_CATALOG_NAME
        || code == SqlState::FEATURE_NOT_SUPPORTED
}

impl fmt::Display for LoginError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoginError::Server(error) => error.fmt(f),
            LoginError::Peer(words) => write!(f, "protocol broken at log-in: {words}"),
            LoginError::Caller(words) => f.write_str(words),
            LoginError::Tls(failure) => failure.fmt(f),
        }
    }
}

impl Error for LoginError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_will_not_heal_is_fatal() {
        let table = [
            ("28P01", true),  // wrong password
            ("28000", true),  // no pg_hba.conf entry, role may not log in
            ("3D000", true),  // no such database
            ("42501", true),  // no CONNECT right
            ("42704", true),  // options: no such setting
            ("42601", true),  // options: not understood
            ("22023", true),  // options: no such value
            ("0A000", true),  // protocol version
            ("53300", false), // too many connections
            ("53200", false), // out of memory
            ("57P03", false), // starting up
            ("57P01", false), // shutting down
            ("57P02", false), // another process crashed
            ("55000", false), // the database does not accept connections now
            ("08P01", false), // what poolers say of many things
            ("XX000", false),
            ("?", false),
        ];
        for (code, fatal) in table {
            let body = format!("SFATAL\0C{code}\0Mm\0\0");
            let error = LoginError::Server(ServerError::parse(body.as_bytes()));
            assert_eq!(error.is_fatal(), fatal, "{code}");
        }
        assert!(LoginError::Caller(String::new()).is_fatal());
        assert!(!LoginError::peer("").is_fatal());
    }
}
