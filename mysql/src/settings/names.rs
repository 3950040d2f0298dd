//! The parameters' names: which are known, by which other spellings, which is meant by one that is not, and why some
//! that other drivers know are refused.

use super::error::SettingsError;

/// What is read. A `-` counts as a `_`: the official clients' options are spelled with it.
const READ: &[&str] = &[
    "acquire_timeout",
    "allow_cleartext_password",
    "allow_public_key_retrieval",
    "auth_plugins",
    "charset",
    "connect_timeout",
    "connection_attributes",
    "database",
    "found_rows",
    "host",
    "max_pipeline",
    "password",
    "pipeline",
    "pool_size",
    "port",
    "program_name",
    "reply_bytes_max",
    "server_public_key",
    "socket",
    "ssl_ca",
    "ssl_cert",
    "ssl_key",
    "ssl_mode",
    "statement_cache_size",
    "unsent_bytes_max",
    "user",
    "waiters_max",
];

/// Spellings of other drivers that mean exactly the same.
const SAME: &[(&str, &str)] = &[
    ("allowPublicKeyRetrieval", "allow_public_key_retrieval"),
    ("characterEncoding", "charset"),
    ("sslMode", "ssl_mode"),
    ("sslca", "ssl_ca"),
    ("sslcert", "ssl_cert"),
    ("sslkey", "ssl_key"),
    ("sslmode", "ssl_mode"),
];

/// What is not there, and why or what instead. Passing over it would promise what is not kept.
const NOT_THERE: &[(&str, &str)] = &[
    ("allowAllFiles", "is not supported: files of the client's are never sent"),
    ("allowLocalInfile", "is not supported: files of the client's are never sent"),
    ("allowLoadLocalInfile", "is not supported: files of the client's are never sent"),
    ("allowMultiQueries", "is not supported: a statement is one statement"),
    ("collation", "is not supported: sessions have the server's collation for utf8mb4"),
    ("compress", "is not supported"),
    ("compression", "is not supported"),
    ("local_infile", "is not supported: files of the client's are never sent"),
    ("multiStatements", "is not supported: a statement is one statement"),
    ("read_only", "is not supported yet: read pools come with a later version"),
    ("ssl_capath", "is not supported; name one PEM file by `ssl_ca`"),
    ("ssl_crl", "is not supported yet"),
    ("tls_version", "is not supported: TLS 1.2 and 1.3 are spoken"),
];

/// What other drivers call something like it, where the spelling gives no hint.
const ELSEWHERE: &[(&str, &str)] = &[
    ("allowCleartextPasswords", "allow_cleartext_password"),
    ("allowNativePasswords", "auth_plugins"),
    ("clientFoundRows", "found_rows"),
    ("connectTimeout", "connect_timeout"),
    ("connection_limit", "pool_size"),
    ("db", "database"),
    ("dbname", "database"),
    ("default_auth", "auth_plugins"),
    ("enable_cleartext_plugin", "allow_cleartext_password"),
    ("get_server_public_key", "allow_public_key_retrieval"),
    ("max_connections", "pool_size"),
    ("maxPoolSize", "pool_size"),
    ("passwd", "password"),
    ("pool_timeout", "acquire_timeout"),
    ("prepStmtCacheSize", "statement_cache_size"),
    ("pwd", "password"),
    ("requireSSL", "ssl_mode"),
    ("schema", "database"),
    ("serverRSAPublicKeyFile", "server_public_key"),
    ("server_public_key_path", "server_public_key"),
    ("tls", "ssl_mode"),
    ("unix_socket", "socket"),
    ("useAffectedRows", "found_rows"),
    ("usePipelineAuth", "pipeline"),
    ("useSSL", "ssl_mode"),
    ("username", "user"),
];

/// Longer than any known name, and as much of an unknown one as is worth showing.
const NAME_BYTES_MAX: usize = 40;

