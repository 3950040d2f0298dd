//! One connection's records, without I/O: cut from what comes and decrypted, encrypted and queued for what goes.
//!
//! ```text
//! socket --> incoming --(whole records)--> plaintext, straight into the reader's buffer
//! socket <-- outgoing <--(records of 16 KiB)-- plaintext, up to SEALED_BYTES_MAX at once
//! ```
//!
//! No plaintext is kept here: what has been decrypted is out, so whoever waits for the socket waits for everything.
//! What was encrypted cannot be taken back, and is written in its order whatever becomes of who queued it.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use bytes::{Buf, BytesMut};
use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::pki_types::ServerName;
use rustls::unbuffered::{ConnectionState, EncodeError, EncodeTlsData, EncryptError, UnbufferedStatus};
use rustls::{AlertDescription, ClientConfig, Error};

use super::{TlsFailure, TlsPeer, verifier};
use crate::limits::READ_BUFFER_BYTES;

/// What is encrypted at once, and so the most that waits for the socket: all that a lane lets callers queue by default,
/// so that a turn stays one write.
const SEALED_BYTES_MAX: usize = 256 * 1024;

/// The plaintext of one record, the most that TLS allows.
const RECORD_BYTES_MAX: usize = 16 * 1024;

/// What a record may be larger than its plaintext: header, explicit nonce, type and tag of any cipher spoken are 29 bytes.
const RECORD_OVERHEAD_BYTES: usize = 64;

/// What may wait to become whole: the largest handshake message that rustls takes is 64 KiB, and a read fits behind it.
const INCOMING_BYTES_MAX: usize = 256 * 1024;

/// The two directions of one connection, and its keys.
pub(super) struct Session {
    connection: UnbufferedClientConnection,
    incoming: BytesMut,
    outgoing: Outgoing,
    peer_closed: bool,
    /// What ended it. rustls is asked nothing after that: it does not expect to be.
    failed: Option<TlsFailure>,
}

/// How far the handshake is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// The server has to say more.
    Handshaking,
    /// Both directions are open.
    Open,
}

impl Session {
    pub(super) fn new(config: Arc<ClientConfig>, name: ServerName<'static>) -> Result<Session, TlsFailure> {
        let connection = UnbufferedClientConnection::new(config, name).map_err(|error| failure(&error))?;
        Ok(Session {
            connection,
            incoming: BytesMut::new(),
            outgoing: Outgoing::default(),
            peer_closed: false,
            failed: None,
        })
    }

    /// The buffer to read the socket into, with room for a read that is worth its system call.
    pub(super) fn incoming(&mut self) -> &mut BytesMut {
        self.incoming.reserve(READ_BUFFER_BYTES.saturating_sub(self.incoming.len()).max(RECORD_BYTES_MAX));
        &mut self.incoming
    }

    /// Takes all whole records of what has come; what is in them for us is appended to `plaintext`. After an error there
    /// may be an alert to be written.
    pub(super) fn open(&mut self, plaintext: &mut BytesMut) -> Result<Progress, TlsFailure> {
        self.check()?;
        self.open_records(plaintext).map_err(|failure| self.fail(failure))
    }

    fn check(&self) -> Result<(), TlsFailure> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    /// Ends it, with an alert if rustls has one.
    fn fail(&mut self, failure: TlsFailure) -> TlsFailure {
        if let Ok(ConnectionState::EncodeTlsData(message)) =
            self.connection.process_tls_records(&mut self.incoming).state
        {
            // Without it the failure is the same.
            let _ = encode(message, &mut self.outgoing);
        }
        self.failed = Some(failure.clone());
        failure
    }

