//! `Transaction`: statements that happen all or not at all, on a connection of their own.

use std::fmt;
use std::future::{Future, poll_fn};
use std::panic::Location;

use bytes::BytesMut;
use cenote_pool::Flight;

use crate::error::Error;
use crate::lease::{Canceller, Lease};
use crate::pool::Pool;
use crate::reply;
use crate::server_error::{ServerError, SqlState};
use crate::verbs::verbs;
use crate::wire::frontend;

/// How far a transaction is kept apart from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum IsolationLevel {
    /// Each statement sees what was committed before it began.
    ReadCommitted,
    /// All statements see what was committed before the first.
    RepeatableRead,
    /// As if transactions ran one after the other; one that could not have fails with `40001` and may be tried again.
    Serializable,
}

/// What kind of transaction: what is not said is as the server's settings are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransactionOptions {
    isolation_level: Option<IsolationLevel>,
    read_only: Option<bool>,
    deferrable: Option<bool>,
}

impl TransactionOptions {
    /// As the server's settings are.
    pub fn new() -> TransactionOptions {
        TransactionOptions::default()
    }

    /// How far it is kept apart from others.
    #[must_use]
    pub fn isolation_level(mut self, level: IsolationLevel) -> TransactionOptions {
        self.isolation_level = Some(level);
        self
    }

    /// Whether it may write.
    #[must_use]
    pub fn read_only(mut self, read_only: bool) -> TransactionOptions {
        self.read_only = Some(read_only);
        self
    }

    /// Whether a serializable one that only reads may wait at its begin, and then never fails for others.
    #[must_use]
    pub fn deferrable(mut self, deferrable: bool) -> TransactionOptions {
        self.deferrable = Some(deferrable);
        self
    }

    fn sql(&self) -> String {
        let level = self.isolation_level.map(|level| match level {
            IsolationLevel::ReadCommitted => "isolation level read committed",
            IsolationLevel::RepeatableRead => "isolation level repeatable read",
            IsolationLevel::Serializable => "isolation level serializable",
        });
        let access = self.read_only.map(|read_only| if read_only { "read only" } else { "read write" });
        let deferrable = self.deferrable.map(|deferrable| if deferrable { "deferrable" } else { "not deferrable" });
        let modes: Vec<&str> = [level, access, deferrable].into_iter().flatten().collect();
        format!("begin {}", modes.join(", "))
    }
}

/// A transaction, or a savepoint within one. Dropped without a word it is rolled back.
///
/// It begins on the server with its first statement, in the same round trip. One whose statement has failed takes no
/// other: roll it back, or to a savepoint made before.
///
/// ```no_run
/// # async fn example(pool: cenote_postgres::Pool) -> Result<(), cenote_postgres::Error> {
/// let transfer = pool.begin().await?;
/// transfer.execute("update account set balance = balance - $1 where id = $2", &[&100_i64, &1]).await?;
/// transfer.execute("update account set balance = balance + $1 where id = $2", &[&100_i64, &2]).await?;
/// transfer.commit().await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "a transaction that is dropped is rolled back"]
pub struct Transaction<'a> {
    held: Held<'a>,
    /// How many savepoints deep it is; 0 is the transaction itself.
    depth: u32,
    /// The server has heard of it, which was asked when it was to end.
    begun: bool,
    /// Its drop has nothing to do any more.
    ended: bool,
}

enum Held<'a> {
    /// It goes back with the transaction.
    Owned(Lease),
    /// Somebody else's, for as long as the transaction lasts.
    Lent(&'a Lease),
}

