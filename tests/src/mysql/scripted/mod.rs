//! A scripted MySQL server, for what a real one will not do: it says what a test wants it to say, byte by byte.
//!
//! ```text
//!  accept ── log-in, any password ── script(session): request() in, send(bytes) out ── close
//! ```
//!
//! Where a script does not say otherwise, the server takes every statement for one with an `int` parameter that returns
//! it as its only row ([`Session::answer`]). It runs no SQL, and checks of what the client sends only that commands begin
//! a sequence of packets. It speaks as a server does that was offered `CLIENT_DEPRECATE_EOF`, and without TLS unless the
//! script starts it.

pub mod packet;
mod request;
mod tls;

use std::collections::HashMap;
use std::io;

use cenote_mysql::Pool;

use self::packet::Greeting;
pub use self::request::{LogIn, Request};
use self::tls::Encryption;
use crate::certificates::Certified;
use crate::stage::{Peer, Stage};

/// Longer payloads come in several packets.
const PAYLOAD_BYTES_MAX: usize = 0xFF_FFFF;

/// The server. It stops listening when it is dropped, and panics then if one of its scripts did.
#[derive(Debug)]
pub struct Server {
    stage: Stage,
}

impl Server {
    /// Serves each connection, once it has logged in, by `script`. When that returns, the connection is closed.
    pub fn start(script: impl Fn(&mut Session) -> io::Result<()> + Send + Sync + 'static) -> Server {
        Server::start_raw(move |session| {
            session.log_in()?;
            script(session)
        })
    }

    /// The same, from the first byte on.
    pub fn start_raw(script: impl Fn(&mut Session) -> io::Result<()> + Send + Sync + 'static) -> Server {
        let script = move |peer: Peer| {
            let number = peer.number;
            script(&mut Session { number, peer, encryption: None, statements: 0, types: HashMap::new() })
        };
        Server { stage: Stage::open(script) }
    }

    /// Its port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.stage.address().port()
    }

    /// Its address with settings as in a URL (`pool_size=1&max_pipeline=4`).
    pub fn url(&self, settings: &str) -> String {
        format!("mysql://tester:secret@{}/scripted?{settings}", self.stage.address())
    }

    /// A pool of this server, with such settings.
    pub fn pool(&self, settings: &str) -> Pool {
        Pool::open(self.url(settings)).expect("settings of a test")
    }

    /// Connections accepted so far.
    pub fn accepted(&self) -> usize {
        self.stage.accepted()
    }
}

/// One connection, seen from the server.
#[derive(Debug)]
pub struct Session {
    /// Which connection of its server this is, from 0.
    pub number: usize,
    peer: Peer,
    /// Once there is TLS.
    encryption: Option<Encryption>,
    /// Prepared so far; the number of the newest.
    statements: u32,
    /// The type of each statement's parameter, as last told.
    types: HashMap<u32, u8>,
}

impl Session {
    /// The log-in of a user whose password the server remembers.
    pub fn log_in(&mut self) -> io::Result<()> {
        self.log_in_by(&Greeting::default()).map(drop)
    }

    /// The same, beginning with another greeting. What the client said.
    pub fn log_in_by(&mut self, greeting: &Greeting) -> io::Result<LogIn> {
        let (log_in, number) = self.greet(greeting)?;
        let fast = greeting.plugin == "caching_sha2_password" && !log_in.auth_response.is_empty();
        let mut answer = Vec::new();
        let mut number = number;
        for payload in fast.then(packet::fast_auth_ok).into_iter().chain([packet::ok(0, 0)]) {
            number = number.wrapping_add(1);
            answer.extend_from_slice(&packet::packet(number, &payload));
        }
        self.send(&answer)?;
        Ok(log_in)
    }

    /// Greets. What the client said, and the number of its packet.
    pub fn greet(&mut self, greeting: &Greeting) -> io::Result<(LogIn, u8)> {
        self.send(&packet::packet(0, &greeting.payload()))?;
        let (number, payload) = self.payload()?;
        Ok((LogIn::parse(&payload), number))
    }

    /// The client's next payload, whole, and the number of its last packet.
    pub fn payload(&mut self) -> io::Result<(u8, Vec<u8>)> {
        let mut payload = Vec::new();
        loop {
            let header = self.take_bytes(4)?;
            let length = u32::from_le_bytes([header[0], header[1], header[2], 0]) as usize;
            let number = header[3];
            payload.extend(self.take_bytes(length)?);
            if length < PAYLOAD_BYTES_MAX {
                return Ok((number, payload));
            }
        }
    }

    /// The next command of the client.
    pub fn request(&mut self) -> io::Result<Request> {
        let (number, payload) = self.payload()?;
        let packets_before = payload.len() / PAYLOAD_BYTES_MAX;
        assert_eq!(usize::from(number), packets_before % 256, "a command begins with packet 0");
        Ok(Request::parse(&payload))
    }

