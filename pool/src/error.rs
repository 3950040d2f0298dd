//! What can go wrong in the machine, and whose fault it was.

use std::error::Error;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::language::{Address, PeerFault};
use crate::reply::Reply;
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
    /// There was no answer within the time the caller gave for it. The statement may run, and may have run.
    Overdue {
        /// That time.
        limit: Duration,
    },
    /// The server could not be asked to stop a statement.
    NotCancelled(Arc<ConnectFailure>),
    /// The server was asked to stop a statement and refuses: its reply.
    CancelRefused(Reply),
    /// The transaction that the statement belongs to was ended by the server; the statement was not sent.
    NoTransaction,
    /// A transaction was to begin on a lease where another one is open; nothing was sent.
    InTransaction,
    /// The pool is closed.
    Closed,
}

impl Failure {
    /// Of a statement of which no byte was sent when its connection was lost: who closed the pool has lost nothing.
    pub(crate) fn lost_unsent(loss: Arc<Loss>) -> Failure {
        match loss.cause {
            LossCause::PoolClosed => Failure::Closed,
            _ => Failure::Lost { sent: false, loss },
        }
    }
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
    /// Its lease was given back, and it could not be cleaned in time for anybody else.
    LeaseEnded,
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
            LossCause::LeaseEnded => f.write_str("its lease was given back, and what ran on it did not end in time"),
        }
    }
}

/// One connect attempt that failed, at every address there is.
#[derive(Clone, Debug)]
pub struct ConnectFailure {
    pub(crate) tried: Vec<Tried>,
}

/// One address that did not let us in.
#[derive(Clone, Debug)]
pub struct Tried {
    /// Which, as the settings name it.
    pub address: Address,
    /// What that was looked up to be, if it was.
    pub peer: Option<SocketAddr>,
    /// Why not.
    pub cause: ConnectCause,
}

impl ConnectFailure {
    /// One address was tried, and that was all.
    pub(crate) fn at(address: Address, peer: Option<SocketAddr>, cause: ConnectCause) -> ConnectFailure {
        ConnectFailure { tried: vec![Tried { address, peer, cause }] }
    }

    /// All that was tried, in this order.
    pub fn tried(&self) -> &[Tried] {
        &self.tried
    }

    /// The failure that says the most: the first one that is fatal, or else the last. A server that answered "wrong
    /// password" says more than one that is not there.
    pub fn reason(&self) -> Option<&ConnectCause> {
        let causes = || self.tried.iter().map(|tried| &tried.cause);
        causes().find(|cause| cause.is_fatal()).or_else(|| causes().next_back())
    }

    /// True when trying again cannot help.
    pub fn is_fatal(&self) -> bool {
        self.tried.iter().any(|tried| tried.cause.is_fatal())
    }
}

/// Why an address did not let us in.
#[derive(Clone, Debug)]
pub enum ConnectCause {
    /// The name was not found, the port is closed, the network failed.
    Io(Arc<std::io::Error>),
    /// Nobody said in time what the name stands for.
    LookupTimedOut(Duration),
    /// Nothing answered in time.
    TimedOut(Duration),
    /// The server closed the connection during log-in.
    ClosedDuringLogin,
    /// The log-in failed, in the driver's words.
    Login(crate::language::LoginFailure),
}

impl ConnectCause {
    pub(crate) fn is_fatal(&self) -> bool {
        matches!(self, ConnectCause::Login(failure) if failure.fatal)
    }
}

impl fmt::Display for ConnectCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConnectCause::Io(error) => write!(f, "{error}"),
            ConnectCause::LookupTimedOut(limit) => {
                write!(f, "the name was not looked up (DNS) within {:.1} s", limit.as_secs_f64())
            }
            ConnectCause::TimedOut(limit) => write!(f, "no answer within {:.1} s", limit.as_secs_f64()),
            ConnectCause::ClosedDuringLogin => f.write_str("the server closed the connection during log-in"),
            ConnectCause::Login(failure) => write!(f, "{}", failure.error),
        }
    }
}

impl fmt::Display for Tried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.peer {
            Some(peer) => write!(f, "{} at {peer}: {}", self.address, self.cause),
            None => write!(f, "{}: {}", self.address, self.cause),
        }
    }
}

impl fmt::Display for ConnectFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.tried.is_empty() {
            return f.write_str("there is no address to connect to");
        }
        for (place, tried) in self.tried.iter().enumerate() {
            write!(f, "{}{tried}", if place == 0 { "" } else { "; " })?;
        }
        Ok(())
    }
}

impl Error for ConnectFailure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self.reason()? {
            ConnectCause::Io(error) => Some(&**error),
            ConnectCause::Login(failure) => Some(&*failure.error),
            _ => None,
        }
    }
}

/// So many holders of leases are named in a message.
const LEASES_NAMED_MAX: usize = 8;

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
            "acquire timed out after {:.1} s ({}/{}: {} lanes, {} leased, {} connecting, {} waiting",
            self.waited.as_secs_f64(),
            stats.connections(),
            stats.connections_max,
            stats.lanes.len(),
            stats.leases.len(),
            stats.connecting,
            stats.waiting + stats.waiting_for_lease,
        )?;
        if let Some(failure) = &self.last_connect_failure {
            write!(f, "; last connect error: {failure}")?;
        }
        f.write_str(")")?;
        for (number, lease) in stats.leases.iter().take(LEASES_NAMED_MAX).enumerate() {
            f.write_str(if number == 0 { "; leased: " } else { ", " })?;
            write!(f, "for {:.1} s at {}", lease.held_us as f64 / 1e6, lease.taken_at)?;
        }
        if !stats.leases.is_empty() {
            f.write_str(
                "; if it is you who holds one, call the methods of that lease or transaction instead of the pool's",
            )?;
            f.write_str(", else give leases back sooner, or set a larger pool_size")?;
        }
        Ok(())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::AcquireTimeout(timeout) => write!(f, "{timeout}"),
            Failure::TooManyWaiters { waiters_max } => {
                write!(f, "{waiters_max} callers wait for a connection already")
            }
            Failure::Lost { sent: true, loss } if matches!(loss.cause, LossCause::PoolClosed) => f.write_str(
                "the pool was closed by this program before the answer came, the statement may have run: give `close` a \
                 longer deadline",
            ),
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
            Failure::Overdue { limit } => {
                write!(f, "no answer within {:.3} s; the statement may still run", limit.as_secs_f64())
            }
            Failure::NotCancelled(failure) => {
                write!(f, "the server could not be asked to stop the statement: {failure}")
            }
            Failure::CancelRefused(_) => f.write_str("the server refuses to stop the statement"),
            Failure::NoTransaction => f.write_str(
                "the server has ended the transaction (rolled it back, or committed it with a statement that does so), and \
                 this statement was not sent: begin the transaction anew, with all its statements",
            ),
            Failure::Closed => f.write_str(
                "the pool was closed by this program, and the statement was not sent: close the pool later, or open it again",
            ),
            Failure::InTransaction => f.write_str(
                "a transaction cannot begin within another: one is open on this lease already, begun by a statement, or never \
                 ended (its `Transaction` was leaked). End that by `rollback` on the lease, or take another lease",
            ),
        }
    }
}

impl Error for Failure {}
