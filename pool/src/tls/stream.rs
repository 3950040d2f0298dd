//! A socket with TLS on it: the handshake, and then what a plain socket does.
//!
//! A write is one system call for all records of a turn. A read returns once there is plaintext, and waits only when
//! neither plaintext nor bytes of the socket are there.

use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll, ready};

use bytes::BytesMut;

use super::session::{Progress, Session};
use super::{TlsFailure, TlsPeer, TlsRequest, config};
use crate::socket::{ParkedSocket, Socket};

/// A socket and the records that go over it.
#[derive(Debug)]
pub(crate) struct TlsSocket {
    socket: Socket,
    session: Session,
}

/// The same while no runtime watches it.
#[derive(Debug)]
pub(crate) struct ParkedTlsSocket {
    socket: ParkedSocket,
    session: Session,
}

/// Reads the files that `request` names and shakes hands. What the server says right behind the handshake is appended to
/// `input`. No clock: the caller limits the time.
pub(crate) async fn start(
    socket: Socket,
    request: TlsRequest,
    input: &mut BytesMut,
) -> Result<(Socket, TlsPeer), TlsFailure> {
    // Files may be slow to come, and the system's are many.
    let prepared = tokio::task::spawn_blocking(move || config::prepare(&request)).await;
    let (config, name) = prepared.map_err(|_| TlsFailure::Broken("the runtime has ended".to_owned()))??;
    let mut tls = TlsSocket { socket, session: Session::new(config, name)? };
    loop {
        let progress = tls.session.open(input);
        let mut flushed = Ok(());
        while flushed.is_ok() && !tls.session.outgoing().bytes().is_empty() {
            flushed = poll_fn(|cx| tls.poll_flush(cx)).await;
        }
        // An error of the handshake comes first: what was written then is the alert that tells the server of it.
        let progress = progress?;
        flushed.map_err(|error| broken(&error))?;
        if progress == Progress::Open {
            break;
        }
        if poll_fn(|cx| tls.socket.poll_read(cx, tls.session.incoming())).await.map_err(|error| broken(&error))? == 0 {
            return Err(TlsFailure::Broken("the server closed the connection".to_owned()));
        }
    }
    let peer = tls.session.peer();
    Ok((Socket::Tls(Box::new(tls)), peer))
}

fn broken(error: &io::Error) -> TlsFailure {
    TlsFailure::Broken(error.to_string())
}

impl TlsSocket {
    /// Reads until there is plaintext, and appends it to `buffer`. `Ready(0)` is the end of the stream, with or without
    /// the server's word for it: what is cut off shows where replies are cut.
    pub(crate) fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut BytesMut) -> Poll<io::Result<usize>> {
        loop {
            if self.session.is_peer_closed() {
                return Poll::Ready(Ok(0));
            }
            if ready!(self.socket.poll_read(cx, self.session.incoming()))? == 0 {
                return Poll::Ready(Ok(0));
            }
            let count = self.open(buffer)?;
            // TLS' own answers, if it has any: they do not wait for the next statement.
            if !self.session.outgoing().bytes().is_empty()
                && let Poll::Ready(Err(error)) = self.poll_flush(cx)
            {
                return Poll::Ready(Err(error));
            }
            if count > 0 {
                return Poll::Ready(Ok(count));
            }
        }
    }

    /// Encrypts the front of `bytes` and writes it. Asked again after `Pending`, `bytes` has to begin with the same ones.
    pub(crate) fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.session.seal(bytes).map_err(io::Error::other)?;
        let mut flushed = Poll::Ready(Ok(()));
        while matches!(flushed, Poll::Ready(Ok(()))) && !self.session.outgoing().bytes().is_empty() {
            flushed = self.poll_flush(cx);
        }
        // First what has left, then what went wrong: that is met again with the next write.
        match (self.session.outgoing().report(), flushed) {
            (0, Poll::Ready(Err(error))) => Poll::Ready(Err(error)),
            (0, _) => Poll::Pending,
            (count, _) => Poll::Ready(Ok(count)),
        }
    }

    /// One write of what is encrypted.
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outgoing = self.session.outgoing();
        let count = ready!(self.socket.poll_write(cx, outgoing.bytes()))?;
        if count == 0 {
            return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
        }
        outgoing.advance(count);
        Poll::Ready(Ok(()))
    }

    /// Writes what goes out without waiting, and that nothing will follow.
    pub(crate) fn try_write(&mut self, bytes: &[u8]) {
        // Nobody is left to be told of a failure: the connection ends either way.
        if self.session.seal(bytes).is_ok() {
            self.session.close();
            self.socket.try_write(self.session.outgoing().bytes());
        }
    }

    /// What is there to be read, without waiting. `Ok(0)` is the end of the stream.
    pub(crate) fn try_read(&mut self, buffer: &mut BytesMut) -> io::Result<usize> {
        while !self.session.is_peer_closed() {
            if self.socket.try_read(self.session.incoming())? == 0 {
                break;
            }
            let count = self.open(buffer)?;
            if count > 0 {
                return Ok(count);
            }
        }
        Ok(0)
    }

    /// Whether there is something to read, be it for us or for TLS.
    pub(crate) fn has_input(&self) -> bool {
        self.socket.has_input()
    }

    pub(crate) fn park(self) -> io::Result<ParkedTlsSocket> {
        Ok(ParkedTlsSocket { socket: self.socket.park()?, session: self.session })
    }

    fn open(&mut self, buffer: &mut BytesMut) -> io::Result<usize> {
        let before = buffer.len();
        self.session.open(buffer).map_err(io::Error::other)?;
        Ok(buffer.len() - before)
    }
}

impl ParkedTlsSocket {
    pub(crate) fn is_quiet(&self) -> bool {
        self.socket.is_quiet()
    }

    pub(crate) fn unpark(self) -> io::Result<TlsSocket> {
        Ok(TlsSocket { socket: self.socket.unpark()?, session: self.session })
    }
}
