//! How long to wait before a server that could not be reached is tried again.
//!
//! A pure function: the random number is an argument.

use std::time::Duration;

/// The first pause: a server that restarts is often back within tens of milliseconds.
const DELAY_MS_FIRST: u64 = 50;

/// The longest pause. One prober at twice a second costs a server nothing, and callers are served again within a
/// second of its coming up.
const DELAY_MS_MAX: u64 = 500;

/// The pause after `failures` attempts in a row (at least 1): doubling, with jitter over its upper half, so that
/// many processes do not come back in step.
pub fn delay(failures: u32, random: u64) -> Duration {
    let doublings = failures.saturating_sub(1).min(16);
    let full_ms = (DELAY_MS_FIRST << doublings).min(DELAY_MS_MAX);
    let half_ms = full_ms / 2;
    Duration::from_millis(half_ms + random % (full_ms - half_ms + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_with_jitter_up_to_a_cap() {
        for (failures, least_ms, most_ms) in [
            (1, 25, 50),
            (2, 50, 100),
            (3, 100, 200),
            (4, 200, 400),
            (5, 250, 500),
            (6, 250, 500),
            (u32::MAX, 250, 500),
        ] {
            let delays: Vec<u128> = (0..1000_u64).map(|random| delay(failures, random).as_millis()).collect();
            assert_eq!(delays.iter().min(), Some(&least_ms), "after {failures}");
            assert_eq!(delays.iter().max(), Some(&most_ms), "after {failures}");
        }
    }
}
