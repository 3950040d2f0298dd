//! What a driver teaches the machine: how to log in, where a reply ends, how to forget a statement.
//!
//! All of it is without I/O: bytes in, bytes out. The machine owns the sockets and the clock.

use std::error::Error;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};

use crate::pace::Pace;
use crate::reply::Reply;
use crate::tls::{TlsFailure, TlsPeer, TlsRequest};

/// A database's wire protocol, with the settings one pool logs in with.
pub trait Language: Send + Sync + Sized + 'static {
    /// Cuts the byte stream of one connection into replies.
    type Framer: Framer;
    /// The log-in dialogue of one connection.
    type Login: Login<Framer = Self::Framer>;

    /// Where the servers are; each is tried in turn by one connect attempt.
    fn addresses(&self) -> &[Address];

    /// Begins a log-in at `address`, one of [`addresses`](Language::addresses): appends the first message, if it is the
    /// client that speaks first, to `output`. `attempt` counts from 0 the log-ins tried at one address within one
    /// connect; more than one there is only where the last one failed with [`LoginFailure::again`].
    ///
    /// The step is [`LoginStep::NeedsInput`], or [`LoginStep::StartTls`] where TLS begins with the first byte.
    ///
    /// # Errors
    ///
    /// When the settings cannot be put on the wire.
    fn login(
        &self,
        address: &Address,
        attempt: u32,
        output: &mut Vec<u8>,
    ) -> Result<(Self::Login, LoginStep<Self::Framer>), LoginFailure>;

    /// Whether it is the server that names prepared statements. Then a statement waits until its preparation is
    /// answered on its connection, and what runs it is told the name ([`fill_in`](Language::fill_in)); else it follows
    /// its preparation at once.
    const SERVER_NAMES_STATEMENTS: bool = false;

    /// Appends the message that makes the server forget a prepared statement. Where the driver names statements it rides
    /// in front of the next statement and its acknowledgement is part of that statement's reply; where the server does
    /// (then by `handle`), it has none.
    fn append_forget(statement: StatementId, handle: Handle, output: &mut Vec<u8>);

    /// The server's name for a statement, from the reply to its preparation; `None` if that failed.
    fn handle(_reply: &[u8]) -> Option<Handle> {
        None
    }

    /// Writes the server's name for a statement into the messages that run it.
    fn fill_in(_messages: &mut [u8], _handle: Handle) {}

    /// What goes in front of the first statement of a lease's transaction is answered by a reply of its own; else the
    /// reply to the statement begins with it.
    const LEAD_HAS_OWN_REPLY: bool = false;

    /// The reply to a statement, without the answer to what led it. Where that failed, the whole.
    fn strip_lead(reply: Reply) -> Reply {
        reply
    }

    /// Where an error does not say whether the transaction it happened in is still open: asks how the session stands, in one
    /// message with one reply.
    const ASK_STATE: Option<&'static [u8]> = None;

    /// Ends any transaction without committing it. One reply.
    fn rollback() -> Vec<u8>;

    /// Makes a session as it was after log-in: messages with one reply each. Prepared statements are kept where the server
    /// can do that, unless it is told to forget them.
    fn reset(&self, forget_prepared: bool) -> Vec<Vec<u8>>;

    /// Whether [`reset`](Language::reset) always makes the server forget prepared statements.
    const RESET_FORGETS_PREPARED: bool = false;

    /// Where a statement is stopped over a connection of its own: begins the dialogue that does so. It is done when the server
    /// closes that connection. `None`: it is stopped by [`cancel_statement`](Language::cancel_statement).
    fn cancel(&self, _address: &Address, _key: &CancelKey, _output: &mut Vec<u8>) -> CancelDialogue<Self> {
        None
    }

    /// Where a statement is stopped by another statement: that, as messages with one reply.
    fn cancel_statement(_key: &CancelKey) -> Option<Vec<u8>> {
        None
    }

    /// Whether a reply that holds an error says that the server is not the one to talk to any more (it takes no writes since
    /// another does): its connections are left as soon as they have finished what they have begun. Asked of such replies
    /// alone.
    fn reply_leaves_host(_reply: &[u8]) -> bool {
        false
    }

    /// The same of a [farewell](End::Farewell): the server goes, and not this connection alone.
    fn farewell_leaves_host(_farewell: &[u8]) -> bool {
        false
    }

    /// What is written before an orderly close.
    fn farewell() -> &'static [u8];
}

/// The first step of a dialogue that stops a statement, where there is one.
pub type CancelDialogue<L> = Option<Result<(<L as Language>::Login, LoginStep<<L as Language>::Framer>), LoginFailure>>;

