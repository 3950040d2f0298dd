//! Dialogues with a scripted server, each fed whole, byte by byte and split at each position.

mod authentication;
mod pipelining;

use proptest::prelude::*;

use super::*;
use crate::wire::cursor::Cursor;

/// What a server of today can do, with everything that is never agreed on.
const SERVER: u32 = 0xffff_ffff;
const CACHING: &str = "caching_sha2_password";
const NATIVE: &str = "mysql_native_password";
const NONCE: &[u8; 20] = b"12345678901234567890";

/// How a server's bytes arrive.
#[derive(Debug, Clone, Copy)]
enum Arrival {
    Whole,
    ByteByByte,
    /// Each flight in two pieces, the first of this many bytes.
    SplitAt(usize),
}

impl Arrival {
    fn pieces(self, flight: &[u8]) -> Vec<&[u8]> {
        match self {
            Arrival::Whole => vec![flight],
            Arrival::ByteByByte => flight.chunks(1).collect(),
            Arrival::SplitAt(at) => {
                let (first, second) = flight.split_at(at.min(flight.len()));
                vec![first, second]
            }
        }
    }
}

/// A log-in to be played.
#[derive(Clone)]
struct Scene {
    settings: Settings,
    unix: bool,
    probe: bool,
    server_key: Option<&'static str>,
}

fn scene(url: &str) -> Scene {
    Scene { settings: Settings::from_url(url).unwrap(), unix: false, probe: true, server_key: None }
}

/// One that is let in with the password `secret`, over an unencrypted connection.
fn plain() -> Scene {
    scene("mysql://app:secret@db/shop?ssl_mode=disabled")
}

/// How a log-in ended, in words that can be compared.
#[derive(Debug, PartialEq, Eq)]
struct Ending {
    words: String,
    /// What the client sent: each packet's number and payload, and an empty one under 255 where TLS began. What is
    /// encrypted by RSA is another each time, and left out.
    sent: Vec<(u8, Vec<u8>)>,
}

impl Ending {
    /// The numbers and payloads after the client's answer to the greeting.
    fn sent_later(&self) -> Vec<(u8, &[u8])> {
        let response = self.sent.iter().position(|(_, payload)| payload.len() > 32).unwrap();
        self.sent[response + 1..].iter().map(|(sequence, payload)| (*sequence, &payload[..])).collect()
    }
}

impl Scene {
    fn login(&self) -> Login {
        let transport = Transport { host: Some("db".to_owned()), unix: self.unix };
        let mut login = Login::start(&self.settings, transport, self.probe);
        if let Some(pem) = self.server_key {
            login.set_server_key(PublicKey::parse(pem.as_bytes()).unwrap());
        }
        login
    }

    /// Runs a script of flights, each of which is sent when the client has sent something or at the start.
    fn run(&self, flights: &[Vec<u8>], arrival: Arrival) -> Ending {
        let (mut login, mut input, mut sent) = (self.login(), BytesMut::new(), Vec::new());
        for flight in flights {
            for piece in arrival.pieces(flight) {
                input.extend_from_slice(piece);
                let mut output = Vec::new();
                let mut progress = login.advance(&mut input, &mut output);
                sent.extend(packets(&output));
                if let Ok(Progress::StartTls(request)) = &progress {
                    assert_eq!(request.host.as_deref(), Some("db"));
                    sent.push((255, Vec::new()));
                    let mut output = Vec::new();
                    progress = login.tls_started(&mut output);
                    sent.extend(packets(&output));
                }
                let words = match progress {
                    Ok(Progress::NeedsInput | Progress::NeedsInputWithin(_)) => continue,
                    Ok(Progress::StartTls(_)) => panic!("TLS twice"),
                    Ok(Progress::Ready(session)) => format!("ready: {session:?}"),
                    Err(error) => {
                        let again = login.advance(&mut BytesMut::from(&flights[0][..]), &mut Vec::new());
                        assert!(again.is_err(), "a log-in that has failed goes on");
                        format!("error: {error}")
                    }
                };
                return Ending { words, sent };
            }
        }
        Ending { words: "waits".to_owned(), sent }
    }

    /// Runs a script in every way it can arrive, and gives the one ending they all must have.
    fn play(&self, flights: &[Vec<u8>]) -> Ending {
        let longest = flights.iter().map(Vec::len).max().unwrap_or(0);
        let whole = self.run(flights, Arrival::Whole);
        let splits = (1..longest).map(Arrival::SplitAt);
        for arrival in [Arrival::ByteByByte].into_iter().chain(splits) {
            assert_eq!(self.run(flights, arrival), whole, "{arrival:?}");
        }
        whole
    }

