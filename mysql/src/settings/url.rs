//! URLs: `mysql://user:password@host:port,host:port/database?name=value&name=value`, every part optional.
//!
//! Where a part of a password that was not escaped could be taken for something else, reading is strict: of several `@`
//! before the first `/` or `?` the last one ends the password; an `@` in the database's name is refused, and so is
//! white space. What the address names cannot be named again as a parameter.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

use super::assignments::Assignments;
use super::error::SettingsError;
use super::names;

/// Both mean the same: which server it is shows when it greets.
const SCHEMES: [&str; 2] = ["mysql", "mariadb"];

/// What has its place in the address. Somebody who adds a parameter to a URL must not send the password elsewhere.
const OF_THE_ADDRESS: [&str; 6] = ["host", "port", "socket", "user", "password", "database"];

/// Reads a URL into `assignments`.
pub(super) fn read(text: &str, assignments: &mut Assignments) -> Result<(), SettingsError> {
    let after_scheme = text.trim_start().split_once("://").and_then(|(scheme, rest)| {
        let ours = SCHEMES.iter().any(|name| scheme.eq_ignore_ascii_case(name));
        ours.then_some(rest)
    });
    let Some(after_scheme) = after_scheme else {
        return Err(SettingsError::whole("a URL must start with mysql:// or mariadb://"));
    };
    read_parts(after_scheme.trim_end(), assignments)
}

fn read_parts(text: &str, assignments: &mut Assignments) -> Result<(), SettingsError> {
    if text.contains(char::is_whitespace) {
        return Err(SettingsError::whole("white space in a URL is written %20 and the like"));
    }
    let authority_end = text.find(['/', '?']).unwrap_or(text.len());
    let (authority, after_authority) = text.split_at(authority_end);
    // A raw `@` behind the authority hints at a password that was cut in two by its `/` or `?`.
    let mut showable = !after_authority.contains('@');
    let (path, query) = after_authority.split_once('?').unwrap_or((after_authority, ""));
    let hosts = match authority.rsplit_once('@') {
        Some((credentials, hosts)) => {
            let (user, password) = credentials.split_once(':').unwrap_or((credentials, ""));
            assignments.set("user", &decode("user", user)?, true)?;
            assignments.set("password", &decode("password", password)?, true)?;
            hosts
        }
        None => authority,
    };
    read_hosts(hosts, assignments)?;
    let database = path.strip_prefix('/').unwrap_or_default();
    if database.contains('@') {
        return Err(SettingsError::of(
            "database",
            "holds an `@`; in a URL it is written %40, and a `/` in user or password %2F",
        ));
    }
    assignments.set("database", &decode("database", database)?, true)?;
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let name = read_pair(pair, assignments, showable)?;
        // An unescaped `&` would make names of the rest of a password.
        showable = showable && name != "password";
    }
    Ok(())
}

/// Takes `host:port,host:port` apart into the two parallel lists.
fn read_hosts(hosts: &str, assignments: &mut Assignments) -> Result<(), SettingsError> {
    let mut names = Vec::new();
    let mut ports = Vec::new();
    for element in hosts.split(',') {
        let (name, port) = match element.strip_prefix('[') {
            Some(bracketed) => split_bracketed(bracketed)?,
            None => element.split_once(':').unwrap_or((element, "")),
        };
        if port.contains(':') {
            return Err(SettingsError::of(
                "host",
                "has more than one `:`; an IPv6 address is written in brackets, as in [::1]:3306",
            ));
        }
        names.push(decode("host", name)?);
        ports.push(port);
    }
    // One host without a port says nothing about ports; a list must stay parallel.
    if ports.iter().any(|port| !port.is_empty()) {
        assignments.set("port", &ports.join(","), true)?;
    }
    assignments.set("host", &names.join(","), true)
}

fn split_bracketed(bracketed: &str) -> Result<(&str, &str), SettingsError> {
    let wrong = || SettingsError::of("host", "has brackets that do not hold an IPv6 address, as in [::1]:3306");
    let (address, after) = bracketed.split_once(']').ok_or_else(wrong)?;
    // Hexadecimal groups, perhaps an IPv4 tail, perhaps a zone after an (escaped) `%`.
    let (groups, _zone) = address.split_once('%').unwrap_or((address, ""));
    groups.parse::<std::net::Ipv6Addr>().map_err(|_| wrong())?;
    match after.strip_prefix(':') {
        Some(port) => Ok((address, port)),
        None if after.is_empty() => Ok((address, "")),
        None => Err(wrong()),
    }
}

fn read_pair(pair: &str, assignments: &mut Assignments, showable: bool) -> Result<&'static str, SettingsError> {
    let Some((name, value)) = pair.split_once('=') else {
        return Err(SettingsError::whole(
            "a parameter in the URL's query lacks its `=`; a `?` in user or password is written %3F",
        ));
    };
    let Ok(name) = decode("", name) else {
        return Err(SettingsError::whole("a parameter's name in the URL's query is not escaped well"));
    };
    let name = names::find(&name, showable)?;
    if OF_THE_ADDRESS.contains(&name) && assignments.has(name) {
        return Err(SettingsError::of(name, "is said twice in the URL"));
    }
    assignments.set(name, &decode(name, value)?, showable)?;
    Ok(name)
}

/// Percent-decodes, and unlike browsers refuses a `%` that is not followed by two hexadecimal digits: it stands in a
/// password that was not escaped at all.
fn decode<'a>(parameter: &str, text: &'a str) -> Result<Cow<'a, str>, SettingsError> {
    let escaped_well = text.split('%').skip(1).all(|after| {
        let digits = after.as_bytes().get(..2);
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    });
    if !escaped_well {
        let words = "has a `%` that is not followed by two hexadecimal digits; itself it is written %25";
        return Err(SettingsError::of(parameter, words));
    }
    percent_decode_str(text)
        .decode_utf8()
        .map_err(|_| SettingsError::of(parameter, "is not UTF-8 when decoded; such a password is set by the builder"))
}
