//! A thread that looks at a pool every few milliseconds: when its connections are lost, and how many connects are under
//! way. A thread, so that it looks on while the runtime has no time.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::client::Client;
use crate::processor;

/// Costs about a thousandth of a processor.
const INTERVAL: Duration = Duration::from_millis(5);

pub(crate) struct Watch {
    seen: Arc<Seen>,
    thread: JoinHandle<()>,
}

#[derive(Default)]
struct Seen {
    over: AtomicBool,
    loss: OnceLock<Mark>,
    connecting_max: AtomicUsize,
}

/// A moment, and what this process had used of the processors by then.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    pub(crate) at: Instant,
    used: Duration,
}

impl Mark {
    pub(crate) fn now() -> Mark {
        Mark { at: Instant::now(), used: processor::used() }
    }

    /// What was used since an earlier one, in percent of one processor.
    pub(crate) fn percent_since(&self, earlier: &Mark) -> f64 {
        let used = self.used.saturating_sub(earlier.used).as_secs_f64();
        100.0 * used / (self.at - earlier.at).as_secs_f64()
    }
}

impl Watch {
    /// Begins to look, while nothing is lost yet.
    pub(crate) fn start(client: &impl Client) -> Watch {
        let (seen, client) = (Arc::new(Seen::default()), client.clone());
        let of_thread = Arc::clone(&seen);
        let lost_before = client.stats().connections_lost;
        let thread = std::thread::spawn(move || {
            while !of_thread.over.load(Ordering::Relaxed) {
                let stats = client.stats();
                of_thread.connecting_max.fetch_max(stats.connecting, Ordering::Relaxed);
                if stats.connections_lost > lost_before {
                    of_thread.loss.get_or_init(Mark::now);
                }
                std::thread::sleep(INTERVAL);
            }
        });
        Watch { seen, thread }
    }

    /// When the first connection was lost.
    pub(crate) fn loss(&self) -> Option<Mark> {
        self.seen.loss.get().copied()
    }

    /// Stops looking. The most connects that were seen under way at once.
    pub(crate) fn stop(self) -> usize {
        self.seen.over.store(true, Ordering::Relaxed);
        self.thread.join().expect("it only looks");
        self.seen.connecting_max.load(Ordering::Relaxed)
    }
}
