//! Generations of connections: whether what one of them heard means that all that are as old as it are to be left.
//!
//! A server that shuts down, or that turns out to be no place for writes any more, has been left by whoever can leave it:
//! its name stands for another by now, or the next host has taken over. The connections made until then are one
//! generation. Pure: `now_us` is an argument, and who is left is drained elsewhere (`housekeeping`).

/// No generation is left so soon after the one before. Where leaving does not help (the user may only read, whatever the
/// server; somebody ends connections one by one) a pool would otherwise do little else; so the pause grows as well.
const PAUSE_US_FIRST: u64 = 1_000_000;

/// The longest pause. So long writes may fail after a second change of servers in short order.
const PAUSE_US_MAX: u64 = 60 * 1_000_000;

/// The generation of a pool, and when it may end.
#[derive(Debug, Default)]
pub(crate) struct Generations {
    current: u64,
    not_before_us: u64,
    pause_us: u64,
}

impl Generations {
    /// The generation of a connection that is begun now.
    pub(crate) fn current(&self) -> u64 {
        self.current
    }

    /// Whether connections of this generation are to be left.
    pub(crate) fn has_left(&self, generation: u64) -> bool {
        generation < self.current
    }

    /// A connection of this generation has heard that its server is to be left. Whether it is: then a new generation
    /// begins.
    pub(crate) fn leave(&mut self, generation: u64, now_us: u64) -> bool {
        if generation != self.current || now_us < self.not_before_us {
            return false;
        }
        // Quiet for as long again as it had to be.
        let calm = now_us - self.not_before_us >= self.pause_us;
        self.pause_us = if calm { PAUSE_US_FIRST } else { (self.pause_us * 2).min(PAUSE_US_MAX) };
        self.not_before_us = now_us + self.pause_us;
        self.current += 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_US: u64 = 1_000_000;

    #[test]
    fn a_generation_is_left_once() {
        let mut generations = Generations::default();
        assert!(generations.leave(0, 5));
        for _ in 0..8 {
            assert!(!generations.leave(0, 20 * SECOND_US), "its other connections hear it, too");
        }
        assert_eq!(generations.current(), 1);
        assert!(generations.has_left(0) && !generations.has_left(1));
        assert!(generations.leave(1, 20 * SECOND_US));
        assert_eq!(generations.current(), 2);
    }

    #[test]
    fn where_leaving_does_not_help_it_happens_less_and_less() {
        let mut generations = Generations::default();
        let mut left_at = Vec::new();
        // Each connection hears it, many times in a second, for ten minutes.
        for now_us in (0..600 * SECOND_US).step_by(10_000) {
            if generations.leave(generations.current(), now_us) {
                left_at.push(now_us / SECOND_US);
            }
        }
        assert_eq!(left_at[..8], [0, 1, 3, 7, 15, 31, 63, 123]);
        assert_eq!(left_at.len(), 15, "then once in a minute: {left_at:?}");
        let later_us = 900 * SECOND_US;
        assert!(generations.leave(generations.current(), later_us));
        assert!(generations.leave(generations.current(), later_us + SECOND_US), "after a calm time it is as before");
    }
}
