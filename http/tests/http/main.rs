//! The HTTP core over real sockets on 127.0.0.1.
//!
//! Clients here are plain sockets, so that they can misbehave. They wait for what the server does; a client
//! that waits for a minute in vain fails and says for what.

mod bodies;
mod client;
mod limits;
mod requests;
mod resilience;
mod routing;
mod stop;
