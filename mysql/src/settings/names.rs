//! The parameters' names: which are known, by which other spellings, which is meant by one that is not, and why some
//! that other drivers know are refused.

use cenote_pool::settings::Names;

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
    "idle_timeout",
    "max_lifetime",
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

/// All of them.
pub(super) const NAMES: Names =
    Names { read: READ, same: SAME, not_there: NOT_THERE, elsewhere: ELSEWHERE, dashes: true, otherwise: None };

#[cfg(test)]
mod tests {
    use cenote_pool::settings::NAME_BYTES_MAX;

    use super::*;

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
            assert_eq!(NAMES.nearest(name), expected, "{name}");
        }
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
}
