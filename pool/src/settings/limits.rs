//! `Limits`: a pool's limits by the names that settings have for them, and the one place where their ranges are.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::error::SettingsError;
use super::value::{read_bytes, read_count, read_duration};
use crate::limits::PoolLimits;

/// Far above what pipelining needs, and some times the servers' usual `max_connections`.
const POOL_SIZE_RANGE: RangeInclusive<usize> = 1..=1_000;

/// From one at a time, for what cannot pipeline, to where more only adds waiting.
const MAX_PIPELINE_RANGE: RangeInclusive<usize> = 1..=4_096;

/// Nothing waits for ever; a day is what nobody means.
const TIMEOUT_RANGE: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(24 * 60 * 60);

/// Zero is for ever. Else not so short that a pool would do little else than log in, and a week at most, past which a limit
/// is none.
const AGE_RANGE: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(7 * 24 * 60 * 60);

/// A server keeps each in memory, and MySQL's limit for all connections together is a million at most.
const STATEMENT_CACHE_SIZE_RANGE: RangeInclusive<usize> = 0..=65_536;

/// The servers' own messages end at 1 GiB.
const REPLY_BYTES_MAX_RANGE: RangeInclusive<usize> = 1 << 10..=1 << 30;

/// From one receive of a server (8 KiB) up.
const UNSENT_BYTES_MAX_RANGE: RangeInclusive<usize> = 8 << 10..=64 << 20;

/// From nobody to more than a process has callers.
const WAITERS_MAX_RANGE: RangeInclusive<usize> = 0..=1_000_000;

/// A pool's limits by the names that settings have for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Limits {
    /// Connections at most.
    pub pool_size: usize,
    /// Statements in flight per connection at most.
    pub max_pipeline: usize,
    /// How long a caller waits for room on a connection.
    pub acquire_timeout: Duration,
    /// How long connecting to one address may take, log-in included.
    pub connect_timeout: Duration,
    /// How long a connection is used at most; zero: for ever.
    pub max_lifetime: Duration,
    /// How long a connection may have nothing to do; zero: for ever.
    pub idle_timeout: Duration,
    /// Prepared statements kept per connection.
    pub statement_cache_size: usize,
    /// What one buffered result may take.
    pub reply_bytes_max: usize,
    /// What may wait to be written to one connection.
    pub unsent_bytes_max: usize,
    /// Callers waiting for room at most.
    pub waiters_max: usize,
}

impl Default for Limits {
    /// What [`PoolLimits`] has.
    fn default() -> Limits {
        let PoolLimits {
            connections_max,
            waiters_max,
            acquire_timeout,
            connect_timeout,
            max_lifetime,
            idle_timeout,
            lane,
        } = PoolLimits::default();
        Limits {
            pool_size: connections_max,
            max_pipeline: lane.in_flight_max,
            acquire_timeout,
            connect_timeout,
            max_lifetime,
            idle_timeout,
            statement_cache_size: lane.prepared_max,
            reply_bytes_max: lane.reply_bytes_max,
            unsent_bytes_max: lane.unsent_bytes_max,
            waiters_max,
        }
    }
}

