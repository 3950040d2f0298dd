//! A scripted Postgres server, for what a real one will not do: it says what a test wants it to say, byte by byte.
//!
//! ```text
//!  accept ── log-in as trust ── script(session): requests() in, send(bytes) out ── close
//! ```
//!
//! Where a script does not say otherwise, the server takes every statement for one with an
//! `int4` parameter that returns it as its only row ([`answer`]). It runs no SQL and checks nothing that the client sends
//! beyond what it needs for that.

pub mod message;

use std::io;

use cenote_postgres::Pool;

use crate::stage::{Peer, Stage};

/// The type of the parameter and of the column of the statements that [`answer`] knows.
pub const INT4: u32 = 23;

/// A message of the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// `Parse`.
    Parse {
        /// The statement's name.
        name: String,
        /// Its text.
        sql: String,
    },
    /// `Describe` of a statement (`b'S'`) or portal (`b'P'`).
    Describe {
        /// Of which kind.
        kind: u8,
    },
    /// `Bind`.
    Bind {
        /// The statement's name.
        statement: String,
        /// The values.
        values: Vec<Option<Vec<u8>>>,
    },
    /// `Execute`.
    Execute,
    /// `Close` of a statement.
    Close {
        /// Its name.
        name: String,
    },
    /// `Sync`.
    Sync,
    /// `Terminate`.
    Terminate,
}

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
        Server { stage: Stage::open(move |peer| script(&mut Session { number: peer.number, peer })) }
    }

    /// A pool of this server, with settings as in a URL (`pool_size=1&max_pipeline=4`).
    pub fn pool(&self, settings: &str) -> Pool {
        Pool::open(format!("postgres://tester@{}/scripted?sslmode=disable&{settings}", self.stage.address()))
            .expect("settings of a test")
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
}

impl Session {
    /// The log-in of a user who is trusted.
    pub fn log_in(&mut self) -> io::Result<()> {
        self.start_up()?;
        self.send(&greeting())
    }

    /// Reads the client's first message.
    pub fn start_up(&mut self) -> io::Result<()> {
        let length = u32::from_be_bytes(self.peer.take::<4>()?) as usize;
        self.peer.take_bytes(length - 4).map(drop)
    }

    /// The next message of the client.
    pub fn request(&mut self) -> io::Result<Request> {
        let [tag] = self.peer.take()?;
        let length = u32::from_be_bytes(self.peer.take()?) as usize;
        let body = self.peer.take_bytes(length - 4)?;
        Ok(parse(tag, &body))
    }

    /// The client's next messages up to a Sync, or `Terminate` alone.
    pub fn requests(&mut self) -> io::Result<Vec<Request>> {
        let mut requests = Vec::new();
        loop {
            requests.push(self.request()?);
            if let Some(Request::Sync | Request::Terminate) = requests.last() {
                return Ok(requests);
            }
        }
    }

    /// Sends bytes, whatever they are.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.peer.send(bytes)
    }

    /// Answers as a good server would, until the client closes the connection.
    pub fn serve(&mut self) -> io::Result<()> {
        self.serve_but(|_| None)
    }

    /// Answers as a good server would, but for the messages to which `other` has an answer.
    pub fn serve_but(&mut self, mut other: impl FnMut(&Request) -> Option<Vec<u8>>) -> io::Result<()> {
        loop {
            let requests = self.requests()?;
            if requests == [Request::Terminate] {
                return Ok(());
            }
            self.send(&answer_but(&requests, &mut other))?;
        }
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

/// What a good server says to a trusted user's start-up message.
pub fn greeting() -> Vec<u8> {
    [
        message::authentication_ok(),
        message::parameter_status("server_version", "18.0"),
        message::parameter_status("client_encoding", "UTF8"),
        message::backend_key_data(4711, b"key!"),
        message::ready(b'I'),
    ]
    .concat()
}

/// What a good server says to these messages, where each statement returns its `int4` parameter.
pub fn answer(requests: &[Request]) -> Vec<u8> {
    answers(requests).concat()
}

/// The same, but for the messages to which `other` has an answer.
pub fn answer_but(requests: &[Request], mut other: impl FnMut(&Request) -> Option<Vec<u8>>) -> Vec<u8> {
    let good = answers(requests).into_iter().zip(requests);
    good.map(|(answer, request)| other(request).unwrap_or(answer)).collect::<Vec<_>>().concat()
}

/// What a good server says to each of these messages.
pub fn answers(requests: &[Request]) -> Vec<Vec<u8>> {
    let mut value = None;
    let answer = |request: &Request| match request {
        Request::Parse { .. } => message::parse_complete(),
        Request::Describe { kind: b'S' } => [message::parameter_description(&[INT4]), echo_column()].concat(),
        Request::Describe { .. } => echo_column(),
        Request::Bind { values, .. } => {
            value = values.first().cloned().flatten();
            message::bind_complete()
        }
        Request::Execute => [message::data_row(&[value.as_deref()]), message::command_complete("SELECT 1")].concat(),
        Request::Close { .. } => message::close_complete(),
        Request::Sync => message::ready(b'I'),
        Request::Terminate => Vec::new(),
    };
    requests.iter().map(answer).collect()
}

/// What a good server says to these messages when the first of those that `fails` names is refused with `error`: it passes
/// over the others up to the Sync.
pub fn refuse(requests: &[Request], error: &[u8], fails: impl Fn(&Request) -> bool) -> Vec<u8> {
    let mut failed = false;
    answer_but(requests, |request| match request {
        Request::Sync => None,
        _ if failed => Some(Vec::new()),
        request if fails(request) => {
            failed = true;
            Some(error.to_vec())
        }
        _ => None,
    })
}

/// The description of the column that [`answer`] returns.
pub fn echo_column() -> Vec<u8> {
    message::row_description(&[("echo", INT4)])
}

fn parse(tag: u8, body: &[u8]) -> Request {
    let mut body = Body(body);
    match tag {
        b'P' => Request::Parse { name: body.text(), sql: body.text() },
        b'D' => Request::Describe { kind: body.take(1)[0] },
        b'B' => {
            let _portal = body.text();
            let statement = body.text();
            for _ in 0..body.u16() {
                body.u16();
            }
            let values = (0..body.u16()).map(|_| body.value()).collect();
            Request::Bind { statement, values }
        }
        b'E' => Request::Execute,
        b'C' => {
            assert_eq!(body.take(1), b"S", "only statements are closed");
            Request::Close { name: body.text() }
        }
        b'S' => Request::Sync,
        b'X' => Request::Terminate,
        tag => panic!("the client sent a message of type {:?}", tag as char),
    }
}

/// Reads the client's messages; what it cannot read is the client's fault and fails the test.
struct Body<'a>(&'a [u8]);

impl<'a> Body<'a> {
    fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count);
        self.0 = rest;
        taken
    }

    fn text(&mut self) -> String {
        let end = self.0.iter().position(|&byte| byte == 0).expect("a text ends");
        let text = self.take(end);
        self.take(1);
        String::from_utf8(text.to_vec()).expect("a text is UTF-8")
    }

    fn u16(&mut self) -> u16 {
        u16::from_be_bytes(self.take(2).try_into().expect("two bytes"))
    }

    fn value(&mut self) -> Option<Vec<u8>> {
        let length = i32::from_be_bytes(self.take(4).try_into().expect("four bytes"));
        usize::try_from(length).ok().map(|length| self.take(length).to_vec())
    }
}