    fn error(&self, flights: &[Vec<u8>]) -> String {
        let ending = self.play(flights);
        ending.words.strip_prefix("error: ").unwrap_or_else(|| panic!("no error: {ending:?}")).to_owned()
    }
}

fn packets(mut output: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let mut found = Vec::new();
    while let Some(header) = packet::Header::parse(output) {
        let (payload, rest) = output[packet::HEADER_BYTES..].split_at(header.payload_bytes);
        // The size of the key that is used in these tests.
        let payload = if payload.len() == 128 { b"(encrypted)" } else { payload };
        found.push((header.sequence, payload.to_vec()));
        output = rest;
    }
    assert!(output.is_empty(), "half a packet was sent");
    found
}

fn message(sequence: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    packet::append(payload, sequence, &mut bytes);
    bytes
}

fn greeting_of(version: &str, capabilities: u32, plugin: &str) -> Vec<u8> {
    let [a, b, c, d] = capabilities.to_le_bytes();
    let payload = [
        &[10][..],
        version.as_bytes(),
        b"\0\x2a\0\0\0",
        &NONCE[..8],
        &[0, a, b, 255, 2, 0, c, d, 21],
        &[0; 6],
        &[0b101, 0, 0, 0],
        &NONCE[8..],
        b"\0",
        plugin.as_bytes(),
        b"\0",
    ];
    message(0, &payload.concat())
}

fn greeting(plugin: &str) -> Vec<u8> {
    greeting_of("9.7.0", SERVER, plugin)
}

/// An OK packet: no transaction, autocommit.
fn ok(sequence: u8) -> Vec<u8> {
    message(sequence, b"\0\0\0\x02\0\0\0")
}

fn error(sequence: u8, code: u16, words: &str) -> Vec<u8> {
    let [a, b] = code.to_le_bytes();
    message(sequence, &[&[0xff, a, b][..], words.as_bytes()].concat())
}

/// The answer about the server's variables, numbered from 1.
fn told() -> Vec<u8> {
    let parts: [&[u8]; 5] = [b"\x02", b"def", b"def", b"\x0867108864\x0528800", b"\xfe\0\0\x02\0\0\0"];
    parts.iter().zip(1..).flat_map(|(payload, sequence)| message(sequence, payload)).collect()
}

/// What the server says from its OK on, when commands come together.
fn settled() -> Vec<u8> {
    [ok(1), told()].concat()
}

const SET: &[u8] = b"\x03SET NAMES utf8mb4, autocommit = 1";
const ASK: &[u8] = b"\x03SELECT @@max_allowed_packet, @@wait_timeout";

#[test]
fn a_log_in_of_the_usual_kind() {
    let flights = [greeting(CACHING), [message(2, b"\x01\x03"), ok(3)].concat(), settled()];
    let ending = plain().play(&flights);
    assert_eq!(ending.sent_later(), [(0, SET), (0, ASK)]);
    for part in [
        "ready: Session { server_version: \"9.7.0\", is_mariadb: false, connection_id: 42, ",
        "max_allowed_packet: 67108864, wait_timeout: 28800s, ",
        "status: {AUTOCOMMIT}, pipelines: true }",
    ] {
        assert!(ending.words.contains(part), "{part} is missing in {}", ending.words);
    }
}

#[test]
fn what_the_client_says_of_itself() {
    let url = "mysql://app:secret@db/shop?ssl_mode=disabled&program_name=till&found_rows=on";
    let ending = scene(url).play(&[greeting(NATIVE)]);
    let [(1, response)] = &ending.sent[..] else { panic!("{:?}", ending.sent) };
    let mut cursor = Cursor::new(response);
    let capabilities = Capabilities::from_bits(cursor.u32().unwrap().into());
    assert_eq!(
        format!("{capabilities:?}"),
        "{MYSQL, FOUND_ROWS, LONG_FLAG, CONNECT_WITH_DATABASE, PROTOCOL_41, TRANSACTIONS, SECURE_CONNECTION, \
         MULTI_RESULTS, PREPARED_MULTI_RESULTS, PLUGIN_AUTH, CONNECTION_ATTRIBUTES, PLUGIN_AUTH_LENENC, SESSION_TRACK, \
         DEPRECATE_EOF}"
    );
    cursor.bytes(28).unwrap();
    assert_eq!(cursor.nul_bytes(), Some(&b"app"[..]));
    assert_eq!(cursor.lenenc_bytes().map(<[u8]>::len), Some(20));
    assert_eq!(cursor.nul_bytes(), Some(&b"shop"[..]));
    assert_eq!(cursor.nul_bytes(), Some(NATIVE.as_bytes()));
    let mut attributes = Cursor::new(cursor.lenenc_bytes().unwrap());
    let mut names = Vec::new();
    while !attributes.is_empty() {
        names.push(String::from_utf8_lossy(attributes.lenenc_bytes().unwrap()).into_owned());
        attributes.lenenc_bytes().unwrap();
    }
    assert_eq!(names, ["_client_name", "_client_version", "_os", "_platform", "program_name"]);
    assert!(cursor.is_empty());

    let quiet = scene("mysql://app@db?ssl_mode=disabled&connection_attributes=off").play(&[greeting(NATIVE)]);
    let payload = &quiet.sent[0].1;
    assert!(payload.ends_with(b"app\0\0mysql_native_password\0"), "{payload:?}");
}