    fn open_records(&mut self, plaintext: &mut BytesMut) -> Result<Progress, TlsFailure> {
        loop {
            let status = self.connection.process_tls_records(&mut self.incoming);
            let UnbufferedStatus { mut discard, state } = status;
            let mut progress = None;
            match state.map_err(|error| failure(&error))? {
                ConnectionState::ReadTraffic(mut traffic) => {
                    while let Some(record) = traffic.next_record() {
                        let record = record.map_err(|error| failure(&error))?;
                        discard += record.discard;
                        plaintext.extend_from_slice(record.payload);
                    }
                }
                ConnectionState::EncodeTlsData(message) => encode(message, &mut self.outgoing)?,
                // Queued is as good as sent: nothing overtakes it.
                ConnectionState::TransmitTlsData(message) => message.done(),
                ConnectionState::PeerClosed => self.peer_closed = true,
                ConnectionState::Closed => {
                    self.peer_closed = true;
                    progress = Some(Progress::Open);
                }
                ConnectionState::BlockedHandshake => progress = Some(Progress::Handshaking),
                ConnectionState::WriteTraffic(_) => progress = Some(Progress::Open),
                _ => return Err(unexpected()),
            }
            self.incoming.advance(discard.min(self.incoming.len()));
            let Some(progress) = progress else { continue };
            if self.incoming.len() > INCOMING_BYTES_MAX {
                return Err(TlsFailure::Broken("a message that does not come to an end".to_owned()));
            }
            return Ok(progress);
        }
    }

    /// Whether the server has said that it says no more.
    pub(super) fn is_peer_closed(&self) -> bool {
        self.peer_closed
    }

    /// Encrypts the front of `plaintext`, unless an earlier front of it still waits to be written.
    pub(super) fn seal(&mut self, plaintext: &[u8]) -> Result<(), TlsFailure> {
        self.check()?;
        if self.outgoing.unreported > 0 {
            return Ok(());
        }
        self.seal_records(plaintext).map_err(|failure| self.fail(failure))
    }

    fn seal_records(&mut self, plaintext: &[u8]) -> Result<(), TlsFailure> {
        let front = plaintext.get(..SEALED_BYTES_MAX).unwrap_or(plaintext);
        let outgoing = &mut self.outgoing;
        loop {
            // Whole records were all taken when they came; what is left is the beginning of one.
            let UnbufferedStatus { state, .. } = self.connection.process_tls_records(&mut self.incoming);
            match state.map_err(|error| failure(&error))? {
                ConnectionState::WriteTraffic(mut traffic) => {
                    for record in front.chunks(RECORD_BYTES_MAX) {
                        outgoing.begin_record(record.len());
                        let sealed = outgoing.append(record.len() + RECORD_OVERHEAD_BYTES, |room| {
                            traffic.encrypt(record, room).map_err(|error| match error {
                                EncryptError::InsufficientSize(needed) => Some(needed.required_size),
                                EncryptError::EncryptExhausted => None,
                            })
                        });
                        sealed.ok_or_else(|| TlsFailure::Broken("the keys are used up".to_owned()))?;
                    }
                    return Ok(());
                }
                ConnectionState::EncodeTlsData(message) => encode(message, outgoing)?,
                ConnectionState::TransmitTlsData(message) => message.done(),
                ConnectionState::PeerClosed => self.peer_closed = true,
                _ => return Err(unexpected()),
            }
        }
    }

    /// Queues the word that nothing more will come. Its loss would harm nobody: an error is not told.
    pub(super) fn close(&mut self) {
        if self.failed.is_some() {
            return;
        }
        let UnbufferedStatus { state, .. } = self.connection.process_tls_records(&mut self.incoming);
        if let Ok(ConnectionState::WriteTraffic(mut traffic)) = state {
            self.outgoing.append(RECORD_OVERHEAD_BYTES, |room| traffic.queue_close_notify(room).map_err(|_| None));
        }
        self.failed = Some(TlsFailure::Broken("the connection was closed".to_owned()));
    }

    /// What is to be written.
    pub(super) fn outgoing(&mut self) -> &mut Outgoing {
        &mut self.outgoing
    }

    /// The other side, once the handshake is over.
    pub(super) fn peer(&self) -> TlsPeer {
        let certificate = self.connection.peer_certificates().and_then(|chain| chain.first());
        TlsPeer {
            certificate: certificate.map(|certificate| certificate.to_vec()).unwrap_or_default(),
            application_protocol: self.connection.alpn_protocol().map(<[u8]>::to_vec),
        }
    }
}

