//! Models of what callers and drivers do at the same time, run by loom through every order of their steps and every value
//! that the memory model lets them see: up to so many preemptions, or there would be no end.
//!
//! ```text
//!  callers ──> pool, lanes, leases ──> driver ──> line ──> server, which answers a byte with itself
//! ```
//!
//! All but the line and the server is what runs elsewhere: the driver, too, polled by a loom thread. What loom sees are the
//! locks and atomics of `sync.rs`; all between two of them is one step. A wake-up that is lost is a deadlock, which loom
//! reports; that bytes and slots are in one order shows in that each caller gets his own byte.
//!
//! Not modelled: runtimes, timers (time stands still, so no look of somebody who waits makes up for a wake-up that was lost),
//! connecting, and what the kernel does. `make loom` runs them all.

mod leases;
mod line;
mod slots;
mod turns;
mod waiting;

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use bytes::BytesMut;
use loom::sync::{Condvar, Mutex};

use crate::driver::Driver;
use crate::error::Failure;
use crate::inbound::Inbound;
use crate::lane::{Answer, Lane, Submission, Submitted};
use crate::language::{
    Address, End, Expected, Framed, Framer, Handle, Language, Login, LoginFailure, LoginStep, PeerFault, StatementId,
};
use crate::limits::{LaneLimits, PoolLimits};
use crate::pipeline::Outcome;
use crate::pool::Pool;
use crate::prepared::Prepared;
use crate::retirement::Birth;
use crate::tenancy::Tenant;
use crate::tls::TlsPeer;

pub(crate) use line::Line;

/// Futures in an unoptimised build are deep.
const STACK_BYTES: usize = 256 * 1024;

/// Steps of one run. Far more than any of these takes, so that a driver that turns for ever is found.
const STEPS_MAX: usize = 10_000;

/// Runs `model` in every order of steps with so many preemptions at most.
fn check(preemptions_max: usize, model: fn()) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound.get_or_insert(preemptions_max);
    builder.max_branches = STEPS_MAX;
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    builder.check(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        spawn(model).join().unwrap();
    });
    println!("{} runs", runs.load(Ordering::Relaxed));
}

fn spawn<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> loom::thread::JoinHandle<T> {
    loom::thread::Builder::new().stack_size(STACK_BYTES).spawn(run).expect("a thread of the model")
}

/// What wakes a task: each wake-up is heard, and nothing else is. (`loom::future::block_on` also wakes for no reason; that
/// would hide what is lost, and make most of the runs.)
#[derive(Default)]
struct Task {
    woken: Mutex<bool>,
    changed: Condvar,
}

impl Task {
    fn sleep(&self) {
        let mut woken = self.woken.lock().unwrap();
        while !std::mem::take(&mut *woken) {
            woken = self.changed.wait(woken).unwrap();
        }
    }
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        *self.woken.lock().unwrap() = true;
        self.changed.notify_one();
    }
}

/// Polls a future when it is woken, and else never.
fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let task = Arc::new(Task::default());
    let waker = Waker::from(Arc::clone(&task));
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        task.sleep();
    }
}

/// A language in which each byte is a statement, and the reply to it the same byte.
#[derive(Debug)]
pub(crate) struct Echo;

impl Language for Echo {
    type Framer = Echo;
    type Login = Echo;

    fn addresses(&self) -> &[Address] {
        &[]
    }

    fn login(&self, _: &Address, _: u32, _: &mut Vec<u8>) -> Result<(Echo, LoginStep<Echo>), LoginFailure> {
        unreachable!("connecting is not modelled")
    }

    fn append_forget(_: StatementId, _: Handle, _: &mut Vec<u8>) {}

    fn rollback() -> Vec<u8> {
        b"r".to_vec()
    }

    fn reset(&self, _: bool) -> Vec<Vec<u8>> {
        Vec::new()
    }

    fn farewell() -> &'static [u8] {
        b""
    }
}

impl Login for Echo {
    type Framer = Echo;

    fn advance(&mut self, _: &mut BytesMut, _: &mut Vec<u8>) -> Result<LoginStep<Echo>, LoginFailure> {
        unreachable!("connecting is not modelled")
    }

    fn tls_started(&mut self, _: &TlsPeer, _: &mut Vec<u8>) -> Result<LoginStep<Echo>, LoginFailure> {
        unreachable!("connecting is not modelled")
    }
}

impl Framer for Echo {
    fn advance(&mut self, _: &[u8], expected: Expected) -> Result<Framed, PeerFault> {
        if expected == Expected::Nothing {
            return Err(PeerFault("a reply that nobody asked for".to_owned()));
        }
        Ok(Framed { consumed: 1, end: Some(End::Reply { settled: true, failed: false }) })
    }
}

