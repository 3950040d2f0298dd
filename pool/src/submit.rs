//! The way of a statement onto a lane: encoded, routed, queued, all in one go and without an await.

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
    static SCRATCH: Cell<BytesMut> = Cell::new(BytesMut::new());

    static STREAK: Cell<Streak> = const { Cell::new(Streak { lanes: 0, index: 0, left: 0 }) };
}

/// The lane that this thread chose last, and how many more statements of the same turn may follow it there.
#[derive(Clone, Copy)]
struct Streak {
    /// Which list of lanes: its address. It may be another list at the same address one day; then the lane there is as
    /// good as any that is about to write.
    lanes: usize,
    index: usize,
    left: usize,
}

impl Streak {
    fn begin<L>(lanes: &Arc<Vec<Arc<Lane<L>>>>, index: usize, followers: usize, connections_max: usize) {
        // Who follows does not consider growth, so while there may be any, he may not follow past where it is wanted.
        let left = if lanes.len() < connections_max { followers.min(GROW_DEPTH) } else { followers };
        STREAK.set(Streak { lanes: Arc::as_ptr(lanes) as usize, index, left });
    }

    fn follow<L>(lanes: &Arc<Vec<Arc<Lane<L>>>>) -> Option<&Arc<Lane<L>>> {
        let streak = STREAK.get();
        let left = streak.left.checked_sub(1)?;
        if streak.lanes != Arc::as_ptr(lanes) as usize {
            return None;
        }
        STREAK.set(Streak { left, ..streak });
        lanes.get(streak.index)
    }
}

impl<L: Language> Inner<L> {
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
        let lanes = self.lanes.load();
        if quick
            && let Some(lane) = Streak::follow(&lanes)
            && lane.writes_soon()
            && let Ok(submitted) = lane.submit(submission, Tenant::PUBLIC, waker.clone(), || self.now_us())
        {
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
            if choice.stalled && !granted && self.may_grow() {
                // What will be opened for those who wait is there long before the slow one is done.
                return Err(NoRoom::Wait);
            }
            self.consider_growth(lanes.len(), lane, choice.stalled, caller, now_us);
            if let Ok(submitted) = lane.submit(submission, Tenant::PUBLIC, waker.clone(), || now_us) {
                // Behind one that may turn out to be slow none of the same turn follows.
                let followers = if quick { choice.followers } else { 0 };
                Streak::begin(&lanes, choice.index, followers, self.limits.connections_max);
                return Ok(submitted);
            }
        }
        if self.closing.load(Ordering::SeqCst) { Err(NoRoom::Closed) } else { Err(NoRoom::Wait) }
    }
}

/// Encodes a statement into this thread's scratch buffer and passes that on.
fn encoded<T, E>(encode: &impl Fn(&mut BytesMut) -> Result<(), E>, queue: impl FnOnce(&[u8]) -> T) -> Result<T, E> {
    // Taken, not borrowed: `encode` is foreign code and may come back here.
    let mut scratch = SCRATCH.take();
    let queued = encode(&mut scratch).map(|()| queue(&scratch));
    if scratch.capacity() <= BUFFER_BYTES_KEPT {
        scratch.clear();
        SCRATCH.set(scratch);
    }
    queued
}
