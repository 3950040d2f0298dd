//! The program itself: its one line, its signals, its lack of file descriptors.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Child, ChildStdout, Command, Stdio};

use crate::client::{Client, wait_until};

const PROGRAM: &str = env!("CARGO_BIN_EXE_cenote-demo");

/// The demo as a process, killed at the end of its test.
struct Demo {
    child: Child,
    output: BufReader<ChildStdout>,
    address: SocketAddr,
}

impl Demo {
    fn start(command: &mut Command) -> Demo {
        command.env("PORT", "0").env_remove("POSTGRES_URL").env_remove("MYSQL_URL").env_remove("DATABASE_URL");
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the demo starts");
        let mut output = BufReader::new(child.stdout.take().expect("its output"));
        let mut line = String::new();
        output.read_line(&mut line).expect("a line");
        let address = line.trim_end().strip_prefix("http://").and_then(|address| address.parse().ok());
        let address = address.unwrap_or_else(|| panic!("the line is {line:?}"));
        Demo { child, output, address }
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args([format!("-{name}"), pid]).status().expect("kill");
        assert!(sent.success(), "kill -{name}");
    }

    /// Waits for its end; gives its exit status and what it has printed after the first line.
    fn end(mut self) -> (Option<i32>, String) {
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).expect("text");
        let status = self.child.wait().expect("it ends");
        (status.code(), rest)
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn it_says_where_it_is_and_stops_on_either_signal() {
    for signal in ["TERM", "INT"] {
        let demo = Demo::start(&mut Command::new(PROGRAM));
        let mut client = Client::connect(demo.address);
        client.get("/json");
        assert_eq!(client.answer().body, r#"{"message":"Hello, World!"}"#);
        demo.signal(signal);
        client.assert_closed();
        let said = "no database: set POSTGRES_URL, MYSQL_URL or both\n".to_owned();
        assert_eq!(demo.end(), (Some(0), said), "SIG{signal}: a good end and nothing more said");
    }
}

#[test]
fn a_signal_lets_a_request_finish_and_the_second_does_not() {
    let head = "POST /json HTTP/1.1\r\nhost: x\r\ncontent-length: 4\r\n\r\n";
    let demo = Demo::start(&mut Command::new(PROGRAM));
    let mut finishing = Client::connect(demo.address);
    finishing.send(head);
    let mut cut = Client::connect(demo.address);
    cut.send(head);
    // The requests have been read once this one, which counts them, says so.
    wait_until("the requests to be in flight", || {
        let mut client = Client::connect(demo.address);
        client.get("/metrics");
        let received = "cenote_http_responses_total{class=\"2xx\"} ";
        let page = client.answer().body;
        let number = |name: &str| -> u64 {
            let value = page.lines().find_map(|line| line.strip_prefix(name));
            value.and_then(|value| value.parse().ok()).expect("a number")
        };
        number("cenote_http_requests_total ") == number(received) + 3
    });
    demo.signal("TERM");
    wait_until("the port to be closed", || std::net::TcpStream::connect(demo.address).is_err());
    finishing.send("true");
    let answer = finishing.answer();
    assert_eq!((answer.body.as_str(), answer.closes()), ("true", true));
    demo.signal("TERM");
    cut.wait_for_end();
    assert_eq!(demo.end().0, Some(0));
}

#[test]
fn a_port_that_is_taken_or_none_is_an_error_in_words() {
    let demo = Demo::start(&mut Command::new(PROGRAM));
    for (port, words) in [(demo.address.port().to_string(), "in use"), ("none".into(), "PORT")] {
        let ended = Command::new(PROGRAM).env("PORT", port).output().expect("it ends by itself");
        assert_eq!(ended.status.code(), Some(1));
        assert_eq!(ended.stdout, b"");
        let said = String::from_utf8(ended.stderr).expect("text");
        assert!(said.starts_with("cenote-demo: ") && said.contains(words), "{said:?}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn it_outlives_a_lack_of_file_descriptors() {
    let demo = Demo::start(Command::new("sh").args(["-c", "ulimit -n 40; exec \"$0\"", PROGRAM]));
    let mut first = Client::connect(demo.address);
    first.get("/");
    assert_eq!(first.answer().status, 200, "it has its descriptor");
    let others: Vec<Client> = (0..60).map(|_| Client::connect(demo.address)).collect();
    let errors = |client: &mut Client| -> u64 {
        client.get("/metrics");
        let page = client.answer().body;
        let line = page.lines().find_map(|line| line.strip_prefix("cenote_http_accept_errors_total "));
        line.and_then(|value| value.parse().ok()).expect("a number")
    };
    let client = std::cell::RefCell::new(&mut first);
    wait_until("accepting to fail", || errors(&mut client.borrow_mut()) > 0);
    let before = errors(&mut client.borrow_mut());
    let turns = 200;
    for _ in 0..turns {
        errors(&mut client.borrow_mut());
    }
    // A loop that spins on the error would fail many times in each of these turns.
    let failed = errors(&mut client.borrow_mut()) - before;
    assert!(failed < turns, "{failed} failures to accept in {turns} requests");
    drop(others);
    let mut late = Client::connect(demo.address);
    late.get("/user/9");
    assert_eq!(late.answer().body, "9");
}