    /// Sends bytes, whatever they are.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.encryption {
            Some(encryption) => encryption.send(&mut self.peer, bytes),
            None => self.peer.send(bytes),
        }
    }

    /// Starts TLS, for which the client has asked, and shows this certificate.
    pub fn start_tls(&mut self, certified: &Certified) -> io::Result<()> {
        self.encryption = Some(Encryption::start(&mut self.peer, certified)?);
        Ok(())
    }

    /// Whether the client has said something that was not taken yet. Not to be asked once there is TLS, whose own
    /// messages would count.
    pub fn has_input(&mut self) -> io::Result<bool> {
        assert!(self.encryption.is_none(), "what TLS says of itself is no request");
        self.peer.has_input()
    }

    /// All that the client still says, until it closes the connection.
    pub fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        while let Ok(byte) = self.take_bytes(1) {
            rest.extend(byte);
        }
        rest
    }

    fn take_bytes(&mut self, count: usize) -> io::Result<Vec<u8>> {
        match &mut self.encryption {
            Some(encryption) => encryption.take_bytes(&mut self.peer, count),
            None => self.peer.take_bytes(count),
        }
    }

    /// Answers as a good server would, until the client closes the connection.
    pub fn serve(&mut self) -> io::Result<()> {
        self.serve_but(|_| None)
    }

    /// Answers as a good server would, but for the commands to which `other` has an answer.
    pub fn serve_but(&mut self, mut other: impl FnMut(&Request) -> Option<Vec<u8>>) -> io::Result<()> {
        loop {
            let request = self.request()?;
            if request == Request::Quit {
                return Ok(());
            }
            let good = self.answer(&request);
            self.send(&other(&request).unwrap_or(good))?;
        }
    }

    /// What a good server says to this command, where each statement returns its `int` parameter.
    ///
    /// Statements are numbered as they are prepared, from 1. A query for variables (`select @@a, @@b`) gets some values;
    /// all other text is a statement without rows.
    pub fn answer(&mut self, request: &Request) -> Vec<u8> {
        match request {
            Request::Prepare { .. } => {
                self.statements += 1;
                let first = packet::prepare_ok(self.statements, 1, 1);
                packet::packets(&[first, packet::column("?", packet::LONG), echo_column()])
            }
            Request::Execute { statement, .. } => match self.parameter(request) {
                Some(value) => echo(value),
                None => packet::packets(&[packet::error(1243, "HY000", &format!("Unknown statement {statement}"))]),
            },
            Request::Query { sql } => variables(sql).unwrap_or_else(|| packet::packets(&[packet::ok(0, 0)])),
            Request::Close { .. } | Request::LongData { .. } | Request::Quit => Vec::new(),
            Request::ResetConnection => {
                self.types.clear();
                packet::packets(&[packet::ok(0, 0)])
            }
            Request::Ping | Request::ResetStatement { .. } => packet::packets(&[packet::ok(0, 0)]),
            Request::Other { .. } => packet::packets(&[packet::error(1047, "08S01", "Unknown command")]),
        }
    }

    /// The parameter of an execution of a statement that has one integer; `None` where its type was never told.
    pub fn parameter(&mut self, request: &Request) -> Option<i32> {
        let Request::Execute { statement, parameters } = request else { return None };
        // The map of NULLs, then whether types follow.
        let [_nulls, told, rest @ ..] = parameters.as_slice() else { return None };
        let value = match (told, rest) {
            (1, [kind, _unsigned, value @ ..]) => {
                self.types.insert(*statement, *kind);
                value
            }
            (_, value) => value,
        };
        integer(*self.types.get(statement)?, value)
    }

    /// Waits until the client has closed the connection; what it says before is passed over.
    pub fn wait_for_close(&mut self) -> io::Result<()> {
        self.peer.wait_for_close()
    }

    /// Ends the connection in both directions at once, although the script goes on.
    pub fn close(&mut self) -> io::Result<()> {
        self.peer.close()
    }
}

/// The answer to an execution whose parameter is `value`.
pub fn echo(value: i32) -> Vec<u8> {
    let row = packet::binary_row(&[Some(&value.to_le_bytes())]);
    packet::packets(&[packet::column_count(1), echo_column(), row, packet::end()])
}

/// The definition of the column that [`echo`] has.
pub fn echo_column() -> Vec<u8> {
    packet::column("echo", packet::LONG)
}

/// A text result with one row: these columns and their values.
pub fn text_result(columns: &[(&str, &str)]) -> Vec<u8> {
    let mut payloads = vec![packet::column_count(columns.len())];
    payloads.extend(columns.iter().map(|(name, _)| packet::column(name, packet::VAR_STRING)));
    let values: Vec<_> = columns.iter().map(|(_, value)| Some(value.as_bytes())).collect();
    payloads.extend([packet::text_row(&values), packet::end()]);
    packet::packets(&payloads)
}

/// What drivers ask when they have logged in.
fn variables(sql: &str) -> Option<Vec<u8>> {
    let is_in_name = |letter: char| letter.is_ascii_alphanumeric() || "_.".contains(letter);
    let names: Vec<&str> = sql
        .split("@@")
        .skip(1)
        .map(|rest| rest.split(|letter| !is_in_name(letter)).next().unwrap_or_default())
        .map(|name| name.trim_start_matches("session.").trim_start_matches("global."))
        .collect();
    if names.is_empty() || !sql.trim_start().to_ascii_lowercase().starts_with("select") {
        return None;
    }
    let value = |name: &str| match name {
        "max_allowed_packet" => "67108864",
        "wait_timeout" => "28800",
        "version" => "8.4.0",
        _ => "1",
    };
    let columns: Vec<_> = names.iter().map(|name| (*name, value(name))).collect();
    Some(text_result(&columns))
}

/// An integer of this type, cut to an `int`.
fn integer(kind: u8, value: &[u8]) -> Option<i32> {
    let width = match kind {
        0x01 => 1,
        0x02 => 2,
        0x03 => 4,
        0x08 => 8,
        _ => return None,
    };
    // Sign or zero, it is the test's business to stay within what the column can hold.
    let value = value.get(..width)?;
    let mut bytes = [if value.last()? & 0x80 == 0 { 0 } else { 0xFF }; 8];
    bytes[..width].copy_from_slice(value);
    Some(i64::from_le_bytes(bytes) as i32)
}