impl Limits {
    /// Sets a limit by its name; false if that is none.
    ///
    /// # Errors
    ///
    /// When the value cannot be read. Whether it is in range [`check`](Limits::check) says.
    pub fn set(&mut self, name: &str, value: &str) -> Result<bool, SettingsError> {
        match name {
            "pool_size" => self.pool_size = read_count(name, value)?,
            "max_pipeline" => self.max_pipeline = read_count(name, value)?,
            "acquire_timeout" => self.acquire_timeout = read_duration(name, value)?,
            "connect_timeout" => self.connect_timeout = read_duration(name, value)?,
            "max_lifetime" => self.max_lifetime = read_duration(name, value)?,
            "idle_timeout" => self.idle_timeout = read_duration(name, value)?,
            "statement_cache_size" => self.statement_cache_size = read_count(name, value)?,
            "reply_bytes_max" => self.reply_bytes_max = read_bytes(name, value)?,
            "unsent_bytes_max" => self.unsent_bytes_max = read_bytes(name, value)?,
            "waiters_max" => self.waiters_max = read_count(name, value)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Refuses what is out of range.
    ///
    /// # Errors
    ///
    /// The first limit that is.
    pub fn check(&self) -> Result<(), SettingsError> {
        let timeout_words = "must be from 1ms to 24h; waiting for ever is not offered";
        in_range("connect_timeout", self.connect_timeout, TIMEOUT_RANGE, timeout_words)?;
        in_range("pool_size", self.pool_size, POOL_SIZE_RANGE, "must be from 1 to 1000")?;
        in_range("max_pipeline", self.max_pipeline, MAX_PIPELINE_RANGE, "must be from 1 to 4096")?;
        in_range("acquire_timeout", self.acquire_timeout, TIMEOUT_RANGE, timeout_words)?;
        for (name, age) in [("max_lifetime", self.max_lifetime), ("idle_timeout", self.idle_timeout)] {
            if !age.is_zero() {
                in_range(name, age, AGE_RANGE, "must be 0 (never), or from 100ms to 168h")?;
            }
        }
        let words = "must be from 0 to 65536";
        in_range("statement_cache_size", self.statement_cache_size, STATEMENT_CACHE_SIZE_RANGE, words)?;
        in_range("reply_bytes_max", self.reply_bytes_max, REPLY_BYTES_MAX_RANGE, "must be from 1kB to 1GB")?;
        in_range("unsent_bytes_max", self.unsent_bytes_max, UNSENT_BYTES_MAX_RANGE, "must be from 8kB to 64MB")?;
        in_range("waiters_max", self.waiters_max, WAITERS_MAX_RANGE, "must be from 0 to 1000000")
    }
}

fn in_range<T: PartialOrd>(
    parameter: &str,
    value: T,
    range: RangeInclusive<T>,
    words: &str,
) -> Result<(), SettingsError> {
    match range.contains(&value) {
        true => Ok(()),
        false => Err(SettingsError::of(parameter, words)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_in_range() {
        assert_eq!(Limits::default().check(), Ok(()));
    }

    #[test]
    fn each_range_ends_where_it_says() {
        for (name, least, most) in [
            ("pool_size", "1", "1000"),
            ("max_pipeline", "1", "4096"),
            ("acquire_timeout", "1ms", "24h"),
            ("connect_timeout", "1ms", "24h"),
            ("max_lifetime", "100ms", "168h"),
            ("idle_timeout", "100ms", "168h"),
            ("statement_cache_size", "0", "65536"),
            ("reply_bytes_max", "1kB", "1GB"),
            ("unsent_bytes_max", "8kB", "64MB"),
            ("waiters_max", "0", "1000000"),
        ] {
            let checked = |value: &str| {
                let mut limits = Limits::default();
                assert_eq!(limits.set(name, value), Ok(true), "{name}={value}");
                limits.check()
            };
            assert_eq!(checked(least), Ok(()), "{name}={least}");
            assert_eq!(checked(most), Ok(()), "{name}={most}");
            // The next value that can be written, on either side.
            let past = match name {
                "acquire_timeout" | "connect_timeout" => "86400001ms".to_owned(),
                "max_lifetime" | "idle_timeout" => "604800001ms".to_owned(),
                "reply_bytes_max" => format!("{}", (1_u64 << 30) + 1),
                "unsent_bytes_max" => format!("{}", (64 << 20) + 1),
                _ => format!("{}", most.parse::<usize>().unwrap() + 1),
            };
            let before = match name {
                "statement_cache_size" | "waiters_max" => None,
                "max_lifetime" | "idle_timeout" => Some("99ms"),
                "reply_bytes_max" => Some("1023"),
                "unsent_bytes_max" => Some("8191"),
                _ => Some("0"),
            };
            for value in [Some(past.as_str()), before].into_iter().flatten() {
                let error = checked(value).expect_err(value);
                assert_eq!(error.parameter(), Some(name), "{name}={value}: {error}");
            }
        }
    }

    #[test]
    fn zero_is_no_limit_of_age() {
        for name in ["max_lifetime", "idle_timeout"] {
            let mut limits = Limits::default();
            assert_eq!(limits.set(name, "0"), Ok(true), "{name}");
            assert_eq!(limits.check(), Ok(()), "{name}");
        }
    }

    #[test]
    fn other_names_are_left_to_the_driver() {
        assert_eq!(Limits::default().set("host", "x"), Ok(false));
        let error = Limits::default().set("pool_size", "many").unwrap_err();
        assert_eq!(error.parameter(), Some("pool_size"), "{error}");
    }
}
