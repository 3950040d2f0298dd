//! `Host`: one place where the server may be, and the reading of libpq's three parallel lists
//! (`host`, `hostaddr`, `port`) into hosts.
//!
//! Names are not resolved here.

use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use super::error::SettingsError;

/// The port registered for Postgres.
pub(super) const PORT_DEFAULT: u16 = 5432;

/// Where to connect when no host is named. libpq would take its compiled-in socket directory, which this
/// driver cannot know.
const NAME_DEFAULT: &str = "localhost";

/// How many hosts one pool may have. Each costs a connect timeout when it is unreachable, so a longer list
/// is a mistake.
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
        /// The address to use instead of resolving the name (libpq's `hostaddr`).
        address: Option<IpAddr>,
        /// The port.
        port: u16,
    },
    /// Over a Unix socket.
    Unix {
        /// The directory the server keeps its socket in.
        directory: PathBuf,
        /// The port, which is part of the socket's file name.
        port: u16,
    },
}

impl Host {
    /// A host by name, by address, or, if it starts with `/`, by socket directory.
    pub(super) fn new(name: &str, port: u16) -> Host {
        if name.starts_with('/') {
            return Host::Unix { directory: PathBuf::from(name), port };
        }
        let name = if name.is_empty() { NAME_DEFAULT } else { name };
        Host::Tcp { name: name.to_owned(), address: None, port }
    }

    /// The path of the socket, `<directory>/.s.PGSQL.<port>`; `None` for TCP.
    pub fn socket_path(&self) -> Option<PathBuf> {
        match self {
            Host::Tcp { .. } => None,
            Host::Unix { directory, port } => Some(socket_path(directory, *port)),
        }
    }

    /// Refuses what cannot be connected to.
    pub(super) fn check(&self) -> Result<(), SettingsError> {
        let (port, unusable) = match self {
            Host::Tcp { name, port, .. } => (*port, unusable_name(name)),
            Host::Unix { directory, port } => (*port, unusable_directory(directory, *port)),
        };
        if port == 0 {
            return Err(port_error());
        }
        match unusable {
            Some(words) => Err(SettingsError::of("host", words)),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Host::Tcp { name, port, .. } if name.contains(':') => write!(f, "[{name}]:{port}"),
            Host::Tcp { name, port, .. } => write!(f, "{name}:{port}"),
            Host::Unix { directory, port } => socket_path(directory, *port).display().fmt(f),
        }
    }
}

fn socket_path(directory: &Path, port: u16) -> PathBuf {
    directory.join(format!(".s.PGSQL.{port}"))
}

fn unusable_name(name: &str) -> Option<&'static str> {
    if name.contains('\0') {
        return Some("holds a NUL byte");
    }
    if name.starts_with('@') {
        return Some("is an abstract socket, which is not supported: name the socket's directory");
    }
    // None of these can be in a name or address; in a URL they are the sign of a password that was
    // not escaped, of which no part may be looked up in the DNS.
    let stray = |c: char| c.is_whitespace() || c.is_control() || "@/?#[]<>\\|^\"`{}".contains(c);
    if name.is_empty() || name.contains(stray) {
        return Some(
            "is neither a name, an address nor an absolute path; in a URL, special characters of user and \
             password are written as %40 (@), %2F (/), %3A (:), %3F (?), %23 (#), %25 (%)",
        );
    }
    None
}

fn unusable_directory(directory: &Path, port: u16) -> Option<&'static str> {
    let path = socket_path(directory, port);
    let path_bytes = path.as_os_str().as_encoded_bytes();
    if path_bytes.contains(&0) {
        return Some("holds a NUL byte");
    }
    if !directory.is_absolute() {
        return Some("must be an absolute path when it is a socket directory");
    }
    if path_bytes.len() > SOCKET_PATH_BYTES_MAX {
        return Some("gives a socket path of more than 107 bytes, the most the system takes");
    }
    None
}

/// Reads the lists of names, addresses and ports. Lists are separated by commas and run in parallel; one
/// port may stand for all; an empty element means its default.
pub(super) fn from_lists(
    names: Option<&str>,
    addresses: Option<&str>,
    ports: Option<&str>,
) -> Result<Vec<Host>, SettingsError> {
    let names: Vec<&str> = split(names);
    let addresses: Vec<&str> = split(addresses);
    let ports: Vec<&str> = split(ports);
    let count = names.len().max(addresses.len()).max(1);
    if count > HOSTS_MAX {
        return Err(too_many());
    }
    if !names.is_empty() && !addresses.is_empty() && names.len() != addresses.len() {
        return Err(SettingsError::of("hostaddr", "must list as many addresses as `host` lists hosts"));
    }
    if ports.len() > 1 && ports.len() != count {
        return Err(SettingsError::of("port", "must be one port, or as many as there are hosts"));
    }
    let mut hosts = Vec::with_capacity(count);
    for index in 0..count {
        let element = |list: &[&str]| list.get(index).map_or("", |text| text.trim()).to_owned();
        let port_text = if ports.len() == 1 { ports[0] } else { &element(&ports) };
        let port = read_port(port_text)?;
        let name = element(&names);
        let address = element(&addresses);
        hosts.push(if address.is_empty() { Host::new(&name, port) } else { with_address(&name, &address, port)? });
    }
    Ok(hosts)
}

fn split(list: Option<&str>) -> Vec<&str> {
    list.map_or(Vec::new(), |list| list.split(',').collect())
}

fn with_address(name: &str, address: &str, port: u16) -> Result<Host, SettingsError> {
    let Ok(parsed) = address.parse::<IpAddr>() else {
        return Err(SettingsError::of("hostaddr", "must be an IPv4 or IPv6 address"));
    };
    if name.starts_with('/') {
        return Err(SettingsError::of("hostaddr", "goes with a host's name, not with a socket directory"));
    }
    let name = if name.is_empty() { address } else { name };
    Ok(Host::Tcp { name: name.to_owned(), address: Some(parsed), port })
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
