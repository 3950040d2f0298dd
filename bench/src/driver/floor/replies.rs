//! The answers to a batch, taken apart where they lie in the read buffer.
//!
//! What an answer looks like is the database's business: see `Wire::answer`.

use anyhow::ensure;

use super::Wire;

/// More than a full batch's answers, so that one read can take all of them.
pub(crate) const BUFFER_BYTES: usize = 64 * 1024;

/// One whole answer at the beginning of some bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Answer {
    /// Its only row.
    pub(crate) row: (i32, i32),
    /// Bytes that it takes.
    pub(crate) bytes: usize,
}

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
    pub(super) fn next_row<W: Wire>(&mut self) -> anyhow::Result<Option<(i32, i32)>> {
        let answer = W::answer(self.buffer.get(self.start..self.end).unwrap_or_default())?;
        Ok(answer.map(|answer| {
            self.start = (self.start + answer.bytes).min(self.end);
            answer.row
        }))
    }
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::super::{Query, Socket};
    use super::*;

    /// Its answers are two bytes, which are both the row.
    struct Toy;

    impl Wire for Toy {
        fn open(&self) -> anyhow::Result<(Box<dyn Socket>, Query)> {
            unreachable!("nothing connects")
        }

        fn id_bytes(id: i32) -> [u8; 4] {
            id.to_be_bytes()
        }

        fn answer(bytes: &[u8]) -> anyhow::Result<Option<Answer>> {
            let whole = bytes.first_chunk();
            Ok(whole.map(|[id, number]| Answer { row: (i32::from(*id), i32::from(*number)), bytes: 2 }))
        }

        fn goodbye() -> Vec<u8> {
            Vec::new()
        }
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
            while let Some(row) = replies.next_row::<Toy>()? {
                rows.push(row);
            }
        }
        Ok(rows)
    }

    #[test]
    fn every_cut_gives_the_same_rows() {
        let bytes = [1, 2, 3, 4];
        for cut in 0..=bytes.len() {
            let (front, back) = bytes.split_at(cut);
            let mut replies = Replies::new();
            let rows = feed(&mut replies, [front, back]).expect("the answers are right");
            assert_eq!(rows, [(1, 2), (3, 4)], "cut at {cut}");
            assert!(replies.is_empty());
        }
        let mut replies = Replies::new();
        let rows = feed(&mut replies, bytes.chunks(1)).expect("the answers are right");
        assert_eq!(rows, [(1, 2), (3, 4)], "byte by byte");
    }

    #[test]
    fn more_answers_than_the_buffer_holds_pass_through_it() {
        let answers = 3 * BUFFER_BYTES / 2;
        let bytes = [3, 4].repeat(answers);
        let rows = feed(&mut Replies::new(), bytes.chunks(BUFFER_BYTES / 2 - 1));
        assert_eq!(rows.expect("the answers are right"), vec![(3, 4); answers]);
    }
}
