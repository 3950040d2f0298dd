//! Replies that no MySQL server should send: each is an error of the caller whose reply it is, in clear words; nothing
//! panics, nothing hangs, and the next query works, on the same connection where the stream is still in step and on a new
//! one where it is not.

use cenote_mysql::{Error, ErrorCode, Pool};
use cenote_tests::must_end;
use cenote_tests::mysql::scripted::{Request, Server, echo, echo_column, packet};

/// Which reply a server spoils.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    /// The one to a preparation.
    Preparing,
    /// The one with rows.
    Running,
}

use Moment::{Preparing, Running};

/// What becomes of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Connection {
    Stays,
    Ends,
}

use Connection::{Ends, Stays};

/// A server that spoils the first reply of this kind on its first connection, and is good from there on.
fn spoiling(moment: Moment, reply: Vec<u8>) -> Server {
    Server::start(move |session| {
        let mut spoiled = (session.number == 0).then(|| reply.clone());
        session.serve_but(|request| match (request, moment) {
            (Request::Prepare { .. }, Preparing) | (Request::Execute { .. }, Running) => spoiled.take(),
            _ => None,
        })
    })
}

/// The pool serves again.
async fn assert_serves(name: &str, pool: &Pool) {
    let next = must_end(&format!("the query after {name}"), pool.query_one("select ?", &[&8])).await;
    let next = next.unwrap_or_else(|error| panic!("the query after {name}: {error}"));
    assert_eq!(next.get::<_, i32>(0).unwrap(), 8, "the query after {name}");
    assert_eq!(pool.stats().in_flight(), 0, "in flight after {name}");
}

/// Asks a server that spoils the first reply of this kind, and then one that is good. The error of the first.
async fn ask(name: &str, moment: Moment, reply: Vec<u8>, connection: Connection) -> Error {
    let server = spoiling(moment, reply);
    let pool = server.pool("pool_size=1");
    let error = must_end(name, pool.query("select ?", &[&7])).await.expect_err(name);
    assert_serves(name, &pool).await;
    assert_eq!(server.accepted(), if connection == Ends { 2 } else { 1 }, "connections at {name}");
    assert_eq!(pool.stats().connections_lost, u64::from(connection == Ends), "connections lost at {name}");
    error
}

/// A reply with these packets.
fn reply(payloads: &[&[u8]]) -> Vec<u8> {
    packet::packets(&payloads.iter().map(|payload| payload.to_vec()).collect::<Vec<_>>())
}

/// The beginning of a result with one column.
fn begun() -> [Vec<u8>; 2] {
    [packet::column_count(1), echo_column()]
}

/// A result with this in the place of its rows.
fn rows(rows: &[&[u8]]) -> Vec<u8> {
    let [count, column] = begun();
    let end = packet::end();
    reply(&[&[count.as_slice(), &column], rows, &[end.as_slice()]].concat())
}

/// A row with the value 7.
const ROW: &[u8] = &[0, 0, 7, 0, 0, 0];

#[tokio::test]
async fn what_breaks_the_stream_costs_the_connection() {
    let ok = packet::ok(0, 0);
    let [count, column] = begun();
    let cases = [
        ("a demand for a file", reply(&[b"\xfb/etc/passwd"]), "asks for a file"),
        ("a demand for a file without a name", reply(&[b"\xfb"]), "asks for a file"),
        ("an empty packet", reply(&[b""]), "not due"),
        ("an empty packet for a column", reply(&[&count, b""]), "not due"),
        ("an empty packet for a row", reply(&[&count, &column, b""]), "not due"),
        ("65,536 columns", reply(&[b"\xfd\0\0\x01"]), "a number of columns"),
        ("2^63 columns", reply(&[b"\xfe\0\0\0\0\0\0\0\x80"]), "a number of columns"),
        ("no column in a long form", reply(&[b"\xfc\0\0"]), "a number of columns"),
        ("a column of 16 MiB", [reply(&[&count]), packet::lying(2, 0xFF_FFFF, &[1; 64])].concat(), "16 MiB"),
        ("an end where a result begins", reply(&[&packet::end()]), "a number of columns"),
        ("an OK without a status", reply(&[b"\0\0\0"]), "an OK packet that cannot be read"),
        ("an end without a status", reply(&[&count, &column, b"\xfe\0\0"]), "an OK packet that cannot be read"),
        ("a number of 200", packet::packet(200, &ok), "number 200"),
        ("a number of 0", packet::packet(0, &ok), "number 0"),
        ("a number twice", [reply(&[&count]), packet::packet(1, &column)].concat(), "number 1 where 2 is due"),
        ("a number left out", [reply(&[&count]), packet::packet(3, &column)].concat(), "number 3 where 2 is due"),
        ("an error out of order", packet::packet(200, &packet::error(1064, "42000", "no")), "number 200"),
    ];
    for (name, reply, words) in cases {
        let error = ask(name, Running, reply, Ends).await;
        assert!(error.is_network() && error.is_peer(), "{name}: {error}");
        assert_eq!(error.was_sent(), Some(true), "{name}: {error}");
        let text = error.to_string();
        assert!(text.contains("the server broke the protocol") && text.contains(words), "{name}: {text}");
    }
}

