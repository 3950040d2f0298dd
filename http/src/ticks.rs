//! Time as connections count it: in ticks.

use std::time::Duration;

/// Ticks of a thread's clock.
///
/// Timeouts are counted in ticks, which one timer per thread advances. So a request costs no clock reading
/// and no timer of its own, and a thread that was held up does not find all its connections expired at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ticks(u32);

impl Ticks {
    /// Ticks of `period` that last at least `duration`: one more, as the first one may be nearly over.
    pub(crate) fn lasting(duration: Duration, period: Duration) -> Ticks {
        let ticks = duration.as_nanos().div_ceil(period.as_nanos().max(1)).saturating_add(1);
        // Half the range, so that the difference of two readings is never ambiguous: 34 years at 500 ms.
        Ticks(u32::try_from(ticks).unwrap_or(u32::MAX).min(u32::MAX / 2))
    }

    /// Whether so many ticks have passed from `since` to `now`.
    pub(crate) fn passed(self, since: u32, now: u32) -> bool {
        now.wrapping_sub(since) >= self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_last_at_least_as_long_as_asked() {
        let ticks = Ticks::lasting(Duration::from_millis(100), Duration::from_millis(30));
        assert_eq!(ticks, Ticks(5), "4 ticks to cover 100 ms, and the one begun");
        assert!(!ticks.passed(7, 11));
        assert!(ticks.passed(7, 12));
        assert!(ticks.passed(u32::MAX, 4), "the clock may wrap");
        assert!(!ticks.passed(u32::MAX, 3));
    }

    #[test]
    fn the_longest_duration_is_bounded() {
        let ticks = Ticks::lasting(Duration::MAX, Duration::from_millis(5));
        assert!(!ticks.passed(0, u32::MAX / 2 - 1));
    }
}
