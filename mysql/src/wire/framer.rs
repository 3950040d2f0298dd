//! `ReplyFramer`: finds the end of each answer in what a server sends, without keeping anything of it.
//!
//! ```text
//! to a statement     Start ── OK or error ──────────────────────────────────────────> end
//!                      └──── count ──> Definitions ──> Rows ── OK or error ──┬──────> end
//!                      ^                                                     │
//!                      └───────────── another result follows <───────────────┘
//! to a preparation   Start ── error ────────────────────────────────────────────────> end
//!                      └──── OK with counts ──> Definitions ────────────────────────> end
//! ```
//!
//! It knows only servers that end rows with an OK packet (`DEPRECATE_EOF`: MySQL 5.7, MariaDB 10.2 and later); the
//! log-in refuses others. The numbers of an answer's packets go on from those of its command: from 1, or more where the
//! command took several packets. A packet numbered 0 that is not due answers nothing: it is the error by which a server
//! says why it will close the connection.
//!
//! Source: client/server protocol, "Text Resultset", "Binary Protocol Resultset", "COM_STMT_PREPARE Response".

use std::sync::Arc;

use bytes::Bytes;
use cenote_pool::{End, Expected, Framed, Framer, PeerFault};

use super::cursor::Cursor;
use super::packet::{HEADER_BYTES, Header, PACKET_PAYLOAD_BYTES_MAX};
use super::status::{EOF_HEADER, ERROR_HEADER, LOCAL_INFILE_HEADER, OK_HEADER, StatusFlags};
use crate::pipelining::Host;

/// So much of an OK packet's front holds its status: the first byte, two numbers of at most nine, the status.
const STATUS_BYTES_MAX: usize = 1 + 9 + 9 + 2;

/// Columns of one result, or parameters of one statement: their number travels in 16 bits where a statement is
/// prepared, and a table has 4,096 at most.
pub(crate) const DEFINITIONS_MAX: u64 = 65_535;

/// Packets of one command: `max_allowed_packet` is 1 GiB at most, and a packet holds 16 MiB.
const COMMAND_PACKETS_MAX: u8 = 65;

/// A server's last words are kept whole; they are a line of text.
const FAREWELL_BYTES_MAX: usize = 4 * 1024;

/// Where the current answer stands, between two packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    /// At the first packet of a result, or of an answer to a preparation.
    #[default]
    Start,
    /// So many definitions follow, and then rows or the end.
    Definitions {
        left: u64,
        rows: bool,
    },
    Rows,
}

/// Cuts the stream of one connection into replies.
#[derive(Debug, Default)]
pub(crate) struct ReplyFramer {
    place: Place,
    /// Bytes of the current packet that are still to come and mean nothing here.
    skip_bytes: usize,
    /// The current payload goes on in the next packet.
    goes_on: bool,
    /// The first packet of this answer has come.
    begun: bool,
    /// The number of the last packet of this answer.
    sequence: u8,
    /// What ends with the packet that is being skipped.
    end: Option<End>,
    /// By the last word that said how the session stands, it is in a transaction or the like. Errors and answers to
    /// preparations do not say it, and most of them leave it as it was.
    unsettled: bool,
    /// Answers that have ended, counted until it is clear that the server pipelines.
    answers: u8,
    /// Who learns from the connection whether its server does.
    host: Option<Arc<Host>>,
}

impl ReplyFramer {
    /// For a connection whose server `host` wants to learn about.
    pub(crate) fn new(host: Option<Arc<Host>>) -> ReplyFramer {
        ReplyFramer { host, ..ReplyFramer::default() }
    }
}

