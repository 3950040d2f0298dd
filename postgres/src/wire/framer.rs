//! `ReplyFramer`: where one statement's reply ends and the next begins. It reads no more of a message than it needs
//! for that; what a message says is its reader's business.
//!
//! Two kinds of messages it must know: `ReadyForQuery`, which ends a reply and tells the session's state, and a fatal
//! `ErrorResponse`, after which the server closes the connection.
//!
//! Source: protocol chapters "Extended Query", "Asynchronous Operations" and "Message Formats".

use bytes::Bytes;
use cenote_pool::{End, Expected, Framed, Framer, PeerFault};

use super::backend::{BIND_COMPLETE, SETTLED};

/// The type byte and the length.
const HEADER_BYTES: usize = 5;

/// The longest message there can be: the server's own limit of one allocation (`MaxAllocSize`).
pub(crate) const MESSAGE_BYTES_MAX: usize = 0x3fff_ffff;

/// So much of an error is looked at, to see whether it is fatal, and kept if it is. The severity comes first; an error may
/// quote what a user typed, and so be of any length.
const FAREWELL_BYTES_MAX: usize = 64 << 10;

/// Cuts the stream of one connection into replies.
#[derive(Debug, Default)]
pub(crate) struct ReplyFramer {
    /// What is left of a message that has been passed on in part.
    body_bytes_left: usize,
    /// Whether that message belongs to no statement.
    aside: bool,
    /// Whether the current reply holds an error.
    failed: bool,
}

impl Framer for ReplyFramer {
    fn advance(&mut self, input: &[u8], expected: Expected) -> Result<Framed, PeerFault> {
        let mut consumed = 0;
        if self.body_bytes_left > 0 {
            consumed = self.body_bytes_left.min(input.len());
            self.body_bytes_left -= consumed;
            if self.aside || self.body_bytes_left > 0 {
                return Ok(Framed { consumed, end: self.aside.then_some(End::Aside) });
            }
        }
        if expected != Expected::Nothing {
            consumed = behind_plain_messages(input, consumed);
            if input.get(consumed..).is_some_and(|rest| rest.starts_with(SETTLED)) {
                let end = End::Reply { settled: true, failed: std::mem::take(&mut self.failed) };
                return Ok(Framed { consumed: consumed + SETTLED.len(), end: Some(end) });
            }
        }
        while let Some((tag, length, body)) = split(&input[consumed..])? {
            match tag {
                b'Z' => {
                    let malformed = || PeerFault("a malformed ReadyForQuery".to_owned());
                    // Before the body: with a wrong length there may never be one.
                    if length != HEADER_BYTES + 1 {
                        return Err(malformed());
                    }
                    let Some(&status) = body.first() else { break };
                    if !matches!(status, b'I' | b'T' | b'E') {
                        return Err(malformed());
                    }
                    if expected == Expected::Nothing {
                        return Err(PeerFault("a ReadyForQuery that nothing asked for".to_owned()));
                    }
                    let end = End::Reply { settled: status == b'I', failed: std::mem::take(&mut self.failed) };
                    return Ok(Framed { consumed: consumed + length, end: Some(end) });
                }
                b'E' => {
                    let looked_at = (length - HEADER_BYTES).min(FAREWELL_BYTES_MAX);
                    let Some(front) = body.get(..looked_at) else { break };
                    if is_fatal(front) {
                        let farewell = Bytes::copy_from_slice(front);
                        return Ok(Framed {
                            consumed: consumed + HEADER_BYTES + looked_at,
                            end: Some(End::Farewell(farewell)),
                        });
                    }
                    self.failed |= expected != Expected::Nothing;
                    consumed += self.pass_on(length, input.len() - consumed, expected == Expected::Nothing);
                    if self.aside {
                        return Ok(Framed { consumed, end: Some(End::Aside) });
                    }
                }
                // Notices, parameters and notifications come at any time.
                b'N' | b'S' | b'A' => {
                    consumed += self.pass_on(length, input.len() - consumed, expected == Expected::Nothing);
                    if self.aside {
                        return Ok(Framed { consumed, end: Some(End::Aside) });
                    }
                }
                b'D' | b'C' | b'1' | b'2' | b'3' | b'T' | b't' | b'n' | b'I' | b's' | b'H' | b'd' | b'c' => {
                    if expected == Expected::Nothing {
                        return Err(PeerFault(format!("a message of type {:?} that nothing asked for", tag as char)));
                    }
                    consumed += self.pass_on(length, input.len() - consumed, false);
                }
                b'G' | b'W' => {
                    return Err(PeerFault("it waits for COPY data, which a shared connection never sends".to_owned()));
                }
                _ => return Err(PeerFault(format!("a message of the unknown type {tag:#04x}"))),
            }
        }
        Ok(Framed { consumed, end: None })
    }
}

impl ReplyFramer {
    /// Passes on a message of this length, as much of it as is there; the rest when it comes.
    fn pass_on(&mut self, length: usize, available: usize, aside: bool) -> usize {
        let seen = length.min(available);
        self.body_bytes_left = length - seen;
        self.aside = aside;
        seen
    }
}

