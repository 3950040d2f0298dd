//! A lane: one connection that any number of callers share, seen from the callers' side.
//!
//! A statement has two states only: not queued, or queued. Queueing is one short lock and no await; the bytes and
//! the slot are pushed in the same step, so that the order of bytes is the order of slots. The lock is never held
//! across a system call, a wake-up or anybody's code. The other side is the driver.

use std::collections::VecDeque;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::cancel::Cancellation;
use crate::error::{Failure, Loss, LossCause};
use crate::home;
use crate::language::{Language, Preparation, StatementId};
use crate::limits::{LEASE_WAITERS_MAX, LaneLimits};
use crate::pipeline::{FULL_WRITE_BYTES, Outcome, Pipeline, Refusal, SlotKey};
use crate::prepared::{Prepared, Readiness, Standing};
use crate::retirement::Birth;
use crate::route::{Nearness, View};
use crate::stats::{LaneCounters, LaneStats};
use crate::sync::{self, Mutex, MutexGuard};
use crate::tenancy::{Tenancy, Tenant};

/// One statement, or several of one caller, with exactly one reply.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Submission<'a> {
    /// What must be prepared before it, in order.
    pub(crate) preparations: &'a [&'a Preparation],
    /// The encoded statement.
    pub(crate) payload: &'a [u8],
}

impl Submission<'_> {
    /// All of it was quick of late. What has not been answered yet is not known to be.
    pub(crate) fn is_quick(&self) -> bool {
        !self.preparations.is_empty() && self.preparations.iter().all(|preparation| preparation.pace.is_quick())
    }

    /// Some of it was slow of late.
    pub(crate) fn is_slow(&self) -> bool {
        self.preparations.iter().any(|preparation| preparation.pace.is_slow())
    }
}

/// What came of a submission.
pub(crate) enum Submitted<L: Language> {
    /// It is queued.
    Statement(Answer<L>),
    /// Where the server names statements: it has to be prepared here first, and that is queued.
    Preparation(Answer<L>),
    /// The same, and another caller's preparation is under way; the waker is woken when it has ended.
    Pending(Arc<Lane<L>>),
    /// Something leads it, and there is no room for both at once: a part of that is queued.
    Lead(Answer<L>),
}

/// What a lane does when it has drained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AfterDrain {
    /// Close the connection.
    Close,
    /// Give the warm connection back to the budget, for whoever waits for one.
    HandOver,
    /// Go to whoever waits for a lease, and stay where it is driven.
    Lease,
}

/// What is behind the lane's lock.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) pipeline: Pipeline,
    pub(crate) prepared: Prepared,
    /// Where the server names statements: submissions so far, and which of those the driver has not taken yet are
    /// preparations.
    pub(crate) submitted: u64,
    new_preparations: Vec<(u64, StatementId)>,
    pub(crate) driver: Option<Waker>,
    pub(crate) after_drain: AfterDrain,
    /// Why the driver is to end the lane with what is in flight.
    pub(crate) killed: Option<LossCause>,
    pub(crate) tenancy: Tenancy,
    /// What became of the connection, once it was lost.
    pub(crate) lost: Option<Arc<Loss>>,
    /// What has come is to be fetched, however little it is.
    pub(crate) fetch: bool,
}

/// What callers read without the lock, to choose a lane. Written under the lock; nothing is ordered by it, so a
/// caller may see it a moment late, and the lock has the last word.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Load {
    open: sync::AtomicBool,
    depth: sync::AtomicU32,
    oldest_since_us: AtomicU64,
    service_us: AtomicU64,
    writes_soon: AtomicBool,
    drains_for_lease: sync::AtomicBool,
    slow: AtomicBool,
    collects: AtomicBool,
}

