//! What a soak asks of a database: some work on accounts, and a look at the server from outside. One implementation for
//! each driver; who works when, and what is checked, is not here.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use cenote_pool::PoolStats;

/// Accounts, numbered from 1.
pub(crate) const ACCOUNTS: i64 = 500;

/// What each has at first.
pub(crate) const BALANCE: i64 = 1_000;

/// Money that goes from one account to another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transfer {
    /// Never used twice.
    pub(crate) id: i64,
    pub(crate) from: i64,
    pub(crate) to: i64,
    pub(crate) amount: i64,
    pub(crate) ending: Ending,
}

/// How a transaction ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Commit,
    Rollback,
    /// Dropped without a word.
    Drop,
}

/// Whose fault a failure is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The network's or the server's: what a soak does on purpose.
    Provoked,
    /// Nobody's who is known.
    Unexpected,
}

/// Why a call failed, and whether what it asked for may have happened all the same.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) fault: Fault,
    pub(crate) may_have_happened: bool,
    pub(crate) text: String,
}

impl Failure {
    /// Of a statement that was to be undone anyway, or whose transaction was not committed yet.
    pub(crate) fn without_effect(self) -> Failure {
        Failure { may_have_happened: false, ..self }
    }

    /// What should not have come out.
    pub(crate) fn wrong(text: String) -> Failure {
        Failure { fault: Fault::Unexpected, may_have_happened: true, text }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Makes a [`Failure`] of either driver's error; a server's error is provoked when it has one of these codes.
macro_rules! failure {
    ($error:expr, $provoked:expr) => {{
        let error = $error;
        let provoked = match error.code() {
            Some(code) => $provoked(code),
            None => (error.is_network() || error.is_timeout()) && !error.is_peer(),
        };
        $crate::soak::bank::Failure {
            fault: if provoked { $crate::soak::bank::Fault::Provoked } else { $crate::soak::bank::Fault::Unexpected },
            may_have_happened: error.was_sent() == Some(true),
            text: error.to_string(),
        }
    }};
}
pub(crate) use failure;

/// One pool, and the database behind it. Clones share the pool.
pub(crate) trait Bank: Clone + Send + Sync + 'static {
    /// A number makes the round trip, with an account's balance. Gives the number that came back.
    fn look_up(&self, tag: i64, account: i64) -> impl Future<Output = Result<i64, Failure>> + Send;

    /// The money moves in one statement.
    fn transfer_at_once(&self, transfer: Transfer) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Whether such a transfer leaves its id in the ledger.
    const AT_ONCE_HAS_ID: bool;

    /// The money moves in a transaction.
    fn transfer(&self, transfer: Transfer) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Takes a connection alone, makes a mess of its session, and gives it back as it is.
    fn mess(&self, number: i64) -> impl Future<Output = Result<(), Failure>> + Send;

    /// A statement that takes a while.
    fn dawdle(&self, time: Duration) -> impl Future<Output = Result<(), Failure>> + Send;

    /// The pool's counters.
    fn stats(&self) -> PoolStats;

    /// Closes the pool.
    fn close(&self) -> impl Future<Output = ()> + Send;
}

/// An administrator's connection; all it does may fail, since the server comes and goes.
pub(crate) trait Overseer: Sized + Send {
    /// Connects to the server at `url`, to look after the pool whose sessions have this name.
    fn connect(url: &str, pool_name: &str) -> impl Future<Output = Result<Self, String>> + Send;

    /// The pool's sessions, by number.
    fn sessions(&mut self) -> impl Future<Output = Result<Vec<i64>, String>> + Send;

    /// Ends one.
    fn end_session(&mut self, number: i64) -> impl Future<Output = Result<(), String>> + Send;

    /// Locks and open transactions of the pool's sessions, each in words.
    fn held(&mut self) -> impl Future<Output = Result<Vec<String>, String>> + Send;

    /// All the money there is.
    fn money(&mut self) -> impl Future<Output = Result<i64, String>> + Send;

    /// The ids in the ledger, in order, as often as they are there.
    fn ledger(&mut self) -> impl Future<Output = Result<Vec<i64>, String>> + Send;
}
