//! The watch over lanes that collect replies: a slow statement must not keep the replies before it.
//!
//! One task of the library's own thread for each pool, and only while some lane collects (see `low_water`): on a lane
//! that has answered nothing for longer than collecting takes, what has come is fetched at once. It is not on the way of any query.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::home;
use crate::language::Language;
use crate::low_water::COLLECTED_US_MAX;
use crate::pool::Inner;

/// A lane on which nothing has been answered for so long does not merely collect.
const STILL_US: u64 = COLLECTED_US_MAX * 3;

/// After so many looks in a row at which no lane collected, the watch ends until one does again.
const IDLE_LOOKS_MAX: u32 = 100;

impl<L: Language> Inner<L> {
    /// A lane begins to collect: somebody has to watch. `false`: nobody can, and then nothing must be collected.
    pub(crate) fn watch(self: &Arc<Self>) -> bool {
        if self.watched.load(Ordering::SeqCst) {
            return true;
        }
        let Some(runtime) = home::background() else { return false };
        if !self.watched.swap(true, Ordering::SeqCst) {
            runtime.spawn(watch(Arc::downgrade(self)));
        }
        true
    }

    /// Whether any lane collects.
    fn look(&self) -> bool {
        let (lanes, now_us) = (self.lanes.load(), self.now_us());
        let mut any = false;
        for lane in lanes.iter().filter(|lane| lane.collects()) {
            any = true;
            if lane.oldest_age_us(now_us) > STILL_US {
                lane.fetch();
            }
        }
        any
    }
}

/// Watches until nothing has been collected for a while, or the pool is gone.
async fn watch<L: Language>(pool: Weak<Inner<L>>) {
    let mut idle_looks = 0;
    loop {
        home::sleep(Duration::from_micros(COLLECTED_US_MAX)).await;
        let Some(pool) = pool.upgrade() else { return };
        idle_looks = if pool.look() { 0 } else { idle_looks + 1 };
        if idle_looks < IDLE_LOOKS_MAX {
            continue;
        }
        idle_looks = 0;
        pool.watched.store(false, Ordering::SeqCst);
        // A lane that began meanwhile may have found the watch still there. Whoever takes it up, one does.
        if !pool.look() || pool.watched.swap(true, Ordering::SeqCst) {
            return;
        }
    }
}
