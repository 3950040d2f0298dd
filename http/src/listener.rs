//! The listening sockets: one per thread on the same port, so that the kernel spreads the connections and no
//! two threads wait on one queue.
//!
//! On Linux that is `SO_REUSEPORT`. Elsewhere the option is missing or does not spread, and where a sandbox
//! refuses it there is an error: then all threads accept from clones of one socket.

use std::io;
use std::net::{SocketAddr, TcpListener};

use socket2::{Domain, Protocol, Socket, Type};

/// Connections that may wait to be accepted, per socket: what arrives while a thread is busy. Linux caps it
/// at `net.core.somaxconn`, whose default is the same.
pub(crate) const BACKLOG: i32 = 4096;

/// `count` listeners on the first of `addresses` that can be bound, and the address.
pub(crate) fn bind(
    addresses: &[SocketAddr],
    count: usize,
    shares_port: bool,
) -> io::Result<(Vec<TcpListener>, SocketAddr)> {
    let mut last = io::Error::new(io::ErrorKind::InvalidInput, "there is no address to listen on");
    for address in addresses {
        match bind_one(*address, count, shares_port) {
            Ok(bound) => return Ok(bound),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn bind_one(address: SocketAddr, count: usize, shares_port: bool) -> io::Result<(Vec<TcpListener>, SocketAddr)> {
    let listeners = match bind_spread(address, count, shares_port)? {
        Some(sockets) => sockets,
        None => bind_cloned(address, count)?,
    };
    let bound = match listeners.first() {
        Some(listener) => listener.local_addr()?,
        None => address,
    };
    Ok((listeners, bound))
}

/// One socket per thread; `None` where the system does not have it.
#[cfg(target_os = "linux")]
fn bind_spread(address: SocketAddr, count: usize, shares_port: bool) -> io::Result<Option<Vec<TcpListener>>> {
    if !shares_port && count == 1 {
        return Ok(None);
    }
    if !shares_port && address.port() != 0 {
        // With SO_REUSEPORT a second server of the same user would bind the port too, and each would get a
        // part of the connections. Binding once without it tells whether the port is taken.
        open(address)?.bind(&address.into())?;
    }
    let mut address = address;
    let mut sockets = Vec::with_capacity(count);
    for _ in 0..count {
        let socket = open(address)?;
        if let Err(error) = socket.set_reuse_port(true) {
            return if shares_port { Err(error) } else { Ok(None) };
        }
        socket.bind(&address.into())?;
        if let Some(bound) = socket.local_addr()?.as_socket() {
            // All others take the port that the first was given.
            address = bound;
        }
        sockets.push(socket);
    }
    // Listening only once all are bound: a failure in between leaves nobody waiting in a queue.
    sockets.into_iter().map(listen).collect::<io::Result<Vec<_>>>().map(Some)
}

/// One socket per thread; `None` where the system does not have it.
#[cfg(not(target_os = "linux"))]
fn bind_spread(_: SocketAddr, _: usize, _: bool) -> io::Result<Option<Vec<TcpListener>>> {
    Ok(None)
}

/// One socket, cloned for each thread.
fn bind_cloned(address: SocketAddr, count: usize) -> io::Result<Vec<TcpListener>> {
    let socket = open(address)?;
    socket.bind(&address.into())?;
    let listener = listen(socket)?;
    let mut listeners = Vec::with_capacity(count);
    for _ in 1..count {
        listeners.push(listener.try_clone()?);
    }
    listeners.push(listener);
    Ok(listeners)
}

fn open(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // A server that is started again must not wait for the connections of the last one to time out. On
    // Windows the option would let two servers have the port.
    if cfg!(unix) {
        socket.set_reuse_address(true)?;
    }
    socket.set_nonblocking(true)?;
    Ok(socket)
}

fn listen(socket: Socket) -> io::Result<TcpListener> {
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::ErrorKind;
    use std::net::{Ipv4Addr, TcpStream};

    fn local(port: u16) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, port).into()
    }

    #[test]
    fn all_listeners_have_one_port_which_is_then_taken() {
        let (listeners, address) = bind(&[local(0)], 3, false).unwrap();
        assert_eq!(listeners.len(), 3);
        for listener in &listeners {
            assert_eq!(listener.local_addr().unwrap(), address);
        }
        for count in [1, 2] {
            let error = bind(&[address], count, false).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::AddrInUse, "{count} more listeners: {error}");
        }
        drop(listeners);
        bind(&[address], 2, false).expect("the port is free again");
    }

    #[test]
    fn a_clone_accepts_what_came_to_the_port() {
        let listeners = bind_cloned(local(0), 2).unwrap();
        let address = listeners[0].local_addr().unwrap();
        let _client = TcpStream::connect(address).unwrap();
        // The connection is in the queue a moment after the client has it.
        while !listeners.iter().any(|listener| listener.accept().is_ok()) {
            std::thread::yield_now();
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_port_can_be_shared_when_both_ask_for_it() {
        let (_first, address) = bind(&[local(0)], 1, true).unwrap();
        let (_second, again) = bind(&[address], 1, true).unwrap();
        assert_eq!(address, again);
    }

    #[test]
    fn the_next_address_is_tried() {
        let (_taken, taken) = bind(&[local(0)], 1, false).unwrap();
        let (_listeners, address) = bind(&[taken, local(0)], 1, false).unwrap();
        assert_ne!(address, taken);
        assert_eq!(bind(&[], 1, false).unwrap_err().kind(), ErrorKind::InvalidInput);
    }
}
