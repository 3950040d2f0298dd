//! `Error`: what went wrong, and whose fault it was.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use cenote_pool::{ConnectCause, Failure, LossCause};

use crate::login::LoginError;
use crate::server_error::{ErrorCode, ServerError};
use crate::settings::SettingsError;

/// What went wrong. Opaque: ask it whose fault it was.
///
/// | predicate | whose fault | what to do |
/// |---|---|---|
/// | [`is_server`](Error::is_server) | the server refused the statement or the log-in | read [`code`](Error::code) |
/// | [`is_caller`](Error::is_caller) | this call: wrong type, wrong count, wrong settings | mend the program |
/// | [`is_network`](Error::is_network) | the network, or the server went away | see [`was_sent`](Error::was_sent) |
/// | [`is_timeout`](Error::is_timeout) | nobody in particular: no room, or no answer, in time | try later |
/// | [`is_transaction_lost`](Error::is_transaction_lost) | the server has ended the transaction | begin it anew |
/// | [`is_peer`](Error::is_peer) | what is at the other end does not keep to the protocol | look what is there |
/// | [`is_closed`](Error::is_closed) | the pool was closed | open it |
///
/// `Display` says it for a person, and never shows a password or a parameter's value.
#[derive(Clone)]
pub struct Error(Arc<Kind>);

enum Kind {
    Server(ServerError),
    Caller(String),
    Conversion {
        what: String,
        source: Arc<dyn StdError + Send + Sync>,
    },
    RowCount(&'static str),
    Peer(String),
    Settings(Arc<SettingsError>),
    /// The transaction that was to be ended had ended, and the server has not said that it rolled it back.
    EndedBefore,
    Pool {
        failure: Failure,
        farewell: Option<ServerError>,
    },
}

impl Error {
    fn new(kind: Kind) -> Error {
        Error(Arc::new(kind))
    }

    pub(crate) fn server(error: ServerError) -> Error {
        Error::new(Kind::Server(error))
    }

    pub(crate) fn caller(words: impl Into<String>) -> Error {
        Error::new(Kind::Caller(words.into()))
    }

    pub(crate) fn peer(words: impl Into<String>) -> Error {
        Error::new(Kind::Peer(words.into()))
    }

    pub(crate) fn row_count(words: &'static str) -> Error {
        Error::new(Kind::RowCount(words))
    }

    pub(crate) fn parameter(number: usize, source: Box<dyn StdError + Send + Sync>) -> Error {
        Error::new(Kind::Conversion { what: format!("parameter {number}"), source: source.into() })
    }

    pub(crate) fn column(name: &str, source: Box<dyn StdError + Send + Sync>) -> Error {
        Error::new(Kind::Conversion { what: format!("column {name:?}"), source: source.into() })
    }

    pub(crate) fn ended_before() -> Error {
        Error::new(Kind::EndedBefore)
    }

    /// Whether it is true as well for others who wait for the same text, with whatever values: it speaks of the text, or
    /// there was no connection to be had and nothing was sent.
    pub(crate) fn is_shared(&self) -> bool {
        matches!(*self.0, Kind::Server(_) | Kind::Caller(_))
            || matches!(*self.0, Kind::Pool { .. }) && self.was_sent() == Some(false)
    }

    /// The server refused: a statement, or the log-in.
    pub fn is_server(&self) -> bool {
        matches!(*self.0, Kind::Server(_) | Kind::Pool { failure: Failure::CancelRefused(_), .. })
            || matches!(self.login_failure(), Some(LoginError::Server(_)))
    }

    /// This call was at fault: a value of the wrong type, too many parameters, a statement that does not belong on a
    /// shared connection, more or fewer rows than asked for, settings that cannot be met, a reply larger than the pool
    /// buffers.
    pub fn is_caller(&self) -> bool {
        match &*self.0 {
            Kind::Caller(_) | Kind::Conversion { .. } | Kind::RowCount(_) | Kind::Settings(_) => true,
            Kind::Pool { failure, .. } => {
                matches!(failure, Failure::ReplyTooLarge { .. } | Failure::InTransaction)
                    || matches!(self.login_failure(), Some(LoginError::Caller(_)))
            }
            Kind::Server(_) | Kind::Peer(_) | Kind::EndedBefore => false,
        }
    }

    /// The connection was lost.
    pub fn is_network(&self) -> bool {
        matches!(*self.0, Kind::Pool { failure: Failure::Lost { .. }, .. })
    }

    /// There was no room on any connection in time, or too many callers were waiting for it already, or there was no answer
    /// within the time given for it.
    pub fn is_timeout(&self) -> bool {
        use Failure::{AcquireTimeout, Overdue, TooManyWaiters};
        matches!(*self.0, Kind::Pool { failure: AcquireTimeout(_) | TooManyWaiters { .. } | Overdue { .. }, .. })
    }

