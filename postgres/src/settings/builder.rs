//! `SettingsBuilder`: settings part by part, and the one place where they are checked and get their defaults.
//!
//! URL, keyword string and environment fill the same builder, so whatever the source, the same checks hold.

use std::path::PathBuf;
use std::time::Duration;

use cenote_pool::TlsVersion;
use cenote_pool::settings::{
    Limits, Password, SettingsError, check_host_count, checked_password, checked_text, system_user,
};

use super::auth_methods::{AuthMethod, AuthMethods};
use super::host::{self, Host};
use super::ssl::{ChannelBinding, Ssl, SslNegotiation, SslRootCert};
use super::ssl_mode::SslMode;
use super::{Lookup, Settings};

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
    pub(super) limits: Limits,
    pub(super) ssl: Ssl,
    pub(super) auth_methods: AuthMethods,
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
        self.limits.connect_timeout = connect_timeout;
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

    /// Prepared statements kept per connection; 256 if not set, at most 65,536. With 0 none is named.
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
    /// The first part that cannot be: out of range, a NUL byte, or what does not fit together.
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
        let user = match checked_text("user", self.user)? {
            Some(user) => user,
            None => system_user(lookup)?,
        };
        let dbname = checked_text("dbname", self.dbname)?.unwrap_or_else(|| user.clone());
        if self.auth_methods.is_empty() {
            let words = "allows no method that this driver speaks: none, password, md5, scram-sha-256";
            return Err(SettingsError::of("require_auth", words));
        }
        self.limits.check()?;
        Ok(Settings {
            hosts: self.hosts,
            user,
            password: checked_password(self.password, PASSWORD_BYTES_MAX)?,
            dbname,
            application_name: checked_text("application_name", self.application_name)?,
            options: checked_text("options", self.options)?,
            ssl: self.ssl.checked()?,
            auth_methods: self.auth_methods,
            limits: self.limits,
        })
    }
}
