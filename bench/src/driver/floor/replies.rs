//! The answers to a batch, taken apart where they lie in the read buffer.
//!
//! It knows the one shape these answers have (BindComplete, DataRow with two `int4`, CommandComplete, ReadyForQuery)
//! and calls everything else an error.

use anyhow::{Context, anyhow, bail, ensure};
use bytes::BytesMut;
use postgres_protocol::message::backend;

use super::login::server_error;

/// More than a full batch's answers, so that one read can take all of them.
const BUFFER_BYTES: usize = 64 * 1024;

/// A tag and a length, which counts itself but not the tag.
const HEADER_BYTES: usize = 5;

pub(super) struct Replies {
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

impl Replies {
    pub(super) fn new() -> Self {
        Self { buffer: vec![0; BUFFER_BYTES], start: 0, end: 0 }
    }

    /// Where the next read may put its bytes.
    pub(super) fn space(&mut self) -> anyhow::Result<&mut [u8]> {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        let space = self.buffer.get_mut(self.end..).unwrap_or_default();
        ensure!(!space.is_empty(), "an answer is larger than {BUFFER_BYTES} bytes");
        Ok(space)
    }

    /// The last read put so many bytes into `space`.
    pub(super) fn arrived(&mut self, bytes: usize) {
        self.end = (self.end + bytes).min(self.buffer.len());
    }

    pub(super) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// The next whole answer's row, or `None` until more has arrived.
    pub(super) fn next_row(&mut self) -> anyhow::Result<Option<(i32, i32)>> {
        let mut rest = self.buffer.get(self.start..self.end).unwrap_or_default();
        let mut row = None;
        while let Some(message) = Message::first_of(rest)? {
            match message.tag {
                b'2' | b'C' => {}
                b'D' => {
                    ensure!(row.is_none(), "more than one row for an id");
                    row = Some(two_integers(message.body).context("a row of another shape")?);
                }
                b'Z' => {
                    self.start = self.end - message.after.len();
                    return row.map(Some).context("no row for an id that exists");
                }
                b'E' => return Err(error_response(rest)),
                tag => bail!("an unexpected message {:?}", char::from(tag)),
            }
            rest = message.after;
        }
        Ok(None)
    }
}

/// One message, and the bytes that come after it.
struct Message<'bytes> {
    tag: u8,
    body: &'bytes [u8],
    after: &'bytes [u8],
}

impl<'bytes> Message<'bytes> {
    /// `None` until the message is whole.
    fn first_of(bytes: &'bytes [u8]) -> anyhow::Result<Option<Self>> {
        let Some((&[tag, a, b, c, d], after)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
            return Ok(None);
        };
        let body_bytes = (u32::from_be_bytes([a, b, c, d]) as usize)
            .checked_sub(HEADER_BYTES - 1)
            .context("a message with an impossible length")?;
        ensure!(body_bytes <= BUFFER_BYTES - HEADER_BYTES, "an answer is larger than {BUFFER_BYTES} bytes");
        let split = after.split_at_checked(body_bytes);
        Ok(split.map(|(body, after)| Self { tag, body, after }))
    }
}

fn error_response(bytes: &[u8]) -> anyhow::Error {
    match backend::Message::parse(&mut BytesMut::from(bytes)) {
        Ok(Some(backend::Message::ErrorResponse(body))) => server_error(body.fields()),
        _ => anyhow!("the server sent a broken error"),
    }
}

/// A DataRow's two `int4` columns, in binary.
fn two_integers(body: &[u8]) -> Option<(i32, i32)> {
    const COLUMNS: [u8; 2] = 2_u16.to_be_bytes();
    const INTEGER_BYTES: [u8; 4] = 4_u32.to_be_bytes();
    let rest = body.strip_prefix(&COLUMNS)?;
    let (id, rest) = rest.strip_prefix(&INTEGER_BYTES)?.split_first_chunk()?;
    let (number, rest) = rest.strip_prefix(&INTEGER_BYTES)?.split_first_chunk()?;
    rest.is_empty().then(|| (i32::from_be_bytes(*id), i32::from_be_bytes(*number)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(tag: u8, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len() + 4).expect("a short message");
        [&[tag][..], &length.to_be_bytes(), body].concat()
    }

    fn row(id: i32, number: i32) -> Vec<u8> {
        let body = [&[0, 2, 0, 0, 0, 4][..], &id.to_be_bytes(), &[0, 0, 0, 4], &number.to_be_bytes()];
        message(b'D', &body.concat())
    }

    fn answer(rows: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = message(b'2', b"");
        bytes.extend(rows.concat());
        bytes.extend(message(b'C', b"SELECT 1\0"));
        bytes.extend(message(b'Z', b"I"));
        bytes
    }

    /// Feeds pieces as reads would bring them and takes every row that is whole.
    fn feed<'bytes>(
        replies: &mut Replies,
        pieces: impl IntoIterator<Item = &'bytes [u8]>,
    ) -> anyhow::Result<Vec<(i32, i32)>> {
        let mut rows = Vec::new();
        for piece in pieces {
            let space = replies.space()?;
            let target = space.get_mut(..piece.len()).context("no space")?;
            target.copy_from_slice(piece);
            replies.arrived(piece.len());
            while let Some(row) = replies.next_row()? {
                rows.push(row);
            }
        }
        Ok(rows)
    }

    fn error_of(bytes: &[u8]) -> String {
        let error = feed(&mut Replies::new(), [bytes]).expect_err("the answer is wrong");
        format!("{error:#}")
    }

    #[test]
    fn every_cut_gives_the_same_rows() {
        let bytes = [answer(&[row(1, -5)]), answer(&[row(10_000, 7)])].concat();
        let expected = [(1, -5), (10_000, 7)];
        for cut in 0..=bytes.len() {
            let (front, back) = bytes.split_at(cut);
            let mut replies = Replies::new();
            let rows = feed(&mut replies, [front, back]).expect("the answers are right");
            assert_eq!(rows, expected, "cut at {cut}");
            assert!(replies.is_empty());
        }
        let mut replies = Replies::new();
        let rows = feed(&mut replies, bytes.chunks(1)).expect("the answers are right");
        assert_eq!(rows, expected, "byte by byte");
    }

    #[test]
    fn more_answers_than_the_buffer_holds_pass_through_it() {
        let one = answer(&[row(3, 4)]);
        let answers = 3 * BUFFER_BYTES / one.len();
        let bytes = one.repeat(answers);
        let rows = feed(&mut Replies::new(), bytes.chunks(BUFFER_BYTES / 2));
        assert_eq!(rows.expect("the answers are right"), vec![(3, 4); answers]);
    }

    #[test]
    fn anything_but_one_row_of_two_integers_is_an_error() {
        assert!(error_of(&answer(&[])).contains("no row"));
        assert!(error_of(&answer(&[row(1, 1), row(1, 1)])).contains("more than one row"));
        let null = message(b'D', &[0, 2, 0, 0, 0, 4, 0, 0, 0, 1, 255, 255, 255, 255]);
        assert!(error_of(&answer(&[null])).contains("another shape"));
        assert!(error_of(&message(b'W', b"")).contains("'W'"));
        assert!(error_of(&[b'Z', 0, 0, 0, 3]).contains("impossible length"));
        assert!(error_of(&[b'D', 255, 255, 255, 255]).contains("larger than"));
    }

    #[test]
    fn the_servers_error_is_told_in_its_own_words() {
        let fields = b"SERROR\0C57014\0Mcanceling statement\0\0";
        let error = error_of(&message(b'E', fields));
        assert_eq!(error, "the server says: canceling statement (57014)");
    }
}
