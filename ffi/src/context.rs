//! A context: the operations of one thread of the host, or one isolate, and their completions.
//!
//! An operation is a future. It is polled when it is submitted and whenever the host drains and it has something new, on the
//! host's thread: so results are read where they are used, and a lane's driver does nothing but move bytes.

use std::collections::VecDeque;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context as TaskContext, Poll, Wake as TaskWake, Waker};
use std::time::Duration;

use futures_util::task::AtomicWaker;
use rustc_hash::{FxHashMap, FxHashSet};
use slab::Slab;

use crate::drive::{self, Drive};
use crate::error::ErrorObject;
use crate::guard;
use crate::handles;
use crate::http::HttpServer;
use crate::operation::Outcome;
use crate::pool::OpenPool;
use crate::session::Session;
use crate::status::{
    CENOTE_ERR_ARGUMENT, CENOTE_ERR_BUSY, CENOTE_ERR_CLOSED, CENOTE_ERR_FULL, CENOTE_ERR_HANDLE, CENOTE_ERR_SYSTEM,
};
use crate::wake::{Told, Wake};

/// Operations of one context at once, unless it says otherwise.
pub(crate) const OPERATIONS_MAX: usize = 65_536;

/// What an operation does.
pub(crate) type Work = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// What it came to, and the tag it was given.
pub(crate) struct Completion {
    pub(crate) tag: u64,
    pub(crate) outcome: Outcome,
}

impl Completion {
    /// Whether it was asked for, by an operation.
    fn is_answer(&self) -> bool {
        !matches!(self.outcome, Outcome::Request(_) | Outcome::Ended(_))
    }
}

/// A context.
pub(crate) struct Context {
    shared: Arc<Shared>,
    drive: Arc<Drive>,
    operations: Mutex<Operations>,
    draining: AtomicBool,
    owned: Mutex<Owned>,
    operations_max: usize,
}

/// What wakers reach.
pub(crate) struct Shared {
    /// Operations that have something new.
    ready: Mutex<Vec<usize>>,
    /// What came that nobody submitted.
    outside: Mutex<VecDeque<Completion>>,
    /// The host is to be told when something comes.
    armed: AtomicBool,
    /// The host waits in a call.
    waiting: AtomicWaker,
    /// The host is in a call that waits, and hears of everything there.
    host_waits: AtomicBool,
    /// Nobody is there to be told any more.
    orphaned: AtomicBool,
    /// The context's own handle.
    handle: AtomicU64,
    /// The context was closed: the host is told of nothing any more.
    over: AtomicBool,
    /// Held while the host's function runs.
    telling: Mutex<()>,
    wake: Wake,
}

#[derive(Default)]
struct Operations {
    running: Slab<Operation>,
    tags: FxHashMap<u64, usize>,
    /// By place; kept when an operation ends.
    wakers: Vec<Arc<OperationWaker>>,
    /// Taken from the ready queue and not polled yet.
    taken: VecDeque<usize>,
    finished: VecDeque<Completion>,
    closed: bool,
}

struct Operation {
    tag: u64,
    work: Work,
}

/// Handles that end with the context.
#[derive(Default)]
struct Owned {
    pools: FxHashSet<u64>,
    sessions: FxHashSet<u64>,
    servers: FxHashSet<u64>,
}

/// Wakes the operation at one place. One that has ended is looked up in vain.
struct OperationWaker {
    shared: Arc<Shared>,
    place: usize,
    queued: AtomicBool,
    drive: Arc<Drive>,
}

impl TaskWake for OperationWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.swap(true, Ordering::AcqRel) {
            self.shared.ready().push(self.place);
            self.shared.told(&self.drive);
        }
    }
}

/// What gives a context's host what it has not asked for.
#[derive(Clone)]
pub(crate) struct Outside {
    shared: Arc<Shared>,
    drive: Arc<Drive>,
}

impl Outside {
    pub(crate) fn push(&self, tag: u64, outcome: Outcome) {
        self.shared.outside().push_back(Completion { tag, outcome });
        self.shared.told(&self.drive);
    }
}

