//! `Host`: one place where the server may be, and the reading of `host`, `port` and `socket` into hosts.
//!
//! Names are not resolved here.

use std::fmt;
use std::path::{Path, PathBuf};

use super::error::SettingsError;

/// The port registered for MySQL.
pub(super) const PORT_DEFAULT: u16 = 3306;

/// Where to connect when no host is named. The official clients would take their compiled-in socket, which this
/// driver cannot know.
const NAME_DEFAULT: &str = "localhost";

/// How many hosts one pool may have. Each costs a connect timeout when it is unreachable, so a longer list is a
/// mistake.
pub(super) const HOSTS_MAX: usize = 64;

/// A socket's path must fit into `sockaddr_un` with its closing NUL (108 bytes on Linux).
const SOCKET_PATH_BYTES_MAX: usize = 107;

/// One place where the server may be.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Host {
    /// Over TCP.
    Tcp {
        /// The name or address as it was given; what a certificate would have to name.
        name: String,
        /// The port.
        port: u16,
    },
    /// Over a Unix socket.
    Unix {
        /// The socket itself.
        path: PathBuf,
    },
}

impl Host {
    /// A host by name, by address, or, if it starts with `/`, by its socket's path.
    pub(super) fn new(name: &str, port: u16) -> Host {
        if name.starts_with('/') {
            return Host::Unix { path: PathBuf::from(name) };
        }
        let name = if name.is_empty() { NAME_DEFAULT } else { name };
        Host::Tcp { name: name.to_owned(), port }
    }

    /// Refuses what cannot be connected to.
    pub(super) fn check(&self) -> Result<(), SettingsError> {
        let (parameter, unusable) = match self {
            Host::Tcp { port: 0, .. } => return Err(port_error()),
            Host::Tcp { name, .. } => ("host", unusable_name(name)),
            Host::Unix { path } => ("socket", unusable_path(path)),
        };
        unusable.map_or(Ok(()), |words| Err(SettingsError::of(parameter, words)))
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Host::Tcp { name, port } if name.contains(':') => write!(f, "[{name}]:{port}"),
            Host::Tcp { name, port } => write!(f, "{name}:{port}"),
            Host::Unix { path } => path.display().fmt(f),
        }
    }
}

fn unusable_name(name: &str) -> Option<&'static str> {
    if name.contains('\0') {
        return Some("holds a NUL byte");
    }
    // None of these can be in a name or address; in a URL they are the sign of a password that was not escaped, of
    // which no part may be looked up in the DNS.
    let stray = |c: char| c.is_whitespace() || c.is_control() || "@/?#[]<>\\|^\"`{}()".contains(c);
    if name.is_empty() || name.contains(stray) {
        return Some(
            "is neither a name, an address nor a socket's absolute path; in a URL, special characters of user and \
             password are written as %40 (@), %2F (/), %3A (:), %3F (?), %23 (#), %25 (%)",
        );
    }
    None
}

fn unusable_path(path: &Path) -> Option<&'static str> {
    let path_bytes = path.as_os_str().as_encoded_bytes();
    if path_bytes.contains(&0) {
        return Some("holds a NUL byte");
    }
    if !path.is_absolute() {
        return Some("must be an absolute path");
    }
    if path_bytes.len() > SOCKET_PATH_BYTES_MAX {
        return Some("has more than 107 bytes, the most the system takes");
    }
    None
}

/// Makes hosts of what was said. Names and ports are lists, separated by commas, that run in parallel; one port may
/// stand for all; an empty element means its default. As with the official clients a socket is taken for `localhost`
/// or where no host is named.
pub(super) fn from_texts(
    names: Option<&str>,
    ports: Option<&str>,
    socket: Option<&str>,
) -> Result<Vec<Host>, SettingsError> {
    if let Some(path) = socket {
        return match names {
            None | Some("" | "localhost") => Ok(vec![Host::Unix { path: PathBuf::from(path) }]),
            Some(_) => Err(SettingsError::of("socket", "and `host` name different places; say one of them")),
        };
    }
    let names: Vec<&str> = split(names);
    let ports: Vec<&str> = split(ports);
    let count = names.len().max(1);
    if count > HOSTS_MAX {
        return Err(too_many());
    }
    if ports.len() > 1 && ports.len() != count {
        return Err(SettingsError::of("port", "must be one port, or as many as there are hosts"));
    }
    let port_of = |index: usize| ports.get(index).or(ports.first().filter(|_| ports.len() == 1));
    (0..count)
        .map(|index| {
            let port = read_port(port_of(index).copied().unwrap_or_default())?;
            Ok(Host::new(names.get(index).map_or("", |name| name.trim()), port))
        })
        .collect()
}

fn split(list: Option<&str>) -> Vec<&str> {
    list.map_or(Vec::new(), |list| list.split(',').collect())
}

fn read_port(text: &str) -> Result<u16, SettingsError> {
    match text.trim() {
        "" => Ok(PORT_DEFAULT),
        digits if digits.bytes().all(|byte| byte.is_ascii_digit()) => digits.parse().map_err(|_| port_error()),
        _ => Err(port_error()),
    }
}

fn port_error() -> SettingsError {
    SettingsError::of("port", "must be a whole number from 1 to 65535")
}

pub(super) fn too_many() -> SettingsError {
    SettingsError::of("host", format!("may list {HOSTS_MAX} hosts at most"))
}
