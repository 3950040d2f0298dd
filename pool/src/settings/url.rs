//! URLs: `scheme://user:password@host:port,host:port/database?name=value&name=value`, every part optional.
//!
//! Where a part of a password that was not escaped could be taken for something else, reading is strict: of several `@`
//! before the first `/` or `?` the last one ends the password; an `@` in the database's name is refused, and so is
//! white space.

use std::borrow::Cow;
use std::net::Ipv6Addr;

use percent_encoding::percent_decode_str;

use super::assignments::{Assignments, Parameters};
use super::error::SettingsError;

/// What follows the scheme, if `text` starts like a URL of one of these schemes.
pub fn after_scheme<'a>(text: &'a str, schemes: &[&str]) -> Option<&'a str> {
    let (scheme, rest) = text.trim_start().split_once("://")?;
    let ours = schemes.iter().any(|name| scheme.eq_ignore_ascii_case(name));
    ours.then_some(rest)
}

/// Reads what follows the scheme.
///
/// # Errors
///
/// When a part is not written well, or cannot be set.
pub fn read_url<P: Parameters>(after_scheme: &str, assignments: &mut Assignments<P>) -> Result<(), SettingsError> {
    let text = after_scheme.trim_end();
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
            P::DATABASE,
            "holds an `@`; in a URL it is written %40, and a `/` in user or password %2F",
        ));
    }
    assignments.set(P::DATABASE, &decode(P::DATABASE, database)?, true)?;
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let name = read_pair(pair, assignments, showable)?;
        // An unescaped `&` would make names of the rest of a password.
        showable = showable && name != "password";
    }
    Ok(())
}

/// Takes `host:port,host:port` apart into the two parallel lists.
fn read_hosts<P: Parameters>(hosts: &str, assignments: &mut Assignments<P>) -> Result<(), SettingsError> {
    let mut names = Vec::new();
    let mut ports = Vec::new();
    for element in hosts.split(',') {
        let (name, port) = match element.strip_prefix('[') {
            Some(bracketed) => split_bracketed(bracketed).ok_or_else(|| {
                let example = example::<P>();
                SettingsError::of("host", format!("has brackets that do not hold an IPv6 address, as in {example}"))
            })?,
            None => element.split_once(':').unwrap_or((element, "")),
        };
        if port.contains(':') {
            let example = example::<P>();
            let words = format!("has more than one `:`; an IPv6 address is written in brackets, as in {example}");
            return Err(SettingsError::of("host", words));
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

fn example<P: Parameters>() -> String {
    format!("[::1]:{}", P::PORT_DEFAULT)
}

/// Address and port of what follows an opening bracket.
fn split_bracketed(bracketed: &str) -> Option<(&str, &str)> {
    let (address, after) = bracketed.split_once(']')?;
    // Hexadecimal groups, perhaps an IPv4 tail, perhaps a zone after an (escaped) `%`.
    let (groups, _zone) = address.split_once('%').unwrap_or((address, ""));
    groups.parse::<Ipv6Addr>().ok()?;
    match after.strip_prefix(':') {
        Some(port) => Some((address, port)),
        None => after.is_empty().then_some((address, "")),
    }
}

fn read_pair<P: Parameters>(
    pair: &str,
    assignments: &mut Assignments<P>,
    showable: bool,
) -> Result<&'static str, SettingsError> {
    let Some((name, value)) = pair.split_once('=') else {
        return Err(SettingsError::whole(
            "a parameter in the URL's query lacks its `=`; a `?` in user or password is written %3F",
        ));
    };
    let Ok(name) = decode("", name) else {
        return Err(SettingsError::whole("a parameter's name in the URL's query is not escaped well"));
    };
    let name = P::NAMES.find(&name, showable)?;
    if P::OF_THE_ADDRESS.contains(&name) && assignments.has(name) {
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

#[cfg(test)]
mod tests {
    use super::super::Names;
    use super::*;

    /// Notes what was set, in order.
    #[derive(Default)]
    struct Noted(Vec<String>);

    impl Parameters for Noted {
        const NAMES: &'static Names = &Names {
            read: &["color", "db", "host", "password", "port", "user"],
            same: &[],
            not_there: &[],
            elsewhere: &[],
            dashes: false,
            otherwise: None,
        };
        const DATABASE: &'static str = "db";
        const PORT_DEFAULT: u16 = 7;
        const OF_THE_ADDRESS: &'static [&'static str] = &["host"];

        fn set(&mut self, name: &'static str, value: &str) -> Result<(), SettingsError> {
            if value == "refuse" {
                return Err(SettingsError::of(name, "must be something else"));
            }
            self.0.push(format!("{name}={value}"));
            Ok(())
        }
    }

    fn read(text: &str) -> Result<String, SettingsError> {
        let mut assignments = Assignments::<Noted>::default();
        read_url(text, &mut assignments)?;
        Ok(assignments.into_parameters().0.join(" "))
    }

    #[test]
    fn the_scheme_comes_off() {
        for (text, expected) in
            [("a://x", Some("x")), (" B://", Some("")), ("c://x", None), ("a:/x", None), ("a", None), ("a b://x", None)]
        {
            assert_eq!(after_scheme(text, &["a", "b"]), expected, "{text:?}");
        }
    }

    #[test]
    fn every_part_is_set() {
        for (text, expected) in [
            ("", ""),
            ("u:p%40@h:1/d?color=red&color=blue", "user=u password=p@ port=1 host=h db=d color=red color=blue"),
            ("a:b@c@h", "user=a password=b@c host=h"),
            ("h,i:2", "port=,2 host=h,i"),
            ("[::1]:2,[fe80::1%25eth0]", "port=2, host=::1,fe80::1%eth0"),
            ("/d\n", "db=d"),
            ("/?host=h&&", "host=h"),
            ("u@/d", "user=u db=d"),
        ] {
            assert_eq!(read(text), Ok(expected.to_owned()), "{text:?}");
        }
    }

    #[test]
    fn what_is_not_written_well_is_refused() {
        for (text, parameter, words) in [
            ("a b@h", None, "white space"),
            ("a:%zz@h", Some("password"), "hexadecimal"),
            ("a:b%4@h", Some("password"), "hexadecimal"),
            ("a%@h", Some("user"), "hexadecimal"),
            ("a:%ff@h", Some("password"), "not UTF-8"),
            ("::1/d", Some("host"), "brackets, as in [::1]:7"),
            ("[::1", Some("host"), "IPv6 address, as in [::1]:7"),
            ("[::1]7", Some("host"), "IPv6 address"),
            ("[h]", Some("host"), "IPv6 address"),
            ("a:b/c@h", Some("db"), "%2F"),
            ("h?color", None, "%3F"),
            ("h?%=1", None, "not escaped well"),
            ("h?host=i", Some("host"), "twice"),
            ("h?color=refuse", Some("color"), "something else"),
            ("h?colour=red", Some("colour"), "did you mean `color`?"),
        ] {
            let error = read(text).expect_err(text);
            assert_eq!(error.parameter(), parameter, "{text:?}: {error}");
            assert!(error.to_string().contains(words), "{text:?}: {error}");
        }
    }

    #[test]
    fn what_may_be_the_rest_of_a_password_is_not_shown() {
        for text in ["h?password=a&s3cret=x", "u:a?s3cret=b@h", "u:a/b?s3cret=@h"] {
            let error = read(text).expect_err(text);
            assert!(!format!("{error} {error:?}").contains("3cret"), "{error}");
        }
    }
}
