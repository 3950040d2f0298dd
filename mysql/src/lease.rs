//! `Lease`: a connection for one caller alone, for what needs a session of its own.

use std::fmt;
use std::future::Future;
use std::panic::Location;

use crate::error::Error;
use crate::language::MySql;
use crate::pool::Pool;
use crate::transaction::{Transaction, TransactionOptions};
use crate::verbs::verbs;

/// A connection that nobody else uses until it is dropped: for `SET`, user variables, temporary tables, `GET_LOCK`, `LOCK
/// TABLES`, stored procedures, or a transaction after another.
///
/// Statements are pipelined as those of a [`Pool`], and run in the order in which they were first polled. Dropped, it goes
/// back to the pool: at once when the session is as it was, else when an open transaction has been rolled back and the
/// session reset. What still runs is then stopped, and the connection is closed if it does not end within 5 s. It is closed as
/// well behind what no reset undoes: `SET ROLE`, and `USE` where the settings name no database.
///
/// Whether the session is as it was is told by the statements that ran on it. What a stored function or a trigger did to it
/// is not seen.
///
/// ```no_run
/// # async fn example(pool: cenote_mysql::Pool) -> Result<(), cenote_mysql::Error> {
/// let lease = pool.lease().await?;
/// lease.execute("set sort_buffer_size = 64 << 20", &[]).await?;
/// let rows = lease.query("select * from report order by size", &[]).await?;
/// # Ok(())
/// # } // the connection goes back, with the server's own sort_buffer_size
/// ```
pub struct Lease {
    session: Pool,
    lease: cenote_pool::Lease<MySql>,
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

    pub(crate) fn machine(&self) -> &cenote_pool::Lease<MySql> {
        &self.lease
    }

    /// Begins a transaction on this connection: see [`Pool::begin`]. No round trip: it begins with its first statement.
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
    /// # async fn example(pool: cenote_mysql::Pool) -> Result<(), cenote_mysql::Error> {
    /// let lease = pool.lease().await?;
    /// let canceller = lease.canceller();
    /// let report = lease.query("call slow_report()", &[]);
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

    /// Whether the server says that a transaction is open, or that autocommit is off.
    pub fn is_in_transaction(&self) -> bool {
        self.lease.is_in_transaction()
    }
}

/// Stops what runs on one [`Lease`] or in one [`Transaction`]. Kept beyond that it does nothing.
#[derive(Clone, Debug)]
pub struct Canceller(cenote_pool::Canceller<MySql>);

impl Canceller {
    /// Asks the server to stop what runs (`KILL QUERY`), and waits until it has heard of it: the statement then ends with the
    /// error `1317`, if it was not done before, or with less than its whole result where the server calls that a success
    /// (`SLEEP` does). `false`: there was nothing to stop, or it cannot be stopped: where the settings name several hosts,
    /// another connection may be with another server, which knows other sessions by the same numbers.
    ///
    /// Dropping the future does not take the request back. It goes over another connection of the pool. While one is under
    /// way, who asks for another shares it.
    ///
    /// # Errors
    ///
    /// When the server could not be told; the server's own, when it refuses.
    pub async fn cancel(&self) -> Result<bool, Error> {
        Ok(self.0.cancel().await?)
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lease.fmt(f)
    }
}
