//! The machine under the cenote drivers: many callers' statements travel down each connection at once, and one
//! small pool of connections serves the whole process.
//!
//! ```text
//!  caller (any thread)                                            caller
//!    |  submit(bytes)                                               ^  reply bytes, decoded by the caller
//!    v                                                              |
//!  route       which lane                                         slot completed, caller woken once
//!    |  one short lock: bytes + slot                                ^
//!    v                                                              |
//!  pipeline    in-flight queue (FIFO of slots)  --------->  inbound: replies cut off the front
//!    |  once per turn                                               ^  once per turn
//!    v                                                              |
//!  driver      ONE write  ------------- socket --------->  ONE read
//! ```
//!
//! This crate moves bytes and does not know what they mean: a driver crate teaches it a language by
//! [`Language`], [`Login`] and [`Framer`], all three without I/O. It does not encode statements, decode rows, or
//! read SQL. It never retries a statement whose bytes have left, never cancels one on the server, and keeps no
//! queue, dispatcher or timer that all lanes would share on the way of a query.
//!
//! Where to look:
//!
//! | file | what it decides |
//! |---|---|
//! | [`pipeline`] | order: bytes and slots, without I/O |
//! | [`inbound`], `reply` | where one reply ends and the next begins, and how it is held, without I/O |
//! | [`route`] | which lane a statement takes: a pure function |
//! | `lane`, `driver` | one connection: its two ends, and the task that writes and reads |
//! | `budget`, `growth`, `plan`, `connect`, `lookup`, `backoff` | the one budget of connections, and how they come to be |
//! | `retirement`, `housekeeping` | when a connection is old or idle, and how it ends |
//! | `generations` | when a server is left, with all connections to it |
//! | `run`, `submit` | one statement from its caller's side, and onto a lane |
//! | `tls` | the encrypted socket, and who is trusted |
//! | `low_water`, `watch` | when replies are collected before a thread is woken, and that none stands still |
//! | `waiters` | what happens when every lane is full |
//! | `sync`, `model` | the locks and atomics of all that, and loom in their place |
//! | `pool`, `registry` | the pool, and who shares it |
//! | [`settings`] | what drivers share to read settings from text |

pub mod backoff;
mod budget;
mod cancel;
mod connect;
mod deadline;
mod driver;
mod error;
mod generations;
mod growth;
mod home;
mod housekeeping;
pub mod inbound;
mod lane;
mod language;
mod lead;
mod lease;
mod limits;
mod lookup;
mod low_water;
#[cfg(cenote_loom)]
mod model;
mod pace;
pub mod pipeline;
mod plan;
mod pool;
mod prepared;
mod registry;
mod reply;
mod restore;
mod retirement;
pub mod route;
mod run;
mod service;
pub mod settings;
mod socket;
mod statements;
mod stats;
mod submit;
mod sync;
mod tenancy;
mod tls;
pub mod trace;
mod waiters;
mod watch;

pub use cancel::Canceller;
pub use deadline::Deadline;
pub use error::{AcquireTimeout, ConnectCause, ConnectFailure, Failure, Loss, LossCause, Tried};
pub use home::{Entered, Home};
pub use language::{
    Address, CancelDialogue, CancelKey, End, Expected, Framed, Framer, Handle, Language, Login, LoginFailure,
    LoginStep, PeerFault, Preparation, StatementId,
};
pub use lease::Lease;
pub use limits::{LaneLimits, PoolLimits};
#[doc(hidden)]
pub use lookup::{LookingUp, Resolver};
pub use pace::Pace;
pub use pipeline::Outcome;
pub use pool::Pool;
pub use registry::Registry;
pub use reply::Reply;
pub use run::{Answered, Flight};
pub use statements::{Learning, Lesson, Lookup, Statements, Waiting};
pub use stats::{LaneStats, LeaseStats, PoolStats};
pub use tls::{TlsFailure, TlsIdentity, TlsPeer, TlsRequest, TlsRoots, TlsSettings, TlsVerification, TlsVersion};
