//! Many callers, as a program has them: each asks, waits inside the driver, and asks again at once, after an error too.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::task::JoinSet;

use crate::client::Client;

pub(crate) const CALLERS: usize = 256;

/// All callers, and what they were told since it was last asked for.
pub(crate) struct Callers {
    shared: Arc<Shared>,
    tasks: JoinSet<()>,
}

#[derive(Default)]
struct Shared {
    over: AtomicBool,
    told: Mutex<Told>,
}

impl Shared {
    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the callers were told.
#[derive(Default)]
pub(crate) struct Told {
    /// When each of them was first served.
    served_at: BTreeMap<usize, Instant>,
    /// How often each error came, by its words without numbers.
    pub(crate) errors: BTreeMap<String, u64>,
}

impl Told {
    /// When the last of all callers was first served, if all were.
    pub(crate) fn all_served_at(&self) -> Option<Instant> {
        (self.served_at.len() == CALLERS).then(|| self.served_at.values().max().copied())?
    }
}

impl Callers {
    pub(crate) fn start(client: &impl Client) -> Callers {
        let shared = Arc::new(Shared::default());
        let mut tasks = JoinSet::new();
        for caller in 0..CALLERS {
            tasks.spawn(call(client.clone(), Arc::clone(&shared), caller));
        }
        Callers { shared, tasks }
    }

    /// Whether each was served since it was last asked what they were told.
    pub(crate) fn all_served(&self) -> bool {
        self.shared.told().all_served_at().is_some()
    }

    /// What they were told so far; then all begins anew.
    pub(crate) fn take_told(&self) -> Told {
        std::mem::take(&mut *self.shared.told())
    }

    /// Lets each finish what it has asked.
    pub(crate) async fn stop(mut self) {
        self.shared.over.store(true, Ordering::Relaxed);
        while let Some(outcome) = self.tasks.join_next().await {
            outcome.expect("a caller does not panic");
        }
    }
}

async fn call(client: impl Client, shared: Arc<Shared>, caller: usize) {
    while !shared.over.load(Ordering::Relaxed) {
        let outcome = client.look_up().await;
        let now = Instant::now();
        let failed = outcome.is_err();
        {
            let mut told = shared.told();
            match outcome {
                Ok(()) => _ = told.served_at.entry(caller).or_insert(now),
                Err(error) => *told.errors.entry(without_numbers(&error)).or_default() += 1,
            }
        }
        if failed {
            // An error that comes without any wait must not keep the thread from the others.
            tokio::task::yield_now().await;
        }
    }
}

/// So that what differs in a port, a time or a count is counted as one.
fn without_numbers(text: &str) -> String {
    let mut kept = String::new();
    for letter in text.chars() {
        match letter {
            '0'..='9' if kept.ends_with('#') => {}
            '0'..='9' => kept.push('#'),
            other => kept.push(other),
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_that_differ_in_numbers_are_one() {
        assert_eq!(without_numbers("timed out after 5.02 s (8/8)"), "timed out after #.# s (#/#)");
        assert_eq!(without_numbers("closed"), "closed");
    }

    #[test]
    fn all_are_served_with_the_last() {
        let (mut told, begin) = (Told::default(), Instant::now());
        for caller in 1..CALLERS {
            told.served_at.insert(caller, begin);
        }
        assert_eq!(told.all_served_at(), None);
        let last = begin + std::time::Duration::from_secs(1);
        told.served_at.insert(0, last);
        assert_eq!(told.all_served_at(), Some(last));
    }
}
