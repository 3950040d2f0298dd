//! Starting and ending the demo.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use cenote_http::{Server, Stop};

use crate::Settings;
use crate::app::App;
use crate::databases::Databases;
use crate::routes::routes;

/// A demo server that runs. Dropping it asks it to stop.
#[derive(Debug)]
#[must_use = "a server that is dropped stops"]
pub struct Running {
    http: cenote_http::Running,
    database_names: Vec<&'static str>,
}

/// Starts the demo and returns: from then on it answers.
///
/// # Errors
///
/// The address cannot be bound, a thread not be made, or a database's URL not be understood. A database that is not
/// there is no error: its routes answer 503 until it is.
pub fn start(settings: Settings) -> io::Result<Running> {
    let databases = Databases::open(&settings)?;
    let database_names = databases.names();
    let routes = Arc::new(routes()?);
    let mut builder = Server::builder().address(settings.address).stop_on_signals(settings.stop_on_signals);
    if let Some(threads) = settings.threads {
        builder = builder.threads(threads);
    }
    let address = settings.address;
    let server = builder.bind().map_err(|error| io::Error::new(error.kind(), format!("{address}: {error}")))?;
    let stats = server.stats();
    let http = server.start(move |_thread| App {
        routes: Arc::clone(&routes),
        stats: stats.clone(),
        databases: databases.clone(),
    })?;
    Ok(Running { http, database_names })
}

impl Running {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.http.address()
    }

    /// The databases it was told of, by name.
    pub fn database_names(&self) -> &[&'static str] {
        &self.database_names
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
