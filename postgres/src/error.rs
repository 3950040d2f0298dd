//! `Error`: what went wrong, and whose fault it was.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use cenote_pool::{ConnectCause, Failure, LossCause};

use crate::login::LoginError;
use crate::server_error::{ServerError, SqlState};
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
pub struct Error(Arc<Inner>);

struct Inner {
    kind: Kind,
    /// The place in a batch of the statement that failed.
    batch_index: Option<usize>,
    /// It came about when the statement had run already.
    after_running: bool,
}

#[derive(Clone)]
enum Kind {
    Server(ServerError),
    Caller(String),
    /// A transaction, or a savepoint, whose commit undid it: by what it had failed, if anybody has heard.
    RolledBack(Option<ServerError>),
    Conversion {
        what: String,
        source: Arc<dyn StdError + Send + Sync>,
    },
    RowCount(&'static str),
    Peer(String),
    Settings(Arc<SettingsError>),
    Pool {
        failure: Failure,
        farewell: Option<ServerError>,
    },
}

impl Error {
    fn new(kind: Kind) -> Error {
        Error(Arc::new(Inner { kind, batch_index: None, after_running: false }))
    }

    pub(crate) fn server(error: ServerError) -> Error {
        Error::new(Kind::Server(error))
    }

    pub(crate) fn caller(words: impl Into<String>) -> Error {
        Error::new(Kind::Caller(words.into()))
    }

    pub(crate) fn rolled_back(cause: Option<ServerError>) -> Error {
        Error::new(Kind::RolledBack(cause))
    }

    pub(crate) fn peer(words: impl Into<String>) -> Error {
        Error::new(Kind::Peer(words.into()))
    }

    pub(crate) fn row_count(words: &'static str) -> Error {
        Error::new(Kind::RowCount(words))
    }

    pub(crate) fn parameter(number: usize, source: Box<dyn StdError + Send + Sync>) -> Error {
        Error::new(Kind::Conversion { what: format!("parameter ${number}"), source: source.into() })
    }

    pub(crate) fn column(name: &str, source: Box<dyn StdError + Send + Sync>) -> Error {
        Error::new(Kind::Conversion { what: format!("column {name:?}"), source: source.into() })
    }

    /// A value is not of the type that was expected.
    pub(crate) fn is_conversion(&self) -> bool {
        matches!(self.0.kind, Kind::Conversion { .. })
    }

    /// The same, and not for the value's own sake: it may be of the type that the server wants by now.
    pub(crate) fn is_wrong_type(&self) -> bool {
        matches!(&self.0.kind, Kind::Conversion { source, .. } if source.is::<postgres_types::WrongType>())
    }

    pub(crate) fn in_batch(self, index: usize) -> Error {
        let after_running = self.0.after_running;
        Error(Arc::new(Inner { kind: self.0.kind.clone(), batch_index: Some(index), after_running }))
    }

    /// Whether it is true as well for others who wait for the same text, with whatever values: it speaks of the text, or
    /// there was no connection to be had and nothing was sent.
    pub(crate) fn is_shared(&self) -> bool {
        matches!(self.0.kind, Kind::Server(_) | Kind::Caller(_)) && !self.0.after_running
            || matches!(self.0.kind, Kind::Pool { .. }) && self.was_sent() == Some(false)
    }

    /// The statement has run, and then something else failed that its result needs.
    pub(crate) fn after_running(self) -> Error {
        let batch_index = self.0.batch_index;
        Error(Arc::new(Inner { kind: self.0.kind.clone(), batch_index, after_running: true }))
    }

    /// The server refused: a statement, or the log-in.
    pub fn is_server(&self) -> bool {
        matches!(self.0.kind, Kind::Server(_) | Kind::Pool { failure: Failure::CancelRefused(_), .. })
            || matches!(self.login_failure(), Some(LoginError::Server(_)))
    }

    /// This call was at fault: a value of the wrong type, too many parameters, a statement that does not belong on a
    /// shared connection, more or fewer rows than asked for, settings that cannot be met, a reply larger than the pool
    /// buffers, a commit of what had failed before (then [`code`](Error::code) is of the statement that failed).
    pub fn is_caller(&self) -> bool {
        match &self.0.kind {
            Kind::Caller(_) | Kind::RolledBack(_) | Kind::Conversion { .. } | Kind::RowCount(_) | Kind::Settings(_) => {
                true
            }
            Kind::Pool { failure, .. } => {
                matches!(failure, Failure::ReplyTooLarge { .. } | Failure::InTransaction)
                    || self.login_failure().is_some_and(LoginError::is_caller)
            }
            Kind::Server(_) | Kind::Peer(_) => false,
        }
    }

    /// The connection was lost.
    pub fn is_network(&self) -> bool {
        matches!(self.0.kind, Kind::Pool { failure: Failure::Lost { .. }, .. })
    }

    /// There was no room on any connection in time, or too many callers were waiting for it already, or there was no answer
    /// within the time given for it.
    pub fn is_timeout(&self) -> bool {
        use Failure::{AcquireTimeout, Overdue, TooManyWaiters};
        matches!(self.0.kind, Kind::Pool { failure: AcquireTimeout(_) | TooManyWaiters { .. } | Overdue { .. }, .. })
    }

