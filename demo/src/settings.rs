//! What the demo is told, by its environment or by a test.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};

/// The port when none is given.
const PORT: u16 = 8080;

/// What the demo is started with.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where to listen; port 0 is a free one.
    pub address: SocketAddr,
    /// Event loops; one per core when not given.
    pub threads: Option<usize>,
    /// Where Postgres is, as a URL.
    pub postgres_url: Option<String>,
    /// Where MySQL or MariaDB is, as a URL.
    pub mysql_url: Option<String>,
    /// Whether SIGINT and SIGTERM stop the server.
    pub stop_on_signals: bool,
}

impl Settings {
    /// For a test: a free port, one event loop, no signals.
    pub fn for_tests() -> Settings {
        let address = (Ipv4Addr::LOCALHOST, 0).into();
        Settings { address, threads: Some(1), postgres_url: None, mysql_url: None, stop_on_signals: false }
    }

    /// As the environment says: `PORT` (8080 when not set), `POSTGRES_URL` and `MYSQL_URL`; for one that is not set,
    /// `DATABASE_URL` if its scheme says that it is of that kind.
    ///
    /// # Errors
    ///
    /// `PORT` is not a port.
    pub fn from_env() -> Result<Settings, SettingsError> {
        Settings::from_variables(|name| std::env::var(name).ok())
    }

    fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Result<Settings, SettingsError> {
        // An empty variable is how scripts say that there is none.
        let variable = |name| variable(name).filter(|value| !value.is_empty());
        let port = match variable("PORT") {
            Some(port) => port.parse().map_err(|_| SettingsError { port })?,
            None => PORT,
        };
        let of_kind = |schemes: [&str; 2]| {
            let is_of_kind = |url: &String| schemes.iter().any(|scheme| url.starts_with(scheme));
            variable("DATABASE_URL").filter(is_of_kind)
        };
        let postgres_url = variable("POSTGRES_URL").or_else(|| of_kind(["postgres:", "postgresql:"]));
        let mysql_url = variable("MYSQL_URL").or_else(|| of_kind(["mysql:", "mariadb:"]));
        let address = (Ipv4Addr::LOCALHOST, port).into();
        Ok(Settings { address, threads: None, postgres_url, mysql_url, stop_on_signals: true })
    }
}

/// An environment that makes no sense.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingsError {
    port: String,
}

impl fmt::Display for SettingsError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "PORT is {:?}, which is not a number from 0 to 65535", self.port)
    }
}

impl std::error::Error for SettingsError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(pairs: &[(&str, &str)]) -> Result<Settings, SettingsError> {
        Settings::from_variables(|name| {
            let pair = pairs.iter().find(|(known, _)| *known == name);
            pair.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn the_environment_is_optional() {
        let settings = from(&[("PORT", ""), ("POSTGRES_URL", "")]).unwrap();
        assert_eq!(settings.address.to_string(), "127.0.0.1:8080");
        assert_eq!(settings.postgres_url, None);
        assert!(settings.stop_on_signals);
    }

    #[test]
    fn the_more_precise_variable_wins() {
        let both = [("DATABASE_URL", "postgres://a"), ("POSTGRES_URL", "postgres://b")];
        assert_eq!(from(&both).unwrap().postgres_url.as_deref(), Some("postgres://b"));
        assert_eq!(from(&both[..1]).unwrap().postgres_url.as_deref(), Some("postgres://a"));
        let other = from(&[("DATABASE_URL", "mariadb://a")]).unwrap();
        assert_eq!((other.postgres_url, other.mysql_url.as_deref()), (None, Some("mariadb://a")));
    }

    #[test]
    fn a_port_that_is_none_is_an_error_that_names_it() {
        assert_eq!(from(&[("PORT", "9000")]).unwrap().address.port(), 9000);
        for port in ["http", "65536", "-1"] {
            let error = from(&[("PORT", port)]).unwrap_err().to_string();
            assert!(error.contains(port), "{error}");
        }
    }
}