#[test]
fn mariadb_is_told_apart_and_asked_for_its_own() {
    let greeting = greeting_of("5.5.5-10.11.6-MariaDB", SERVER & !1, NATIVE);
    let ending = plain().play(&[greeting, ok(2), settled()]);
    assert!(ending.words.contains("server_version: \"10.11.6-MariaDB\", is_mariadb: true"), "{}", ending.words);
    assert!(ending.words.contains("MARIADB_STATEMENT_BULK_OPERATIONS"), "{}", ending.words);
    let response = &ending.sent[0].1;
    assert_eq!((response[0] & 1, &response[28..32]), (0, &[0b100, 0, 0, 0][..]));
}

#[test]
fn who_wants_tls_gets_it_or_an_error() {
    let no_tls = SERVER & !(Capabilities::TLS.bits() as u32);
    let (plain, tls) = (Some(false), Some(true));
    let table = [
        ("disabled", false, SERVER, plain),
        ("preferred", false, SERVER, tls),
        ("preferred", false, no_tls, plain),
        ("preferred", true, SERVER, plain),
        ("required", false, SERVER, tls),
        ("required", true, SERVER, tls),
        ("required", false, no_tls, None),
        ("verify-ca&ssl_ca=/ca.pem", false, SERVER, tls),
        ("verify-ca&ssl_ca=/ca.pem", false, no_tls, None),
        ("verify-identity", false, SERVER, tls),
        ("verify-identity", false, no_tls, None),
    ];
    for (mode, unix, capabilities, expected) in table {
        let scene = Scene { unix, ..scene(&format!("mysql://app:secret@db/shop?ssl_mode={mode}")) };
        let ending = scene.play(&[greeting_of("9.7.0", capabilities, CACHING)]);
        match expected {
            None => {
                assert!(ending.words.contains("does not offer TLS"), "{mode}: {}", ending.words);
                assert_eq!(ending.sent, [], "{mode}: something was sent");
            }
            Some(false) => assert!(matches!(&ending.sent[..], [(1, _)]), "{mode}: {:?}", ending.sent),
            Some(true) => {
                let [(1, wish), (255, _), (2, response)] = &ending.sent[..] else {
                    panic!("{mode}: {:?}", ending.sent)
                };
                assert_eq!(wish.len(), 32, "{mode}");
                assert_eq!(wish[..], response[..32], "{mode}: the answer begins with what was said in clear");
            }
        }
    }
}

#[test]
fn bytes_before_tls_are_refused() {
    let scene = scene("mysql://app:secret@db/shop?ssl_mode=required");
    let ending = scene.run(&[[greeting(CACHING), ok(2)].concat()], Arrival::Whole);
    assert_eq!(ending.words, "error: protocol broken at log-in: bytes behind a message before it was answered");
    // Nor does a log-in go on without it.
    let (mut login, mut output) = (scene.login(), Vec::new());
    let progress = login.advance(&mut BytesMut::from(&greeting(CACHING)[..]), &mut output);
    let Ok(Progress::StartTls(request)) = progress else { panic!("no TLS") };
    assert_eq!(request.settings.verification, cenote_pool::TlsVerification::None);
    assert!(login.advance(&mut BytesMut::from(&ok(2)[..]), &mut output).is_err());
    assert!(login.tls_started(&mut output).is_err());
}

#[test]
fn a_refusal_in_the_greetings_place_is_read() {
    for sequence in [0, 1, 2] {
        let words = plain().error(&[error(sequence, 1040, "Too many connections")]);
        assert_eq!(words, "ERROR 1040 (HY000): Too many connections");
    }
    let words = plain().error(&[error(0, 1129, "#HY000Host 'h' is blocked")]);
    assert_eq!(words, "ERROR 1129 (HY000): Host 'h' is blocked");
}

