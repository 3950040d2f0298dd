//! How quick a statement was: what routing knows of one beside what the lanes look like. No I/O, no clock.

use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};

/// A reply that took longer than this, with nothing before it, was slow: far above what a busy server, or one whose
/// replies are collected, takes for a look-up.
pub(crate) const SLOW_US: u64 = 50_000;

/// So many quick answers make up for a slow one: how long a statement takes may depend on its values.
const QUICK_IN_A_ROW: u8 = 8;

const UNKNOWN: u8 = 0;
const QUICK: u8 = 1;

/// What is known of a statement's pace. Not known until it was answered once. Read and written without order: who sees
/// it a moment late routes as well as he can.
#[derive(Default)]
pub struct Pace(AtomicU8);

impl Pace {
    /// It has been quick of late: others may follow it onto its lane, and it may follow others.
    pub(crate) fn is_quick(&self) -> bool {
        self.0.load(Ordering::Relaxed) == QUICK
    }

    /// It has been slow of late: nothing quick had better wait behind it.
    pub(crate) fn is_slow(&self) -> bool {
        self.0.load(Ordering::Relaxed) > QUICK
    }

    /// It was answered.
    pub(crate) fn note(&self, slow: bool) {
        let known = self.0.load(Ordering::Relaxed);
        let noted = match (slow, known) {
            (true, _) => QUICK + QUICK_IN_A_ROW,
            (false, QUICK) => return,
            (false, UNKNOWN) => QUICK,
            (false, slow) => slow - 1,
        };
        self.0.store(noted, Ordering::Relaxed);
    }
}

impl Clone for Pace {
    fn clone(&self) -> Pace {
        Pace(AtomicU8::new(self.0.load(Ordering::Relaxed)))
    }
}

impl fmt::Debug for Pace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pace = match self.0.load(Ordering::Relaxed) {
            UNKNOWN => "unknown",
            QUICK => "quick",
            _ => "slow",
        };
        f.write_str(pace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_answer_counts_until_enough_quick_ones_have_come() {
        let pace = Pace::default();
        assert!(!pace.is_quick() && !pace.is_slow(), "nothing is known before the first answer");
        pace.note(false);
        assert!(pace.is_quick());
        pace.note(true);
        for answer in 1..QUICK_IN_A_ROW {
            pace.note(false);
            assert!(pace.is_slow(), "after {answer} quick answers");
        }
        pace.note(false);
        assert!(pace.is_quick());
    }
}
