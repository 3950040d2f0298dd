//! One caller among many: lookups, transfers and more in a random mix, some of them dropped at a random moment.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fastrand::Rng;
use futures_util::future::join_all;

use super::bank::{ACCOUNTS, Bank, Ending, Failure, Fault, Transfer};
use crate::polls::{Dropped, drop_after_polls};

/// Kinds of violations that are kept; the first ones tell what is wrong.
const VIOLATIONS_KEPT: usize = 20;

/// What all workers share.
#[derive(Default)]
pub(crate) struct Shared {
    pub(crate) over: AtomicBool,
    next_number: AtomicI64,
    /// How often each was seen.
    violations: Mutex<BTreeMap<String, u64>>,
}

impl Shared {
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }

    pub(crate) fn violation(&self, text: String) {
        let mut violations = self.violations.lock().unwrap_or_else(PoisonError::into_inner);
        if violations.len() < VIOLATIONS_KEPT || violations.contains_key(&text) {
            *violations.entry(text).or_default() += 1;
        }
    }

    pub(crate) fn violations(&self) -> Vec<String> {
        let violations = self.violations.lock().unwrap_or_else(PoisonError::into_inner);
        violations.iter().map(|(text, times)| format!("{text} ({times} times)")).collect()
    }
}

/// What a worker did, and what became of the transfers that have an id.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) lookups: u64,
    pub(crate) transfers: u64,
    pub(crate) messes: u64,
    pub(crate) dropped: u64,
    pub(crate) failed: u64,
    /// Transfers with an id that were confirmed.
    pub(crate) confirmed: u64,
    /// Of which nobody knows: dropped, or lost after they were sent.
    pub(crate) unknown: BTreeSet<i64>,
    /// Of which it was said that they did not happen.
    pub(crate) denied: BTreeSet<i64>,
}

impl Tally {
    pub(crate) fn add(&mut self, other: Tally) {
        self.lookups += other.lookups;
        self.transfers += other.transfers;
        self.messes += other.messes;
        self.dropped += other.dropped;
        self.failed += other.failed;
        self.confirmed += other.confirmed;
        self.unknown.extend(other.unknown);
        self.denied.extend(other.denied);
    }
}

/// Works until it is over.
pub(crate) async fn work<B: Bank>(bank: B, shared: Arc<Shared>, seed: u64) -> Tally {
    let mut worker = Worker { bank, shared, random: Rng::with_seed(seed), tally: Tally::default() };
    while !worker.shared.is_over() {
        match worker.random.u32(..100) {
            0..55 => worker.look_up().await,
            55..70 => worker.transfer_at_once().await,
            70..92 => worker.transfer().await,
            92..97 => worker.mess().await,
            _ => worker.dawdle().await,
        }
    }
    worker.tally
}

struct Worker<B> {
    bank: B,
    shared: Arc<Shared>,
    random: Rng,
    tally: Tally,
}

impl<B: Bank> Worker<B> {
    fn next_number(&self) -> i64 {
        self.shared.next_number.fetch_add(1, Ordering::SeqCst)
    }

    /// One in eight is dropped: after some polls, or at any moment.
    async fn maybe_dropped<T>(&mut self, call: impl Future<Output = T>) -> Option<T> {
        let outcome = match self.random.u32(..16) {
            0 => drop_after_polls(self.random.usize(..20), call).await,
            1 => {
                let patience = Duration::from_micros(self.random.u64(..5_000));
                tokio::time::timeout(patience, call).await.map_or(Dropped::Pending, Dropped::Ready)
            }
            _ => Dropped::Ready(call.await),
        };
        self.tally.dropped += u64::from(matches!(outcome, Dropped::Pending));
        outcome.ready()
    }

    async fn failed(&mut self, what: &str, failure: &Failure) {
        self.tally.failed += 1;
        if failure.fault == Fault::Unexpected {
            self.shared.violation(format!("{what}: {failure}"));
        }
        // As a program would that cannot go on for the moment.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }

    /// Some at once, which share a trip.
    async fn look_up(&mut self) {
        let tags: Vec<i64> = (0..self.random.usize(1..12)).map(|_| self.next_number()).collect();
        let bank = self.bank.clone();
        let calls = join_all(tags.iter().map(|tag| bank.look_up(*tag, 1 + tag % ACCOUNTS)));
        let Some(answers) = self.maybe_dropped(calls).await else { return };
        for (tag, answer) in tags.into_iter().zip(answers) {
            self.tally.lookups += 1;
            match answer {
                Ok(own) if own == tag => {}
                Ok(other) => self.shared.violation(format!("{tag} got the answer to {other}")),
                Err(failure) => self.failed("a lookup", &failure).await,
            }
        }
    }

    fn draw_transfer(&mut self) -> Transfer {
        let from = self.random.i64(1..=ACCOUNTS);
        let to = 1 + (from + self.random.i64(0..ACCOUNTS - 1)) % ACCOUNTS;
        let ending = match self.random.u32(..10) {
            0 => Ending::Rollback,
            1 => Ending::Drop,
            _ => Ending::Commit,
        };
        Transfer { id: self.next_number(), from, to, amount: self.random.i64(1..100), ending }
    }

    async fn transfer_at_once(&mut self) {
        let (bank, transfer) = (self.bank.clone(), Transfer { ending: Ending::Commit, ..self.draw_transfer() });
        let outcome = self.maybe_dropped(bank.transfer_at_once(transfer)).await;
        self.tally.transfers += 1;
        self.enter("a transfer at once", transfer, outcome, B::AT_ONCE_HAS_ID).await;
    }

    async fn transfer(&mut self) {
        let (bank, transfer) = (self.bank.clone(), self.draw_transfer());
        let outcome = self.maybe_dropped(bank.transfer(transfer)).await;
        self.tally.transfers += 1;
        self.enter("a transfer", transfer, outcome, true).await;
    }

    async fn enter(&mut self, what: &str, transfer: Transfer, outcome: Option<Result<(), Failure>>, has_id: bool) {
        if let Some(Err(failure)) = &outcome {
            self.failed(what, failure).await;
        }
        match outcome {
            _ if !has_id => {}
            _ if transfer.ending != Ending::Commit => _ = self.tally.denied.insert(transfer.id),
            Some(Ok(())) => self.tally.confirmed += 1,
            Some(Err(failure)) if !failure.may_have_happened => _ = self.tally.denied.insert(transfer.id),
            Some(Err(_)) | None => _ = self.tally.unknown.insert(transfer.id),
        }
    }

    async fn mess(&mut self) {
        let (bank, number) = (self.bank.clone(), self.next_number());
        let Some(outcome) = self.maybe_dropped(bank.mess(number)).await else { return };
        self.tally.messes += 1;
        if let Err(failure) = outcome {
            self.failed("a lease", &failure).await;
        }
    }

    async fn dawdle(&mut self) {
        let (bank, time) = (self.bank.clone(), Duration::from_millis(self.random.u64(..30)));
        if let Some(Err(failure)) = self.maybe_dropped(bank.dawdle(time)).await {
            self.failed("a slow statement", &failure).await;
        }
    }
}
