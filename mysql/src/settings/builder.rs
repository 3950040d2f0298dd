//! `SettingsBuilder`: settings part by part, and the one place where their limits and defaults are.
//!
//! URL and environment fill the same builder, so whatever the source, the same checks hold.

use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use super::auth_plugins::{AuthPlugin, AuthPlugins};
use super::error::SettingsError;
use super::host::{self, Host};
use super::password::Password;
use super::pipelining::Pipelining;
use super::ssl::{Ssl, SslMode, SslRoots};
use super::{Lookup, Settings};

/// A few connections carry many callers, and every one is a thread at the server.
const POOL_SIZE_DEFAULT: usize = 8;
/// Far above what pipelining needs, and six times the server's usual `max_connections`.
const POOL_SIZE_RANGE: RangeInclusive<usize> = 1..=1_000;

/// Deep enough to fill a round trip, and still bounded waiting behind strangers.
const MAX_PIPELINE_DEFAULT: usize = 128;
/// From one at a time to where more only adds waiting.
const MAX_PIPELINE_RANGE: RangeInclusive<usize> = 1..=4_096;

/// How long somebody waits for an answer before he looks elsewhere.
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(5);
/// Nothing waits for ever; a day is what nobody means.
const TIMEOUT_RANGE: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(24 * 60 * 60);

/// Statements per connection. A server's usual `max_prepared_stmt_count`, 16,382 for everybody, has room for 64 such
/// connections.
const STATEMENT_CACHE_SIZE_DEFAULT: usize = 256;
/// The server's limit for all connections can be a million.
const STATEMENT_CACHE_SIZE_RANGE: RangeInclusive<usize> = 0..=65_536;

/// What one buffered result may take; above it one wants a stream.
const REPLY_BYTES_MAX_DEFAULT: usize = 64 << 20;
/// A server's own packets end at 1 GiB (`max_allowed_packet`).
const REPLY_BYTES_MAX_RANGE: RangeInclusive<usize> = 1 << 10..=1 << 30;

/// What may wait for one connection to take it: a few socket buffers full.
const UNSENT_BYTES_MAX_DEFAULT: usize = 256 << 10;
const UNSENT_BYTES_MAX_RANGE: RangeInclusive<usize> = 8 << 10..=64 << 20;

/// Callers in the queue when all connections are full; past it more only get to time out.
const WAITERS_MAX_DEFAULT: usize = 10_000;
const WAITERS_MAX_RANGE: RangeInclusive<usize> = 0..=1_000_000;

/// Longer than any token that clouds give in a password's place; the servers' own plugins end at 256 bytes.
const PASSWORD_BYTES_MAX: usize = 32 << 10;

/// For user, database and program: the servers' own names end far below.
const TEXT_BYTES_MAX: usize = 1 << 10;

/// Settings in the making; see [`Settings::builder`].
///
/// What is not set gets its default when [`build`](SettingsBuilder::build) is called.
#[derive(Debug, Clone, Default)]
#[must_use = "a builder does nothing until `build` is called"]
pub struct SettingsBuilder {
    pub(super) hosts: Vec<Host>,
    pub(super) user: Option<String>,
    pub(super) password: Option<Password>,
    pub(super) database: Option<String>,
    pub(super) program_name: Option<String>,
    pub(super) connection_attributes: Option<bool>,
    pub(super) found_rows: Option<bool>,
    pub(super) connect_timeout: Option<Duration>,
    pub(super) ssl: Ssl<Option<SslMode>>,
    pub(super) auth_plugins: AuthPlugins,
    pub(super) allow_cleartext_password: Option<bool>,
    pub(super) allow_public_key_retrieval: Option<bool>,
    pub(super) server_public_key: Option<PathBuf>,
    pub(super) pipeline: Option<Pipelining>,
    pub(super) pool_size: Option<usize>,
    pub(super) max_pipeline: Option<usize>,
    pub(super) acquire_timeout: Option<Duration>,
    pub(super) statement_cache_size: Option<usize>,
    pub(super) reply_bytes_max: Option<usize>,
    pub(super) unsent_bytes_max: Option<usize>,
    pub(super) waiters_max: Option<usize>,
}

