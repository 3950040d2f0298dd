//! Callers that wait because every lane is full: one bounded FIFO, and nobody overtakes it.
//!
//! Room is granted, not raced for: whoever frees room grants it to the front of the queue, and as long as anybody
//! waits or holds a grant he has not used, newcomers queue behind. A place that is dropped (a future that was
//! dropped, a deadline) leaves the queue and hands an unused grant on. Nobody is woken under the lock.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Instant;

use tokio::sync::oneshot;

use crate::error::Failure;
use crate::sync::{AtomicUsize, Mutex, MutexGuard};

type Verdict = Result<(), Failure>;

#[derive(Debug, Default)]
struct Queue {
    next_ticket: u64,
    /// By ascending ticket.
    waiting: VecDeque<(u64, oneshot::Sender<Verdict>)>,
    /// Grants given and not used yet.
    granted: usize,
}

impl Queue {
    /// A grant was not used: whom it goes to, if anybody waits.
    fn hand_on(&mut self) -> Option<oneshot::Sender<Verdict>> {
        let next = self.waiting.pop_front();
        if next.is_none() {
            self.granted -= 1;
        }
        next.map(|(_, sender)| sender)
    }
}

/// The queue.
#[derive(Debug)]
pub(crate) struct Waiters {
    /// Places that exist. Read without the lock by every submit.
    present: AtomicUsize,
    queue: Mutex<Queue>,
    waiters_max: usize,
}

impl Waiters {
    pub(crate) fn new(waiters_max: usize) -> Arc<Waiters> {
        Arc::new(Waiters { present: AtomicUsize::new(0), queue: Mutex::default(), waiters_max })
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Callers that wait or hold an unused grant.
    pub(crate) fn present(&self) -> usize {
        self.present.load(Ordering::SeqCst)
    }

    /// Callers for whom there is no room yet.
    pub(crate) fn waiting(&self) -> usize {
        self.lock().waiting.len()
    }

    /// A place at the end of the queue.
    pub(crate) fn join(self: &Arc<Self>) -> Result<Place, Failure> {
        let mut queue = self.lock();
        if self.present.load(Ordering::SeqCst) >= self.waiters_max {
            return Err(Failure::TooManyWaiters { waiters_max: self.waiters_max });
        }
        self.present.fetch_add(1, Ordering::SeqCst);
        let ticket = queue.next_ticket;
        queue.next_ticket += 1;
        let (sender, verdict) = oneshot::channel();
        queue.waiting.push_back((ticket, sender));
        drop(queue);
        Ok(Place { waiters: Arc::clone(self), ticket, since: Instant::now(), verdict, granted: false })
    }

    /// There is room for `room` statements: grants as many, less those granted and not used yet.
    pub(crate) fn grant(&self, room: usize) {
        loop {
            let mut queue = self.lock();
            if queue.granted >= room {
                return;
            }
            let Some((_, sender)) = queue.waiting.pop_front() else { return };
            queue.granted += 1;
            drop(queue);
            self.tell(Some(sender));
        }
    }

    /// Tells whom a grant went to, or whoever comes next if he has left in this very moment. Not under the lock: to wake is to
    /// run code of his, which may come back here.
    fn tell(&self, mut next: Option<oneshot::Sender<Verdict>>) {
        while let Some(sender) = next {
            if sender.send(Ok(())).is_ok() {
                return;
            }
            next = self.lock().hand_on();
        }
    }

    /// Nobody will be served: tells everyone who waits.
    pub(crate) fn fail_all(&self, failure: &Failure) {
        let waiting = std::mem::take(&mut self.lock().waiting);
        for (_, sender) in waiting {
            // An error means that he left in this very moment.
            let _ = sender.send(Err(failure.clone()));
        }
    }
}

/// A caller's place in the queue.
#[derive(Debug)]
pub(crate) struct Place {
    waiters: Arc<Waiters>,
    ticket: u64,
    since: Instant,
    verdict: oneshot::Receiver<Verdict>,
    granted: bool,
}

impl Place {
    /// When the caller joined the queue.
    pub(crate) fn since(&self) -> Instant {
        self.since
    }