/// Where the first message begins, from `at` on, that is not one of the usual messages of a reply (BindComplete,
/// DataRow, CommandComplete) and there as a whole. A loop of its own because nearly all that is received goes this way.
fn behind_plain_messages(input: &[u8], mut at: usize) -> usize {
    if input.get(at..).is_some_and(|rest| rest.starts_with(BIND_COMPLETE)) {
        at += BIND_COMPLETE.len();
    }
    while let Some((&[tag, a, b, c, d], _)) = input.get(at..).and_then(|rest| rest.split_first_chunk()) {
        let length = u32::from_be_bytes([a, b, c, d]) as usize;
        let fits = (4..=MESSAGE_BYTES_MAX).contains(&length) && length < input.len() - at;
        if !fits || !matches!(tag, b'2' | b'D' | b'C') {
            break;
        }
        at += length + 1;
    }
    at
}

/// The front of a message: its type, its length with header, and as much of its body as has come.
type Front<'a> = (u8, usize, &'a [u8]);

#[inline(always)]
fn split(input: &[u8]) -> Result<Option<Front<'_>>, PeerFault> {
    let Some((&[tag, a, b, c, d], body)) = input.split_first_chunk() else { return Ok(None) };
    let length = u32::from_be_bytes([a, b, c, d]) as usize;
    if !(4..=MESSAGE_BYTES_MAX).contains(&length) {
        return Err(PeerFault(format!("a message of {length} bytes")));
    }
    Ok(Some((tag, length + 1, body)))
}

/// Whether an error ends the session: its severity, in the field that is never translated.
fn is_fatal(body: &[u8]) -> bool {
    body.split(|&byte| byte == 0).any(|field| matches!(field, b"VFATAL" | b"VPANIC"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn message(tag: u8, body: &[u8]) -> Vec<u8> {
        let mut bytes = vec![tag];
        bytes.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
        bytes.extend_from_slice(body);
        bytes
    }

    fn reply() -> Vec<u8> {
        let parts = [
            message(b'1', b""),
            message(b'2', b""),
            message(b'N', b"SNOTICE\0VNOTICE\0C00000\0Mhello\0\0"),
            message(b'D', b"\0\x01\0\0\0\x04abcd"),
            message(b'C', b"SELECT 1\0"),
            message(b'Z', b"I"),
        ];
        parts.concat()
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
                    Some(End::Aside) => {}
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

    #[test]
    fn every_split_gives_the_same_ends() {
        let fatal = message(b'E', b"SFATAL\0VFATAL\0C57P01\0Mterminating\0\0");
        let stream = [
            reply(),
            message(b'S', b"TimeZone\0UTC\0"),
            reply(),
            message(b'E', b"SERROR\0VERROR\0\0"),
            message(b'Z', b"T"),
            fatal,
        ]
        .concat();
        let whole = feed(&[&stream], Expected::Statement).unwrap();
        assert_eq!(whole.len(), 4);
        assert!(matches!(whole[2].1, End::Reply { settled: false, failed: true }));
        assert!(matches!(whole[3].1, End::Farewell(_)));
        for at in 0..=stream.len() {
            assert_eq!(feed(&[&stream[..at], &stream[at..]], Expected::Statement).unwrap(), whole, "split at {at}");
        }
        let bytes: Vec<&[u8]> = stream.chunks(1).collect();
        assert_eq!(feed(&bytes, Expected::Statement).unwrap(), whole, "byte by byte");
    }

    #[test]
    fn an_aside_that_began_while_idle_never_joins_the_next_reply() {
        let notification = message(b'A', &[b'x'; 300]);
        let mut framer = ReplyFramer::default();
        let first = framer.advance(&notification[..100], Expected::Nothing).unwrap();
        assert_eq!(first, Framed { consumed: 100, end: Some(End::Aside) });
        let rest = [&notification[100..], &reply()].concat();
        let second = framer.advance(&rest, Expected::Statement).unwrap();
        assert_eq!(second, Framed { consumed: notification.len() - 100, end: Some(End::Aside) });
        let third = framer.advance(&rest[second.consumed..], Expected::Statement).unwrap();
        assert_eq!(third, Framed { consumed: reply().len(), end: Some(End::Reply { settled: true, failed: false }) });
    }

    #[test]
    fn what_no_server_may_say_is_an_error() {
        use Expected::{Nothing, Statement};
        for (name, bytes, expected) in [
            ("a length below 4", &b"D\0\0\0\x03"[..], Statement),
            ("a length past the server's own limit", b"D\x7f\xff\xff\xff", Statement),
            ("an unknown type", b"?\0\0\0\x04", Statement),
            ("a row nobody asked for", b"D\0\0\0\x06\0\0", Nothing),
            ("a ready nobody asked for", b"Z\0\0\0\x05I", Nothing),
            ("an unknown session state", b"Z\0\0\0\x05X", Statement),
            ("a long ready", b"Z\0\0\0\x06II", Statement),
            ("a ready without a state", b"Z\0\0\0\x04", Statement),
            ("COPY IN", b"G\0\0\0\x07\0\0\0", Statement),
            ("authentication in mid-session", b"R\0\0\0\x08\0\0\0\0", Statement),
        ] {
            assert!(feed(&[bytes], expected).is_err(), "{name}");
        }
    }

    proptest! {
        #[test]
        fn noise_is_an_error_or_waits_for_more(noise in proptest::collection::vec(any::<u8>(), 0..300), owed in any::<bool>()) {
            let _ = feed(&[&noise], if owed { Expected::Statement } else { Expected::Nothing });
        }
    }
}