impl Pool {
    /// Begins a transaction, on a connection of its own. No round trip on an idle pool: `BEGIN` travels with the first
    /// statement.
    ///
    /// # Errors
    ///
    /// As for [`Pool::lease`].
    #[track_caller]
    pub fn begin(&self) -> impl Future<Output = Result<Transaction<'static>, Error>> + Send + use<> {
        self.begin_at(TransactionOptions::new(), Location::caller())
    }

    /// The same, of a certain kind.
    ///
    /// ```no_run
    /// # use cenote_postgres::{IsolationLevel, TransactionOptions};
    /// # async fn example(pool: cenote_postgres::Pool) -> Result<(), cenote_postgres::Error> {
    /// let options = TransactionOptions::new().isolation_level(IsolationLevel::RepeatableRead).read_only(true);
    /// let report = pool.begin_with(options).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`Pool::lease`].
    #[track_caller]
    pub fn begin_with(
        &self,
        options: TransactionOptions,
    ) -> impl Future<Output = Result<Transaction<'static>, Error>> + Send + use<> {
        self.begin_at(options, Location::caller())
    }

    fn begin_at(
        &self,
        options: TransactionOptions,
        location: &'static Location<'static>,
    ) -> impl Future<Output = Result<Transaction<'static>, Error>> + Send + use<> {
        let lease = self.lease_at(location);
        async move {
            let lease = lease.await?;
            begin(&lease, options);
            Ok(Transaction { held: Held::Owned(lease), depth: 0, begun: false, ended: false })
        }
    }
}

fn begin(lease: &Lease, options: TransactionOptions) {
    lease.session().own().inspect(|own| own.forget_failure());
    // Statements may follow each other at once: behind one that fails the server refuses the rest.
    lease.machine().begin(vec![frontend::unsynced(&options.sql()).into()], false);
    if options.read_only == Some(true) {
        lease.machine().expect_read_only();
    }
}

impl<'a> Transaction<'a> {
    verbs!();

    pub(crate) fn on_lent(lease: &'a mut Lease, options: TransactionOptions) -> Transaction<'a> {
        begin(lease, options);
        Transaction { held: Held::Lent(lease), depth: 0, begun: false, ended: false }
    }

    /// What stops the statement that runs in it: see [`Lease::canceller`].
    pub fn canceller(&self) -> Canceller {
        self.lease().canceller()
    }

    fn lease(&self) -> &Lease {
        match &self.held {
            Held::Owned(lease) => lease,
            Held::Lent(lease) => lease,
        }
    }

    fn session(&self) -> &Pool {
        self.lease().session()
    }

    /// Makes what was done permanent. In a savepoint: makes it part of what is around it.
    ///
    /// Dropping the future leaves open which of both it was: committed, or rolled back.
    ///
    /// # Errors
    ///
    /// The server's, for instance for constraints that are checked at the end; nothing was done then. Also when a
    /// statement had failed: then the server has rolled back instead, and [`Error::code`] is that statement's (unless it was
    /// dropped before it was answered). When the connection was lost after the commit was
    /// sent ([`Error::was_sent`]), it is unknown whether it happened.
    pub async fn commit(mut self) -> Result<(), Error> {
        if self.depth > 0 {
            let name = self.savepoint_name();
            let released = self.end_by(&[format!("release savepoint {name}")]).await;
            let Err(error) = released else { return Ok(()) };
            if !self.ended {
                return Err(error);
            }
            // A statement of it has failed: undone, the transaction around it goes on.
            let cause = self.take_failure();
            self.lease().machine().undoes();
            self.lease().machine().send_unheard(&frontend::synced(&self.undo()));
            let has_failed = error.code() == Some(SqlState::IN_FAILED_SQL_TRANSACTION);
            return Err(if has_failed && cause.is_some() { Error::rolled_back(cause) } else { error });
        }
        if !self.lease().machine().has_begun() {
            // Whatever was to be done could not even be sent if the connection is gone.
            return self.lease().machine().loss().map_or(Ok(()), |failure| Err(failure.into()));
        }
        // It is not sent before it is known that the transaction has begun, nor if the server has ended it.
        match self.end_by(&["commit".to_owned()]).await?.as_slice() {
            b"COMMIT" => Ok(()),
            _ => Err(Error::rolled_back(self.take_failure())),
        }
    }

    /// Undoes what was done. The same happens when it is dropped; here one hears of it.
    ///
    /// # Errors
    ///
    /// When the connection was lost; it is rolled back then, too.
    pub async fn rollback(mut self) -> Result<(), Error> {
        if self.depth > 0 {
            self.take_failure();
            self.lease().machine().undoes();
            return self.end_by(&self.undo()).await.map(|_| ());
        }
        if !self.begun() {
            return Ok(());
        }
        self.end_by(&["rollback".to_owned()]).await.map(|_| ())
    }

    /// A savepoint: what is done through it can be undone by itself. Takes a round trip.
    ///
    /// ```no_run
    /// # async fn example(pool: cenote_postgres::Pool) -> Result<(), cenote_postgres::Error> {
    /// let mut tx = pool.begin().await?;
    /// let savepoint = tx.savepoint().await?;
    /// match savepoint.execute("insert into tag(name) values ($1)", &[&"new"]).await {
    ///     Ok(_) => savepoint.commit().await?,
    ///     Err(_) => savepoint.rollback().await?, // the transaction goes on
    /// }
    /// tx.commit().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The server's, when the transaction has failed already.
    pub async fn savepoint(&mut self) -> Result<Transaction<'_>, Error> {
        let mut nested =
            Transaction { held: Held::Lent(self.lease()), depth: self.depth + 1, begun: false, ended: true };
        let statement = [format!("savepoint {}", nested.savepoint_name())];
        // From the moment on that it is queued its drop undoes it.
        let made = control(self.session(), &statement, || nested.ended = false).await;
        if let Err(error) = made {
            nested.ended = true;
            return Err(error);
        }
        Ok(nested)
    }

