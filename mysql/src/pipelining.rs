//! What a pool has learned about its servers: which of them take commands before the last one is answered.
//!
//! Servers do; some of what stands before them does not. ProxySQL closes the connection, Aurora 2 answers once and then
//! never again. The log-in asks in passing, two queries at once under a short time limit; who fails that, or keeps
//! ending fresh connections with several commands in flight, is sent one command at a time from there on, for as long as
//! the pool lives.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use cenote_pool::Address;

/// So many connections in a row that ended young, with several commands in flight, are taken for an answer.
const LOSSES_MAX: u32 = 3;

/// A connection that has answered more than this was not ended for what it was sent at first.
const YOUNG_ANSWERS_MAX: u8 = 1;

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
pub(crate) struct Host {
    /// Connections lost young in a row; from [`LOSSES_MAX`] on it is not asked any more.
    losses: AtomicU32,
}

impl Host {
    /// Whether commands may follow each other without waiting, as far as is known.
    pub(crate) fn may_pipeline(&self) -> bool {
        self.losses.load(Ordering::Relaxed) < LOSSES_MAX
    }

    /// It was asked in the log-in, and does not.
    pub(crate) fn does_not_pipeline(&self) {
        self.losses.store(LOSSES_MAX, Ordering::Relaxed);
    }

    /// A connection ended with so many commands in flight, after so many answers.
    pub(crate) fn lost(&self, in_flight: usize, answers: u8) {
        if !self.may_pipeline() {
            return;
        }
        if answers > YOUNG_ANSWERS_MAX {
            self.losses.store(0, Ordering::Relaxed);
        } else if in_flight > 1 {
            self.losses.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_that_keep_ending_young_are_an_answer() {
        let hosts = Hosts::default();
        let address = |port| Address::Tcp { host: "db".to_owned(), port };
        let host = hosts.at(&address(1));
        host.lost(8, 1);
        host.lost(1, 0);
        host.lost(8, 0);
        host.lost(8, 2);
        host.lost(8, 1);
        host.lost(8, 1);
        assert!(host.may_pipeline(), "one that had answered came between, and one command in flight says nothing");
        host.lost(2, 1);
        assert!(!host.may_pipeline());
        host.lost(8, 200);
        assert!(!hosts.at(&address(1)).may_pipeline(), "it stays so");
        assert!(hosts.at(&address(2)).may_pipeline(), "another host");
    }
}
