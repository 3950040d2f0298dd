//! Futures that are dropped after exactly so many polls.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

/// What became of a future that was to be dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dropped<T> {
    /// It was ready first.
    Ready(T),
    /// It was dropped, pending.
    Pending,
}

impl<T> Dropped<T> {
    /// The output, if there was time for one.
    pub fn ready(self) -> Option<T> {
        match self {
            Dropped::Ready(output) => Some(output),
            Dropped::Pending => None,
        }
    }
}

/// Polls `future` exactly `polls` times, unless it is ready before, and drops it. With 0 it is never polled.
///
/// The polls do not wait to be asked for by a wake-up: each is a turn of the scheduler of its own, so that the drop
/// falls at many different moments of what the future is doing.
pub async fn drop_after_polls<F: Future>(polls: usize, future: F) -> Dropped<F::Output> {
    let mut future = pin!(future);
    for _ in 0..polls {
        if let Poll::Ready(output) = poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await {
            return Dropped::Ready(output);
        }
        tokio::task::yield_now().await;
    }
    Dropped::Pending
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test]
    async fn counts_exactly() {
        for polls in 0..5 {
            let polled = Cell::new(0);
            let future = poll_fn(|_| {
                polled.set(polled.get() + 1);
                if polled.get() == 3 { Poll::Ready("three") } else { Poll::Pending }
            });
            let expected = if polls < 3 { Dropped::Pending } else { Dropped::Ready("three") };
            assert_eq!(drop_after_polls(polls, future).await, expected);
            assert_eq!(polled.get(), polls.min(3));
        }
    }
}
