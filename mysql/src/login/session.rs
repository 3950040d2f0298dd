//! `Session`: what is known of a connection when its log-in is done.

use std::time::Duration;

use crate::wire::handshake::Greeting;
use crate::wire::status::{Capabilities, StatusFlags};

/// A version has some twenty letters; what a proxy adds to it is not worth more.
const VERSION_BYTES_MAX: usize = 128;

/// What MariaDB puts before its version, for replicas that knew no two digits.
const MARIADB_PREFIX: &str = "5.5.5-";

/// What is known of a connection when its log-in is done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Session {
    /// As the server tells it, `9.7.0` or `11.4.2-MariaDB`.
    pub(crate) server_version: String,
    pub(crate) is_mariadb: bool,
    /// By which `KILL` knows it.
    pub(crate) connection_id: u32,
    /// What the server takes in one command, in bytes.
    pub(crate) max_allowed_packet: usize,
    /// How long the connection may rest before the server closes it.
    pub(crate) wait_timeout: Duration,
    /// What both sides have agreed on.
    pub(crate) capabilities: Capabilities,
    /// How the session stands.
    pub(crate) status: StatusFlags,
    /// Whether commands may follow each other without waiting for answers.
    pub(crate) pipelines: bool,
}

impl Session {
    /// What the greeting tells of it.
    pub(super) fn greeted(greeting: &Greeting<'_>) -> Session {
        let version = greeting.server_version.get(..VERSION_BYTES_MAX).unwrap_or(greeting.server_version);
        let version = String::from_utf8_lossy(version);
        let mysql = greeting.capabilities.contains(Capabilities::MYSQL);
        let is_mariadb = !mysql || version.to_ascii_lowercase().contains("mariadb");
        let shown = match version.strip_prefix(MARIADB_PREFIX) {
            Some(rest) if is_mariadb => rest,
            _ => &version,
        };
        Session {
            server_version: shown.to_owned(),
            is_mariadb,
            connection_id: greeting.connection_id,
            ..Session::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_both_servers() {
        let mysql = Capabilities::MYSQL;
        let mariadb = Capabilities::default();
        for (version, capabilities, shown, is_mariadb) in [
            ("9.7.0", mysql, "9.7.0", false),
            ("8.0.36-28.1", mysql, "8.0.36-28.1", false),
            ("5.5.5-10.11.6-MariaDB-1:10.11.6+maria~ubu2204", mariadb, "10.11.6-MariaDB-1:10.11.6+maria~ubu2204", true),
            ("11.4.2-MariaDB", mariadb, "11.4.2-MariaDB", true),
            ("12.0.1-MariaDB", mariadb, "12.0.1-MariaDB", true),
            ("5.5.5-10.1.48-mariadb", mysql, "10.1.48-mariadb", true),
            ("5.5.5-log", mysql, "5.5.5-log", false),
        ] {
            let greeting = Greeting {
                server_version: version.as_bytes(),
                connection_id: 7,
                capabilities,
                status: StatusFlags::default(),
                nonce: Vec::new(),
                plugin: b"",
            };
            let session = Session::greeted(&greeting);
            assert_eq!((session.server_version.as_str(), session.is_mariadb), (shown, is_mariadb), "{version}");
        }
    }
}
