//! The pool: lanes over one budget of connections, and the way of a statement through them.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use tokio::sync::Notify;

use crate::budget::Budget;
use crate::connect::within;
use crate::error::{AcquireTimeout, ConnectFailure, Failure};
use crate::home;
use crate::lane::{AfterDrain, Lane};
use crate::language::Language;
use crate::limits::PoolLimits;
use crate::route;
use crate::stats::{PoolCounters, PoolStats};
use crate::waiters::Waiters;

/// The state behind the decision to open connections.
#[derive(Debug, Default)]
pub(crate) struct Growth {
    pub(crate) connecting: usize,
    /// Attempts since a new connection last answered something: those that failed, and connections that ended unused.
    pub(crate) failures: u32,
    pub(crate) retry_at_us: u64,
    pub(crate) last_failure: Option<Arc<ConnectFailure>>,
    pub(crate) next_lane: u64,
}

/// What all handles of a pool share.
pub(crate) struct Inner<L: Language> {
    pub(crate) language: Arc<L>,
    pub(crate) limits: PoolLimits,
    pub(crate) budget: deadpool::managed::Pool<Budget<L>>,
    pub(crate) lanes: ArcSwap<Vec<Arc<Lane<L>>>>,
    /// Also serialises changes of `lanes`.
    pub(crate) growth: Mutex<Growth>,
    pub(crate) waiters: Arc<Waiters>,
    pub(crate) counters: PoolCounters,
    pub(crate) route: route::Limits,
    began: Instant,
    opens: Mutex<usize>,
    pub(crate) closing: AtomicBool,
    /// Lanes whose driver has not finished, and connects under way.
    pub(crate) alive: AtomicUsize,
    pub(crate) ended: Notify,
    pub(crate) last_considered_us: AtomicU64,
    /// Somebody watches over lanes that collect replies.
    pub(crate) watched: AtomicBool,
}

/// A handle of a pool. Clones share one open; the pool drains when every open of it is closed or dropped.
pub struct Pool<L: Language> {
    open: Arc<Open<L>>,
}

impl<L: Language> Clone for Pool<L> {
    fn clone(&self) -> Pool<L> {
        Pool { open: Arc::clone(&self.open) }
    }
}

struct Open<L: Language> {
    inner: Arc<Inner<L>>,
    closed: AtomicBool,
}

impl<L: Language> Drop for Open<L> {
    fn drop(&mut self) {
        self.release();
    }
}

impl<L: Language> Open<L> {
    /// Gives this open up, once.
    fn release(&self) {
        if !self.closed.swap(true, Ordering::SeqCst) {
            self.inner.leave();
        }
    }
}

impl<L: Language> fmt::Debug for Pool<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("stats", &self.stats()).finish_non_exhaustive()
    }
}

impl<L: Language> Pool<L> {
    /// A pool that nobody else can join. No I/O.
    pub fn new(language: L, limits: PoolLimits) -> Pool<L> {
        let language = Arc::new(language);
        let manager = Budget { language: Arc::clone(&language), limits: limits.clone() };
        let budget = deadpool::managed::Pool::builder(manager).max_size(limits.connections_max.max(1)).build();
        let Ok(budget) = budget else { unreachable!("a budget without timeouts needs no runtime") };
        let inner = Inner {
            language,
            budget,
            lanes: ArcSwap::default(),
            growth: Mutex::default(),
            waiters: Waiters::new(limits.waiters_max),
            counters: PoolCounters::default(),
            route: route::Limits::new(limits.lane.in_flight_max),
            began: Instant::now(),
            opens: Mutex::new(1),
            closing: AtomicBool::new(false),
            alive: AtomicUsize::new(0),
            ended: Notify::new(),
            last_considered_us: AtomicU64::new(0),
            watched: AtomicBool::new(false),
            limits,
        };
        Pool { open: Arc::new(Open { inner: Arc::new(inner), closed: AtomicBool::new(false) }) }
    }

    /// One more open of a pool, unless its last one was closed.
    pub(crate) fn join(inner: Arc<Inner<L>>) -> Option<Pool<L>> {
        let mut opens = inner.opens.lock().unwrap_or_else(PoisonError::into_inner);
        if *opens == 0 {
            return None;
        }
        *opens += 1;
        drop(opens);
        Some(Pool { open: Arc::new(Open { inner, closed: AtomicBool::new(false) }) })
    }

    pub(crate) fn inner(&self) -> &Arc<Inner<L>> {
        &self.open.inner
    }

    /// The language, with whatever the driver keeps in it for the whole pool.
    pub fn language(&self) -> &L {
        &self.open.inner.language
    }

    /// Whether this open was closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.open.closed.load(Ordering::Relaxed)
    }

    /// Gives up this open of the pool; the last one to do so drains it: statements in flight are finished, up to the
    /// deadline, and then the connections are closed. Closing twice is harmless.
    pub async fn close(&self, deadline: Duration) {
        self.open.release();
        let inner = self.inner();
        if inner.closing.load(Ordering::SeqCst) {
            inner.drained(deadline).await;
        }
    }

    /// The pool's counters right now.
    pub fn stats(&self) -> PoolStats {
        self.inner().stats()
    }
}

