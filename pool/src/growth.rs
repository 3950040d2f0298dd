//! Opening lanes: when one more is wanted, on which runtime, and what happens when the server cannot be reached.
//!
//! Connecting is a task of the pool. Nobody's future owns it: when all who wanted the connection are gone, it
//! becomes a lane all the same. At most two are under way at once; while the server is down a single prober tries,
//! with pauses, for as long as anybody waits. A log-in that can never succeed fails everybody who waits, at once.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use deadpool::managed::{Object, PoolError};
use tokio::runtime::Handle;

use crate::backoff;
use crate::budget::{Budget, Link, Live};
use crate::driver::{Driver, take_over};
use crate::error::{ConnectFailure, Failure};
use crate::home;
use crate::lane::{AfterDrain, Lane};
use crate::language::Language;
use crate::plan::{Decision, Situation, decide};
use crate::pool::{Growth, Inner};
use crate::retirement::Birth;
use crate::trace;

/// From this depth of the best lane on, one more lane is wanted: nobody knows whether what is in flight on it is quick,
/// and a server works on the statements of one connection one after the other.
pub(crate) const GROW_DEPTH: usize = 1;

/// A connect under way is waited for so long where a lane that is stalled could have been taken.
const HOPE_US: u64 = 250_000;

/// Growth is considered at most this often; it takes a lock that all threads share.
const CONSIDER_INTERVAL_US: u64 = 1_000;

/// The same while all connections are there and only a move between threads could come of it. A thread that is new to the
/// pool waits so long for lanes of its own, and is served by others' meanwhile.
const CONSIDER_MOVE_INTERVAL_US: u64 = 20_000;

/// Where a lane is to be opened.
struct Site {
    runtime: Handle,
    home: u32,
}

impl Site {
    /// The runtime of this very code, or the library's own.
    fn here() -> Option<Site> {
        let (runtime, single) = home::runtime()?;
        Some(Site { runtime, home: if single { home::thread_number() } else { home::SHARED } })
    }

    /// The library's own thread.
    fn background() -> Option<Site> {
        Some(Site { runtime: home::background()?, home: home::SHARED })
    }
}

impl<L: Language> Inner<L> {
    /// Called with every statement, for the lane that was chosen: cheap unless one more lane is wanted.
    pub(crate) fn consider_growth(
        self: &Arc<Self>,
        lanes: usize,
        chosen: &Lane<L>,
        stalled: bool,
        caller: u32,
        now_us: u64,
    ) {
        let foreign = chosen.home() != caller && chosen.home() != home::SHARED;
        let wanted = chosen.depth() >= GROW_DEPTH || foreign || stalled;
        if !wanted || (lanes == 1 && self.limits.connections_max == 1) {
            return;
        }
        let may_connect = lanes < self.limits.connections_max;
        let interval_us = if may_connect { CONSIDER_INTERVAL_US } else { CONSIDER_MOVE_INTERVAL_US };
        let last_us = self.last_considered_us.load(Ordering::Relaxed);
        if now_us.saturating_sub(last_us) < interval_us {
            return;
        }
        self.last_considered_us.store(now_us, Ordering::Relaxed);
        self.ensure_lane();
    }

    /// Whether one more lane is under way, or will be if it is asked for, and there is reason to hope for it.
    #[cold]
    pub(crate) fn may_grow(&self) -> bool {
        let Some((_, single)) = home::runtime() else { return false };
        let home = if single { home::thread_number() } else { home::SHARED };
        let growth = self.growth();
        if growth.failures > 0 {
            return false;
        }
        if growth.connecting > 0 {
            return self.now_us() < growth.connecting_since_us + HOPE_US;
        }
        let lane_homes: Vec<u32> = self.lanes.load().iter().map(|lane| lane.home()).collect();
        let connections_max = self.limits.connections_max;
        let situation = Situation {
            connections_max,
            connecting: 0,
            leased: growth.leases.held.len(),
            lane_homes: &lane_homes,
            home,
            for_lease: false,
            down: false,
        };
        decide(&situation) == Decision::Connect
    }

    /// Opens one more lane from here, if the plan says so.
    #[cold]
    pub(crate) fn ensure_lane(self: &Arc<Self>) {
        if let Some(site) = Site::here() {
            self.open_lane(site, false);
        }
    }