    /// Waits for a grant.
    pub(crate) async fn granted(&mut self) -> Verdict {
        match (&mut self.verdict).await {
            Ok(Ok(())) => {
                self.granted = true;
                Ok(())
            }
            Ok(Err(failure)) => Err(failure),
            Err(_) => Err(Failure::Closed),
        }
    }

    /// The grant was used: the room is taken.
    pub(crate) fn spend(mut self) {
        if std::mem::take(&mut self.granted) {
            self.waiters.lock().granted -= 1;
        }
    }

    /// The grant came to nothing: back to where this place was, before all that came later.
    pub(crate) fn requeue(&mut self) {
        let (sender, verdict) = oneshot::channel();
        let mut queue = self.waiters.lock();
        if std::mem::take(&mut self.granted) {
            queue.granted -= 1;
        }
        let at = queue.waiting.partition_point(|(ticket, _)| *ticket < self.ticket);
        queue.waiting.insert(at, (self.ticket, sender));
        self.verdict = verdict;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // From here on a grant does not reach us, and whoever gave it hands it on.
        self.verdict.close();
        let mut queue = self.waiters.lock();
        let at = queue.waiting.partition_point(|(ticket, _)| *ticket < self.ticket);
        let waits = queue.waiting.get(at).is_some_and(|(ticket, _)| *ticket == self.ticket);
        let own = if waits { queue.waiting.remove(at) } else { None };
        let granted = !waits && (self.granted || matches!(self.verdict.try_recv(), Ok(Ok(()))));
        // Right here: nothing else may happen in the pool that would ask how much room there is.
        let next = if granted { queue.hand_on() } else { None };
        drop(queue);
        drop(own);
        self.waiters.tell(next);
        self.waiters.present.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn is_granted(place: &mut Place) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        matches!(pin!(place.granted()).poll(&mut cx), Poll::Ready(Ok(())))
    }

    #[test]
    fn first_come_first_served_and_no_more_than_there_is_room() {
        let waiters = Waiters::new(10);
        let mut places: Vec<Place> = (0..4).map(|_| waiters.join().unwrap()).collect();
        waiters.grant(2);
        waiters.grant(2);
        let granted: Vec<bool> = places.iter_mut().map(is_granted).collect();
        assert_eq!(granted, [true, true, false, false], "a grant not used yet takes up its room");
        places.remove(0).spend();
        waiters.grant(2);
        let granted: Vec<bool> = places.iter_mut().skip(1).map(is_granted).collect();
        assert_eq!(granted, [true, false]);
    }

    #[test]
    fn a_place_that_is_dropped_loses_nothing() {
        let waiters = Waiters::new(10);
        let granted_unseen = waiters.join().unwrap();
        let waiting = waiters.join().unwrap();
        let mut last = waiters.join().unwrap();
        waiters.grant(1);
        drop(granted_unseen);
        drop(waiting);
        assert_eq!(waiters.present(), 1);
        assert!(is_granted(&mut last), "the unused grant went on to who still waits");
        drop(last);
        assert_eq!((waiters.present(), waiters.lock().granted), (0, 0));
    }

    #[test]
    fn a_grant_that_came_to_nothing_keeps_its_place() {
        let waiters = Waiters::new(10);
        let mut first = waiters.join().unwrap();
        let mut second = waiters.join().unwrap();
        waiters.grant(1);
        assert!(is_granted(&mut first));
        first.requeue();
        waiters.grant(1);
        assert!(is_granted(&mut first));
        assert!(!is_granted(&mut second));
    }

    #[test]
    fn the_queue_is_bounded_and_a_failure_reaches_everyone() {
        let waiters = Waiters::new(2);
        let mut first = waiters.join().unwrap();
        let second = waiters.join().unwrap();
        assert!(matches!(waiters.join(), Err(Failure::TooManyWaiters { waiters_max: 2 })));
        drop(second);
        waiters.fail_all(&Failure::Closed);
        let mut cx = Context::from_waker(Waker::noop());
        assert!(matches!(pin!(first.granted()).poll(&mut cx), Poll::Ready(Err(Failure::Closed))));
        drop(first);
        assert_eq!((waiters.present(), waiters.lock().granted), (0, 0));
    }
}