impl SettingsBuilder {
    /// Adds a host to try, after those already there: a name, an address, or a socket's absolute path.
    pub fn host(mut self, name: impl AsRef<str>, port: u16) -> SettingsBuilder {
        self.hosts.push(Host::new(name.as_ref(), port));
        self
    }

    /// Adds a Unix socket as a host to try.
    pub fn unix_socket(mut self, path: impl Into<PathBuf>) -> SettingsBuilder {
        self.hosts.push(Host::Unix { path: path.into() });
        self
    }

    /// Puts these hosts in the place of all there were.
    pub fn hosts(mut self, hosts: impl IntoIterator<Item = Host>) -> SettingsBuilder {
        self.hosts = hosts.into_iter().collect();
        self
    }

    /// The user; the operating system's (`USER`, else `LOGNAME`) if not set.
    pub fn user(mut self, user: impl Into<String>) -> SettingsBuilder {
        self.user = Some(user.into());
        self
    }

    /// The password.
    pub fn password(mut self, password: impl Into<Password>) -> SettingsBuilder {
        self.password = Some(password.into());
        self
    }

    /// The default database; none if not set.
    pub fn database(mut self, database: impl Into<String>) -> SettingsBuilder {
        self.database = Some(database.into());
        self
    }

    /// The program's name among the connection attributes.
    pub fn program_name(mut self, program_name: impl Into<String>) -> SettingsBuilder {
        self.program_name = Some(program_name.into());
        self
    }

    /// Whether the server is told who connects; on if not set.
    pub fn connection_attributes(mut self, on: bool) -> SettingsBuilder {
        self.connection_attributes = Some(on);
        self
    }

    /// Whether affected rows are those that matched rather than those that were changed; off if not set.
    pub fn found_rows(mut self, on: bool) -> SettingsBuilder {
        self.found_rows = Some(on);
        self
    }

    /// How long connecting to one address may take, log-in included; 5 s if not set, from 1 ms to a day.
    pub fn connect_timeout(mut self, connect_timeout: Duration) -> SettingsBuilder {
        self.connect_timeout = Some(connect_timeout);
        self
    }

    /// Whether to encrypt, and what to check; [`SslMode::Preferred`] if not set, with roots one that uses them.
    pub fn ssl_mode(mut self, ssl_mode: SslMode) -> SettingsBuilder {
        self.ssl.mode = Some(ssl_mode);
        self
    }

    /// Who may have signed the server's certificate.
    pub fn ssl_ca(mut self, roots: SslRoots) -> SettingsBuilder {
        self.ssl.ca = Some(roots);
        self
    }