    /// The same for somebody who wants a lease: whichever thread has how many.
    #[cold]
    pub(crate) fn ensure_lane_for_lease(self: &Arc<Self>) {
        if let Some(site) = Site::here() {
            self.open_lane(site, true);
        }
    }

    /// The same, when the runtime of this very code is ending.
    pub(crate) fn ensure_lane_elsewhere(self: &Arc<Self>) {
        if let Some(site) = Site::background() {
            self.open_lane(site, false);
        }
    }

    fn open_lane(self: &Arc<Self>, site: Site, for_lease: bool) {
        let Some(task) = self.begin_opening(site.home, for_lease) else { return };
        site.runtime.spawn(task.run(site.home));
    }

    /// Decides, and takes the place of one connect that is under way.
    fn begin_opening(self: &Arc<Self>, home: u32, for_lease: bool) -> Option<Opening<L>> {
        let mut growth = self.growth();
        if self.closing.load(Ordering::SeqCst) {
            return None;
        }
        let lanes = self.lanes.load();
        let lane_homes: Vec<u32> = lanes.iter().map(|lane| lane.home()).collect();
        let decision = decide(&Situation {
            connections_max: self.limits.connections_max,
            connecting: growth.connecting,
            leased: growth.leases.held.len(),
            lane_homes: &lane_homes,
            home,
            for_lease,
            down: growth.failures > 0,
        });
        let from = match decision {
            Decision::Wait => return None,
            Decision::Connect => None,
            Decision::TakeOver(from) => {
                let candidates = lanes.iter().filter(|lane| lane.home() == from && lane.lock().pipeline.is_open());
                Some(Arc::clone(candidates.min_by_key(|lane| lane.depth())?))
            }
        };
        if growth.connecting == 0 {
            growth.connecting_since_us = self.now_us();
        }
        growth.connecting += 1;
        self.alive.fetch_add(1, Ordering::SeqCst);
        drop(growth);
        let opening = Opening { pool: Arc::clone(self), became_lane: false };
        // It may have become a lease, or drain for one, since it was looked at: then there is nothing to take over.
        from.is_none_or(|lane| lane.drain(AfterDrain::HandOver)).then_some(opening)
    }

    /// The failure that a caller is told at once instead of waiting: the server has just refused to log us in.
    pub(crate) fn refused(&self) -> Option<Arc<ConnectFailure>> {
        let growth = self.growth();
        let fresh = self.now_us() < growth.retry_at_us;
        growth.last_failure.clone().filter(|failure| fresh && failure.is_fatal())
    }

    /// How long to wait before the server may be tried again.
    fn pause(&self) -> Option<Duration> {
        let remaining_us = self.growth().retry_at_us.saturating_sub(self.now_us());
        (remaining_us > 0).then(|| Duration::from_micros(remaining_us))
    }

    fn note_failure(&self, failure: &Arc<ConnectFailure>) {
        trace::connect_failed(failure);
        self.counters.connect_failures.add(1);
        let mut growth = self.growth();
        self.step_back(&mut growth);
        growth.last_failure = Some(Arc::clone(failure));
        drop(growth);
        // Whoever waited for this rather than behind something slow goes there after all.
        self.grant();
    }

    fn step_back(&self, growth: &mut Growth<L>) {
        growth.failures = growth.failures.saturating_add(1);
        growth.retry_at_us = self.now_us() + backoff::delay(growth.failures, home::random()).as_micros() as u64;
    }

    fn note_success(&self) {
        self.counters.connects.add(1);
        let mut growth = self.growth();
        growth.retry_at_us = 0;
        growth.last_failure = None;
    }

    /// A connection has answered something. Only then is all well: that it could be made says little.
    pub(crate) fn note_first_reply(&self) {
        self.growth().failures = 0;
    }

    /// A connection ended before it had answered anything: the next one waits as after a failure to connect, or a server
    /// (or a pooler before one that is down) that closes whatever it accepts would be stormed.
    pub(crate) fn note_early_end(&self) {
        self.step_back(&mut self.growth());
    }
}

/// What came of a connection that was had.
enum Installed {
    /// It is a lane, or there is none to be had by it.
    Done,
    /// Its server was left meanwhile.
    Stale,
}

/// A connect under way. Dropped at any point, it gives its place back.
struct Opening<L: Language> {
    pool: Arc<Inner<L>>,
    became_lane: bool,
}

