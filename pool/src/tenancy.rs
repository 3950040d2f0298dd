//! Who may submit to a lane, and where a lease stands with its session. No I/O, no clock.

use std::collections::VecDeque;
use std::task::Waker;

use crate::cancel::CancelOutcome;
use crate::limits::LEASE_WAITERS_MAX;
use crate::pipeline::{Refusal, SlotKey};

/// Undoings that wait for their turn: one for each savepoint that was dropped at once, and one for the transaction.
const OWED_MAX: usize = 64;

/// Who may submit to a lane: everybody, or one lease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tenant(pub(crate) u64);

impl Tenant {
    /// Everybody.
    pub(crate) const PUBLIC: Tenant = Tenant(0);
}

/// The state of a lease, behind its lane's lock.
#[derive(Debug)]
pub(crate) struct Tenancy {
    pub(crate) tenant: Tenant,
    /// The lease was dropped: handles of it that are still there queue nothing any more.
    pub(crate) ended: bool,
    /// What goes in front of the next statement, and is answered before it.
    lead: Vec<Box<[u8]>>,
    /// A part of the lead was queued and the rest was not: it is meant for the transaction that comes next.
    lead_is_torn: bool,
    /// The replies that are owed to the lead, where it has its own.
    pub(crate) lead_keys: Vec<SlotKey>,
    /// A transaction was asked for and not ended since; whether its beginning was queued.
    transaction: Option<Begun>,
    /// No statement is queued before the last one is answered.
    pub(crate) one_at_a_time: bool,
    /// Replies until it is known whether the transaction has begun.
    awaited: usize,
    /// What undoes something, and is sent when nothing else is in flight.
    owed: VecDeque<Box<[u8]>>,
    /// The server's last word: no transaction is open.
    pub(crate) settled: bool,
    /// Something was done to the session that may outlast the lease.
    pub(crate) changed: bool,
    /// Something of that no reset undoes: the connection is closed.
    pub(crate) spoiled: bool,
    /// The same as to prepared statements: the server may have others than we know.
    pub(crate) prepared_changed: bool,
    /// The transaction was begun for reading alone.
    pub(crate) read_only: bool,
    /// The server was asked for that, and its answer is the next.
    pub(crate) asked: bool,
    /// A request to stop what runs is under way, that the server may not have heard of yet: what comes of it.
    pub(crate) cancel: Option<CancelOutcome>,
    /// Another was asked for since.
    pub(crate) cancel_again: bool,
    /// Something may still hit whatever runs: one more round trip before anybody else does.
    pub(crate) disturbed: bool,
    /// The last that was queued, or is about to be, ends the transaction: it is not to be stopped.
    pub(crate) ending: bool,
    /// What should have been undone could not be: nothing more of the transaction is taken.
    lost: bool,
    /// The transaction was to begin where another one is open: nothing of it is taken, and nothing of it ends that.
    pub(crate) occupied: bool,
    /// Whom to wake when there is room.
    room: Vec<Waker>,
}

/// Whether the beginning of a transaction was queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begun {
    NotYet,
    Queued,
    /// It came to nothing, or to something else.
    Failed,
}

impl Default for Tenancy {
    fn default() -> Tenancy {
        Tenancy::new(Tenant::PUBLIC)
    }
}

impl Tenancy {
    pub(crate) fn new(tenant: Tenant) -> Tenancy {
        Tenancy {
            tenant,
            ended: false,
            lead: Vec::new(),
            lead_is_torn: false,
            lead_keys: Vec::new(),
            transaction: None,
            one_at_a_time: false,
            awaited: 0,
            owed: VecDeque::new(),
            settled: true,
            changed: false,
            spoiled: false,
            prepared_changed: false,
            read_only: false,
            asked: false,
            cancel: None,
            cancel_again: false,
            disturbed: false,
            ending: false,
            lost: false,
            occupied: false,
            room: Vec::new(),
        }
    }

    /// A transaction begins in front of the next statement; not if the last one was never ended, or could not be, or one was
    /// begun by a statement of its own: it would be the same one to the server, or would end that.
    pub(crate) fn begin(&mut self, lead: Vec<Box<[u8]>>, one_at_a_time: bool, in_flight: usize) {
        self.occupied = self.has_begun() || (in_flight == 0 && !self.settled);
        self.drop_lead();
        self.lead = lead;
        self.ending = false;
        self.transaction = Some(Begun::NotYet);
        // What is in flight may be of one that could only read.
        self.read_only &= in_flight > 0;
        self.one_at_a_time = one_at_a_time;
    }

