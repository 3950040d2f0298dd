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

use bytes::Bytes;

use crate::error::Loss;
use crate::limits::BUFFER_BYTES_KEPT;

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
        bytes: Bytes,
        /// Whether it holds an error.
        failed: bool,
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

    /// Queues one statement: `append` adds its bytes, and a slot is pushed for its one reply.
    ///
    /// # Errors
    ///
    /// When nothing is taken now; `append` was not called then.
    pub fn submit(
        &mut self,
        append: impl FnOnce(&mut Vec<u8>),
        waker: Waker,
        now_us: impl FnOnce() -> u64,
    ) -> Result<SlotKey, Refusal> {
        self.admits()?;
        let begins_at = self.taken + self.unsent.len() as u64;
        append(&mut self.unsent);
        if self.in_flight.is_empty() {
            self.oldest_since_us = now_us();
        }
        let index = self.occupy(begins_at, SlotState::Waiting(waker));
        self.in_flight.push_back(index);
        self.unsent_statements += 1;
        Ok(SlotKey { index, generation: self.slots[index as usize].generation })
    }

    /// Queues bytes that nothing is answered to, behind what is queued. Nothing happens when nothing is taken any more.
    pub fn append_unanswered(&mut self, append: impl FnOnce(&mut Vec<u8>)) {
        if matches!(self.phase, Phase::Open) {
            append(&mut self.unsent);
        }
    }

    fn occupy(&mut self, begins_at: u64, state: SlotState) -> u32 {
        match self.vacant.pop() {
            Some(index) => {
                let slot = &mut self.slots[index as usize];
                slot.begins_at = begins_at;
                slot.state = state;
                index
            }
            None => {
                self.slots.push(Slot { generation: 0, begins_at, state });
                (self.slots.len() - 1) as u32
            }
        }
    }

    /// The outcome of a statement, once. While there is none, `waker` is woken when there is.
    ///
    /// # Panics
    ///
    /// When the outcome was taken before, or the slot was abandoned: a fault of the caller in this crate.
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
                self.vacate(key.index);
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
    pub fn complete(&mut self, outcome: Outcome, wake: &mut Vec<Waker>, now_us: u64) {
        let index = self.in_flight.pop_front().expect("a reply is completed only while one is owed");
        self.oldest_since_us = now_us;
        let slot = &mut self.slots[index as usize];
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
        let begins_at = slot.begins_at;
        match std::mem::replace(&mut slot.state, SlotState::Done(outcome)) {
            SlotState::Waiting(waker) => wake.push(waker),
            other => {
                slot.state = other;
                return;
            }
        }
        let swallower = self.occupy(begins_at, SlotState::Abandoned);
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

    /// Whether new statements are taken, limits aside.
    pub fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open)
    }

    /// Whether it drains and nothing is left to do.
    pub fn is_drained(&self) -> bool {
        matches!(self.phase, Phase::Draining) && self.in_flight.is_empty() && self.unsent.is_empty()
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
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use proptest::prelude::*;

    use super::*;
    use crate::error::LossCause;

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn waker() -> (Arc<Wakes>, Waker) {
        let wakes = Arc::new(Wakes::default());
        (Arc::clone(&wakes), Waker::from(wakes))
    }

    fn loss() -> Arc<Loss> {
        Arc::new(Loss { farewell: None, cause: LossCause::PeerClosed })
    }

    fn submit(pipeline: &mut Pipeline, bytes: &[u8]) -> SlotKey {
        pipeline.submit(|out| out.extend_from_slice(bytes), Waker::noop().clone(), || 0).expect("room")
    }

    fn reply(text: &'static str) -> Outcome {
        Outcome::Reply { bytes: Bytes::from_static(text.as_bytes()), failed: false }
    }

    #[test]
    fn what_is_queued_waits_only_while_the_server_has_enough_to_do() {
        let mut pipeline = Pipeline::new(100, 1 << 20);
        let submit = |pipeline: &mut Pipeline, count: usize| {
            for _ in 0..count {
                pipeline.submit(|out| out.push(b'q'), Waker::noop().clone(), || 1).unwrap();
            }
        };
        const NEAR_US: u64 = 50;
        submit(&mut pipeline, 10);
        assert!(!pipeline.may_wait(100, NEAR_US), "the server has nothing to do");
        pipeline.take_unsent(&mut Vec::new());
        submit(&mut pipeline, 9);
        assert_eq!(pipeline.backlog(), 10);
        assert!(pipeline.may_wait(100, NEAR_US));
        assert!(!pipeline.may_wait(100, 501), "it takes so long to get there that the server would be idle");
        assert!(!pipeline.may_wait(100, u64::MAX), "nobody knows how long it takes");
        submit(&mut pipeline, 1);
        assert!(!pipeline.may_wait(100, NEAR_US), "as much waits as the server has");
        let mut wake = Vec::new();
        let reply = || Outcome::Reply { bytes: Bytes::new(), failed: false };
        pipeline.take_unsent(&mut Vec::new());
        for _ in 0..16 {
            pipeline.complete(reply(), &mut wake, 2);
        }
        submit(&mut pipeline, 1);
        assert!(!pipeline.may_wait(100, NEAR_US), "the server may be done with four before a write arrives");
    }

    #[test]
    fn a_full_write_and_the_end_of_a_pipeline_do_not_wait() {
        let mut pipeline = Pipeline::new(100, 1 << 20);
        let submit = |pipeline: &mut Pipeline, bytes: usize| {
            pipeline.submit(|out| out.resize(out.len() + bytes, b'q'), Waker::noop().clone(), || 1).unwrap();
        };
        (0..10).for_each(|_| submit(&mut pipeline, 1));
        pipeline.take_unsent(&mut Vec::new());
        submit(&mut pipeline, FULL_WRITE_BYTES - 1);
        assert!(pipeline.may_wait(100, 0));
        submit(&mut pipeline, 1);
        assert!(!pipeline.may_wait(100, 0), "the write is full");
        pipeline.take_unsent(&mut Vec::new());
        submit(&mut pipeline, 1);
        assert!(pipeline.may_wait(100, 0));
        pipeline.drain();
        assert!(!pipeline.may_wait(100, 0), "nothing more will come to share the write");
    }

    #[test]
    fn limits_hold_on_both_sides_of_the_boundary() {
        let mut pipeline = Pipeline::new(2, 10);
        submit(&mut pipeline, b"123456789");
        assert_eq!(pipeline.admits(), Ok(()), "9 of 10 bytes and 1 of 2 statements");
        submit(&mut pipeline, b"a large statement may overshoot the byte limit once");
        assert_eq!(pipeline.admits(), Err(Refusal::Full));

        let mut taken = Vec::new();
        pipeline.take_unsent(&mut taken);
        assert_eq!(pipeline.admits(), Err(Refusal::Full), "2 of 2 statements");
        pipeline.complete(reply("a"), &mut Vec::new(), 0);
        assert_eq!(pipeline.admits(), Ok(()), "1 of 2 statements");
    }

    #[test]
    fn a_waker_is_woken_once_and_the_newest_one_counts() {
        let mut pipeline = Pipeline::new(8, 100);
        let (first, first_waker) = waker();
        let (second, second_waker) = waker();
        let key = pipeline.submit(|_| {}, first_waker, || 0).unwrap();
        assert!(pipeline.poll(key, &second_waker).is_pending());
        let mut wake = Vec::new();
        pipeline.complete(reply("x"), &mut wake, 0);
        wake.into_iter().for_each(Waker::wake);
        assert_eq!((first.0.load(Ordering::SeqCst), second.0.load(Ordering::SeqCst)), (0, 1));
        assert!(pipeline.poll(key, &second_waker).is_ready());
    }

    #[test]
    fn a_stale_key_touches_nobody() {
        let mut pipeline = Pipeline::new(8, 100);
        let old = submit(&mut pipeline, b"a");
        pipeline.complete(reply("a"), &mut Vec::new(), 0);
        assert!(pipeline.poll(old, Waker::noop()).is_ready());
        let new = submit(&mut pipeline, b"b");
        assert_eq!(old.index, new.index, "the slot is reused");
        pipeline.abandon(old);
        assert!(!pipeline.oldest_is_abandoned());
    }

    #[test]
    fn an_outcome_told_early_leaves_the_order_of_replies_alone() {
        let mut pipeline = Pipeline::new(8, 100);
        let (early, next) = (submit(&mut pipeline, b"a"), submit(&mut pipeline, b"b"));
        let mut wake = Vec::new();
        for _ in 0..3 {
            pipeline.complete_early(Outcome::TooLarge, &mut wake);
        }
        assert_eq!((wake.len(), pipeline.depth()), (1, 2), "told once, and its reply is still owed");
        assert!(matches!(pipeline.poll(early, Waker::noop()), Poll::Ready(Outcome::TooLarge)));
        let later = submit(&mut pipeline, b"c");
        for text in ["a", "b", "c"] {
            pipeline.complete(reply(text), &mut wake, 0);
        }
        for (key, text) in [(next, "b"), (later, "c")] {
            let outcome = pipeline.poll(key, Waker::noop());
            assert!(matches!(&outcome, Poll::Ready(Outcome::Reply { bytes, .. }) if bytes == text), "{outcome:?}");
        }
        assert_eq!(pipeline.depth(), 0);
    }

    #[test]
    fn a_loss_tells_the_written_from_the_unwritten() {
        let mut pipeline = Pipeline::new(8, 100);
        let keys: Vec<_> = (0..4).map(|_| submit(&mut pipeline, b"0123456789")).collect();
        let mut taken = Vec::new();
        pipeline.take_unsent(&mut taken);
        let unsent = submit(&mut pipeline, b"never taken");
        // 11 of 40 bytes left the process: the second statement may have reached the server in part.
        pipeline.lose(&loss(), 29, &mut Vec::new());
        let sent: Vec<bool> = keys
            .into_iter()
            .chain([unsent])
            .map(|key| match pipeline.poll(key, Waker::noop()) {
                Poll::Ready(Outcome::Lost { sent, .. }) => sent,
                other => panic!("expected a loss, got {other:?}"),
            })
            .collect();
        assert_eq!(sent, [true, true, false, false, false]);
        assert_eq!(pipeline.admits(), Err(Refusal::NotOpen));
    }

    #[test]
    fn a_drained_pipeline_has_finished_what_it_took() {
        let mut pipeline = Pipeline::new(8, 100);
        submit(&mut pipeline, b"a");
        pipeline.drain();
        assert_eq!(pipeline.admits(), Err(Refusal::NotOpen));
        assert!(!pipeline.is_drained());
        pipeline.take_unsent(&mut Vec::new());
        pipeline.complete(reply("a"), &mut Vec::new(), 0);
        assert!(pipeline.is_drained());
    }

    #[derive(Clone, Debug)]
    enum Step {
        Submit,
        Take,
        Complete,
        Abandon(usize),
        Poll(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => Just(Step::Submit),
            2 => Just(Step::Take),
            4 => Just(Step::Complete),
            1 => any::<usize>().prop_map(Step::Abandon),
            3 => any::<usize>().prop_map(Step::Poll),
        ]
    }

    proptest! {
        /// Whatever callers, writer and reader do, in whatever order: each caller gets the reply of its own statement,
        /// statements leave in the order of their slots, and the limits hold.
        #[test]
        fn every_caller_gets_its_own_reply(steps in proptest::collection::vec(step(), 1..400)) {
            let mut pipeline = Pipeline::new(16, 64);
            let mut wire = Vec::new();
            let mut next = 0_u64;
            let mut answered = 0_u64;
            let mut held: Vec<(SlotKey, u64)> = Vec::new();
            let mut held_max = 0;
            for step in steps {
                match step {
                    Step::Submit => {
                        let number = next;
                        let append = |out: &mut Vec<u8>| out.extend_from_slice(&number.to_be_bytes());
                        if let Ok(key) = pipeline.submit(append, Waker::noop().clone(), || 0) {
                            held.push((key, number));
                            next += 1;
                        }
                    }
                    Step::Take => {
                        let mut taken = Vec::new();
                        pipeline.take_unsent(&mut taken);
                        wire.extend(taken.chunks_exact(8).map(|b| u64::from_be_bytes(b.try_into().unwrap())));
                    }
                    Step::Complete => {
                        // The server answers only what it has received, in that order.
                        if answered < wire.len() as u64 {
                            let echo = Bytes::copy_from_slice(&wire[answered as usize].to_be_bytes());
                            pipeline.complete(Outcome::Reply { bytes: echo, failed: false }, &mut Vec::new(), 0);
                            answered += 1;
                        }
                    }
                    Step::Abandon(pick) if !held.is_empty() => {
                        let (key, _) = held.swap_remove(pick % held.len());
                        pipeline.abandon(key);
                    }
                    Step::Poll(pick) if !held.is_empty() => {
                        let at = pick % held.len();
                        let (key, number) = held[at];
                        match pipeline.poll(key, Waker::noop()) {
                            Poll::Ready(Outcome::Reply { bytes, .. }) => {
                                prop_assert_eq!(&bytes[..], &number.to_be_bytes()[..]);
                                held.swap_remove(at);
                            }
                            Poll::Ready(other) => prop_assert!(false, "unexpected {:?}", other),
                            Poll::Pending => prop_assert!(number >= answered, "answered {}, asked {}", answered, number),
                        }
                    }
                    Step::Abandon(_) | Step::Poll(_) => {}
                }
                prop_assert!(pipeline.depth() <= 16);
                prop_assert!(pipeline.unsent_bytes() <= 64 + 8);
                held_max = held_max.max(held.len());
                prop_assert!(pipeline.slots.len() <= 16 + held_max + 1, "slots are reused");
                prop_assert_eq!(pipeline.depth() as u64, next - answered);
            }
            prop_assert!(wire.iter().copied().eq(0..wire.len() as u64), "bytes leave in the order of the slots");
        }
    }
}