impl Shared {
    fn outside(&self) -> MutexGuard<'_, VecDeque<Completion>> {
        self.outside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_empty(&self) -> bool {
        self.ready().is_empty() && self.outside().is_empty()
    }

    fn ready(&self) -> MutexGuard<'_, Vec<usize>> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something is there: the host hears of it, if it has drained what came before.
    fn told(&self, drive: &Drive) {
        if self.armed.swap(false, Ordering::SeqCst) {
            match self.wake {
                _ if self.host_waits.load(Ordering::SeqCst) => self.waiting.wake(),
                Wake::None => {}
                // A leaf may not call back, whomever; and whoever wakes may hold locks that the host's function would wait
                // for.
                Wake::Callback { .. } => drive.tell_later(),
                _ if guard::in_leaf() => drive.tell_later(),
                _ => {
                    if self.wake.tell() == Told::NobodyIsThere {
                        // Not from here, where locks may be held.
                        self.orphaned.store(true, Ordering::Release);
                        drive.tell_later();
                    }
                }
            }
        }
    }

    /// Tells the host, from the helper's thread. A host that is gone without a word leaves nothing behind.
    pub(crate) fn tell_now(&self) {
        if self.orphaned.load(Ordering::Acquire) || self.tell() == Told::NobodyIsThere {
            self.orphaned.store(true, Ordering::Release);
            if let Ok(context) = handles::remove::<Context>(self.handle.load(Ordering::Acquire)) {
                context.close();
            }
        }
    }
}

impl Shared {
    fn tell(&self) -> Told {
        let _telling = self.telling.lock().unwrap_or_else(PoisonError::into_inner);
        if self.over.load(Ordering::SeqCst) { Told::Yes } else { self.wake.tell() }
    }

    /// The host is told of nothing from here on; its function, if it runs, has returned. Not if it is that function which
    /// asks, as it would wait for itself.
    fn end_telling(&self) {
        self.over.store(true, Ordering::SeqCst);
        if matches!(self.wake, Wake::Callback { .. }) && !drive::is_helper() {
            drop(self.telling.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }
}

impl Context {
    pub(crate) fn new(wake: Wake, operations_max: usize) -> Result<Context, i32> {
        let shared = Arc::new(Shared {
            ready: Mutex::default(),
            outside: Mutex::default(),
            armed: AtomicBool::new(true),
            waiting: AtomicWaker::new(),
            host_waits: AtomicBool::new(false),
            orphaned: AtomicBool::new(false),
            handle: AtomicU64::new(0),
            over: AtomicBool::new(false),
            telling: Mutex::new(()),
            wake,
        });
        let drive = Drive::start(&shared).map_err(|_| CENOTE_ERR_SYSTEM)?;
        let draining = AtomicBool::new(false);
        Ok(Context { shared, drive, operations: Mutex::default(), draining, owned: Mutex::default(), operations_max })
    }

    /// Puts it into the table; its handle.
    pub(crate) fn register(self: Arc<Context>) -> u64 {
        let handle = handles::insert(Arc::clone(&self));
        self.shared.handle.store(handle, Ordering::Release);
        handle
    }

    pub(crate) fn wake(&self) -> &Wake {
        &self.shared.wake
    }

    /// Begins an operation.
    pub(crate) fn submit(&self, tag: u64, work: Work) -> Result<(), i32> {
        let mut operations = self.lock();
        if operations.closed || self.shared.orphaned.load(Ordering::Acquire) {
            return Err(CENOTE_ERR_CLOSED);
        }
        if operations.running.len() + operations.finished.len() >= self.operations_max {
            return Err(CENOTE_ERR_FULL);
        }
        if operations.tags.contains_key(&tag) {
            return Err(CENOTE_ERR_ARGUMENT);
        }
        let place = operations.running.insert(Operation { tag, work });
        operations.tags.insert(tag, place);
        while operations.wakers.len() <= place {
            let waker = OperationWaker {
                shared: Arc::clone(&self.shared),
                place: operations.wakers.len(),
                queued: AtomicBool::new(false),
                drive: Arc::clone(&self.drive),
            };
            operations.wakers.push(Arc::new(waker));
        }
        let _runtime = self.drive.enter();
        if let Some(ended) = operations.poll(place) {
            // It has failed at once, or was known: told like any other.
            drop(operations);
            drop(ended);
            self.shared.told(&self.drive);
        }
        Ok(())
    }

    /// Has the host no longer wait for an operation. What was sent runs, and its result is dropped.
    pub(crate) fn abandon(&self, tag: u64) -> Result<(), i32> {
        let mut operations = self.lock();
        let _runtime = self.drive.enter();
        if let Some(place) = operations.tags.remove(&tag) {
            let operation = operations.running.try_remove(place);
            // Others' wakers may run here: without our lock.
            drop(operations);
            drop(operation);
            return Ok(());
        }
        let found = operations.finished.iter().position(|completion| completion.tag == tag && completion.is_answer());
        let completion = found.and_then(|place| operations.finished.remove(place));
        drop(operations);
        completion.map(drop).ok_or(CENOTE_ERR_HANDLE)
    }

    /// Gives `take` what has ended, until it has no more room or there is no more. `false`: there is more.
    ///
    /// When all was taken the host will be told of what comes next.
    pub(crate) fn drain(&self, mut take: impl FnMut(Completion) -> Result<(), Completion>) -> Result<bool, i32> {
        struct Draining<'a>(&'a AtomicBool);
        impl Drop for Draining<'_> {
            fn drop(&mut self) {
                self.0.store(false, Ordering::Release);
            }
        }
        // Not by the lock of the operations, which others hold for moments: they must not cost a host its wake.
        if self.draining.swap(true, Ordering::Acquire) {
            return Err(CENOTE_ERR_BUSY);
        }
        let _draining = Draining(&self.draining);
        let _runtime = self.drive.enter();
        // What has ended is dropped without the lock: others' wakers may run there.
        let mut ended = Vec::new();
        let mut operations = self.lock();
        self.shared.wake.reset();
        let drained_all = loop {
            if let Some(completion) = operations.finished.pop_front() {
                if let Err(completion) = take(completion) {
                    operations.finished.push_front(completion);
                    break false;
                }
                continue;
            }
            match operations.taken.pop_front() {
                Some(place) => ended.extend(operations.poll(place)),
                None if self.take_ready(&mut operations) => {}
                None => break true,
            }
        };
        drop(operations);
        drop(ended);
        Ok(drained_all)
    }

