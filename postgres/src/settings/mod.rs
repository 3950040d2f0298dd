//! `Settings`: everything that names a pool, read from a URL, a keyword string, the environment or a builder.
//!
//! ```text
//! URL ----------.
//! keywords -----+--> Assignments (named texts) --> SettingsBuilder (typed) --> Settings (checked)
//! environment --'                                        ^
//! builder calls -----------------------------------------'
//! ```
//!
//! Nothing here resolves a name, opens a socket or reads a file. The process's environment is looked at by
//! [`Settings::from_environment`], and elsewhere only for the system's user where no user is named.

mod assignments;
mod auth_methods;
mod builder;
mod environment;
mod error;
mod host;
mod keywords;
mod names;
mod password;
mod ssl;
mod ssl_mode;
#[cfg(test)]
mod tests;
mod url;
mod value;

use std::ffi::OsString;
use std::str::FromStr;
use std::time::Duration;

use assignments::Assignments;

pub use auth_methods::AuthMethod;
pub(crate) use auth_methods::AuthMethods;
pub use builder::SettingsBuilder;
pub use error::SettingsError;
pub use host::Host;
pub use password::Password;
pub(crate) use ssl::{APPLICATION_PROTOCOL, Ssl};
pub use ssl::{ChannelBinding, SslNegotiation, SslRootCert};
pub use ssl_mode::SslMode;

/// How environment variables are looked up.
type Lookup<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// Everything that names a pool. Equal settings are one pool; the password is part of it.
///
/// # Text forms
///
/// [`Settings::from_url`] and [`FromStr`] take both of libpq's forms:
///
/// ```
/// # use cenote_postgres::Settings;
/// let url: Settings = "postgres://app:secret@db1:5433,db2/shop?pool_size=4".parse()?;
/// let keywords: Settings =
///     "host=db1,db2 port=5433, user=app password='secret' dbname=shop pool_size=4".parse()?;
/// assert_eq!(url, keywords);
/// # Ok::<(), cenote_postgres::SettingsError>(())
/// ```
///
/// A Unix socket is named by its directory: `postgres:///shop?host=/run/postgresql`,
/// `postgres://%2Frun%2Fpostgresql/shop` or `host=/run/postgresql`.
///
/// # Parameters
///
/// | name | default | meaning |
/// |---|---|---|
/// | `host` | `localhost` | names, addresses or socket directories, separated by commas and tried in order |
/// | `hostaddr` | | addresses to use instead of resolving `host` |
/// | `port` | 5432 | one for all hosts, or one each |
/// | `user` | the system's user (`USER`, else `LOGNAME`) | |
/// | `password` | | |
/// | `dbname` | the user's name | |
/// | `application_name` | | shown in `pg_stat_activity` |
/// | `options` | | options for the server's process, `-c search_path=app`; `client_encoding` and `DateStyle` stay the driver's |
/// | `connect_timeout` | 5 s | per address, log-in included |
/// | `sslmode` | `prefer` | whether to encrypt and what is checked: see [`SslMode`] |
/// | `sslrootcert` | | file with the authorities that may have signed the server's certificate; `system`: those the system trusts, with `verify-full` alone |
/// | `sslcert`, `sslkey` | | files with the client's own certificate and its key, not encrypted |
/// | `sslnegotiation` | `postgres` | `direct`: TLS from the first byte, without asking (Postgres 17) |
/// | `sslsni` | 1 | whether the host's name is sent in clear when TLS begins |
/// | `ssl_min_protocol_version`, `ssl_max_protocol_version` | `TLSv1.2`, `TLSv1.3` | |
/// | `channel_binding` | `prefer` | whether the password is bound to the server's certificate: see [`ChannelBinding`] |
/// | `require_auth` | any | methods by which the server may authenticate the user: `none`, `password`, `md5`, `scram-sha-256`, or with `!` those it may not use |
/// | `pool_size` | 8 | connections at most |
/// | `max_pipeline` | 128 | statements in flight per connection at most |
/// | `acquire_timeout` | 5 s | how long a caller waits for room on a connection |
/// | `statement_cache_size` | 256 | prepared statements kept per connection; 0: none is named |
/// | `reply_bytes_max` | 64 MiB | what one buffered result may take |
/// | `unsent_bytes_max` | 256 KiB | what may wait to be written to one connection |
/// | `waiters_max` | 10,000 | callers waiting for room at most |
///
/// Durations are whole numbers with a unit (`500ms`, `5s`, `1min`, `1h`), seconds where none is named; sizes are
/// bytes or have a unit (`64kB`, `64MB`, `1GB`, each 1024 times the one before). An empty value is the same
/// as saying nothing, and of two values for one name the later counts. An unknown name is an error.
///
/// Files are read when a connection is made, all in PEM form.
///
/// What libpq does and this driver does not: certificates are looked for only where they are named, never in the
/// home directory; a host's name in the certificate's subject does not count, only its alternative names; no default socket directory (`localhost` over TCP instead), no
/// password file, no service file, and the `PG*` variables are read by [`Settings::from_environment`]
/// alone, not below a URL or keyword string.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Settings {
    hosts: Vec<Host>,
    user: String,
    password: Option<Password>,
    dbname: String,
    application_name: Option<String>,
    options: Option<String>,
    connect_timeout: Duration,
    ssl: Ssl,
    auth_methods: AuthMethods,
    pool_size: usize,
    max_pipeline: usize,
    acquire_timeout: Duration,
    statement_cache_size: usize,
    reply_bytes_max: usize,
    unsent_bytes_max: usize,
    waiters_max: usize,
}

