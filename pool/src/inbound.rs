//! The way in: bytes as they arrive, cut into replies.
//!
//! No I/O: the driver of the lane puts bytes into [`Inbound::buffer`] and asks for [`Inbound::next`] until it says
//! that nothing more is whole. A reply is cut out as it stands; only its reader decodes it.

use bytes::{Bytes, BytesMut};

use crate::language::{End, Expected, Framer, PeerFault};
use crate::limits::{
    BUFFER_BYTES_KEPT, COPIED_REPLY_BYTES_MAX, PREPARATION_BYTES_MAX, READ_BUFFER_BYTES, READ_ROOM_BYTES_MIN,
};
use crate::reply::{Copier, Reply};

/// What was cut from the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// One whole reply; `None` when it was dropped for its size or because nobody waits for it.
    Reply {
        /// The reply as the server sent it.
        bytes: Option<Reply>,
        /// Whether the session may serve a stranger now.
        settled: bool,
        /// Whether it holds an error.
        failed: bool,
    },
    /// Why the server will close the connection.
    Farewell(Bytes),
}

/// The way in of one connection.
#[derive(Debug)]
pub struct Inbound<F> {
    framer: F,
    input: BytesMut,
    /// Bytes at the front of `input` that were dealt with.
    done: usize,
    /// Bytes behind those that the framer has seen.
    seen: usize,
    copier: Copier,
    dropping: bool,
    reply_bytes_max: usize,
}

impl<F: Framer> Inbound<F> {
    /// Starts behind the log-in. `input` is what the server has sent since.
    pub fn new(framer: F, input: BytesMut, reply_bytes_max: usize) -> Inbound<F> {
        Inbound { framer, input, done: 0, seen: 0, copier: Copier::default(), dropping: false, reply_bytes_max }
    }

    /// The buffer to read into, with room for a read that is worth its system call.
    pub fn buffer(&mut self) -> &mut BytesMut {
        self.copier.begin_anew();
        self.let_go_of_done();
        if self.input.is_empty() && self.input.capacity() > BUFFER_BYTES_KEPT {
            self.input = BytesMut::new();
        }
        if self.input.capacity() - self.input.len() < READ_ROOM_BYTES_MIN {
            // No more than fits into the block there is, beside the part of a reply that has come: then that is moved to
            // its front, and nothing is allocated.
            self.input.reserve(READ_BUFFER_BYTES.saturating_sub(self.input.len()).max(READ_ROOM_BYTES_MIN));
        }
        &mut self.input
    }

    /// The next event, or `None` when more input is needed.
    ///
    /// # Errors
    ///
    /// When the server broke the protocol; the connection is of no further use.
    pub fn next(&mut self, expected: Expected) -> Result<Option<Event>, PeerFault> {
        loop {
            let rest = self.input.get(self.done + self.seen..).unwrap_or_default();
            if rest.is_empty() {
                return Ok(None);
            }
            let framed = self.framer.advance(rest, expected)?;
            if framed.consumed > rest.len() {
                return Err(PeerFault("the framer ran past the input".to_owned()));
            }
            self.seen += framed.consumed;
            let bytes_max = match expected {
                Expected::Preparation => self.reply_bytes_max.max(PREPARATION_BYTES_MAX),
                Expected::Statement | Expected::Nothing => self.reply_bytes_max,
            };
            match framed.end {
                Some(End::Reply { settled, failed }) => {
                    return Ok(Some(Event::Reply { bytes: self.cut_reply(bytes_max), settled, failed }));
                }
                Some(End::Farewell(bytes)) => return Ok(Some(Event::Farewell(bytes))),
                Some(End::Aside) => self.drop_seen(),
                None if framed.consumed == 0 => return Ok(None),
                None => {}
            }
            if self.dropping || self.seen > bytes_max {
                self.dropping = true;
                self.drop_seen();
            }
        }
    }

    /// Bytes of the current reply that are held in memory.
    pub fn held_bytes(&self) -> usize {
        self.seen
    }

    /// Whether what is left of the current reply is read and not kept.
    pub fn is_dropping(&self) -> bool {
        self.dropping
    }

    /// Nobody waits for the current reply: read on, keep nothing.
    pub fn drop_current_reply(&mut self) {
        self.dropping = true;
        self.drop_seen();
    }

    /// The server has ended the connection.
    pub fn lost(&mut self, in_flight: usize) {
        self.framer.lost(in_flight);
    }

    fn drop_seen(&mut self) {
        self.copier.begin_anew();
        self.done += std::mem::take(&mut self.seen);
    }

    fn let_go_of_done(&mut self) {
        bytes::Buf::advance(&mut self.input, std::mem::take(&mut self.done));
    }

