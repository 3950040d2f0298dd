//! `Transaction`: statements that happen all or not at all, on a connection of their own.

use std::fmt;
use std::future::{Future, poll_fn};
use std::panic::Location;

use arc_swap::ArcSwapOption;
use bytes::BytesMut;
use cenote_pool::Flight;

use crate::error::Error;
use crate::lease::{Canceller, Lease};
use crate::pool::Pool;
use crate::reply::{self, Session};
use crate::verbs::verbs;
use crate::wire::frontend;

const ROLLBACK: &str = "ROLLBACK";

/// How far a transaction is kept apart from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum IsolationLevel {
    /// Each statement may see what was never committed.
    ReadUncommitted,
    /// Each statement sees what was committed before it began.
    ReadCommitted,
    /// All statements see what was committed before the first; what they change or lock is as it is now. The server's
    /// default.
    RepeatableRead,
    /// As if transactions ran one after the other: what is read is locked until the end.
    Serializable,
}

/// What kind of transaction: what is not said is as the server's settings are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransactionOptions {
    isolation_level: Option<IsolationLevel>,
    read_only: Option<bool>,
    consistent_snapshot: bool,
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

    /// Whether it may not write.
    #[must_use]
    pub fn read_only(mut self, read_only: bool) -> TransactionOptions {
        self.read_only = Some(read_only);
        self
    }

    /// Whether what a repeatable read sees is fixed when it begins, not with its first query.
    #[must_use]
    pub fn consistent_snapshot(mut self, consistent_snapshot: bool) -> TransactionOptions {
        self.consistent_snapshot = consistent_snapshot;
        self
    }

    /// What begins it.
    fn statements(self) -> Vec<String> {
        let level = self.isolation_level.map(|level| match level {
            IsolationLevel::ReadUncommitted => "READ UNCOMMITTED",
            IsolationLevel::ReadCommitted => "READ COMMITTED",
            IsolationLevel::RepeatableRead => "REPEATABLE READ",
            IsolationLevel::Serializable => "SERIALIZABLE",
        });
        // It holds for the next transaction alone.
        let level = level.map(|level| format!("SET TRANSACTION ISOLATION LEVEL {level}"));
        let access = self.read_only.map(|read_only| if read_only { "READ ONLY" } else { "READ WRITE" });
        let snapshot = self.consistent_snapshot.then_some("WITH CONSISTENT SNAPSHOT");
        let kinds: Vec<&str> = [snapshot, access].into_iter().flatten().collect();
        let start = format!("START TRANSACTION {}", kinds.join(", "));
        level.into_iter().chain([start.trim_end().to_owned()]).collect()
    }
}

