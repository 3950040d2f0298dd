//! A pool that a test has for itself: named so that no other test shares it, and so that the server's own list of
//! sessions tells which are its connections.

use std::sync::atomic::{AtomicU32, Ordering};

use cenote_postgres::{Pool, Settings, SettingsBuilder, SslMode};

use crate::environment::postgres_url;

/// The server cuts names off behind this many bytes.
const NAME_BYTES_MAX: usize = 63;

/// A name that begins with `test` and that nobody else uses: fit for a session, a schema, or a role.
pub fn unique_name(test: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let tail = format!("_{}_{number}_{:x}", std::process::id(), fastrand::u32(..));
    let head = &test[..test.len().min(NAME_BYTES_MAX - tail.len())];
    format!("{head}{tail}")
}

/// Settings for the shared server whose pool is the test's own.
pub fn settings(test: &str) -> SettingsBuilder {
    settings_at(&postgres_url(), test)
}

/// Settings for the server at `url` whose pool is the test's own.
///
/// Without TLS, whatever the address says: proxies and scripted servers look at what goes over the wire. Tests of TLS set
/// a mode of their own.
pub fn settings_at(url: &str, test: &str) -> SettingsBuilder {
    let settings: Settings = url.parse().unwrap_or_else(|error| panic!("the address of the server: {error}"));
    settings.to_builder().application_name(unique_name(test)).ssl_mode(SslMode::Disable)
}

/// Opens a pool with these settings.
pub fn open(settings: SettingsBuilder) -> Pool {
    let settings = settings.build().expect("the settings of a test can be met");
    Pool::open(settings).expect("opening does no I/O")
}