impl Framer for ReplyFramer {
    fn advance(&mut self, input: &[u8], expected: Expected) -> Result<Framed, PeerFault> {
        let mut consumed = 0;
        loop {
            if self.skip_bytes > 0 {
                let skipped = self.skip_bytes.min(input.len() - consumed);
                self.skip_bytes -= skipped;
                consumed += skipped;
                if self.skip_bytes > 0 {
                    return Ok(Framed { consumed, end: None });
                }
            }
            if !self.goes_on
                && let Some(end) = self.end.take()
            {
                self.place = Place::Start;
                self.begun = false;
                self.answers = self.answers.saturating_add(1);
                return Ok(Framed { consumed, end: Some(end) });
            }
            if self.begun && !self.goes_on && expected != Expected::Nothing {
                consumed = self.behind_plain_packets(input, consumed);
            }
            let rest = input.get(consumed..).unwrap_or_default();
            let Some(header) = Header::parse(rest) else { return Ok(Framed { consumed, end: None }) };
            let payload = rest.get(HEADER_BYTES..).unwrap_or_default();
            if !self.is_due(header.sequence) || expected == Expected::Nothing {
                return self.unasked(header, payload, expected).map(|end| match end {
                    None => Framed { consumed, end: None },
                    Some(end) => Framed { consumed: consumed + HEADER_BYTES + header.payload_bytes, end: Some(end) },
                });
            }
            if !self.goes_on {
                // All that is looked at is at the front of a payload.
                let looked_at = header.payload_bytes.min(STATUS_BYTES_MAX);
                let Some(front) = payload.get(..looked_at) else { return Ok(Framed { consumed, end: None }) };
                self.look(front, header.payload_bytes, expected)?;
            }
            self.goes_on = header.goes_on();
            (self.begun, self.sequence) = (true, header.sequence);
            self.skip_bytes = header.payload_bytes;
            consumed += HEADER_BYTES;
        }
    }

    fn lost(&mut self, in_flight: usize) {
        if let Some(host) = &self.host {
            host.lost(in_flight, self.answers);
        }
    }
}

impl ReplyFramer {
    #[inline]
    fn is_due(&self, sequence: u8) -> bool {
        match self.begun {
            true => sequence == self.sequence.wrapping_add(1),
            false => (1..=COMMAND_PACKETS_MAX).contains(&sequence),
        }
    }

    /// Where the first packet begins, from `at` on, that is not a definition or a row and there as a whole. A loop of its own
    /// because nearly all that is received goes this way.
    #[inline]
    fn behind_plain_packets(&mut self, input: &[u8], mut at: usize) -> usize {
        let mut left = match self.place {
            Place::Definitions { left, rows: true } => left,
            Place::Rows => 0,
            Place::Start | Place::Definitions { .. } => return at,
        };
        while let Some((&[a, b, c, sequence, first], behind)) = input.get(at..).and_then(<[u8]>::split_first_chunk) {
            let payload_bytes = u32::from_le_bytes([a, b, c, 0]) as usize;
            let is_whole = (1..PACKET_PAYLOAD_BYTES_MAX).contains(&payload_bytes) && payload_bytes <= behind.len() + 1;
            let is_plain = first != ERROR_HEADER && (left > 0 || first != EOF_HEADER);
            if !is_whole || !is_plain || sequence != self.sequence.wrapping_add(1) {
                break;
            }
            self.sequence = sequence;
            left = left.saturating_sub(1);
            at += HEADER_BYTES + payload_bytes;
        }
        self.place = if left > 0 { Place::Definitions { left, rows: true } } else { Place::Rows };
        at
    }

    /// Looks at the front of a payload. Afterwards the payload is skipped.
    #[inline]
    fn look(&mut self, front: &[u8], payload_bytes: usize, expected: Expected) -> Result<(), PeerFault> {
        let first = front.first().copied();
        match (self.place, first) {
            (Place::Definitions { left, rows }, Some(_)) if first != Some(ERROR_HEADER) => {
                if payload_bytes >= PACKET_PAYLOAD_BYTES_MAX {
                    return Err(fault("a column's definition of 16 MiB"));
                }
                self.place = match (left - 1, rows) {
                    (0, true) => Place::Rows,
                    (0, false) => {
                        self.end = Some(End::Reply { settled: !self.unsettled, failed: false });
                        Place::Start
                    }
                    (left, rows) => Place::Definitions { left, rows },
                };
            }
            (_, Some(ERROR_HEADER)) => self.end = Some(End::Reply { settled: !self.unsettled, failed: true }),
            (Place::Rows, Some(EOF_HEADER)) if payload_bytes < PACKET_PAYLOAD_BYTES_MAX => self.end_result(front)?,
            (Place::Rows, Some(_)) => {}
            (Place::Start, Some(OK_HEADER)) if expected == Expected::Preparation => self.prepared(front)?,
            (Place::Start, Some(OK_HEADER)) => self.end_result(front)?,
            (Place::Start, Some(LOCAL_INFILE_HEADER)) => {
                return Err(fault("it asks for a file of this machine, which nobody offered"));
            }
            (Place::Start, Some(_)) if expected == Expected::Statement => {
                let count = Cursor::new(front).lenenc().filter(|count| (1..=DEFINITIONS_MAX).contains(count));
                let left = count.ok_or_else(|| fault("a number of columns that cannot be"))?;
                self.place = Place::Definitions { left, rows: true };
            }
            _ => return Err(fault("a packet that is not due")),
        }
        Ok(())
    }

