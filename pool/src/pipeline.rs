//! The order of one connection: bytes that wait to be written, and one slot for each reply that is owed.
//!
//! ```text
//!  submit ──> unsent bytes ──take_unsent──> (writer)          order of bytes == order of slots
//!     └─────> slot ─> in flight: [oldest ............ newest]
//!                        └──complete──> Done ──poll──> caller
//! ```
//!
//! No socket, no clock, no tokio: the lane holds it behind its lock, the tests drive it by hand. A slot is reused
//! when its reply was taken, and checked by generation, so that a key kept too long finds nothing. A caller who
//! vanished leaves an abandoned slot behind, which swallows exactly its own reply.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Poll, Waker};

use crate::error::Loss;
use crate::limits::BUFFER_BYTES_KEPT;
use crate::reply::Reply;

/// A write of so many bytes is as good as a larger one: servers read about as many at once.
pub const FULL_WRITE_BYTES: usize = 8 * 1024;

/// With so few statements left the server may be done with them before the next write arrives.
const BACKLOG_MIN: usize = 4;

/// What became of a statement.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// The whole reply.
    Reply {
        /// As it came from the server.
        bytes: Reply,
        /// Whether it holds an error.
        failed: bool,
        /// Whether the server took long for it, with nothing else of this connection to do.
        slow: bool,
    },
    /// The reply was larger than the lane buffers; it was read and dropped.
    TooLarge,
    /// The connection ended first. `sent` says whether any byte of the statement may have reached the server.
    Lost {
        /// Whether any byte may have reached the server.
        sent: bool,
        /// What happened to the connection.
        loss: Arc<Loss>,
    },
}

/// Names a slot until its reply was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotKey {
    index: u32,
    generation: u32,
}

/// Why a pipeline takes no statement now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Its limits are reached.
    Full,
    /// It takes nothing any more: it drains, or its connection is lost.
    NotOpen,
    /// It would run outside of the transaction that it belongs to: the server has ended that.
    NoTransaction,
    /// Too many wait for room on it already.
    Crowded,
}

#[derive(Debug)]
enum SlotState {
    Vacant,
    Waiting(Waker),
    Abandoned,
    Done(Outcome),
}

/// A cache line of its own: between two touches of one, all the others are touched.
#[derive(Debug)]
#[repr(align(64))]
struct Slot {
    generation: u32,
    /// Known to be slow.
    slow: bool,
    /// Where in the connection's outgoing stream the statement begins.
    begins_at: u64,
    state: SlotState,
}

#[derive(Debug, PartialEq, Eq)]
enum Phase {
    Open,
    Draining,
    Lost,
}

/// The order of one connection. See the [module](self).
#[derive(Debug)]
pub struct Pipeline {
    in_flight_max: usize,
    unsent_bytes_max: usize,
    unsent: Vec<u8>,
    /// Statements among the unsent bytes.
    unsent_statements: usize,
    /// Length of the outgoing stream up to and with what was taken by the writer.
    taken: u64,
    slots: Vec<Slot>,
    vacant: Vec<u32>,
    in_flight: VecDeque<u32>,
    /// How many of those in flight are known to be slow.
    slow_in_flight: usize,
    /// When the oldest statement in flight became the oldest.
    oldest_since_us: u64,
    phase: Phase,
}

impl Pipeline {
    /// An empty, open pipeline with the given limits.
    pub fn new(in_flight_max: usize, unsent_bytes_max: usize) -> Pipeline {
        Pipeline {
            in_flight_max,
            unsent_bytes_max,
            unsent: Vec::new(),
            unsent_statements: 0,
            taken: 0,
            slots: Vec::new(),
            vacant: Vec::new(),
            in_flight: VecDeque::new(),
            slow_in_flight: 0,
            oldest_since_us: 0,
            phase: Phase::Open,
        }
    }

    /// Whether a statement would be taken now.
    ///
    /// # Errors
    ///
    /// Why it would not.
    pub fn admits(&self) -> Result<(), Refusal> {
        if !matches!(self.phase, Phase::Open) {
            return Err(Refusal::NotOpen);
        }
        if self.in_flight.len() >= self.in_flight_max || !self.has_room_for_bytes() {
            return Err(Refusal::Full);
        }
        Ok(())
    }

    /// Queues one statement, known to be slow or not: `append` adds its bytes, and a slot is pushed for its one reply.
    ///
    /// # Errors
    ///
    /// When nothing is taken now; `append` was not called then.
    pub fn submit(
        &mut self,
        append: impl FnOnce(&mut Vec<u8>),
        waker: Waker,
        slow: bool,
        now_us: impl FnOnce() -> u64,
    ) -> Result<SlotKey, Refusal> {
        self.admits()?;
        let begins_at = self.taken + self.unsent.len() as u64;
        append(&mut self.unsent);
        if self.in_flight.is_empty() {
            self.oldest_since_us = now_us();
        }
        let index = self.occupy(begins_at, SlotState::Waiting(waker), slow);
        self.in_flight.push_back(index);
        self.slow_in_flight += usize::from(slow);
        self.unsent_statements += 1;
        Ok(SlotKey { index, generation: self.slots[index as usize].generation })
    }

