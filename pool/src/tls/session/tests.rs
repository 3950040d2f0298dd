//! A session against rustls' own server, in memory: whatever the pieces, the same comes out, and what has begun to leave
//! counts as sent.

use proptest::prelude::*;
use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection};
use std::io::{Read, Write};
use std::sync::LazyLock;

use super::super::{TlsRequest, TlsSettings, TlsVerification, TlsVersion, config};
use super::*;

static SERVER_CONFIG: LazyLock<Arc<ServerConfig>> = LazyLock::new(|| {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec!["db.test".to_owned()]).unwrap().self_signed(&key).unwrap();
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap();
    Arc::new(config)
});

struct Pair {
    client: Session,
    server: ServerConnection,
    /// What the client has received.
    received: BytesMut,
    /// What the server has received.
    arrived: Vec<u8>,
}

impl Pair {
    fn new(version: TlsVersion) -> Pair {
        let settings = TlsSettings {
            verification: TlsVerification::None,
            version_min: version,
            version_max: version,
            ..TlsSettings::default()
        };
        let request = TlsRequest { settings, host: Some("db.test".to_owned()) };
        let (config, name) = config::prepare(&request).unwrap();
        let client = Session::new(config, name).unwrap();
        let server = ServerConnection::new(Arc::clone(&SERVER_CONFIG)).unwrap();
        Pair { client, server, received: BytesMut::new(), arrived: Vec::new() }
    }

    /// Everything the client has queued, to the server.
    fn flush_client(&mut self) {
        let bytes = self.client.outgoing().bytes().to_vec();
        self.client.outgoing().advance(bytes.len());
        self.feed_server(&bytes);
    }

    fn feed_server(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            self.server.read_tls(&mut bytes).unwrap();
            self.server.process_new_packets().unwrap();
            // It ends with `WouldBlock`: the connection goes on.
            let _ = self.server.reader().read_to_end(&mut self.arrived);
        }
    }

    /// Everything the server has queued, to the client in pieces of this size.
    fn flush_server(&mut self, piece_bytes: usize) -> Progress {
        let mut bytes = Vec::new();
        while self.server.wants_write() {
            self.server.write_tls(&mut bytes).unwrap();
        }
        let mut progress = self.client.open(&mut self.received).unwrap();
        for piece in bytes.chunks(piece_bytes) {
            self.client.incoming().extend_from_slice(piece);
            progress = self.client.open(&mut self.received).unwrap();
        }
        progress
    }

    fn shake_hands(&mut self, piece_bytes: usize) {
        let mut progress = self.client.open(&mut self.received).unwrap();
        while progress == Progress::Handshaking {
            self.flush_client();
            progress = self.flush_server(piece_bytes);
        }
        self.flush_client();
        assert!(!self.server.is_handshaking());
    }
}

const VERSIONS: [TlsVersion; 2] = [TlsVersion::V1_2, TlsVersion::V1_3];

fn pattern(count: usize) -> Vec<u8> {
    (0..count).map(|index| (index * 31 % 251) as u8).collect()
}

#[test]
fn the_handshake_comes_in_any_pieces() {
    for version in VERSIONS {
        for piece_bytes in [1, 2, 5, 7, 100, usize::MAX] {
            let mut pair = Pair::new(version);
            pair.shake_hands(piece_bytes);
            let text = pattern(40_000);
            pair.server.writer().write_all(&text).unwrap();
            assert_eq!(pair.flush_server(piece_bytes), Progress::Open);
            assert_eq!(pair.received, text);
            pair.client.seal(&text).unwrap();
            pair.flush_client();
            assert!(pair.arrived == text);
            assert_eq!(pair.client.outgoing().report(), text.len());
        }
    }
}

#[test]
fn nothing_that_is_whole_stays_behind() {
    for version in VERSIONS {
        let mut pair = Pair::new(version);
        pair.shake_hands(usize::MAX);
        // Many records and the beginning of one more, in one read.
        let mut bytes = Vec::new();
        for _ in 0..100 {
            pair.server.writer().write_all(b"a row").unwrap();
            pair.server.write_tls(&mut bytes).unwrap();
        }
        let (most, last) = bytes.split_at(bytes.len() - 1);
        pair.client.incoming().extend_from_slice(most);
        pair.client.open(&mut pair.received).unwrap();
        // The server's tickets, where it sends any, are among the records and none of ours.
        assert_eq!(pair.received, b"a row".repeat(99));
        pair.client.incoming().extend_from_slice(last);
        pair.client.open(&mut pair.received).unwrap();
        assert_eq!(pair.received, b"a row".repeat(100));
    }
}

#[test]
fn the_server_may_change_its_keys() {
    let mut pair = Pair::new(TlsVersion::V1_3);
    pair.shake_hands(usize::MAX);
    for round in 0..5 {
        pair.server.writer().write_all(b"before").unwrap();
        pair.server.refresh_traffic_keys().unwrap();
        pair.server.writer().write_all(b"after").unwrap();
        pair.flush_server(7);
        assert_eq!(pair.received.split(), &b"beforeafter"[..], "round {round}");
        pair.client.seal(b"mine").unwrap();
        pair.flush_client();
        assert_eq!(std::mem::take(&mut pair.arrived), b"mine", "round {round}");
        assert_eq!(pair.client.outgoing().report(), 4, "round {round}");
    }
}

