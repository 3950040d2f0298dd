//! `Host`: one place where the server may be, and the reading of libpq's three parallel lists
//! (`host`, `hostaddr`, `port`) into hosts.
//!
//! Names are not resolved here.

use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use cenote_pool::settings::{
    HOST_NAME_DEFAULT, SettingsError, check_host_count, check_host_name, check_port, check_socket_path, read_ports,
    split_list,
};

/// The port registered for Postgres.
pub(super) const PORT_DEFAULT: u16 = 5432;

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
        let name = if name.is_empty() { HOST_NAME_DEFAULT } else { name };
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
        match self {
            Host::Tcp { name, port, .. } => {
                check_port(*port)?;
                if name.starts_with('@') {
                    let words = "is an abstract socket, which is not supported: name the socket's directory";
                    return Err(SettingsError::of("host", words));
                }
                check_host_name(name)
            }
            Host::Unix { directory, port } => {
                check_port(*port)?;
                check_socket_path("host", &socket_path(directory, *port))
            }
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

/// Reads the lists of names, addresses and ports. Lists are separated by commas and run in parallel; one
/// port may stand for all; an empty element means its default.
pub(super) fn from_lists(
    names: Option<&str>,
    addresses: Option<&str>,
    ports: Option<&str>,
) -> Result<Vec<Host>, SettingsError> {
    let names = split_list(names);
    let addresses = split_list(addresses);
    let count = names.len().max(addresses.len()).max(1);
    check_host_count(count)?;
    if !names.is_empty() && !addresses.is_empty() && names.len() != addresses.len() {
        return Err(SettingsError::of("hostaddr", "must list as many addresses as `host` lists hosts"));
    }
    let ports = read_ports(ports, count, PORT_DEFAULT)?.into_iter().enumerate();
    ports
        .map(|(index, port)| match (element(&names, index), element(&addresses, index)) {
            (name, "") => Ok(Host::new(name, port)),
            (name, address) => with_address(name, address, port),
        })
        .collect()
}

fn element<'a>(list: &[&'a str], index: usize) -> &'a str {
    list.get(index).copied().unwrap_or_default()
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