/// Nothing of the statement has run then, so it is prepared elsewhere; but not for ever.
#[tokio::test]
async fn what_breaks_the_stream_at_a_preparation_costs_the_connection_alone() {
    let cases = [
        ("a demand for a file", reply(&[b"\xfb/etc/passwd"]), "asks for a file"),
        ("an empty packet", reply(&[b""]), "not due"),
        ("no counts", reply(&[b"\0\x01\0\0\0\x01"]), "a preparation that cannot be read"),
        ("a result", echo(7), "not due"),
        ("an end", reply(&[&packet::end()]), "not due"),
    ];
    for (name, reply, words) in cases {
        let server = spoiling(Preparing, reply.clone());
        let pool = server.pool("pool_size=1");
        let outcome = must_end(name, pool.query_one("select ?", &[&7])).await;
        let row = outcome.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(row.get::<_, i32>(0).unwrap(), 7, "{name}");
        assert_eq!((server.accepted(), pool.stats().connections_lost), (2, 1), "{name}");
        let server = Server::start(move |session| {
            session.serve_but(|request| matches!(request, Request::Prepare { .. }).then(|| reply.clone()))
        });
        let pool = server.pool("pool_size=1&acquire_timeout=1h");
        let error = must_end(name, pool.query_one("select ?", &[&7])).await.expect_err(name);
        assert!(error.is_network() && error.is_peer() && error.was_sent() == Some(false), "{name}: {error}");
        assert!(error.to_string().contains(words), "{name}: {error}");
        assert!(server.accepted() <= 10, "{name}: {} connections", server.accepted());
    }
}

#[tokio::test]
async fn what_breaks_one_reply_is_its_callers_error_alone() {
    let [count, column] = begun();
    let end = packet::end();
    let result = |column: &[u8]| reply(&[&count, column, ROW, &end]);
    let more = packet::ok_with(0xFE, 0, 0, packet::AUTOCOMMIT | packet::MORE_RESULTS, b"");
    let cases = [
        ("a row cut off in its map", rows(&[b"\0"]), true),
        ("a row cut off in a value", rows(&[&ROW[..4]]), true),
        ("a row without values", rows(&[&ROW[..2]]), true),
        ("bytes behind the values", rows(&[&[ROW, b"x"].concat()]), true),
        ("a row of a text result", rows(&[b"\x017"]), true),
        ("a spoiled row among good ones", rows(&[ROW, &ROW[..3], ROW]), true),
        ("a column cut off", result(&column[..9]), true),
        ("a column of one byte", result(b"x"), true),
        ("a column whose name is longer than all of it", result(b"\x03def\0\0\0\xfc\xff\xff"), true),
        ("several results", reply(&[&count, &column, ROW, &more, &packet::ok(0, 0)]), false),
    ];
    for (name, reply, by_peer) in cases {
        let error = ask(name, Running, reply, Stays).await;
        assert!(if by_peer { error.is_peer() } else { error.is_caller() }, "{name}: {error}");
        assert!(!error.is_network() && error.was_sent().is_none(), "{name}: {error}");
    }
}

