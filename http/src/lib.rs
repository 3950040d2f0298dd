//! The HTTP core of cenote: one event loop per core on [hyper]'s HTTP/1.1.
//!
//! ```text
//!            port 8080, one SO_REUSEPORT listener per thread
//!          ┌───────────────────┬───────────────────┐
//!   cenote-http-0       cenote-http-1       cenote-http-N     OS threads
//!   accept              accept              accept
//!   connections         connections         connections       each stays on its thread
//!   your handler        your handler        your handler      one per thread, need not be Send
//! ```
//!
//! A connection is accepted, read, answered and closed on one thread, and so is whatever its handler spawns
//! there. Nothing on the way of a request takes a lock or crosses a core. Answers made in one turn of a
//! connection leave in one write.
//!
//! # Example
//!
//! ```no_run
//! use cenote_http::{Request, Response, Server};
//!
//! let server = Server::builder().address("127.0.0.1:8080").stop_on_signals(true).bind()?;
//! println!("http://{}", server.address());
//! server.run(|_thread| async |request: Request| match request.path() {
//!     "/" => Response::text("hello"),
//!     _ => Response::error(cenote_http::StatusCode::NOT_FOUND, "not found"),
//! })?;
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! Past a few routes, use [`Routes`], which also knows 405, `HEAD` and `:parameters`, and implement
//! [`Handler`] for a type of your own that holds what a thread needs.
//!
//! # What it takes care of
//!
//! * Limits, each with a default and a reason ([`Builder`]): the size of a head (431) and of a body (413),
//!   the time for each of them (408), idle connections, clients that do not read, connections per thread.
//! * A stop that loses nothing: connections waiting to be accepted are accepted, requests in flight are
//!   answered, idle connections are closed ([`Stop`]).
//! * A handler that panics answers 500 and costs its client the connection, nobody else anything.
//! * An answer given before the request was read in full still reaches the client.
//! * Counters per thread, read in one call ([`StatsHandle::snapshot`]).
//!
//! # What it does not do
//!
//! HTTP/2, TLS, upgrades and WebSockets, compression, files, streamed answers. Put a proxy in front of it for
//! the first two. It knows no database.

#[cfg(target_os = "linux")]
mod affinity;
mod body;
mod connection;
mod encoding;
mod handler;
mod link;
mod listener;
mod request;
mod response;
mod routes;
mod server;
mod service;
mod settings;
mod signals;
mod socket;
mod stats;
mod stop;
mod tasks;
mod thread;
mod ticks;
mod worker;

pub use body::{Body, BodyError};
pub use bytes::Bytes;
pub use encoding::BadEncoding;
pub use handler::Handler;
pub use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
pub use hyper::{Method, StatusCode};
pub use request::{Head, Request};
pub use response::Response;
pub use routes::{BadParameter, Miss, Parameters, RouteError, Routes};
pub use server::{Running, Server};
pub use settings::{
    BODY_BYTES_MAX, BODY_READ_TIMEOUT, Builder, CONNECTIONS_PER_THREAD_MAX, HEAD_BYTES_MAX, HEAD_READ_TIMEOUT,
    KEEP_ALIVE_TIMEOUT, LINGER_TIMEOUT, STOP_DEADLINE, WRITE_TIMEOUT,
};
pub use stats::{Stats, StatsHandle};
pub use stop::Stop;