/// Encrypted bytes in the order of their encryption, and which plaintext they stand for.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    /// Of which `start..end` is to be written; what is behind is room.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Bytes written since the connection began.
    written: u64,
    /// Records of plaintext of which nothing was written yet: where they begin, counted as `written` is, and how much
    /// plaintext is in them.
    records: VecDeque<(u64, usize)>,
    /// Plaintext of records that have begun to be written, and was not reported.
    begun: usize,
    /// Plaintext that is encrypted and was not reported.
    unreported: usize,
}

impl Outgoing {
    pub(super) fn bytes(&self) -> &[u8] {
        self.buffer.get(self.start..self.end).unwrap_or_default()
    }

    /// Whether there is something to be written, and no plaintext in it.
    pub(super) fn has_only_answers(&self) -> bool {
        self.unreported == 0 && !self.bytes().is_empty()
    }

    /// So many of `bytes` have been written.
    pub(super) fn advance(&mut self, count: usize) {
        self.start = self.end.min(self.start + count);
        self.written += count as u64;
        while let Some((begins, plaintext_bytes)) = self.records.front()
            && *begins < self.written
        {
            self.begun += plaintext_bytes;
            self.records.pop_front();
        }
    }

    /// How much more plaintext counts as written: that of every record of which a part is gone, since the server may get
    /// to see all of it. While there are bytes left the last of it is held back, so that whoever asked for the write
    /// comes again; a statement of which all but one byte was written is not one that can have run.
    pub(super) fn report(&mut self) -> usize {
        let held_back = usize::from(!self.bytes().is_empty());
        let count = self.begun.saturating_sub(held_back);
        self.begun -= count;
        self.unreported -= count;
        count
    }

    fn begin_record(&mut self, plaintext_bytes: usize) {
        self.records.push_back((self.written + self.bytes().len() as u64, plaintext_bytes));
        self.unreported += plaintext_bytes;
    }

    /// Appends what `write` writes into the room it is given. It says how much it wrote, how much room it needs, or that
    /// it cannot.
    fn append(
        &mut self,
        room_bytes: usize,
        mut write: impl FnMut(&mut [u8]) -> Result<usize, Option<usize>>,
    ) -> Option<()> {
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
        }
        let mut room_bytes = room_bytes;
        // The second time it has what it asked for.
        for _ in 0..2 {
            if self.buffer.len() - self.end < room_bytes {
                self.buffer.resize(self.end + room_bytes, 0);
            }
            match write(self.buffer.get_mut(self.end..)?) {
                Ok(count) => {
                    self.end = self.buffer.len().min(self.end + count);
                    return Some(());
                }
                Err(needed) => room_bytes = needed?,
            }
        }
        None
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("peer_closed", &self.peer_closed).finish_non_exhaustive()
    }
}

fn encode(mut message: EncodeTlsData<'_, ClientConnectionData>, outgoing: &mut Outgoing) -> Result<(), TlsFailure> {
    let encoded = outgoing.append(0, |room| match message.encode(room) {
        Ok(bytes) => Ok(bytes),
        Err(EncodeError::InsufficientSize(needed)) => Err(Some(needed.required_size)),
        Err(_) => Err(None),
    });
    encoded.ok_or_else(unexpected)
}

fn unexpected() -> TlsFailure {
    TlsFailure::Broken("a step that is not due".to_owned())
}

/// Whose fault an error of rustls is.
fn failure(error: &Error) -> TlsFailure {
    use AlertDescription as Alert;
    match error {
        Error::InvalidCertificate(error) => TlsFailure::Untrusted(verifier::words(error)),
        Error::InvalidMessage(error) => {
            TlsFailure::Broken(format!("what the server sent is not TLS, or broken ({error:?})"))
        }
        Error::AlertReceived(
            alert @ (Alert::BadCertificate
            | Alert::UnsupportedCertificate
            | Alert::CertificateRevoked
            | Alert::CertificateExpired
            | Alert::CertificateUnknown
            | Alert::UnknownCA
            | Alert::AccessDenied
            | Alert::CertificateRequired),
        ) => TlsFailure::Refused(format!("{alert:?}")),
        other => TlsFailure::Broken(other.to_string()),
    }
}

#[cfg(test)]
mod tests;
