//! `Settings`: everything that names a pool, read from a URL, the environment or a builder.
//!
//! ```text
//! URL ----------.
//! environment --+--> Assignments (named texts) --> SettingsBuilder (typed) --> Settings (checked)
//! builder calls -----------------------------------------^
//! ```
//!
//! What means the same to every driver is read and checked by `cenote_pool::settings`; here is what MySQL has of its
//! own. What a URL's address names cannot be named again as a parameter.
//!
//! Nothing here resolves a name, opens a socket or reads a file. The process's environment is looked at by
//! [`Settings::from_environment`], and elsewhere only for the system's user where no user is named.

mod assignments;
mod auth_plugins;
mod builder;
mod environment;
mod host;
mod names;
mod pipelining;
mod ssl;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use assignments::Said;
use cenote_pool::TlsSettings;
use cenote_pool::settings::{Assignments, Limits, Lookup, after_scheme, read_url};
use ssl::Ssl;

pub use auth_plugins::AuthPlugin;
pub(crate) use auth_plugins::AuthPlugins;
pub use builder::SettingsBuilder;
#[doc(inline)]
pub use cenote_pool::settings::{Password, SettingsError};
pub use host::Host;
pub use pipelining::Pipelining;
pub use ssl::{SslMode, SslRoots};

/// Both mean the same: which server it is shows when it greets.
const SCHEMES: [&str; 2] = ["mysql", "mariadb"];

/// Everything that names a pool. Equal settings are one pool; the password is part of it.
///
/// # Text form
///
/// [`Settings::from_url`] and [`FromStr`] take a URL, for MySQL and MariaDB alike:
///
/// ```
/// # use cenote_mysql::Settings;
/// let settings: Settings = "mysql://app:secret@db1:3307,db2/shop?pool_size=4".parse()?;
/// assert_eq!(settings.hosts()[1].to_string(), "db2:3306");
/// # Ok::<(), cenote_mysql::SettingsError>(())
/// ```
///
/// A Unix socket is named by its path: `mysql://app@/shop?socket=/run/mysqld/mysqld.sock` or
/// `mysql://app@%2Frun%2Fmysqld%2Fmysqld.sock/shop`.
///
/// # Parameters
///
/// | name | default | meaning |
/// |---|---|---|
/// | `host` | `localhost` | names, addresses or socket paths, separated by commas and tried in order |
/// | `port` | 3306 | one for all hosts, or one each |
/// | `socket` | | a Unix socket's path, in the place of a host |
/// | `user` | the system's user (`USER`, else `LOGNAME`) | |
/// | `password` | | |
/// | `database` | none | |
/// | `program_name` | | shown among the connection attributes |
/// | `connection_attributes` | on | whether the server is told the driver's name and version, the kind of system and `program_name`; never a host's name or a process's number |
/// | `found_rows` | off | affected rows are those that matched (`on`), or only those that were changed, as with the C client |
/// | `connect_timeout` | 5 s | per look-up of a name and per address, log-in included |
/// | `ssl_mode` | `preferred`; with `ssl_ca` `verify-ca` | see [`SslMode`] |
/// | `ssl_ca` | | who may have signed the server's certificate: a PEM file, or `system`, which means `verify-identity` |
/// | `ssl_cert`, `ssl_key` | | the client's own certificate and its key: PEM files |
/// | `auth_plugins` | all | plugins by which the server may authenticate the user: `caching_sha2_password`, `sha256_password`, `mysql_native_password`, `mysql_clear_password` |
/// | `server_public_key` | | the server's RSA key, a PEM file, for log-ins with a password over plain TCP |
/// | `allow_public_key_retrieval` | off | ask the server for that key, and trust who answers |
/// | `allow_cleartext_password` | off | send the password as it is where the server asks for it, over verified TLS or a Unix socket |
/// | `pipeline` | `auto` | see [`Pipelining`] |
/// | `charset` | `utf8mb4` | nothing else |
/// | `pool_size` | 8 | connections at most |
/// | `max_pipeline` | 128 | statements in flight per connection at most |
/// | `acquire_timeout` | 5 s | how long a caller waits for room on a connection |
/// | `max_lifetime` | 30 min | how long a connection is used, less up to a tenth of it, so that not all end together; 0: for ever |
/// | `idle_timeout` | 10 min | a connection that has had nothing to do for so long is closed, but for the last one; 0: never |
/// | `statement_cache_size` | 256 | prepared statements kept per connection |
/// | `reply_bytes_max` | 64 MiB | what one buffered result may take |
/// | `unsent_bytes_max` | 256 KiB | what may wait to be written to one connection |
/// | `waiters_max` | 10,000 | callers waiting for room at most |
///
/// Durations are whole numbers with a unit (`500ms`, `5s`, `1min`, `1h`), seconds where none is named; sizes are bytes
/// or have a unit (`64kB`, `64MB`, `1GB`, each 1024 times the one before). A name may be written with `-` for `_`
/// (`ssl-mode`). An empty value is the same as saying nothing, and of two values for one name the later counts, but
/// what the URL's address says cannot be said again as a parameter. An unknown name is an error.
///
/// What the official clients do and this driver does not: `localhost` is TCP unless a socket is named, and there are
/// no option files.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Settings {
    hosts: Vec<Host>,
    user: String,
    password: Option<Password>,
    database: Option<String>,
    program_name: Option<String>,
    connection_attributes: bool,
    found_rows: bool,
    ssl: Ssl<SslMode>,
    auth_plugins: AuthPlugins,
    allow_cleartext_password: bool,
    allow_public_key_retrieval: bool,
    server_public_key: Option<PathBuf>,
    pipeline: Pipelining,
    limits: Limits,
}