impl Settings {
    /// Reads a URL (`postgres://..`, `postgresql://..`) or a keyword string (`host=.. user=..`).
    ///
    /// # Errors
    ///
    /// Whatever cannot be met or understood; the error shows no value.
    pub fn from_url(text: &str) -> Result<Settings, SettingsError> {
        Settings::from_text(text, &|variable| std::env::var_os(variable))
    }

    /// Reads the process's environment: `DATABASE_URL` (either text form), and for what it does not say
    /// `PGHOST`, `PGHOSTADDR`, `PGPORT`, `PGUSER`, `PGPASSWORD`, `PGDATABASE`, `PGAPPNAME`, `PGOPTIONS`,
    /// `PGCONNECT_TIMEOUT`, `PGSSLMODE`, `PGREQUIREAUTH` and the others of libpq that stand for a parameter.
    ///
    /// Where `DATABASE_URL` names a host, neither `PGHOST` nor `PGHOSTADDR` counts. Variables that ask for what
    /// is not there (`PGSSLCRL`, `PGSERVICE`) are errors; `PGPASSFILE`, `PGTZ`, `PGDATESTYLE` and `PGGEQO` are
    /// not looked at.
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
    /// # use cenote_postgres::Settings;
    /// let settings = Settings::from_variables(|variable| match variable {
    ///     "DATABASE_URL" => Some("postgres://app@db/shop".into()),
    ///     "PGPORT" => Some("5433".into()),
    ///     _ => None,
    /// })?;
    /// assert_eq!(settings.hosts()[0].to_string(), "db:5433");
    /// # Ok::<(), cenote_postgres::SettingsError>(())
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
    /// # use cenote_postgres::Settings;
    /// let settings = Settings::builder()
    ///     .host("localhost", 5432)
    ///     .user("app")
    ///     .password("secret")
    ///     .pool_size(4)
    ///     .build()?;
    /// assert_eq!(settings.dbname(), "app");
    /// # Ok::<(), cenote_postgres::SettingsError>(())
    /// ```
    pub fn builder() -> SettingsBuilder {
        SettingsBuilder::default()
    }

    /// A builder that starts from these settings, to change some of them.
    pub fn to_builder(&self) -> SettingsBuilder {
        SettingsBuilder {
            hosts: self.hosts.clone(),
            user: Some(self.user.clone()),
            password: self.password.clone(),
            dbname: Some(self.dbname.clone()),
            application_name: self.application_name.clone(),
            options: self.options.clone(),
            connect_timeout: Some(self.connect_timeout),
            ssl: self.ssl.clone(),
            auth_methods: self.auth_methods,
            pool_size: Some(self.pool_size),
            max_pipeline: Some(self.max_pipeline),
            acquire_timeout: Some(self.acquire_timeout),
            statement_cache_size: Some(self.statement_cache_size),
            reply_bytes_max: Some(self.reply_bytes_max),
            unsent_bytes_max: Some(self.unsent_bytes_max),
            waiters_max: Some(self.waiters_max),
        }
    }

    fn from_text(text: &str, lookup: Lookup<'_>) -> Result<Settings, SettingsError> {
        let mut assignments = Assignments::default();
        read_text(text, &mut assignments)?;
        assignments.finish(lookup)
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

    /// The database.
    pub fn dbname(&self) -> &str {
        &self.dbname
    }

    /// The name shown in `pg_stat_activity`.
    pub fn application_name(&self) -> Option<&str> {
        self.application_name.as_deref()
    }

    /// Options for the server's process.
    pub fn options(&self) -> Option<&str> {
        self.options.as_deref()
    }

    /// How long connecting to one address may take, log-in included.
    pub fn connect_timeout(&self) -> Duration {
        self.connect_timeout
    }

    /// Whether to encrypt, and what is checked.
    pub fn ssl_mode(&self) -> SslMode {
        self.ssl.mode()
    }

    /// All that is said about TLS.
    pub(crate) fn ssl(&self) -> &Ssl {
        &self.ssl
    }

    /// Whether the password is bound to the server's certificate.
    pub fn channel_binding(&self) -> ChannelBinding {
        self.ssl.channel_binding
    }

    /// Whether the server may authenticate the user by `method` (`require_auth`).
    pub fn allows_auth(&self, method: AuthMethod) -> bool {
        self.auth_methods.contains(method)
    }

    /// Connections at most.
    pub fn pool_size(&self) -> usize {
        self.pool_size
    }

    /// Statements in flight per connection at most.
    pub fn max_pipeline(&self) -> usize {
        self.max_pipeline
    }

    /// How long a caller waits for room on a connection.
    pub fn acquire_timeout(&self) -> Duration {
        self.acquire_timeout
    }

    /// Prepared statements kept per connection; with 0 none is named.
    pub fn statement_cache_size(&self) -> usize {
        self.statement_cache_size
    }

    /// What one buffered result may take.
    pub fn reply_bytes_max(&self) -> usize {
        self.reply_bytes_max
    }

    /// What may wait to be written to one connection.
    pub fn unsent_bytes_max(&self) -> usize {
        self.unsent_bytes_max
    }

    /// Callers waiting for room at most.
    pub fn waiters_max(&self) -> usize {
        self.waiters_max
    }
}

impl FromStr for Settings {
    type Err = SettingsError;

    fn from_str(text: &str) -> Result<Settings, SettingsError> {
        Settings::from_url(text)
    }
}

/// Reads either text form into `assignments`.
fn read_text(text: &str, assignments: &mut Assignments) -> Result<(), SettingsError> {
    if let Some(rest) = url::after_scheme(text) {
        return url::read(rest, assignments);
    }
    if url::has_other_scheme(text) {
        return Err(SettingsError::whole("a URL must start with postgres:// or postgresql://"));
    }
    keywords::read(text, assignments)
}