impl<L: Language> Inner<L> {
    /// Microseconds since the pool was opened, never 0.
    pub(crate) fn now_us(&self) -> u64 {
        self.began.elapsed().as_micros() as u64 + 1
    }

    pub(crate) fn growth(&self) -> MutexGuard<'_, Growth> {
        self.growth.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Grants the room there is to those who wait. Cheap when nobody does.
    pub(crate) fn grant(&self) {
        if self.waiters.present() == 0 {
            return;
        }
        let now_us = self.now_us();
        let lanes = self.lanes.load();
        let room = lanes
            .iter()
            .map(|lane| (lane.in_flight_max, lane.view(home::SHARED, now_us)))
            .filter(|(_, view)| view.open)
            .map(|(in_flight_max, view)| in_flight_max.saturating_sub(view.depth))
            .sum();
        self.waiters.grant(room);
    }

    pub(crate) fn acquire_timed_out(&self, waited: Duration) -> Failure {
        self.counters.acquire_timeouts.add(1);
        let last_connect_failure = self.growth().last_failure.clone();
        Failure::AcquireTimeout(Arc::new(AcquireTimeout { waited, stats: self.stats(), last_connect_failure }))
    }

    /// The driver of a lane has finished and its connection is closed or given back.
    pub(crate) fn lane_ended(self: &Arc<Self>, runtime_ends: bool) {
        self.alive.fetch_sub(1, Ordering::SeqCst);
        self.ended.notify_waiters();
        if self.waiters.present() > 0 {
            if runtime_ends { self.ensure_lane_elsewhere() } else { self.ensure_lane() }
        }
    }

    /// Takes a lane out of the list.
    pub(crate) fn remove_lane(&self, lane: &Arc<Lane<L>>) {
        let _growth = self.growth();
        let lanes = self.lanes.load();
        let rest = lanes.iter().filter(|other| !Arc::ptr_eq(other, lane)).cloned().collect();
        self.lanes.store(Arc::new(rest));
        self.counters.retired.absorb(&lane.counters);
    }

    /// One open fewer; the last one drains the pool.
    fn leave(&self) {
        let mut opens = self.opens.lock().unwrap_or_else(PoisonError::into_inner);
        *opens -= 1;
        if *opens > 0 {
            return;
        }
        drop(opens);
        let growth = self.growth();
        self.closing.store(true, Ordering::SeqCst);
        let lanes = self.lanes.load_full();
        drop(growth);
        self.budget.close();
        self.waiters.fail_all(&Failure::Closed);
        for lane in lanes.iter() {
            lane.drain(AfterDrain::Close);
        }
        self.ended.notify_waiters();
    }

    /// Waits until no connection is left; at the deadline ends those that are.
    async fn drained(&self, deadline: Duration) {
        if within(deadline, self.all_ended()).await.is_none() {
            for lane in self.lanes.load().iter() {
                lane.kill();
            }
        }
    }

    async fn all_ended(&self) {
        loop {
            let ended = self.ended.notified();
            let mut ended = std::pin::pin!(ended);
            ended.as_mut().enable();
            if self.alive.load(Ordering::SeqCst) == 0 {
                return;
            }
            ended.await;
        }
    }

    pub(crate) fn stats(&self) -> PoolStats {
        let counters = &self.counters;
        let now_us = self.now_us();
        // Under the lock that lanes come and go by, so that no lane is counted twice or not at all.
        let growth = self.growth();
        let lanes = self.lanes.load();
        // Who takes a lane over has no place of his own until that lane has drained.
        let connecting = growth.connecting.min(self.limits.connections_max.saturating_sub(lanes.len()));
        let total = |of: fn(&crate::stats::LaneCounters) -> &crate::stats::Counter| {
            of(&counters.retired).get() + lanes.iter().map(|lane| of(&lane.counters).get()).sum::<u64>()
        };
        PoolStats {
            connections_max: self.limits.connections_max,
            lanes: lanes.iter().map(|lane| lane.stats(now_us)).collect(),
            connecting,
            waiting: self.waiters.present(),
            replies: total(|lane| &lane.replies),
            turns: total(|lane| &lane.turns),
            writes: total(|lane| &lane.writes),
            reads: total(|lane| &lane.reads),
            bytes_written: total(|lane| &lane.bytes_written),
            bytes_read: total(|lane| &lane.bytes_read),
            connects: counters.connects.get(),
            connect_failures: counters.connect_failures.get(),
            connections_lost: counters.connections_lost.get(),
            quarantines: counters.quarantines.get(),
            resubmits: counters.resubmits.get(),
            waits: counters.waits.get(),
            acquire_timeouts: counters.acquire_timeouts.get(),
            replies_too_large: counters.replies_too_large.get(),
            lost_after_sent: counters.lost_after_sent.get(),
        }
    }
}
