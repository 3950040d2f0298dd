//! `LoginError`: why a connection did not come to be, whose fault that was, and whether trying again can help.

use std::error::Error;
use std::fmt;

use cenote_pool::TlsFailure;

use crate::server_error::{ErrorCode, ServerError};

/// Why a log-in failed, by whose fault it was. Never holds the password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LoginError {
    /// The server refused, in its own words.
    Server(ServerError),
    /// The other side broke the protocol, is no MySQL server at all, or not the one that is meant.
    Peer(String),
    /// The settings do not fit what this server asks for.
    Caller(String),
    /// What is there does not take a command before it has answered the one before. Without pipelining it may do.
    DoesNotPipeline,
}

impl LoginError {
    pub(crate) fn peer(words: impl fmt::Display) -> LoginError {
        LoginError::Peer(format!("protocol broken at log-in: {words}"))
    }

    /// TLS did not come about.
    pub(crate) fn tls(failure: &TlsFailure) -> LoginError {
        let words = failure.to_string();
        match failure {
            TlsFailure::Settings(_) | TlsFailure::Refused(_) => LoginError::Caller(words),
            TlsFailure::Untrusted(_) | TlsFailure::Broken(_) | TlsFailure::Injected => LoginError::Peer(words),
        }
    }

    /// Whether the next attempt would end the same way until somebody changes something: who waits for a connection is
    /// told at once.
    ///
    /// A broken protocol is not of that kind: what sits between may be restarting.
    pub(crate) fn is_fatal(&self) -> bool {
        match self {
            LoginError::Server(error) => refuses_for_good(error.code()),
            LoginError::Peer(_) | LoginError::DoesNotPipeline => false,
            LoginError::Caller(_) => true,
        }
    }
}

/// Whether a server that said `code` at log-in will say it again. Too many connections pass; a blocked host does not:
/// each attempt only confirms the block.
fn refuses_for_good(code: ErrorCode) -> bool {
    use ErrorCode as E;
    matches!(
        code,
        E::DATABASE_ACCESS_DENIED
            | E::ACCESS_DENIED
            | E::ACCESS_DENIED_WITHOUT_PASSWORD
            | E::UNKNOWN_DATABASE
            | E::HOST_BLOCKED
            | E::HOST_NOT_PRIVILEGED
            | E::AUTHENTICATION_NOT_SUPPORTED
            | E::PLUGIN_NOT_LOADED
            | E::PASSWORD_MUST_BE_CHANGED
            | E::PASSWORD_EXPIRED
            | E::ACCOUNT_LOCKED
            | E::MARIADB_ACCOUNT_LOCKED
            | E::SECURE_TRANSPORT_REQUIRED
    )
}

impl fmt::Display for LoginError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoginError::Server(error) => error.fmt(f),
            LoginError::Peer(words) | LoginError::Caller(words) => f.write_str(words),
            LoginError::DoesNotPipeline => {
                f.write_str("the server, or what stands before it, does not pipeline commands")
            }
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
            (1045_u16, true), // wrong password
            (1698, true),     // no password would do
            (1044, true),     // no right for the database
            (1049, true),     // no such database
            (1129, true),     // host blocked
            (1130, true),     // host may not connect
            (1251, true),     // authentication not supported
            (1524, true),     // plugin not loaded
            (1820, true),     // password must be changed
            (1862, true),     // password expired
            (3118, true),     // account locked
            (4151, true),     // account locked, MariaDB
            (3159, true),     // TLS required
            (1040, false),    // too many connections
            (1203, false),    // too many connections of this user
            (1226, false),    // so many an hour
            (1043, false),    // what proxies say of many things
            (1053, false),    // shutting down
            (1152, false),
            (1184, false), // init_connect failed
            (3032, false), // offline
            (0, false),
        ];
        for (code, fatal) in table {
            let error = LoginError::Server(ServerError::parse(&code.to_le_bytes()));
            assert_eq!(error.is_fatal(), fatal, "{code}");
        }
        assert!(LoginError::Caller(String::new()).is_fatal());
        assert!(!LoginError::peer("").is_fatal());
        assert!(!LoginError::DoesNotPipeline.is_fatal());
    }

    #[test]
    fn whose_fault_it_is_that_there_is_no_tls() {
        let words = || "because".to_owned();
        for (failure, by_caller) in [
            (TlsFailure::Settings(words()), true),
            (TlsFailure::Refused(words()), true),
            (TlsFailure::Untrusted(words()), false),
            (TlsFailure::Broken(words()), false),
            (TlsFailure::Injected, false),
        ] {
            let error = LoginError::tls(&failure);
            assert_eq!(matches!(error, LoginError::Caller(_)), by_caller, "{failure:?}");
            assert_eq!(error.to_string(), failure.to_string());
        }
    }
}
