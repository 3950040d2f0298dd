//! `libcenote`: the drivers for C, and for whoever speaks C.
//!
//! ```text
//!   host thread (an isolate, an event loop)                our threads
//!     submit ──> Operation (a future) ──> lane              driver of the lanes
//!     drain  <── ready queue <────────────────────────────── replies
//!       ^                      one wake: port, eventfd, callback
//! ```
//!
//! A *context* belongs to one thread of the host, or one isolate. What is asked for through it is an *operation* with a
//! tag of the host's choice; each ends in exactly one *completion* with that tag, unless it is abandoned. Submitting and
//! draining never block and never call back. Everything that lives longer than a call is a *handle*, a number: one that
//! is used after it was freed, twice freed, or made up is the status [`CENOTE_ERR_HANDLE`](status::CENOTE_ERR_HANDLE).
//!
//! | file | what it holds |
//! |---|---|
//! | `status`, `error` | what goes wrong, as a number, and as an object with all fields |
//! | `guard` | what every entry does: catches panics, refuses forked children |
//! | `handles` | the table of everything that has a handle |
//! | `context`, `delivery`, `wake`, `drive` | operations, their completions, who is told of them, and which thread moves the bytes |
//! | `pool`, `session`, `operation` | what is asked of a database, and of which |
//! | `value`, `request` | parameters and requests, as the host writes them |
//! | `block` | results, as the host reads them |
//! | `http` | the HTTP core: requests that come, and their answers |
//! | `fork`, `threads` | being in somebody else's process |
//!
//! It encodes nothing for the wire and decodes nothing from it: the drivers do that, and the host.

#[cfg(not(panic = "unwind"))]
compile_error!("a panic must not end the host's process: build cenote with panic=unwind");

#[cfg(feature = "inject-panics")]
pub use guard::injection;

pub mod block;
mod context;
pub mod delivery;
mod drive;
pub mod error;
mod fork;
mod guard;
mod handles;
pub mod http;
mod operation;
pub mod pool;
pub mod request;
pub mod session;
pub mod status;
mod threads;
pub mod value;
pub mod version;
pub mod wake;
