//! A plan of what goes wrong with the bytes of a proxy: drawn from a seed, so that it can be had again.
//!
//! ```text
//!  seed, connection, direction ──> Course ── at each byte ──> pass so many, after a pause, some with a bit flipped
//!                                                        └──> or cut: reset or close
//! ```
//!
//! What becomes of a byte depends on the seed and on the byte's position in its connection, not on how bytes come: the
//! same conversation meets the same accidents. It does no I/O; [`Proxy::spoiled`](crate::Proxy::spoiled) does what it
//! says. It does not know any protocol: borders of pieces and places of cuts fall anywhere in a message.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use fastrand::Rng;

use crate::proxy::Direction;

/// What may happen on one way. By default nothing does.
///
/// A mean of 0 is never. Distances are drawn from 1 to twice their mean.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mischief {
    /// Bytes go on in pieces of 1 to so many; 0 leaves them whole.
    pub piece_bytes_max: u64,
    /// Between two pauses.
    pub pause_every_bytes: u64,
    /// The longest pause. A delay or a stall, as it is short or long.
    pub pause_max: Duration,
    /// Before the connection is cut, either by a reset or by a close.
    pub cut_after_bytes: u64,
    /// Between two bits that are flipped.
    pub flip_every_bytes: u64,
}

/// What became of all connections of a chaos.
#[derive(Debug, Default)]
struct Tally {
    pieces: AtomicU64,
    pauses: AtomicU64,
    cuts: AtomicU64,
    flips: AtomicU64,
}

/// Mischief on both ways, and the seed by which it strikes. Clones are the same chaos.
#[derive(Clone, Debug)]
pub struct Chaos {
    seed: u64,
    to_server: Mischief,
    to_client: Mischief,
    calm: Arc<AtomicBool>,
    tally: Arc<Tally>,
}

impl Chaos {
    /// Nothing goes wrong until it is told what may.
    pub fn new(seed: u64) -> Chaos {
        let (to_server, to_client) = (Mischief::default(), Mischief::default());
        Chaos { seed, to_server, to_client, calm: Arc::default(), tally: Arc::default() }
    }

    /// The same, with this mischief on one way.
    #[must_use]
    pub fn on(mut self, direction: Direction, mischief: Mischief) -> Chaos {
        match direction {
            Direction::ToServer => self.to_server = mischief,
            Direction::ToClient => self.to_client = mischief,
        }
        self
    }

    /// From now on nothing more goes wrong, on old and new connections; or it does again.
    pub fn set_calm(&self, calm: bool) {
        self.calm.store(calm, Ordering::SeqCst);
    }

    /// Pieces passed on.
    pub fn pieces(&self) -> u64 {
        self.tally.pieces.load(Ordering::SeqCst)
    }

    /// Pauses made.
    pub fn pauses(&self) -> u64 {
        self.tally.pauses.load(Ordering::SeqCst)
    }

    /// Connections cut.
    pub fn cuts(&self) -> u64 {
        self.tally.cuts.load(Ordering::SeqCst)
    }

    /// Bits flipped.
    pub fn flips(&self) -> u64 {
        self.tally.flips.load(Ordering::SeqCst)
    }

    /// What is in store for one way of the connection with this number.
    pub(crate) fn course(&self, connection: usize, direction: Direction) -> Course {
        let (mischief, way) = match direction {
            Direction::ToServer => (self.to_server, 0),
            Direction::ToClient => (self.to_client, 1),
        };
        // Each kind of accident has numbers of its own: none moves because another is switched on.
        let mut numbers = Rng::with_seed(self.seed ^ Rng::with_seed(2 * connection as u64 + way).u64(..));
        let mut events = |mean| Events::new(mean, numbers.fork());
        Course {
            at: 0,
            pauses: events(mischief.pause_every_bytes),
            cuts: events(mischief.cut_after_bytes),
            flips: events(mischief.flip_every_bytes),
            borders: events(mischief.piece_bytes_max.div_ceil(2)),
            pause_max: mischief.pause_max,
            calm: Arc::clone(&self.calm),
            tally: Arc::clone(&self.tally),
        }
    }
}

/// The seed in `CHAOS_SEED`, or a new one; printed, so that a failure can be had again.
pub fn chaos_seed() -> u64 {
    let given = crate::environment::url_if_given("CHAOS_SEED");
    let seed = given.map_or_else(|| fastrand::u64(..), |text| text.parse().expect("CHAOS_SEED is a number"));
    eprintln!("CHAOS_SEED={seed}");
    seed
}

/// How a connection is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// By RST: what is under way is thrown away.
    Reset,
    /// By FIN: what was passed on arrives.
    Close,
}

/// What is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// So many bytes go on, after this time.
    Pass { count: usize, pause: Duration },
    /// It ends here.
    Cut(Cut),
}

/// Positions at which something happens.
#[derive(Debug)]
struct Events {
    next: Option<u64>,
    mean: u64,
    random: Rng,
}

impl Events {
    fn new(mean: u64, random: Rng) -> Events {
        let mut events = Events { next: None, mean, random };
        events.go_on(0);
        events
    }

    /// Draws the next position, past `from`.
    fn go_on(&mut self, from: u64) {
        self.next = (self.mean > 0).then(|| from + self.random.u64(1..=2 * self.mean));
    }

    /// Bytes from `at` until the next event; those that were passed over do not count.
    fn distance(&mut self, at: u64) -> Option<u64> {
        while let Some(next) = self.next.filter(|next| *next < at) {
            self.go_on(next);
        }
        self.next.map(|next| next - at)
    }
}

/// What is in store for one way of one connection.
#[derive(Debug)]
pub(crate) struct Course {
    /// Bytes passed so far.
    at: u64,
    pauses: Events,
    cuts: Events,
    flips: Events,
    borders: Events,
    pause_max: Duration,
    calm: Arc<AtomicBool>,
    tally: Arc<Tally>,
}

