//! The parameters' names: which are known, which is meant by one that is not, and why some that libpq
//! knows are refused.

use super::error::SettingsError;

/// What is read.
const READ: &[&str] = &[
    "acquire_timeout",
    "application_name",
    "channel_binding",
    "client_encoding",
    "connect_timeout",
    "dbname",
    "gssencmode",
    "host",
    "hostaddr",
    "load_balance_hosts",
    "max_pipeline",
    "options",
    "password",
    "pool_size",
    "port",
    "reply_bytes_max",
    "require_auth",
    "ssl",
    "ssl_max_protocol_version",
    "ssl_min_protocol_version",
    "sslcert",
    "sslcertmode",
    "sslcompression",
    "sslkey",
    "sslmode",
    "sslnegotiation",
    "sslrootcert",
    "sslsni",
    "statement_cache_size",
    "target_session_attrs",
    "unsent_bytes_max",
    "user",
    "waiters_max",
];

/// What is not there, and why or until when. Passing over it would promise what is not kept.
const NOT_THERE: &[(&str, &str)] = &[
    ("fallback_application_name", "is not supported; use `application_name`"),
    ("gssdelegation", "is not supported, nor is GSSAPI"),
    ("gsslib", "is not supported, nor is GSSAPI"),
    ("keepalives", "is not supported yet"),
    ("keepalives_count", "is not supported yet"),
    ("keepalives_idle", "is not supported yet"),
    ("keepalives_interval", "is not supported yet"),
    ("krbsrvname", "is not supported, nor is GSSAPI"),
    ("max_protocol_version", "is not supported: protocol 3.0 is spoken"),
    ("min_protocol_version", "is not supported: protocol 3.0 is spoken"),
    ("passfile", "is not supported; give the password itself"),
    ("read_only", "is not supported yet: read pools come with a later version"),
    ("replication", "is not supported: a pool's connections are for queries"),
    ("requirepeer", "is not supported yet"),
    ("scram_client_key", "is not supported; give the password itself"),
    ("scram_server_key", "is not supported; give the password itself"),
    ("service", "is not supported; name host, user and database"),
    ("servicefile", "is not supported; name host, user and database"),
    ("sslcrl", "is not supported: no revocation list is looked at"),
    ("sslcrldir", "is not supported: no revocation list is looked at"),
    ("sslpassword", "is not supported: the key in `sslkey` must not be encrypted"),
    ("tcp_user_timeout", "is not supported yet"),
];

/// What other drivers call it, where the spelling gives no hint.
const ELSEWHERE: &[(&str, &str)] = &[
    ("connection_limit", "pool_size"),
    ("database", "dbname"),
    ("db", "dbname"),
    ("hostname", "host"),
    ("max_connections", "pool_size"),
    ("max_size", "pool_size"),
    ("pass", "password"),
    ("pool_timeout", "acquire_timeout"),
    ("pwd", "password"),
    ("username", "user"),
];

/// Longer than any known name, and as much of an unknown one as is worth showing.
const NAME_BYTES_MAX: usize = 40;

/// The known name that equals `name`, or why it cannot be set. With `showable` false the error does not
/// repeat the name: it may be part of a password that was not quoted or escaped.
pub(super) fn find(name: &str, showable: bool) -> Result<&'static str, SettingsError> {
    if let Some(known) = READ.iter().find(|known| **known == name) {
        return Ok(known);
    }
    if let Some((_, why)) = NOT_THERE.iter().find(|(known, _)| *known == name) {
        return Err(SettingsError::of(name, *why));
    }
    Err(unknown(name, showable))
}