    /// The client's own certificate and its key: PEM files.
    pub fn ssl_cert(mut self, certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> SettingsBuilder {
        self.ssl.cert = Some(certificate.into());
        self.ssl.key = Some(key.into());
        self
    }

    /// The plugins by which the server may authenticate the user; any if not set.
    pub fn auth_plugins(mut self, plugins: impl IntoIterator<Item = AuthPlugin>) -> SettingsBuilder {
        self.auth_plugins = plugins.into_iter().collect();
        self
    }

    /// Whether `mysql_clear_password` may send the password as it is, over verified TLS or a Unix socket; off if not
    /// set.
    pub fn allow_cleartext_password(mut self, on: bool) -> SettingsBuilder {
        self.allow_cleartext_password = Some(on);
        self
    }

    /// Whether, without TLS, the password may be encrypted with a key that the server has just sent; off if not set.
    /// Somebody in between could send a key of their own, and read the password.
    pub fn allow_public_key_retrieval(mut self, on: bool) -> SettingsBuilder {
        self.allow_public_key_retrieval = Some(on);
        self
    }

    /// The server's RSA key, a PEM file: what the password is encrypted with where there is no TLS.
    pub fn server_public_key(mut self, path: impl Into<PathBuf>) -> SettingsBuilder {
        self.server_public_key = Some(path.into());
        self
    }

    /// Whether to pipeline; [`Pipelining::Auto`] if not set.
    pub fn pipeline(mut self, pipeline: Pipelining) -> SettingsBuilder {
        self.pipeline = Some(pipeline);
        self
    }

    /// Connections in the pool at most; 8 if not set, from 1 to 1,000.
    pub fn pool_size(mut self, pool_size: usize) -> SettingsBuilder {
        self.pool_size = Some(pool_size);
        self
    }

    /// Statements in flight on one connection at most; 128 if not set, from 1 to 4,096.
    pub fn max_pipeline(mut self, max_pipeline: usize) -> SettingsBuilder {
        self.max_pipeline = Some(max_pipeline);
        self
    }

    /// How long a caller waits for room on a connection; 5 s if not set, from 1 ms to a day.
    pub fn acquire_timeout(mut self, acquire_timeout: Duration) -> SettingsBuilder {
        self.acquire_timeout = Some(acquire_timeout);
        self
    }

    /// Prepared statements kept per connection; 256 if not set, at most 65,536. With 0 none is kept.
    pub fn statement_cache_size(mut self, statement_cache_size: usize) -> SettingsBuilder {
        self.statement_cache_size = Some(statement_cache_size);
        self
    }

    /// What one buffered result may take; 64 MiB if not set, from 1 KiB to 1 GiB.
    pub fn reply_bytes_max(mut self, reply_bytes_max: usize) -> SettingsBuilder {
        self.reply_bytes_max = Some(reply_bytes_max);
        self
    }

    /// What may wait to be written to one connection; 256 KiB if not set, from 8 KiB to 64 MiB.
    pub fn unsent_bytes_max(mut self, unsent_bytes_max: usize) -> SettingsBuilder {
        self.unsent_bytes_max = Some(unsent_bytes_max);
        self
    }

    /// Callers waiting for room at most; 10,000 if not set, up to 1,000,000. With 0 nobody waits.
    pub fn waiters_max(mut self, waiters_max: usize) -> SettingsBuilder {
        self.waiters_max = Some(waiters_max);
        self
    }

    /// Checks every part and fills in the defaults.
    ///
    /// # Errors
    ///
    /// The first part that cannot be: out of range, a NUL byte, or TLS settings that contradict each other.
    pub fn build(self) -> Result<Settings, SettingsError> {
        self.build_with(&|variable| std::env::var_os(variable))
    }

    /// [`build`](SettingsBuilder::build), with the operating system's user from `lookup`.
    pub(super) fn build_with(mut self, lookup: Lookup<'_>) -> Result<Settings, SettingsError> {
        if self.hosts.is_empty() {
            self.hosts.push(Host::new("", host::PORT_DEFAULT));
        }
        if self.hosts.len() > host::HOSTS_MAX {
            return Err(host::too_many());
        }
        self.hosts.iter().try_for_each(Host::check)?;
        if self.auth_plugins.is_empty() {
            return Err(SettingsError::of("auth_plugins", "allows no plugin at all"));
        }
        Ok(Settings {
            ssl: self.ssl.check(&self.hosts)?,
            user: text("user", self.user)?.map_or_else(|| system_user(lookup), Ok)?,
            password: checked_password(self.password)?,
            database: text("database", self.database)?,
            program_name: text("program_name", self.program_name)?,
            connection_attributes: self.connection_attributes.unwrap_or(true),
            found_rows: self.found_rows.unwrap_or(false),
            connect_timeout: timeout("connect_timeout", self.connect_timeout)?,
            hosts: self.hosts,
            auth_plugins: self.auth_plugins,
            allow_cleartext_password: self.allow_cleartext_password.unwrap_or(false),
            allow_public_key_retrieval: self.allow_public_key_retrieval.unwrap_or(false),
            server_public_key: self.server_public_key,
            pipeline: self.pipeline.unwrap_or_default(),
            pool_size: in_range(
                "pool_size",
                self.pool_size.unwrap_or(POOL_SIZE_DEFAULT),
                POOL_SIZE_RANGE,
                "must be from 1 to 1000",
            )?,
            max_pipeline: in_range(
                "max_pipeline",
                self.max_pipeline.unwrap_or(MAX_PIPELINE_DEFAULT),
                MAX_PIPELINE_RANGE,
                "must be from 1 to 4096",
            )?,
            acquire_timeout: timeout("acquire_timeout", self.acquire_timeout)?,
            statement_cache_size: in_range(
                "statement_cache_size",
                self.statement_cache_size.unwrap_or(STATEMENT_CACHE_SIZE_DEFAULT),
                STATEMENT_CACHE_SIZE_RANGE,
                "must be from 0 to 65536",
            )?,
            reply_bytes_max: in_range(
                "reply_bytes_max",
                self.reply_bytes_max.unwrap_or(REPLY_BYTES_MAX_DEFAULT),
                REPLY_BYTES_MAX_RANGE,
                "must be from 1kB to 1GB",
            )?,
            unsent_bytes_max: in_range(
                "unsent_bytes_max",
                self.unsent_bytes_max.unwrap_or(UNSENT_BYTES_MAX_DEFAULT),
                UNSENT_BYTES_MAX_RANGE,
                "must be from 8kB to 64MB",
            )?,
            waiters_max: in_range(
                "waiters_max",
                self.waiters_max.unwrap_or(WAITERS_MAX_DEFAULT),
                WAITERS_MAX_RANGE,
                "must be from 0 to 1000000",
            )?,
        })
    }
}

/// An empty text is one that was not said. A NUL would end it early in the log-in, and what follows would be read as
/// something else.
fn text(parameter: &str, said: Option<String>) -> Result<Option<String>, SettingsError> {
    match said {
        Some(text) if text.contains('\0') => Err(SettingsError::of(parameter, "holds a NUL byte")),
        Some(text) if text.len() > TEXT_BYTES_MAX => Err(SettingsError::of(parameter, "has more than 1024 bytes")),
        said => Ok(said.filter(|text| !text.is_empty())),
    }
}

/// An empty password is none: the servers make no difference.
fn checked_password(said: Option<Password>) -> Result<Option<Password>, SettingsError> {
    let Some(password) = said.filter(|password| !password.as_bytes().is_empty()) else {
        return Ok(None);
    };
    if password.as_bytes().contains(&0) {
        return Err(SettingsError::of("password", "holds a NUL byte"));
    }
    if password.as_bytes().len() > PASSWORD_BYTES_MAX {
        return Err(SettingsError::of("password", "has more than 32768 bytes"));
    }
    Ok(Some(password))
}

fn system_user(lookup: Lookup<'_>) -> Result<String, SettingsError> {
    let user = ["USER", "LOGNAME"]
        .iter()
        .filter_map(|variable| lookup(variable).map(OsString::into_string))
        .filter_map(Result::ok)
        .find(|user| !user.is_empty() && !user.contains('\0'));
    user.ok_or_else(|| {
        SettingsError::of("user", "is not set, and neither USER nor LOGNAME says who the system's user is")
    })
}

fn timeout(parameter: &str, said: Option<Duration>) -> Result<Duration, SettingsError> {
    let words = "must be from 1ms to 24h; waiting for ever is not offered";
    in_range(parameter, said.unwrap_or(TIMEOUT_DEFAULT), TIMEOUT_RANGE, words)
}

fn in_range<T: PartialOrd>(
    parameter: &str,
    value: T,
    range: RangeInclusive<T>,
    words: &str,
) -> Result<T, SettingsError> {
    match range.contains(&value) {
        true => Ok(value),
        false => Err(SettingsError::of(parameter, words)),
    }
}
