//! Leases: a connection for one caller alone, for as long as he holds it.
//!
//! ```text
//!  lane, idle ────────────────────────────────┐
//!  lane, told to drain ── nothing in flight ──┼──> lease ── dropped ── clean? ──> lane again, at once
//!  new connection ────────────────────────────┘                          └─ no ──> rolled back, reset ──> lane again
//!                                                                                  └── not within its time: closed
//! ```
//!
//! A lease is the same connection, with the same driver, place in the budget and prepared statements: what changes is
//! who may submit to it. So taking one from an idle pool, and giving a clean one back, costs no round trip and no task.
//! Its statements are pipelined as anybody's.
//!
//! Of N connections at least one is never leased, so that ordinary queries of somebody who holds a lease cannot wait for
//! themselves; of one it is, and ordinary queries wait.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::cancel::Canceller;
use crate::connect::within;
use crate::error::{ConnectFailure, Failure};
use crate::home;
use crate::lane::{AfterDrain, Lane, Shared};
use crate::language::Language;
use crate::pool::{Growth, Inner, Pool};
use crate::route::Nearness;
use crate::stats::LeaseStats;
use crate::tenancy::{Tenancy, Tenant};
use crate::trace;

/// Who waits for a lease looks so often whether one can be had of which nobody has told.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// A connection for one caller alone. Dropped, it goes back: at once when it is as it was, else when it has been rolled back
/// and reset.
pub struct Lease<L: Language> {
    /// A handle of the pool whose statements go to this connection.
    pool: Pool<L>,
    lane: Arc<Lane<L>>,
    tenant: Tenant,
}

impl<L: Language> fmt::Debug for Lease<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease").field("lane", &self.lane.number).finish_non_exhaustive()
    }
}

/// Who asked for a lease.
#[derive(Clone, Debug)]
struct Owner {
    location: &'static Location<'static>,
    thread: Arc<str>,
}

/// A lease that is held, or on its way back.
pub(crate) struct Holder<L: Language> {
    pub(crate) lane: Arc<Lane<L>>,
    since_us: u64,
    owner: Owner,
    /// It has been told that it is held for long.
    told: bool,
}

impl<L: Language> Holder<L> {
    fn stats(&self, now_us: u64) -> LeaseStats {
        LeaseStats {
            lane: self.lane.number,
            held_us: now_us.saturating_sub(self.since_us),
            taken_at: self.owner.location.to_string(),
            thread: self.owner.thread.to_string(),
        }
    }
}

type Verdict<L> = Result<Lease<L>, Failure>;

/// A caller who waits for a lease.
struct Waiting<L: Language> {
    ticket: u64,
    owner: Owner,
    sender: oneshot::Sender<Verdict<L>>,
}

/// What a pool knows of its leases. Behind the lock that lanes come and go by.
pub(crate) struct Leases<L: Language> {
    pub(crate) held: Vec<Holder<L>>,
    waiting: VecDeque<Waiting<L>>,
    last_tenant: u64,
    last_ticket: u64,
}

impl<L: Language> Default for Leases<L> {
    fn default() -> Leases<L> {
        Leases { held: Vec::new(), waiting: VecDeque::new(), last_tenant: 0, last_ticket: 0 }
    }
}

impl<L: Language> Leases<L> {
    /// Callers that wait for one.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    pub(crate) fn stats(&self, now_us: u64) -> Vec<LeaseStats> {
        self.held.iter().map(|holder| holder.stats(now_us)).collect()
    }

    /// Those that have been held for longer than this, once each: what they are told of with.
    pub(crate) fn held_long(&mut self, limit: Duration, now_us: u64) -> Vec<LeaseStats> {
        let long = |holder: &mut &mut Holder<L>| {
            let held = Duration::from_micros(now_us.saturating_sub(holder.since_us));
            held >= limit && !std::mem::replace(&mut holder.told, true)
        };
        self.held.iter_mut().filter_map(|mut holder| long(&mut holder).then(|| holder.stats(now_us))).collect()
    }

    /// The lane has ended.
    pub(crate) fn remove(&mut self, lane: &Arc<Lane<L>>) -> Option<Holder<L>> {
        let place = self.held.iter().position(|holder| Arc::ptr_eq(&holder.lane, lane))?;
        Some(self.held.remove(place))
    }

    /// Everybody who waits is to be told.
    pub(crate) fn fail_all(&mut self, failure: &Failure) -> Verdicts<L> {
        let waiting = std::mem::take(&mut self.waiting);
        Verdicts(waiting.into_iter().map(|waiting| (waiting, Some(Err(failure.clone())))).collect())
    }
}