    /// The other end broke the protocol. Where that cost the connection, it is lost too
    /// ([`is_network`](Error::is_network)).
    pub fn is_peer(&self) -> bool {
        match &*self.0 {
            Kind::Peer(_) => true,
            Kind::Pool { failure: Failure::Lost { loss, .. }, .. } => matches!(loss.cause, LossCause::Peer(_)),
            _ => matches!(self.login_failure(), Some(LoginError::Peer(_))),
        }
    }

    /// The pool was closed. A statement that was in flight when the time of [`Pool::close`](crate::Pool::close) was over is
    /// lost too ([`is_network`](Error::is_network)).
    pub fn is_closed(&self) -> bool {
        match &*self.0 {
            Kind::Pool { failure: Failure::Closed, .. } => true,
            Kind::Pool { failure: Failure::Lost { loss, .. }, .. } => matches!(loss.cause, LossCause::PoolClosed),
            _ => false,
        }
    }

    /// The server has ended the transaction by itself; the statement was not sent. After a deadlock nothing of the
    /// transaction is left to be undone, and a rollback succeeds; after a procedure that commits, what it had done stays, which
    /// this error says of a commit and of a rollback.
    pub fn is_transaction_lost(&self) -> bool {
        matches!(*self.0, Kind::Pool { failure: Failure::NoTransaction, .. } | Kind::EndedBefore)
    }

    /// Of a query that asks for one row: there was none, or there were more.
    pub fn is_row_count(&self) -> bool {
        matches!(*self.0, Kind::RowCount(_))
    }

    /// Whether the statement may have run although there is no answer. `false` is a promise: no byte of it has left.
    ///
    /// `None` when the question does not arise: there is an answer.
    pub fn was_sent(&self) -> Option<bool> {
        match &*self.0 {
            Kind::Pool { failure: Failure::Lost { sent, .. }, .. } => Some(*sent),
            Kind::Pool { failure: Failure::ReplyTooLarge { .. } | Failure::Overdue { .. }, .. } => Some(true),
            // What was to be told is not a statement.
            Kind::Pool { failure: Failure::NotCancelled(_) | Failure::CancelRefused(_), .. } => None,
            Kind::Pool { .. } | Kind::EndedBefore => Some(false),
            _ => None,
        }
    }

    /// The server's error, with all its fields: why it refused, or why it closed the connection.
    pub fn as_server_error(&self) -> Option<&ServerError> {
        match (&*self.0, self.login_failure()) {
            (Kind::Server(error), _) | (_, Some(LoginError::Server(error))) => Some(error),
            (Kind::Pool { farewell, .. }, _) => farewell.as_ref(),
            _ => None,
        }
    }

    /// The code of [`as_server_error`](Error::as_server_error).
    pub fn code(&self) -> Option<ErrorCode> {
        self.as_server_error().map(ServerError::code)
    }

    /// What may be told of it where the values of parameters may not: the message of a server, or of a conversion, may hold
    /// some.
    pub(crate) fn without_values(&self) -> String {
        match &*self.0 {
            Kind::Server(error) => format!("server error {}", error.code()),
            Kind::Conversion { what, .. } => format!("{what}: not of the right type"),
            _ => self.to_string(),
        }
    }

    fn login_failure(&self) -> Option<&LoginError> {
        let Kind::Pool { failure: Failure::Refused(refusal), .. } = &*self.0 else { return None };
        let Some(ConnectCause::Login(failure)) = refusal.reason() else { return None };
        failure.error.downcast_ref()
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Error {
        let farewell = match &failure {
            Failure::Lost { loss, .. } => loss.farewell.as_deref().map(ServerError::parse),
            Failure::CancelRefused(reply) => crate::reply::refusal(reply),
            _ => None,
        };
        Error::new(Kind::Pool { failure, farewell })
    }
}

impl From<SettingsError> for Error {
    fn from(error: SettingsError) -> Error {
        Error::new(Kind::Settings(Arc::new(error)))
    }
}

impl From<std::convert::Infallible> for Error {
    fn from(never: std::convert::Infallible) -> Error {
        match never {}
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            Kind::Server(error) => error.fmt(f),
            Kind::Caller(words) => f.write_str(words),
            Kind::Conversion { what, source } => write!(f, "{what}: {source}"),
            Kind::RowCount(words) => f.write_str(words),
            Kind::Peer(words) => write!(f, "the server broke the protocol: {words}"),
            Kind::Settings(error) => error.fmt(f),
            Kind::EndedBefore => f.write_str(
                "the transaction had ended before: what ran in it is committed, unless the statement that ended it has rolled \
                 it back (a procedure may do either)",
            ),
            Kind::Pool { failure, farewell } => {
                failure.fmt(f)?;
                match farewell {
                    Some(error) => write!(f, " ({error})"),
                    None => Ok(()),
                }
            }
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Error").field(&format_args!("{self}")).finish()
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match &*self.0 {
            Kind::Server(error) => Some(error),
            Kind::Conversion { source, .. } => Some(&**source),
            Kind::Settings(error) => Some(&**error),
            Kind::Pool { failure, .. } => Some(failure),
            Kind::Caller(_) | Kind::RowCount(_) | Kind::Peer(_) | Kind::EndedBefore => None,
        }
    }
}
