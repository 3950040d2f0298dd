//! Which connection is retired next, and when one is old: pure decisions.
//!
//! One at a time, so that a pool whose connections were all made in the same moment is never without. Nothing here looks
//! at a clock or ends anything; that is `housekeeping`.

use std::time::Duration;

/// What a connection has from the beginning and keeps, whoever drives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Birth {
    /// Which connections were made before the pool last left a server.
    pub(crate) generation: u64,
    /// When it is old.
    pub(crate) expires_at_us: u64,
}

/// A lifetime is shorter than the longest by up to this part of it: connections that were made together do not end
/// together.
const JITTER_PART: u64 = 10;

impl Birth {
    /// Of a connection that is made now. A lifetime of zero has no end.
    pub(crate) fn now(generation: u64, max_lifetime: Duration, now_us: u64, random: u64) -> Birth {
        let longest_us = micros(max_lifetime);
        let expires_at_us = match longest_us {
            0 => u64::MAX,
            _ => now_us.saturating_add(longest_us - random % (longest_us / JITTER_PART + 1)),
        };
        Birth { generation, expires_at_us }
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// A lane, as far as its end goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    /// Which lane.
    pub(crate) lane: u64,
    /// Whether it takes statements; else it is about to end.
    pub(crate) open: bool,
    /// When it is old.
    pub(crate) expires_at_us: u64,
    /// Since when it has had nothing to do.
    pub(crate) idle_since_us: Option<u64>,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Nothing.
    Nothing,
    /// Nothing: one is about to end.
    Wait,
    /// Retire this lane.
    Retire(u64),
}

/// Decides who is retired now: of those that are old the one that has been so for longest, else the one that has been idle for
/// longest, if that is too long. The last one is never idle for too long: whoever comes next finds a connection, and its
/// age ends it in time.
pub(crate) fn decide(lanes: &[Candidate], idle_timeout: Duration, now_us: u64) -> Decision {
    if lanes.iter().any(|lane| !lane.open) {
        return Decision::Wait;
    }
    let old = lanes.iter().filter(|lane| lane.expires_at_us <= now_us).min_by_key(|lane| lane.expires_at_us);
    if let Some(old) = old {
        return Decision::Retire(old.lane);
    }
    if lanes.len() < 2 || idle_timeout.is_zero() {
        return Decision::Nothing;
    }
    match lanes.iter().filter_map(|lane| Some((lane.idle_since_us?, lane.lane))).min() {
        Some((since_us, lane)) if now_us.saturating_sub(since_us) >= micros(idle_timeout) => Decision::Retire(lane),
        _ => Decision::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_US: u64 = 1_000_000;

    #[test]
    fn table() {
        use Decision::{Nothing, Retire, Wait};
        let lane = |lane, expires_at_us, idle_since_us| Candidate { lane, open: true, expires_at_us, idle_since_us };
        let (busy, idle_for) = (None, |seconds: u64| Some(1_000 * SECOND_US - seconds * SECOND_US));
        let (young, old_for) = (u64::MAX, |seconds: u64| 1_000 * SECOND_US - seconds * SECOND_US);
        let draining = |lane| Candidate { open: false, ..lane };
        for (name, lanes, expected) in [
            ("nobody", vec![], Nothing),
            ("nobody is old or idle", vec![lane(1, young, busy), lane(2, young, idle_for(9))], Nothing),
            ("the idlest", vec![lane(1, young, idle_for(10)), lane(2, young, idle_for(11))], Retire(2)),
            ("an idle one beside a busy one", vec![lane(1, young, busy), lane(2, young, idle_for(10))], Retire(2)),
            ("the last one stays, however idle", vec![lane(1, young, idle_for(900))], Nothing),
            ("the last one goes by its age", vec![lane(1, old_for(0), idle_for(900))], Retire(1)),
            ("age before idleness", vec![lane(1, young, idle_for(900)), lane(2, old_for(0), busy)], Retire(2)),
            ("the oldest", vec![lane(1, old_for(1), busy), lane(2, old_for(2), busy)], Retire(2)),
            ("one at a time", vec![lane(1, old_for(1), busy), draining(lane(2, old_for(2), busy))], Wait),
            ("whyever it ends", vec![lane(1, young, idle_for(900)), draining(lane(2, young, busy))], Wait),
        ] {
            assert_eq!(decide(&lanes, Duration::from_secs(10), 1_000 * SECOND_US), expected, "{name}");
        }
        let idle = [lane(1, young, idle_for(900)), lane(2, young, idle_for(900))];
        assert_eq!(decide(&idle, Duration::ZERO, 1_000 * SECOND_US), Nothing, "zero is never");
    }

    #[test]
    fn lifetimes_that_begin_together_end_apart() {
        let lifetime = Duration::from_secs(1_800);
        let ends: Vec<u64> =
            (0..1_000).map(|random| Birth::now(0, lifetime, 5, random * 180_001).expires_at_us).collect();
        let (first, last) = (*ends.iter().min().unwrap(), *ends.iter().max().unwrap());
        assert_eq!(last, 5 + 1_800 * SECOND_US, "never later than was asked for");
        assert!((5 + 1_620 * SECOND_US..5 + 1_625 * SECOND_US).contains(&first), "a tenth earlier at most: {first}");
        assert_eq!(Birth::now(0, Duration::ZERO, 5, 77).expires_at_us, u64::MAX, "zero is never");
        assert_eq!(Birth::now(0, Duration::MAX, 5, 0).expires_at_us, u64::MAX);
    }
}
