//! `Names`: which parameters are known, which is meant by one that is not, and why some are refused.

use super::error::SettingsError;

/// The names of a driver's parameters.
#[derive(Debug)]
pub struct Names {
    /// What is read.
    pub read: &'static [&'static str],
    /// Spellings of others that mean exactly the same, each with the name of ours.
    pub same: &'static [(&'static str, &'static str)],
    /// What is not there, and why, or what instead: passing over it would promise what is not kept.
    pub not_there: &'static [(&'static str, &'static str)],
    /// What others call something like it, where the spelling gives no hint.
    pub elsewhere: &'static [(&'static str, &'static str)],
    /// Whether a `-` counts as a `_`.
    pub dashes: bool,
    /// What is said of an unknown name that is like none of these.
    pub otherwise: Option<&'static str>,
}

/// No known name may be longer, and it is as much of an unknown one as is worth showing.
pub const NAME_BYTES_MAX: usize = 40;

impl Names {
    /// The known name that `name` means.
    ///
    /// # Errors
    ///
    /// Why it cannot be set. With `showable` false the error does not repeat an unknown name: it may be part of a
    /// password that was not escaped.
    pub fn find(&self, name: &str, showable: bool) -> Result<&'static str, SettingsError> {
        let is_meant = |known: &str| known == name || self.dashes && known == name.replace('-', "_");
        if let Some(known) = self.read.iter().find(|known| is_meant(known)) {
            return Ok(known);
        }
        if let Some((_, known)) = self.same.iter().find(|(spelling, _)| is_meant(spelling)) {
            return Ok(known);
        }
        if let Some((_, why)) = self.not_there.iter().find(|(known, _)| is_meant(known)) {
            return Err(SettingsError::of(name, *why));
        }
        Err(self.unknown(name, showable))
    }

    /// The known name that is likely to be meant by one that is not.
    pub fn nearest(&self, name: &str) -> Option<&'static str> {
        if name.len() > NAME_BYTES_MAX {
            return None;
        }
        let letters = in_letters(name);
        // A third of the letters wrong is a slip; more is another word.
        let distance_max = letters.len().div_ceil(3).min(3);
        let ours = self.read.iter().copied().chain(self.not_there.iter().map(|(known, _)| *known));
        ours.map(|known| (known, known))
            .chain(self.same.iter().copied())
            .chain(self.elsewhere.iter().copied())
            .map(|(spelling, meant)| (distance(&letters, &in_letters(spelling)), meant))
            .filter(|(distance, _)| *distance <= distance_max)
            .min()
            .map(|(_, meant)| meant)
    }

    fn unknown(&self, name: &str, showable: bool) -> SettingsError {
        let advice = match (self.nearest(name), self.otherwise) {
            (Some(nearest), _) => format!("; did you mean `{nearest}`?"),
            (None, Some(words)) => format!("; {words}"),
            (None, None) => String::new(),
        };
        if showable && is_name_like(name) {
            return SettingsError::of(name, format!("is not a known parameter{advice}"));
        }
        SettingsError::whole(format!(
            "a parameter is not known (its name is not shown, as it may be part of a password that lacks escapes)\
             {advice}"
        ))
    }
}

fn is_name_like(name: &str) -> bool {
    let name_like = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(name_like)
}

/// What is compared: `poolSize`, `pool-size` and `pool_size` are one word.
fn in_letters(name: &str) -> Vec<char> {
    name.chars().filter(|c| !matches!(c, '_' | '-')).map(|c| c.to_ascii_lowercase()).collect()
}

/// How many letters must be put in, left out, replaced or swapped with their neighbour to get from one to the other.
fn distance(from: &[char], to: &[char]) -> usize {
    let width = to.len() + 1;
    // Row by row: the distance from each beginning of `from` to each beginning of `to`.
    let mut least: Vec<usize> = (0..width).collect();
    for row in 1..=from.len() {
        least.push(row);
        for column in 1..width {
            let before = |rows: usize, columns: usize| least[(row - rows) * width + column - columns];
            let same = from[row - 1] == to[column - 1];
            let mut best = (before(1, 1) + usize::from(!same)).min(before(1, 0) + 1).min(before(0, 1) + 1);
            let swapped = row > 1 && column > 1 && from[row - 1] == to[column - 2] && from[row - 2] == to[column - 1];
            if swapped {
                best = best.min(before(2, 2) + 1);
            }
            least.push(best);
        }
    }
    least.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: Names = Names {
        read: &["host", "pool_size"],
        same: &[("poolLimit", "pool_size")],
        not_there: &[("read_only", "is not there")],
        elsewhere: &[("server", "host")],
        dashes: true,
        otherwise: Some("see elsewhere"),
    };

    #[test]
    fn distances() {
        for (from, to, expected) in [
            ("", "", 0),
            ("", "abc", 3),
            ("abc", "", 3),
            ("port", "port", 0),
            ("prot", "port", 1),
            ("pool_sise", "pool_size", 1),
            ("poolsize", "pool_size", 0),
            ("poolSize", "Pool-Size", 0),
            ("kitten", "sitting", 3),
            ("héte", "hôte", 1),
        ] {
            let (from, to) = (in_letters(from), in_letters(to));
            assert_eq!(distance(&from, &to), expected, "{from:?} to {to:?}");
            assert_eq!(distance(&to, &from), expected, "{to:?} to {from:?}");
        }
    }

    #[test]
    fn the_nearest_name_is_proposed() {
        for (name, expected) in [
            ("hots", Some("host")),
            ("Pool-Size", Some("pool_size")),
            ("poolLimits", Some("pool_size")),
            ("readonly", Some("read_only")),
            ("serves", Some("host")),
            ("frobnicate", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(NAMES.nearest(name), expected, "{name}");
        }
        assert_eq!(NAMES.nearest(&"x".repeat(1 << 20)), None);
    }

    #[test]
    fn a_name_is_found_or_refused() {
        for (name, expected) in [
            ("pool_size", Ok("pool_size")),
            ("pool-size", Ok("pool_size")),
            ("poolLimit", Ok("pool_size")),
            ("read-only", Err("`read-only` is not there")),
            ("Host", Err("`Host` is not a known parameter; did you mean `host`?")),
            ("frobnicate", Err("`frobnicate` is not a known parameter; see elsewhere")),
        ] {
            let found = NAMES.find(name, true).map_err(|error| error.to_string());
            assert_eq!(found, expected.map_err(|words| format!("invalid settings: {words}")), "{name}");
        }
        let exact = Names { dashes: false, otherwise: None, ..NAMES };
        let error = exact.find("pool-size", true).unwrap_err();
        assert_eq!(error.parameter(), Some("pool-size"), "{error}");
        let words = "invalid settings: `frobnicate` is not a known parameter";
        assert_eq!(exact.find("frobnicate", true).unwrap_err().to_string(), words);
    }

    #[test]
    fn an_unknown_name_is_shown_only_if_it_is_safe() {
        for (name, showable) in [("s3cret", false), ("u:s3cret@host/db?x", true), ("s3cr\u{e9}t", true)] {
            let error = NAMES.find(name, showable).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("3cr"), "{error}");
            assert_eq!(error.parameter(), None);
        }
    }
}
