//! Replies that no server should send: each is an error of the caller whose reply it is, in clear words; nothing panics,
//! nothing hangs, and the next query works, on the same connection where the stream is still in step and on a new one
//! where it is not.

use cenote_postgres::Error;
use cenote_tests::must_end;
use cenote_tests::scripted::{INT4, Request, Server, answer, echo_column, message};

/// Which reply a server spoils.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    /// The one that describes the statement.
    Describing,
    /// The one with its rows.
    Running,
}

use Moment::{Describing, Running};

/// What becomes of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Connection {
    Stays,
    Ends,
}

use Connection::{Ends, Stays};

/// Asks a server that spoils the first reply of this kind, and then one that is good. The error of the first.
async fn ask(name: &str, moment: Moment, reply: Vec<u8>, connection: Connection) -> Error {
    let server = Server::start(move |session| {
        let mut spoils = session.number == 0;
        loop {
            let requests = session.requests()?;
            let runs = requests.contains(&Request::Execute);
            let hit = spoils && runs == (moment == Running);
            spoils &= !hit;
            match hit {
                true => session.send(&reply)?,
                false => session.send(&answer(&requests))?,
            }
        }
    });
    let pool = server.pool("pool_size=1");
    let asked = must_end(name, pool.query("select $1", &[&7])).await;
    let error = asked.expect_err(name);
    let next = must_end(&format!("the query after {name}"), pool.query_one("select $1", &[&8])).await;
    let next = next.unwrap_or_else(|error| panic!("the query after {name}: {error}"));
    assert_eq!(next.get::<_, i32>(0).unwrap(), 8, "the query after {name}");
    assert_eq!(server.accepted(), if connection == Ends { 2 } else { 1 }, "connections at {name}");
    assert_eq!(pool.stats().connections_lost, u64::from(connection == Ends), "connections lost at {name}");
    assert_eq!(pool.stats().in_flight(), 0, "in flight after {name}");
    error
}

fn row(value: &[u8]) -> Vec<u8> {
    message::data_row(&[Some(value)])
}

/// A reply to Bind, Execute and Sync with this in the place of its rows.
fn running(parts: &[Vec<u8>]) -> Vec<u8> {
    [message::bind_complete(), parts.concat(), message::command_complete("SELECT 1"), message::ready(b'I')].concat()
}

/// A reply to Parse, Describe and Sync with this in the place of its descriptions.
fn described(parts: &[Vec<u8>]) -> Vec<u8> {
    [message::parse_complete(), parts.concat(), message::ready(b'I')].concat()
}

#[tokio::test]
async fn what_breaks_the_stream_costs_the_connection() {
    let good = row(&[0, 0, 0, 7]);
    let cases = [
        ("an unknown type", message::message(b'?', b""), "unknown type 0x3f"),
        ("a type of zero", message::message(0, b""), "unknown type 0x00"),
        ("a length of 3", message::lying(b'D', 3, b""), "a message of 3 bytes"),
        ("a length of 0", message::lying(b'C', 0, b""), "a message of 0 bytes"),
        ("a length of 2 GiB", message::lying(b'D', 0x7fff_ffff, b""), "a message of 2147483647 bytes"),
        ("a negative length", message::lying(b'D', u32::MAX, b""), "a message of 4294967295 bytes"),
        ("ReadyForQuery in an unknown state", message::ready(b'X'), "malformed ReadyForQuery"),
        ("ReadyForQuery with two states", message::message(b'Z', b"II"), "malformed ReadyForQuery"),
        ("ReadyForQuery without a state", message::message(b'Z', b""), "malformed ReadyForQuery"),
        ("ReadyForQuery of 1 GB", message::lying(b'Z', 1_000_000_000, b"I"), "malformed ReadyForQuery"),
        ("CopyInResponse", message::message(b'G', &[0, 0, 0]), "COPY"),
        ("CopyBothResponse", message::message(b'W', &[0, 0, 0]), "COPY"),
        ("a new log-in", message::authentication_ok(), "unknown type 0x52"),
        ("a new key", message::backend_key_data(1, b"key!"), "unknown type 0x4b"),
    ];
    for (name, spoiled, words) in cases {
        for (where_, moment, reply) in [
            ("in the middle of a result", Running, [message::bind_complete(), good.clone(), spoiled.clone()].concat()),
            ("at the beginning of a result", Running, spoiled.clone()),
            ("in the middle of a description", Describing, [message::parse_complete(), spoiled.clone()].concat()),
        ] {
            let name = format!("{name} {where_}");
            let error = ask(&name, moment, reply, Ends).await;
            assert!(error.is_network() && error.is_peer(), "{name}: {error}");
            assert_eq!(error.was_sent(), Some(true), "{name}: {error}");
            let text = error.to_string();
            assert!(text.contains("the server broke the protocol") && text.contains(words), "{name}: {text}");
        }
    }
}

