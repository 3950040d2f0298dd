//! `Pool`: opened by settings, shared by the whole process.

use std::future::Future;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use bytes::BytesMut;
use cenote_pool::{Answered, PoolStats, Preparation, Registry};

use crate::error::Error;
use crate::firewall::{Change, Effect, Place, SET_LOCAL};
use crate::language::{self, Postgres};
use crate::own_session::OwnSession;
use crate::server_error::{Notice, ServerError};
use crate::settings::{Settings, SettingsError};

/// The Postgres pools of this process.
static POOLS: LazyLock<Registry<Settings, Postgres>> = LazyLock::new(Registry::default);

/// A pool of shared connections to one Postgres database.
///
/// Opening it with equal settings, from any thread, gives the same pool; each open is counted, and the pool drains
/// when the last one is closed or dropped. Clones share one open. All methods take `&self` and all futures are `Send`.
#[derive(Clone, Debug)]
pub struct Pool {
    pool: cenote_pool::Pool<Postgres>,
    /// Of a lease.
    own: Option<Arc<OwnSession>>,
}

/// What a pool can be opened with: a URL, a keyword string, or [`Settings`].
pub trait IntoSettings {
    /// The settings.
    ///
    /// # Errors
    ///
    /// When the text says something that cannot be met or understood.
    fn into_settings(self) -> Result<Settings, SettingsError>;
}

impl IntoSettings for &str {
    fn into_settings(self) -> Result<Settings, SettingsError> {
        Settings::from_url(self)
    }
}

impl IntoSettings for &String {
    fn into_settings(self) -> Result<Settings, SettingsError> {
        Settings::from_url(self)
    }
}

impl IntoSettings for String {
    fn into_settings(self) -> Result<Settings, SettingsError> {
        Settings::from_url(&self)
    }
}

impl IntoSettings for Settings {
    fn into_settings(self) -> Result<Settings, SettingsError> {
        Ok(self)
    }
}

impl IntoSettings for &Settings {
    fn into_settings(self) -> Result<Settings, SettingsError> {
        Ok(self.clone())
    }
}

impl Pool {
    /// Opens a pool. No I/O: connections are made when the first statements ask for them.
    ///
    /// ```
    /// # use cenote_postgres::{Error, Pool};
    /// let pool = Pool::open("postgres://app@localhost/shop?pool_size=8")?;
    /// assert_eq!(pool.stats().connections(), 0);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// When the settings cannot be met or understood.
    pub fn open(settings: impl IntoSettings) -> Result<Pool, Error> {
        let settings = settings.into_settings()?;
        let pool = POOLS.open(settings, |settings| (Postgres::new(settings.clone()), language::limits(settings)));
        Ok(Pool { pool, own: None })
    }

    /// The settings it was opened with.
    pub fn settings(&self) -> &Settings {
        self.language().settings()
    }

    /// Closes this open of the pool: its clones and itself take no more statements. The last open of a pool to close
    /// lets what is in flight finish, for at most `deadline`, and then closes the connections. Closing twice is
    /// harmless.
    ///
    /// Who waits for a connection or a lease hears at once that the pool [is closed](Error::is_closed). Whoever has a lease
    /// or a transaction may go on with it and end it, for at most `deadline`; then its connection is closed as well, the
    /// server rolls back what was not committed, and each further use of it says that the pool is closed.
    ///
    /// Dropped before it is ready, it has closed the pool all the same, and nobody ends what does not end by itself.
    pub fn close(&self, deadline: Duration) -> impl Future<Output = ()> + Send + '_ {
        self.pool.close(deadline)
    }

    /// The pool's counters right now.
    pub fn stats(&self) -> PoolStats {
        self.pool.stats()
    }

    /// Has `handler` called with each notice that a statement of this pool raises (`RAISE NOTICE`, warnings), in the
    /// task of the caller whose statement it was. One handler for the whole pool; the later one counts.
    pub fn on_notice(&self, handler: impl Fn(&Notice) + Send + Sync + 'static) {
        self.language().set_notice_handler(Arc::new(handler));
    }

    /// A handle whose statements go to a lease's connection.
    pub(crate) fn of_lease(pool: cenote_pool::Pool<Postgres>) -> Pool {
        Pool { pool, own: Some(Arc::default()) }
    }

    /// Whether its statements go to a lease's connection.
    pub(crate) fn is_leased(&self) -> bool {
        self.pool.is_leased()
    }

    /// Refuses what does not belong here, and notes what outlasts the statement.
    pub(crate) fn admit(&self, effect: Effect) -> Result<(), Error> {
        let place = match self.is_leased() {
            false => Place::Shared,
            true if self.pool.expects_transaction() => Place::Transaction,
            true => Place::Lease,
        };
        effect.admit(place)?;
        match effect {
            Effect::Session(_, Change::Prepared) | Effect::WithinTransaction(SET_LOCAL) => {
                self.pool.changes_session(true);
                self.own.iter().for_each(|own| own.change_names());
            }
            Effect::Session(_, Change::Reset) | Effect::Hidden => self.pool.changes_session(false),
            _ if effect.reads_only() => self.pool.expect_read_only(),
            _ => {}
        }
        Ok(())
    }

    /// Has names looked up by `resolver` instead of the system: for tests.
    #[doc(hidden)]
    pub fn set_resolver(&self, resolver: cenote_pool::Resolver) {
        self.pool.set_resolver(resolver);
    }

    pub(crate) fn language(&self) -> &Postgres {
        self.pool.language()
    }

    /// What a lease's statements know in common.
    pub(crate) fn own(&self) -> Option<&OwnSession> {
        self.own.as_deref()
    }

    /// The server has refused a statement.
    pub(crate) fn refused(&self, error: ServerError) -> Error {
        self.own.iter().for_each(|own| own.note_failure(&error));
        Error::server(error)
    }

    pub(crate) fn machine(&self) -> &cenote_pool::Pool<Postgres> {
        &self.pool
    }

    pub(crate) fn run<'a>(
        &'a self,
        preparations: &'a [&'a Preparation],
        encode: impl Fn(&mut BytesMut) -> Result<(), Error> + Send + Sync + 'a,
    ) -> impl Future<Output = Result<Answered<Postgres>, Error>> + Send + 'a {
        self.pool.run(preparations, encode)
    }
}
