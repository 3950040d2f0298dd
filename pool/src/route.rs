//! Which lane a statement takes: a pure function of what the lanes look like.
//!
//! ```text
//!  own thread's lanes ── fresh and not deep? ── yes ──> the least deep; others of this turn follow it
//!        └── none, or all deep or stalled ──> the better of two random lanes, by outstanding work
//! ```
//!
//! A lane with a statement that is known to be slow counts as stalled from the moment it is queued. Such statements keep
//! together where they would take the last lane that is free of them.
//!
//! It reads no clock and draws no random number: both are arguments.

use std::cmp::Reverse;

use crate::pace::SLOW_US;

/// What a lane looks like to a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// How near the lane's thread is to the caller.
    pub nearness: Nearness,
    /// Whether it takes new statements at all.
    pub open: bool,
    /// Statements in flight.
    pub depth: usize,
    /// How long its oldest statement has been the oldest, in microseconds.
    pub oldest_age_us: u64,
    /// Whether a statement in flight is known to be slow.
    pub slow: bool,
    /// How long the lane takes per statement of late, in microseconds.
    pub service_us: u64,
}

impl View {
    /// Whatever is queued here waits for something slow.
    pub(crate) fn is_stalled(&self, limits: Limits) -> bool {
        self.slow || self.oldest_age_us > limits.oldest_age_soft_us
    }

    /// A guess of how long what is queued here now will wait, in microseconds.
    pub(crate) fn outstanding_us(&self) -> u64 {
        let slow_us = if self.slow { SLOW_US } else { 0 };
        let queue_us = self.service_us.max(1).saturating_mul(self.depth as u64);
        let head_us = match self.oldest_age_us {
            age_us if age_us > SLOW_US => age_us.saturating_mul(STILL_WEIGHT),
            age_us => age_us,
        };
        head_us.max(slow_us).saturating_add(queue_us)
    }
}

/// A statement that has run for long is likely to run for as long again, or for ever, while a queue gets shorter. So on a
/// busy machine a deep queue of slow progress must not look worse than one statement that stands still.
const STILL_WEIGHT: u64 = 8;

/// How near a lane's thread is to the caller's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Nearness {
    /// Homed on another single thread: its thread must be woken.
    Foreign,
    /// Driven by a runtime of several threads.
    Shared,
    /// Homed on the caller's own thread.
    Own,
}

/// When a lane counts as deep or stalled, and how lanes are filled.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Statements in flight, at most; a lane at this depth takes nothing.
    pub in_flight_max: usize,
    /// Past this depth a lane of the own thread is weighed against others.
    pub depth_soft: usize,
    /// Past this age of its oldest statement a lane counts as stalled: a lookup takes well under a millisecond, so
    /// whatever is behind it would wait for something slow.
    pub oldest_age_soft_us: u64,
    /// By so much a lane may get deeper than the next before the statements of one turn begin another: fewer and fuller
    /// writes.
    pub pack_depth: usize,
}

impl Limits {
    /// The usual limits, under a hard cap of `in_flight_max`.
    pub fn new(in_flight_max: usize) -> Limits {
        Limits { in_flight_max, depth_soft: 64.min(in_flight_max), oldest_age_soft_us: 5_000, pack_depth: PACK_DEPTH }
    }
}

/// See [`Limits::pack_depth`].
const PACK_DEPTH: usize = 16;

/// The lane to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Its place among the lanes.
    pub index: usize,
    /// How many more statements of the same thread may follow it in the same turn without another look: they share its
    /// write, and it does not get much deeper than the next.
    pub followers: usize,
    /// What is queued there waits for something slow.
    pub stalled: bool,
}

/// Chooses among lanes. `None` when every lane is full or closed.
pub fn choose<L>(lanes: L, limits: Limits, random: impl FnOnce() -> u64) -> Option<Choice>
where
    L: ExactSizeIterator<Item = View> + Clone,
{
    let admits = |view: &View| view.open && view.depth < limits.in_flight_max;
    let mut nearest = Nearness::Foreign;
    let mut best: Option<(usize, View)> = None;
    let mut next_depth = usize::MAX;
    for (index, view) in lanes.clone().enumerate() {
        if !admits(&view) || view.is_stalled(limits) || view.nearness < nearest {
            continue;
        }
        if view.nearness > nearest {
            nearest = view.nearness;
            best = None;
            next_depth = usize::MAX;
        }
        match best {
            Some((_, known)) if known.depth <= view.depth => next_depth = next_depth.min(view.depth),
            _ => {
                next_depth = best.map_or(usize::MAX, |(_, known)| known.depth);
                best = Some((index, view));
            }
        }
    }
    if let Some((index, view)) = best
        && view.depth < limits.depth_soft
    {
        let until = next_depth.saturating_add(limits.pack_depth).min(limits.depth_soft);
        return Some(Choice { index, followers: until.saturating_sub(view.depth + 1), stalled: false });
    }
    // One that stands still is no better for having little in flight, as long as any other admits.
    let any_fresh = best.is_some();
    let admits = |view: &View| admits(view) && !(any_fresh && view.is_stalled(limits));
    let (index, view) = better_of_two(lanes, admits, best.map(|(index, _)| index), random())?;
    Some(Choice { index, followers: 0, stalled: view.is_stalled(limits) })
}