    /// Moves what is ready to where it is taken from; `false`: nothing is, and the host is told of the next.
    fn take_ready(&self, operations: &mut Operations) -> bool {
        for _ in 0..2 {
            operations.finished.append(&mut self.shared.outside());
            operations.taken.extend(self.shared.ready().drain(..));
            if !operations.taken.is_empty() || !operations.finished.is_empty() {
                self.shared.armed.store(false, Ordering::SeqCst);
                return true;
            }
            // And once more: it may have come before this.
            self.shared.armed.store(true, Ordering::SeqCst);
        }
        false
    }

    /// Waits until something can be drained, for at most so long, and moves the context's bytes meanwhile.
    pub(crate) fn wait(&self, limit: Duration) -> Result<(), i32> {
        let something = std::future::poll_fn(|cx| {
            self.shared.waiting.register(cx.waker());
            if self.has_something() { Poll::Ready(()) } else { Poll::Pending }
        });
        /// Whoever waits is told there, and nobody else ends that.
        struct Waits<'a>(&'a Shared);
        impl Drop for Waits<'_> {
            fn drop(&mut self) {
                self.0.host_waits.store(false, Ordering::SeqCst);
            }
        }
        let waited = self.drive.host(async {
            self.shared.host_waits.store(true, Ordering::SeqCst);
            let _waits = Waits(&self.shared);
            if limit.is_zero() {
                // The sockets are looked at between the two.
                tokio::task::yield_now().await;
                tokio::task::yield_now().await;
            } else {
                let _ = tokio::time::timeout(limit, something).await;
            }
        });
        match waited {
            Ok(()) if self.lock().closed => Err(CENOTE_ERR_CLOSED),
            Ok(()) => Ok(()),
            Err(_) => Err(CENOTE_ERR_BUSY),
        }
    }

    fn has_something(&self) -> bool {
        let operations = self.lock();
        if !operations.finished.is_empty() || !operations.taken.is_empty() || operations.closed {
            return true;
        }
        drop(operations);
        self.shared.armed.store(true, Ordering::SeqCst);
        !self.shared.is_empty()
    }

    /// The host sleeps until it is told.
    pub(crate) fn sleeps(&self) {
        self.drive.host_sleeps();
    }

    /// What gives its host what it has not asked for.
    pub(crate) fn outside(&self) -> Outside {
        Outside { shared: Arc::clone(&self.shared), drive: Arc::clone(&self.drive) }
    }

    /// Runs a future with the context's bytes, until it ends or the context does.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.drive.spawn(task);
    }

    /// Operations that have not ended.
    pub(crate) fn operations(&self) -> usize {
        self.lock().running.len()
    }

    /// Has a pool end with the context, if that has not ended itself.
    pub(crate) fn own_pool(&self, pool: u64) -> Result<(), i32> {
        // Under the lock: whoever closes looks for what is owned after he has had it.
        let operations = self.lock();
        if operations.closed {
            return Err(CENOTE_ERR_CLOSED);
        }
        self.owned().pools.insert(pool);
        Ok(())
    }

    pub(crate) fn disown_pool(&self, pool: u64) {
        self.owned().pools.remove(&pool);
    }

    pub(crate) fn own_server(&self, server: u64) -> Result<(), i32> {
        let operations = self.lock();
        if operations.closed {
            return Err(CENOTE_ERR_CLOSED);
        }
        self.owned().servers.insert(server);
        Ok(())
    }

    pub(crate) fn disown_server(&self, server: u64) {
        self.owned().servers.remove(&server);
    }

    pub(crate) fn own_session(&self, session: u64) {
        self.owned().sessions.insert(session);
    }

    /// Its own handle.
    pub(crate) fn handle(&self) -> u64 {
        self.shared.handle.load(Ordering::Acquire)
    }

    pub(crate) fn disown_session(&self, session: u64) {
        self.owned().sessions.remove(&session);
    }

    /// Ends it: operations are abandoned, its leases and transactions go back rolled back, its pools are closed.
    pub(crate) fn close(&self) {
        let (running, finished) = {
            let mut operations = self.lock();
            operations.closed = true;
            operations.tags.clear();
            (std::mem::take(&mut operations.running), std::mem::take(&mut operations.finished))
        };
        drop(running);
        drop(finished);
        let owned = std::mem::take(&mut *self.owned());
        for session in owned.sessions {
            let _ = handles::remove::<Session>(session);
        }
        for server in owned.servers {
            let _ = handles::remove::<HttpServer>(server);
        }
        for pool in owned.pools {
            let _ = handles::remove::<OpenPool>(pool);
        }
        self.shared.waiting.wake();
        self.drive.end();
        self.shared.end_telling();
    }

    fn lock(&self) -> MutexGuard<'_, Operations> {
        self.operations.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn owned(&self) -> MutexGuard<'_, Owned> {
        self.owned.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        self.drive.end();
    }
}

impl Operations {
    /// Polls an operation; what is left of it when it has ended.
    fn poll(&mut self, place: usize) -> Option<Work> {
        let (operation, waker) = (self.running.get_mut(place)?, self.wakers.get(place)?);
        // Before it is polled: what comes while it is polled has to queue it again. A swap, so that what was written before a
        // wake that found it queued is seen.
        waker.queued.swap(false, Ordering::AcqRel);
        let waker = Waker::from(Arc::clone(waker));
        let mut cx = TaskContext::from_waker(&waker);
        let outcome = match catch_unwind(AssertUnwindSafe(|| operation.work.as_mut().poll(&mut cx))) {
            Ok(Poll::Pending) => return None,
            Ok(Poll::Ready(outcome)) => outcome,
            Err(panic) => {
                std::mem::forget(panic);
                Outcome::Failed(Box::new(ErrorObject::panicked()))
            }
        };
        let operation = self.running.remove(place);
        self.tags.remove(&operation.tag);
        self.finished.push_back(Completion { tag: operation.tag, outcome });
        Some(operation.work)
    }
}
