//! The pool: lanes over one budget of connections, and the way of a statement through them.

use std::cell::Cell;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use bytes::{Bytes, BytesMut};
use tokio::sync::Notify;

use crate::budget::Budget;
use crate::connect::within;
use crate::error::{AcquireTimeout, ConnectFailure, Failure};
use crate::home;
use crate::lane::{AfterDrain, Answer, Lane, Origin, Submission};
use crate::language::{Language, Preparation, StatementId};
use crate::limits::{BUFFER_BYTES_KEPT, PoolLimits};
use crate::pipeline::Outcome;
use crate::route;
use crate::stats::{PoolCounters, PoolStats};
use crate::waiters::Waiters;

/// The state behind the decision to open connections.
#[derive(Debug, Default)]
pub(crate) struct Growth {
    pub(crate) connecting: usize,
    /// Failed attempts since the last success.
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
    route: route::Limits,
    began: Instant,
    opens: Mutex<usize>,
    pub(crate) closing: AtomicBool,
    /// Lanes whose driver has not finished, and connects under way.
    pub(crate) alive: AtomicUsize,
    pub(crate) ended: Notify,
    pub(crate) last_considered_us: AtomicU64,
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

/// A reply, and where it came from.
pub struct Answered<L: Language> {
    /// The reply, as the server sent it.
    pub reply: Bytes,
    /// Whether it holds an error.
    pub failed: bool,
    origin: Origin<L>,
}

impl<L: Language> fmt::Debug for Answered<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answered").field("reply", &self.reply).finish_non_exhaustive()
    }
}

impl<L: Language> Answered<L> {
    /// The reply says that the connection had not prepared this statement after all.
    pub fn forget_prepared(&self, id: StatementId) {
        self.origin.forget(id);
    }

