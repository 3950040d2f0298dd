//! `SettingsBuilder`: settings part by part, and the one place where their limits and defaults are.
//!
//! URL, keyword string and environment fill the same builder, so whatever the source, the same checks hold.

use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use cenote_pool::TlsVersion;

use super::auth_methods::{AuthMethod, AuthMethods};
use super::error::SettingsError;
use super::host::{self, Host};
use super::password::Password;
use super::ssl::{ChannelBinding, Ssl, SslNegotiation, SslRootCert};
use super::ssl_mode::SslMode;
use super::{Lookup, Settings};

/// A few connections carry many callers, and every one is a process at the server.
const POOL_SIZE_DEFAULT: usize = 8;
/// Far above what pipelining needs, and ten times the server's usual `max_connections`.
const POOL_SIZE_RANGE: RangeInclusive<usize> = 1..=1_000;

/// Deep enough to fill a round trip, and still bounded waiting behind strangers.
const MAX_PIPELINE_DEFAULT: usize = 128;
/// From one at a time, for poolers that cannot pipeline, to where more only adds waiting.
const MAX_PIPELINE_RANGE: RangeInclusive<usize> = 1..=4_096;

/// How long somebody waits for an answer before he looks elsewhere.
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(5);
/// Nothing waits for ever; a day is what nobody means.
const TIMEOUT_RANGE: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(24 * 60 * 60);

/// Statements per connection; the server keeps the plan of each in memory.
const STATEMENT_CACHE_SIZE_DEFAULT: usize = 256;
const STATEMENT_CACHE_SIZE_RANGE: RangeInclusive<usize> = 0..=65_536;

/// What one buffered result may take; above it one wants a stream.
const REPLY_BYTES_MAX_DEFAULT: usize = 64 << 20;
/// The server's own messages end at 1 GiB.
const REPLY_BYTES_MAX_RANGE: RangeInclusive<usize> = 1 << 10..=1 << 30;

/// What may wait for one connection to take it: a few socket buffers full.
const UNSENT_BYTES_MAX_DEFAULT: usize = 256 << 10;
/// From one receive of the server (8 KiB) up.
const UNSENT_BYTES_MAX_RANGE: RangeInclusive<usize> = 8 << 10..=64 << 20;

/// Callers in the queue when all connections are full; past it more only get to time out.
const WAITERS_MAX_DEFAULT: usize = 10_000;
const WAITERS_MAX_RANGE: RangeInclusive<usize> = 0..=1_000_000;

/// The server takes no longer password message (`PG_MAX_AUTH_TOKEN_LENGTH`).
const PASSWORD_BYTES_MAX: usize = 65_535;

/// Settings in the making; see [`Settings::builder`].
///
/// What is not set gets its default when [`build`](SettingsBuilder::build) is called.
#[derive(Debug, Clone, Default)]
#[must_use = "a builder does nothing until `build` is called"]
pub struct SettingsBuilder {
    pub(super) hosts: Vec<Host>,
    pub(super) user: Option<String>,
    pub(super) password: Option<Password>,
    pub(super) dbname: Option<String>,
    pub(super) application_name: Option<String>,
    pub(super) options: Option<String>,
    pub(super) connect_timeout: Option<Duration>,
    pub(super) ssl: Ssl,
    pub(super) auth_methods: AuthMethods,
    pub(super) pool_size: Option<usize>,
    pub(super) max_pipeline: Option<usize>,
    pub(super) acquire_timeout: Option<Duration>,
    pub(super) statement_cache_size: Option<usize>,
    pub(super) reply_bytes_max: Option<usize>,
    pub(super) unsent_bytes_max: Option<usize>,
    pub(super) waiters_max: Option<usize>,
}

impl SettingsBuilder {
    /// Adds a host to try, after those already there: a name, an address, or a socket directory
    /// (an absolute path).
    pub fn host(mut self, name: impl AsRef<str>, port: u16) -> SettingsBuilder {
        self.hosts.push(Host::new(name.as_ref(), port));
        self
    }