#[tokio::test]
async fn what_breaks_one_reply_is_its_callers_error_alone() {
    let good = || row(&[0, 0, 0, 7]);
    let with_count = |count: u16, rest: &[u8]| message::message(b'D', &[&count.to_be_bytes(), rest].concat());
    let field = [0, 0, 0, 4, 0, 0, 0, 7];
    let described_as = |parameters: Vec<u8>| described(&[parameters, echo_column()]);
    let parameters = || message::parameter_description(&[INT4]);
    let columns = |count: u16, rest: &[u8]| message::message(b'T', &[&count.to_be_bytes(), rest].concat());
    let cases = [
        ("a row without fields", Running, running(&[message::data_row(&[])]), "a row of 0 fields for 1 columns"),
        ("a field too many", Running, running(&[message::data_row(&[None, None])]), "a row of 2 fields for 1 columns"),
        ("a row that claims 65,535 fields", Running, running(&[with_count(65_535, &field)]), "a row of 65535 fields"),
        ("a row without a count", Running, running(&[message::message(b'D', b"")]), "cut short"),
        ("a row of one byte", Running, running(&[message::message(b'D', b"\0")]), "cut short"),
        ("a row cut off in a length", Running, running(&[with_count(1, &[0, 0])]), "cut short"),
        ("a row cut off in a value", Running, running(&[with_count(1, &field[..6])]), "a field of 4 bytes"),
        ("a field of 2 GiB", Running, running(&[with_count(1, &[127, 255, 255, 255, 1])]), "a field of 2147483647"),
        ("a field of -2 bytes", Running, running(&[with_count(1, &[255, 255, 255, 254])]), "a field of 4294967294"),
        ("bytes behind the fields", Running, running(&[with_count(1, &[&field[..], b"x"].concat())]), "bytes behind"),
        ("a spoiled row among good ones", Running, running(&[good(), message::data_row(&[])]), "a row of 0 fields"),
        (
            "no CommandComplete",
            Running,
            [message::bind_complete(), good(), message::ready(b'I')].concat(),
            "without its end",
        ),
        ("nothing but ReadyForQuery", Running, message::ready(b'I'), "without its end"),
        (
            "a row behind CommandComplete",
            Running,
            running(&[good(), message::command_complete("SELECT 1"), good()]),
            "behind the end",
        ),
        (
            "two ends of a statement",
            Running,
            running(&[good(), message::command_complete("SELECT 1")]),
            "behind the end",
        ),
        ("PortalSuspended", Running, running(&[good(), message::message(b's', b"")]), "a message of type 's'"),
        ("65,535 columns in 10 bytes", Describing, described(&[parameters(), columns(65_535, &[1; 8])]), "a string"),
        ("65,535 columns in none", Describing, described(&[parameters(), columns(65_535, b"")]), "without its end"),
        ("a column cut off", Describing, described(&[parameters(), columns(1, b"a\0\0\0\0")]), "cut short"),
        ("a column with an odd name", Describing, described(&[parameters(), columns(1, b"\xff\0")]), "not UTF-8"),
        ("columns without a count", Describing, described(&[message::message(b'T', b"")]), "cut short"),
        (
            "65,535 parameters in 4 bytes",
            Describing,
            described_as(message::message(b't', &[255, 255, 0, 0, 0, 23])),
            "cut short",
        ),
        ("parameters without a count", Describing, described_as(message::message(b't', b"\0")), "cut short"),
        ("rows in a description", Describing, described(&[parameters(), good()]), "a result where a description"),
        (
            "an end in a description",
            Describing,
            described(&[message::command_complete("SELECT 1")]),
            "a result where a description",
        ),
    ];
    for (name, moment, reply, words) in cases {
        let error = ask(name, moment, reply, Stays).await;
        assert!(error.is_peer(), "{name}: {error}");
        let text = error.to_string();
        assert!(text.contains("the server broke the protocol") && text.contains(words), "{name}: {text}");
    }
}

