//! Which thread moves a context's bytes. Its runtime is driven by one thread at a time: the host's own, while it waits or
//! takes turns, and else a helper of ours, so that nobody's statements stand still because their isolate is busy.
//!
//! ```text
//!   helper in ──(the host comes: leave!)──> helper out ──> host in
//!      ^                                                     |
//!      └──(the host says that it sleeps, or is overdue)──────┘
//! ```

use std::cell::Cell;
use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use cenote_pool::{Entered, Home};
use tokio::runtime::{Builder, EnterGuard, Handle, Runtime};
use tokio::sync::Notify;

use crate::context::Shared;
use crate::threads;

/// How long the host may be away between two of its turns before the helper steps in. Longer than what a handler usually
/// computes, shorter than what a neighbour would notice.
const OVERDUE: Duration = Duration::from_millis(2);

pub(crate) struct Drive {
    runtime: Mutex<Option<Arc<Runtime>>>,
    handle: Handle,
    home: Home,
    state: Mutex<State>,
    changed: Condvar,
    /// The helper is to leave the runtime.
    leave: Notify,
    /// Somebody is to be told who may not be told from where it came about.
    tell: Notify,
}

#[derive(Default)]
struct State {
    host_in: bool,
    helper_in: bool,
    /// How often the host has come.
    stays: u64,
    /// When the host left, if it has not said that it sleeps.
    host_left: Option<Instant>,
    /// The helper waits until it is told that the host leaves.
    helper_sleeps: bool,
    ended: bool,
}

/// The host is in already, on another thread.
pub(crate) struct Busy;

/// What the helper is asked for.
#[derive(PartialEq, Eq)]
enum Asked {
    Leave,
    Tell,
}

thread_local!(static HELPS: Cell<bool> = const { Cell::new(false) });

/// Whether this thread is a helper of ours, of whichever context.
pub(crate) fn is_helper() -> bool {
    HELPS.get()
}

impl Drive {
    /// With its helper. `shared` is who is told.
    pub(crate) fn start(shared: &Arc<Shared>) -> io::Result<Arc<Drive>> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let drive = Arc::new(Drive {
            handle: runtime.handle().clone(),
            home: Home::new(),
            runtime: Mutex::new(Some(Arc::new(runtime))),
            state: Mutex::default(),
            changed: Condvar::new(),
            leave: Notify::new(),
            tell: Notify::new(),
        });
        let (helped, shared) = (Arc::clone(&drive), Arc::clone(shared));
        threads::without_signals(|| {
            thread::Builder::new().name("cenote-context".to_owned()).spawn(move || helped.help(&shared))
        })?;
        Ok(drive)
    }

    /// Has this thread stand for the context: what is begun here meanwhile runs with its bytes.
    pub(crate) fn enter(&self) -> (Entered, EnterGuard<'_>) {
        (self.home.enter(), self.handle.enter())
    }

    /// Runs a task with the context's bytes.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        drop(self.handle.spawn(task));
    }

    /// Has the host told, by the helper.
    pub(crate) fn tell_later(&self) {
        self.tell.notify_one();
    }

    /// The host drives, for as long as `work` takes.
    pub(crate) fn host<T>(&self, work: impl Future<Output = T>) -> Result<T, Busy> {
        // Called back by a helper, which drives when it comes back and not within that; or from where a runtime is driven.
        if is_helper() || Handle::try_current().is_ok() {
            return Err(Busy);
        }
        let Some(runtime) = self.runtime() else { return Err(Busy) };
        {
            let mut state = self.lock();
            if state.host_in || state.ended {
                return Err(Busy);
            }
            state.host_in = true;
            state.stays += 1;
            while state.helper_in {
                self.leave.notify_one();
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
        struct Leaving<'a>(&'a Drive);
        impl Drop for Leaving<'_> {
            fn drop(&mut self) {
                let mut state = self.0.lock();
                state.host_in = false;
                state.host_left = Some(Instant::now());
                if std::mem::take(&mut state.helper_sleeps) || state.ended {
                    drop(state);
                    self.0.changed.notify_all();
                }
            }
        }
        let _home = self.home.enter();
        let _leaving = Leaving(self);
        let done = runtime.block_on(work);
        if let Some(runtime) = Arc::into_inner(runtime) {
            // The context has ended meanwhile.
            runtime.shutdown_background();
        }
        Ok(done)
    }

    /// The host sleeps until it is told: the helper drives at once.
    pub(crate) fn host_sleeps(&self) {
        let mut state = self.lock();
        if state.host_left.take().is_some() {
            drop(state);
            self.changed.notify_all();
        }
    }

    /// No more. Tasks on the runtime are dropped by the helper, which ends; whoever is in leaves first.
    pub(crate) fn end(&self) {
        self.lock().ended = true;
        self.changed.notify_all();
        self.leave.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn runtime(&self) -> Option<Arc<Runtime>> {
        self.runtime.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The helper's life.
    fn help(&self, shared: &Shared) {
        /// The helper is in, until this is dropped.
        struct In<'a>(&'a Drive);
        impl Drop for In<'_> {
            fn drop(&mut self) {
                self.0.lock().helper_in = false;
                self.0.changed.notify_all();
            }
        }
        HELPS.set(true);
        let _home = self.home.enter();
        while self.take_over() {
            let is_in = In(self);
            let Some(runtime) = self.runtime() else { return };
            let asked = runtime.block_on(self.until_asked());
            drop((runtime, is_in));
            if asked == Asked::Tell {
                // With nothing in hand: the host's function may wait for a thread that wants to drive. A panic of what is
                // dropped here must not end the helper.
                let _ = catch_unwind(AssertUnwindSafe(|| shared.tell_now()));
            }
        }
        // The last: it drops the tasks, whose connections go on elsewhere or end. A host that is in holds it a little
        // longer.
        let runtime = self.runtime.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(runtime) = runtime.and_then(Arc::into_inner) {
            runtime.shutdown_background();
        }
    }

    /// Waits until the helper may drive; `false`: it is over.
    fn take_over(&self) -> bool {
        let mut state = self.lock();
        let mut seen = None;
        loop {
            if state.ended && !state.host_in {
                return false;
            }
            let patience = match state.host_left {
                // A host that takes turns is looked at now and then: to be told of each would cost it a system call. One that
                // stays long is waited for.
                _ if state.host_in && seen == Some(state.stays) => {
                    state.helper_sleeps = true;
                    state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                    continue;
                }
                _ if state.host_in => OVERDUE,
                None => Duration::ZERO,
                Some(left) => OVERDUE.saturating_sub(left.elapsed()),
            };
            if patience.is_zero() {
                state.helper_in = true;
                return true;
            }
            seen = state.host_in.then_some(state.stays);
            state = self.changed.wait_timeout(state, patience).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Drives until it is asked for something else.
    async fn until_asked(&self) -> Asked {
        tokio::select! {
            biased;
            () = self.leave.notified() => Asked::Leave,
            () = self.tell.notified() => Asked::Tell,
        }
    }
}