/// What those who waited are told when the lock is released: to wake is to run code of theirs, which may come back here.
#[must_use]
pub(crate) struct Verdicts<L: Language>(Vec<(Waiting<L>, Option<Verdict<L>>)>);

impl<L: Language> Verdicts<L> {
    /// Tells them. Not under the lock: a lease whose caller has given up in this very moment goes back from here.
    pub(crate) fn tell(self) {
        for (waiting, verdict) in self.0 {
            if let Some(verdict) = verdict {
                drop(waiting.sender.send(verdict));
            }
        }
    }

    fn has_given(&self) -> bool {
        self.0.iter().any(|(_, verdict)| verdict.is_some())
    }
}

/// A place among those who wait for a lease. Dropped, it is left; a lease that was handed to it goes back.
struct Place<L: Language> {
    pool: Arc<Inner<L>>,
    ticket: u64,
    verdict: oneshot::Receiver<Verdict<L>>,
}

impl<L: Language> Drop for Place<L> {
    fn drop(&mut self) {
        let mut growth = self.pool.growth();
        let waiting = &mut growth.leases.waiting;
        let place = waiting.iter().position(|waiting| waiting.ticket == self.ticket);
        let own = place.and_then(|place| waiting.remove(place));
        drop(growth);
        // With it goes a waker, which is code of somebody else's.
        drop(own);
        // He was taken out of the queue if a verdict is on its way: it goes back, from here or from who sends it.
        self.verdict.close();
        drop(self.verdict.try_recv());
    }
}

impl<L: Language> Pool<L> {
    /// A connection for the caller alone: an idle one at once, else the first that can be had. Callers are served in turn.
    ///
    /// # Errors
    ///
    /// [`Failure::AcquireTimeout`] with what the pool looked like and who holds its leases; [`Failure::Refused`],
    /// [`Failure::TooManyWaiters`], [`Failure::Closed`].
    ///
    /// `location` is who asks: it is named to those who wait in vain.
    pub fn lease(
        &self,
        location: &'static Location<'static>,
    ) -> impl Future<Output = Result<Lease<L>, Failure>> + Send + use<L> {
        let pool = self.clone();
        async move {
            let lease = pool.lease_for(location).await?;
            trace::leased(lease.lane.number, location);
            Ok(lease)
        }
    }

    async fn lease_for(self, location: &'static Location<'static>) -> Verdict<L> {
        let thread = std::thread::current().name().unwrap_or("unnamed").into();
        let owner = Owner { location, thread };
        let inner = Arc::clone(self.inner());
        let began_us = inner.now_us();
        let mut place = match inner.lease_or_wait(&self, owner)? {
            Ok(lease) => return Ok(lease),
            Err(place) => place,
        };
        inner.counters.lease_waits.add(1);
        loop {
            inner.provide_for_leases();
            let waited = Duration::from_micros(inner.now_us().saturating_sub(began_us));
            let remaining = inner.limits.acquire_timeout.saturating_sub(waited);
            match within(remaining.min(LOOK_INTERVAL), &mut place.verdict).await {
                Some(Ok(verdict)) => return verdict,
                Some(Err(_)) => return Err(Failure::Closed),
                None if remaining > LOOK_INTERVAL => {}
                None => {
                    // What was sent in this very moment goes back with the place.
                    drop(place);
                    return Err(inner.acquire_timed_out(waited));
                }
            }
        }
    }
}

