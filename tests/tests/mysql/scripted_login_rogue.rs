//! Log-ins with servers that break the protocol or ask for what they must not have: the connection is closed, nothing that
//! is worth something was said, and the caller hears what is wrong.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use cenote_mysql::{Error, Pool};
use cenote_tests::mysql::scripted::packet::{self, Greeting};
use cenote_tests::mysql::scripted::{Server, Session, text_result};
use cenote_tests::{must_end, wait_until};

async fn echo(pool: &Pool, value: i32) -> Result<i32, Error> {
    pool.query_one("select ?", &[&value]).await?.get(0)
}

type Script = fn(&mut Session) -> io::Result<()>;

/// Greets as most servers do. The number of the client's packet.
fn greet(session: &mut Session) -> io::Result<u8> {
    Ok(session.greet(&Greeting::default())?.1)
}

#[tokio::test]
async fn what_a_server_asks_for_that_it_must_not_have_ends_the_log_in() {
    let cases: [(&str, Script, &str); 9] = [
        (
            "a file in answer to the log-in",
            |session| {
                let number = greet(session)?;
                session.send(&packet::next(number, &packet::local_infile("/etc/passwd")))?;
                assert_eq!(session.rest(), b"", "something was said to a server that asks for files");
                Ok(())
            },
            "asks for a file",
        ),
        (
            "a file in the place of the greeting",
            |session| {
                session.send(&packet::packet(0, &packet::local_infile("/etc/passwd")))?;
                assert_eq!(session.rest(), b"", "something was said to a server that asks for files");
                Ok(())
            },
            "asks for a file",
        ),
        (
            "a file in answer to SET",
            |session| {
                session.log_in()?;
                session.request()?;
                session.request()?;
                session.send(&packet::packets(&[packet::local_infile("/etc/passwd")]))?;
                assert_eq!(session.rest(), b"", "something was said to a server that asks for files");
                Ok(())
            },
            "asks for a file",
        ),
        (
            "a file in answer to SELECT",
            |session| {
                session.log_in()?;
                session.request()?;
                session.request()?;
                session.send(&packet::packets(&[packet::ok(0, 0)]))?;
                session.send(&packet::packets(&[packet::local_infile("/etc/passwd")]))?;
                assert_eq!(session.rest(), b"", "something was said to a server that asks for files");
                Ok(())
            },
            "asks for a file",
        ),
        (
            "another plugin, twice",
            |session| {
                let number = greet(session)?;
                let switch = packet::auth_switch("mysql_native_password", b"ABCDEFGHIJKLMNOPQRST");
                session.send(&packet::next(number, &switch))?;
                let (number, _) = session.payload()?;
                session.send(&packet::next(number, &switch))?;
                assert_eq!(session.rest(), b"");
                Ok(())
            },
            "change of the authentication plugin that is not due",
        ),
        (
            "a nonce of one byte",
            |session| {
                let number = greet(session)?;
                session.send(&packet::next(number, b"\xfemysql_native_password\0x\0"))?;
                assert_eq!(session.rest(), b"");
                Ok(())
            },
            "challenge that has not 20 bytes",
        ),
        (
            "an OK in the place of the greeting",
            |session| {
                session.send(&packet::packet(0, &packet::ok(0, 0)))?;
                assert_eq!(session.rest(), b"");
                Ok(())
            },
            "is this a MySQL server?",
        ),
        (
            "an empty packet",
            |session| {
                let number = greet(session)?;
                session.send(&packet::next(number, b""))?;
                assert_eq!(session.rest(), b"");
                Ok(())
            },
            "an empty packet",
        ),
        (
            "a number that is not due",
            |session| {
                let number = greet(session)?;
                session.send(&packet::next(number.wrapping_add(5), &packet::ok(0, 0)))?;
                assert_eq!(session.rest(), b"");
                Ok(())
            },
            "protocol broken at log-in",
        ),
    ];
    for (name, script, words) in cases {
        let ended = Ended::default();
        let server = {
            let ended = ended.clone();
            Server::start_raw(move |session| ended.tell(|| script(session)))
        };
        // Without a probe, so that it is not taken for what does not pipeline.
        let pool = server.pool("pool_size=1&pipeline=on&acquire_timeout=300ms");
        let error = must_end(name, echo(&pool, 1)).await.expect_err(name);
        let text = error.to_string();
        assert!(words.split('|').any(|words| text.contains(words)), "{name}: {text}");
        assert_eq!(error.was_sent(), Some(false), "{name}: {error}");
        ended.wait(name).await;
    }
}

