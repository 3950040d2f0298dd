//! What the scripted servers stand on, whatever protocol they speak: a listener, and the bytes of one connection.
//!
//! Each connection has a thread of its own with a blocking socket, so that a script reads from top to bottom and does
//! not depend on the runtime under test.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// A listener. It stops when it is dropped, and panics then if one of its scripts did.
#[derive(Debug)]
pub(crate) struct Stage {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    accepted: AtomicUsize,
    stopping: AtomicBool,
    panics: Mutex<Vec<String>>,
}

impl Stage {
    /// Serves each connection by `script`. When that returns, the connection is closed.
    pub(crate) fn open(script: impl Fn(Peer) -> io::Result<()> + Send + Sync + 'static) -> Stage {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port on the loopback");
        let address = listener.local_addr().expect("the port just bound");
        let shared = Arc::new(Shared::default());
        let (script, accepting) = (Arc::new(script), Arc::clone(&shared));
        thread::spawn(move || {
            for stream in listener.incoming() {
                if accepting.stopping.load(Ordering::SeqCst) {
                    return;
                }
                let Ok(stream) = stream else { continue };
                let number = accepting.accepted.fetch_add(1, Ordering::SeqCst);
                let (script, shared) = (Arc::clone(&script), Arc::clone(&accepting));
                thread::spawn(move || {
                    // Whatever is said is to leave at once, in segments of its own.
                    let _ = stream.set_nodelay(true);
                    // Closed when a panic has been noted, and not by the panic: a test may end as soon as it sees the end.
                    let _open = stream.try_clone();
                    let peer = Peer { number, stream, input: Vec::new() };
                    // An error of the script means that the client has closed the connection, as it should at the end.
                    if let Err(panic) = panic::catch_unwind(AssertUnwindSafe(|| script(peer))) {
                        let words = panic.downcast_ref::<String>().cloned();
                        let words = words.or_else(|| panic.downcast_ref::<&str>().map(|words| (*words).to_owned()));
                        let words = format!("connection {number}: {}", words.unwrap_or_default());
                        shared.panics.lock().unwrap_or_else(PoisonError::into_inner).push(words);
                    }
                });
            }
        });
        Stage { address, shared }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Connections accepted so far.
    pub(crate) fn accepted(&self) -> usize {
        self.shared.accepted.load(Ordering::SeqCst)
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(self.address);
        let panics = self.shared.panics.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(panics.is_empty() || thread::panicking(), "scripts panicked: {panics:?}");
    }
}

/// One connection, seen from the server.
#[derive(Debug)]
pub(crate) struct Peer {
    /// Which connection of its server this is, from 0.
    pub(crate) number: usize,
    stream: TcpStream,
    input: Vec<u8>,
}

impl Peer {
    pub(crate) fn take<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let bytes = self.take_bytes(N)?;
        Ok(bytes.try_into().expect("as many bytes as were taken"))
    }

    pub(crate) fn take_bytes(&mut self, count: usize) -> io::Result<Vec<u8>> {
        let mut chunk = [0; 64 * 1024];
        while self.input.len() < count {
            match self.stream.read(&mut chunk)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                read => self.input.extend_from_slice(&chunk[..read]),
            }
        }
        let rest = self.input.split_off(count);
        Ok(std::mem::replace(&mut self.input, rest))
    }

    /// Whether the client has said something that was not taken yet.
    pub(crate) fn has_input(&mut self) -> io::Result<bool> {
        if !self.input.is_empty() {
            return Ok(true);
        }
        self.stream.set_nonblocking(true)?;
        let peeked = self.stream.peek(&mut [0]);
        self.stream.set_nonblocking(false)?;
        match peeked {
            Ok(count) => Ok(count > 0),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    pub(crate) fn wait_for_close(&mut self) -> io::Result<()> {
        io::copy(&mut self.stream, &mut io::sink()).map(drop)
    }

    pub(crate) fn close(&mut self) -> io::Result<()> {
        self.stream.shutdown(Shutdown::Both)
    }
}