    /// The reply says that the connection has dropped all its prepared statements.
    pub fn forget_all_prepared(&self) {
        self.origin.forget_all();
    }
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
    fn begin<L>(lanes: &Arc<Vec<Arc<Lane<L>>>>, choice: route::Choice) {
        STREAK.set(Streak { lanes: Arc::as_ptr(lanes) as usize, index: choice.index, left: choice.followers });
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

/// A caller found no room.
enum NoRoom {
    /// He has to wait for it.
    Wait,
    /// There will be none.
    Closed,
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

    /// Sends one submission and waits for its reply.
    ///
    /// `encode` writes the payload; it runs again if the statement has to go to another connection, and never under
    /// a lock. Dropping the future abandons the statement: queued, it runs; not queued, it never will.
    ///
    /// # Errors
    ///
    /// What `encode` returns, or a [`Failure`].
    pub async fn run<E: From<Failure>>(
        &self,
        preparations: &[&Preparation],
        encode: impl Fn(&mut BytesMut) -> Result<(), E>,
    ) -> Result<Answered<L>, E> {
        if self.open.closed.load(Ordering::Relaxed) {
            return Err(Failure::Closed.into());
        }
        let inner = self.inner();
        loop {
            let answer = match inner.submit(preparations, &encode, false).await? {
                Ok(answer) => answer,
                Err(NoRoom::Closed) => return Err(Failure::Closed.into()),
                Err(NoRoom::Wait) => {
                    // Boxed: this is the slow path, and its state would make every query's future larger.
                    Box::pin(inner.submit_when_there_is_room(preparations, &encode)).await?
                }
            };
            let (outcome, origin) = answer.await;
            match outcome {
                Outcome::Reply { bytes: reply, failed } => return Ok(Answered { reply, failed, origin }),
                Outcome::TooLarge => {
                    inner.counters.replies_too_large.add(1);
                    let reply_bytes_max = inner.limits.lane.reply_bytes_max;
                    return Err(Failure::ReplyTooLarge { reply_bytes_max }.into());
                }
                Outcome::Lost { sent: false, .. } => inner.counters.resubmits.add(1),
                Outcome::Lost { sent, loss } => {
                    if sent {
                        inner.counters.lost_after_sent.add(1);
                    }
                    return Err(Failure::Lost { sent, loss }.into());
                }
            }
        }
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

    /// Encodes and queues a statement, if some lane has room. Ready at the first poll, so that the answer's first poll
    /// is the same poll of the task.
    async fn submit<E>(
        self: &Arc<Self>,
        preparations: &[&Preparation],
        encode: &impl Fn(&mut BytesMut) -> Result<(), E>,
        granted: bool,
    ) -> Result<Result<Answer<L>, NoRoom>, E> {
        std::future::poll_fn(|cx| {
            // Taken, not borrowed: `encode` is foreign code and may come back here.
            let mut scratch = SCRATCH.take();
            let submitted = encode(&mut scratch)
                .map(|()| self.queue(Submission { preparations, payload: &scratch }, cx.waker(), granted));
            if scratch.capacity() <= BUFFER_BYTES_KEPT {
                scratch.clear();
                SCRATCH.set(scratch);
            }
            Poll::Ready(submitted)
        })
        .await
    }

    fn queue(
        self: &Arc<Self>,
        submission: Submission<'_>,
        waker: &std::task::Waker,
        granted: bool,
    ) -> Result<Answer<L>, NoRoom> {
        /// A lane may fill up or close between the choice and the lock; then another is chosen, but not for ever.
        const TRIES: usize = 4;
        if !granted && self.waiters.present() > 0 {
            return Err(NoRoom::Wait);
        }
        let lanes = self.lanes.load();
        if let Some(lane) = Streak::follow(&lanes)
            && lane.writes_soon()
            && let Ok(answer) = lane.submit(submission, waker.clone(), || self.now_us())
        {
            return Ok(answer);
        }
        let caller = home::thread_number();
        for _ in 0..TRIES {
            let lanes = self.lanes.load();
            let now_us = self.now_us();
            let views = lanes.iter().map(|lane| lane.view(caller, now_us));
            let Some(choice) = route::choose(views, self.route, home::random) else { break };
            let Some(lane) = lanes.get(choice.index) else { break };
            self.consider_growth(lanes.len(), lane, caller, now_us);
            if let Ok(answer) = lane.submit(submission, waker.clone(), || now_us) {
                Streak::begin(&lanes, choice);
                return Ok(answer);
            }
        }
        if self.closing.load(Ordering::SeqCst) { Err(NoRoom::Closed) } else { Err(NoRoom::Wait) }
    }

    async fn submit_when_there_is_room<E: From<Failure>>(
        self: &Arc<Self>,
        preparations: &[&Preparation],
        encode: &impl Fn(&mut BytesMut) -> Result<(), E>,
    ) -> Result<Answer<L>, E> {
        let began = Instant::now();
        let limit = self.limits.acquire_timeout;
        self.counters.waits.add(1);
        if let Some(failure) = self.refused() {
            return Err(Failure::Refused(failure).into());
        }
        let mut place = self.waiters.join()?;
        if self.closing.load(Ordering::SeqCst) {
            // Whoever closes the pool sets this first and then fails everyone who waits.
            return Err(Failure::Closed.into());
        }
        // Asked after joining: a place that becomes free from here on is granted to us, and one that became free
        // just before is seen here.
        self.grant();
        self.ensure_lane();
        loop {
            let remaining = limit.saturating_sub(began.elapsed());
            match within(remaining, place.granted()).await {
                Some(Ok(())) => {}
                Some(Err(failure)) => return Err(failure.into()),
                None => {
                    drop(place);
                    self.grant();
                    return Err(self.acquire_timed_out(began.elapsed()).into());
                }
            }
            match self.submit(preparations, encode, true).await? {
                Ok(answer) => {
                    drop(place);
                    return Ok(answer);
                }
                Err(NoRoom::Closed) => return Err(Failure::Closed.into()),
                Err(NoRoom::Wait) => {
                    place.requeue();
                    self.grant();
                    self.ensure_lane();
                }
            }
        }
    }

    /// Grants the room there is to those who wait. Cheap when nobody does.
    pub(crate) fn grant(&self) {
        if self.waiters.present() == 0 {
            return;
        }
        let now_us = self.now_us();
        let in_flight_max = self.limits.lane.in_flight_max;
        let views = self.lanes.load();
        let room = views
            .iter()
            .map(|lane| lane.view(home::SHARED, now_us))
            .filter(|view| view.open)
            .map(|view| in_flight_max.saturating_sub(view.depth))
            .sum();
        self.waiters.grant(room);
    }

    fn acquire_timed_out(&self, waited: Duration) -> Failure {
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
        let connecting = growth.connecting;
        let lanes = self.lanes.load();
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
