//! Reading of switches, numbers, durations and sizes. Whether they are in range is checked where settings are built, so
//! that text and builder meet the same limits.

use std::time::Duration;

use super::error::SettingsError;

/// A switch: `on`, `true`, `yes` or `1`, and their opposites, in either case.
///
/// # Errors
///
/// On any other word.
pub fn read_switch(parameter: &str, text: &str) -> Result<bool, SettingsError> {
    match text.to_ascii_lowercase().as_str() {
        "on" | "true" | "1" | "yes" => Ok(true),
        "off" | "false" | "0" | "no" => Ok(false),
        _ => Err(SettingsError::of(parameter, "must be on or off")),
    }
}

/// A whole number, not negative.
///
/// # Errors
///
/// On anything else.
pub fn read_count(parameter: &str, text: &str) -> Result<usize, SettingsError> {
    let count = match split_unit(text) {
        Some((number, "")) => usize::try_from(number).ok(),
        _ => None,
    };
    count.ok_or_else(|| SettingsError::of(parameter, "must be a whole number"))
}

/// A duration: a whole number and its unit (`ms`, `s`, `min`, `h`), seconds where none is named.
///
/// # Errors
///
/// On anything else, and on more than can be counted.
pub fn read_duration(parameter: &str, text: &str) -> Result<Duration, SettingsError> {
    let duration = split_unit(text).and_then(|(number, unit)| {
        let unit_ms = match unit {
            "ms" => 1,
            "" | "s" => 1_000,
            "min" => 60_000,
            "h" => 3_600_000,
            _ => return None,
        };
        number.checked_mul(unit_ms).map(Duration::from_millis)
    });
    let words = "must be a duration such as 5 (seconds), 5s, 500ms, 1min or 1h";
    duration.ok_or_else(|| SettingsError::of(parameter, words))
}

/// A size in bytes. As in the servers' own settings each unit is 1024 times the one before, so a kB is 1024 bytes; the
/// unambiguous KiB is taken, too.
///
/// # Errors
///
/// On anything else, and on more than can be counted.
pub fn read_bytes(parameter: &str, text: &str) -> Result<usize, SettingsError> {
    let bytes = split_unit(text).and_then(|(number, unit)| {
        let unit_bytes: u64 = match unit {
            "" | "B" => 1,
            "kB" | "KiB" => 1 << 10,
            "MB" | "MiB" => 1 << 20,
            "GB" | "GiB" => 1 << 30,
            _ => return None,
        };
        usize::try_from(number.checked_mul(unit_bytes)?).ok()
    });
    bytes.ok_or_else(|| SettingsError::of(parameter, "must be a size such as 65536 (bytes), 64kB, 64MB or 1GB"))
}

fn split_unit(text: &str) -> Option<(u64, &str)> {
    let text = text.trim();
    let digits_end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(digits_end);
    Some((digits.parse().ok()?, unit.trim_start()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switches() {
        for (text, expected) in [
            ("on", Some(true)),
            ("TRUE", Some(true)),
            ("1", Some(true)),
            ("off", Some(false)),
            ("False", Some(false)),
            ("0", Some(false)),
            ("2", None),
            ("", None),
        ] {
            assert_eq!(read_switch("found_rows", text).ok(), expected, "{text:?}");
        }
    }

    #[test]
    fn durations() {
        for (text, expected_ms) in [
            ("5", Some(5_000)),
            (" 5 ", Some(5_000)),
            ("5s", Some(5_000)),
            ("5 s", Some(5_000)),
            ("500ms", Some(500)),
            ("1min", Some(60_000)),
            ("2h", Some(7_200_000)),
            ("0", Some(0)),
            ("", None),
            ("s", None),
            ("-1", None),
            ("+1", None),
            ("1.5s", None),
            ("5m", None),
            ("5sec", None),
            ("18446744073709551615h", None),
            ("18446744073709551616", None),
        ] {
            let read = read_duration("connect_timeout", text).ok();
            assert_eq!(read, expected_ms.map(Duration::from_millis), "{text:?}");
        }
    }

    #[test]
    fn sizes() {
        for (text, expected) in [
            ("1", Some(1)),
            ("1B", Some(1)),
            ("64kB", Some(65_536)),
            ("64KiB", Some(65_536)),
            ("2MB", Some(2 << 20)),
            ("1 GiB", Some(1 << 30)),
            ("1TB", None),
            ("1kb", None),
            ("", None),
            ("-1", None),
            ("99999999999GB", None),
        ] {
            assert_eq!(read_bytes("reply_bytes_max", text).ok(), expected, "{text:?}");
        }
    }

    #[test]
    fn counts() {
        for (text, expected) in
            [("8", Some(8)), (" 8 ", Some(8)), (" 08 ", Some(8)), ("8s", None), ("", None), ("-8", None)]
        {
            assert_eq!(read_count("pool_size", text).ok(), expected, "{text:?}");
        }
    }
}
