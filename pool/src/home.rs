//! Whose thread is this, and which runtime drives a lane that is opened from here?
//!
//! A thread that runs a current-thread runtime is a home of its own: lanes opened from it stay on it. Lanes opened
//! from a runtime of several threads are shared by those. A caller without any runtime is served by one thread of
//! the library's own, which also keeps the timers of callers that wait.

use std::cell::Cell;
use std::io;
use std::marker::PhantomData;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::runtime::{Handle, Runtime, RuntimeFlavor};

/// Look-ups of names at once, each on a thread that ends when it is idle. More than a few only where a name server does not
/// answer: the system gives up after a while, and an attempt that begins meanwhile must not stand behind the last one.
const LOOKUPS_MAX: usize = 32;

/// The home of lanes on a runtime of several threads.
pub(crate) const SHARED: u32 = 0;

static NEXT: AtomicU32 = AtomicU32::new(1);

thread_local!(static NUMBER: Cell<u32> = const { Cell::new(SHARED) });

fn next_number() -> u32 {
    // Relaxed: only uniqueness counts.
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// A number of the current thread, or of the [`Home`] it stands for; never [`SHARED`].
pub(crate) fn thread_number() -> u32 {
    NUMBER.with(|number| {
        if number.get() == SHARED {
            number.set(next_number());
        }
        number.get()
    })
}

/// A current-thread runtime that is driven by now this thread and now that: its lanes are at home on all of them. For
/// hosts whose threads come and go; elsewhere a thread is its own home.
#[derive(Debug)]
pub struct Home(u32);

/// For as long as it lives this thread stands for a [`Home`].
#[derive(Debug)]
#[must_use = "the thread stands for the home no longer than this lives"]
pub struct Entered {
    before: u32,
    // To be dropped on the thread it was made on.
    _thread: PhantomData<*const ()>,
}

impl Home {
    /// A home of its own.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Home {
        Home(next_number())
    }

    /// Has this thread stand for it: what is submitted, opened and driven here meanwhile is this home's.
    pub fn enter(&self) -> Entered {
        Entered { before: NUMBER.replace(self.0), _thread: PhantomData }
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        NUMBER.set(self.before);
    }
}

/// The home of a task that runs right here.
pub(crate) fn of_this_task() -> u32 {
    match Handle::try_current() {
        Ok(handle) if handle.runtime_flavor() == RuntimeFlavor::CurrentThread => thread_number(),
        _ => SHARED,
    }
}

/// The runtime that drives what is started from here, and whether it may be a home of its own.
pub(crate) fn runtime() -> Option<(Handle, bool)> {
    match Handle::try_current() {
        Ok(handle) => {
            let single = handle.runtime_flavor() == RuntimeFlavor::CurrentThread;
            Some((handle, single))
        }
        Err(_) => background().map(|handle| (handle, false)),
    }
}

/// The library's own thread. `None` when the system gives us none.
pub(crate) fn background() -> Option<Handle> {
    if cfg!(cenote_loom) {
        // A model knows all its threads.
        return None;
    }
    static RUNTIME: OnceLock<Option<Runtime>> = OnceLock::new();
    let runtime = RUNTIME.get_or_init(|| {
        without_signals(|| {
            tokio::runtime::Builder::new_multi_thread()
                .worker_threads(1)
                .max_blocking_threads(LOOKUPS_MAX)
                .thread_name("cenote")
                .enable_all()
                .build()
                .ok()
        })
    });
    runtime.as_ref().map(|runtime| runtime.handle().clone())
}

/// Runs what starts our threads. Signals are the program's: none of its handlers runs on a thread of ours, not even in its
/// first moment. A thread has blocked what was blocked where it was started, so those that ours start later do, too.
fn without_signals<T>(start: impl FnOnce() -> T) -> T {
    #[cfg(unix)]
    {
        use nix::sys::signal::{SigSet, SigmaskHow};
        // Neither fails with these arguments.
        let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK);
        let started = start();
        if let Ok(before) = before {
            let _ = before.thread_set_mask();
        }
        started
    }
    #[cfg(not(unix))]
    start()
}

/// Runs what may block on one of the library's own threads. Dropped, it goes on by itself.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    // Begun by a thread of ours, so that the new one, if there has to be one, is like it.
    let run = async move { tokio::task::spawn_blocking(work).await };
    let done = match background() {
        Some(runtime) => runtime.spawn(run).await.map_err(io::Error::other)?,
        None => run.await,
    };
    done.map_err(io::Error::other)
}

/// Waits, by the clock of the library's own thread: the caller's runtime may have none.
pub(crate) async fn sleep(duration: Duration) {
    let Some(handle) = background() else {
        // Without a thread there is no clock; a caller then waits for room alone.
        return std::future::pending().await;
    };
    let sleep = {
        let _entered = handle.enter();
        tokio::time::sleep(duration)
    };
    sleep.await;
}

/// A random number for routing and jitter: cheap, and good enough for both.
pub(crate) fn random() -> u64 {
    thread_local!(static STATE: Cell<u64> = const { Cell::new(0) });
    STATE.with(|state| {
        let mut value = state.get();
        if value == 0 {
            use std::hash::{BuildHasher, Hasher};
            value = std::hash::RandomState::new().build_hasher().finish() | 1;
        }
        value ^= value << 13;
        value ^= value >> 7;
        value ^= value << 17;
        state.set(value);
        value
    })
}