/// One shared connection, seen from its callers.
pub(crate) struct Lane<L> {
    pub(crate) number: u64,
    pub(crate) birth: Birth,
    home: AtomicU32,
    /// Statements in flight at most: the pool's limit, or fewer where this connection bears fewer.
    pub(crate) in_flight_max: usize,
    /// How its statements are stopped.
    pub(crate) cancellation: Option<Arc<Cancellation>>,
    pub(crate) counters: LaneCounters,
    shared: Mutex<Shared>,
    load: Load,
    _language: PhantomData<fn() -> L>,
}

impl<L: Language> Lane<L> {
    pub(crate) fn new(
        number: u64,
        birth: Birth,
        home: u32,
        limits: &LaneLimits,
        in_flight_max: usize,
        prepared: Prepared,
        cancellation: Option<Arc<Cancellation>>,
    ) -> Lane<L> {
        Lane {
            number,
            birth,
            home: AtomicU32::new(home),
            in_flight_max,
            cancellation,
            counters: LaneCounters::default(),
            shared: Mutex::new(Shared {
                pipeline: Pipeline::new(in_flight_max, limits.unsent_bytes_max),
                prepared,
                submitted: 0,
                new_preparations: Vec::new(),
                driver: None,
                after_drain: AfterDrain::Close,
                killed: None,
                tenancy: Tenancy::default(),
                lost: None,
                fetch: false,
            }),
            load: Load { open: sync::AtomicBool::new(true), ..Load::default() },
            _language: PhantomData,
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Shared> {
        // What is behind the lock is consistent between any two statements of this crate; a panic of ours in
        // between must not take the other callers with it.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The thread that drives it.
    pub(crate) fn home(&self) -> u32 {
        self.home.load(Ordering::Relaxed)
    }

    pub(crate) fn set_home(&self, home: u32) {
        self.home.store(home, Ordering::Relaxed);
    }

    /// Makes the state behind the lock visible to those who choose a lane.
    pub(crate) fn publish(&self, shared: &Shared) {
        let pipeline = &shared.pipeline;
        let load = &self.load;
        // Who waits for a preparation has no place in the pipeline yet, and needs one as well.
        let crowded = shared.prepared.waiting() >= self.in_flight_max;
        let public = shared.tenancy.tenant == Tenant::PUBLIC;
        load.open.store(public && pipeline.admits().is_ok() && !crowded, Ordering::Relaxed);
        let drains_for_lease = !pipeline.is_open() && shared.after_drain == AfterDrain::Lease;
        load.drains_for_lease.store(drains_for_lease, Ordering::Relaxed);
        load.depth.store(pipeline.depth() as u32, Ordering::Relaxed);
        load.oldest_since_us.store(pipeline.oldest_since_us().unwrap_or(0), Ordering::Relaxed);
        load.slow.store(pipeline.has_slow(), Ordering::Relaxed);
        load.writes_soon.store(pipeline.unsent_bytes() > 0, Ordering::Relaxed);
    }

    pub(crate) fn depth(&self) -> usize {
        self.load.depth.load(Ordering::Relaxed) as usize
    }

    /// Whether its driver has not come round yet since somebody queued a statement: what is queued now shares the write.
    pub(crate) fn writes_soon(&self) -> bool {
        self.load.writes_soon.load(Ordering::Relaxed)
    }

    /// Whether the kernel collects replies before it wakes the driver.
    pub(crate) fn collects(&self) -> bool {
        self.load.collects.load(Ordering::SeqCst)
    }

    pub(crate) fn set_collects(&self, collects: bool) {
        self.load.collects.store(collects, Ordering::SeqCst);
    }

    /// Has the driver fetch what has come, however little it is.
    pub(crate) fn fetch(&self) {
        let mut shared = self.lock();
        shared.fetch = true;
        let driver = shared.driver.clone();
        drop(shared);
        driver.inspect(Waker::wake_by_ref);
    }

    pub(crate) fn service_us(&self) -> u64 {
        self.load.service_us.load(Ordering::Relaxed)
    }

    pub(crate) fn set_service_us(&self, service_us: u64) {
        self.load.service_us.store(service_us, Ordering::Relaxed);
    }

    /// How long its oldest statement has been the oldest; 0 with none in flight.
    pub(crate) fn oldest_age_us(&self, now_us: u64) -> u64 {
        match self.load.oldest_since_us.load(Ordering::Relaxed) {
            0 => 0,
            since_us => now_us.saturating_sub(since_us),
        }
    }

    pub(crate) fn view(&self, caller: u32, now_us: u64) -> View {
        let load = &self.load;
        View {
            nearness: match self.home() {
                home if home == caller => Nearness::Own,
                home::SHARED => Nearness::Shared,
                _ => Nearness::Foreign,
            },
            open: load.open.load(Ordering::Relaxed),
            depth: load.depth.load(Ordering::Relaxed) as usize,
            oldest_age_us: self.oldest_age_us(now_us),
            slow: load.slow.load(Ordering::Relaxed),
            service_us: load.service_us.load(Ordering::Relaxed),
        }
    }

    /// Whether it takes nothing new so that it can be leased.
    pub(crate) fn drains_for_lease(&self) -> bool {
        self.load.drains_for_lease.load(Ordering::Relaxed)
    }

    /// Queues a statement, or what has to come before it. `waker` is woken when there is something new, or when there is
    /// room for a lease's statement that was refused for want of it.
    pub(crate) fn submit(
        self: &Arc<Self>,
        submission: Submission<'_>,
        tenant: Tenant,
        waker: Waker,
        now_us: impl Fn() -> u64,
    ) -> Result<Submitted<L>, Refusal> {
        let mut epoch = 0;
        let mut guard = self.lock();
        let shared = &mut *guard;
        if shared.tenancy.tenant != tenant || shared.tenancy.ended {
            return Err(Refusal::NotOpen);
        }
        let unsent_bytes = shared.pipeline.unsent_bytes();
        if tenant != Tenant::PUBLIC {
            shared.admit_tenant(&waker)?;
            if let Some(key) = shared.take_long_lead::<L>(self.in_flight_max, &waker, &now_us)? {
                let origin = Origin { lane: Arc::clone(self), epoch, led: false };
                self.let_go(guard, unsent_bytes);
                return Ok(Submitted::Lead(Answer { origin: Some(origin), key }));
            }
        }
        let mut handle = None;
        if L::SERVER_NAMES_STATEMENTS
            && let [Preparation { id: Some(id), bytes, .. }] = submission.preparations
        {
            shared.pipeline.admits()?;
            match shared.prepared.readiness(*id, &waker, self.in_flight_max) {
                Readiness::Ready(known) => handle = Some(known),
                Readiness::Pending => {
                    self.publish(shared);
                    return Ok(Submitted::Pending(Arc::clone(self)));
                }
                Readiness::Crowded => {
                    if tenant != Tenant::PUBLIC {
                        shared.tenancy.wait_for_room(&waker)?;
                    }
                    return Err(Refusal::Full);
                }
                Readiness::Missing => {
                    let (id, bytes) = (*id, &**bytes);
                    return self.prepare(guard, id, bytes, waker, now_us).map(Submitted::Preparation);
                }
            }
        }
        let lead = shared.take_lead::<L>(&now_us);
        let prepared = &mut shared.prepared;
        let append = |out: &mut Vec<u8>| {
            lead.iter().for_each(|lead| out.extend_from_slice(lead));
            if !L::SERVER_NAMES_STATEMENTS {
                append_preparations::<L>(prepared, submission.preparations, out);
            }
            epoch = prepared.epoch();
            let begins_at = out.len();
            out.extend_from_slice(submission.payload);
            if let Some(handle) = handle {
                L::fill_in(&mut out[begins_at..], handle);
            }
        };
        let slow = submission.is_slow();
        let key = shared.pipeline.submit(append, waker, slow, now_us)?;
        shared.submitted += 1;
        self.let_go(guard, unsent_bytes);
        let origin = Origin { lane: Arc::clone(self), epoch, led: !lead.is_empty() };
        Ok(Submitted::Statement(Answer { origin: Some(origin), key }))
    }

    /// Queues the preparation of a statement that the server will name.
    #[cold]
    fn prepare(
        self: &Arc<Self>,
        mut guard: MutexGuard<'_, Shared>,
        id: StatementId,
        bytes: &[u8],
        waker: Waker,
        now_us: impl Fn() -> u64,
    ) -> Result<Answer<L>, Refusal> {
        let shared = &mut *guard;
        let unsent_bytes = shared.pipeline.unsent_bytes();
        let lead = shared.take_lead::<L>(&now_us);
        let prepared = &mut shared.prepared;
        let append = |out: &mut Vec<u8>| {
            lead.iter().for_each(|lead| out.extend_from_slice(lead));
            if let Some(doubtful) = prepared.insert_pending(id) {
                L::append_forget(id, doubtful, out);
            }
            while let Some((evicted, handle)) = prepared.evict(0, prepared.now()) {
                L::append_forget(evicted, handle, out);
            }
            out.extend_from_slice(bytes);
        };
        let key = shared.pipeline.submit(append, waker, false, now_us)?;
        shared.new_preparations.push((shared.submitted, id));
        shared.submitted += 1;
        let epoch = shared.prepared.epoch();
        self.let_go(guard, unsent_bytes);
        Ok(Answer { origin: Some(Origin { lane: Arc::clone(self), epoch, led: !lead.is_empty() }), key })
    }

    /// Queues a message of the pool's own that has one reply, when there is room for it. `None`: the connection is not this
    /// tenant's any more, or it is lost.
    pub(crate) fn poll_send(
        self: &Arc<Self>,
        cx: &Context<'_>,
        message: &[u8],
        tenant: Tenant,
        now_us: u64,
    ) -> Poll<Option<Answer<L>>> {
        let mut guard = self.lock();
        let shared = &mut *guard;
        if shared.tenancy.tenant != tenant {
            return Poll::Ready(None);
        }
        let unsent_bytes = shared.pipeline.unsent_bytes();
        let append = |out: &mut Vec<u8>| out.extend_from_slice(message);
        match shared.pipeline.submit(append, cx.waker().clone(), false, || now_us) {
            Ok(key) => {
                shared.submitted += 1;
                let epoch = shared.prepared.epoch();
                self.let_go(guard, unsent_bytes);
                let origin = Origin { lane: Arc::clone(self), epoch, led: false };
                Poll::Ready(Some(Answer { origin: Some(origin), key }))
            }
            Err(Refusal::Full) if shared.tenancy.wait_for_room(cx.waker()).is_ok() => Poll::Pending,
            Err(_) => Poll::Ready(None),
        }
    }

    /// Whether no request to stop a statement is under way; else `cx` is woken when one has arrived.
    pub(crate) fn poll_cancelled(&self, cx: &Context<'_>, tenant: Tenant) -> Poll<()> {
        let mut shared = self.lock();
        if shared.tenancy.tenant != tenant || shared.tenancy.cancel.is_none() {
            return Poll::Ready(());
        }
        // So few wait for room on what nobody holds any more that there is a place.
        let _ = shared.tenancy.wait_for_room(cx.waker());
        Poll::Pending
    }

    /// Queues a message with one reply that nobody waits for, whatever room there is; where only one may be in flight and
    /// one is, it follows that.
    pub(crate) fn send_unheard(&self, message: &[u8], tenant: Tenant, now_us: u64) {
        let mut guard = self.lock();
        let shared = &mut *guard;
        if shared.tenancy.tenant != tenant {
            return;
        }
        if self.in_flight_max == 1 && shared.pipeline.depth() > 0 {
            shared.tenancy.owe(message);
            return;
        }
        let unsent_bytes = shared.pipeline.unsent_bytes();
        if shared.pipeline.submit_abandoned(|out| out.extend_from_slice(message), now_us) {
            shared.submitted += 1;
            self.let_go(guard, unsent_bytes);
        }
    }

    /// Ends what was done under the lock, when so many bytes were unsent before: wakes the driver for the first, and once
    /// more when what waits to be written fills a write.
    fn let_go(&self, guard: MutexGuard<'_, Shared>, unsent_bytes_before: usize) {
        let unsent_bytes = guard.pipeline.unsent_bytes();
        self.publish(&guard);
        let begins = unsent_bytes_before == 0 && unsent_bytes > 0;
        let fills = unsent_bytes_before < FULL_WRITE_BYTES && unsent_bytes >= FULL_WRITE_BYTES;
        let driver = if begins || fills { guard.driver.clone() } else { None };
        drop(guard);
        if let Some(driver) = driver {
            driver.wake();
        }
    }

    /// Has the server forget half of this connection's statements, and keeps no more than that from here on. For
    /// languages whose server names statements and answers nothing to this.
    pub(crate) fn forget_half(&self) {
        let mut guard = self.lock();
        let shared = &mut *guard;
        let unsent_bytes = shared.pipeline.unsent_bytes();
        shared.prepared.halve();
        if self.in_flight_max == 1 && shared.pipeline.depth() > 0 {
            // Nothing may follow what is in flight here, not even what is not answered: the next preparation closes them.
            return;
        }
        let prepared = &mut shared.prepared;
        shared.pipeline.append_unanswered(|out| {
            while let Some((evicted, handle)) = prepared.evict(0, prepared.now()) {
                L::append_forget(evicted, handle, out);
            }
        });
        self.let_go(guard, unsent_bytes);
    }

    /// Ends the lane now.
    pub(crate) fn kill(&self, cause: LossCause) {
        let mut shared = self.lock();
        shared.killed.get_or_insert(cause);
        let driver = shared.driver.clone();
        drop(shared);
        driver.inspect(Waker::wake_by_ref);
    }

    /// Why a lease's statement was not taken.
    #[cold]
    pub(crate) fn failure(&self, refusal: Refusal) -> Failure {
        let (lost, occupied) = {
            let shared = self.lock();
            (shared.lost.clone(), shared.tenancy.occupied)
        };
        match (refusal, lost) {
            (Refusal::NoTransaction, None) if occupied => Failure::InTransaction,
            (Refusal::NoTransaction, _) if !occupied => Failure::NoTransaction,
            (Refusal::Crowded, _) => Failure::TooManyWaiters { waiters_max: LEASE_WAITERS_MAX },
            (_, Some(loss)) => Failure::lost_unsent(loss),
            // The lease has gone back.
            (_, None) => Failure::Closed,
        }
    }

    pub(crate) fn stats(&self, now_us: u64) -> LaneStats {
        let shared = self.lock();
        LaneStats {
            lane: self.number,
            in_flight: shared.pipeline.depth(),
            oldest_age_us: shared.pipeline.oldest_since_us().map_or(0, |since| now_us.saturating_sub(since)),
            prepared: shared.prepared.len(),
        }
    }
}

/// Appends what the connection lacks of these statements.
fn append_preparations<L: Language>(prepared: &mut Prepared, preparations: &[&Preparation], out: &mut Vec<u8>) {
    let begins = prepared.now();
    let mut is_ready =
        |preparation: &&Preparation| preparation.id.and_then(|id| prepared.touch(id)) == Some(Standing::Confirmed);
    if preparations.iter().all(&mut is_ready) {
        return;
    }
    // All are looked at before any makes room, so that none makes room for another. What makes room is closed before
    // anything that may fail: behind an error the server would pass over it.
    let named = preparations.iter().filter_map(|preparation| preparation.id);
    let missing = named.filter(|&id| prepared.touch(id).is_none()).count();
    if missing > 0 {
        while let Some((evicted, handle)) = prepared.evict(missing, begins) {
            L::append_forget(evicted, handle, out);
        }
    }
    for preparation in preparations {
        match preparation.id.map(|id| (id, prepared.touch(id))) {
            Some((_, Some(Standing::Confirmed))) => {}
            Some((_, Some(_))) => {
                out.extend_from_slice(preparation.bytes.get(preparation.describe_at..).unwrap_or_default());
            }
            Some((id, None)) => {
                out.extend_from_slice(&preparation.bytes);
                prepared.insert(id);
            }
            None => out.extend_from_slice(&preparation.bytes),
        }
    }
}

/// Where a reply came from: to tell that connection what its reply says about prepared statements.
pub(crate) struct Origin<L> {
    pub(crate) lane: Arc<Lane<L>>,
    pub(crate) epoch: u64,
    /// What leads a lease's statements is answered in front of it, in the same reply.
    pub(crate) led: bool,
}

/// The outcome of a queued statement. Dropping it abandons the statement: it runs, and its reply is read and
/// dropped.
pub(crate) struct Answer<L: Language> {
    /// `None` once the outcome was taken.
    origin: Option<Origin<L>>,
    key: SlotKey,
}

impl<L: Language> Answer<L> {
    /// The outcome, once. Not asked again after it was ready.
    pub(crate) fn poll(&mut self, cx: &Context<'_>) -> Poll<(Outcome, Origin<L>)> {
        let Some(origin) = &self.origin else { return Poll::Pending };
        let polled = origin.lane.lock().pipeline.poll(self.key, cx.waker());
        let Poll::Ready(outcome) = polled else { return Poll::Pending };
        self.origin.take().map_or(Poll::Pending, |origin| Poll::Ready((outcome, origin)))
    }
}

impl<L: Language> Drop for Answer<L> {
    fn drop(&mut self) {
        if let Some(origin) = &self.origin {
            origin.lane.lock().pipeline.abandon(self.key);
        }
    }
}

impl Shared {
    /// Nobody uses it, and anybody may.
    pub(crate) fn is_idle(&self) -> bool {
        self.tenancy.tenant == Tenant::PUBLIC && self.killed.is_none() && self.is_at_rest()
    }

    /// It takes statements, and has nothing to do.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.pipeline.is_open()
            && self.pipeline.depth() == 0
            && self.pipeline.unsent_bytes() == 0
            && self.prepared.waiting() == 0
    }

    /// Whether a lease's statement may be queued now; if there is no room for it yet, `waker` is kept.
    fn admit_tenant(&mut self, waker: &Waker) -> Result<(), Refusal> {
        let depth = self.pipeline.depth();
        let tenancy = &mut self.tenancy;
        if tenancy.has_lost_its_transaction(depth) {
            return Err(Refusal::NoTransaction);
        }
        let admitted = match self.pipeline.admits() {
            Ok(()) if tenancy.keeps_back(depth) => Err(Refusal::Full),
            admitted => admitted,
        };
        if admitted == Err(Refusal::Full) {
            tenancy.wait_for_room(waker)?;
        }
        admitted
    }

    /// Takes what was queued since the last time: bytes, and which of them are preparations.
    pub(crate) fn take_unsent(&mut self, buffer: &mut Vec<u8>, preparations: &mut VecDeque<(u64, StatementId)>) {
        self.pipeline.take_unsent(buffer);
        preparations.extend(self.new_preparations.drain(..));
    }
}

impl<L: Language> Origin<L> {
    /// The server may not know the statement, as this reply's submission believed it prepared.
    pub(crate) fn forget(&self, id: StatementId) {
        self.lane.lock().prepared.forget(id, self.epoch);
    }

    /// What the server said of the statement in this reply is what is known of it.
    pub(crate) fn confirm(&self, id: StatementId) {
        self.lane.lock().prepared.confirm(id, self.epoch);
    }

    pub(crate) fn forget_all(&self) {
        self.lane.lock().prepared.forget_all();
    }
}
