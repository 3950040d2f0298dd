//! The pool: lanes over one budget of connections, and the way of a statement through them.

use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use tokio::sync::Notify;

use crate::budget::Budget;
use crate::connect::within;
use crate::error::{AcquireTimeout, ConnectFailure, Failure, LossCause};
use crate::generations::Generations;
use crate::home;
use crate::lane::{AfterDrain, Lane};
use crate::language::Language;
use crate::lease::Leases;
use crate::limits::PoolLimits;
use crate::lookup::Lookup;
use crate::route;
use crate::stats::{PoolCounters, PoolStats};
use crate::sync::{AtomicBool, Mutex, MutexGuard, fence};
use crate::tenancy::Tenant;
use crate::waiters::Waiters;

/// The state behind the decision to open connections.
pub(crate) struct Growth<L: Language> {
    pub(crate) connecting: usize,
    /// Since when any connect has been under way.
    pub(crate) connecting_since_us: u64,
    /// Attempts since a new connection last answered something: those that failed, and connections that ended unused.
    pub(crate) failures: u32,
    pub(crate) retry_at_us: u64,
    pub(crate) last_failure: Option<Arc<ConnectFailure>>,
    pub(crate) next_lane: u64,
    pub(crate) generations: Generations,
    /// Somebody looks after connections that are old or idle.
    pub(crate) housekeeper: bool,
    pub(crate) leases: Leases<L>,
}

impl<L: Language> Default for Growth<L> {
    fn default() -> Growth<L> {
        Growth {
            connecting: 0,
            connecting_since_us: 0,
            failures: 0,
            retry_at_us: 0,
            last_failure: None,
            next_lane: 0,
            generations: Generations::default(),
            housekeeper: false,
            leases: Leases::default(),
        }
    }
}

/// What all handles of a pool share.
pub(crate) struct Inner<L: Language> {
    /// Tells pools apart in what threads remember.
    pub(crate) number: u64,
    pub(crate) language: Arc<L>,
    pub(crate) limits: PoolLimits,
    pub(crate) budget: deadpool::managed::Pool<Budget<L>>,
    pub(crate) lanes: ArcSwap<Vec<Arc<Lane<L>>>>,
    /// Also serialises changes of `lanes`.
    pub(crate) growth: Mutex<Growth<L>>,
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
    /// The lease whose statements these are.
    pin: Option<Pin<L>>,
}

/// The one connection that a lease's statements go to.
pub(crate) struct Pin<L: Language> {
    pub(crate) lane: Arc<Lane<L>>,
    pub(crate) tenant: Tenant,
}

impl<L: Language> Drop for Open<L> {
    fn drop(&mut self) {
        self.release();
    }
}