    /// The other end broke the protocol. Where that cost the connection, it is lost too
    /// ([`is_network`](Error::is_network)).
    pub fn is_peer(&self) -> bool {
        match &self.0.kind {
            Kind::Peer(_) => true,
            Kind::Pool { failure: Failure::Lost { loss, .. }, .. } => matches!(loss.cause, LossCause::Peer(_)),
            _ => self.login_failure().is_some_and(LoginError::is_peer),
        }
    }

    /// The pool was closed. A statement that was in flight when the time of [`Pool::close`](crate::Pool::close) was over is
    /// lost too ([`is_network`](Error::is_network)).
    pub fn is_closed(&self) -> bool {
        match &self.0.kind {
            Kind::Pool { failure: Failure::Closed, .. } => true,
            Kind::Pool { failure: Failure::Lost { loss, .. }, .. } => matches!(loss.cause, LossCause::PoolClosed),
            _ => false,
        }
    }

    /// The server has ended the transaction by itself; the statement was not sent, and nothing of the transaction is left to
    /// be undone.
    pub fn is_transaction_lost(&self) -> bool {
        matches!(self.0.kind, Kind::Pool { failure: Failure::NoTransaction, .. })
    }

    /// Of a query that asks for one row: there was none, or there were more.
    pub fn is_row_count(&self) -> bool {
        matches!(self.0.kind, Kind::RowCount(_))
    }

    /// Whether the statement may have run although there is no answer. `false` is a promise: no byte of it has left.
    ///
    /// `None` when the question does not arise: there is an answer.
    pub fn was_sent(&self) -> Option<bool> {
        match &self.0.kind {
            _ if self.0.after_running => Some(true),
            Kind::Pool { failure: Failure::Lost { sent, .. }, .. } => Some(*sent),
            Kind::Pool { failure: Failure::ReplyTooLarge { .. } | Failure::Overdue { .. }, .. } => Some(true),
            // What was to be told is not a statement.
            Kind::Pool { failure: Failure::NotCancelled(_) | Failure::CancelRefused(_), .. } => None,
            Kind::Pool { .. } => Some(false),
            _ => None,
        }
    }

    /// The server's error, with all its fields: why it refused, or why it closed the connection. Of a commit that rolled back:
    /// why the statement failed that made it so.
    pub fn as_server_error(&self) -> Option<&ServerError> {
        match (&self.0.kind, self.login_failure()) {
            (Kind::Server(error), _) | (_, Some(LoginError::Server(error))) => Some(error),
            (Kind::Pool { farewell: cause, .. } | Kind::RolledBack(cause), _) => cause.as_ref(),
            _ => None,
        }
    }

    /// The SQLSTATE of [`as_server_error`](Error::as_server_error).
    pub fn code(&self) -> Option<SqlState> {
        self.as_server_error().map(ServerError::code)
    }

    /// Of a batch: which statement failed, counted from 0.
    pub fn batch_index(&self) -> Option<usize> {
        self.0.batch_index
    }

    /// What may be told of it where the values of parameters may not: the message of a server, or of a conversion, may hold
    /// some.
    pub(crate) fn without_values(&self) -> String {
        match &self.0.kind {
            Kind::Server(error) => format!("server error {}", error.code()),
            Kind::RolledBack(Some(error)) => format!("rolled back instead of committed: server error {}", error.code()),
            Kind::Conversion { what, .. } => format!("{what}: not of the right type"),
            _ => self.to_string(),
        }
    }

    fn login_failure(&self) -> Option<&LoginError> {
        let Kind::Pool { failure: Failure::Refused(refusal), .. } = &self.0.kind else { return None };
        let Some(ConnectCause::Login(failure)) = refusal.reason() else { return None };
        failure.error.downcast_ref()
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Error {
        let farewell = match &failure {
            Failure::Lost { loss, .. } => loss.farewell.as_deref().map(ServerError::parse),
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
        if let Some(index) = self.0.batch_index {
            write!(f, "statement {index} of the batch: ")?;
        }
        if self.0.after_running {
            f.write_str("the statement has run, but the types of its result could not be looked up: ")?;
        }
        match &self.0.kind {
            Kind::Server(error) => error.fmt(f),
            Kind::Caller(words) => f.write_str(words),
            Kind::RolledBack(cause) => {
                f.write_str("a statement had failed before, and what was to be committed was rolled back instead")?;
                cause.as_ref().map_or(Ok(()), |cause| write!(f, ": {cause}"))
            }
            Kind::Conversion { what, source } => write!(f, "{what}: {source}"),
            Kind::RowCount(words) => f.write_str(words),
            Kind::Peer(words) => write!(f, "the server broke the protocol: {words}"),
            Kind::Settings(error) => error.fmt(f),
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
        match &self.0.kind {
            Kind::Server(error) | Kind::RolledBack(Some(error)) => Some(error),
            Kind::Conversion { source, .. } => Some(&**source),
            Kind::Settings(error) => Some(&**error),
            Kind::Pool { failure, .. } => Some(failure),
            Kind::Caller(_) | Kind::RolledBack(None) | Kind::RowCount(_) | Kind::Peer(_) => None,
        }
    }
}