    /// An OK packet: the end of a result, and of the answer unless it says that more results follow.
    fn end_result(&mut self, front: &[u8]) -> Result<(), PeerFault> {
        let mut cursor = Cursor::new(front);
        let mut status = || {
            cursor.bytes(1)?;
            cursor.lenenc()?;
            cursor.lenenc()?;
            cursor.u16().map(StatusFlags::from_bits)
        };
        let status = status().ok_or_else(|| fault("an OK packet that cannot be read"))?;
        if status.contains(StatusFlags::MORE_RESULTS_EXISTS) {
            self.place = Place::Start;
        } else {
            self.unsettled = !status.is_settled();
            self.end = Some(End::Reply { settled: !self.unsettled, failed: false });
        }
        Ok(())
    }

    /// The OK to a preparation tells how many definitions follow: of parameters, then of columns.
    fn prepared(&mut self, front: &[u8]) -> Result<(), PeerFault> {
        let mut cursor = Cursor::new(front);
        let mut counts = || {
            cursor.bytes(1 + 4)?;
            Some(u64::from(cursor.u16()?) + u64::from(cursor.u16()?))
        };
        match counts().ok_or_else(|| fault("an answer to a preparation that cannot be read"))? {
            0 => self.end = Some(End::Reply { settled: !self.unsettled, failed: false }),
            left => self.place = Place::Definitions { left, rows: false },
        }
        Ok(())
    }

    /// A packet that no statement asked for, or out of order: an error is the server's farewell, anything else a fault.
    /// `None`: it is not all there.
    #[cold]
    fn unasked(&mut self, header: Header, payload: &[u8], expected: Expected) -> Result<Option<End>, PeerFault> {
        let Some(&first) = payload.first() else {
            return if header.payload_bytes == 0 { Err(fault("an empty packet that is not due")) } else { Ok(None) };
        };
        let is_farewell = header.sequence == 0 || expected == Expected::Nothing;
        if first != ERROR_HEADER || !is_farewell || header.payload_bytes > FAREWELL_BYTES_MAX {
            return Err(PeerFault(match expected {
                Expected::Nothing => "it answers something that nobody asked".to_owned(),
                _ if self.begun => {
                    format!("a packet with number {} where {} is due", header.sequence, self.sequence.wrapping_add(1))
                }
                _ => format!("an answer that begins with a packet of number {}", header.sequence),
            }));
        }
        let words = payload.get(1..header.payload_bytes);
        Ok(words.map(|words| End::Farewell(Bytes::copy_from_slice(words))))
    }
}