#[tokio::test]
async fn a_statement_with_other_parameters_than_were_given_is_the_callers_error() {
    for (types, words) in [(&[][..], "0 parameters, and 1"), (&[INT4, INT4], "2 parameters, and 1")] {
        let server = Server::start(move |session| {
            let description = [message::parameter_description(types), echo_column()].concat();
            session.serve_but(|request| matches!(request, Request::Describe { .. }).then(|| description.clone()))
        });
        let pool = server.pool("pool_size=1");
        let error = must_end(words, pool.query("select $1", &[&7])).await.expect_err(words);
        assert!(error.is_caller() && error.to_string().contains(words), "{error}");
        assert_eq!((server.accepted(), pool.stats().connections_lost), (1, 0));
    }
}

#[tokio::test]
async fn copy_out_is_passed_over_and_told() {
    let copy = [message::message(b'H', &[0, 0, 0]), message::message(b'd', b"1\n"), message::message(b'c', b"")];
    let error = ask("CopyOutResponse", Running, running(&copy), Stays).await;
    assert!(error.is_caller() && error.to_string().contains("COPY"), "{error}");
}

#[tokio::test]
async fn errors_without_their_fields_are_errors_of_the_server() {
    let cases: [(&str, &[u8]); 7] = [
        ("no field", b"\0"),
        ("no byte at all", b""),
        ("a field without its end", b"SERROR"),
        ("an unknown field", b"?what\0\0"),
        ("a code that is too long", b"C1234567890\0\0"),
        ("text that is not UTF-8", b"SERROR\0VERROR\0C\xff\xff\0M\xf0\x28\x8c\x28\0\0"),
        ("odd numbers", b"SERROR\0VERROR\0CXX000\0P-99999999999999999999\0L\0\0"),
    ];
    for (name, body) in cases {
        let spoiled = message::message(b'E', body);
        for (moment, reply) in [
            (Running, [spoiled.clone(), message::ready(b'I')].concat()),
            (Describing, [message::parse_complete(), spoiled.clone(), message::ready(b'I')].concat()),
        ] {
            let name = format!("an error with {name}, {moment:?}");
            let error = ask(&name, moment, reply, Stays).await;
            assert!(error.is_server() && !error.to_string().is_empty(), "{name}: {error}");
            assert!(error.as_server_error().is_some(), "{name}");
        }
    }
}

#[tokio::test]
async fn a_value_that_is_too_short_is_an_error_where_it_is_read() {
    let server = Server::start(|session| {
        session.serve_but(|request| {
            let spoiled = [message::data_row(&[Some(b"abc")]), message::command_complete("SELECT 1")].concat();
            matches!(request, Request::Execute).then_some(spoiled)
        })
    });
    let pool = server.pool("pool_size=1");
    let row = must_end("a row", pool.query_one("select $1", &[&7])).await.unwrap();
    let error = row.get::<_, i32>(0).unwrap_err();
    assert!(error.to_string().contains("\"echo\""), "{error}");
}
