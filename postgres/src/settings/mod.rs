//! `Settings`: everything that names a pool, read from a URL, a keyword string, the environment or a builder.
//!
//! ```text
//! URL ----------.
//! keywords -----+--> Assignments (named texts) --> SettingsBuilder (typed) --> Settings (checked)
//! environment --'                                        ^
//! builder calls -----------------------------------------'
//! ```
//!
//! What means the same to every driver is read and checked by `cenote_pool::settings`; here is what libpq and Postgres
//! have of their own. URLs follow libpq ("Connection URIs") but for three things, each where libpq would take a part of
//! a password that was not escaped for something else: of several `@` before the first `/` or `?` the last one ends the
//! password; an `@` in the database's name is refused; white space is refused.
//!
//! Nothing here resolves a name, opens a socket or reads a file. The process's environment is looked at by
//! [`Settings::from_environment`], and elsewhere only for the system's user where no user is named.

mod assignments;
mod auth_methods;
mod builder;
mod environment;
mod host;
mod keywords;
mod names;
mod ssl;
mod ssl_mode;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::str::FromStr;
use std::time::Duration;

use assignments::Said;
use cenote_pool::settings::{Assignments, Limits, Lookup, after_scheme, read_url};

pub use auth_methods::AuthMethod;
pub(crate) use auth_methods::AuthMethods;
pub use builder::SettingsBuilder;
#[doc(inline)]
pub use cenote_pool::settings::{Password, SettingsError};
pub use host::Host;
pub(crate) use ssl::{APPLICATION_PROTOCOL, Ssl};
pub use ssl::{ChannelBinding, SslNegotiation, SslRootCert};
pub use ssl_mode::SslMode;

/// Both mean the same.
const SCHEMES: [&str; 2] = ["postgres", "postgresql"];

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
/// | `connect_timeout` | 5 s | per look-up of a name and per address, log-in included |
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
/// | `max_lifetime` | 30 min | how long a connection is used, less up to a tenth of it, so that not all end together; 0: for ever |
/// | `idle_timeout` | 10 min | a connection that has had nothing to do for so long is closed, but for the last one; 0: never |
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
    ssl: Ssl,
    auth_methods: AuthMethods,
    limits: Limits,
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
            ssl: self.ssl.clone(),
            auth_methods: self.auth_methods,
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
        self.limits.connect_timeout
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

    /// Prepared statements kept per connection; with 0 none is named.
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

/// Reads either text form into `assignments`.
fn read_text(text: &str, assignments: &mut Assignments<Said>) -> Result<(), SettingsError> {
    if let Some(rest) = after_scheme(text, &SCHEMES) {
        return read_url(rest, assignments);
    }
    let first_word = text.split(|c: char| c == '=' || c.is_whitespace()).find(|word| !word.is_empty());
    if first_word.is_some_and(|word| word.contains("://")) {
        return Err(SettingsError::whole("a URL must start with postgres:// or postgresql://"));
    }
    keywords::read(text, assignments)
}
