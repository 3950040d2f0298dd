//! A client that sends what it is told, byte for byte, and a server to send it to.

use std::future::Future;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

use cenote_http::{Builder, Request, Response, Running, Server, Stats};

/// Far beyond what anything here takes, even on a busy machine: it ends a test that waits in vain.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running server, stopped at the end of its test.
pub(crate) struct Served(Option<Running>);

/// A server with one thread on a free port.
pub(crate) fn builder() -> Builder {
    Server::builder().address("127.0.0.1:0").threads(1)
}

/// Serves with one closure on all threads.
pub(crate) fn serve<F, A>(builder: Builder, handler: F) -> Served
where
    F: Fn(Request) -> A + Clone + Send + Sync + 'static,
    A: Future<Output = Response> + 'static,
{
    let server = builder.bind().expect("a free port");
    Served::new(server.start(move |_| handler.clone()).expect("threads"))
}

impl Served {
    pub(crate) fn new(running: Running) -> Served {
        Served(Some(running))
    }

    pub(crate) fn running(&self) -> &Running {
        self.0.as_ref().expect("not joined yet")
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.running().address()
    }

    pub(crate) fn stats(&self) -> Stats {
        self.running().stats().snapshot()
    }

    pub(crate) fn connect(&self) -> Client {
        Client::connect(self.address())
    }

    /// Waits until the counters are as the test needs them.
    pub(crate) fn wait_for(&self, what: &str, is_so: impl Fn(&Stats) -> bool) {
        wait_until(&format!("{what} in {:?}", self.stats()), || is_so(&self.stats()));
    }

    /// Waits until the server has closed its port, which it does early in a stop.
    pub(crate) fn wait_until_refused(&self) {
        let address = self.address();
        wait_until("connects to be refused", || match TcpStream::connect(address) {
            Err(error) => error.kind() == ErrorKind::ConnectionRefused,
            Ok(_) => false,
        });
    }

    pub(crate) fn join(mut self) -> std::io::Result<()> {
        self.0.take().expect("not joined yet").join()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if let Some(running) = self.0.take() {
            running.stop().stop_now();
            let ended = running.join();
            if !thread::panicking() {
                ended.expect("the server's threads end well");
            }
        }
    }
}

/// Asks again and again, with pauses, until it is so.
pub(crate) fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let pause = Duration::from_millis(2);
    for _ in 0..PATIENCE.as_millis() / pause.as_millis() {
        if is_so() {
            return;
        }
        thread::sleep(pause);
    }
    panic!("waited in vain for {what}");
}

/// One connection.
pub(crate) struct Client {
    stream: TcpStream,
    unread: Vec<u8>,
}

/// An answer as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    /// The value of a header, whose name is in lower case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().skip(1);
        let mut fields = lines.filter_map(|line| line.split_once(": "));
        fields.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    pub(crate) fn closes(&self) -> bool {
        self.header("connection") == Some("close")
    }
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).expect("connect");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream.set_write_timeout(Some(PATIENCE)).expect("a timeout");
        stream.set_nodelay(true).expect("no delay");
        Client { stream, unread: Vec::new() }
    }

    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).expect("the server takes the bytes");
    }

    /// Sends what may meet a server that has closed already.
    pub(crate) fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> std::io::Result<()> {
        self.stream.write_all(bytes.as_ref())
    }

    /// Sends a GET request.
    pub(crate) fn get(&mut self, target: &str) {
        self.send(format!("GET {target} HTTP/1.1\r\nhost: test\r\n\r\n"));
    }

    /// Sends a POST request with a body.
    pub(crate) fn post(&mut self, target: &str, body: &str) {
        let length = body.len();
        let head = format!("POST {target} HTTP/1.1\r\nhost: test\r\ncontent-length: {length}\r\n\r\n");
        self.send(head + body);
    }

    /// The next answer, whose head tells the length of its body.
    #[track_caller]
    pub(crate) fn answer(&mut self) -> Answer {
        self.answer_of("GET")
    }

    /// The next answer, to a request with this method.
    #[track_caller]
    pub(crate) fn answer_of(&mut self, method: &str) -> Answer {
        let end = loop {
            if let Some(end) = self.unread.windows(4).position(|window| window == b"\r\n\r\n") {
                break end + 4;
            }
            assert!(self.fill() > 0, "closed instead of an answer; so far {:?}", self.unread_text());
        };
        let head: Vec<u8> = self.unread.drain(..end).collect();
        let head = String::from_utf8(head).expect("a head of text");
        let status = head.get(9..12).and_then(|status| status.parse().ok());
        let status = status.unwrap_or_else(|| panic!("no status in {head:?}"));
        let mut answer = Answer { status, head, body: String::new() };
        let length: usize = match answer.header("content-length") {
            Some(length) if method != "HEAD" => length.parse().expect("a length"),
            _ => 0,
        };
        while self.unread.len() < length {
            assert!(self.fill() > 0, "closed in the body of {answer:?}: {:?}", self.unread_text());
        }
        let body = self.unread.drain(..length).collect();
        answer.body = String::from_utf8(body).expect("a body of text");
        answer
    }

    /// Waits for the end of the connection; nothing more may come before it.
    #[track_caller]
    pub(crate) fn assert_closed(&mut self) {
        let bytes = self.fill();
        assert_eq!(bytes, 0, "instead of the end came {:?}", self.unread_text());
    }

    /// Waits for the end of the connection in whatever way, a reset included.
    pub(crate) fn wait_for_end(&mut self) {
        let mut chunk = [0; 4096];
        while matches!(self.stream.read(&mut chunk), Ok(bytes) if bytes > 0) {}
    }

    /// Tells the server that no more will come.
    pub(crate) fn end_sending(&mut self) {
        self.stream.shutdown(Shutdown::Write).expect("half a close");
    }

    #[track_caller]
    fn fill(&mut self) -> usize {
        let mut chunk = [0; 16 * 1024];
        let bytes = match self.stream.read(&mut chunk) {
            Ok(bytes) => bytes,
            Err(error) => panic!("read: {error}; so far {:?}", self.unread_text()),
        };
        self.unread.extend_from_slice(&chunk[..bytes]);
        bytes
    }

    fn unread_text(&self) -> String {
        String::from_utf8_lossy(&self.unread).chars().take(400).collect()
    }
}
