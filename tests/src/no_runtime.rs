//! An executor that is none: for callers without a runtime.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Instant;

use crate::wait::HANGS_AFTER;

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs `future` on the current thread, which has no runtime.
///
/// # Panics
///
/// When the thread has one after all: then the test would not show what it is meant to. Also when the future hangs.
pub fn block_on_without_runtime<F: Future>(future: F) -> F::Output {
    assert!(tokio::runtime::Handle::try_current().is_err(), "this thread has a runtime");
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut cx = Context::from_waker(&waker);
    let mut future = pin!(future);
    let began = Instant::now();
    loop {
        match future.as_mut().poll(&mut cx) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park_timeout(HANGS_AFTER),
        }
        assert!(began.elapsed() < HANGS_AFTER, "a future hangs on a thread without a runtime");
    }
}