impl<L: Language> Inner<L> {
    fn lease_or_wait(self: &Arc<Self>, pool: &Pool<L>, owner: Owner) -> Result<Result<Lease<L>, Place<L>>, Failure> {
        if pool.is_closed() {
            return Err(Failure::Closed);
        }
        let mut growth = self.growth();
        if self.closing.load(Ordering::SeqCst) {
            return Err(Failure::Closed);
        }
        if growth.leases.waiting.is_empty()
            && let Some(lane) = self.idle_lane(&growth)
            && let Some(lease) = self.take(&mut growth, &lane, owner.clone())
        {
            return Ok(Ok(lease));
        }
        if let Some(failure) = growth.last_failure.clone()
            && failure.is_fatal()
            && self.now_us() < growth.retry_at_us
        {
            return Err(Failure::Refused(failure));
        }
        if growth.leases.waiting.len() >= self.limits.waiters_max {
            return Err(Failure::TooManyWaiters { waiters_max: self.limits.waiters_max });
        }
        growth.leases.last_ticket += 1;
        let ticket = growth.leases.last_ticket;
        let (sender, verdict) = oneshot::channel();
        growth.leases.waiting.push_back(Waiting { ticket, owner, sender });
        Ok(Err(Place { pool: Arc::clone(self), ticket, verdict }))
    }

    /// Leases at once, at most.
    fn leases_max(&self) -> usize {
        self.limits.connections_max.saturating_sub(1).max(1)
    }

    /// A lane that nobody uses, on the caller's own thread if there is one there. The last in the list, which routing comes
    /// to last.
    fn idle_lane(&self, growth: &Growth<L>) -> Option<Arc<Lane<L>>> {
        if growth.leases.held.len() >= self.leases_max() {
            return None;
        }
        let caller = home::thread_number();
        let lanes = self.lanes.load();
        let nearness = |lane: &&Arc<Lane<L>>| match lane.home() {
            home if home == caller => Nearness::Own,
            home::SHARED => Nearness::Shared,
            _ => Nearness::Foreign,
        };
        lanes.iter().filter(|lane| lane.depth() == 0 && lane.lock().is_idle()).max_by_key(nearness).cloned()
    }

    /// Makes a lease of a lane, if it is idle, or has drained for that.
    fn take(self: &Arc<Self>, growth: &mut Growth<L>, lane: &Arc<Lane<L>>, owner: Owner) -> Option<Lease<L>> {
        let tenant = Tenant(growth.leases.last_tenant + 1);
        {
            let mut shared = lane.lock();
            if shared.after_drain == AfterDrain::Lease && shared.pipeline.is_drained() {
                // In one go: whoever waits for room would be here first.
                reopen(&mut shared);
            }
            if !shared.is_idle() {
                return None;
            }
            shared.tenancy = Tenancy::new(tenant);
            lane.publish(&shared);
        }
        growth.leases.last_tenant += 1;
        self.unlist(lane);
        let since_us = self.now_us();
        growth.leases.held.push(Holder { lane: Arc::clone(lane), since_us, owner, told: false });
        self.counters.leases.add(1);
        Some(Lease { pool: Pool::pinned_to(self, lane, tenant), lane: Arc::clone(lane), tenant })
    }

    /// Gives an idle lane to whoever waits first; to nobody if nobody does, or it had better stay what it is.
    fn offer(self: &Arc<Self>, growth: &mut Growth<L>, lane: &Arc<Lane<L>>) -> Verdicts<L> {
        // The last one stays with those who share it, as long as any of them waits: until it is drained for a lease. So both
        // have their turn.
        let others = self.lanes.load().iter().any(|other| !Arc::ptr_eq(other, lane));
        if !others && self.waiters.present() > 0 {
            return Verdicts(Vec::new());
        }
        self.offer_any(growth, lane)
    }

    fn offer_any(self: &Arc<Self>, growth: &mut Growth<L>, lane: &Arc<Lane<L>>) -> Verdicts<L> {
        let mut verdicts = Verdicts(Vec::new());
        if growth.leases.held.len() >= self.leases_max() {
            return verdicts;
        }
        while let Some(waiting) = growth.leases.waiting.pop_front() {
            if waiting.sender.is_closed() {
                verdicts.0.push((waiting, None));
                continue;
            }
            match self.take(growth, lane, waiting.owner.clone()) {
                Some(lease) => verdicts.0.push((waiting, Some(Ok(lease)))),
                // Somebody was quicker to use the lane.
                None => growth.leases.waiting.push_front(waiting),
            }
            break;
        }
        verdicts
    }

