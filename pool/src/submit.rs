//! The way of a statement onto a lane: encoded, routed, queued, all in one go and without an await.

use std::any::Any;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;

use bytes::BytesMut;

use crate::growth::GROW_DEPTH;
use crate::home;
use crate::lane::{Lane, Submission, Submitted};
use crate::language::{Language, Preparation};
use crate::limits::BUFFER_BYTES_KEPT;
use crate::pipeline::Refusal;
use crate::pool::{Inner, Pin};
use crate::route;
use crate::tenancy::Tenant;

/// A caller found no room.
pub(crate) enum NoRoom {
    /// He has to wait for it.
    Wait,
    /// There will be none.
    Closed,
}

thread_local! {
    /// Where statements are encoded before they are queued, so that nobody's code runs under a lane's lock.
    static SCRATCH: Cell<Option<BytesMut>> = const { Cell::new(None) };

    static STREAK: Cell<Option<Streak>> = const { Cell::new(None) };
}

/// The lane that this thread chose last, and how many more statements of the same turn may follow it there. Kept here, so
/// that who follows need not look into the list of lanes, which takes two locked instructions.
struct Streak {
    /// The pool's [`number`](Inner::number).
    pool: u64,
    /// An `Arc<Lane<L>>`.
    lane: Box<dyn Any>,
    left: usize,
}

impl<L: Language> Inner<L> {
    fn begin_streak(&self, lanes: usize, lane: &Arc<Lane<L>>, followers: usize) {
        // Who follows does not consider growth, so while there may be any, he may not follow past where it is wanted.
        let left = if lanes < self.limits.connections_max { followers.min(GROW_DEPTH) } else { followers };
        let streak = || Streak { pool: self.number, lane: Box::new(Arc::clone(lane)), left };
        STREAK.with(|place| place.set((left > 0).then(streak)));
    }

    /// Queues a statement where the last one of this thread went, if it then shares its write.
    #[inline]
    fn follow_streak(&self, submission: Submission<'_>, waker: &Waker) -> Option<Submitted<L>> {
        // Taken, not borrowed: to queue may wake, and a waker is foreign code.
        let mut streak = STREAK.with(Cell::take).filter(|streak| streak.pool == self.number)?;
        streak.left = streak.left.checked_sub(1)?;
        let lane: &Arc<Lane<L>> = streak.lane.downcast_ref()?;
        if !lane.writes_soon() {
            return None;
        }
        let submitted = lane.submit(submission, Tenant::PUBLIC, waker.clone(), || self.now_us()).ok()?;
        if streak.left > 0 {
            // Not `set` of the key itself, which would look whether there is one to be made first. Not kept longer than it
            // is of use: it holds the lane.
            STREAK.with(|place| place.set(Some(streak)));
        }
        Some(submitted)
    }

    /// Encodes and queues a statement, if some lane has room. `waker` is woken when its outcome is there.
    pub(crate) fn submit<E>(
        self: &Arc<Self>,
        preparations: &[&Preparation],
        encode: &impl Fn(&mut BytesMut) -> Result<(), E>,
        waker: &Waker,
        granted: bool,
        preferred: Option<&Arc<Lane<L>>>,
    ) -> Result<Result<Submitted<L>, NoRoom>, E> {
        if !granted && self.waiters.present() > 0 {
            // Nobody overtakes those who wait; asked before anything is encoded for nothing.
            return Ok(Err(NoRoom::Wait));
        }
        encoded(encode, |payload| self.queue(Submission { preparations, payload }, waker, granted, preferred))
    }

    /// Encodes and queues a lease's statement on its connection.
    pub(crate) fn submit_pinned<E>(
        &self,
        preparations: &[&Preparation],
        encode: &impl Fn(&mut BytesMut) -> Result<(), E>,
        waker: &Waker,
        pin: &Pin<L>,
    ) -> Result<Result<Submitted<L>, Refusal>, E> {
        encoded(encode, |payload| {
            let submission = Submission { preparations, payload };
            pin.lane.submit(submission, pin.tenant, waker.clone(), || self.now_us())
        })
    }

    fn queue(
        self: &Arc<Self>,
        submission: Submission<'_>,
        waker: &Waker,
        granted: bool,
        preferred: Option<&Arc<Lane<L>>>,
    ) -> Result<Submitted<L>, NoRoom> {
        /// A lane may fill up or close between the choice and the lock; then another is chosen, but not for ever.
        const TRIES: usize = 4;
        if let Some(lane) = preferred
            && let Ok(submitted) = lane.submit(submission, Tenant::PUBLIC, waker.clone(), || self.now_us())
        {
            return Ok(submitted);
        }
        let quick = submission.is_quick();
        if quick && let Some(submitted) = self.follow_streak(submission, waker) {
            return Ok(submitted);
        }
        let slow = !quick && submission.is_slow();
        let caller = home::thread_number();
        for _ in 0..TRIES {
            let lanes = self.lanes.load();
            let now_us = self.now_us();
            let views = lanes.iter().map(|lane| lane.view(caller, now_us));
            let choice = match slow {
                true => route::choose_for_slow(views, self.route),
                false => route::choose(views, self.route, home::random),
            };
            let Some(choice) = choice else { break };
            let Some(lane) = lanes.get(choice.index) else { break };
            // Asked without a lock first: under load this comes often, and the pool has all it may have.
            let has_all = lanes.len() >= self.limits.connections_max;
            if choice.stalled && !granted && !has_all && self.may_grow() {
                // What will be opened for those who wait is there long before the slow one is done.
                return Err(NoRoom::Wait);
            }
            self.consider_growth(lanes.len(), lane, choice.stalled, caller, now_us);
            if let Ok(submitted) = lane.submit(submission, Tenant::PUBLIC, waker.clone(), || now_us) {
                // Behind one that may turn out to be slow none of the same turn follows.
                let followers = if quick { choice.followers } else { 0 };
                self.begin_streak(lanes.len(), lane, followers);
                return Ok(submitted);
            }
        }
        if self.closing.load(Ordering::SeqCst) { Err(NoRoom::Closed) } else { Err(NoRoom::Wait) }
    }
}

/// Encodes a statement into this thread's scratch buffer and passes that on.
#[inline]
fn encoded<T, E>(encode: &impl Fn(&mut BytesMut) -> Result<(), E>, queue: impl FnOnce(&[u8]) -> T) -> Result<T, E> {
    // Taken, not borrowed: `encode` is foreign code and may come back here.
    let mut scratch = SCRATCH.take().unwrap_or_default();
    let queued = encode(&mut scratch).map(|()| queue(&scratch));
    if scratch.capacity() <= BUFFER_BYTES_KEPT {
        scratch.clear();
        SCRATCH.with(|place| place.set(Some(scratch)));
    }
    queued
}