    /// Whether what the server says of writes is its own word: nobody has asked for a session or a transaction that may
    /// only read.
    pub(crate) fn hears_the_server(&self) -> bool {
        !self.changed && !self.read_only
    }

    /// The lead, once: it is being queued.
    pub(crate) fn take_lead(&mut self) -> Vec<Box<[u8]>> {
        if !self.lead.is_empty() {
            self.transaction = Some(Begun::Queued);
        }
        self.lead_is_torn = false;
        std::mem::take(&mut self.lead)
    }

    /// The beginning of the transaction is queued behind so many statements, with what it leads.
    pub(crate) fn await_beginning(&mut self, in_flight: usize) {
        self.awaited = in_flight + 1;
    }

    /// So many statements were answered.
    pub(crate) fn answered(&mut self, count: usize, settled: bool) {
        self.awaited = self.awaited.saturating_sub(count);
        self.settled = settled;
    }

    /// Whether nothing more is queued before something has happened: behind the beginning of a transaction that fails the
    /// server would run it outside of any, and a request to stop a statement must not hit the next one.
    pub(crate) fn keeps_back(&self, in_flight: usize) -> bool {
        self.cancel.is_some() || (in_flight > 0 && (self.one_at_a_time || self.awaited > 0))
    }

    /// How much of the lead is not queued yet.
    pub(crate) fn lead_parts(&self) -> usize {
        self.lead.len()
    }

    /// The next part of the lead, once: it is being queued.
    pub(crate) fn take_lead_part(&mut self) -> Option<Box<[u8]>> {
        if self.lead.is_empty() {
            return None;
        }
        let part = self.lead.remove(0);
        self.lead_is_torn = !self.lead.is_empty();
        if self.lead.is_empty() {
            self.transaction = Some(Begun::Queued);
        }
        Some(part)
    }

    fn drop_lead(&mut self) {
        self.lead = Vec::new();
        self.changed |= std::mem::take(&mut self.lead_is_torn);
    }

    /// What was to begin the transaction has failed, or nobody knows where it stands: nothing more of it is taken. What did
    /// not fail of its beginning may be meant for the next one.
    pub(crate) fn fail_transaction(&mut self) {
        self.changed = true;
        self.drop_lead();
        if self.transaction.is_some() {
            self.transaction = Some(Begun::Failed);
        }
    }

    /// The transaction is over for whoever asked for it, who commits or rolls back whatever there is. Whether the server
    /// has heard of it at all.
    pub(crate) fn end(&mut self) -> bool {
        self.ending = true;
        self.lost = false;
        self.occupied = false;
        self.one_at_a_time = false;
        self.drop_lead();
        matches!(self.transaction.take(), Some(Begun::Queued | Begun::Failed))
    }

    /// Whether the beginning of a transaction was queued, and nobody has ended it since.
    pub(crate) fn has_begun(&self) -> bool {
        matches!(self.transaction, Some(Begun::Queued | Begun::Failed))
    }

    /// Whether a transaction was asked for and not ended since.
    pub(crate) fn expects_transaction(&self) -> bool {
        self.transaction.is_some()
    }

    /// Whether the server has ended the transaction by itself: what comes now would stay whatever happens to the rest.
    pub(crate) fn has_lost_its_transaction(&self, in_flight: usize) -> bool {
        self.lost
            || self.occupied
            || match self.transaction {
                Some(Begun::Failed) => true,
                Some(Begun::Queued) => in_flight == 0 && self.settled,
                Some(Begun::NotYet) | None => false,
            }
    }

    /// Keeps what undoes something until nothing else is in flight. Past the limit nothing more of the transaction is taken.
    pub(crate) fn owe(&mut self, message: &[u8]) {
        if self.owed.len() < OWED_MAX {
            self.owed.push_back(message.into());
        } else {
            self.lost = true;
        }
    }

    /// What is to be sent next, before anything of the tenant's own.
    pub(crate) fn take_owed(&mut self) -> Option<Box<[u8]>> {
        self.owed.pop_front()
    }

    /// Nothing of it is left on the server.
    pub(crate) fn is_clean(&self) -> bool {
        self.settled && !self.changed && !self.disturbed
    }

    /// Keeps whom to wake when there is room.
    pub(crate) fn wait_for_room(&mut self, waker: &Waker) -> Result<(), Refusal> {
        if self.room.last().is_some_and(|last| last.will_wake(waker)) {
            return Ok(());
        }
        if self.room.len() >= LEASE_WAITERS_MAX {
            return Err(Refusal::Crowded);
        }
        self.room.push(waker.clone());
        Ok(())
    }

