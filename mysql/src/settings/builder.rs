//! `SettingsBuilder`: settings part by part, and the one place where they are checked and get their defaults.
//!
//! URL and environment fill the same builder, so whatever the source, the same checks hold.

use std::path::PathBuf;
use std::time::Duration;

use cenote_pool::settings::{
    Limits, Password, SettingsError, check_host_count, checked_password, checked_text, system_user,
};

use super::auth_plugins::{AuthPlugin, AuthPlugins};
use super::host::{self, Host};
use super::pipelining::Pipelining;
use super::ssl::{Ssl, SslMode, SslRoots};
use super::{Lookup, Settings};

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
    pub(super) ssl: Ssl<Option<SslMode>>,
    pub(super) auth_plugins: AuthPlugins,
    pub(super) allow_cleartext_password: Option<bool>,
    pub(super) allow_public_key_retrieval: Option<bool>,
    pub(super) server_public_key: Option<PathBuf>,
    pub(super) pipeline: Option<Pipelining>,
    pub(super) limits: Limits,
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
        self.limits.connect_timeout = connect_timeout;
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
        self.limits.pool_size = pool_size;
        self
    }

    /// Statements in flight on one connection at most; 128 if not set, from 1 to 4,096.
    pub fn max_pipeline(mut self, max_pipeline: usize) -> SettingsBuilder {
        self.limits.max_pipeline = max_pipeline;
        self
    }

    /// How long a caller waits for room on a connection; 5 s if not set, from 1 ms to a day.
    pub fn acquire_timeout(mut self, acquire_timeout: Duration) -> SettingsBuilder {
        self.limits.acquire_timeout = acquire_timeout;
        self
    }

    /// How long a connection is used, less up to a tenth of it, so that not all end together; 30 min if not set, from 100 ms
    /// to a week. Zero: for ever.
    pub fn max_lifetime(mut self, max_lifetime: Duration) -> SettingsBuilder {
        self.limits.max_lifetime = max_lifetime;
        self
    }

    /// How long a connection may have nothing to do before it is closed; the last one stays. 10 min if not set, from 100 ms
    /// to a week. Zero: for ever.
    pub fn idle_timeout(mut self, idle_timeout: Duration) -> SettingsBuilder {
        self.limits.idle_timeout = idle_timeout;
        self
    }

    /// Prepared statements kept per connection; 256 if not set, at most 65,536. With 0 none is kept.
    pub fn statement_cache_size(mut self, statement_cache_size: usize) -> SettingsBuilder {
        self.limits.statement_cache_size = statement_cache_size;
        self
    }

    /// What one buffered result may take; 64 MiB if not set, from 1 KiB to 1 GiB.
    pub fn reply_bytes_max(mut self, reply_bytes_max: usize) -> SettingsBuilder {
        self.limits.reply_bytes_max = reply_bytes_max;
        self
    }

    /// What may wait to be written to one connection; 256 KiB if not set, from 8 KiB to 64 MiB.
    pub fn unsent_bytes_max(mut self, unsent_bytes_max: usize) -> SettingsBuilder {
        self.limits.unsent_bytes_max = unsent_bytes_max;
        self
    }

    /// Callers waiting for room at most; 10,000 if not set, up to 1,000,000. With 0 nobody waits.
    pub fn waiters_max(mut self, waiters_max: usize) -> SettingsBuilder {
        self.limits.waiters_max = waiters_max;
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
        check_host_count(self.hosts.len())?;
        self.hosts.iter().try_for_each(Host::check)?;
        if self.auth_plugins.is_empty() {
            return Err(SettingsError::of("auth_plugins", "allows no plugin at all"));
        }
        self.limits.check()?;
        Ok(Settings {
            ssl: self.ssl.check(&self.hosts)?,
            user: text("user", self.user)?.map_or_else(|| system_user(lookup), Ok)?,
            password: checked_password(self.password, PASSWORD_BYTES_MAX)?,
            database: text("database", self.database)?,
            program_name: text("program_name", self.program_name)?,
            connection_attributes: self.connection_attributes.unwrap_or(true),
            found_rows: self.found_rows.unwrap_or(false),
            hosts: self.hosts,
            auth_plugins: self.auth_plugins,
            allow_cleartext_password: self.allow_cleartext_password.unwrap_or(false),
            allow_public_key_retrieval: self.allow_public_key_retrieval.unwrap_or(false),
            server_public_key: self.server_public_key,
            pipeline: self.pipeline.unwrap_or_default(),
            limits: self.limits,
        })
    }
}

/// A text as it may be sent, and not longer than any server takes it.
fn text(parameter: &str, said: Option<String>) -> Result<Option<String>, SettingsError> {
    match checked_text(parameter, said)? {
        Some(text) if text.len() > TEXT_BYTES_MAX => {
            Err(SettingsError::of(parameter, format!("has more than {TEXT_BYTES_MAX} bytes")))
        }
        checked => Ok(checked),
    }
}
