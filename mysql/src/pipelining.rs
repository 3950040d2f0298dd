//! What a pool has learned about its servers: which of them take commands before the last one is answered.
//!
//! Servers do; some of what stands before them does not. ProxySQL closes the connection, Aurora 2 answers once and then
//! never again. The log-in asks in passing, two queries at once under a short time limit; who fails that, or keeps
//! ending fresh connections with several commands in flight, is sent one command at a time from there on. After some
//! minutes a new connection asks again: behind the same name there may be something else by then.
//!
//! No clock: the time is an argument.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use cenote_pool::Address;

/// So many connections in a row that ended young, with several commands in flight, are taken for an answer.
const LOSSES_MAX: u32 = 3;

/// A connection that has answered more than this was not ended for what it was sent at first.
const YOUNG_ANSWERS_MAX: u8 = 1;

/// How long an answer counts. Asking in vain costs one log-in more, of a second or two where nothing is answered; so it
/// must be rare, and still come within the time in which somebody who has mended the server looks for the effect.
const ASKED_AGAIN_AFTER: Duration = Duration::from_secs(5 * 60);

/// The servers of one pool.
#[derive(Debug, Default)]
pub(crate) struct Hosts(Mutex<HashMap<Address, Arc<Host>>>);

impl Hosts {
    pub(crate) fn at(&self, address: &Address) -> Arc<Host> {
        let mut hosts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(hosts.entry(address.clone()).or_default())
    }
}

/// One server, or what stands before it.
#[derive(Debug, Default)]
pub(crate) struct Host(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    /// Connections lost young in a row; from [`LOSSES_MAX`] on it is not asked any more.
    losses: u32,
    /// When it is asked again; not known before somebody who knows the time has looked.
    again_at: Option<Instant>,
}

impl Known {
    fn may_pipeline(&self) -> bool {
        self.losses < LOSSES_MAX
    }
}

impl Host {
    /// Whether commands may follow each other without waiting, as far as is known.
    pub(crate) fn may_pipeline(&self, now: Instant) -> bool {
        let mut known = self.known();
        if known.may_pipeline() {
            return true;
        }
        let again_at = *known.again_at.get_or_insert(now + ASKED_AGAIN_AFTER);
        if now < again_at {
            return false;
        }
        // One more loss will do.
        *known = Known { losses: LOSSES_MAX - 1, again_at: None };
        true
    }

    /// Asked in the log-in, it did not let us in, and without being asked it did.
    pub(crate) fn does_not_pipeline(&self, now: Instant) {
        *self.known() = Known { losses: LOSSES_MAX, again_at: Some(now + ASKED_AGAIN_AFTER) };
    }

    /// A connection ended with so many commands in flight, after so many answers.
    pub(crate) fn lost(&self, in_flight: usize, answers: u8) {
        let mut known = self.known();
        if !known.may_pipeline() {
            return;
        }
        if answers > YOUNG_ANSWERS_MAX {
            known.losses = 0;
        } else if in_flight > 1 {
            known.losses += 1;
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(port: u16) -> Address {
        Address::Tcp { host: "db".to_owned(), port }
    }

    #[test]
    fn connections_that_keep_ending_young_are_an_answer() {
        let (hosts, now) = (Hosts::default(), Instant::now());
        let host = hosts.at(&address(1));
        host.lost(8, 1);
        host.lost(1, 0);
        host.lost(8, 0);
        host.lost(8, 2);
        host.lost(8, 1);
        host.lost(8, 1);
        assert!(host.may_pipeline(now), "one that had answered came between, and one command in flight says nothing");
        host.lost(2, 1);
        assert!(!host.may_pipeline(now));
        host.lost(8, 200);
        assert!(!hosts.at(&address(1)).may_pipeline(now), "it stays so");
        assert!(hosts.at(&address(2)).may_pipeline(now), "another host");
    }

    #[test]
    fn an_answer_counts_for_some_time() {
        let (host, now) = (Host::default(), Instant::now());
        host.does_not_pipeline(now);
        let almost = now + ASKED_AGAIN_AFTER - Duration::from_nanos(1);
        assert!(!host.may_pipeline(now) && !host.may_pipeline(almost));
        let later = now + ASKED_AGAIN_AFTER;
        assert!(host.may_pipeline(later), "it is asked again");
        host.does_not_pipeline(later);
        assert!(!host.may_pipeline(later), "and has not changed");
        let later = later + ASKED_AGAIN_AFTER;
        assert!(host.may_pipeline(later));
        host.lost(2, 0);
        assert!(!host.may_pipeline(later), "once more is enough for one that is asked again");
        assert!(!host.may_pipeline(later + ASKED_AGAIN_AFTER - Duration::from_nanos(1)), "from when it was found out");
        let later = later + ASKED_AGAIN_AFTER;
        assert!(host.may_pipeline(later));
        host.lost(0, 2);
        host.lost(8, 0);
        assert!(host.may_pipeline(later), "one that has answered well is as good as a new one");
    }
}
