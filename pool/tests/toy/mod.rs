//! A language of one byte, and the server's side of it.

// Each test file uses a part of it.
#![allow(dead_code)]

use std::future::Future;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use cenote_pool::{
    Address, Answered, End, Expected, Failure, Framed, Framer, Handle, Language, Lease, Login, LoginFailure, LoginStep,
    PeerFault, Pool, PoolLimits, Preparation, StatementId, TlsPeer,
};

/// Each command is as long, and says what it is.
pub(crate) const COMMAND_BYTES: usize = 8;
pub(crate) const QUERY: &[u8; COMMAND_BYTES] = b"query...";
pub(crate) const PREPARE: &[u8; COMMAND_BYTES] = b"prepare.";
pub(crate) const FORGET: &[u8; COMMAND_BYTES] = b"forget..";

/// Each reply begins with `r` and the number of its connection; an `n` alone is an aside.
pub(crate) const REPLY_BYTES: usize = 64;

/// Longer than anything here takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Toy {
    addresses: Vec<Address>,
    in_flight_max: Option<usize>,
}

impl Toy {
    pub(crate) fn at(port: u16, in_flight_max: Option<usize>) -> Toy {
        Toy { addresses: vec![Address::Tcp { host: "127.0.0.1".to_owned(), port }], in_flight_max }
    }
}

pub(crate) struct ToyLogin(Option<usize>);

#[derive(Debug)]
pub(crate) struct ToyFramer;

impl Framer for ToyFramer {
    fn advance(&mut self, input: &[u8], expected: Expected) -> Result<Framed, PeerFault> {
        match input[0] {
            b'n' => Ok(Framed { consumed: 1, end: Some(End::Aside) }),
            b'r' if expected == Expected::Nothing => Err(PeerFault("a reply that nobody asked for".to_owned())),
            b'r' if input.len() < REPLY_BYTES => Ok(Framed { consumed: 0, end: None }),
            b'r' => Ok(Framed { consumed: REPLY_BYTES, end: Some(End::Reply { settled: true, failed: false }) }),
            other => Err(PeerFault(format!("byte {other}"))),
        }
    }
}

impl Language for Toy {
    type Framer = ToyFramer;
    type Login = ToyLogin;

    const SERVER_NAMES_STATEMENTS: bool = true;

    fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    fn login(
        &self,
        _: &Address,
        _: u32,
        output: &mut Vec<u8>,
    ) -> Result<(ToyLogin, LoginStep<ToyFramer>), LoginFailure> {
        output.push(b'h');
        Ok((ToyLogin(self.in_flight_max), LoginStep::NeedsInput))
    }

    fn append_forget(_: StatementId, _: Handle, output: &mut Vec<u8>) {
        output.extend_from_slice(FORGET);
    }

    fn handle(_: &[u8]) -> Option<Handle> {
        Some(Handle(1))
    }

    fn rollback() -> Vec<u8> {
        QUERY.to_vec()
    }

    fn reset(&self, _: bool) -> Vec<Vec<u8>> {
        Vec::new()
    }

    fn farewell() -> &'static [u8] {
        b""
    }
}

impl Login for ToyLogin {
    type Framer = ToyFramer;

    fn advance(&mut self, input: &mut BytesMut, _: &mut Vec<u8>) -> Result<LoginStep<ToyFramer>, LoginFailure> {
        if input[0] == b'x' {
            let error = Arc::new(std::io::Error::other("there is no room"));
            return Err(LoginFailure { fatal: false, again: false, error });
        }
        input.advance(1);
        Ok(LoginStep::Ready { framer: ToyFramer, in_flight_max: self.0, cancel_key: None })
    }

    fn tls_started(&mut self, _: &TlsPeer, _: &mut Vec<u8>) -> Result<LoginStep<ToyFramer>, LoginFailure> {
        unreachable!("nobody asked for TLS")
    }
}

/// The server's end of a connection, behind the log-in.
pub(crate) struct Server(pub(crate) TcpStream, pub(crate) u8);

impl Server {
    /// Logs a client in; `number` says in the replies which connection they came by.
    pub(crate) fn log_in(mut stream: TcpStream, number: u8) -> Server {
        stream.set_nodelay(true).expect("a socket");
        stream.read_exact(&mut [0]).expect("the log-in");
        stream.write_all(b"k").expect("the log-in");
        Server(stream, number)
    }

    /// Turns a client away.
    pub(crate) fn refuse(mut stream: TcpStream) {
        stream.read_exact(&mut [0]).expect("the log-in");
        stream.write_all(b"x").expect("the log-in");
    }

    /// Reads commands. `false`: the client has closed.
    pub(crate) fn take(&mut self, commands: usize) -> bool {
        self.0.read_exact(&mut vec![0; COMMAND_BYTES * commands]).is_ok()
    }

    pub(crate) fn give(&mut self, replies: usize) {
        let mut reply = [b'.'; REPLY_BYTES];
        reply[..2].copy_from_slice(&[b'r', self.1]);
        self.0.write_all(&reply.repeat(replies)).expect("the client is there");
    }

    /// Answers one after the other, in the time that a slow server takes: that is what is tested here.
    pub(crate) fn give_slowly(&mut self, replies: usize, each: Duration) {
        for _ in 0..replies {
            thread::sleep(each);
            self.give(1);
        }
    }

    /// Answers whatever comes, until the client closes.
    pub(crate) fn serve(&mut self) {
        while self.take(1) {
            self.give(1);
        }
    }

    pub(crate) fn has_input(&mut self) -> bool {
        self.0.set_nonblocking(true).expect("a socket");
        let peeked = self.0.peek(&mut [0]);
        self.0.set_nonblocking(false).expect("a socket");
        !matches!(peeked, Err(error) if error.kind() == ErrorKind::WouldBlock)
    }
}

pub(crate) async fn ask_prepared(pool: Pool<Toy>, preparations: &[&Preparation]) -> Result<Answered<Toy>, Failure> {
    let encode = |out: &mut BytesMut| {
        out.extend_from_slice(QUERY);
        Ok::<(), Failure>(())
    };
    pool.run(preparations, encode).await
}

pub(crate) async fn ask(pool: Pool<Toy>) -> Result<Answered<Toy>, Failure> {
    ask_prepared(pool, &[]).await
}

pub(crate) async fn must_end<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.unwrap_or_else(|_| panic!("{what} did not end"))
}

/// A pool of so many connections, to a server that runs `script` with each of them on a thread of its own, and has room for
/// `room`.
pub(crate) fn pool_of(
    connections_max: usize,
    room: usize,
    script: impl Fn(Server) + Send + Sync + 'static,
) -> Pool<Toy> {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    let script = Arc::new(script);
    thread::spawn(move || {
        for number in 0.. {
            let Ok((stream, _)) = listener.accept() else { return };
            if number >= room {
                Server::refuse(stream);
                continue;
            }
            let script = Arc::clone(&script);
            thread::spawn(move || script(Server::log_in(stream, b'0' + number as u8)));
        }
    });
    let limits = PoolLimits { connections_max, acquire_timeout: 2 * PATIENCE, ..PoolLimits::default() };
    Pool::new(Toy::at(port, None), limits)
}

/// Asks for a lease.
pub(crate) fn lease(pool: &Pool<Toy>) -> impl Future<Output = Result<Lease<Toy>, Failure>> + Send + use<> {
    pool.lease(std::panic::Location::caller())
}