fn unknown(name: &str, showable: bool) -> SettingsError {
    let advice = match nearest(name) {
        Some(nearest) => format!("did you mean `{nearest}`?"),
        None => "what the server is to be told goes into `options`, as in options='-c search_path=app'".to_owned(),
    };
    if showable && is_name_like(name) {
        return SettingsError::of(name, format!("is not a known parameter; {advice}"));
    }
    SettingsError::whole(format!(
        "a parameter is not known (its name is not shown, as it may be part of a password that lacks \
         quotes or escapes); {advice}"
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
    let name = name.to_ascii_lowercase();
    // A third of the letters wrong is a slip; more is another word.
    let distance_max = name.chars().count().div_ceil(3).min(3);
    let ours = READ.iter().chain(NOT_THERE.iter().map(|(known, _)| known)).map(|known| (*known, *known));
    ours.chain(ELSEWHERE.iter().copied())
        .map(|(spelling, meant)| (distance(&name, spelling), meant))
        .filter(|(distance, _)| *distance <= distance_max)
        .min()
        .map(|(_, meant)| meant)
}

/// How many letters must be put in, left out, replaced or swapped with their neighbour to get from one name
/// to the other.
fn distance(from: &str, to: &str) -> usize {
    let from: Vec<char> = from.chars().collect();
    let to: Vec<char> = to.chars().collect();
    let mut before_previous: Vec<usize> = Vec::new();
    let mut previous: Vec<usize> = (0..=to.len()).collect();
    for (row, from_char) in from.iter().enumerate() {
        let mut current = vec![row + 1];
        for (column, to_char) in to.iter().enumerate() {
            let replaced = previous[column] + usize::from(from_char != to_char);
            let left_out = previous[column + 1] + 1;
            let put_in = current[column] + 1;
            let mut least = replaced.min(left_out).min(put_in);
            let swapped = row > 0 && column > 0 && from[row - 1] == *to_char && to[column - 1] == *from_char;
            if swapped {
                least = least.min(before_previous[column - 1] + 1);
            }
            current.push(least);
        }
        before_previous = std::mem::replace(&mut previous, current);
    }
    previous[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        let table = [
            ("", "", 0),
            ("", "abc", 3),
            ("abc", "", 3),
            ("port", "port", 0),
            ("prot", "port", 1),
            ("pool_sise", "pool_size", 1),
            ("poolsize", "pool_size", 1),
            ("kitten", "sitting", 3),
            ("héte", "hôte", 1),
        ];
        for (from, to, expected) in table {
            assert_eq!(distance(from, to), expected, "{from} to {to}");
            assert_eq!(distance(to, from), expected, "{to} to {from}");
        }
    }

    #[test]
    fn the_nearest_name_is_proposed() {
        let table = [
            ("pol_size", Some("pool_size")),
            ("Pool_Size", Some("pool_size")),
            ("passwrod", Some("password")),
            ("usr", Some("user")),
            ("database", Some("dbname")),
            ("username", Some("user")),
            ("ssl_mode", Some("sslmode")),
            ("ssl_root_cert", Some("sslrootcert")),
            ("readonly", Some("read_only")),
            ("frobnicate", None),
            ("x", None),
            ("", None),
            ("search_path", None),
        ];
        for (name, expected) in table {
            assert_eq!(nearest(name), expected, "{name}");
        }
        assert_eq!(nearest(&"x".repeat(1 << 20)), None);
    }

    #[test]
    fn names_are_listed_once_and_in_order() {
        let all: Vec<&str> = READ.iter().copied().chain(NOT_THERE.iter().map(|(name, _)| *name)).collect();
        for (index, name) in all.iter().enumerate() {
            assert!(!all[index + 1..].contains(name), "{name} is listed twice");
            assert!(name.len() <= NAME_BYTES_MAX, "{name}");
        }
        assert!(READ.is_sorted() && NOT_THERE.is_sorted());
        assert!(ELSEWHERE.iter().all(|(_, ours)| READ.contains(ours)));
    }

    #[test]
    fn an_unknown_name_is_shown_only_if_it_is_safe() {
        let shown = find("pol_size", true).unwrap_err();
        assert_eq!(shown.parameter(), Some("pol_size"));
        assert_eq!(
            shown.to_string(),
            "invalid settings: `pol_size` is not a known parameter; did you mean `pool_size`?"
        );
        for (name, showable) in [("s3cret", false), ("u:s3cret@host/db?x", true), ("s3cr\u{e9}t", true)] {
            let error = find(name, showable).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("3cr"), "{error}");
            assert_eq!(error.parameter(), None);
        }
    }
}