impl<L: Language> Open<L> {
    /// Gives this open up, once.
    fn release(&self) {
        if self.pin.is_none() && !self.closed.swap(true, Ordering::SeqCst) {
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
        let manager = Budget { language: Arc::clone(&language), lookup: Lookup::default(), limits: limits.clone() };
        let budget = deadpool::managed::Pool::builder(manager).max_size(limits.connections_max.max(1)).build();
        let Ok(budget) = budget else { unreachable!("a budget without timeouts needs no runtime") };
        static POOLS: AtomicU64 = AtomicU64::new(0);
        let inner = Inner {
            number: POOLS.fetch_add(1, Ordering::Relaxed),
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
        Pool { open: Arc::new(Open { inner: Arc::new(inner), closed: AtomicBool::new(false), pin: None }) }
    }

    /// One more open of a pool, unless its last one was closed.
    pub(crate) fn join(inner: Arc<Inner<L>>) -> Option<Pool<L>> {
        let mut opens = inner.opens.lock().unwrap_or_else(PoisonError::into_inner);
        if *opens == 0 {
            return None;
        }
        *opens += 1;
        drop(opens);
        Some(Pool { open: Arc::new(Open { inner, closed: AtomicBool::new(false), pin: None }) })
    }

    /// A handle whose statements go to a lease's connection. It is no open of the pool.
    pub(crate) fn pinned_to(inner: &Arc<Inner<L>>, lane: &Arc<Lane<L>>, tenant: Tenant) -> Pool<L> {
        let inner = Arc::clone(inner);
        let pin = Some(Pin { lane: Arc::clone(lane), tenant });
        Pool { open: Arc::new(Open { inner, closed: AtomicBool::new(false), pin }) }
    }

    pub(crate) fn pin(&self) -> Option<&Pin<L>> {
        self.open.pin.as_ref()
    }

    /// Whether its statements go to a lease's connection.
    pub fn is_leased(&self) -> bool {
        self.open.pin.is_some()
    }

    /// Whether its statements go to a lease's connection, on which the server says that a transaction is open.
    pub fn is_in_transaction(&self) -> bool {
        self.pin().is_some_and(|pin| !pin.lane.lock().tenancy.settled)
    }

    /// Whether its statements go to a lease on which a transaction was [begun](crate::Lease::begin) and not ended since.
    pub fn expects_transaction(&self) -> bool {
        self.pin().is_some_and(|pin| pin.lane.lock().tenancy.expects_transaction())
    }

    /// Whether its statements go to a lease where a text may mean something else than elsewhere.
    pub fn has_changed_names(&self) -> bool {
        self.pin().is_some_and(|pin| pin.lane.lock().tenancy.prepared_changed)
    }

    /// A lease's statement asks for a transaction that may only read: that it may not write says nothing of the server.
    pub fn expect_read_only(&self) {
        if let Some(pin) = self.pin() {
            pin.lane.lock().tenancy.read_only = true;
        }
    }

    /// A lease's statement changes what may outlast the lease: it is reset when it is given back. `prepared`: as to prepared
    /// statements as well.
    pub fn changes_session(&self, prepared: bool) {
        if let Some(pin) = self.pin() {
            let mut shared = pin.lane.lock();
            shared.tenancy.changed = true;
            shared.tenancy.prepared_changed |= prepared;
            if prepared && L::SERVER_NAMES_STATEMENTS {
                // They are closed as they are prepared anew.
                shared.prepared.doubt_all();
            } else if prepared {
                // Whatever it is about to do to them: prepared anew they are right, also in a transaction, where an error
                // cannot be healed.
                shared.prepared.forget_all();
            }
        }
    }

    /// A lease's statement changes what no reset undoes: its connection is closed when it is given back.
    pub fn spoils_session(&self) {
        if let Some(pin) = self.pin() {
            let mut shared = pin.lane.lock();
            shared.tenancy.changed = true;
            shared.tenancy.spoiled = true;
        }
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
        // In a model time stands still: what happens must depend on nothing but the order of steps.
        if cfg!(cenote_loom) { 1 } else { self.began.elapsed().as_micros() as u64 + 1 }
    }

    pub(crate) fn growth(&self) -> MutexGuard<'_, Growth<L>> {
        self.growth.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether anybody waits for a connection to come.
    pub(crate) fn is_waited_for(&self) -> bool {
        self.waiters.present() > 0 || self.growth().leases.waiting() > 0
    }

    /// Grants the room there is to those who wait. Cheap when nobody does.
    pub(crate) fn grant(&self) {
        // Who frees room publishes it and comes here; who waits has joined and comes here. Behind this at least one of them
        // sees what the other did before.
        fence(Ordering::SeqCst);
        if self.waiters.present() == 0 {
            return;
        }
        let now_us = self.now_us();
        let lanes = self.lanes.load();
        let views = lanes.iter().map(|lane| (lane.in_flight_max, lane.view(home::SHARED, now_us)));
        let open = views.filter(|(_, view)| view.open);
        // Room behind something slow is none while better is to come.
        let mut hope = None;
        let room = open
            .filter(|(_, view)| !view.is_stalled(self.route) || !*hope.get_or_insert_with(|| self.may_grow()))
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
        if self.is_waited_for() {
            if runtime_ends { self.ensure_lane_elsewhere() } else { self.ensure_lane() }
        }
    }

    /// Forgets a lane that has ended, or a lease's connection.
    pub(crate) fn remove_lane(&self, lane: &Arc<Lane<L>>) {
        let mut growth = self.growth();
        self.unlist(lane);
        growth.leases.remove(lane);
        self.counters.retired.absorb(&lane.counters);
    }

    /// Takes a lane out of the list. Under the lock of `growth`.
    pub(crate) fn unlist(&self, lane: &Arc<Lane<L>>) {
        let lanes = self.lanes.load();
        let rest = lanes.iter().filter(|other| !Arc::ptr_eq(other, lane)).cloned().collect();
        self.lanes.store(Arc::new(rest));
    }

    /// Puts a lane into the list. Under the lock of `growth`.
    pub(crate) fn list(&self, lane: &Arc<Lane<L>>) {
        let mut lanes = Vec::clone(&self.lanes.load());
        lanes.push(Arc::clone(lane));
        self.lanes.store(Arc::new(lanes));
    }

    /// One open fewer; the last one drains the pool.
    fn leave(&self) {
        let mut opens = self.opens.lock().unwrap_or_else(PoisonError::into_inner);
        *opens -= 1;
        if *opens > 0 {
            return;
        }
        drop(opens);
        let mut growth = self.growth();
        self.closing.store(true, Ordering::SeqCst);
        let lanes = self.lanes.load_full();
        let verdicts = growth.leases.fail_all(&Failure::Closed);
        drop(growth);
        verdicts.tell();
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
            let held: Vec<_> = self.growth().leases.held.iter().map(|holder| Arc::clone(&holder.lane)).collect();
            for lane in self.lanes.load().iter().chain(&held) {
                lane.kill(LossCause::PoolClosed);
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
        let others = lanes.len() + growth.leases.held.len();
        let connecting = growth.connecting.min(self.limits.connections_max.saturating_sub(others));
        let total = |of: fn(&crate::stats::LaneCounters) -> &crate::stats::Counter| {
            let held = growth.leases.held.iter().map(|holder| &holder.lane);
            of(&counters.retired).get() + lanes.iter().chain(held).map(|lane| of(&lane.counters).get()).sum::<u64>()
        };
        PoolStats {
            connections_max: self.limits.connections_max,
            lanes: lanes.iter().map(|lane| lane.stats(now_us)).collect(),
            leases: growth.leases.stats(now_us),
            connecting,
            waiting: self.waiters.present(),
            waiting_for_lease: growth.leases.waiting(),
            replies: total(|lane| &lane.replies),
            turns: total(|lane| &lane.turns),
            writes: total(|lane| &lane.writes),
            reads: total(|lane| &lane.reads),
            bytes_written: total(|lane| &lane.bytes_written),
            bytes_read: total(|lane| &lane.bytes_read),
            connects: counters.connects.get(),
            connect_failures: counters.connect_failures.get(),
            connections_lost: counters.connections_lost.get(),
            connections_retired: counters.connections_retired.get(),
            hosts_left: counters.hosts_left.get(),
            quarantines: counters.quarantines.get(),
            resubmits: counters.resubmits.get(),
            repeats: counters.repeats.get(),
            overdue: counters.overdue.get(),
            waits: counters.waits.get(),
            leases_taken: counters.leases.get(),
            lease_waits: counters.lease_waits.get(),
            leases_restored: counters.leases_restored.get(),
            leases_closed: counters.leases_closed.get(),
            cancels: counters.cancels.get(),
            cancelling: usize::try_from(counters.cancelling.get()).unwrap_or(usize::MAX),
            acquire_timeouts: counters.acquire_timeouts.get(),
            replies_too_large: counters.replies_too_large.get(),
            lost_after_sent: counters.lost_after_sent.get(),
        }
    }
}
