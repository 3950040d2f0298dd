//! A connected socket, TCP or Unix, with TLS or without, and its move from one runtime to another.

use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::BytesMut;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncReadExt, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

use crate::tls::{ParkedTlsSocket, TlsSocket};

/// After this long without traffic the kernel asks the peer whether it is still there.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);

/// What was sent and is not acknowledged for so long ends the connection: keep-alive does not count while something is
/// under way, and the kernel by itself tries for a quarter of an hour.
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(30);

/// `SO_RCVLOWAT`, which socket2 does not have.
#[cfg(target_os = "linux")]
#[derive(Clone, Copy)]
struct ReceiveLowWater;

#[cfg(target_os = "linux")]
nix::setsockopt_impl!(ReceiveLowWater, libc::SOL_SOCKET, libc::SO_RCVLOWAT, usize, nix::sys::socket::sockopt::SetUsize);

/// A connected socket.
#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<TlsSocket>),
    #[cfg(cenote_loom)]
    Model(crate::model::Line),
}

/// A connected socket that no runtime watches: what an idle connection is kept as.
#[derive(Debug)]
pub(crate) enum ParkedSocket {
    Tcp(std::net::TcpStream),
    Unix(std::os::unix::net::UnixStream),
    Tls(Box<ParkedTlsSocket>),
}

impl Socket {
    pub(crate) fn from_tcp(stream: TcpStream) -> io::Result<Socket> {
        stream.set_nodelay(true)?;
        #[cfg(target_os = "linux")]
        SockRef::from(&stream).set_tcp_user_timeout(Some(UNACKNOWLEDGED_MAX))?;
        SockRef::from(&stream).set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE_IDLE))?;
        Ok(Socket::Tcp(stream))
    }

    /// The other end's address, where it has one.
    pub(crate) fn peer(&self) -> Option<SocketAddr> {
        match self {
            Socket::Tcp(stream) => stream.peer_addr().ok(),
            Socket::Unix(_) | Socket::Tls(_) => None,
            #[cfg(cenote_loom)]
            Socket::Model(_) => None,
        }
    }

    /// One read into `buffer`, which has room. `Ready(0)` is the end of the stream.
    pub(crate) fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut BytesMut) -> Poll<io::Result<usize>> {
        use std::future::Future;
        match self {
            Socket::Tcp(stream) => pin!(stream.read_buf(buffer)).poll(cx),
            Socket::Unix(stream) => pin!(stream.read_buf(buffer)).poll(cx),
            Socket::Tls(stream) => stream.poll_read(cx, buffer),
            #[cfg(cenote_loom)]
            Socket::Model(line) => line.poll_read(cx, buffer),
        }
    }

    /// One write of the front of `bytes`.
    pub(crate) fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self {
            Socket::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
            Socket::Unix(stream) => Pin::new(stream).poll_write(cx, bytes),
            Socket::Tls(stream) => stream.poll_write(cx, bytes),
            #[cfg(cenote_loom)]
            Socket::Model(line) => line.poll_write(cx, bytes),
        }
    }

    /// Writes what goes out without waiting: the last words before a close.
    pub(crate) fn try_write(&mut self, bytes: &[u8]) {
        // Nobody is left to be told of a failure: the connection ends either way.
        let _ = match self {
            Socket::Tcp(stream) => stream.try_write(bytes),
            Socket::Unix(stream) => stream.try_write(bytes),
            Socket::Tls(stream) => return stream.try_write(bytes),
            #[cfg(cenote_loom)]
            Socket::Model(_) => return,
        };
    }

    /// What is there to be read, without waiting. `Ok(0)` is the end of the stream.
    pub(crate) fn try_read(&mut self, buffer: &mut BytesMut) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => stream.try_read_buf(buffer),
            Socket::Unix(stream) => stream.try_read_buf(buffer),
            Socket::Tls(stream) => stream.try_read(buffer),
            #[cfg(cenote_loom)]
            Socket::Model(line) => line.try_read(buffer),
        }
    }

    /// Whether there is something to read, or the end of the stream, whatever the runtime knows: a system call.
    pub(crate) fn has_input(&self) -> bool {
        let reference = match self {
            Socket::Tcp(stream) => SockRef::from(stream),
            Socket::Unix(stream) => SockRef::from(stream),
            Socket::Tls(stream) => return stream.has_input(),
            #[cfg(cenote_loom)]
            Socket::Model(line) => return line.has_input(),
        };
        reference.peek(&mut [std::mem::MaybeUninit::uninit()]).is_ok()
    }

    /// Whether [`set_low_water`](Socket::set_low_water) does anything.
    pub(crate) fn has_low_water(&self) -> bool {
        match self {
            Socket::Tcp(_) => cfg!(target_os = "linux"),
            Socket::Unix(_) => false,
            Socket::Tls(stream) => stream.has_low_water(),
            #[cfg(cenote_loom)]
            Socket::Model(_) => false,
        }
    }

    /// So many bytes have to have come before the runtime hears of any; the end of the stream it hears of at once. Only
    /// TCP knows it, and only on Linux; elsewhere each byte is told.
    pub(crate) fn set_low_water(&self, bytes: usize) {
        match self {
            #[cfg(target_os = "linux")]
            Socket::Tcp(stream) => {
                // What fails here costs system calls and nothing else.
                let _ = nix::sys::socket::setsockopt(stream, ReceiveLowWater, &bytes);
            }
            Socket::Tls(stream) => stream.set_low_water(bytes),
            _ => {}
        }
    }

    /// Takes the socket off its runtime.
    pub(crate) fn park(self) -> io::Result<ParkedSocket> {
        match self {
            Socket::Tcp(stream) => stream.into_std().map(ParkedSocket::Tcp),
            Socket::Unix(stream) => stream.into_std().map(ParkedSocket::Unix),
            Socket::Tls(stream) => stream.park().map(|parked| ParkedSocket::Tls(Box::new(parked))),
            #[cfg(cenote_loom)]
            Socket::Model(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }
}

impl ParkedSocket {
    /// Whether the peer has neither closed the connection nor said anything since it was parked.
    pub(crate) fn is_quiet(&self) -> bool {
        let reference = match self {
            ParkedSocket::Tcp(stream) => SockRef::from(stream),
            ParkedSocket::Unix(stream) => SockRef::from(stream),
            ParkedSocket::Tls(stream) => return stream.is_quiet(),
        };
        let mut byte = [std::mem::MaybeUninit::uninit()];
        matches!(reference.peek(&mut byte), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Puts the socket on the current runtime.
    pub(crate) fn unpark(self) -> io::Result<Socket> {
        match self {
            ParkedSocket::Tcp(stream) => TcpStream::from_std(stream).map(Socket::Tcp),
            ParkedSocket::Unix(stream) => UnixStream::from_std(stream).map(Socket::Unix),
            ParkedSocket::Tls(stream) => stream.unpark().map(|stream| Socket::Tls(Box::new(stream))),
        }
    }
}
