//! Where the futures of a thread's connections run: as tasks of its own event loop, or within one future that somebody else
//! polls.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;

use futures_util::FutureExt;
use futures_util::stream::{FuturesUnordered, Stream};

type Task = Pin<Box<dyn Future<Output = ()>>>;

/// Starts futures of one thread.
#[derive(Clone)]
pub(crate) enum Tasks {
    /// As tasks of the event loop that runs here.
    Loop,
    /// Within [`run`](Tasks::run).
    Here(Rc<RefCell<Vec<Task>>>),
}

impl Tasks {
    /// Tasks that run within [`run`](Tasks::run).
    pub(crate) fn here() -> Tasks {
        Tasks::Here(Rc::default())
    }

    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        match self {
            Tasks::Loop => drop(tokio::task::spawn_local(task)),
            // A panic costs the task and no other, as in a loop.
            Tasks::Here(begun) => begun.borrow_mut().push(Box::pin(AssertUnwindSafe(task).catch_unwind().map(drop))),
        }
    }

    /// Runs `main`, and beside it what it spawns; what is left when `main` ends is dropped.
    pub(crate) async fn run<T>(self, main: impl Future<Output = T>) -> T {
        let Tasks::Here(begun) = self else { return main.await };
        let mut main = pin!(main);
        let mut running = FuturesUnordered::new();
        poll_fn(|cx| {
            loop {
                if let Poll::Ready(ended) = main.as_mut().poll(cx) {
                    return Poll::Ready(ended);
                }
                running.extend(begun.borrow_mut().drain(..));
                while let Poll::Ready(Some(())) = Pin::new(&mut running).poll_next(cx) {}
                // A task may have spawned another.
                if begun.borrow().is_empty() {
                    return Poll::Pending;
                }
            }
        })
        .await
    }
}
