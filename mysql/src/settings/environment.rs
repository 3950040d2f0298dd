//! The environment: a URL, and the variables that the official clients and container images know.
//!
//! The variables are looked up by a function that is passed in, so nothing here touches the process.

use std::ffi::OsString;

use super::assignments::Assignments;
use super::error::SettingsError;
use super::{Lookup, Settings};

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
    for variable in URLS {
        if let Some(url) = text(lookup, variable)? {
            super::url::read(&url, &mut assignments).map_err(|error| error.within(variable))?;
            break;
        }
    }
    // Where a place is named, no other place may be made of it by half.
    let has_place = assignments.has("host") || assignments.has("socket");
    for &(variable, parameter) in VARIABLES {
        let named = assignments.has(parameter) || (parameter == "host" && has_place);
        if named {
            continue;
        }
        if let Some(value) = text(lookup, variable)? {
            assignments.set(parameter, &value, true).map_err(|error| error.within(variable))?;
        }
    }
    // As with the official clients the socket is where `localhost` is; another host has nothing to do with it.
    let is_local = assignments.host().is_none_or(|host| host == "localhost");
    if !has_place
        && is_local
        && let Some(path) = text(lookup, SOCKET)?
    {
        assignments.set("socket", &path, true).map_err(|error| error.within(SOCKET))?;
    }
    assignments.finish(lookup)
}

/// A variable's value; an empty one is the same as none.
fn text(lookup: Lookup<'_>, variable: &'static str) -> Result<Option<String>, SettingsError> {
    match lookup(variable).map(OsString::into_string).transpose() {
        Ok(value) => Ok(value.filter(|value| !value.is_empty())),
        Err(_) => Err(SettingsError::whole("is not UTF-8").within(variable)),
    }
}
