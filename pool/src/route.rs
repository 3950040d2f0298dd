//! Which lane a statement takes: a pure function of what the lanes look like.
//!
//! ```text
//!  own thread's lanes ── fresh and not deep? ── yes ──> fill what this turn writes anyway, else the least deep
//!        └── none, or all deep or stalled ──> the better of two random lanes, by outstanding work
//! ```
//!
//! It reads no clock and draws no random number: both are arguments.

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
    /// How long the lane takes per statement of late, in microseconds.
    pub service_us: u64,
    /// Whether the lane is going to write this turn anyway.
    pub writes_soon: bool,
}

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
    /// Up to this depth a lane that writes this turn anyway is filled before another is begun.
    pub pack_depth: usize,
}

impl Limits {
    /// The usual limits, under a hard cap of `in_flight_max`.
    pub fn new(in_flight_max: usize) -> Limits {
        Limits { in_flight_max, depth_soft: 64.min(in_flight_max), oldest_age_soft_us: 5_000, pack_depth: PACK_DEPTH }
    }
}

/// See [`Limits::pack_depth`].
const PACK_DEPTH: usize = 8;

/// The lane to take: its place in `lanes`. `None` when every lane is full or closed.
pub fn choose<L>(lanes: L, limits: Limits, random: u64) -> Option<usize>
where
    L: ExactSizeIterator<Item = View> + Clone,
{
    let admits = |view: &View| view.open && view.depth < limits.in_flight_max;
    let nearest = lanes.clone().filter(admits).map(|view| view.nearness).max()?;
    let near = lanes
        .clone()
        .enumerate()
        .filter(|(_, view)| admits(view) && view.nearness == nearest && view.oldest_age_us <= limits.oldest_age_soft_us)
        .min_by_key(|(_, view)| {
            let packs = view.writes_soon && view.depth < limits.pack_depth;
            (!packs, view.depth)
        });
    if let Some((index, view)) = near
        && view.depth < limits.depth_soft
    {
        return Some(index);
    }
    let work =
        |view: &View| view.oldest_age_us.saturating_add(view.service_us.max(1).saturating_mul(view.depth as u64));
    let admitted = lanes.clone().filter(admits).count() as u64;
    let first = random % admitted;
    let second = (random >> 32) % admitted;
    lanes
        .enumerate()
        .filter(|(_, view)| admits(view))
        .enumerate()
        .filter(|(place, (index, _))| {
            *place as u64 == first || *place as u64 == second || near.is_some_and(|(near, _)| near == *index)
        })
        .map(|(_, candidate)| candidate)
        .min_by_key(|(_, view)| work(view))
        .map(|(index, _)| index)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: View =
        View { nearness: Nearness::Own, open: true, depth: 0, oldest_age_us: 0, service_us: 10, writes_soon: false };

    fn limits() -> Limits {
        Limits { in_flight_max: 128, depth_soft: 64, oldest_age_soft_us: 5_000, pack_depth: 8 }
    }

    fn chosen(lanes: &[View], random: u64) -> Option<usize> {
        choose(lanes.iter().copied(), limits(), random)
    }

    #[test]
    fn table() {
        let deep = View { depth: 100, ..OWN };
        let full = View { depth: 128, ..OWN };
        let closed = View { open: false, ..OWN };
        let stalled = View { depth: 1, oldest_age_us: 2_000_000, ..OWN };
        let foreign = View { nearness: Nearness::Foreign, ..OWN };
        let shared = View { nearness: Nearness::Shared, ..OWN };
        let writing = View { depth: 3, writes_soon: true, ..OWN };
        let packed = View { depth: 8, writes_soon: true, ..OWN };
        let both = 1 << 32;
        for (name, lanes, expected) in [
            ("no lane", vec![], None),
            ("all full or closed", vec![full, closed], None),
            ("one below the cap", vec![full, View { depth: 127, ..OWN }], Some(1)),
            ("the own thread's before an idle foreign one", vec![foreign, View { depth: 10, ..OWN }], Some(1)),
            ("a shared runtime's before a foreign thread's", vec![foreign, shared], Some(1)),
            ("the least deep of the own", vec![View { depth: 2, ..OWN }, OWN, View { depth: 1, ..OWN }], Some(1)),
            ("what writes anyway is filled first", vec![OWN, writing], Some(1)),
            ("but only so far", vec![OWN, packed], Some(0)),
            ("a stalled one is passed by, though less deep", vec![stalled, View { depth: 40, ..OWN }], Some(1)),
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