/// Whether a script has come to its end: one that has panicked by then fails its test.
#[derive(Clone, Default)]
struct Ended(Arc<AtomicUsize>);

impl Ended {
    fn tell<T>(&self, script: impl FnOnce() -> T) -> T {
        let output = script();
        self.0.fetch_add(1, Ordering::SeqCst);
        output
    }

    async fn wait(&self, name: &str) {
        let ended = async || self.0.load(Ordering::SeqCst) > 0;
        wait_until(&format!("the script ends: {name}"), ended).await;
    }
}

/// What would have to be let through is more than any log-in needs.
#[tokio::test]
async fn a_log_in_without_end_ends() {
    let endless: [(&str, Script); 3] = [
        ("authentication data", |session| {
            let mut number = greet(session)?;
            loop {
                session.send(&packet::next(number, &packet::fast_auth_ok()))?;
                number = number.wrapping_add(1);
            }
        }),
        ("variables", |session| {
            session.log_in()?;
            session.request()?;
            session.request()?;
            session.send(&packet::packets(&[packet::ok(0, 0)]))?;
            session.send(&packet::packet(1, &packet::column_count(2)))?;
            for number in (2..=255).chain(0..=255).cycle() {
                session.send(&packet::packet(number, &packet::column("a", packet::VAR_STRING)))?;
            }
            Ok(())
        }),
        ("a packet", |session| {
            let number = greet(session)?;
            session.send(&packet::lying(number.wrapping_add(1), 60_000, b""))?;
            loop {
                session.send(&[1])?;
            }
        }),
    ];
    for (name, script) in endless {
        let server = Server::start_raw(script);
        let pool = server.pool("pool_size=1&pipeline=on&connect_timeout=1h&acquire_timeout=500ms");
        let error = must_end(name, echo(&pool, 1)).await.expect_err(name);
        assert!(error.to_string().contains("protocol broken at log-in"), "{name}: {error}");
    }
}

/// Whatever is cut off, wherever: an error that says so, within the time.
#[tokio::test]
async fn a_log_in_cut_off_anywhere_is_an_error() {
    let whole = {
        let number = 1;
        let greeting = packet::packet(0, &Greeting::default().payload());
        let let_in =
            [packet::next(number, &packet::fast_auth_ok()), packet::next(number + 1, &packet::ok(0, 0))].concat();
        let settled = packet::packets(&[packet::ok(0, 0)]);
        let told = text_result(&[("a", "67108864"), ("b", "28800")]);
        [greeting, let_in, [settled, told].concat()]
    };
    let length: usize = whole.iter().map(Vec::len).sum();
    for cut in 0..length {
        let whole = whole.clone();
        let server = Server::start_raw(move |session| {
            let mut left = cut;
            for flight in &whole {
                let (sent, rest) = flight.split_at(left.min(flight.len()));
                session.send(sent)?;
                left -= sent.len();
                if !rest.is_empty() {
                    return Ok(());
                }
                session.payload()?;
            }
            unreachable!("something is cut off")
        });
        let pool = server.pool("pool_size=1&pipeline=off&acquire_timeout=1ms");
        let error = must_end("a log-in cut off", echo(&pool, 1)).await.expect_err("it is cut off");
        assert!(error.is_timeout() && error.was_sent() == Some(false), "cut at {cut}: {error}");
        // Given up for the time, so that the failure can be told of the next.
        let failed = async || pool.stats().connect_failures > 0;
        wait_until(&format!("the log-in that is cut at {cut} fails"), failed).await;
    }
}
