//! The housekeeper: retires connections that are old or have long had nothing to do. And how all connections to a server that
//! goes are left.
//!
//! One task of the library's own thread for each pool, from its first connection to its last. It looks rarely, and by
//! counters that the lanes keep anyway: no statement knows of it. A connection is retired by draining: what is in flight is
//! finished, and another is made only when somebody wants it. A lease is its owner's; what is due is done when it is back.
//! Who is retired is decided in `retirement`, and whether a server is left in `generations`.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::task::Waker;
use std::time::Duration;

use crate::home;
use crate::lane::{AfterDrain, Lane, Shared};
use crate::language::Language;
use crate::limits::PoolLimits;
use crate::pool::{Growth, Inner};
use crate::retirement::{Candidate, Decision, decide};
use crate::sync::MutexGuard;
use crate::tenancy::Tenant;
use crate::trace;

/// Looks within the shorter of both limits: what is late by an eighth of it is late by little.
const LOOKS: u32 = 8;

/// The longest pause between two looks. Connections that live for hours need no more.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// The pause while a connection is being retired, doubled for as long as it is: the next one's turn comes soon after, and
/// a statement that runs for hours is not watched for all of them.
const PAUSE_RETIRING: Duration = Duration::from_millis(50);

/// A lease that is held for so long has perhaps been forgotten, and is told of.
const LEASE_HELD_LONG: Duration = Duration::from_secs(60);

/// A lane as it was seen at the last look.
struct Seen {
    lane: u64,
    replies: u64,
    /// Since when it has had nothing to do, so far as has been seen.
    idle_since_us: Option<u64>,
}

/// What came of a look.
enum Look {
    /// There is no connection any more.
    Empty,
    /// A connection begins to retire.
    Retires,
    /// One that began before is not done with it.
    Retiring,
    /// There is nothing to do.
    Quiet,
}

impl<L: Language> Inner<L> {
    /// There is a connection. `growth` is locked until it is in the list. The task to start when it is not, if there is to
    /// be one.
    pub(crate) fn keep_house(
        self: &Arc<Self>,
        growth: &mut Growth<L>,
    ) -> Option<impl Future<Output = ()> + Send + use<L>> {
        let pause = pause(&self.limits)?;
        (!std::mem::replace(&mut growth.housekeeper, true)).then(|| keep_house(Arc::downgrade(self), pause))
    }

    /// A connection of this generation has heard that its server is to be left: if it is, no connection as old takes
    /// anything new, and each is closed when it has finished what it has begun.
    #[cold]
    pub(crate) fn leave_host(self: &Arc<Self>, generation: u64) {
        let mut growth = self.growth();
        if !growth.generations.leave(generation, self.now_us()) {
            return;
        }
        let lanes = self.lanes.load_full();
        drop(growth);
        self.counters.hosts_left.add(1);
        // One that has become a lease meanwhile is left when it comes back.
        for lane in lanes.iter().filter(|lane| lane.birth.generation <= generation) {
            lane.retire();
        }
        if self.is_waited_for() {
            self.ensure_lane();
        }
    }

    fn look_round(&self, seen: &mut Vec<Seen>) -> Look {
        let mut growth = self.growth();
        let lanes = self.lanes.load_full();
        let none = lanes.is_empty() && growth.leases.held.is_empty();
        if none || self.closing.load(Ordering::SeqCst) {
            // Under the lock by which connections come: the next one sees it.
            growth.housekeeper = false;
            return Look::Empty;
        }
        // While no new ones can be had, those that are there are worth keeping.
        let unreachable = growth.failures > 0;
        let now_us = self.now_us();
        let held_long = growth.leases.held_long(LEASE_HELD_LONG, now_us);
        drop(growth);
        for lease in held_long {
            let held = Duration::from_micros(lease.held_us);
            trace::lease_held_long(lease.lane, &lease.taken_at, &lease.thread, held);
        }
        seen.retain(|seen| lanes.iter().any(|lane| lane.number == seen.lane));
        let mut candidates = Vec::with_capacity(lanes.len());
        for lane in lanes.iter() {
            let (open, in_flight) = {
                let shared = lane.lock();
                (shared.pipeline.is_open(), shared.pipeline.depth())
            };
            let replies = lane.counters.replies.get();
            let known = seen.iter_mut().find(|seen| seen.lane == lane.number);
            let idle_since_us = match &known {
                _ if in_flight > 0 => None,
                Some(known) if known.replies == replies => known.idle_since_us.or(Some(now_us)),
                _ => Some(now_us),
            };
            let now = Seen { lane: lane.number, replies, idle_since_us };
            match known {
                Some(known) => *known = now,
                None => seen.push(now),
            }
            let expires_at_us = lane.birth.expires_at_us;
            candidates.push(Candidate { lane: lane.number, open, expires_at_us, idle_since_us });
        }
        let chosen = match decide(&candidates, self.limits.idle_timeout, now_us) {
            Decision::Wait => return Look::Retiring,
            Decision::Retire(number) if !unreachable => lanes.iter().find(|lane| lane.number == number),
            Decision::Retire(_) | Decision::Nothing => None,
        };
        let Some(lane) = chosen else { return Look::Quiet };
        // Not if it has become a lease meanwhile: its turn comes when it is back.
        if lane.retire() {
            self.counters.connections_retired.add(1);
        }
        Look::Retires
    }
}

impl<L: Language> Lane<L> {
    /// Stops taking statements; the driver finishes what is in flight and then does what `after_drain` says. `false`: it has
    /// become a lease meanwhile, or it drains for something else already, and stays what it is.
    pub(crate) fn drain(&self, after_drain: AfterDrain) -> bool {
        let shared = self.lock();
        let public = shared.tenancy.tenant == Tenant::PUBLIC;
        let drains = public && (after_drain == AfterDrain::Close || shared.pipeline.is_open());
        if drains {
            self.begin_to_drain(shared, after_drain);
        }
        drains
    }

    /// Has it closed when it has finished what it has begun; not while it is leased, which its owner ends.
    pub(crate) fn retire(&self) -> bool {
        let shared = self.lock();
        let public = shared.tenancy.tenant == Tenant::PUBLIC;
        if public {
            self.begin_to_drain(shared, AfterDrain::Close);
        }
        public
    }

    fn begin_to_drain(&self, mut shared: MutexGuard<'_, Shared>, after_drain: AfterDrain) {
        shared.pipeline.drain();
        shared.after_drain = after_drain;
        self.publish(&shared);
        let driver = shared.driver.clone();
        drop(shared);
        driver.inspect(Waker::wake_by_ref);
    }
}

/// The usual pause between two looks; `None` when nothing is ever old or idle.
fn pause(limits: &PoolLimits) -> Option<Duration> {
    let shorter = [limits.max_lifetime, limits.idle_timeout].into_iter().filter(|limit| !limit.is_zero()).min()?;
    Some((shorter / LOOKS).min(PAUSE_MAX))
}

async fn keep_house<L: Language>(pool: Weak<Inner<L>>, usual: Duration) {
    let mut seen = Vec::new();
    let mut pause = usual;
    loop {
        home::sleep(pause).await;
        let Some(pool) = pool.upgrade() else { return };
        pause = match pool.look_round(&mut seen) {
            Look::Empty => return,
            Look::Retires => PAUSE_RETIRING.min(usual),
            Look::Retiring => (pause * 2).min(usual),
            Look::Quiet => usual,
        };
    }
}
