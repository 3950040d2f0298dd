//! A server that answers the question for TLS as a test says: well, wrongly, or with a certificate that is not to be
//! trusted. It speaks just so much Postgres that a log-in without password gets in, and closes the connection at the first query.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::certificates::Certified;

/// The number in the place of a version by which a client asks for TLS.
const SSL_REQUEST: [u8; 4] = [0x04, 0xd2, 0x16, 0x2f];

/// AuthenticationOk and ReadyForQuery.
const WELCOME: &[u8] = b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I";

/// What a server does with the question for TLS.
#[derive(Clone, Debug)]
pub enum Conduct {
    /// Says yes and does it.
    Encrypt,
    /// Does TLS without having been asked.
    EncryptAtOnce,
    /// Says this, and then nothing more; what the client says then is written down.
    Say(&'static [u8]),
    /// Says yes, and this in answer to the client's next words.
    SayLate(&'static [u8]),
    /// Says this and closes the connection.
    SayAndClose(&'static [u8]),
    /// Says yes, and with it the beginning of what it would have said had it been encrypted.
    Inject,
}

/// What a server saw of one connection, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// The question for TLS.
    Asked,
    /// A StartupMessage that anybody could read.
    StartupInClear,
    /// A StartupMessage over TLS.
    StartupEncrypted,
    /// The beginning of TLS.
    Hello,
    /// The handshake came to nothing.
    HandshakeFailed(String),
    /// The client closed the connection and said nothing more.
    Closed,
}

/// The server; it stops when it is dropped.
#[derive(Debug)]
pub struct TlsServer {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    conduct: Conduct,
    config: Arc<ServerConfig>,
    seen: Mutex<Vec<Seen>>,
    stopping: AtomicBool,
}

impl TlsServer {
    /// Starts one that shows this certificate, and chooses this application protocol if it is given.
    pub fn start(conduct: Conduct, certified: &Certified, application_protocol: Option<&str>) -> TlsServer {
        let (certificate, key) = certified.der();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions of TLS")
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .expect("a certificate and its key");
        config.alpn_protocols = application_protocol.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port on the loopback");
        let address = listener.local_addr().expect("the port just bound");
        let shared =
            Shared { conduct, config: Arc::new(config), seen: Mutex::default(), stopping: AtomicBool::new(false) };
        let shared = Arc::new(shared);
        let accepting = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming() {
                if accepting.stopping.load(Ordering::SeqCst) {
                    return;
                }
                let Ok(stream) = stream else { continue };
                let shared = Arc::clone(&accepting);
                thread::spawn(move || {
                    // What the client makes of it is the test's business, and written down is what was seen.
                    let _ = shared.serve(stream);
                });
            }
        });
        TlsServer { address, shared }
    }

    /// Its port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// What it has seen, of all connections.
    pub fn seen(&self) -> Vec<Seen> {
        self.shared.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for TlsServer {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(self.address);
    }
}

impl Shared {
    fn note(&self, seen: Seen) {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).push(seen);
    }

    fn serve(&self, mut stream: TcpStream) -> io::Result<()> {
        if matches!(self.conduct, Conduct::EncryptAtOnce) {
            return self.encrypt(stream);
        }
        let mut head = [0; 8];
        if stream.read_exact(&mut head).is_err() {
            self.note(Seen::Closed);
            return Ok(());
        }
        if head[4..] != SSL_REQUEST {
            self.note(Seen::StartupInClear);
            return Ok(());
        }
        self.note(Seen::Asked);
        match self.conduct {
            Conduct::Encrypt | Conduct::EncryptAtOnce => {
                stream.write_all(b"S")?;
                self.encrypt(stream)
            }
            Conduct::Inject => {
                stream.write_all(&[b"S", WELCOME].concat())?;
                self.watch(stream)
            }
            Conduct::Say(words) => {
                stream.write_all(words)?;
                self.watch(stream)
            }
            Conduct::SayLate(words) => {
                stream.write_all(b"S")?;
                stream.read_exact(&mut [0])?;
                stream.write_all(words)?;
                io::copy(&mut stream, &mut io::sink()).map(drop)
            }
            Conduct::SayAndClose(words) => stream.write_all(words),
        }
    }

    /// What the client says next: the beginning of TLS, or something that it should have kept to itself.
    fn watch(&self, mut stream: TcpStream) -> io::Result<()> {
        let mut byte = [0];
        let seen = match stream.read(&mut byte) {
            Ok(1) if byte[0] == 0x16 => Seen::Hello,
            Ok(1) => Seen::StartupInClear,
            _ => Seen::Closed,
        };
        self.note(seen);
        io::copy(&mut stream, &mut io::sink()).map(drop)
    }

    fn encrypt(&self, stream: TcpStream) -> io::Result<()> {
        let connection = ServerConnection::new(Arc::clone(&self.config)).map_err(io::Error::other)?;
        let mut stream = StreamOwned::new(connection, stream);
        let mut length = [0; 4];
        if let Err(error) = stream.read_exact(&mut length) {
            self.note(Seen::HandshakeFailed(error.to_string()));
            return Ok(());
        }
        let rest = u32::from_be_bytes(length).saturating_sub(4);
        io::copy(&mut (&mut stream).take(rest.into()), &mut io::sink())?;
        self.note(Seen::StartupEncrypted);
        stream.write_all(WELCOME)?;
        // The first query is the last.
        stream.read_exact(&mut [0])
    }
}
