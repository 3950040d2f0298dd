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
use crate::pool::Inner;
use crate::route;

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
    fn begin<L>(lanes: &Arc<Vec<Arc<Lane<L>>>>, choice: route::Choice, connections_max: usize) {
        // Who follows does not consider growth, so while there may be any, he may not follow past where it is wanted.
        let left = if lanes.len() < connections_max { choice.followers.min(GROW_DEPTH) } else { choice.followers };
        STREAK.set(Streak { lanes: Arc::as_ptr(lanes) as usize, index: choice.index, left });
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
        // Taken, not borrowed: `encode` is foreign code and may come back here.
        let mut scratch = SCRATCH.take();
        let submitted =
            encode(&mut scratch).map(|()| self.queue(Submission { preparations, payload: &scratch }, waker, preferred));
        if scratch.capacity() <= BUFFER_BYTES_KEPT {
            scratch.clear();
            SCRATCH.set(scratch);
        }
        submitted
    }

    fn queue(
        self: &Arc<Self>,
        submission: Submission<'_>,
        waker: &Waker,
        preferred: Option<&Arc<Lane<L>>>,
    ) -> Result<Submitted<L>, NoRoom> {
        /// A lane may fill up or close between the choice and the lock; then another is chosen, but not for ever.
        const TRIES: usize = 4;
        if let Some(lane) = preferred
            && let Ok(submitted) = lane.submit(submission, waker.clone(), || self.now_us())
        {
            return Ok(submitted);
        }
        let lanes = self.lanes.load();
        if let Some(lane) = Streak::follow(&lanes)
            && lane.writes_soon()
            && let Ok(submitted) = lane.submit(submission, waker.clone(), || self.now_us())
        {
            return Ok(submitted);
        }
        let caller = home::thread_number();
        for _ in 0..TRIES {
            let lanes = self.lanes.load();
            let now_us = self.now_us();
            let views = lanes.iter().map(|lane| lane.view(caller, now_us));
            let Some(choice) = route::choose(views, self.route, home::random) else { break };
            let Some(lane) = lanes.get(choice.index) else { break };
            self.consider_growth(lanes.len(), lane, caller, now_us);
            if let Ok(submitted) = lane.submit(submission, waker.clone(), || now_us) {
                Streak::begin(&lanes, choice, self.limits.connections_max);
                return Ok(submitted);
            }
        }
        if self.closing.load(Ordering::SeqCst) { Err(NoRoom::Closed) } else { Err(NoRoom::Wait) }
    }
}
