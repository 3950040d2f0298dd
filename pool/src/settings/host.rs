//! What is the same of every driver's hosts: what a name, a socket's path and a port may be, and lists of them.
//!
//! Names are not resolved here, and what a host is made of is the driver's business.

use std::path::Path;

use super::error::SettingsError;

/// Where to connect when no host is named. The servers' own clients would take their compiled-in socket, which a driver
/// cannot know.
pub const HOST_NAME_DEFAULT: &str = "localhost";

/// How many hosts one pool may have. Each costs a connect timeout when it is unreachable, so a longer list is a mistake.
const HOSTS_MAX: usize = 64;

/// A socket's path must fit into `sockaddr_un` with its closing NUL (108 bytes on Linux).
const SOCKET_PATH_BYTES_MAX: usize = 107;

/// Refuses more hosts than one pool may have.
///
/// # Errors
///
/// When there are more than 64.
pub fn check_host_count(count: usize) -> Result<(), SettingsError> {
    match count <= HOSTS_MAX {
        true => Ok(()),
        false => Err(SettingsError::of("host", format!("may list {HOSTS_MAX} hosts at most"))),
    }
}

/// Refuses what cannot be a host's name or address.
///
/// # Errors
///
/// When it is empty, or has characters that neither has.
pub fn check_host_name(name: &str) -> Result<(), SettingsError> {
    if name.contains('\0') {
        return Err(SettingsError::of("host", "holds a NUL byte"));
    }
    // None of these can be in a name or address; in a URL they are the sign of a password that was not escaped, of
    // which no part may be looked up in the DNS.
    let stray = |c: char| c.is_whitespace() || c.is_control() || "@/?#[]<>\\|^\"`{}()".contains(c);
    if name.is_empty() || name.contains(stray) {
        return Err(SettingsError::of(
            "host",
            "is neither a name, an address nor an absolute path; in a URL, special characters of user and password are \
             written as %40 (@), %2F (/), %3A (:), %3F (?), %23 (#), %25 (%)",
        ));
    }
    Ok(())
}

/// Refuses a socket's path that cannot be connected to; `parameter` is the one that named it.
///
/// # Errors
///
/// When it is not absolute, holds a NUL, or is longer than the system takes.
pub fn check_socket_path(parameter: &str, path: &Path) -> Result<(), SettingsError> {
    let path_bytes = path.as_os_str().as_encoded_bytes();
    if path_bytes.contains(&0) {
        return Err(SettingsError::of(parameter, "holds a NUL byte"));
    }
    if !path.is_absolute() {
        return Err(SettingsError::of(parameter, "must be an absolute path where it names a socket"));
    }
    if path_bytes.len() > SOCKET_PATH_BYTES_MAX {
        let words =
            format!("makes a socket's path of more than {SOCKET_PATH_BYTES_MAX} bytes, the most the system takes");
        return Err(SettingsError::of(parameter, words));
    }
    Ok(())
}

/// Refuses the port that is none.
///
/// # Errors
///
/// On 0.
pub fn check_port(port: u16) -> Result<(), SettingsError> {
    match port {
        0 => Err(port_error()),
        _ => Ok(()),
    }
}

/// The elements of a list, separated by commas; none where nothing was said.
pub fn split_list(list: Option<&str>) -> Vec<&str> {
    list.map_or(Vec::new(), |list| list.split(',').map(str::trim).collect())
}

/// The ports of `count` hosts, from a list that runs parallel to theirs. One port may stand for all; an empty element
/// means the default.
///
/// # Errors
///
/// When there are neither one nor `count`, or one is no port.
pub fn read_ports(list: Option<&str>, count: usize, port_default: u16) -> Result<Vec<u16>, SettingsError> {
    let read = |text: &str| match text {
        "" => Ok(port_default),
        digits if digits.bytes().all(|byte| byte.is_ascii_digit()) => digits.parse().map_err(|_| port_error()),
        _ => Err(port_error()),
    };
    match split_list(list).as_slice() {
        [] => Ok(vec![port_default; count]),
        [one] => Ok(vec![read(one)?; count]),
        ports if ports.len() == count => ports.iter().map(|port| read(port)).collect(),
        _ => Err(SettingsError::of("port", "must be one port, or as many as there are hosts")),
    }
}

fn port_error() -> SettingsError {
    SettingsError::of("port", "must be a whole number from 1 to 65535")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_run_parallel_to_hosts() {
        for (list, count, expected) in [
            (None, 2, Some(vec![9, 9])),
            (Some(""), 2, Some(vec![9, 9])),
            (Some("7"), 2, Some(vec![7, 7])),
            (Some("7, 8"), 2, Some(vec![7, 8])),
            (Some("7,"), 2, Some(vec![7, 9])),
            (Some("7,8"), 1, None),
            (Some("7,8"), 3, None),
            (Some("x"), 1, None),
            (Some("+1"), 1, None),
            (Some("65536"), 1, None),
        ] {
            assert_eq!(read_ports(list, count, 9).ok(), expected, "{list:?} for {count}");
        }
        assert!(check_port(0).is_err() && check_port(1).is_ok());
    }

    #[test]
    fn names_that_could_be_part_of_a_password_are_refused() {
        for name in ["db", "db.example.org", "::1", "10.0.0.1", "fe80::1%eth0", "köln"] {
            assert_eq!(check_host_name(name), Ok(()), "{name}");
        }
        for name in ["", "a b", "a@b", "a/b", "a?b", "a#b", "tcp(db)", "a\0b", "a\nb"] {
            assert!(check_host_name(name).is_err(), "{name:?}");
        }
        assert!(check_host_count(64).is_ok() && check_host_count(65).is_err());
    }

    #[cfg(unix)]
    #[test]
    fn sockets_have_absolute_paths_that_fit() {
        let longest = format!("/{}", "d".repeat(106));
        assert_eq!(check_socket_path("socket", Path::new(&longest)), Ok(()));
        for path in ["relative", "", "/a\0b", &format!("{longest}d")] {
            let error = check_socket_path("socket", Path::new(path)).expect_err(path);
            assert_eq!(error.parameter(), Some("socket"), "{error}");
        }
    }
}
