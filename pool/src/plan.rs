//! When to open a connection, and for which thread: a pure decision.
//!
//! Each home (a thread with its own runtime, or a shared runtime) is entitled to its share of the budget. A home
//! below its share opens a connection while the budget lasts, and otherwise takes one over from the home that has
//! the most.

use crate::limits::CONNECTS_MAX;

/// What the decision looks at.
#[derive(Clone, Debug)]
pub(crate) struct Situation<'a> {
    pub(crate) connections_max: usize,
    /// Connections under way.
    pub(crate) connecting: usize,
    /// Connections that are leased.
    pub(crate) leased: usize,
    /// The homes of the lanes, one entry for each lane.
    pub(crate) lane_homes: &'a [u32],
    /// The home that asks.
    pub(crate) home: u32,
    /// It is for a lease, which belongs to whoever asks for it, on whichever thread.
    pub(crate) for_lease: bool,
    /// The server could not be reached of late, and no new connection has answered anything since: a single prober at a
    /// time, and then one connection at a time.
    pub(crate) down: bool,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Nothing.
    Wait,
    /// Make a new connection.
    Connect,
    /// Take a connection over from this home.
    TakeOver(u32),
}

/// Decides for one home that could use another lane.
pub(crate) fn decide(situation: &Situation<'_>) -> Decision {
    let &Situation { connections_max, connecting, leased, lane_homes, home, for_lease, down } = situation;
    if connecting >= if down { 1 } else { CONNECTS_MAX } {
        return Decision::Wait;
    }
    let count = |home: u32| lane_homes.iter().filter(|&&lane_home| lane_home == home).count();
    let own = count(home);
    let mut homes: Vec<u32> = lane_homes.iter().copied().chain([home]).collect();
    homes.sort_unstable();
    homes.dedup();
    if lane_homes.len() + leased + connecting < connections_max {
        let share = connections_max.div_ceil(homes.len());
        return if own < share || for_lease { Decision::Connect } else { Decision::Wait };
    }
    let share = connections_max / homes.len();
    if own >= share {
        return Decision::Wait;
    }
    // Only from a home that keeps at least its share, and only when the gap narrows, or two homes would take the
    // same connection from each other for ever.
    let richest = homes.into_iter().filter(|&other| other != home).max_by_key(|&other| count(other));
    match richest {
        Some(other) if count(other) > share && count(other) > own + 1 => Decision::TakeOver(other),
        _ => Decision::Wait,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table() {
        let situation = |connections_max, connecting, lane_homes, home, down| {
            decide(&Situation { connections_max, connecting, leased: 0, lane_homes, home, for_lease: false, down })
        };
        let with_leases = |leased, lane_homes, for_lease| {
            decide(&Situation {
                connections_max: 4,
                connecting: 0,
                leased,
                lane_homes,
                home: 1,
                for_lease,
                down: false,
            })
        };
        for (name, decision, expected) in [
            ("the first lane", situation(8, 0, &[], 1, false), Decision::Connect),
            ("two at once", situation(8, 1, &[], 1, false), Decision::Connect),
            ("never three", situation(8, 2, &[], 1, false), Decision::Wait),
            ("one prober while down", situation(8, 1, &[], 1, true), Decision::Wait),
            ("one home may have all", situation(4, 0, &[1, 1, 1], 1, false), Decision::Connect),
            ("the budget is the budget", situation(4, 0, &[1, 1, 1, 1], 1, false), Decision::Wait),
            ("connecting counts", situation(4, 1, &[1, 1, 1], 1, false), Decision::Wait),
            ("two homes, half each", situation(8, 0, &[1, 1, 1, 1, 2], 1, false), Decision::Wait),
            ("a new home takes over", situation(4, 0, &[1, 1, 1, 1], 2, false), Decision::TakeOver(1)),
            ("up to its share", situation(4, 0, &[1, 1, 2, 2], 2, false), Decision::Wait),
            ("from the richest", situation(6, 0, &[1, 1, 2, 2, 2, 2], 3, false), Decision::TakeOver(2)),
            ("more homes than connections", situation(2, 0, &[1, 2], 3, false), Decision::Wait),
            ("leases count", with_leases(2, &[1, 1], true), Decision::Wait),
            ("a lease is nobody's share", with_leases(1, &[1, 1], true), Decision::Connect),
            ("one connection stays where it is", situation(1, 0, &[1], 2, false), Decision::Wait),
        ] {
            assert_eq!(decision, expected, "{name}");
        }
    }
}