impl Settings {
    /// Reads a URL (`mysql://..`, `mariadb://..`).
    ///
    /// # Errors
    ///
    /// Whatever cannot be met or understood; the error shows no value.
    pub fn from_url(text: &str) -> Result<Settings, SettingsError> {
        Settings::from_text(text, &|variable| std::env::var_os(variable))
    }

    /// Reads the process's environment: the URL in `MYSQL_URL`, else in `DATABASE_URL`, and for what it does not say
    /// `MYSQL_HOST`, `MYSQL_TCP_PORT`, `MYSQL_UNIX_PORT`, `MYSQL_USER`, `MYSQL_PWD` or `MYSQL_PASSWORD`, and
    /// `MYSQL_DATABASE`.
    ///
    /// `MYSQL_UNIX_PORT` is the socket of `localhost`: it does not count where another host is named, or where the URL
    /// names any.
    ///
    /// # Errors
    ///
    /// Whatever cannot be met or understood; the error names the variable and shows no value.
    pub fn from_environment() -> Result<Settings, SettingsError> {
        Settings::from_variables(|variable| std::env::var_os(variable))
    }

    /// [`from_environment`](Settings::from_environment) with variables from anywhere.
    ///
    /// ```
    /// # use cenote_mysql::Settings;
    /// let settings = Settings::from_variables(|variable| match variable {
    ///     "MYSQL_URL" => Some("mysql://app@db/shop".into()),
    ///     "MYSQL_TCP_PORT" => Some("3307".into()),
    ///     _ => None,
    /// })?;
    /// assert_eq!(settings.hosts()[0].to_string(), "db:3307");
    /// # Ok::<(), cenote_mysql::SettingsError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`from_environment`](Settings::from_environment).
    pub fn from_variables(lookup: impl Fn(&str) -> Option<OsString>) -> Result<Settings, SettingsError> {
        environment::read(&lookup)
    }

    /// Settings part by part.
    ///
    /// ```
    /// # use cenote_mysql::Settings;
    /// let settings = Settings::builder()
    ///     .host("localhost", 3306)
    ///     .user("app")
    ///     .password("secret")
    ///     .database("shop")
    ///     .pool_size(4)
    ///     .build()?;
    /// assert_eq!(settings.database(), Some("shop"));
    /// # Ok::<(), cenote_mysql::SettingsError>(())
    /// ```
    pub fn builder() -> SettingsBuilder {
        SettingsBuilder::default()
    }

    /// A builder that starts from these settings, to change some of them.
    pub fn to_builder(&self) -> SettingsBuilder {
        let Ssl { mode, ca, cert, key } = self.ssl.clone();
        SettingsBuilder {
            hosts: self.hosts.clone(),
            user: Some(self.user.clone()),
            password: self.password.clone(),
            database: self.database.clone(),
            program_name: self.program_name.clone(),
            connection_attributes: Some(self.connection_attributes),
            found_rows: Some(self.found_rows),
            ssl: Ssl { mode: Some(mode), ca, cert, key },
            auth_plugins: self.auth_plugins,
            allow_cleartext_password: Some(self.allow_cleartext_password),
            allow_public_key_retrieval: Some(self.allow_public_key_retrieval),
            server_public_key: self.server_public_key.clone(),
            pipeline: Some(self.pipeline),
            limits: self.limits,
        }
    }