    /// A lane has drained because somebody wants a lease. Whatever becomes of it, it takes statements again.
    pub(crate) fn drained_for_lease(self: &Arc<Self>, lane: &Arc<Lane<L>>) {
        let mut growth = self.growth();
        if self.closing.load(Ordering::SeqCst) || growth.generations.has_left(lane.birth.generation) {
            drop(growth);
            lane.drain(AfterDrain::Close);
            return;
        }
        let verdicts = self.offer_any(&mut growth, lane);
        let given = verdicts.has_given();
        if !given {
            let mut shared = lane.lock();
            reopen(&mut shared);
            lane.publish(&shared);
        }
        drop(growth);
        verdicts.tell();
        if !given {
            self.grant();
        }
    }

    /// A connection has become a lane: perhaps somebody waits for a lease.
    pub(crate) fn offer_new(self: &Arc<Self>, lane: &Arc<Lane<L>>) {
        let mut growth = self.growth();
        if growth.leases.waiting.is_empty() {
            return;
        }
        let verdicts = self.offer(&mut growth, lane);
        drop(growth);
        verdicts.tell();
    }

    /// Gives the idle lanes to those who wait for a lease.
    fn give_idle(self: &Arc<Self>) {
        let mut given = true;
        while given {
            let mut growth = self.growth();
            if growth.leases.waiting.is_empty() {
                return;
            }
            let Some(lane) = self.idle_lane(&growth) else { return };
            let verdicts = self.offer(&mut growth, &lane);
            drop(growth);
            given = verdicts.has_given();
            verdicts.tell();
        }
    }

    /// Sees to it that those who wait for a lease get one: an idle lane, one more connection, or a lane that drains.
    pub(crate) fn provide_for_leases(self: &Arc<Self>) {
        self.give_idle();
        let growth = self.growth();
        let wanted = growth.leases.waiting.len();
        let lanes = self.lanes.load_full();
        let (now_us, caller) = (self.now_us(), home::thread_number());
        let is_stalled = |lane: &Arc<Lane<L>>| lane.view(caller, now_us).is_stalled(self.route);
        let draining = lanes.iter().filter(|lane| lane.drains_for_lease()).count();
        let stalled = lanes.iter().filter(|lane| lane.drains_for_lease() && is_stalled(lane)).count();
        let held = growth.leases.held.len();
        // Of a prober that has failed so far nothing is to be hoped.
        let connecting = if growth.failures == 0 { growth.connecting } else { 0 };
        let under_way = connecting + draining;
        if wanted + stalled <= under_way || held + draining >= self.leases_max() {
            return;
        }
        let full = lanes.len() + held + connecting >= self.limits.connections_max;
        if !full && growth.failures == 0 {
            drop(growth);
            self.ensure_lane_for_lease();
            return;
        }
        let spared = usize::from(self.limits.connections_max > 1 && full);
        let candidates = lanes.iter().filter(|lane| lane.lock().pipeline.is_open());
        if candidates.clone().count() <= spared {
            return;
        }
        let best = candidates.min_by_key(|lane| lane.view(caller, now_us).outstanding_us());
        // Beside one that stalls another may drain, but only one that will be sooner.
        let best = best.filter(|lane| wanted > under_way || !is_stalled(lane));
        drop(growth);
        if let Some(lane) = best {
            lane.drain(AfterDrain::Lease);
        }
    }

    /// The server refuses to log us in: nobody who waits for a lease will get one.
    pub(crate) fn refuse_leases(&self, failure: &Arc<ConnectFailure>) {
        let verdicts = self.growth().leases.fail_all(&Failure::Refused(Arc::clone(failure)));
        verdicts.tell();
    }

    /// A lease has come back clean.
    pub(crate) fn give_back(self: &Arc<Self>, lane: &Arc<Lane<L>>, tenant: Tenant) {
        let mut growth = self.growth();
        let mut shared = lane.lock();
        if shared.tenancy.tenant != tenant {
            return;
        }
        let holder = growth.leases.remove(lane);
        if !shared.pipeline.is_open() || shared.killed.is_some() {
            // Its driver ends it.
            return;
        }
        shared.forget_lead();
        shared.tenancy = Tenancy::default();
        lane.publish(&shared);
        drop(shared);
        self.list(lane);
        let ends = self.closing.load(Ordering::SeqCst) || growth.generations.has_left(lane.birth.generation);
        let verdicts = if ends { Verdicts(Vec::new()) } else { self.offer(&mut growth, lane) };
        drop(growth);
        let given = verdicts.has_given();
        verdicts.tell();
        if let Some(holder) = holder {
            let held = Duration::from_micros(self.now_us().saturating_sub(holder.since_us));
            trace::lease_returned(lane.number, holder.owner.location, held);
        }
        if ends {
            lane.drain(AfterDrain::Close);
            return;
        }
        if !given {
            self.grant();
        }
    }
}

