//! A pool that a test has for itself: with a program name that no other test has, so that no other shares it, and so
//! that the server's own list of sessions tells which are its connections.

use cenote_mysql::{Settings, SettingsBuilder};

use super::Server;
use crate::own_pool::unique_name;

/// Settings for a shared server whose pool is the test's own.
pub fn settings(server: Server, test: &str) -> SettingsBuilder {
    settings_at(&server.url(), test)
}

/// Settings for the server at `url` whose pool is the test's own.
pub fn settings_at(url: &str, test: &str) -> SettingsBuilder {
    let settings: Settings = url.parse().unwrap_or_else(|error| panic!("the address of the server: {error}"));
    settings.to_builder().program_name(unique_name(test))
}
