//! The databases the demo was told of: their pools, and what the two drivers' errors have in common.

use std::io;
use std::time::Duration;

use cenote_http::{HeaderValue, Response, StatusCode, header};

use crate::Settings;

/// How long a request waits for a connection before it is told to come back: shorter than the drivers' own default,
/// because somebody sits in front of a browser.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(2);

/// When to come back while a database is not there: by then its pool has tried again several times.
const RETRY_AFTER_S: HeaderValue = HeaderValue::from_static("1");

/// Pools of the databases that have an address.
#[derive(Clone)]
pub(crate) struct Databases {
    pub(crate) postgres: Option<cenote_postgres::Pool>,
    pub(crate) mysql: Option<cenote_mysql::Pool>,
}

impl Databases {
    /// Opens the pools, which connects to nothing yet.
    pub(crate) fn open(settings: &Settings) -> io::Result<Databases> {
        Ok(Databases {
            postgres: settings.postgres_url.as_deref().map(open_postgres).transpose().map_err(invalid)?,
            mysql: settings.mysql_url.as_deref().map(open_mysql).transpose().map_err(invalid)?,
        })
    }

    /// Which there are, for people.
    pub(crate) fn names(&self) -> Vec<&'static str> {
        let names = [self.postgres.is_some().then_some("Postgres"), self.mysql.is_some().then_some("MySQL")];
        names.into_iter().flatten().collect()
    }
}

fn open_postgres(url: &str) -> Result<cenote_postgres::Pool, cenote_postgres::Error> {
    let mut settings = cenote_postgres::Settings::from_url(url)?;
    if !url.contains("acquire_timeout") {
        settings = settings.to_builder().acquire_timeout(ACQUIRE_TIMEOUT).build()?;
    }
    cenote_postgres::Pool::open(settings)
}

fn open_mysql(url: &str) -> Result<cenote_mysql::Pool, cenote_mysql::Error> {
    let mut settings = cenote_mysql::Settings::from_url(url)?;
    if !url.contains("acquire_timeout") {
        settings = settings.to_builder().acquire_timeout(ACQUIRE_TIMEOUT).build()?;
    }
    cenote_mysql::Pool::open(settings)
}

fn invalid(error: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, error)
}

/// What a driver's error means for a request.
pub(crate) trait DatabaseError: std::error::Error {
    /// The database is not to be had right now, and the demo is not at fault.
    fn is_absence(&self) -> bool;
}

macro_rules! database_error {
    ($error:ty) => {
        impl DatabaseError for $error {
            fn is_absence(&self) -> bool {
                self.is_timeout() || self.is_network() || self.is_closed() || self.was_sent() == Some(false)
            }
        }
    };
}

database_error!(cenote_postgres::Error);
database_error!(cenote_mysql::Error);

/// 503 when the database is not to be had right now, 500 when it is there and the demo is at fault.
pub(crate) fn failed(error: &impl DatabaseError) -> Response {
    if error.is_absence() {
        let message = format!("the database is not available: {error}");
        return Response::error(StatusCode::SERVICE_UNAVAILABLE, &message)
            .with_header(header::RETRY_AFTER, RETRY_AFTER_S);
    }
    Response::error(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string())
}

/// The answer where a database was not named.
pub(crate) fn not_named(variable: &str) -> Response {
    Response::error(StatusCode::SERVICE_UNAVAILABLE, &format!("no database was named; set {variable}"))
}
