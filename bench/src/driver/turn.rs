//! One contender's turn: its client threads, the warm-up and the measured window.
//!
//! It reads counters at both ends of the window and knows nothing of any driver. The thread that measures sleeps
//! meanwhile, so it costs the contender nothing.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail, ensure};
use serde::{Deserialize, Serialize};

use super::world::{ROWS, World};
use crate::cli::Load;
use crate::measure::{AllocationCount, CpuTime};

/// Long enough for fresh connections to fill the server's caches and for buffers to reach their size.
pub(crate) const WARM_UP: Duration = Duration::from_millis(500);

/// How long connecting, or finishing what is in flight, may take before the run is given up.
const SETTLE_MAX: Duration = Duration::from_secs(30);

/// A driver under test, made anew for each turn and shared by its client threads.
pub(crate) trait Contender: Send + Sync {
    /// Connects, says `share.ready()`, then keeps this thread's callers asking until `share.is_over()`.
    ///
    /// Every answer is checked with `share.check(..)` and counted with `share.answered(..)`. All answers are awaited
    /// and all connections closed before it returns.
    fn run(&self, share: &Arc<Share>) -> anyhow::Result<()>;

    /// Socket calls of all threads so far, where the driver counts them.
    fn socket_calls(&self) -> Option<SocketCalls> {
        None
    }
}

/// Reads and writes on sockets.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(crate) struct SocketCalls {
    pub(crate) writes: u64,
    pub(crate) reads: u64,
}

/// What one measured window recorded.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Turn {
    pub(crate) seconds: f64,
    pub(crate) queries: u64,
    pub(crate) user_s: f64,
    pub(crate) system_s: f64,
    /// `None` where the program's allocator does not count.
    pub(crate) allocations: Option<u64>,
    pub(crate) socket_calls: Option<SocketCalls>,
}

/// One client thread's part of the work, and where it reports.
pub(crate) struct Share {
    pub(crate) connections: usize,
    pub(crate) callers: usize,
    seed: u64,
    world: Arc<World>,
    answered: AtomicU64,
    over: AtomicBool,
    events: Sender<Event>,
}

enum Event {
    Ready,
    Ended(anyhow::Result<()>),
}

