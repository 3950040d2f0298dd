//! Starting and ending the demo.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use cenote_http::{Server, Stop};
use cenote_postgres::{Pool, Settings as PoolSettings};

use crate::Settings;
use crate::app::App;
use crate::routes::routes;

/// How long a request waits for a connection before it is told to come back: shorter than the driver's own default,
/// because somebody sits in front of a browser.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(2);

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
/// The address cannot be bound, a thread not be made, or the database's URL not be understood. A database that is not
/// there is no error: its routes answer 503 until it is.
pub fn start(settings: Settings) -> io::Result<Running> {
    let postgres = settings.postgres_url.as_deref().map(open).transpose()?;
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
        postgres: postgres.clone(),
    })?;
    Ok(Running { http })
}

fn open(url: &str) -> io::Result<Pool> {
    let invalid = |error: cenote_postgres::Error| io::Error::new(io::ErrorKind::InvalidInput, error);
    let mut settings = PoolSettings::from_url(url).map_err(|error| invalid(error.into()))?;
    if !url.contains("acquire_timeout") {
        let builder = settings.to_builder().acquire_timeout(ACQUIRE_TIMEOUT);
        settings = builder.build().map_err(|error| invalid(error.into()))?;
    }
    Pool::open(settings).map_err(invalid)
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
