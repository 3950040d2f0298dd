//! How much has to have come before the kernel wakes a lane's thread: one reply, or several at once.
//!
//! A server sends each reply by itself, and where it is slower than we are each would wake a thread that then finds its
//! caches cold: on two cores with MySQL 20 us of client CPU for each query, of which the query's own work is two. With a
//! long backlog nobody gains by that. So the kernel is asked to collect replies, up to half of what is in flight and up
//! to what the server sends within [`COLLECTED_US_MAX`], before it tells us (`SO_RCVLOWAT`). No timer is on that way; but
//! a slow statement must not keep the replies before it, so `watch` has a look at lanes that collect and stand still.
//!
//! Pure: decides, and does nothing.

/// How long a reply may wait for others, as far as can be told beforehand: so long a server's processes take to have a
/// turn each on a busy machine. What waits longer behind something slow is fetched (`watch.rs`).
pub(crate) const COLLECTED_US_MAX: u64 = 8_000;

/// With fewer statements in flight each reply is told at once: there is little to collect.
const BACKLOG_MIN: usize = 8;

/// No more than fits well into the read buffer and the kernel's own.
const BYTES_MAX: usize = 16 * 1024;

/// So many replies have to be seen before any is collected: the first ones describe their statements and are longer.
const SEEN_MIN: u32 = 64;

/// After replies had to be fetched because they stood still nothing is collected for a while: once, and twice as often
/// each time it happens again, up to so many times. Alone it may be a server that was kept from running for a moment; where
/// slow statements are many, collecting does not pay.
const EAGER_TIMES_MAX: u32 = 512;

/// So many marks that held in a row halve that again.
const CALM_TIMES: u32 = 16;

/// The mark of one connection.
#[derive(Debug)]
pub(crate) struct LowWater {
    /// What the kernel was told; 1 is what it does by itself.
    bytes: usize,
    /// The least that replies have taken of late; 0 before the first.
    reply_bytes: usize,
    seen: u32,
    /// So many times nothing is collected.
    eager_times: u32,
    /// How often it will be after the next fetch.
    eager_times_next: u32,
    calm_times: u32,
}

impl Default for LowWater {
    fn default() -> LowWater {
        LowWater { bytes: 1, reply_bytes: 0, seen: 0, eager_times: 0, eager_times_next: 1, calm_times: 0 }
    }
}

impl LowWater {
    /// Whether replies are collected.
    pub(crate) fn is_raised(&self) -> bool {
        self.bytes > 1
    }

    /// Notes a reply's size. Small ones count at once, larger ones by and by: the mark must not be more than comes.
    pub(crate) fn saw_reply(&mut self, bytes: usize) {
        self.seen = self.seen.saturating_add(1);
        if self.reply_bytes == 0 || bytes < self.reply_bytes {
            self.reply_bytes = bytes;
        } else {
            self.reply_bytes += (bytes - self.reply_bytes) / 16;
        }
    }

    /// What has come stood still: it is wanted now, and each reply for a while.
    pub(crate) fn lower(&mut self) {
        self.eager_times = self.eager_times_next;
        self.eager_times_next = (self.eager_times_next * 2).min(EAGER_TIMES_MAX);
        self.calm_times = 0;
    }

    /// The mark that fits so many unanswered statements, if the kernel has to be told.
    ///
    /// `service_us` is what the server takes for a statement, `round_trip_us` the way there and back: as long as that is
    /// what replies wait for, there is nothing to collect.
    pub(crate) fn adjust(&mut self, backlog: usize, service_us: u64, round_trip_us: u64) -> Option<usize> {
        let busy = backlog as u64 * service_us >= round_trip_us.saturating_mul(2);
        if self.is_raised() && self.eager_times == 0 {
            self.calm_times += 1;
            if self.calm_times == CALM_TIMES {
                self.calm_times = 0;
                self.eager_times_next = (self.eager_times_next / 2).max(1);
            }
        }
        let replies = match busy && backlog >= BACKLOG_MIN && self.seen >= SEEN_MIN {
            true if self.eager_times == 0 => (backlog / 2).min((COLLECTED_US_MAX / service_us.max(1)) as usize),
            true => {
                self.eager_times -= 1;
                0
            }
            false => 0,
        };
        let wanted = (replies * self.reply_bytes).clamp(1, BYTES_MAX);
        // Near enough is left as it is: telling the kernel is a system call.
        let near = self.bytes >= wanted / 2 && self.bytes <= wanted + wanted / 4;
        if near && (wanted > 1) == self.is_raised() {
            return None;
        }
        self.bytes = wanted;
        Some(wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEAR_US: u64 = 100;

    fn low_water(reply_bytes: usize) -> LowWater {
        let mut low_water = LowWater::default();
        (0..SEEN_MIN).for_each(|_| low_water.saw_reply(reply_bytes));
        low_water
    }

    #[test]
    fn half_of_a_long_backlog_is_collected() {
        let mut low_water = low_water(100);
        assert_eq!(low_water.adjust(32, 100, NEAR_US), Some(1_600));
        assert_eq!(low_water.adjust(32, 100, NEAR_US), None, "it knows");
        assert_eq!(low_water.adjust(30, 100, NEAR_US), None, "near enough");
        assert_eq!(low_water.adjust(16, 100, NEAR_US), Some(800));
        assert_eq!(low_water.adjust(7, 100, NEAR_US), Some(1), "little is in flight");
        assert_eq!(low_water.adjust(0, 100, NEAR_US), None);
    }

    #[test]
    fn slow_or_distant_servers_are_not_waited_for() {
        let mut low_water = low_water(100);
        assert_eq!(low_water.adjust(32, 1_000, NEAR_US), Some(800), "eight come within the time");
        assert_eq!(low_water.adjust(32, 9_000, NEAR_US), Some(1), "none does");
        assert_eq!(low_water.adjust(32, 100, 2_000), None, "replies wait for the network");
        assert_eq!(low_water.adjust(32, 100, u64::MAX), None, "nobody knows how far it is");
        assert_eq!(low_water.adjust(32, 0, 0), Some(1_600), "faster than the clock");
    }

    #[test]
    fn a_mark_is_never_more_than_comes() {
        let mut low_water = LowWater::default();
        (1..SEEN_MIN).for_each(|_| low_water.saw_reply(1_000));
        assert_eq!(low_water.adjust(32, 100, NEAR_US), None, "too few have been seen");
        low_water.saw_reply(10);
        assert_eq!(low_water.adjust(32, 100, NEAR_US), Some(160), "the next may be as small");
        low_water.saw_reply(1 << 20);
        assert_eq!(low_water.adjust(100, 1, 0), Some(BYTES_MAX));
    }

    #[test]
    fn what_stands_still_again_and_again_is_collected_less_and_less() {
        let mut low_water = low_water(100);
        // How many times nothing is collected after a fetch.
        let eager_times = |low_water: &mut LowWater| {
            low_water.lower();
            assert_eq!(low_water.adjust(32, 100, NEAR_US), Some(1), "what has come is wanted now");
            (1..).find(|_| low_water.adjust(32, 100, NEAR_US) == Some(1_600))
        };
        assert_eq!(low_water.adjust(32, 100, NEAR_US), Some(1_600));
        for expected in [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 512] {
            assert_eq!(eager_times(&mut low_water), Some(expected));
        }
        for _ in 0..3 * CALM_TIMES {
            assert_eq!(low_water.adjust(32, 100, NEAR_US), None, "it holds");
        }
        assert_eq!(eager_times(&mut low_water), Some(64), "and that is remembered");
    }
}