#[test]
fn the_servers_refusal_is_passed_on_from_every_state() {
    let refusal = |sequence| error(sequence, 1045, "#28000Access denied");
    let expected = "ERROR 1045 (28000): Access denied";
    assert_eq!(plain().error(&[greeting(CACHING), refusal(2)]), expected);
    assert_eq!(plain().error(&[greeting(CACHING), [message(2, b"\x01\x03"), refusal(3)].concat()]), expected);
    assert_eq!(plain().error(&[greeting(NATIVE), ok(2), refusal(1)]), expected);
    assert_eq!(plain().error(&[greeting(NATIVE), ok(2), [ok(1), refusal(1)].concat()]), expected);
    // Under a number of its own.
    assert_eq!(plain().error(&[greeting(CACHING), refusal(0)]), expected);
}

#[test]
fn what_the_server_cannot_do_is_not_passed_over() {
    let without = |capability: Capabilities| SERVER & !(capability.bits() as u32);
    let table = [
        ("shop", Capabilities::CONNECT_WITH_DATABASE, "does not know what `database`"),
        ("?found_rows=on", Capabilities::FOUND_ROWS, "does not know what `found_rows`"),
        ("", Capabilities::PROTOCOL_41, "older than MySQL 5.7"),
        ("", Capabilities::SECURE_CONNECTION, "older than MySQL 5.7"),
        ("", Capabilities::DEPRECATE_EOF, "older than MySQL 5.7"),
    ];
    for (rest, capability, words) in table {
        let scene = scene(&format!("mysql://app@db/{rest}"));
        let error = scene.error(&[greeting_of("9.7.0", without(capability), NATIVE)]);
        assert!(error.contains(words), "{error}");
    }
    // One without plugins and lengths.
    let old = SERVER & !((Capabilities::PLUGIN_AUTH | Capabilities::PLUGIN_AUTH_LENENC).bits() as u32);
    let ending = plain().play(&[greeting_of("5.7.0", old, ""), ok(2), settled()]);
    assert!(ending.words.starts_with("ready"), "{}", ending.words);
}

#[test]
fn a_server_without_autocommit_is_told_to() {
    let idle = message(2, b"\0\0\0\0\0\0\0");
    let ending = plain().play(&[greeting(NATIVE), idle, settled()]);
    assert_eq!(ending.sent_later()[0], (0, &b"\x03SET NAMES utf8mb4, autocommit = 1"[..]));
    assert!(ending.words.starts_with("ready"), "{}", ending.words);
}

#[test]
fn a_server_that_speaks_another_encoding_is_refused() {
    let set = |value: &str| {
        let entry = [&[20][..], b"character_set_client", &[value.len() as u8], value.as_bytes()].concat();
        let state = [&[0, entry.len() as u8][..], &entry].concat();
        message(1, &[b"\0\0\0\x02\x40\0\0\0", &[state.len() as u8][..], &state].concat())
    };
    let ending = plain().play(&[greeting(NATIVE), ok(2), [set("utf8mb4"), told()].concat()]);
    assert!(ending.words.starts_with("ready"), "{}", ending.words);
    let scene = scene("mysql://app@db?ssl_mode=disabled&pipeline=on");
    let error = scene.error(&[greeting(NATIVE), ok(2), [set("latin1"), told()].concat()]);
    assert!(error.contains("does not speak utf8mb4"), "{error}");
}