    fn cut_reply(&mut self, bytes_max: usize) -> Option<Reply> {
        let too_large = self.seen > bytes_max;
        if self.dropping || too_large {
            self.drop_seen();
            self.dropping = false;
            return None;
        }
        let length = std::mem::take(&mut self.seen);
        if length > COPIED_REPLY_BYTES_MAX {
            self.copier.begin_anew();
            self.let_go_of_done();
            return Some(self.input.split_to(length).freeze().into());
        }
        let reply = self.copier.copy_front(self.input.get(self.done..).unwrap_or_default(), length);
        self.done += length;
        Some(reply)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::language::Framed;

    /// A toy language: a length byte, then that many bytes; 0 ends a reply, 255 is an aside.
    #[derive(Debug, Default)]
    struct Toy {
        skip: usize,
    }

    impl Framer for Toy {
        fn advance(&mut self, input: &[u8], expected: Expected) -> Result<Framed, PeerFault> {
            if self.skip > 0 {
                let consumed = self.skip.min(input.len());
                self.skip -= consumed;
                return Ok(Framed { consumed, end: None });
            }
            match input[0] {
                0 if expected == Expected::Nothing => Err(PeerFault("a reply that nobody asked for".to_owned())),
                0 => Ok(Framed { consumed: 1, end: Some(End::Reply { settled: true, failed: false }) }),
                255 => Ok(Framed { consumed: 1, end: Some(End::Aside) }),
                length => {
                    self.skip = length as usize;
                    Ok(Framed { consumed: 1, end: None })
                }
            }
        }
    }

    fn inbound(reply_bytes_max: usize) -> Inbound<Toy> {
        Inbound::new(Toy::default(), BytesMut::new(), reply_bytes_max)
    }

    fn feed(inbound: &mut Inbound<Toy>, chunks: &[&[u8]]) -> Vec<Option<Vec<u8>>> {
        let mut replies = Vec::new();
        for chunk in chunks {
            inbound.buffer().extend_from_slice(chunk);
            while let Some(event) = inbound.next(Expected::Statement).unwrap() {
                let Event::Reply { bytes, settled: true, .. } = event else { panic!("unexpected {event:?}") };
                replies.push(bytes.map(|bytes| bytes.to_vec()));
            }
        }
        replies
    }

    #[test]
    fn a_reply_past_the_cap_is_dropped_and_the_next_one_is_whole() {
        let mut inbound = inbound(8);
        let at_the_cap = b"\x06abcdef\x00";
        let past_it = b"\x07abcdefg\x00";
        let replies = feed(&mut inbound, &[at_the_cap, past_it, at_the_cap]);
        assert_eq!(replies, [Some(at_the_cap.to_vec()), None, Some(at_the_cap.to_vec())]);
    }

    #[test]
    fn the_reply_to_a_preparation_is_kept_past_the_cap() {
        let mut inbound = inbound(2);
        inbound.buffer().extend_from_slice(b"\x06abcdef\x00");
        let event = inbound.next(Expected::Preparation).unwrap();
        assert!(matches!(event, Some(Event::Reply { bytes: Some(bytes), .. }) if bytes.len() == 8));
    }

    #[test]
    fn a_dropped_reply_holds_no_memory() {
        let mut inbound = inbound(usize::MAX);
        inbound.buffer().extend_from_slice(b"\x40half");
        assert_eq!(inbound.next(Expected::Statement), Ok(None));
        assert_eq!(inbound.held_bytes(), 5);
        inbound.drop_current_reply();
        for _ in 0..10 {
            assert_eq!(inbound.held_bytes(), 0);
            inbound.buffer().extend_from_slice(b"abcdef");
            assert_eq!(inbound.next(Expected::Statement), Ok(None));
        }
        inbound.buffer().extend_from_slice(b"\x00\x00");
        assert_eq!(
            inbound.next(Expected::Statement),
            Ok(Some(Event::Reply { bytes: None, settled: true, failed: false }))
        );
        assert_eq!(
            inbound.next(Expected::Statement),
            Ok(Some(Event::Reply { bytes: Some(Bytes::from_static(b"\x00").into()), settled: true, failed: false }))
        );
    }

    #[test]
    fn a_reply_nobody_asked_for_is_the_peers_fault() {
        let mut inbound = inbound(100);
        inbound.buffer().extend_from_slice(b"\x00");
        assert!(inbound.next(Expected::Nothing).is_err());
    }

    proptest! {
        /// However the stream is split, the same replies come out.
        #[test]
        fn splits_do_not_matter(
            replies in proptest::collection::vec(proptest::collection::vec(1_u8..=254, 0..6), 1..12),
            cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..12),
        ) {
            let mut stream = Vec::new();
            let mut whole = Vec::new();
            for lengths in &replies {
                let start = stream.len();
                for &length in lengths {
                    stream.push(length);
                    stream.extend(std::iter::repeat_n(b'x', length as usize));
                }
                stream.push(0);
                whole.push(Some(stream[start..].to_vec()));
            }
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
            cuts.extend([0, stream.len()]);
            cuts.sort_unstable();
            let chunks: Vec<&[u8]> = cuts.windows(2).map(|pair| &stream[pair[0]..pair[1]]).collect();
            prop_assert_eq!(feed(&mut inbound(usize::MAX), &chunks), whole.clone());
            let bytes: Vec<&[u8]> = stream.chunks(1).collect();
            prop_assert_eq!(feed(&mut inbound(usize::MAX), &bytes), whole);
        }
    }
}
