//! `Host`: one place where the server may be, and the reading of `host`, `port` and `socket` into hosts.
//!
//! Names are not resolved here.

use std::fmt;
use std::path::PathBuf;

use cenote_pool::settings::{
    HOST_NAME_DEFAULT, SettingsError, check_host_count, check_host_name, check_port, check_socket_path, read_ports,
    split_list,
};

/// The port registered for MySQL.
pub(super) const PORT_DEFAULT: u16 = 3306;

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
        let name = if name.is_empty() { HOST_NAME_DEFAULT } else { name };
        Host::Tcp { name: name.to_owned(), port }
    }

    /// Refuses what cannot be connected to.
    pub(super) fn check(&self) -> Result<(), SettingsError> {
        match self {
            Host::Tcp { name, port } => check_port(*port).and_then(|()| check_host_name(name)),
            Host::Unix { path } => check_socket_path("socket", path),
        }
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
    let names = split_list(names);
    let count = names.len().max(1);
    check_host_count(count)?;
    let ports = read_ports(ports, count, PORT_DEFAULT)?.into_iter().enumerate();
    Ok(ports.map(|(index, port)| Host::new(names.get(index).copied().unwrap_or_default(), port)).collect())
}
