//! TLS for a scripted server: the bytes of one connection from where it begins.
//!
//! No socket: records go in, and what they hold comes out, and back.

use std::io::{self, Read, Write};
use std::sync::Arc;

use rustls::{ServerConfig, ServerConnection};

use crate::certificates::Certified;
use crate::stage::Peer;

/// The type and the version before the length of a record.
const RECORD_HEADER_BYTES: usize = 5;

/// The server's side of TLS on one connection.
#[derive(Debug)]
pub(super) struct Encryption {
    connection: ServerConnection,
    plaintext: Vec<u8>,
}

impl Encryption {
    /// Shakes hands with the client, who is shown this certificate.
    pub(super) fn start(peer: &mut Peer, certified: &Certified) -> io::Result<Encryption> {
        let (certificate, key) = certified.der();
        let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions of TLS")
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .expect("a certificate and its key");
        let connection = ServerConnection::new(Arc::new(config)).map_err(io::Error::other)?;
        let mut encryption = Encryption { connection, plaintext: Vec::new() };
        while encryption.connection.is_handshaking() {
            encryption.take_record(peer)?;
        }
        Ok(encryption)
    }

    pub(super) fn take_bytes(&mut self, peer: &mut Peer, count: usize) -> io::Result<Vec<u8>> {
        while self.plaintext.len() < count {
            self.take_record(peer)?;
        }
        let rest = self.plaintext.split_off(count);
        Ok(std::mem::replace(&mut self.plaintext, rest))
    }

    pub(super) fn send(&mut self, peer: &mut Peer, bytes: &[u8]) -> io::Result<()> {
        // Some at a time: there is a bound to what the connection takes at once.
        for piece in bytes.chunks(16 << 10) {
            self.connection.writer().write_all(piece)?;
            self.flush(peer)?;
        }
        Ok(())
    }

    fn take_record(&mut self, peer: &mut Peer) -> io::Result<()> {
        let mut record = peer.take_bytes(RECORD_HEADER_BYTES)?;
        let length = u16::from_be_bytes([record[3], record[4]]);
        record.extend(peer.take_bytes(length.into())?);
        let mut record = record.as_slice();
        while !record.is_empty() {
            self.connection.read_tls(&mut record)?;
        }
        let state = self.connection.process_new_packets();
        // An alert that says why it is over is sent as well.
        self.flush(peer)?;
        let state = state.map_err(io::Error::other)?;
        let plaintext_bytes = self.plaintext.len();
        self.plaintext.resize(plaintext_bytes + state.plaintext_bytes_to_read(), 0);
        self.connection.reader().read_exact(&mut self.plaintext[plaintext_bytes..])?;
        if state.peer_has_closed() { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
    }

    fn flush(&mut self, peer: &mut Peer) -> io::Result<()> {
        let mut records = Vec::new();
        while self.connection.wants_write() {
            self.connection.write_tls(&mut records)?;
        }
        peer.send(&records)
    }
}