    fn from_text(text: &str, lookup: Lookup<'_>) -> Result<Settings, SettingsError> {
        let mut assignments = Assignments::default();
        read_text(text, &mut assignments)?;
        assignments::finish(assignments, lookup)
    }

    /// The hosts to try, in order; at least one.
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// The user.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// The password, if there is one.
    pub fn password(&self) -> Option<&Password> {
        self.password.as_ref()
    }

    /// The default database.
    pub fn database(&self) -> Option<&str> {
        self.database.as_deref()
    }

    /// The program's name among the connection attributes.
    pub fn program_name(&self) -> Option<&str> {
        self.program_name.as_deref()
    }

    /// Whether the server is told who connects.
    pub fn connection_attributes(&self) -> bool {
        self.connection_attributes
    }

    /// Whether affected rows are those that matched rather than those that were changed.
    pub fn found_rows(&self) -> bool {
        self.found_rows
    }

    /// How long connecting to one address may take, log-in included.
    pub fn connect_timeout(&self) -> Duration {
        self.limits.connect_timeout
    }

    /// Whether to encrypt, and what to check.
    pub fn ssl_mode(&self) -> SslMode {
        self.ssl.mode
    }

    /// Who may have signed the server's certificate.
    pub fn ssl_ca(&self) -> Option<&SslRoots> {
        self.ssl.ca.as_ref()
    }

    /// The client's own certificate, a PEM file.
    pub fn ssl_cert(&self) -> Option<&Path> {
        self.ssl.cert.as_deref()
    }

    /// The key of [`ssl_cert`](Settings::ssl_cert), a PEM file.
    pub fn ssl_key(&self) -> Option<&Path> {
        self.ssl.key.as_deref()
    }

    /// How TLS is done where it is.
    pub(crate) fn tls(&self) -> TlsSettings {
        self.ssl.tls()
    }

    /// Whether the server may authenticate the user by `plugin`.
    pub fn allows_auth(&self, plugin: AuthPlugin) -> bool {
        self.auth_plugins.contains(plugin)
    }

    /// Whether `mysql_clear_password` may send the password as it is.
    pub fn allow_cleartext_password(&self) -> bool {
        self.allow_cleartext_password
    }

    /// Whether the server's RSA key may come from the server.
    pub fn allow_public_key_retrieval(&self) -> bool {
        self.allow_public_key_retrieval
    }

    /// The server's RSA key, a PEM file.
    pub fn server_public_key(&self) -> Option<&Path> {
        self.server_public_key.as_deref()
    }

    /// Whether to pipeline.
    pub fn pipeline(&self) -> Pipelining {
        self.pipeline
    }

    /// Connections at most.
    pub fn pool_size(&self) -> usize {
        self.limits.pool_size
    }

    /// Statements in flight per connection at most.
    pub fn max_pipeline(&self) -> usize {
        self.limits.max_pipeline
    }

    /// How long a caller waits for room on a connection.
    pub fn acquire_timeout(&self) -> Duration {
        self.limits.acquire_timeout
    }

    /// How long a connection is used at most; zero: for ever.
    pub fn max_lifetime(&self) -> Duration {
        self.limits.max_lifetime
    }

    /// How long a connection may have nothing to do before it is closed; zero: for ever.
    pub fn idle_timeout(&self) -> Duration {
        self.limits.idle_timeout
    }

    /// Prepared statements kept per connection; with 0 none is kept.
    pub fn statement_cache_size(&self) -> usize {
        self.limits.statement_cache_size
    }

    /// What one buffered result may take.
    pub fn reply_bytes_max(&self) -> usize {
        self.limits.reply_bytes_max
    }

    /// What may wait to be written to one connection.
    pub fn unsent_bytes_max(&self) -> usize {
        self.limits.unsent_bytes_max
    }

    /// Callers waiting for room at most.
    pub fn waiters_max(&self) -> usize {
        self.limits.waiters_max
    }
}

impl FromStr for Settings {
    type Err = SettingsError;

    fn from_str(text: &str) -> Result<Settings, SettingsError> {
        Settings::from_url(text)
    }
}

/// Reads a URL into `assignments`.
fn read_text(text: &str, assignments: &mut Assignments<Said>) -> Result<(), SettingsError> {
    match after_scheme(text, &SCHEMES) {
        Some(rest) => read_url(rest, assignments),
        None => Err(SettingsError::whole("a URL must start with mysql:// or mariadb://")),
    }
}
