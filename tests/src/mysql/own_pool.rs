//! A pool that a test has for itself: with a program name that no other test has, so that no other shares it, and so
//! that the server's own list of sessions tells which are its connections.

use cenote_mysql::{Pool, Settings, SettingsBuilder, SslMode};

use super::Server;
use crate::own_pool::unique_name;

/// Settings for a shared server whose pool is the test's own.
pub fn settings(server: Server, test: &str) -> SettingsBuilder {
    settings_at(&server.url(), test)
}

/// Settings for the server at `url` whose pool is the test's own.
///
/// Without TLS, whatever the address says: proxies and scripted servers look at what goes over the wire. So the first
/// log-in of a user takes the server's key on trust. Tests of TLS and of log-ins set a mode of their own.
pub fn settings_at(url: &str, test: &str) -> SettingsBuilder {
    let settings: Settings = url.parse().unwrap_or_else(|error| panic!("the address of the server: {error}"));
    let settings = settings.to_builder().program_name(unique_name(test));
    settings.ssl_mode(SslMode::Disabled).allow_public_key_retrieval(true)
}

/// Opens a pool with these settings.
pub fn open(settings: SettingsBuilder) -> Pool {
    let settings = settings.build().expect("the settings of a test can be met");
    Pool::open(settings).expect("opening does no I/O")
}