/// The log-in dialogue of one connection, without I/O.
pub trait Login: Send + 'static {
    /// What reads the connection once the log-in is done.
    type Framer: Framer;

    /// Takes whole messages off the front of `input` and appends the answers to `output`. Called again whenever
    /// more input has arrived.
    ///
    /// # Errors
    ///
    /// When the server refuses, breaks the protocol, or asks for what the settings do not allow.
    fn advance(&mut self, input: &mut BytesMut, output: &mut Vec<u8>) -> Result<LoginStep<Self::Framer>, LoginFailure>;

    /// TLS is there, as [`LoginStep::StartTls`] asked: what follows is encrypted. Appends what the client says next to
    /// `output`.
    ///
    /// # Errors
    ///
    /// When the server is not what the settings demand.
    fn tls_started(&mut self, peer: &TlsPeer, output: &mut Vec<u8>) -> Result<LoginStep<Self::Framer>, LoginFailure>;

    /// TLS did not come about; the connection is closed. What the callers are told.
    fn tls_failed(&mut self, failure: TlsFailure) -> LoginFailure {
        LoginFailure { fatal: failure.is_lasting(), again: false, error: Arc::new(failure) }
    }

    /// The server closed or reset the connection, or the time of [`LoginStep::NeedsInputWithin`] is over. `None`: the
    /// machine tells what it saw.
    fn unanswered(&mut self) -> Option<LoginFailure> {
        None
    }
}

/// Where a log-in stands. With each step what is in `output` is sent first.
#[derive(Debug)]
pub enum LoginStep<F> {
    /// The server has to say more.
    NeedsInput,
    /// The same, and it has to say it soon: within this time, where that is less than what is left of the connect
    /// timeout. Else the log-in is told that it is [`unanswered`](Login::unanswered).
    NeedsInputWithin(Duration),
    /// TLS begins. Nothing may have come from the server that the log-in has not taken: who puts bytes behind its
    /// consent to TLS wants them taken for encrypted ones, and is refused.
    StartTls(Box<TlsRequest>),
    /// The connection is ready.
    Ready {
        /// What reads it from here on.
        framer: F,
        /// Statements in flight on this connection, where that is fewer than in the pool's limits.
        in_flight_max: Option<usize>,
        /// What stops a statement of this connection; `None` where the server has not said.
        cancel_key: Option<CancelKey>,
    },
}

/// Why a log-in failed.
#[derive(Clone, Debug)]
pub struct LoginFailure {
    /// Trying again cannot help (wrong password, unknown database): everyone who waits is told at once.
    pub fatal: bool,
    /// The same address is worth another log-in at once, on a new connection, with the next number of `attempt`. There
    /// is an end to that after a few.
    pub again: bool,
    /// The driver's own error; it comes back to the driver unchanged.
    pub error: Arc<dyn Error + Send + Sync>,
}

/// Cuts the byte stream of one connection into replies, without I/O.
pub trait Framer: Send + 'static {
    /// Looks at the next bytes of the stream. `input` starts where the last call left off (after the `consumed`
    /// bytes it reported).
    ///
    /// A call either makes progress (`consumed > 0`), reports an end, or says that it needs more input
    /// (`consumed == 0`, no end). It may take a part of a message, so that a message larger than memory can be
    /// skipped.
    ///
    /// # Errors
    ///
    /// When the bytes cannot be what the protocol allows here.
    fn advance(&mut self, input: &[u8], expected: Expected) -> Result<Framed, PeerFault>;

    /// The server, or the network, has ended the connection with so many statements in flight.
    fn lost(&mut self, _in_flight: usize) {}
}

/// What the server owes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Nothing: whatever comes belongs to nobody.
    Nothing,
    /// The reply to a statement.
    Statement,
    /// The reply to a preparation, in a language whose server names statements.
    Preparation,
}

/// What [`Framer::advance`] saw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Framed {
    /// Bytes looked at, from the front of the input.
    pub consumed: usize,
    /// What ended at `consumed`, if anything did.
    pub end: Option<End>,
}

/// What ended in the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// One whole reply. `settled` says whether the session is outside any transaction and may serve a stranger.
    Reply {
        /// False: the connection must not be shared any further.
        settled: bool,
        /// Whether it holds an error: readers look for one only then.
        failed: bool,
    },
    /// A message that belongs to no statement.
    Aside,
    /// The server says why it will close the connection; the message is kept for those who lose by it.
    Farewell(Bytes),
}

/// The peer broke the protocol: what it did, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerFault(pub String);

impl fmt::Display for PeerFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the server broke the protocol: {}", self.0)
    }
}

impl Error for PeerFault {}

/// One place a server may be reached at.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// A host name or IP address, and a port.
    Tcp {
        /// The name; looked up anew for each attempt.
        host: String,
        /// The port.
        port: u16,
    },
    /// A Unix socket's path.
    Unix(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Address::Tcp { host, port } => write!(f, "{host}:{port}"),
            Address::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

/// What the server has to be shown or told to stop what runs on one connection. The machine does not look into it.
#[derive(Clone, PartialEq, Eq)]
pub struct CancelKey(pub Box<[u8]>);

impl fmt::Debug for CancelKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Whoever has it can stop statements.
        f.write_str("CancelKey")
    }
}

/// Names a prepared statement within one pool; never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StatementId(pub u64);

/// The server's own name for a statement, on one connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Handle(pub u32);

/// What must precede a statement on a connection that has not prepared it yet.
#[derive(Clone, Debug)]
pub struct Preparation {
    /// The statement's identity; `None` is prepared anew each time and never remembered.
    pub id: Option<StatementId>,
    /// The messages that prepare it and ask what it is.
    pub bytes: Box<[u8]>,
    /// Where in `bytes` the message begins that asks what it is. That part alone precedes a statement that is prepared,
    /// until somebody has confirmed that it is there what it is known to be.
    pub describe_at: usize,
    /// What is known of how long the statement takes.
    pub pace: Pace,
}
