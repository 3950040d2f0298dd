//! What the pool itself sends on a lease: what goes in front of a transaction's first statement, where the server answers it
//! by itself; what asks the server where the transaction stands, when an answer has not said so; what undoes something and
//! had to wait. No I/O, no clock.
//!
//! ```text
//!  room for all      lead, lead, statement in one write; what came of the lead is looked at with the statement
//!  no room for all   lead | lead | statement, each sent when the one before is answered
//! ```

use std::task::{Poll, Waker};

use crate::lane::Shared;
use crate::language::Language;
use crate::pipeline::{Outcome, Refusal, SlotKey};

impl Shared {
    /// What goes in front of a lease's next statement. Where it is answered by itself, it is queued here.
    pub(crate) fn take_lead<L: Language>(&mut self, now_us: impl Fn() -> u64) -> Vec<Box<[u8]>> {
        let lead = self.tenancy.take_lead();
        if lead.is_empty() {
            return lead;
        }
        self.tenancy.await_beginning(self.pipeline.depth());
        if !L::LEAD_HAS_OWN_REPLY {
            return lead;
        }
        for part in lead {
            let append = |out: &mut Vec<u8>| out.extend_from_slice(&part);
            // Its outcome is looked at with the statement's, which comes behind it.
            if let Ok(key) = self.pipeline.submit(append, Waker::noop().clone(), false, &now_us) {
                self.submitted += 1;
                self.tenancy.lead_keys.push(key);
            }
        }
        Vec::new()
    }

    /// Where there is no room for what leads a statement and for the statement behind it: queues the next part of that.
    pub(crate) fn take_long_lead<L: Language>(
        &mut self,
        in_flight_max: usize,
        waker: &Waker,
        now_us: impl Fn() -> u64,
    ) -> Result<Option<SlotKey>, Refusal> {
        if !L::LEAD_HAS_OWN_REPLY || self.tenancy.lead_parts() < in_flight_max {
            return Ok(None);
        }
        let Some(part) = self.tenancy.take_lead_part() else { return Ok(None) };
        let append = |out: &mut Vec<u8>| out.extend_from_slice(&part);
        let key = self.pipeline.submit(append, waker.clone(), false, now_us)?;
        self.submitted += 1;
        Ok(Some(key))
    }

    /// What came of the lead, where it has replies of its own and nobody has asked yet: the first that failed. Then the
    /// transaction is not the one that was asked for, if it is one at all: nothing more of it is taken.
    pub(crate) fn lead_outcome(&mut self) -> Option<Outcome> {
        let mut found = None;
        for key in std::mem::take(&mut self.tenancy.lead_keys) {
            match self.pipeline.poll(key, Waker::noop()) {
                Poll::Ready(Outcome::Reply { failed: false, .. }) => {}
                Poll::Ready(outcome) => {
                    found.get_or_insert(outcome);
                }
                Poll::Pending => self.pipeline.abandon(key),
            }
        }
        if found.is_some() {
            self.tenancy.fail_transaction();
        }
        found
    }

    /// Nobody will ask what came of the lead.
    pub(crate) fn forget_lead(&mut self) {
        for key in std::mem::take(&mut self.tenancy.lead_keys) {
            self.pipeline.abandon(key);
        }
    }

    /// Queues what is owed next, if it is its turn. Whether something was queued.
    pub(crate) fn pay_owed(&mut self, now_us: u64) -> bool {
        if self.pipeline.depth() > 0 {
            return false;
        }
        let Some(message) = self.tenancy.take_owed() else { return false };
        let queued = self.pipeline.submit_abandoned(|out| out.extend_from_slice(&message), now_us);
        self.submitted += u64::from(queued);
        queued
    }

    /// The last answer on a lease was an error in a transaction, or could not be kept: where such an answer does not say
    /// whether the transaction is still open, the server is asked, before anything else of it is sent. Whether something
    /// was queued.
    pub(crate) fn ask_state<L: Language>(&mut self, now_us: u64) -> bool {
        let Some(message) = L::ASK_STATE else { return false };
        if std::mem::replace(&mut self.tenancy.asked, true) {
            // It does not say.
            self.tenancy.fail_transaction();
            return false;
        }
        let queued = self.pipeline.submit_abandoned(|out| out.extend_from_slice(message), now_us);
        self.submitted += u64::from(queued);
        queued
    }
}