    fn savepoint_name(&self) -> String {
        format!("cenote_{}", self.depth)
    }

    fn undo(&self) -> [String; 2] {
        let name = self.savepoint_name();
        [format!("rollback to savepoint {name}"), format!("release savepoint {name}")]
    }

    /// By what it has failed, which is of no account for what comes next.
    fn take_failure(&self) -> Option<ServerError> {
        let own = self.session().own()?;
        let failure = own.failure();
        own.forget_failure();
        failure
    }

    /// Whether the server has heard of it; from here on it takes nothing but its end.
    fn begun(&mut self) -> bool {
        self.begun = self.lease().machine().end();
        self.ended = !self.begun;
        self.begun
    }

    /// Ends it by these statements; the last one's tag. Until they are queued its drop undoes it as ever.
    async fn end_by(&mut self, statements: &[String]) -> Result<Vec<u8>, Error> {
        let lease = match &self.held {
            Held::Owned(lease) => lease,
            Held::Lent(lease) => lease,
        };
        let (depth, begun, ended) = (self.depth, self.begun, &mut self.ended);
        let queued = || {
            if depth == 0 && !begun && !*ended {
                lease.machine().end();
            }
            *ended = true;
        };
        control(lease.session(), statements, queued).await
    }
}

/// Runs statements about a transaction in one trip; the last one's tag. `queued` hears when nothing can take them back.
async fn control(session: &Pool, statements: &[String], mut queued: impl FnMut() + Send) -> Result<Vec<u8>, Error> {
    let message = frontend::synced(statements);
    let encode = |out: &mut BytesMut| {
        out.extend_from_slice(&message);
        Ok::<(), Error>(())
    };
    let mut flight = Flight::default();
    let answered = poll_fn(|cx| {
        let polled = flight.poll(cx, session.machine(), &[], &encode);
        if flight.is_queued() {
            queued();
        }
        polled
    });
    let answered = answered.await?;
    reply::last_tag(session, &answered.reply)
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        let Held::Lent(lease) = &self.held else {
            // It goes back, and is rolled back on its way.
            return;
        };
        if self.depth > 0 {
            self.take_failure();
            lease.machine().send_unheard(&frontend::synced(&self.undo()));
        } else if self.begun || lease.machine().end() {
            lease.machine().send_unheard(&frontend::synced(&["rollback".to_owned()]));
        }
    }
}

impl fmt::Debug for Transaction<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction").field("lease", self.lease()).field("savepoints", &self.depth).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_said_is_the_servers() {
        assert_eq!(TransactionOptions::new().sql(), "begin ");
        let options = TransactionOptions::new().isolation_level(IsolationLevel::Serializable);
        assert_eq!(options.sql(), "begin isolation level serializable");
        let options = options.read_only(true).deferrable(false);
        assert_eq!(options.sql(), "begin isolation level serializable, read only, not deferrable");
    }
}