    /// Queues one statement whose reply nobody waits for, whatever room there is: what undoes something is not refused for
    /// want of it. `false`: nothing is taken any more.
    pub fn submit_abandoned(&mut self, append: impl FnOnce(&mut Vec<u8>), now_us: u64) -> bool {
        if !self.is_open() {
            return false;
        }
        let begins_at = self.taken + self.unsent.len() as u64;
        append(&mut self.unsent);
        if self.in_flight.is_empty() {
            self.oldest_since_us = now_us;
        }
        let index = self.occupy(begins_at, SlotState::Abandoned, false);
        self.in_flight.push_back(index);
        self.unsent_statements += 1;
        true
    }

    /// Queues bytes that nothing is answered to, behind what is queued. Nothing happens when nothing is taken any more.
    pub fn append_unanswered(&mut self, append: impl FnOnce(&mut Vec<u8>)) {
        if matches!(self.phase, Phase::Open) {
            append(&mut self.unsent);
        }
    }

    #[inline(always)]
    fn occupy(&mut self, begins_at: u64, state: SlotState, slow: bool) -> u32 {
        match self.vacant.pop() {
            Some(index) => {
                let slot = &mut self.slots[index as usize];
                slot.begins_at = begins_at;
                slot.slow = slow;
                slot.state = state;
                index
            }
            None => {
                self.slots.push(Slot { generation: 0, slow, begins_at, state });
                (self.slots.len() - 1) as u32
            }
        }
    }

    /// The outcome of a statement, once. While there is none, `waker` is woken when there is.
    ///
    /// # Panics
    ///
    /// When the outcome was taken before, or the slot was abandoned: a fault of the caller in this crate.
    #[inline(always)]
    pub fn poll(&mut self, key: SlotKey, waker: &Waker) -> Poll<Outcome> {
        let slot = &mut self.slots[key.index as usize];
        assert_eq!(slot.generation, key.generation, "an outcome is taken once");
        match &mut slot.state {
            SlotState::Waiting(known) => {
                if !known.will_wake(waker) {
                    known.clone_from(waker);
                }
                Poll::Pending
            }
            SlotState::Done(_) => {
                let SlotState::Done(outcome) = std::mem::replace(&mut slot.state, SlotState::Vacant) else {
                    unreachable!("just matched")
                };
                slot.generation = slot.generation.wrapping_add(1);
                self.vacant.push(key.index);
                Poll::Ready(outcome)
            }
            SlotState::Vacant | SlotState::Abandoned => panic!("an outcome is polled only while it is awaited"),
        }
    }

    /// The caller is gone. Its reply, if one is owed, will be read and dropped. A stale key does nothing.
    pub fn abandon(&mut self, key: SlotKey) {
        let Some(slot) = self.slots.get_mut(key.index as usize) else { return };
        if slot.generation != key.generation {
            return;
        }
        match slot.state {
            SlotState::Waiting(_) => slot.state = SlotState::Abandoned,
            SlotState::Done(_) => {
                slot.state = SlotState::Vacant;
                self.vacate(key.index);
            }
            SlotState::Vacant | SlotState::Abandoned => {}
        }
    }

    fn vacate(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        slot.generation = slot.generation.wrapping_add(1);
        self.vacant.push(index);
    }

    /// Moves all unsent bytes into `buffer`, which must be empty; its memory is used for what comes next.
    pub fn take_unsent(&mut self, buffer: &mut Vec<u8>) {
        debug_assert!(buffer.is_empty(), "the writer takes only when it has written all");
        self.taken += self.unsent.len() as u64;
        self.unsent_statements = 0;
        if buffer.capacity() > BUFFER_BYTES_KEPT {
            *buffer = Vec::new();
        }
        std::mem::swap(&mut self.unsent, buffer);
    }

    /// Completes the oldest statement. Who is to be woken is pushed to `wake`.
    ///
    /// # Panics
    ///
    /// When no statement is in flight: the caller counts the replies it expects.
    #[inline(always)]
    pub fn complete(&mut self, outcome: Outcome, wake: &mut Vec<Waker>, now_us: u64) {
        let index = self.in_flight.pop_front().expect("a reply is completed only while one is owed");
        self.oldest_since_us = now_us;
        let slot = &mut self.slots[index as usize];
        self.slow_in_flight -= usize::from(slot.slow);
        match std::mem::replace(&mut slot.state, SlotState::Done(outcome)) {
            SlotState::Waiting(waker) => wake.push(waker),
            SlotState::Abandoned => {
                slot.state = SlotState::Vacant;
                self.vacate(index);
            }
            SlotState::Vacant | SlotState::Done(_) => unreachable!("a slot in flight is awaited or abandoned"),
        }
    }

