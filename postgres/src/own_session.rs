//! `OwnSession`: what the statements of one lease know in common of its session. No I/O.
//!
//! ```text
//!  first use of a text   Parse s7 | Describe s7     the name is given here
//!  others meanwhile                 Describe s7     the same name: the Parse is before them in the same stream
//! ```
//!
//! It does not know what a text means: each of those who use it first hears that for himself, so nobody waits for anybody.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use cenote_pool::StatementId;
use postgres_types::Oid;

use crate::server_error::{ServerError, SqlState};

/// A text, with the types that its caller names.
type Text = (Box<str>, Box<[Oid]>);

/// Of one lease.
#[derive(Debug, Default)]
pub(crate) struct OwnSession {
    first_uses: Mutex<HashMap<Text, FirstUse>>,
    /// The last error of a statement, as somebody has read it: behind it the server says no more than that it refuses.
    failed_by: Mutex<Option<ServerError>>,
}

/// A text that is being learned.
#[derive(Debug)]
struct FirstUse {
    id: StatementId,
    /// By so many.
    users: usize,
}

/// A name for a text, for as long as it is being learned.
pub(crate) struct Naming<'a> {
    session: &'a OwnSession,
    text: Text,
    pub(crate) id: StatementId,
    /// Somebody else has asked the server to prepare it.
    pub(crate) follows: bool,
}

impl OwnSession {
    /// The name that this text has while it is being learned: `next_id` for the first.
    pub(crate) fn name(&self, sql: &str, types: Vec<Oid>, next_id: impl FnOnce() -> StatementId) -> Naming<'_> {
        let text: Text = (sql.into(), types.into());
        let mut first_uses = self.first_uses();
        let first_use = first_uses.entry(text.clone()).or_insert_with(|| FirstUse { id: next_id(), users: 0 });
        let follows = first_use.users > 0;
        first_use.users += 1;
        Naming { session: self, text, id: first_use.id, follows }
    }

    /// Texts may mean something else from here on: nobody follows those who came before.
    pub(crate) fn change_names(&self) {
        self.first_uses().clear();
    }

    /// A statement's caller has read of this error.
    pub(crate) fn note_failure(&self, error: &ServerError) {
        if error.code() != SqlState::IN_FAILED_SQL_TRANSACTION {
            *self.failed_by() = Some(error.clone());
        }
    }

    /// What failed before is of no account any more.
    pub(crate) fn forget_failure(&self) {
        *self.failed_by() = None;
    }

    /// By what a transaction that has failed has failed. `None`: whoever was to read of it has vanished.
    pub(crate) fn failure(&self) -> Option<ServerError> {
        self.failed_by().clone()
    }

    fn failed_by(&self) -> MutexGuard<'_, Option<ServerError>> {
        self.failed_by.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn first_uses(&self) -> MutexGuard<'_, HashMap<Text, FirstUse>> {
        self.first_uses.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Naming<'_> {
    fn drop(&mut self) {
        let mut first_uses = self.session.first_uses();
        // Perhaps another one has come in its place.
        let Some(first_use) = first_uses.get_mut(&self.text).filter(|first_use| first_use.id == self.id) else {
            return;
        };
        first_use.users -= 1;
        if first_use.users == 0 {
            first_uses.remove(&self.text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_who_come_meanwhile_follow() {
        let session = OwnSession::default();
        let name = |types: &[Oid], number| session.name("select $1", types.to_vec(), || StatementId(number));
        let first = name(&[], 1);
        let second = name(&[], 2);
        assert_eq!((first.id, first.follows, second.id, second.follows), (StatementId(1), false, StatementId(1), true));
        assert!(!name(&[23], 3).follows, "of other types it is another one");
        drop(first);
        assert!(name(&[], 4).follows, "one is left");
        session.change_names();
        let other = name(&[], 5);
        drop(second);
        assert_eq!((other.id, name(&[], 6).id), (StatementId(5), StatementId(5)), "none of the others is its user");
        drop(other);
        assert!(session.first_uses().is_empty());
    }
}