impl Course {
    /// What is next, when `bytes` are there to be passed on. Flips bits in those that go.
    pub(crate) fn step(&mut self, bytes: &mut [u8]) -> Step {
        if self.calm.load(Ordering::SeqCst) {
            self.at += bytes.len() as u64;
            return Step::Pass { count: bytes.len(), pause: Duration::ZERO };
        }
        if self.cuts.distance(self.at) == Some(0) {
            self.tally.cuts.fetch_add(1, Ordering::SeqCst);
            return Step::Cut(if self.cuts.random.bool() { Cut::Reset } else { Cut::Close });
        }
        let mut pause = Duration::ZERO;
        if self.pauses.distance(self.at) == Some(0) {
            pause = self.pause_max.mul_f64(self.pauses.random.f64());
            self.pauses.go_on(self.at);
            self.tally.pauses.fetch_add(1, Ordering::SeqCst);
        }
        if self.borders.distance(self.at) == Some(0) {
            self.borders.go_on(self.at);
        }
        let ahead = [&mut self.cuts, &mut self.pauses, &mut self.borders].map(|events| events.distance(self.at));
        let until = ahead.into_iter().flatten().min().unwrap_or(u64::MAX);
        let count = bytes.len().min(usize::try_from(until).unwrap_or(usize::MAX));
        while let Some(place) = self.flips.distance(self.at).and_then(|distance| usize::try_from(distance).ok())
            && let Some(byte) = bytes[..count].get_mut(place)
        {
            *byte ^= 1 << self.flips.random.u32(..8);
            self.flips.go_on(self.at + place as u64);
            self.tally.flips.fetch_add(1, Ordering::SeqCst);
        }
        self.at += count as u64;
        self.tally.pieces.fetch_add(1, Ordering::SeqCst);
        Step::Pass { count, pause }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MISCHIEF: Mischief = Mischief {
        piece_bytes_max: 7,
        pause_every_bytes: 50,
        pause_max: Duration::from_millis(20),
        cut_after_bytes: 4_000,
        flip_every_bytes: 100,
    };

    fn chaos(seed: u64) -> Chaos {
        Chaos::new(seed).on(Direction::ToClient, MISCHIEF)
    }

    /// Bytes that come in lots of this size, until the cut: what arrived, in which pieces, and with which pauses.
    fn passed(chaos: &Chaos, connection: usize, lot_bytes: usize) -> (Vec<u8>, Vec<usize>, Vec<Duration>, Cut) {
        let mut course = chaos.course(connection, Direction::ToClient);
        let (mut arrived, mut pieces, mut pauses) = (Vec::new(), Vec::new(), Vec::new());
        loop {
            let mut lot = vec![0; lot_bytes];
            let mut rest = &mut lot[..];
            while !rest.is_empty() {
                match course.step(rest) {
                    Step::Cut(cut) => return (arrived, pieces, pauses, cut),
                    Step::Pass { count, pause } => {
                        assert!(count > 0, "it goes on");
                        let (piece, later) = rest.split_at_mut(count);
                        arrived.extend_from_slice(piece);
                        pieces.push(count);
                        pauses.extend((!pause.is_zero()).then_some(pause));
                        rest = later;
                    }
                }
            }
        }
    }

    #[test]
    fn everything_happens_in_its_measure() {
        let chaos = chaos(1);
        let (arrived, pieces, pauses, _) = passed(&chaos, 0, 1_000);
        assert!((1..=8_000).contains(&arrived.len()), "{} bytes until the cut", arrived.len());
        assert!(pieces.iter().all(|bytes| *bytes <= 8), "{pieces:?}");
        assert!(pauses.iter().all(|pause| *pause <= MISCHIEF.pause_max), "{pauses:?}");
        let flipped: u32 = arrived.iter().map(|byte| byte.count_ones()).sum();
        assert_eq!((u64::from(flipped), chaos.cuts()), (chaos.flips(), 1));
        assert_eq!((pieces.len() as u64, pauses.len() as u64), (chaos.pieces(), chaos.pauses()));
        let cuts: Vec<Cut> = (0..50).map(|connection| passed(&chaos, connection, 1_000).3).collect();
        assert!(cuts.contains(&Cut::Reset) && cuts.contains(&Cut::Close));
        assert!(chaos.flips() > 0 && chaos.pauses() > 0);
    }

    #[test]
    fn a_seed_means_the_same_however_bytes_come() {
        for connection in 0..20 {
            let (whole, _, pauses, cut) = passed(&chaos(7), connection, 100_000);
            for lot_bytes in [1, 13, 1_000] {
                let again = passed(&chaos(7), connection, lot_bytes);
                assert_eq!((&again.0, &again.2, again.3), (&whole, &pauses, cut), "in lots of {lot_bytes} bytes");
            }
            assert_ne!(passed(&chaos(8), connection, 1_000).0, whole, "another seed");
            assert_ne!(passed(&chaos(7), connection + 1, 1_000).0, whole, "another connection");
        }
    }

    #[test]
    fn calm_ends_it_and_its_end_is_no_avalanche() {
        let chaos = chaos(3);
        let mut course = chaos.course(0, Direction::ToClient);
        chaos.set_calm(true);
        let mut bytes = vec![0; 100_000];
        assert_eq!(course.step(&mut bytes), Step::Pass { count: 100_000, pause: Duration::ZERO });
        assert!(bytes.iter().all(|byte| *byte == 0));
        chaos.set_calm(false);
        let Step::Pass { count, .. } = course.step(&mut bytes) else { panic!("what was passed over is over") };
        assert!(count <= 8);
    }
}