/// A transaction, or a savepoint within one. Dropped without a word it is rolled back.
///
/// It begins on the server with its first statement, in the same round trip. If it cannot begin, that statement fails with
/// the server's reason, but may have run outside of it; the transaction takes no other.
///
/// Its statements are sent one at a time: where one ends the transaction (a deadlock does), the server would run those
/// behind it by themselves, and what they did would stay. Once the server has ended the transaction, it takes nothing more
/// and cannot be committed. A statement that fails otherwise has not happened, and the transaction goes on.
///
/// Statements that would commit it (`CREATE`, `ALTER`, `DROP`, `TRUNCATE`, ...) are refused; those about temporary tables
/// are not. A procedure may commit it all the same, which is noticed behind it: neither `commit` nor `rollback` is then
/// `Ok`. (Not noticed is a procedure that commits and begins another transaction.)
///
/// ```no_run
/// # async fn example(pool: cenote_mysql::Pool) -> Result<(), cenote_mysql::Error> {
/// let transfer = pool.begin().await?;
/// transfer.execute("update account set balance = balance - ? where id = ?", &[&100, &1]).await?;
/// transfer.execute("update account set balance = balance + ? where id = ?", &[&100, &2]).await?;
/// transfer.commit().await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "a transaction that is dropped is rolled back"]
pub struct Transaction<'a> {
    held: Held<'a>,
    /// How many savepoints deep it is; 0 is the transaction itself.
    depth: u32,
    /// The server has heard of it, which was asked when it was to be rolled back.
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
    /// Begins a transaction, on a connection of its own. No round trip on an idle pool: `START TRANSACTION` travels with
    /// the first statement.
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
    /// # use cenote_mysql::{IsolationLevel, TransactionOptions};
    /// # async fn example(pool: cenote_mysql::Pool) -> Result<(), cenote_mysql::Error> {
    /// let options = TransactionOptions::new().isolation_level(IsolationLevel::ReadCommitted).read_only(true);
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
    lease.session().expect_transaction();
    let lead = options.statements().into_iter().map(|statement| frontend::own_query(&statement).into());
    lease.machine().begin(lead.collect(), true);
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
    /// When the server had ended the transaction before ([`Error::is_transaction_lost`]), by rolling it back or by committing
    /// it, which the error says; or refuses: nothing was done then. When the connection was lost after the commit was sent
    /// ([`Error::was_sent`]), it is unknown whether it happened.
    pub async fn commit(mut self) -> Result<(), Error> {
        if self.depth > 0 {
            let release = format!("RELEASE SAVEPOINT {}", self.savepoint_name());
            return self.end_by(&release).await;
        }
        if !self.lease().machine().has_begun() {
            // Whatever was to be done could not even be sent if the connection is gone.
            return self.lease().machine().loss().map_or(Ok(()), |failure| Err(failure.into()));
        }
        // It waits for what is in flight, and is not sent if the server has ended the transaction with that.
        self.end_by("COMMIT").await
    }

    /// Undoes what was done. The same happens when it is dropped; here one hears of it.
    ///
    /// # Errors
    ///
    /// When the transaction had ended before, and not by the server's rolling it back ([`Error::is_transaction_lost`]): what ran
    /// in it is committed, and stays. When the connection was lost; it is rolled back then, too.
    pub async fn rollback(mut self) -> Result<(), Error> {
        if self.depth > 0 {
            let name = self.savepoint_name();
            self.end_by(&format!("ROLLBACK TO SAVEPOINT {name}")).await?;
            let machine = self.lease().machine();
            // Not needed, as the name may be used again; where it would stand in the way of others it is left out.
            if machine.in_flight_max() > 1 {
                machine.send_unheard(&frontend::own_query(&format!("RELEASE SAVEPOINT {name}")));
            }
            return Ok(());
        }
        if !self.lease().machine().has_begun() {
            self.lease().machine().end();
            self.ended = true;
            return Ok(());
        }
        // It waits for what is in flight, which may end the transaction.
        let outcome = self.end_by(ROLLBACK).await;
        let Err(error) = outcome.as_ref().map_err(Error::clone) else { return outcome };
        if !error.is_transaction_lost() {
            return outcome;
        }
        let undoes = self.session().is_transaction_undone() || self.lease().machine().is_in_transaction();
        // Sent all the same, for whatever there is.
        self.begun = self.lease().machine().end();
        self.end_by(ROLLBACK).await?;
        if undoes { Ok(()) } else { Err(error) }
    }

    /// A savepoint: what is done through it can be undone by itself. Takes a round trip.
    ///
    /// ```no_run
    /// # async fn example(pool: cenote_mysql::Pool) -> Result<(), cenote_mysql::Error> {
    /// let mut tx = pool.begin().await?;
    /// let savepoint = tx.savepoint().await?;
    /// match savepoint.execute("insert into tag(name) values (?)", &[&"new"]).await {
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
    /// When the server has ended the transaction.
    pub async fn savepoint(&mut self) -> Result<Transaction<'_>, Error> {
        let mut nested =
            Transaction { held: Held::Lent(self.lease()), depth: self.depth + 1, begun: false, ended: true };
        let statement = format!("SAVEPOINT {}", nested.savepoint_name());
        // From the moment on that it is queued its drop undoes it.
        let made = control(self.session(), &statement, || nested.ended = false).await;
        if let Err(error) = made {
            nested.ended = true;
            return Err(error);
        }
        Ok(nested)
    }

    /// One that is made anew takes the place of the last of the same name.
    fn savepoint_name(&self) -> String {
        format!("cenote_{}", self.depth)
    }

    /// Ends it by this statement. Until that is queued its drop undoes it as ever.
    async fn end_by(&mut self, statement: &str) -> Result<(), Error> {
        let lease = match &self.held {
            Held::Owned(lease) => lease,
            Held::Lent(lease) => lease,
        };
        let (depth, ended) = (self.depth, &mut self.ended);
        let queued = || {
            if depth == 0 && !*ended {
                lease.machine().end();
            }
            *ended = true;
        };
        let outcome = control(lease.session(), statement, queued).await;
        if let (Err(_), Held::Lent(lease), 0, true) = (&outcome, &self.held, self.depth, self.ended) {
            // A commit that fails may leave it open.
            lease.machine().send_unheard(&frontend::own_query(ROLLBACK));
        }
        match outcome {
            Err(error) if error.is_transaction_lost() && !lease.session().is_transaction_undone() => {
                Err(Error::ended_before())
            }
            outcome => outcome,
        }
    }
}

/// Runs a statement about a transaction. `queued` hears, perhaps more than once, when nothing can take it back.
async fn control(session: &Pool, statement: &str, mut queued: impl FnMut() + Send) -> Result<(), Error> {
    let message = frontend::own_query(statement);
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
    reply::completion(&answered.reply, &ArcSwapOption::empty(), Session::Leased).map(|_| ())
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
            let undo = format!("ROLLBACK TO SAVEPOINT {}", self.savepoint_name());
            lease.machine().send_unheard(&frontend::own_query(&undo));
        } else if lease.machine().end() || self.begun {
            lease.machine().send_unheard(&frontend::own_query(ROLLBACK));
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
        assert_eq!(TransactionOptions::new().statements(), ["START TRANSACTION"]);
        let options = TransactionOptions::new().isolation_level(IsolationLevel::ReadUncommitted).read_only(false);
        let level = "SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED";
        assert_eq!(options.statements(), [level, "START TRANSACTION READ WRITE"]);
        let options = TransactionOptions::new().read_only(true).consistent_snapshot(true);
        assert_eq!(options.statements(), ["START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY"]);
    }
}
