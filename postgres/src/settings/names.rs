//! The parameters' names: which are known, which is meant by one that is not, and why some that libpq
//! knows are refused.

use cenote_pool::settings::Names;

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
    "idle_timeout",
    "load_balance_hosts",
    "max_lifetime",
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

/// All of them.
pub(super) const NAMES: Names = Names {
    read: READ,
    same: &[],
    not_there: NOT_THERE,
    elsewhere: ELSEWHERE,
    dashes: false,
    otherwise: Some("what the server is to be told goes into `options`, as in options='-c search_path=app'"),
};

#[cfg(test)]
mod tests {
    use cenote_pool::settings::NAME_BYTES_MAX;

    use super::*;

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
            assert_eq!(NAMES.nearest(name), expected, "{name}");
        }
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
}