#[test]
fn what_breaks_the_protocol() {
    let told_with = |row: &[u8], end: &[u8]| {
        let parts: [&[u8]; 5] = [b"\x02", b"def", b"def", row, end];
        let told: Vec<u8> = parts.iter().zip(1..).flat_map(|(payload, sequence)| message(sequence, payload)).collect();
        vec![greeting(NATIVE), ok(2), [ok(1), told].concat()]
    };
    let end = b"\xfe\0\0\x02\0\0\0";
    let row = b"\x041024\x0528800";
    let table: Vec<(Vec<Vec<u8>>, &str)> = vec![
        // other protocols
        (vec![b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()], "is this a MySQL server?"),
        (vec![b"SSH-2.0-OpenSSH_9.6\r\n".to_vec()], "is this a MySQL server?"),
        (vec![b"N".repeat(10)], "is this a MySQL server?"),
        (vec![message(0, b"\x09old\0")], "is this a MySQL server?"),
        // numbers, lengths, first bytes
        (vec![message(1, b"\x0a9.7.0\0")], "a packet with number 1 where 0 is due"),
        (vec![greeting(NATIVE), ok(3)], "a packet with number 3 where 2 is due"),
        (vec![greeting(NATIVE), b"\x01\0\x01\x02".to_vec()], "a packet of more than 65536 bytes"),
        (vec![greeting(NATIVE), b"\xff\xff\xff\x02".to_vec()], "a packet of more than 65536 bytes"),
        (vec![greeting(NATIVE), message(2, b"")], "an empty packet"),
        (vec![greeting(NATIVE), message(9, b"")], "a packet with number 9 where 2 is due"),
        (vec![greeting(NATIVE), message(2, b"\xfb/etc/passwd")], "a file of the client's"),
        (vec![greeting(NATIVE), ok(2), message(1, b"\xfb/etc/passwd")], "a file of the client's"),
        (vec![message(0, b"\xfb/etc/passwd")], "a file of the client's"),
        (vec![greeting(NATIVE), message(2, b"\0\0\0")], "an OK packet that cannot be read"),
        // the answers to the two commands
        (vec![greeting(NATIVE), ok(2), message(1, b"\x01")], "SET NAMES"),
        (vec![greeting(NATIVE), ok(2), message(1, b"\0")], "SET NAMES"),
        (vec![greeting(NATIVE), ok(2), [ok(1), ok(1)].concat()], "variables that cannot be read"),
        (vec![greeting(NATIVE), ok(2), [ok(1), message(1, b"\x03")].concat()], "variables that cannot be read"),
        (told_with(b"\xfb\x0528800", end), "variables that cannot be read"),
        (told_with(b"\x041024", end), "variables that cannot be read"),
        (told_with(b"\x041024\x0528800\0", end), "variables that cannot be read"),
        (told_with(b"\x04many\x0528800", end), "variables that cannot be read"),
        (told_with(b"\x041023\x0528800", end), "variables that cannot be read"),
        (told_with(row, b"\xfe"), "variables that cannot be read"),
        (told_with(row, row), "variables that cannot be read"),
        (told_with(row, b"\xfe\0\0\x03\0\0\0"), "begin idle"),
        (told_with(row, b"\xfe\0\0\0\0\0\0"), "begin idle"),
    ];
    let scene = scene("mysql://app@db?ssl_mode=disabled&pipeline=on");
    for (flights, words) in table {
        let error = scene.error(&flights);
        assert!(error.starts_with("protocol broken") && error.contains(words), "{words}: {error}");
    }
}

#[test]
fn bytes_after_the_log_in_are_refused() {
    let flights = [greeting(NATIVE), ok(2), [settled(), ok(0)].concat()];
    let ending = scene("mysql://app@db?ssl_mode=disabled&pipeline=on").run(&flights, Arrival::Whole);
    assert!(ending.words.contains("bytes behind a message"), "{}", ending.words);
}

proptest! {
    /// From every state: no panic, and no more kept or sent than a message each.
    #[test]
    fn any_bytes_are_answered(
        prologue in 0..6_usize,
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        payloads in prop::collection::vec(
            (prop::sample::select(vec![0_u8, 1, 2, 3, 4, 0xfb, 0xfe]), prop::collection::vec(any::<u8>(), 0..40)),
            0..8,
        ),
        piece_bytes in 1..40_usize,
    ) {
        let prologue = match prologue {
            0 => vec![],
            1 => vec![greeting(CACHING)],
            2 => vec![greeting(CACHING), message(2, b"\x01\x04")],
            3 => vec![greeting(NATIVE), ok(2)],
            4 => vec![greeting(NATIVE), ok(2), ok(1)],
            _ => vec![greeting(NATIVE), ok(2), [ok(1), message(1, b"\x02"), message(2, b"def")].concat()],
        };
        let scene = scene("mysql://app:x@db?ssl_mode=disabled&allow_public_key_retrieval=on");
        for numbered in [false, true] {
            let (mut login, mut input, mut output) = (scene.login(), BytesMut::new(), Vec::new());
            for flight in &prologue {
                input.extend_from_slice(flight);
                prop_assert!(login.advance(&mut input, &mut output).is_ok());
            }
            // Well-formed packets first, or noise alone.
            let mut stream = Vec::new();
            let mut sequence = login.sequence;
            for (first, rest) in payloads.iter().filter(|_| numbered) {
                sequence = packet::append(&[&[*first][..], rest].concat(), sequence, &mut stream);
            }
            stream.extend_from_slice(&bytes);
            for piece in stream.chunks(piece_bytes) {
                input.extend_from_slice(piece);
                if login.advance(&mut input, &mut output).is_err() {
                    break;
                }
                prop_assert!(input.len() <= MESSAGE_BYTES_MAX + packet::HEADER_BYTES);
            }
            prop_assert!(output.len() < 1_000, "the client sent {} bytes", output.len());
        }
    }
}