    /// Tells the caller of the oldest statement, if he still waits, before its reply has ended. The reply stays owed: a
    /// slot that nobody waits for swallows it.
    pub fn complete_early(&mut self, outcome: Outcome, wake: &mut Vec<Waker>) {
        let Some(&index) = self.in_flight.front() else { return };
        let slot = &mut self.slots[index as usize];
        let (begins_at, slow) = (slot.begins_at, slot.slow);
        match std::mem::replace(&mut slot.state, SlotState::Done(outcome)) {
            SlotState::Waiting(waker) => wake.push(waker),
            other => {
                slot.state = other;
                return;
            }
        }
        let swallower = self.occupy(begins_at, SlotState::Abandoned, slow);
        if let Some(front) = self.in_flight.front_mut() {
            *front = swallower;
        }
    }

    /// Whether nobody waits for the oldest reply any more.
    pub fn oldest_is_abandoned(&self) -> bool {
        self.in_flight.front().is_some_and(|&index| matches!(self.slots[index as usize].state, SlotState::Abandoned))
    }

    /// The connection ended when `written` bytes of what was taken had been written: every statement in flight is
    /// completed, and nothing is taken any more.
    pub fn lose(&mut self, loss: &Arc<Loss>, unwritten_bytes: usize, wake: &mut Vec<Waker>) {
        let written = self.taken - unwritten_bytes as u64;
        while let Some(&index) = self.in_flight.front() {
            let sent = self.slots[index as usize].begins_at < written;
            let now_us = self.oldest_since_us;
            self.complete(Outcome::Lost { sent, loss: Arc::clone(loss) }, wake, now_us);
        }
        self.unsent = Vec::new();
        self.unsent_statements = 0;
        self.phase = Phase::Lost;
    }

    /// Takes no new statement; those in flight are finished.
    pub fn drain(&mut self) {
        if matches!(self.phase, Phase::Open) {
            self.phase = Phase::Draining;
        }
    }

    /// Statements that were handed to the writer and are not answered yet.
    pub fn backlog(&self) -> usize {
        self.in_flight.len().saturating_sub(self.unsent_statements)
    }

    /// Whether what is queued had better wait for more to share its write: the server has enough to do until that gets
    /// there, so nobody waits longer for it.
    ///
    /// `service_us` is what the server takes for a statement, `round_trip_us` the way there and back. Far away, or with
    /// little to do, there is no waiting; nor when the server could be idle before the next reply brings us here again.
    pub fn may_wait(&self, service_us: u64, round_trip_us: u64) -> bool {
        let backlog = self.backlog();
        self.is_open()
            && self.unsent.len() < FULL_WRITE_BYTES
            && backlog > BACKLOG_MIN
            && backlog > self.unsent_statements
            && backlog as u64 * service_us >= round_trip_us.saturating_mul(2)
    }

    /// Takes statements again after a drain that came to its end.
    pub fn reopen(&mut self) {
        if matches!(self.phase, Phase::Draining) {
            self.phase = Phase::Open;
        }
    }

    /// Whether new statements are taken, limits aside.
    pub fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open)
    }

    /// Whether it drains and nothing is left to do.
    pub fn is_drained(&self) -> bool {
        matches!(self.phase, Phase::Draining) && self.in_flight.is_empty() && self.unsent.is_empty()
    }

    /// Whether any statement in flight is known to be slow.
    pub fn has_slow(&self) -> bool {
        self.slow_in_flight > 0
    }

    /// Slots that somebody has: one for each statement in flight, and one for each outcome that was not taken.
    #[cfg(cenote_loom)]
    pub(crate) fn occupied_slots(&self) -> usize {
        self.slots.len() - self.vacant.len()
    }

    /// Statements in flight.
    pub fn depth(&self) -> usize {
        self.in_flight.len()
    }

    /// Whether the limit of unsent bytes is not reached.
    pub fn has_room_for_bytes(&self) -> bool {
        self.unsent.len() < self.unsent_bytes_max
    }

    /// Bytes that wait for the writer.
    pub fn unsent_bytes(&self) -> usize {
        self.unsent.len()
    }

    /// When the oldest statement in flight became the oldest; `None` with none in flight.
    pub fn oldest_since_us(&self) -> Option<u64> {
        (!self.in_flight.is_empty()).then_some(self.oldest_since_us)
    }
}

#[cfg(test)]
mod tests;
