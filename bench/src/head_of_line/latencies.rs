//! From the times of many lookups to a few percentiles. Exact: every time is kept, and they are sorted.

use anyhow::Context;
use serde::{Deserialize, Serialize};

use crate::driver::cenote::SLOW_STATEMENT_S;

/// Half a slow statement. A lookup takes as long for no other reason.
const HELD_UP_US: u32 = SLOW_STATEMENT_S * 1_000_000 / 2;

/// How long lookups took, from the call until its answer.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct Latencies {
    pub(crate) lookups: usize,
    pub(crate) p50_us: u32,
    pub(crate) p99_us: u32,
    pub(crate) p999_us: u32,
    pub(crate) longest_us: u32,
    /// How many took longer than half a slow statement: they were held up by one.
    pub(crate) held_up: usize,
}

impl Latencies {
    /// An error when there are none.
    pub(crate) fn of(mut times_us: Vec<u32>) -> anyhow::Result<Self> {
        times_us.sort_unstable();
        let at = |thousandths: usize| percentile(&times_us, thousandths);
        let all = || -> Option<Self> {
            Some(Self {
                lookups: times_us.len(),
                p50_us: at(500)?,
                p99_us: at(990)?,
                p999_us: at(999)?,
                longest_us: at(1_000)?,
                held_up: times_us.iter().filter(|time| **time > HELD_UP_US).count(),
            })
        };
        all().context("no lookup was begun in the window")
    }
}

/// The least of the sorted times that so many thousandths of all do not exceed.
fn percentile(sorted_us: &[u32], thousandths: usize) -> Option<u32> {
    let rank = (sorted_us.len() * thousandths).div_ceil(1_000);
    sorted_us.get(rank.checked_sub(1)?).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_times_that_were_measured() {
        let latencies = Latencies::of((1..=10_000).rev().collect()).expect("there are some");
        let expected =
            Latencies { lookups: 10_000, p50_us: 5_000, p99_us: 9_900, p999_us: 9_990, longest_us: 10_000, held_up: 0 };
        assert_eq!(latencies, expected);
    }

    #[test]
    fn one_stuck_lookup_in_a_thousand_is_the_longest_and_not_yet_a_percentile() {
        let mut times_us = vec![100; 999];
        times_us.push(2_000_000);
        let latencies = Latencies::of(times_us).expect("there are some");
        assert_eq!((latencies.p99_us, latencies.p999_us, latencies.longest_us), (100, 100, 2_000_000));
        let two = Latencies::of([vec![100; 998], vec![2_000_000; 2]].concat()).expect("there are some");
        assert_eq!((two.p999_us, two.held_up), (2_000_000, 2));
    }

    #[test]
    fn few_lookups_have_percentiles_and_none_are_an_error() {
        let single = Latencies::of(vec![7]).expect("there is one");
        assert_eq!((single.p50_us, single.p99_us, single.longest_us), (7, 7, 7));
        assert!(Latencies::of(Vec::new()).is_err());
    }
}
