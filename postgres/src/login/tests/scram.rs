//! SCRAM against a server's half of it, written from RFC 5802.

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

use super::{Arrival, STARTED, auth, fatal, message, ok, run, settings, started};

/// The server's half of SCRAM-SHA-256 (RFC 5802), for one password.
struct ScramServer {
    iterations: u32,
    stored_key: [u8; 32],
    server_key: [u8; 32],
}

const SALT: &[u8] = b"sixteen bytes ok";
const SALT_BASE64: &str = "c2l4dGVlbiBieXRlcyBvaw==";

fn hmac(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    let mut hmac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    parts.iter().for_each(|part| hmac.update(part));
    hmac.finalize().into_bytes().into()
}

fn xor(left: [u8; 32], right: [u8; 32]) -> [u8; 32] {
    std::array::from_fn(|index| left[index] ^ right[index])
}

impl ScramServer {
    fn new(password: &str, iterations: u32) -> ScramServer {
        let mut round = hmac(password.as_bytes(), &[SALT, &[0, 0, 0, 1]]);
        let mut salted = round;
        for _ in 1..iterations {
            round = hmac(password.as_bytes(), &[&round]);
            salted = xor(salted, round);
        }
        let stored_key = Sha256::digest(hmac(&salted, &[b"Client Key"])).into();
        ScramServer { iterations, stored_key, server_key: hmac(&salted, &[b"Server Key"]) }
    }

    /// The server's answers: to the first client message, then to the proof. `last` makes the final flight of the
    /// right server signature (base64).
    fn flights<'a>(&'a self, last: impl Fn(&str) -> Vec<u8> + 'a) -> impl FnMut(&[u8]) -> Vec<u8> + 'a {
        let mut client_first_bare = String::new();
        let mut server_first = String::new();
        let mut turn = 0;
        move |sent| {
            turn += 1;
            match turn {
                1 => auth(10, b"SCRAM-SHA-256\0\0"),
                2 => {
                    let body = sent.strip_prefix(b"p").and_then(|sent| sent.get(4..)).unwrap();
                    let message = body.strip_prefix(b"SCRAM-SHA-256\0").and_then(|body| body.get(4..)).unwrap();
                    let message = std::str::from_utf8(message).unwrap();
                    client_first_bare = message.strip_prefix("n,,").unwrap().to_owned();
                    let nonce = client_first_bare.strip_prefix("n=,r=").unwrap();
                    server_first = format!("r={nonce}server,s={SALT_BASE64},i={}", self.iterations);
                    auth(11, server_first.as_bytes())
                }
                3 => {
                    let message = std::str::from_utf8(sent.get(5..).unwrap()).unwrap();
                    let (without_proof, proof) = message.split_once(",p=").unwrap();
                    let exchange = format!("{client_first_bare},{server_first},{without_proof}");
                    let client_signature = hmac(&self.stored_key, &[exchange.as_bytes()]);
                    let proof: [u8; 32] = base64_decode(proof).try_into().unwrap();
                    let client_key = xor(proof, client_signature);
                    if <[u8; 32]>::from(Sha256::digest(client_key)) != self.stored_key {
                        return fatal("28P01");
                    }
                    last(&base64_encode(&hmac(&self.server_key, &[exchange.as_bytes()])))
                }
                _ => Vec::new(),
            }
        }
    }
}

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn base64_encode(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let group = (0..3).fold(0, |group, index| group << 8 | u32::from(*chunk.get(index).unwrap_or(&0)));
        for index in 0..4 {
            let letter = BASE64[(group >> (18 - 6 * index) & 63) as usize] as char;
            text.push(if index <= chunk.len() { letter } else { '=' });
        }
    }
    text
}

fn base64_decode(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let (mut group, mut bits) = (0_u32, 0);
    for letter in text.bytes().filter(|letter| *letter != b'=') {
        let value = BASE64.iter().position(|known| *known == letter).expect("a letter of base64");
        group = group << 6 | u32::try_from(value).unwrap();
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push((group >> bits & 0xff) as u8);
        }
    }
    bytes
}

fn done(signature: &str) -> Vec<u8> {
    [auth(12, format!("v={signature}").as_bytes()), ok(), started()].concat()
}

#[test]
fn the_log_in() {
    let server = ScramServer::new("secret", 4_096);
    for arrival in [Arrival::Whole, Arrival::ByteByByte] {
        let user = settings("password=secret require_auth=scram-sha-256");
        let ending = run(&user, arrival, server.flights(done));
        assert_eq!(ending.words, STARTED, "{arrival:?}");
    }
}

#[test]
fn the_log_in_split_at_each_position() {
    let server = ScramServer::new("secret", 4_096);
    // Short flights, as each position costs the hashing of a password.
    let done = |signature: &str| [auth(12, format!("v={signature}").as_bytes()), ok(), message(b'Z', b"I")].concat();
    for at in 1..done(&"=".repeat(44)).len() {
        let ending = run(&settings("password=secret"), Arrival::SplitAt(at), server.flights(done));
        assert!(ending.words.starts_with("ready"), "split at {at}: {}", ending.words);
    }
}

#[test]
fn other_counts_of_iterations_and_odd_passwords() {
    for (password, iterations) in [("x", 4_097), ("p\u{e4}ss w\u{f6}rd'\\\"", 5_000), ("\u{1f600}", 4_096)] {
        let server = ScramServer::new(password, iterations);
        let user = settings("").to_builder().password(password).build().unwrap();
        let ending = run(&user, Arrival::Whole, server.flights(done));
        assert_eq!(ending.words, STARTED, "{password:?}, {iterations}");
    }
}

#[test]
fn a_wrong_password_is_the_servers_refusal() {
    let server = ScramServer::new("secret", 4_096);
    let ending = run(&settings("password=wrong"), Arrival::Whole, server.flights(done));
    assert_eq!(ending.words, "error: FATAL: no (SQLSTATE 28P01)\nDETAIL: detail\nHINT: hint");
}

#[test]
fn a_server_that_does_not_prove_itself_is_refused() {
    let server = ScramServer::new("secret", 4_096);
    type Last = fn(&str) -> Vec<u8>;
    let table: [(Last, &str); 7] = [
        (|_| [ok(), started()].concat(), "without its proof"),
        (|_| [auth(12, b"v=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="), ok()].concat(), "SCRAM verification error"),
        (|_| auth(12, b"v="), "SCRAM failed"),
        (|_| auth(12, b""), "SCRAM failed"),
        (|_| auth(12, b"e=other-error"), "other-error"),
        (|signature| auth(12, format!("v={signature},x").as_bytes()), "SCRAM failed"),
        (|_| auth(11, b"r=a,s=b,i=4096"), "not due"),
    ];
    for (last, words) in table {
        let ending = run(&settings("password=secret"), Arrival::Whole, server.flights(last));
        assert!(ending.words.starts_with("error: protocol broken"), "{words}: {}", ending.words);
        assert!(ending.words.contains(words), "{words}: {}", ending.words);
    }
}

#[test]
fn base64_is_there_and_back() {
    for bytes in [&b""[..], b"f", b"fo", b"foo", b"foob", SALT] {
        assert_eq!(base64_decode(&base64_encode(bytes)), bytes);
    }
    assert_eq!(base64_encode(SALT), SALT_BASE64);
}
