//! Starting and ending the demo.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use cenote_http::{Server, Stop};

use crate::Settings;
use crate::app::App;
use crate::routes::routes;

/// A demo server that runs. Dropping it asks it to stop.
#[derive(Debug)]
#[must_use = "a server that is dropped stops"]
pub struct Running {
    http: cenote_http::Running,
}

/// Starts the demo and returns: from then on it answers.
///
/// # Errors
///
/// The address cannot be bound, or a thread not be made.
pub fn start(settings: Settings) -> io::Result<Running> {
    let routes = Arc::new(routes()?);
    let mut builder = Server::builder().address(settings.address).stop_on_signals(settings.stop_on_signals);
    if let Some(threads) = settings.threads {
        builder = builder.threads(threads);
    }
    let server = builder.bind()?;
    let stats = server.stats();
    let http = server.start(move |_thread| App { routes: Arc::clone(&routes), stats: stats.clone() })?;
    Ok(Running { http })
}

impl Running {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.http.address()
    }

    /// What stops it, from any thread.
    pub fn stop(&self) -> Stop {
        self.http.stop()
    }

    /// Waits until it has stopped, having answered what was in flight.
    ///
    /// # Errors
    ///
    /// A thread of the server has failed.
    pub fn join(self) -> io::Result<()> {
        self.http.join()
    }
}