fn fault(words: &str) -> PeerFault {
    PeerFault(words.to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::packet;

    const OK: &[u8] = b"\0\0\0\x02\0\0\0";
    const OK_IN_TRANSACTION: &[u8] = b"\0\0\0\x03\0\0\0";
    const END: &[u8] = b"\xfe\0\0\x02\0\0\0";
    const MORE: &[u8] = b"\xfe\0\0\x0a\0\0\0";
    const ERROR: &[u8] = b"\xff\x28\x04#42000You have an error";

    fn reply(payloads: &[&[u8]]) -> Vec<u8> {
        let (mut out, mut sequence) = (Vec::new(), 1);
        for payload in payloads {
            sequence = packet::append(payload, sequence, &mut out);
        }
        out
    }

    /// What a feed in these chunks ends with, as (offset in the stream, end).
    fn feed(chunks: &[&[u8]], expected: Expected) -> Result<Vec<(usize, End)>, PeerFault> {
        let mut framer = ReplyFramer::default();
        let (mut input, mut offset, mut ends) = (Vec::new(), 0, Vec::new());
        for chunk in chunks {
            input.extend_from_slice(chunk);
            loop {
                let framed = framer.advance(&input, expected)?;
                offset += framed.consumed;
                input.drain(..framed.consumed);
                match framed.end {
                    Some(end) => ends.push((offset, end)),
                    None if framed.consumed == 0 => break,
                    None => {}
                }
                if input.is_empty() {
                    break;
                }
            }
        }
        Ok(ends)
    }

    fn settled(failed: bool) -> End {
        End::Reply { settled: true, failed }
    }

    #[test]
    fn every_split_gives_the_same_ends() {
        let replies = [
            reply(&[OK]),
            reply(&[ERROR]),
            reply(&[b"\x02", b"definition", b"another", b"row", b"\0row", END]),
            reply(&[b"\x01", b"definition", b"row", ERROR]),
            reply(&[b"\x01", b"definition", b"row", MORE, b"\x01", b"definition", END]),
            reply(&[b"\x01", b"definition", MORE, OK_IN_TRANSACTION]),
        ];
        let mut offset = 0;
        let mut expected = Vec::new();
        let ends = [settled(false), settled(true), settled(false), settled(true), settled(false)];
        for (reply, end) in replies.iter().zip(ends.into_iter().chain([End::Reply { settled: false, failed: false }])) {
            offset += reply.len();
            expected.push((offset, end));
        }
        let stream = replies.concat();
        for at in 0..=stream.len() {
            let found = feed(&[&stream[..at], &stream[at..]], Expected::Statement);
            assert_eq!(found, Ok(expected.clone()), "split at {at}");
        }
        let bytes: Vec<&[u8]> = stream.chunks(1).collect();
        assert_eq!(feed(&bytes, Expected::Statement), Ok(expected), "byte by byte");
    }

    #[test]
    fn preparations_end_with_their_last_definition() {
        for (payloads, end) in [
            (&[&b"\0\x01\0\0\0\0\0\0\0\0\0\0"[..]][..], settled(false)),
            (&[b"\0\x01\0\0\0\x01\0\x02\0\0\0\0", b"parameter", b"column", b"column"], settled(false)),
            (&[ERROR], settled(true)),
        ] {
            let stream = reply(payloads);
            for at in 0..=stream.len() {
                let found = feed(&[&stream[..at], &stream[at..]], Expected::Preparation);
                assert_eq!(found, Ok(vec![(stream.len(), end.clone())]), "split at {at}");
            }
        }
    }

    #[test]
    fn what_does_not_say_how_the_session_stands_leaves_it_as_it_was() {
        let stream = [reply(&[OK_IN_TRANSACTION]), reply(&[ERROR]), reply(&[OK]), reply(&[ERROR])].concat();
        let ends = feed(&[&stream], Expected::Statement).unwrap().into_iter().map(|(_, end)| end);
        let unsettled = |failed| End::Reply { settled: false, failed };
        assert_eq!(ends.collect::<Vec<_>>(), [unsettled(false), unsettled(true), settled(false), settled(true)]);

        let mut framer = ReplyFramer { unsettled: true, ..ReplyFramer::default() };
        let preparation = reply(&[b"\0\x01\0\0\0\x01\0\x00\0\0\0\0", b"column"]);
        let framed = framer.advance(&preparation, Expected::Preparation).unwrap();
        assert_eq!(framed.end, Some(unsettled(false)));
    }

    /// A row whose first field has 2^24 bytes begins like the end of the rows.
    #[test]
    fn a_row_that_begins_like_an_end_is_a_row() {
        let mut field = vec![0xFE, 0, 0, 0, 1, 0, 0, 0, 0];
        field.resize(9 + (1 << 24), b'x');
        let stream = reply(&[b"\x01", b"definition", &field, b"row", END]);
        assert_eq!(feed(&[&stream], Expected::Statement), Ok(vec![(stream.len(), settled(false))]));
        let halves = stream.split_at(1 << 24);
        assert_eq!(feed(&[halves.0, halves.1], Expected::Statement), Ok(vec![(stream.len(), settled(false))]));
    }

    #[test]
    fn a_row_as_long_as_a_packet_has_an_empty_one_behind_it() {
        let row = vec![b'x'; PACKET_PAYLOAD_BYTES_MAX];
        let stream = reply(&[b"\x01", b"definition", &row, b"row", END]);
        assert_eq!(feed(&[&stream], Expected::Statement), Ok(vec![(stream.len(), settled(false))]));
    }

    /// More than 255 packets: the numbers begin again.
    #[test]
    fn packet_numbers_wrap() {
        let mut payloads: Vec<&[u8]> = vec![b"\x01", b"definition"];
        payloads.resize(1_000, b"row");
        payloads.push(END);
        let stream = reply(&payloads).repeat(3);
        let ends = feed(&[&stream], Expected::Statement).unwrap();
        assert_eq!(ends.len(), 3);
    }

    /// An answer's numbers go on from those of its command.
    #[test]
    fn the_answer_to_a_command_of_several_packets_begins_later() {
        for begins_with in [2, 3, COMMAND_PACKETS_MAX] {
            let mut stream = Vec::new();
            let mut sequence = begins_with;
            for payload in [&b"\x01"[..], b"definition", b"row", END] {
                sequence = packet::append(payload, sequence, &mut stream);
            }
            packet::append(OK, 1, &mut stream);
            assert_eq!(feed(&[&stream], Expected::Statement).unwrap().len(), 2, "it begins with {begins_with}");
        }
    }

    #[test]
    fn an_end_longer_than_nine_bytes_is_an_end() {
        let long = [END, b"a very long text about what happened, and session state"].concat();
        let stream = reply(&[b"\x01", b"definition", b"row", &long]);
        assert_eq!(feed(&[&stream], Expected::Statement), Ok(vec![(stream.len(), settled(false))]));
    }

    #[test]
    fn an_error_that_answers_nothing_is_a_farewell() {
        let mut farewell = Vec::new();
        packet::append(b"\xff\xbf\x0f#HY000The client was disconnected", 0, &mut farewell);
        let words = Bytes::from_static(b"\xbf\x0f#HY000The client was disconnected");
        for expected in [Expected::Nothing, Expected::Statement] {
            for at in 0..=farewell.len() {
                let ends = feed(&[&farewell[..at], &farewell[at..]], expected);
                assert_eq!(ends, Ok(vec![(farewell.len(), End::Farewell(words.clone()))]), "{expected:?} {at}");
            }
        }
    }

    #[test]
    fn what_no_server_may_say_is_an_error() {
        use Expected::{Nothing, Preparation, Statement};
        for (name, bytes, expected) in [
            ("an answer nobody asked for", reply(&[OK]), Nothing),
            ("a file asked for", reply(&[b"\xfb/etc/passwd"]), Statement),
            ("a file asked for by a preparation", reply(&[b"\xfb/etc/passwd"]), Preparation),
            ("no columns by a long number", reply(&[b"\xfc\0\0"]), Statement),
            ("too many columns", reply(&[b"\xfd\0\0\x01"]), Statement),
            ("an empty packet", reply(&[b""]), Statement),
            ("an end where a result begins", reply(&[END]), Statement),
            ("an OK without a status", reply(&[b"\0\0\0"]), Statement),
            ("a preparation without counts", reply(&[b"\0\x01\0\0\0\x01"]), Preparation),
            ("rows to a preparation", reply(&[b"\x01"]), Preparation),
            ("an answer that begins with a number too high", [&b"\x07\0\0\x42"[..], OK].concat(), Statement),
            ("a packet out of order", [b"\x01\0\0\x02\x01\x07\0\0\x04", OK].concat(), Statement),
            ("a packet with number 0", [&b"\x07\0\0\0"[..], OK].concat(), Statement),
        ] {
            assert!(feed(&[&bytes], expected).is_err(), "{name}: {:?}", feed(&[&bytes], expected));
        }
    }

    proptest! {
        #[test]
        fn noise_is_an_error_or_waits_for_more(
            mut noise in proptest::collection::vec(any::<u8>(), 0..300),
            numbered in any::<bool>(),
            expected in prop_oneof![Just(Expected::Nothing), Just(Expected::Statement), Just(Expected::Preparation)],
        ) {
            if numbered && noise.len() > 4 {
                noise[1..4].copy_from_slice(&[0, 0, 1]);
            }
            let _ = feed(&[&noise], expected);
        }
    }
}
