//! The environment: a URL, and the variables that the official clients and container images know.
//!
//! The variables are looked up by a function that is passed in, so nothing here touches the process.

use cenote_pool::settings::{Assignments, SettingsError, variable};

use super::{Lookup, Settings, assignments};

/// Of these the first that is set wins over all the others.
const URLS: [&str; 2] = ["MYSQL_URL", "DATABASE_URL"];

/// Which variable stands for which parameter; of several for one the first that is set counts.
const VARIABLES: &[(&str, &str)] = &[
    ("MYSQL_HOST", "host"),
    ("MYSQL_TCP_PORT", "port"),
    ("MYSQL_USER", "user"),
    ("MYSQL_PWD", "password"),
    ("MYSQL_PASSWORD", "password"),
    ("MYSQL_DATABASE", "database"),
];

/// The socket where `localhost` listens.
const SOCKET: &str = "MYSQL_UNIX_PORT";

/// Makes settings of what `lookup` finds.
pub(super) fn read(lookup: Lookup<'_>) -> Result<Settings, SettingsError> {
    let mut assignments = Assignments::default();
    for url in URLS {
        if let Some(text) = variable(lookup, url)? {
            super::read_text(&text, &mut assignments).map_err(|error| error.within(url))?;
            break;
        }
    }
    // Where a place is named, no other place may be made of it by half.
    let has_place = assignments.has("host") || assignments.has("socket");
    for &(variable, parameter) in VARIABLES {
        let named = assignments.has(parameter) || (parameter == "host" && has_place);
        if !named {
            assignments.set_from(lookup, variable, parameter)?;
        }
    }
    // As with the official clients the socket is where `localhost` is; another host has nothing to do with it.
    let is_local = assignments.parameters().host().is_none_or(|host| host == "localhost");
    if !has_place && is_local {
        assignments.set_from(lookup, SOCKET, "socket")?;
    }
    assignments::finish(assignments, lookup)
}
