//! `Pool`: opened by settings, shared by the whole process.

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use bytes::BytesMut;
use cenote_pool::{Answered, PoolStats, Preparation, Registry};

use crate::error::Error;
use crate::firewall::{self, Backslashes, Effect, Effects, Place};
use crate::language::{self, MySql};
use crate::reply::{self, Session};
use crate::settings::{Settings, SettingsError};
use crate::wire::frontend;

/// The MySQL and MariaDB pools of this process.
static POOLS: LazyLock<Registry<Settings, MySql>> = LazyLock::new(Registry::default);

/// A pool of shared connections to one MySQL or MariaDB database.
///
/// Opening it with equal settings, from any thread, gives the same pool; each open is counted, and the pool drains
/// when the last one is closed or dropped. Clones share one open. All methods take `&self` and all futures are `Send`.
#[derive(Clone, Debug)]
pub struct Pool {
    pool: cenote_pool::Pool<MySql>,
    /// Of a lease: whether the last that was heard of its transaction is an error that may have undone it.
    undone: Option<Arc<AtomicBool>>,
}

/// What a pool can be opened with: a URL or [`Settings`].
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
    /// # use cenote_mysql::{Error, Pool};
    /// let pool = Pool::open("mysql://app@localhost/shop?pool_size=8")?;
    /// assert_eq!(pool.stats().connections(), 0);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// When the settings cannot be met or understood.
    pub fn open(settings: impl IntoSettings) -> Result<Pool, Error> {
        let settings = settings.into_settings()?;
        let pool = POOLS.open(settings, |settings| (MySql::new(settings.clone()), language::limits(settings)));
        Ok(Pool { pool, undone: None })
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

    /// A handle whose statements go to a lease's connection.
    pub(crate) fn of_lease(pool: cenote_pool::Pool<MySql>) -> Pool {
        Pool { pool, undone: Some(Arc::default()) }
    }

    /// Whether its statements go to a lease's connection.
    pub(crate) fn is_leased(&self) -> bool {
        self.pool.is_leased()
    }

    /// Whose session its statements run in.
    #[inline]
    pub(crate) fn session(&self) -> Session {
        if self.is_leased() { Session::Leased } else { Session::Shared }
    }

    /// What these are here. A lease may have set its session to read a text in either way.
    fn effect(&self, effects: &Effects) -> Effect {
        effects.of(if self.is_leased() { Backslashes::EITHER } else { self.language().backslashes() })
    }

    /// The same as [`admit`](Pool::admit) for a text that was not looked at yet.
    pub(crate) async fn admit_text(&self, sql: &str) -> Result<Effects, Error> {
        let effects = firewall::classify(sql);
        if effects.depend() && !self.is_leased() && !self.language().backslashes().is_known() {
            // The first log-in tells how the server reads it.
            let nothing = frontend::own_query("DO 0");
            self.run(&[], |out| {
                out.extend_from_slice(&nothing);
                Ok(())
            })
            .await?;
        }
        self.admit(&effects)?;
        Ok(effects)
    }

    /// Refuses what does not belong here, and notes what outlasts the statement.
    pub(crate) fn admit(&self, effects: &Effects) -> Result<(), Error> {
        let effect = self.effect(effects);
        let place = match self.is_leased() {
            false => Place::Shared,
            true if self.pool.expects_transaction() => Place::Transaction,
            true => Place::Lease,
        };
        effect.admit(place)?;
        // Whatever an error undid: what comes now may commit, and is not sent if nothing is left.
        self.expect_transaction();
        if effect.changes_session() {
            self.pool.changes_session(effect.outdates_prepared());
        }
        if effect.spoils_session() {
            self.pool.spoils_session();
        }
        Ok(())
    }

    /// Has names looked up by `resolver` instead of the system: for tests.
    #[doc(hidden)]
    pub fn set_resolver(&self, resolver: cenote_pool::Resolver) {
        self.pool.set_resolver(resolver);
    }

    /// A statement has run, or failed. What was prepared while it did is outdated as well.
    pub(crate) fn note_run(&self, effects: &Effects, failed: bool, reply: &[u8]) {
        let effect = self.effect(effects);
        if effect.outdates_prepared() {
            self.pool.changes_session(true);
        }
        // One that holds others may have committed before.
        if let Some(undone) = &self.undone
            && failed
            && !effect.hides_statements()
            && reply::failure(reply).is_some_and(|error| error.code().may_undo_transaction())
        {
            undone.store(true, Ordering::Relaxed);
        }
    }

    /// A transaction begins, or goes on: nothing was said yet of its being undone.
    pub(crate) fn expect_transaction(&self) {
        self.undone.iter().for_each(|undone| undone.store(false, Ordering::Relaxed));
    }

    /// Of a transaction that has ended: whether the server has rolled it back.
    pub(crate) fn is_transaction_undone(&self) -> bool {
        self.undone.as_ref().is_some_and(|undone| undone.load(Ordering::Relaxed))
    }

    pub(crate) fn language(&self) -> &MySql {
        self.pool.language()
    }

    pub(crate) fn machine(&self) -> &cenote_pool::Pool<MySql> {
        &self.pool
    }

    pub(crate) fn run<'a>(
        &'a self,
        preparations: &'a [&'a Preparation],
        encode: impl Fn(&mut BytesMut) -> Result<(), Error> + Send + Sync + 'a,
    ) -> impl Future<Output = Result<Answered<MySql>, Error>> + Send + 'a {
        self.pool.run(preparations, encode)
    }
}