#[test]
fn a_close_is_heard_and_said() {
    for version in VERSIONS {
        let mut pair = Pair::new(version);
        pair.shake_hands(usize::MAX);
        pair.server.writer().write_all(b"last words").unwrap();
        pair.server.send_close_notify();
        pair.flush_server(3);
        assert_eq!(pair.received, &b"last words"[..]);
        assert!(pair.client.is_peer_closed());
        pair.client.seal(b"X").unwrap();
        pair.client.close();
        pair.flush_client();
        pair.server.reader().read_to_end(&mut pair.arrived).expect("an end, not a connection that broke");
        assert_eq!(pair.arrived, b"X");
    }
}

#[test]
fn what_is_not_tls_is_an_error_and_no_panic() {
    for garbage in
        [&b"E\0\0\0\x1aSFATAL\0"[..], b"HTTP/1.1 400 Bad Request\r\n\r\n", &[0; 100], &[0x16, 3, 3, 0xff, 0xff, 0]]
    {
        let mut pair = Pair::new(TlsVersion::V1_3);
        assert_eq!(pair.client.open(&mut pair.received), Ok(Progress::Handshaking));
        pair.flush_client();
        pair.client.incoming().extend_from_slice(garbage);
        let error = pair.client.open(&mut pair.received).unwrap_err();
        assert!(matches!(error, TlsFailure::Broken(_)), "{error:?}");
        assert!(!pair.client.outgoing().bytes().is_empty(), "the other side is told by an alert");
    }
}

#[test]
fn a_spoilt_record_is_an_error() {
    for version in VERSIONS {
        let mut pair = Pair::new(version);
        pair.shake_hands(usize::MAX);
        pair.server.writer().write_all(b"a row").unwrap();
        let mut bytes = Vec::new();
        while pair.server.wants_write() {
            pair.server.write_tls(&mut bytes).unwrap();
        }
        *bytes.last_mut().unwrap() ^= 1;
        pair.client.incoming().extend_from_slice(&bytes);
        assert!(pair.client.open(&mut pair.received).is_err());
        assert!(pair.client.open(&mut pair.received).is_err(), "it stays one");
        assert!(pair.received.is_empty(), "something of it got through");
    }
}

proptest! {
    /// However writes are cut: every byte arrives once and in order. Whatever the server can read has been reported, but
    /// for the one byte that is held back; nothing is reported of which no record has begun to leave.
    #[test]
    fn what_has_begun_to_leave_is_reported(
        count in 1_usize..400_000,
        writes in prop::collection::vec(1_usize..60_000, 1..40),
        version in prop::sample::select(VERSIONS.to_vec()),
    ) {
        let mut pair = Pair::new(version);
        pair.shake_hands(usize::MAX);
        let text = pattern(count);
        let mut reported = 0;
        let mut writes = writes.into_iter().cycle();
        while reported < text.len() {
            pair.client.seal(&text[reported..]).unwrap();
            prop_assert!(pair.client.outgoing().bytes().len() <= SEALED_BYTES_MAX + 64 * RECORD_OVERHEAD_BYTES);
            let bytes = pair.client.outgoing().bytes();
            let piece = bytes[..writes.next().unwrap().min(bytes.len())].to_vec();
            pair.client.outgoing().advance(piece.len());
            pair.feed_server(&piece);
            reported += pair.client.outgoing().report();
            let left = usize::from(!pair.client.outgoing().bytes().is_empty());
            let arrived = pair.arrived.len();
            prop_assert!(arrived <= reported + left, "{arrived} arrived, {reported} reported");
            prop_assert!(reported <= arrived + RECORD_BYTES_MAX);
        }
        prop_assert_eq!(pair.client.outgoing().bytes(), b"");
        prop_assert!(pair.arrived == text);
    }

    /// Before, in and behind the handshake: an error at most, and then for good.
    #[test]
    fn any_bytes_are_answered(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        header in prop::sample::select(vec![&b""[..], &[0x16, 3, 3, 0, 60], &[0x17, 3, 3, 0, 40], &[0x15, 3, 3, 0, 2], &[0x14, 3, 3, 0, 1]]),
        flights in 0..3,
        version in prop::sample::select(VERSIONS.to_vec()),
    ) {
        let mut pair = Pair::new(version);
        for _ in 0..flights {
            pair.client.open(&mut pair.received).unwrap();
            pair.flush_client();
            pair.flush_server(usize::MAX);
        }
        for bytes in [[header, &bytes].concat(), bytes] {
            pair.client.incoming().extend_from_slice(&bytes);
            let first = pair.client.open(&mut pair.received);
            let (again, sealed) = (pair.client.open(&mut pair.received), pair.client.seal(b"X"));
            if let Err(failure) = &first {
                prop_assert_eq!(again.as_ref(), Err(failure));
                prop_assert_eq!(sealed.as_ref(), Err(failure));
            }
            pair.client.close();
        }
        prop_assert!(pair.received.is_empty());
    }
}