/// In the middle of rows, in their place, and where there is no SQLSTATE: the server's own words.
#[tokio::test]
async fn errors_are_errors_of_the_server_wherever_they_come() {
    let [count, column] = begun();
    let cases: [(&str, Vec<u8>); 6] = [
        ("an error", packet::error(1317, "70100", "Query execution was interrupted")),
        ("an error without a state", packet::error_without_state(1317, "Query execution was interrupted")),
        ("an error with half a state", packet::error_without_state(1317, "#70")),
        ("an error that is not text", [b"\xff\x25\x05#70100".as_slice(), &[0xf0, 0x28, 0x8c]].concat()),
        ("an error without words", b"\xff\x25\x05".to_vec()),
        ("an error of 100 kB", packet::error(1317, "70100", &"e".repeat(100_000))),
    ];
    for (name, error) in cases {
        for (place, moment, reply) in [
            ("at the beginning", Running, reply(&[&error])),
            ("at a preparation", Preparing, reply(&[&error])),
            ("in the place of a column", Running, reply(&[&count, &error])),
            ("in the place of a row", Running, reply(&[&count, &column, &error])),
            ("behind a row", Running, reply(&[&count, &column, ROW, &error])),
        ] {
            let name = format!("{name} {place}");
            let error = ask(&name, moment, reply, Stays).await;
            assert!(error.is_server() || place == "in the place of a column" && error.is_peer(), "{name}: {error}");
            if error.is_server() {
                assert_eq!(error.code().map(ErrorCode::number), Some(1317), "{name}: {error}");
            }
        }
    }
    // Without even a code.
    for cut in [&b"\xff"[..], b"\xff\x25"] {
        let error = ask("an error cut off", Running, reply(&[cut]), Stays).await;
        assert!(error.is_server(), "{error}");
    }
}

/// An error under number 0 answers nothing: it is the server's farewell.
#[tokio::test]
async fn last_words_are_told_to_who_is_in_flight() {
    let farewell = packet::packet(0, &packet::error(1053, "08S01", "Server shutdown in progress"));
    for (name, before) in [
        ("in the place of a reply", vec![]),
        ("in the middle of one", reply(&[&packet::column_count(1), &echo_column(), ROW])),
    ] {
        let error = ask(name, Running, [before, farewell.clone()].concat(), Ends).await;
        assert!(error.is_network() && error.was_sent() == Some(true), "{name}: {error}");
        assert_eq!(error.code().map(ErrorCode::number), Some(1053), "{name}: {error}");
        assert!(error.to_string().contains("Server shutdown in progress"), "{name}: {error}");
    }
}

/// MariaDB reports progress to those who ask for it, which is nobody here. Who does it unasked is not misunderstood: the
/// report is told as the error that it looks like, and nobody gets another's answer.
#[tokio::test]
async fn a_progress_report_is_nobodys_answer() {
    let report = [b"\xff\xff\xff\x01\x01\x02\0\0\0".as_slice(), &packet::lenenc_bytes(b"copying")].concat();
    let [count, column] = begun();
    let spoiled = reply(&[&report, &count, &column, ROW, &packet::end()]);
    let error = ask("a progress report", Running, spoiled, Ends).await;
    assert_eq!(error.code().map(ErrorCode::number), Some(0xFFFF), "{error}");
}

#[tokio::test]
async fn a_session_that_is_left_unsettled_is_not_shared_any_further() {
    for (name, status) in [("autocommit off", 0), ("a transaction", packet::AUTOCOMMIT | packet::IN_TRANSACTION)] {
        for header in [0x00, 0xFE] {
            let end = packet::ok_with(header, 0, 0, status, b"");
            let [count, column] = begun();
            let reply = match header {
                0x00 => reply(&[&end]),
                _ => reply(&[&count, &column, ROW, &end]),
            };
            let error = ask(name, Running, reply, Ends).await;
            assert!(error.is_caller() && error.to_string().contains("transaction open"), "{name}: {error}");
        }
    }
}

/// What ends rows may carry session state, and is an end however long it is; also where nobody reads it.
#[tokio::test]
async fn an_end_of_any_length_is_an_end() {
    for rest_bytes in [1, 8, 9, 200, 100_000] {
        let server = Server::start(move |session| {
            session.serve_but(|request| {
                let Request::Execute { .. } = request else { return None };
                let end = packet::ok_with(0xFE, 0, 0, packet::AUTOCOMMIT | 0x4000, &vec![b'x'; rest_bytes]);
                Some(rows_with_end(&end))
            })
        });
        let pool = server.pool("pool_size=1");
        for _ in 0..3 {
            let outcome = must_end("a long end", pool.query_one("select ?", &[&7])).await;
            let row = outcome.unwrap_or_else(|error| panic!("{rest_bytes} bytes: {error}"));
            assert_eq!(row.get::<_, i32>(0).unwrap(), 7);
            cenote_tests::drop_after_polls(1, pool.query_one("select ?", &[&7])).await;
        }
        let executed = must_end("a long end of no rows", pool.execute("select ?", &[&7])).await;
        executed.unwrap_or_else(|error| panic!("{rest_bytes} bytes: {error}"));
        assert_eq!((server.accepted(), pool.stats().connections_lost), (1, 0), "{rest_bytes} bytes");
    }
}

fn rows_with_end(end: &[u8]) -> Vec<u8> {
    let [count, column] = begun();
    reply(&[&count, &column, ROW, end])
}