/// Takes statements again, having drained for a lease.
fn reopen(shared: &mut Shared) {
    shared.pipeline.reopen();
    shared.after_drain = AfterDrain::Close;
}

impl<L: Language> Lease<L> {
    /// A handle of the pool whose statements go to this connection and nowhere else. It does nothing once the lease has
    /// gone back.
    pub fn pool(&self) -> &Pool<L> {
        &self.pool
    }

    /// Statements in flight on it, at most.
    pub fn in_flight_max(&self) -> usize {
        self.lane.in_flight_max
    }

    /// A transaction begins with the next statement: `lead` goes in front of it. Where the server goes on behind a statement
    /// that has ended the transaction, `one_at_a_time` keeps the next one back until the last is answered.
    pub fn begin(&self, lead: Vec<Box<[u8]>>, one_at_a_time: bool) {
        let mut shared = self.lane.lock();
        shared.forget_lead();
        shared.prepared.doubt_unconfirmed();
        let in_flight = shared.pipeline.depth();
        shared.tenancy.begin(lead, one_at_a_time, in_flight);
    }

    /// It is a transaction for reading: that it may not write says nothing of the server.
    pub fn expect_read_only(&self) {
        self.lane.lock().tenancy.read_only = true;
    }

    /// Something of the transaction is about to be undone, with which the server may have failed to prepare statements.
    pub fn undoes(&self) {
        self.lane.lock().prepared.doubt_unconfirmed();
    }

    /// The transaction is to end now. `false`: the server has never heard of it, and there is nothing to do.
    pub fn end(&self) -> bool {
        self.lane.lock().tenancy.end()
    }

    /// Whether the server has heard of the transaction: else there is nothing to commit.
    pub fn has_begun(&self) -> bool {
        self.lane.lock().tenancy.has_begun()
    }

    /// Why nothing could have been done in a transaction of which the server has not heard: its connection is lost, or it was to
    /// begin within another.
    pub fn loss(&self) -> Option<Failure> {
        let shared = self.lane.lock();
        match shared.lost.clone() {
            Some(loss) => Some(Failure::lost_unsent(loss)),
            None => shared.tenancy.occupied.then_some(Failure::InTransaction),
        }
    }

    /// Whether the server says that a transaction is open.
    pub fn is_in_transaction(&self) -> bool {
        !self.lane.lock().tenancy.settled
    }

    /// Queues what nobody waits for: it has one reply, which is read and dropped. Where only one may be in flight and one is,
    /// it follows that, before anything else.
    pub fn send_unheard(&self, message: &[u8]) {
        self.undoes();
        self.lane.send_unheard(message, self.tenant, self.pool.inner().now_us());
    }

    /// What stops the statement that runs on it.
    pub fn canceller(&self) -> Canceller<L> {
        Canceller::new(Arc::clone(self.inner()), Arc::clone(&self.lane), self.tenant)
    }

    fn inner(&self) -> &Arc<Inner<L>> {
        self.pool.inner()
    }
}

impl<L: Language> Drop for Lease<L> {
    fn drop(&mut self) {
        let mut shared = self.lane.lock();
        if shared.tenancy.tenant != self.tenant || self.tenant == Tenant::PUBLIC {
            return;
        }
        // Nothing may come between what is looked at here and the connection's return.
        shared.tenancy.ended = true;
        // Whoever was to look at it has gone.
        shared.lead_outcome();
        let ending = shared.tenancy.ending;
        shared.tenancy.end();
        shared.tenancy.ending = ending;
        let clean = shared.tenancy.is_clean() && shared.is_at_rest();
        drop(shared);
        if clean {
            self.inner().give_back(&self.lane, self.tenant);
            return;
        }
        crate::restore::begin(Arc::clone(self.inner()), Arc::clone(&self.lane), self.tenant);
    }
}
