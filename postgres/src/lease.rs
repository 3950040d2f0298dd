//! `Lease`: a connection for one caller alone, for what needs a session of its own.

use std::fmt;
use std::future::Future;
use std::panic::Location;

use crate::error::Error;
use crate::language::Postgres;
use crate::pool::Pool;
use crate::transaction::{Transaction, TransactionOptions};
use crate::verbs::verbs;

/// A connection that nobody else uses until it is dropped: for `SET`, temporary tables, advisory locks, cursors,
/// or a transaction after another.
///
/// Statements are pipelined as those of a [`Pool`], and run in the order in which they were first polled. Dropped, it goes
/// back to the pool: at once when no statement has changed the session, else when an open transaction has been rolled back
/// and the session reset. What a function does behind its name is not seen: it is not reset for that alone. What still runs is then cancelled, and the connection is closed if it does not end within 5 s.
///
/// ```no_run
/// # async fn example(pool: cenote_postgres::Pool) -> Result<(), cenote_postgres::Error> {
/// let lease = pool.lease().await?;
/// lease.execute("set work_mem = '256MB'", &[]).await?;
/// let rows = lease.query("select * from report order by size", &[]).await?;
/// # Ok(())
/// # } // the connection goes back, with its own work_mem
/// ```
pub struct Lease {
    session: Pool,
    lease: cenote_pool::Lease<Postgres>,
}

impl Pool {
    /// A connection for the caller alone: an idle one at once, without a round trip, else the first that can be had.
    /// Callers are served in turn.
    ///
    /// Of several connections one always stays with those who share: so an ordinary query of somebody who holds a lease
    /// does not wait for himself.
    ///
    /// # Errors
    ///
    /// A timeout after the settings' `acquire_timeout`, which says who holds the leases; a refused log-in; a closed pool.
    #[track_caller]
    pub fn lease(&self) -> impl Future<Output = Result<Lease, Error>> + Send + use<> {
        self.lease_at(Location::caller())
    }

    pub(crate) fn lease_at(
        &self,
        location: &'static Location<'static>,
    ) -> impl Future<Output = Result<Lease, Error>> + Send + use<> {
        let lease = self.machine().lease(location);
        async move {
            let lease = lease.await?;
            Ok(Lease { session: Pool::of_lease(lease.pool().clone()), lease })
        }
    }
}

impl Lease {
    verbs!();

    pub(crate) fn session(&self) -> &Pool {
        &self.session
    }

    pub(crate) fn machine(&self) -> &cenote_pool::Lease<Postgres> {
        &self.lease
    }

    /// Begins a transaction on this connection: see [`Pool::begin`]. No round trip: it begins with its first statement.
    ///
    /// Where a transaction is open already (one begun by a statement, or a [`Transaction`] that was leaked) it cannot: its
    /// statements and its commit are errors that say so.
    pub fn begin(&mut self) -> Transaction<'_> {
        self.begin_with(TransactionOptions::new())
    }

    /// The same, of a certain kind.
    pub fn begin_with(&mut self, options: TransactionOptions) -> Transaction<'_> {
        Transaction::on_lent(self, options)
    }

    /// What stops the statement that runs on this connection: it may be used while another task or future waits for that.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # async fn example(pool: cenote_postgres::Pool) -> Result<(), cenote_postgres::Error> {
    /// let lease = pool.lease().await?;
    /// let canceller = lease.canceller();
    /// let report = lease.query("select * from slow_report()", &[]);
    /// tokio::select! {
    ///     rows = report => drop(rows?),
    ///     () = tokio::time::sleep(Duration::from_secs(10)) => drop(canceller.cancel().await?),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn canceller(&self) -> Canceller {
        Canceller(self.lease.canceller())
    }

    /// Whether the server says that a transaction is open.
    pub fn is_in_transaction(&self) -> bool {
        self.lease.is_in_transaction()
    }
}

/// Stops what runs on one [`Lease`] or in one [`Transaction`]. Kept beyond that it does nothing.
#[derive(Clone, Debug)]
pub struct Canceller(cenote_pool::Canceller<Postgres>);

impl Canceller {
    /// Asks the server to stop what runs, and waits until it has heard of it: the statement then ends with the error
    /// `57014`, if it was not done before. `false`: there was nothing to stop.
    ///
    /// Dropping the future does not take the request back. It goes over a connection of its own, with TLS as the settings
    /// ask. While one is under way, who asks for another shares it.
    ///
    /// # Errors
    ///
    /// When the server could not be told.
    pub async fn cancel(&self) -> Result<bool, Error> {
        Ok(self.0.cancel().await?)
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lease.fmt(f)
    }
}
