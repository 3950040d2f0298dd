//! What can go wrong in the machine, and whose fault it was.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::language::{Address, PeerFault};
use crate::stats::PoolStats;

/// Why a statement got no reply.
#[derive(Clone, Debug)]
pub enum Failure {
    /// No room on any lane within the acquire timeout.
    AcquireTimeout(Arc<AcquireTimeout>),
    /// Too many callers wait already.
    TooManyWaiters {
        /// The bound.
        waiters_max: usize,
    },
    /// The connection was lost.
    Lost {
        /// Whether any byte of the statement may have reached the server.
        sent: bool,
        /// What happened to the connection.
        loss: Arc<Loss>,
    },
    /// The reply is larger than the pool buffers.
    ReplyTooLarge {
        /// The bound.
        reply_bytes_max: usize,
    },
    /// The server refuses to log us in, and trying again cannot help.
    Refused(Arc<ConnectFailure>),
    /// The pool is closed.
    Closed,
}

/// Why a connection ended.
#[derive(Clone, Debug)]
pub struct Loss {
    /// The server's last words: the message it sent before closing, if it did.
    pub farewell: Option<Bytes>,
    /// What was seen on our side.
    pub cause: LossCause,
}

/// What was seen on our side when a connection ended.
#[derive(Clone, Debug)]
pub enum LossCause {
    /// The server closed the connection.
    PeerClosed,
    /// Reading or writing failed.
    Io(Arc<std::io::Error>),
    /// The server broke the protocol.
    Peer(PeerFault),
    /// A statement left the session in a state that no stranger may inherit; the connection was closed.
    Quarantined,
    /// The runtime that drove the connection has ended.
    RuntimeEnded,
    /// The pool was closed before the reply came.
    PoolClosed,
}

impl fmt::Display for LossCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LossCause::PeerClosed => f.write_str("the server closed the connection"),
            LossCause::Io(error) => write!(f, "{error}"),
            LossCause::Peer(fault) => write!(f, "{fault}"),
            LossCause::Quarantined => {
                f.write_str("closed because a neighbour's statement left a transaction open on the shared connection")
            }
            LossCause::RuntimeEnded => f.write_str("the runtime that drove the connection has ended"),
            LossCause::PoolClosed => f.write_str("the pool was closed"),
        }
    }
}

/// One connect attempt that failed.
#[derive(Clone, Debug)]
pub struct ConnectFailure {
    /// Where to.
    pub address: Address,
    /// Why.
    pub cause: ConnectCause,
}

impl ConnectFailure {
    /// True when trying again cannot help.
    pub fn is_fatal(&self) -> bool {
        matches!(&self.cause, ConnectCause::Login(failure) if failure.fatal)
    }
}

/// Why a connect attempt failed.
#[derive(Clone, Debug)]
pub enum ConnectCause {
    /// The name was not found, the port is closed, the network failed.
    Io(Arc<std::io::Error>),
    /// Nothing answered in time.
    TimedOut(Duration),
    /// The server closed the connection during log-in.
    ClosedDuringLogin,
    /// The log-in failed, in the driver's words.
    Login(crate::language::LoginFailure),
}

impl fmt::Display for ConnectFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.address)?;
        match &self.cause {
            ConnectCause::Io(error) => write!(f, "{error}"),
            ConnectCause::TimedOut(limit) => write!(f, "no answer within {:.1} s", limit.as_secs_f64()),
            ConnectCause::ClosedDuringLogin => f.write_str("the server closed the connection during log-in"),
            ConnectCause::Login(failure) => write!(f, "{}", failure.error),
        }
    }
}

impl Error for ConnectFailure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.cause {
            ConnectCause::Io(error) => Some(&**error),
            ConnectCause::Login(failure) => Some(&*failure.error),
            _ => None,
        }
    }
}

/// What the pool looked like when a caller gave up waiting.
#[derive(Clone, Debug)]
pub struct AcquireTimeout {
    /// How long the caller had waited.
    pub waited: Duration,
    /// The pool's counters at that moment.
    pub stats: PoolStats,
    /// The last connect error, if the newest attempt failed.
    pub last_connect_failure: Option<Arc<ConnectFailure>>,
}

impl fmt::Display for AcquireTimeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stats = &self.stats;
        write!(
            f,
            "acquire timed out after {:.1} s ({}/{}: {} lanes, {} connecting, {} waiting",
            self.waited.as_secs_f64(),
            stats.connections(),
            stats.connections_max,
            stats.lanes.len(),
            stats.connecting,
            stats.waiting,
        )?;
        if let Some(failure) = &self.last_connect_failure {
            write!(f, "; last connect error: {failure}")?;
        }
        f.write_str(")")
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::AcquireTimeout(timeout) => write!(f, "{timeout}"),
            Failure::TooManyWaiters { waiters_max } => {
                write!(f, "{waiters_max} callers wait for a connection already")
            }
            Failure::Lost { sent: true, loss } => {
                write!(f, "connection lost, the statement may have run: {}", loss.cause)
            }
            Failure::Lost { sent: false, loss } => {
                write!(f, "connection lost before the statement was sent: {}", loss.cause)
            }
            Failure::ReplyTooLarge { reply_bytes_max } => {
                write!(f, "the reply is larger than {reply_bytes_max} bytes")
            }
            Failure::Refused(failure) => write!(f, "{failure}"),
            Failure::Closed => f.write_str("the pool is closed"),
        }
    }
}

impl Error for Failure {}