/// The known name that `name` means, or why it cannot be set. With `showable` false the error does not repeat the
/// name: it may be part of a password that was not escaped.
pub(super) fn find(name: &str, showable: bool) -> Result<&'static str, SettingsError> {
    let plain = name.replace('-', "_");
    if let Some(known) = READ.iter().find(|known| **known == plain) {
        return Ok(known);
    }
    if let Some((_, known)) = SAME.iter().find(|(spelling, _)| *spelling == plain) {
        return Ok(known);
    }
    if let Some((_, why)) = NOT_THERE.iter().find(|(known, _)| *known == plain) {
        return Err(SettingsError::of(name, *why));
    }
    Err(unknown(name, showable))
}

fn unknown(name: &str, showable: bool) -> SettingsError {
    let advice = nearest(name).map(|nearest| format!("; did you mean `{nearest}`?")).unwrap_or_default();
    if showable && is_name_like(name) {
        return SettingsError::of(name, format!("is not a known parameter{advice}"));
    }
    SettingsError::whole(format!(
        "a parameter is not known (its name is not shown, as it may be part of a password that lacks escapes){advice}"
    ))
}

fn is_name_like(name: &str) -> bool {
    let name_like = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(name_like)
}

fn nearest(name: &str) -> Option<&'static str> {
    if name.len() > NAME_BYTES_MAX {
        return None;
    }
    let letters = in_letters(name);
    // A third of the letters wrong is a slip; more is another word.
    let distance_max = letters.len().div_ceil(3).min(3);
    let ours = READ.iter().map(|known| (*known, *known));
    ours.chain(SAME.iter().copied())
        .chain(ELSEWHERE.iter().copied())
        .map(|(spelling, meant)| (distance(&letters, &in_letters(spelling)), meant))
        .filter(|(distance, _)| *distance <= distance_max)
        .min()
        .map(|(_, meant)| meant)
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

    #[test]
    fn distances() {
        for (from, to, expected) in [
            ("", "", 0),
            ("", "abc", 3),
            ("port", "port", 0),
            ("prot", "port", 1),
            ("poolsise", "poolsize", 1),
            ("kitten", "sitting", 3),
        ] {
            let (from, to) = (in_letters(from), in_letters(to));
            assert_eq!(distance(&from, &to), expected, "{from:?} to {to:?}");
            assert_eq!(distance(&to, &from), expected, "{to:?} to {from:?}");
        }
    }

    #[test]
    fn the_nearest_name_is_proposed() {
        for (name, expected) in [
            ("pol_size", Some("pool_size")),
            ("poolSize", Some("pool_size")),
            ("Pool-Size", Some("pool_size")),
            ("passwrod", Some("password")),
            ("dbname", Some("database")),
            ("useSSL", Some("ssl_mode")),
            ("useAffectedRows", Some("found_rows")),
            ("frobnicate", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(nearest(name), expected, "{name}");
        }
        assert_eq!(nearest(&"x".repeat(1 << 20)), None);
    }

    #[test]
    fn names_are_listed_once_and_in_order() {
        let lists = [SAME, NOT_THERE, ELSEWHERE].into_iter().flatten().map(|(name, _)| *name);
        let all: Vec<&str> = READ.iter().copied().chain(lists).collect();
        for (index, name) in all.iter().enumerate() {
            assert!(!all[index + 1..].contains(name), "{name} is listed twice");
            assert!(name.len() <= NAME_BYTES_MAX, "{name}");
        }
        assert!(READ.is_sorted());
        assert!(SAME.iter().chain(ELSEWHERE).all(|(_, ours)| READ.contains(ours)));
    }

    #[test]
    fn an_unknown_name_is_shown_only_if_it_is_safe() {
        let shown = find("pol_size", true).unwrap_err();
        assert_eq!(shown.parameter(), Some("pol_size"));
        let words = "invalid settings: `pol_size` is not a known parameter; did you mean `pool_size`?";
        assert_eq!(shown.to_string(), words);
        for (name, showable) in [("s3cret", false), ("u:s3cret@host/db?x", true), ("s3cr\u{e9}t", true)] {
            let error = find(name, showable).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("3cr"), "{error}");
            assert_eq!(error.parameter(), None);
        }
    }
}