impl Share {
    /// This thread's connections stand; the warm-up may begin.
    pub(crate) fn ready(&self) {
        // Nobody listens any more when another thread has failed; then this one is told by `is_over`.
        let _ = self.events.send(Event::Ready);
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Counts answers. Called by this share's own thread only, so that plain loads and stores do.
    pub(crate) fn answered(&self, queries: u64) {
        let answered = self.answered.load(Ordering::Relaxed);
        self.answered.store(answered + queries, Ordering::Relaxed);
    }

    pub(crate) fn check(&self, asked_id: i32, id: i32, number: i32) -> anyhow::Result<()> {
        self.world.check(asked_id, id, number)
    }

    /// The ids that one of this thread's callers asks for, the same in each round.
    pub(crate) fn ids(&self, caller: usize) -> Ids {
        Ids(fastrand::Rng::with_seed(self.seed + caller as u64))
    }
}

/// Random ids of rows that exist.
pub(crate) struct Ids(fastrand::Rng);

impl Ids {
    pub(crate) fn next_id(&mut self) -> i32 {
        self.0.i32(1..=ROWS)
    }
}

#[cfg(test)]
impl Ids {
    pub(crate) fn seeded(seed: u64) -> Self {
        Self(fastrand::Rng::with_seed(seed))
    }
}

/// Divides `total` as evenly as possible; the first parts get what is left over.
pub(crate) fn even_part(total: usize, parts: usize, part: usize) -> usize {
    let leftover = total.checked_rem(parts).unwrap_or_default();
    total.checked_div(parts).unwrap_or_default() + usize::from(part < leftover)
}

/// Runs one contender through warm-up and window.
pub(crate) fn take(contender: Arc<dyn Contender>, load: &Load, world: &Arc<World>) -> anyhow::Result<Turn> {
    let (events, inbox) = channel();
    let shares = shares(load, world, &events);
    for share in &shares {
        start_thread(Arc::clone(&contender), Arc::clone(share))?;
    }
    let window = Duration::from_secs_f64(load.seconds);
    let measured = measure(contender.as_ref(), &shares, &inbox, window);
    for share in &shares {
        share.over.store(true, Ordering::Relaxed);
    }
    let turn = measured?;
    for _ in &shares {
        wait_for_end(&inbox)?;
    }
    ensure!(turn.queries > 0, "no query was answered");
    Ok(turn)
}

fn shares(load: &Load, world: &Arc<World>, events: &Sender<Event>) -> Vec<Arc<Share>> {
    let threads = load.threads.get();
    (0..threads)
        .map(|thread| {
            Arc::new(Share {
                connections: even_part(load.connections.get(), threads, thread),
                callers: even_part(load.callers.get(), threads, thread),
                // Callers of different threads ask for different ids.
                seed: (thread * load.callers.get()) as u64,
                world: Arc::clone(world),
                answered: AtomicU64::new(0),
                over: AtomicBool::new(false),
                events: events.clone(),
            })
        })
        .collect()
}

fn start_thread(contender: Arc<dyn Contender>, share: Arc<Share>) -> anyhow::Result<()> {
    thread::Builder::new()
        .name("client".to_owned())
        .spawn(move || {
            let outcome = catch_unwind(AssertUnwindSafe(|| contender.run(&share)))
                .unwrap_or_else(|panic| Err(anyhow!("it panicked: {}", panic_text(&*panic))));
            // Nobody listens any more when another thread has failed first.
            let _ = share.events.send(Event::Ended(outcome));
        })
        .context("cannot start a client thread")?;
    Ok(())
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

fn measure(
    contender: &dyn Contender,
    shares: &[Arc<Share>],
    inbox: &Receiver<Event>,
    window: Duration,
) -> anyhow::Result<Turn> {
    for _ in shares {
        match inbox.recv_timeout(SETTLE_MAX) {
            Ok(Event::Ready) => {}
            Ok(Event::Ended(outcome)) => return Err(ended_early(outcome)),
            Err(_) => bail!("it had no connections after {SETTLE_MAX:?}"),
        }
    }
    let answered = || -> u64 {
        let counts = shares.iter().map(|share| share.answered.load(Ordering::Relaxed));
        counts.sum()
    };
    keep_asking(inbox, WARM_UP)?;
    let allocations = AllocationCount::start();
    let calls_before = contender.socket_calls();
    let cpu_before = CpuTime::of_this_process()?;
    let answered_before = answered();
    let start = Instant::now();
    keep_asking(inbox, window)?;
    let queries = answered() - answered_before;
    let seconds = start.elapsed().as_secs_f64();
    let cpu = CpuTime::of_this_process()? - cpu_before;
    let calls = contender.socket_calls();
    Ok(Turn {
        seconds,
        queries,
        user_s: cpu.user.as_secs_f64(),
        system_s: cpu.system.as_secs_f64(),
        allocations: Some(allocations.end()),
        socket_calls: calls
            .zip(calls_before)
            .map(|(now, before)| SocketCalls { writes: now.writes - before.writes, reads: now.reads - before.reads }),
    })
}

/// Sleeps while the callers work; wakes early only if one of the threads gives up.
fn keep_asking(inbox: &Receiver<Event>, time: Duration) -> anyhow::Result<()> {
    match inbox.recv_timeout(time) {
        Err(RecvTimeoutError::Timeout) => Ok(()),
        Ok(Event::Ended(outcome)) => Err(ended_early(outcome)),
        Ok(Event::Ready) => bail!("a client thread was ready twice"),
        Err(RecvTimeoutError::Disconnected) => bail!("a client thread is gone"),
    }
}

fn ended_early(outcome: anyhow::Result<()>) -> anyhow::Error {
    outcome.err().unwrap_or_else(|| anyhow!("a client thread ended before its time"))
}

fn wait_for_end(inbox: &Receiver<Event>) -> anyhow::Result<()> {
    match inbox.recv_timeout(SETTLE_MAX) {
        Ok(Event::Ended(outcome)) => outcome,
        Ok(Event::Ready) => bail!("a client thread was ready twice"),
        Err(_) => bail!("queries in flight had no answer after {SETTLE_MAX:?}"),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command};

    fn load(threads: &str) -> Load {
        let arguments = ["cenote-bench", "turn", "floor", "--seconds=0.1", "--threads", threads];
        let Command::Turn(options) = Cli::parse_from(arguments).command else {
            panic!("the words ask for a turn");
        };
        options.load
    }

    fn take_turn(contender: impl Contender + 'static, threads: &str) -> anyhow::Result<Turn> {
        let world = Arc::new(World::made_up());
        take(Arc::new(contender), &load(threads), &world)
    }

    fn error_of(contender: impl Contender + 'static) -> String {
        let error = take_turn(contender, "1").expect_err("the contender failed");
        format!("{error:#}")
    }

    /// Answers from the made-up table; the rest of its behaviour is given.
    struct Scripted<F>(F);

    impl<F: Fn(&Share) -> anyhow::Result<()> + Send + Sync> Contender for Scripted<F> {
        fn run(&self, share: &Arc<Share>) -> anyhow::Result<()> {
            (self.0)(share)
        }
    }

    #[test]
    fn only_answers_within_the_window_count() {
        let total = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&total);
        let turn = take_turn(
            Scripted(move |share: &Share| {
                share.ready();
                while !share.is_over() {
                    share.answered(1);
                    counter.fetch_add(1, Ordering::Relaxed);
                }
                Ok(())
            }),
            "2",
        )
        .expect("nothing fails");
        assert!(turn.queries > 0);
        assert!(turn.queries < total.load(Ordering::Relaxed), "warm-up counted");
        assert!(turn.seconds >= 0.1);
        assert!(turn.user_s + turn.system_s > 0.0);
    }

    #[test]
    fn an_error_before_within_and_after_the_window_voids_the_turn() {
        let before = Scripted(|_: &Share| Err(anyhow!("refused")));
        assert_eq!(error_of(before), "refused");
        let within = Scripted(|share: &Share| {
            share.ready();
            share.check(1, 2, 3)
        });
        assert!(error_of(within).contains("wrong row"));
        let after = Scripted(|share: &Share| {
            share.ready();
            while !share.is_over() {
                share.answered(1);
            }
            Err(anyhow!("late"))
        });
        assert_eq!(error_of(after), "late");
    }

    #[test]
    fn giving_up_quietly_or_answering_nothing_is_an_error() {
        let quiet = Scripted(|share: &Share| {
            share.ready();
            Ok(())
        });
        assert!(error_of(quiet).contains("ended before its time"));
        let idle = Scripted(|share: &Share| {
            share.ready();
            while !share.is_over() {
                thread::yield_now();
            }
            Ok(())
        });
        assert_eq!(error_of(idle), "no query was answered");
    }

    #[test]
    fn a_panic_is_an_error_with_its_message() {
        let panicking = Scripted(|_: &Share| panic!("out of step"));
        assert_eq!(error_of(panicking), "it panicked: out of step");
    }

    #[test]
    fn parts_are_even_and_add_up() {
        for (total, parts) in [(256, 8), (8, 2), (7, 2), (1, 1), (10, 4)] {
            let each: Vec<_> = (0..parts).map(|part| even_part(total, parts, part)).collect();
            assert_eq!(each.iter().sum::<usize>(), total, "{each:?}");
            let least = each.iter().min().copied().unwrap_or_default();
            assert!(each.iter().all(|part| *part <= least + 1), "{each:?}");
        }
    }

    #[test]
    fn callers_ask_for_rows_that_exist_and_not_in_step() {
        let (events, _inbox) = channel();
        let world = Arc::new(World::made_up());
        let shares = shares(&load("2"), &world, &events);
        let firsts: std::collections::BTreeSet<_> =
            shares.iter().flat_map(|share| (0..share.callers).map(|caller| share.ids(caller).next_id())).collect();
        assert!(firsts.iter().all(|id| (1..=ROWS).contains(id)));
        assert!(firsts.len() > 200, "256 callers began with {} ids", firsts.len());
    }
}
