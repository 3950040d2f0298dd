//! The demo over real sockets: its routes in this process, its program as a process of its own.

// The client of the HTTP core's own tests, which has more than is needed here.
#[allow(dead_code)]
#[path = "../../../http/tests/http/client.rs"]
mod client;

mod plain;
mod process;