impl<L: Language> Opening<L> {
    async fn run(mut self, wanted_home: u32) {
        let home = home::of_this_task();
        if home != wanted_home && !self.still_wanted(home) {
            return;
        }
        loop {
            if let Some(pause) = self.pool.pause() {
                home::sleep(pause).await;
            }
            if self.pool.closing.load(Ordering::SeqCst) {
                return;
            }
            // Asked before: a connection may be to a server that is left while it is made.
            let generation = self.pool.growth().generations.current();
            match self.pool.budget.get().await {
                Ok(seat) => match self.install(seat, generation, home) {
                    Installed::Stale => {}
                    Installed::Done => return,
                },
                Err(PoolError::Backend(failure)) => {
                    self.pool.note_failure(&failure);
                    if failure.is_fatal() {
                        self.pool.refuse_leases(&failure);
                        self.pool.waiters.fail_all(&Failure::Refused(failure));
                        return;
                    }
                    if !self.pool.is_waited_for() {
                        return;
                    }
                }
                // The pool was closed meanwhile.
                Err(_) => return,
            }
        }
    }

    /// The task landed on another thread than the one that asked (a thread of a runtime's blocking pool): is the
    /// connection wanted there?
    fn still_wanted(&self, home: u32) -> bool {
        let growth = self.pool.growth();
        let lane_homes: Vec<u32> = self.pool.lanes.load().iter().map(|lane| lane.home()).collect();
        let connecting = growth.connecting.saturating_sub(1);
        let connections_max = self.pool.limits.connections_max;
        let leased = growth.leases.held.len();
        let for_lease = growth.leases.waiting() > 0;
        let situation =
            Situation { connections_max, connecting, leased, lane_homes: &lane_homes, home, for_lease, down: false };
        decide(&situation) == Decision::Connect
    }

    fn install(&mut self, mut seat: Object<Budget<L>>, generation: u64, home: u32) -> Installed {
        let pool = Arc::clone(&self.pool);
        let is_new = matches!(&seat.0, Some(Live { link: Link::New(_), .. }));
        // A failure here is a connection that ended while it changed runtimes; whoever waits has it tried again.
        let Some(live) = take_over(&mut seat) else { return Installed::Done };
        let Live { link: mut socket, inbound, prepared, in_flight_max, birth, round_trip_us, cancellation } = live;
        let birth =
            birth.unwrap_or_else(|| Birth::now(generation, pool.limits.max_lifetime, pool.now_us(), home::random()));
        if is_new {
            pool.note_success();
        }
        let mut growth = pool.growth();
        let closing = pool.closing.load(Ordering::SeqCst);
        if closing || growth.generations.has_left(birth.generation) {
            drop(growth);
            socket.try_write(L::farewell());
            return if closing { Installed::Done } else { Installed::Stale };
        }
        growth.next_lane += 1;
        let number = growth.next_lane;
        let lane = Lane::new(number, birth, home, &pool.limits.lane, in_flight_max, prepared, cancellation);
        let lane = Arc::new(lane);
        pool.list(&lane);
        growth.connecting -= 1;
        self.became_lane = true;
        let housekeeper = pool.keep_house(&mut growth);
        drop(growth);
        if let (Some(housekeeper), Some(runtime)) = (housekeeper, home::background()) {
            runtime.spawn(housekeeper);
        }
        if is_new {
            trace::connected(lane.number, lane.cancellation.as_ref().map(|cancellation| &cancellation.address));
        }
        tokio::spawn(Driver::new(Arc::clone(&pool), Arc::clone(&lane), seat, socket, inbound, round_trip_us).run());
        pool.offer_new(&lane);
        pool.grant();
        if pool.waiters.waiting() > 0 {
            pool.ensure_lane();
        }
        Installed::Done
    }
}

impl<L: Language> Drop for Opening<L> {
    fn drop(&mut self) {
        if self.became_lane {
            return;
        }
        let refused = {
            let mut growth = self.pool.growth();
            growth.connecting -= 1;
            growth.last_failure.as_ref().is_some_and(|failure| failure.is_fatal())
        };
        self.pool.alive.fetch_sub(1, Ordering::SeqCst);
        self.pool.ended.notify_waiters();
        if self.pool.is_waited_for() && !refused {
            self.pool.ensure_lane_elsewhere();
        }
    }
}