/// The better of two random lanes and the own one, by outstanding work.
fn better_of_two<L>(lanes: L, admits: impl Fn(&View) -> bool, own: Option<usize>, random: u64) -> Option<(usize, View)>
where
    L: Iterator<Item = View> + Clone,
{
    let admitted = lanes.clone().filter(&admits).count() as u64;
    let first = random.checked_rem(admitted)?;
    // Another one, where there is another: a lane that is far behind must never stand against itself.
    let second = (first + 1 + (random >> 32) % (admitted - 1).max(1)) % admitted;
    lanes
        .enumerate()
        .filter(|(_, view)| admits(view))
        .enumerate()
        .filter(|(place, (index, _))| *place as u64 == first || *place as u64 == second || own == Some(*index))
        .map(|(_, candidate)| candidate)
        .min_by_key(|(_, view)| view.outstanding_us())
}

/// Chooses for a statement that is known to be slow: the idlest lane, if another is left free of slow ones; else where
/// others of its kind are. `None` when every lane is full or closed.
pub fn choose_for_slow<L>(lanes: L, limits: Limits) -> Option<Choice>
where
    L: ExactSizeIterator<Item = View> + Clone,
{
    let admitted = lanes.enumerate().filter(|(_, view)| view.open && view.depth < limits.in_flight_max);
    let free = admitted.clone().filter(|(_, view)| !view.is_stalled(limits)).count();
    // Of its kind, and not merely late: one that stands still for no known reason may do so for ever.
    let taken = admitted.clone().any(|(_, view)| view.slow);
    let may_take_free = free > 1 || !taken;
    admitted
        .filter(|(_, view)| may_take_free || view.slow)
        .min_by_key(|(_, view)| (view.outstanding_us(), Reverse(view.nearness)))
        .map(|(index, view)| Choice { index, followers: 0, stalled: view.is_stalled(limits) || !may_take_free })
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: View =
        View { nearness: Nearness::Own, open: true, depth: 0, oldest_age_us: 0, slow: false, service_us: 10 };

    fn limits() -> Limits {
        Limits { in_flight_max: 128, depth_soft: 64, oldest_age_soft_us: 5_000, pack_depth: 8 }
    }

    fn chosen(lanes: &[View], random: u64) -> Option<usize> {
        choose(lanes.iter().copied(), limits(), || random).map(|choice| choice.index)
    }

    #[test]
    fn table() {
        let deep = View { depth: 100, ..OWN };
        let full = View { depth: 128, ..OWN };
        let closed = View { open: false, ..OWN };
        let stalled = View { depth: 1, oldest_age_us: 2_000_000, ..OWN };
        let slow = View { depth: 1, slow: true, ..OWN };
        let foreign = View { nearness: Nearness::Foreign, ..OWN };
        let shared = View { nearness: Nearness::Shared, ..OWN };
        let both = 1 << 32;
        for (name, lanes, expected) in [
            ("no lane", vec![], None),
            ("all full or closed", vec![full, closed], None),
            ("one below the cap", vec![full, View { depth: 127, ..OWN }], Some(1)),
            ("the own thread's before an idle foreign one", vec![foreign, View { depth: 10, ..OWN }], Some(1)),
            ("a shared runtime's before a foreign thread's", vec![foreign, shared], Some(1)),
            ("the least deep of the own", vec![View { depth: 2, ..OWN }, OWN, View { depth: 1, ..OWN }], Some(1)),
            ("a stalled one is passed by, though less deep", vec![stalled, View { depth: 40, ..OWN }], Some(1)),
            ("one with a slow statement is passed by", vec![slow, View { depth: 40, ..OWN }], Some(1)),
            ("all own stalled: one elsewhere", vec![stalled, foreign], Some(1)),
            ("all own deep: one elsewhere", vec![deep, foreign], Some(1)),
            (
                "a foreign one only if it is better",
                vec![View { depth: 70, ..OWN }, View { depth: 90, ..foreign }],
                Some(0),
            ),
            (
                "everything stalled: still the better one",
                vec![stalled, View { oldest_age_us: 9_000_000, ..stalled }],
                Some(0),
            ),
        ] {
            assert_eq!(chosen(&lanes, both), expected, "{name}");
        }
    }

    #[test]
    fn slow_statements_leave_a_lane_to_the_others() {
        let busy = View { depth: 3, ..OWN };
        let slow = View { depth: 1, slow: true, ..OWN };
        let full = View { depth: 128, ..OWN };
        let still = View { depth: 1, oldest_age_us: 9_000_000, ..OWN };
        for (name, lanes, expected) in [
            ("no lane", vec![], None),
            ("all full", vec![full], None),
            ("not one that says nothing, and nobody knows why", vec![still, OWN], Some((1, false))),
            ("nothing else is there", vec![still, full], Some((0, true))),
            ("the only lane", vec![busy], Some((0, false))),
            ("the idlest", vec![busy, OWN, busy], Some((1, false))),
            ("not the last that is free", vec![OWN, slow], Some((1, true))),
            ("not one that has one already, while two are free", vec![slow, busy, OWN], Some((2, false))),
            ("the least burdened", vec![OWN, View { depth: 9, ..slow }, slow], Some((2, true))),
            ("everything burdened", vec![slow, View { oldest_age_us: 9_000_000, ..slow }], Some((0, true))),
        ] {
            let choice = choose_for_slow(lanes.iter().copied(), limits());
            assert_eq!(choice.map(|choice| (choice.index, choice.stalled)), expected, "{name}");
        }
    }

    #[test]
    fn followers_fill_a_write_as_long_as_the_lane_is_a_good_choice() {
        let followers = |depths: &[usize]| {
            let views = depths.iter().map(|&depth| View { depth, ..OWN });
            choose(views, limits(), || 0).map(|choice| choice.followers)
        };
        assert_eq!(followers(&[0, 0]), Some(7), "an idle lane is filled to the pack depth, the first included");
        assert_eq!(followers(&[3]), Some(60), "the only lane, to the soft limit");
        assert_eq!(followers(&[20, 30, 40]), Some(17), "until it is deeper than the next by the pack depth");
        assert_eq!(followers(&[30, 20, 40]), Some(17), "in whatever order they stand");
        assert_eq!(followers(&[20, 20]), Some(7));
    }

    #[test]
    fn a_lane_that_stands_still_is_not_taken_while_a_deep_one_admits() {
        let still = View { depth: 3, oldest_age_us: 500_000, ..OWN };
        // What a new connection's first statement says of the others.
        let deep = View { depth: 100, service_us: 20_000, ..OWN };
        for random in (0..200_u64).map(|n| n.wrapping_mul(0x9E37_79B9_7F4A_7C15)) {
            assert_ne!(chosen(&[still, deep, deep], random), Some(0), "random {random:#x}");
        }
    }

    #[test]
    fn a_queue_that_moves_slowly_is_better_than_a_statement_that_stands_still() {
        let still = View { depth: 1, oldest_age_us: 500_000, ..OWN };
        // As on a machine with eight times as much to do as it can.
        let crawling = View { depth: 100, oldest_age_us: 40_000, service_us: 30_000, ..OWN };
        for random in (0..200_u64).map(|n| n.wrapping_mul(0x9E37_79B9_7F4A_7C15)) {
            assert_eq!(chosen(&[still, crawling], random), Some(1), "random {random:#x}");
        }
        let slow = choose_for_slow([still, crawling].into_iter(), limits());
        assert_eq!(slow.map(|choice| choice.index), Some(1), "nor for a slow one");
    }

    #[test]
    fn a_lane_far_behind_is_not_taken_while_another_admits() {
        let far_behind = View { depth: 1, oldest_age_us: 2_000_000, ..OWN };
        // All of them count as stalled, as on a machine that is busy with something else.
        let late = View { depth: 30, oldest_age_us: 6_000, ..OWN };
        for lanes in [vec![far_behind, late], vec![late, late, far_behind, late, late, late, late, late]] {
            for random in (0..200_u64).map(|n| n.wrapping_mul(0x9E37_79B9_7F4A_7C15)) {
                let index = chosen(&lanes, random).expect("all admit");
                assert_eq!(lanes[index], late, "random {random:#x}");
            }
        }
    }

    #[test]
    fn every_random_number_gives_a_lane_that_admits() {
        let lanes = [
            View { depth: 128, ..OWN },
            View { depth: 100, ..OWN },
            View { open: false, ..OWN },
            View { depth: 127, ..OWN },
        ];
        for random in (0..200_u64).map(|n| n.wrapping_mul(0x9E37_79B9_7F4A_7C15)) {
            let index = chosen(&lanes, random).expect("two lanes admit");
            assert!(index == 1 || index == 3, "lane {index} is full or closed");
        }
    }
}