/// A pool with one lane.
struct World {
    pool: Pool<Echo>,
    lane: Arc<Lane<Echo>>,
    line: Line,
}

impl World {
    /// `in_flight_max` statements at once, over a line that holds so many bytes. With it, the lane's driver.
    fn new(in_flight_max: usize, line_bytes_max: usize) -> (World, Driver<Echo>) {
        let lane_limits = LaneLimits { in_flight_max, ..LaneLimits::default() };
        let limits = PoolLimits { connections_max: 1, lane: lane_limits, ..PoolLimits::default() };
        let pool = Pool::new(Echo, limits);
        let inner = pool.inner();
        let lane = Lane::new(
            1,
            Birth::now(0, Duration::ZERO, 1, 0),
            0,
            &inner.limits.lane,
            in_flight_max,
            Prepared::new(1),
            None,
        );
        // Not the first reply of all: the driver takes one more lock for that, and so much may hide behind a lock.
        lane.counters.replies.add_unshared(1);
        let lane = Arc::new(lane);
        let growth = inner.growth();
        inner.list(&lane);
        drop(growth);
        inner.alive.fetch_add(1, Ordering::SeqCst);
        let line = Line::new(line_bytes_max);
        let seat = pin!(inner.budget.get()).poll(&mut Context::from_waker(Waker::noop()));
        let Poll::Ready(Ok(seat)) = seat else { panic!("an empty budget has a place") };
        let socket = crate::socket::Socket::Model(line.clone());
        let inbound = Inbound::new(Echo, BytesMut::new(), 1);
        let driver = Driver::new(Arc::clone(inner), Arc::clone(&lane), seat, socket, inbound, 1);
        (World { pool, lane, line }, driver)
    }

    /// Starts the driver, and a server that answers when it comes to it.
    fn start(&self, driver: Driver<Echo>) -> [loom::thread::JoinHandle<()>; 2] {
        let line = self.line.clone();
        [spawn(move || block_on(driver.run())), spawn(move || block_on(line.serve()))]
    }

    /// Starts the driver alone: what is written is answered in that moment.
    fn start_prompt(&self, driver: Driver<Echo>) -> loom::thread::JoinHandle<()> {
        self.line.answer_promptly();
        spawn(move || block_on(driver.run()))
    }

    /// Closes the pool. By then nobody waits, no slot is taken, and these statements have been written, each once.
    fn end(self, driver: loom::thread::JoinHandle<()>, statements: &[u8]) {
        let World { pool, lane, line } = self;
        assert_eq!(pool.inner().waiters.present(), 0);
        let slots = lane.lock().pipeline.occupied_slots();
        assert_eq!((lane.depth(), slots), (0, 0));
        drop(pool);
        driver.join().unwrap();
        let mut written = line.written();
        written.sort_unstable();
        assert_eq!(written, statements);
    }
}

/// Queues one statement on a lane, as everybody does, unless it takes none.
fn try_queue(lane: &Arc<Lane<Echo>>, statement: u8) -> Option<Answer<Echo>> {
    let submission = Submission { preparations: &[], payload: &[statement] };
    // Woken is who asks for the reply: with another waker.
    match lane.submit(submission, Tenant::PUBLIC, Waker::noop().clone(), || 1) {
        Ok(Submitted::Statement(answer)) => Some(answer),
        Ok(_) => panic!("there is nothing to prepare"),
        Err(_) => None,
    }
}

/// Queues one statement on a lane that has room.
fn queue(lane: &Arc<Lane<Echo>>, statement: u8) -> Answer<Echo> {
    try_queue(lane, statement).expect("the lane takes it")
}

/// What a statement is answered with; `None` if its lane is lost.
async fn reply(mut answer: Answer<Echo>) -> Option<u8> {
    match poll_fn(|cx| answer.poll(cx)).await {
        (Outcome::Reply { bytes, .. }, _) => Some(bytes[0]),
        (Outcome::Lost { .. }, _) => None,
        (Outcome::TooLarge, _) => panic!("a byte is not too large"),
    }
}

/// Runs one statement to its end, wherever it finds room.
async fn ask(pool: &Pool<Echo>, statement: u8) -> Result<u8, Failure> {
    let encode = |out: &mut BytesMut| {
        out.extend_from_slice(&[statement]);
        Ok::<(), Failure>(())
    };
    let answered = pool.run(&[], encode).await?;
    assert_eq!(answered.reply.len(), 1, "a reply is a byte");
    Ok(answered.reply[0])
}