    /// There may be room now.
    pub(crate) fn wake_for_room(&mut self, wake: &mut Vec<Waker>) {
        wake.append(&mut self.room);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_that_the_server_ended_is_noticed_before_the_next_statement() {
        let mut tenancy = Tenancy::new(Tenant(1));
        tenancy.begin(vec![b"begin"[..].into()], false, 0);
        assert!(!tenancy.has_lost_its_transaction(0), "it has not begun");
        assert_eq!(tenancy.take_lead(), [b"begin"[..].into()]);
        assert!(!tenancy.has_lost_its_transaction(1), "its beginning is not answered yet");
        tenancy.settled = false;
        assert!(!tenancy.has_lost_its_transaction(0));
        tenancy.settled = true;
        assert!(tenancy.has_lost_its_transaction(0));
        assert!(tenancy.end(), "the server has heard of it");
        assert!(!tenancy.has_lost_its_transaction(0));
    }

    #[test]
    fn what_is_owed_is_sent_in_order_and_is_bounded() {
        let mut tenancy = Tenancy::new(Tenant(1));
        tenancy.owe(b"inner");
        tenancy.owe(b"outer");
        assert_eq!((tenancy.take_owed(), tenancy.take_owed()), (Some(b"inner"[..].into()), Some(b"outer"[..].into())));
        assert_eq!(tenancy.take_owed(), None);
        for _ in 0..OWED_MAX {
            tenancy.owe(b"undo");
        }
        assert!(!tenancy.has_lost_its_transaction(1));
        tenancy.owe(b"undo");
        assert!(tenancy.has_lost_its_transaction(1));
    }

    #[test]
    fn what_could_not_be_undone_is_nobody_elses_transaction() {
        let mut tenancy = Tenancy::new(Tenant(1));
        tenancy.begin(vec![b"begin"[..].into()], false, 0);
        tenancy.take_lead();
        tenancy.settled = false;
        tenancy.lost = true;
        assert!(tenancy.end(), "it may be rolled back");
        assert!(!tenancy.has_lost_its_transaction(0));
        tenancy.lost = true;
        tenancy.begin(vec![b"begin"[..].into()], false, 0);
        assert!(tenancy.has_lost_its_transaction(0), "the rollback could not be sent");

        let mut tenancy = Tenancy::new(Tenant(2));
        tenancy.begin(vec![b"begin"[..].into()], false, 0);
        tenancy.take_lead();
        tenancy.settled = false;
        tenancy.begin(vec![b"begin"[..].into()], false, 0);
        assert!(tenancy.has_lost_its_transaction(0) && tenancy.occupied, "the first was never ended");
        assert!(!tenancy.end() && !tenancy.occupied, "there is nothing of the second to be ended");
    }

    #[test]
    fn a_transaction_that_did_not_begin_as_asked_takes_nothing() {
        let mut tenancy = Tenancy::new(Tenant(1));
        tenancy.begin(vec![b"set"[..].into(), b"begin"[..].into()], true, 0);
        assert_eq!(tenancy.lead_parts(), 2);
        assert_eq!(tenancy.take_lead_part(), Some(b"set"[..].into()));
        assert!(!tenancy.has_begun() && tenancy.is_clean());
        tenancy.fail_transaction();
        assert!(!tenancy.is_clean(), "what was set for the next transaction is still there");
        assert!(tenancy.has_lost_its_transaction(1) && tenancy.take_lead_part().is_none());
        assert!(tenancy.end(), "whatever there is of it is rolled back");
        tenancy.begin(vec![b"begin"[..].into()], true, 0);
        assert!(!tenancy.has_lost_its_transaction(0));
        assert_eq!(tenancy.take_lead_part(), Some(b"begin"[..].into()));
        assert!(tenancy.has_begun() && tenancy.has_lost_its_transaction(0));
    }

    #[test]
    fn nothing_follows_the_beginning_of_a_transaction_before_that_is_answered() {
        let mut tenancy = Tenancy::new(Tenant(1));
        tenancy.begin(vec![b"begin"[..].into()], false, 0);
        assert!(!tenancy.keeps_back(2), "what leads is queued behind what is abandoned");
        tenancy.take_lead();
        tenancy.await_beginning(2);
        tenancy.answered(2, false);
        assert!(tenancy.keeps_back(1), "that was said of the statements before");
        tenancy.answered(1, false);
        assert!(!tenancy.keeps_back(1));
    }

    #[test]
    fn a_transaction_without_a_statement_never_was() {
        let mut tenancy = Tenancy::new(Tenant(1));
        tenancy.begin(vec![b"begin"[..].into()], true, 0);
        assert!(!tenancy.end());
        assert!(tenancy.take_lead().is_empty() && tenancy.is_clean() && !tenancy.one_at_a_time);
    }
}
