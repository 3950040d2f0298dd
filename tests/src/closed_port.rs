//! A port that nobody listens on and that nobody else takes meanwhile.

use std::net::{Ipv4Addr, SocketAddr};

use socket2::{Domain, Socket, Type};

/// A port that is taken and refuses connections; until this is dropped, or a proxy is started on it.
#[derive(Debug)]
pub struct ClosedPort {
    /// Bound, and not listening.
    socket: Socket,
}

impl ClosedPort {
    /// Takes a free one.
    pub fn take() -> ClosedPort {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        // Others may bind it, too, if they ask for it by its number.
        socket.set_reuse_address(true).expect("a reusable address");
        socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).expect("a free port");
        ClosedPort { socket }
    }

    /// Its number.
    pub fn number(&self) -> u16 {
        let address = self.socket.local_addr().expect("a bound socket has an address");
        address.as_socket_ipv4().expect("it was bound to one of IPv4").port()
    }
}
