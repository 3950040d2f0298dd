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
use crate::home;
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
    let (config, name) = home::blocking(move || config::prepare(&request)).await.map_err(|error| broken(&error))??;
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
            // TLS' own answers, if it has any, do not wait for the next statement. Of statements nothing is written here:
            // their writer sleeps until the socket takes more, and would not hear that it did.
            if self.session.outgoing().has_only_answers()
                && let Poll::Ready(Err(error)) = self.poll_flush(cx)
            {
                return Poll::Ready(Err(error));
            }
            if self.session.is_peer_closed() {
                return Poll::Ready(Ok(0));
            }
            if ready!(self.socket.poll_read(cx, self.session.incoming()))? == 0 {
                return Poll::Ready(Ok(0));
            }
            let count = self.open(buffer)?;
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

    pub(crate) fn has_low_water(&self) -> bool {
        self.socket.has_low_water()
    }

    /// What is encrypted is longer than what it says, so the mark is reached a little early.
    pub(crate) fn set_low_water(&self, bytes: usize) {
        self.socket.set_low_water(bytes);
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::task::Waker;

    use rcgen::{CertificateParams, KeyPair};
    use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
    use rustls::{ServerConfig, ServerConnection};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::UnixStream;

    use super::super::{TlsSettings, TlsVerification};
    use super::*;

    const TEXT_BYTES: usize = 10 << 20;

    /// A server that has shaken hands, and the other end of its socket.
    struct Server {
        tls: ServerConnection,
        socket: UnixStream,
    }

    impl Server {
        async fn accept(mut socket: UnixStream) -> Server {
            let key = KeyPair::generate().unwrap();
            let certificate = CertificateParams::new(vec!["db.test".to_owned()]).unwrap().self_signed(&key).unwrap();
            let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let config = ServerConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_no_client_auth()
                .with_single_cert(vec![certificate.der().clone()], key)
                .unwrap();
            let mut tls = ServerConnection::new(Arc::new(config)).unwrap();
            while tls.is_handshaking() {
                let mut bytes = BytesMut::with_capacity(64 * 1024);
                socket.read_buf(&mut bytes).await.unwrap();
                tls.read_tls(&mut &bytes[..]).unwrap();
                tls.process_new_packets().unwrap();
                let mut answer = Vec::new();
                while tls.wants_write() {
                    tls.write_tls(&mut answer).unwrap();
                }
                socket.write_all(&answer).await.unwrap();
            }
            Server { tls, socket }
        }
    }

    async fn pair() -> (TlsSocket, Server) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let settings = TlsSettings { verification: TlsVerification::None, ..TlsSettings::default() };
        let request = TlsRequest { settings, host: None };
        let mut input = BytesMut::new();
        let (started, server) = tokio::join!(start(Socket::Unix(ours), request, &mut input), Server::accept(theirs));
        let (Socket::Tls(tls), _) = started.unwrap() else { panic!("it is encrypted") };
        (*tls, server)
    }

    /// Whoever writes sleeps until the socket takes more; if a read wrote in his place, nobody would wake him, and with a
    /// statement longer than what is encrypted at once the server would wait for the rest of it for ever.
    #[tokio::test]
    async fn a_read_writes_nothing_of_a_statement() {
        let (mut tls, mut server) = pair().await;
        let text = vec![b'x'; TEXT_BYTES];
        let cx = &mut Context::from_waker(Waker::noop());
        let mut written = 0;
        while let Poll::Ready(count) = tls.poll_write(cx, &text[written..]) {
            written += count.unwrap();
        }
        let left = tls.session.outgoing().bytes().len();
        assert!(left > 0 && written < text.len(), "the socket is full in the middle of something");
        // Now it takes more, and the beginning of a record is there to be read.
        let mut bytes = vec![0; TEXT_BYTES];
        assert!(server.socket.read(&mut bytes).await.unwrap() > 0);
        server.socket.write_all(&[0x17, 3, 3]).await.unwrap();
        while !tls.has_input() {
            tokio::task::yield_now().await;
        }
        let mut buffer = BytesMut::new();
        for _ in 0..100 {
            assert!(tls.poll_read(cx, &mut buffer).is_pending(), "a record is not whole");
            tokio::task::yield_now().await;
        }
        assert!(!tls.has_input(), "the beginning has been read");
        assert_eq!(tls.session.outgoing().bytes().len(), left);
    }

    /// Both sides write at once, more than all buffers hold.
    #[tokio::test]
    async fn both_ways_go_on_beside_each_other() {
        let (mut tls, mut server) = pair().await;
        let text = vec![b'x'; TEXT_BYTES];
        let (mut written, mut received) = (0, 0);
        let ours = poll_fn(|cx| {
            // As the driver of a lane does: at most one of each, and again if something came of it.
            let mut again = false;
            if written < text.len()
                && let Poll::Ready(count) = tls.poll_write(cx, &text[written..])
            {
                written += count.unwrap();
                again = true;
            }
            let mut buffer = BytesMut::new();
            if let Poll::Ready(count) = tls.poll_read(cx, &mut buffer) {
                assert_eq!(count.unwrap(), buffer.len());
                received += buffer.len();
                again = true;
            }
            if written == text.len() && received == text.len() {
                return Poll::Ready(());
            }
            if again {
                cx.waker().wake_by_ref();
            }
            Poll::Pending
        });
        let theirs = async {
            use std::io::{Read, Write};
            let (mut sent, mut arrived) = (0, 0);
            let mut plaintext = vec![0; 64 * 1024];
            while sent < text.len() || arrived < text.len() {
                if sent < text.len() {
                    sent += server.tls.writer().write(&text[sent..text.len().min(sent + 16 * 1024)]).unwrap();
                }
                let mut bytes = Vec::new();
                while server.tls.wants_write() {
                    server.tls.write_tls(&mut bytes).unwrap();
                }
                // Writes all before it reads, as a server does.
                server.socket.write_all(&bytes).await.unwrap();
                let mut bytes = vec![0; 4_000];
                let Ok(count) = server.socket.try_read(&mut bytes) else {
                    tokio::task::yield_now().await;
                    continue;
                };
                let mut bytes = &bytes[..count];
                while !bytes.is_empty() {
                    server.tls.read_tls(&mut bytes).unwrap();
                    server.tls.process_new_packets().unwrap();
                    while let Ok(count) = server.tls.reader().read(&mut plaintext) {
                        arrived += count;
                    }
                }
            }
        };
        tokio::join!(ours, theirs);
    }
}