    /// Adds the Unix socket `<directory>/.s.PGSQL.<port>` as a host to try.
    pub fn unix_socket(mut self, directory: impl Into<PathBuf>, port: u16) -> SettingsBuilder {
        let directory = directory.into();
        self.hosts.push(Host::Unix { directory, port });
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

    /// The database; the one named like the user if not set.
    pub fn dbname(mut self, dbname: impl Into<String>) -> SettingsBuilder {
        self.dbname = Some(dbname.into());
        self
    }

    /// The name shown in `pg_stat_activity` and the server's log.
    pub fn application_name(mut self, application_name: impl Into<String>) -> SettingsBuilder {
        self.application_name = Some(application_name.into());
        self
    }

    /// Command-line options for the server's process, such as `-c search_path=app`.
    pub fn options(mut self, options: impl Into<String>) -> SettingsBuilder {
        self.options = Some(options.into());
        self
    }

    /// How long connecting to one address may take, log-in included; 5 s if not set, from 1 ms to a day.
    pub fn connect_timeout(mut self, connect_timeout: Duration) -> SettingsBuilder {
        self.connect_timeout = Some(connect_timeout);
        self
    }

    /// Whether to encrypt, and what is checked; [`SslMode::Prefer`] if not set.
    pub fn ssl_mode(mut self, ssl_mode: SslMode) -> SettingsBuilder {
        self.ssl.mode = Some(ssl_mode);
        self
    }

    /// How a connection comes to TLS; the server is asked first if not set.
    pub fn ssl_negotiation(mut self, ssl_negotiation: SslNegotiation) -> SettingsBuilder {
        self.ssl.negotiation = ssl_negotiation;
        self
    }

    /// Whose signature makes a server's certificate good. With [`SslMode::VerifyFull`] that is whom the system trusts
    /// if not set.
    pub fn ssl_root_cert(mut self, ssl_root_cert: SslRootCert) -> SettingsBuilder {
        self.ssl.root_cert = Some(ssl_root_cert);
        self
    }

    /// The client's own certificate and its key, in PEM files: for servers that ask for one. The key is not encrypted.
    pub fn ssl_cert(mut self, cert: impl Into<PathBuf>, key: impl Into<PathBuf>) -> SettingsBuilder {
        self.ssl.cert = Some(cert.into());
        self.ssl.key = Some(key.into());
        self
    }

    /// Whether the host's name is sent in clear when TLS begins (SNI): it is if not set. An address never is.
    pub fn ssl_sni(mut self, ssl_sni: bool) -> SettingsBuilder {
        self.ssl.sends_server_name = ssl_sni;
        self
    }

    /// The oldest version of TLS that is spoken; 1.2 if not set.
    pub fn ssl_min_protocol_version(mut self, version: TlsVersion) -> SettingsBuilder {
        self.ssl.version_min = version;
        self
    }

    /// The newest version of TLS that is spoken; 1.3 if not set.
    pub fn ssl_max_protocol_version(mut self, version: TlsVersion) -> SettingsBuilder {
        self.ssl.version_max = version;
        self
    }

    /// Whether the password is bound to the server's certificate; where it can be if not set.
    pub fn channel_binding(mut self, channel_binding: ChannelBinding) -> SettingsBuilder {
        self.ssl.channel_binding = channel_binding;
        self
    }

    /// The methods by which the server may authenticate the user; any if not set.
    pub fn require_auth(mut self, methods: impl IntoIterator<Item = AuthMethod>) -> SettingsBuilder {
        self.auth_methods = methods.into_iter().collect();
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

    /// Prepared statements kept per connection; 256 if not set, at most 65,536. With 0 none is named.
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
    /// The first part that cannot be: out of range, a NUL byte, or what does not fit together.
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
        let user = match text("user", self.user)? {
            Some(user) => user,
            None => system_user(lookup)?,
        };
        let dbname = text("dbname", self.dbname)?.unwrap_or_else(|| user.clone());
        if self.auth_methods.is_empty() {
            let words = "allows no method that this driver speaks: none, password, md5, scram-sha-256";
            return Err(SettingsError::of("require_auth", words));
        }
        let timeout = |parameter, said: Option<Duration>| {
            let timeout = said.unwrap_or(TIMEOUT_DEFAULT);
            let words = "must be from 1ms to 24h; waiting for ever is not offered";
            in_range(parameter, timeout, TIMEOUT_RANGE, words)
        };
        Ok(Settings {
            hosts: self.hosts,
            user,
            password: checked_password(self.password)?,
            dbname,
            application_name: text("application_name", self.application_name)?,
            options: text("options", self.options)?,
            connect_timeout: timeout("connect_timeout", self.connect_timeout)?,
            ssl: self.ssl.checked()?,
            auth_methods: self.auth_methods,
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

/// An empty text is one that was not said. A NUL would end it early in the start-up message, and what
/// follows would be read as further parameters.
fn text(parameter: &str, said: Option<String>) -> Result<Option<String>, SettingsError> {
    match said {
        Some(text) if text.contains('\0') => Err(SettingsError::of(parameter, "holds a NUL byte")),
        said => Ok(said.filter(|text| !text.is_empty())),
    }
}

/// Postgres has no empty passwords, so an empty one is none.
fn checked_password(said: Option<Password>) -> Result<Option<Password>, SettingsError> {
    let Some(password) = said.filter(|password| !password.as_bytes().is_empty()) else {
        return Ok(None);
    };
    if password.as_bytes().contains(&0) {
        return Err(SettingsError::of("password", "holds a NUL byte"));
    }
    if password.as_bytes().len() > PASSWORD_BYTES_MAX {
        return Err(SettingsError::of("password", "has more than 65535 bytes"));
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
