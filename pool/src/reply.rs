//! `Reply`: what the server answered to one statement, as it came.
//!
//! Small replies of one read share one block, copied at once: to copy each by itself cost a lookup a tenth of its
//! instructions, most of them in the allocator. Whoever keeps a small reply keeps its block, of [`BLOCK_BYTES_MAX`] at most. A
//! larger one is by itself. It does not know what the bytes mean.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use bytes::Bytes;

/// What a kept reply may keep in memory besides itself. A row of 50 bytes that is kept for ever should not cost thousands;
/// and the more replies share a block, the less is left to save.
const BLOCK_BYTES_MAX: usize = 2 * 1024;

/// The bytes of one reply. Clones share them.
#[derive(Clone)]
pub struct Reply(Held);

#[derive(Clone)]
enum Held {
    /// A part of a block.
    Part { block: Arc<[u8]>, begins_at: u32, length: u32 },
    /// Large. Boxed, or every small one would be larger for it.
    Whole(Box<Bytes>),
}

impl Reply {
    /// What is left of it without its first `bytes` bytes.
    #[must_use]
    pub fn behind(self, bytes: usize) -> Reply {
        Reply(match self.0 {
            Held::Part { block, begins_at, length } => {
                let passed = length.min(bytes.try_into().unwrap_or(u32::MAX));
                Held::Part { block, begins_at: begins_at + passed, length: length - passed }
            }
            Held::Whole(mut whole) => {
                let passed = bytes.min(whole.len());
                Held::Whole(Box::new(whole.split_off(passed)))
            }
        })
    }
}

impl Deref for Reply {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Held::Part { block, begins_at, length } => {
                let begins_at = *begins_at as usize;
                block.get(begins_at..begins_at + *length as usize).unwrap_or_default()
            }
            Held::Whole(bytes) => bytes,
        }
    }
}

impl From<Bytes> for Reply {
    fn from(bytes: Bytes) -> Reply {
        Reply(Held::Whole(Box::new(bytes)))
    }
}

impl PartialEq for Reply {
    fn eq(&self, other: &Reply) -> bool {
        **self == **other
    }
}

impl Eq for Reply {}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Reply").field(&Bytes::copy_from_slice(self)).finish()
    }
}

/// Copies small replies off the front of the input, together with those behind them.
#[derive(Debug, Default)]
pub(crate) struct Copier {
    /// From `at` on it holds what the input begins with.
    block: Option<Arc<[u8]>>,
    at: usize,
}

impl Copier {
    /// The reply that is the first `length` bytes of `input`, which has as many and less than 4 GiB. They leave the input
    /// then.
    #[inline]
    pub(crate) fn copy_front(&mut self, input: &[u8], length: usize) -> Reply {
        let (begins_at, ends_at) = (self.at, self.at + length);
        let block = match &self.block {
            Some(block) if ends_at < block.len() => Arc::clone(block),
            _ => return self.copy_edge(input, length),
        };
        self.at = ends_at;
        Reply(Held::Part { block, begins_at: begins_at as u32, length: length as u32 })
    }

    /// The last reply of a block, which takes it over, or the first of another.
    #[cold]
    fn copy_edge(&mut self, input: &[u8], length: usize) -> Reply {
        let block = self.block.take().filter(|block| block.len() - self.at == length);
        let block = block.unwrap_or_else(|| {
            self.at = 0;
            // What does not leave room for another as large shares nothing.
            let together = if length <= BLOCK_BYTES_MAX / 2 { input.len().min(BLOCK_BYTES_MAX) } else { length };
            Arc::from(&input[..together])
        });
        let begins_at = self.at;
        self.at += length;
        if self.at < block.len() {
            self.block = Some(Arc::clone(&block));
        }
        Reply(Held::Part { block, begins_at: begins_at as u32, length: length as u32 })
    }

    /// The input begins elsewhere, or more of it is there: what comes next is copied anew.
    pub(crate) fn begin_anew(&mut self) {
        self.block = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cuts `input` into replies of these lengths.
    fn cut(input: &[u8], lengths: &[usize]) -> Vec<Reply> {
        let (mut copier, mut at) = (Copier::default(), 0);
        let each = lengths.iter().map(|&length| {
            let reply = copier.copy_front(&input[at..], length);
            assert_eq!(*reply, input[at..at + length], "{length} bytes at {at}");
            at += length;
            reply
        });
        each.collect()
    }

    fn block(reply: &Reply) -> &Arc<[u8]> {
        match &reply.0 {
            Held::Part { block, .. } => block,
            Held::Whole(_) => panic!("a copied reply is a part of a block"),
        }
    }

    #[test]
    fn replies_are_what_was_read_and_share_small_blocks() {
        let input: Vec<u8> = (0..20_000).map(|at| (at % 251) as u8).collect();
        let lengths = [48, 1, 0, 500, 2_000, 48, 1_024, 1_025, 900, 900, 900, 5_000, 48];
        let replies = cut(&input, &lengths);
        for (reply, length) in replies.iter().zip(lengths) {
            assert!(block(reply).len() <= BLOCK_BYTES_MAX.max(length), "{length} bytes keep {}", block(reply).len());
        }
        assert!(Arc::ptr_eq(block(&replies[0]), block(&replies[3])), "549 bytes are one block");
        assert_eq!(block(&replies[11]).len(), 5_000);
    }

    #[test]
    fn the_front_of_a_reply_is_left_behind() {
        for reply in
            [Copier::default().copy_front(b"frontend, and more", 8), Reply::from(Bytes::from_static(b"frontend"))]
        {
            assert_eq!(*reply.clone().behind(0), *b"frontend");
            assert_eq!(*reply.clone().behind(5), *b"end");
            assert_eq!(*reply.clone().behind(9), *b"");
            assert_eq!(*reply.behind(5).behind(2), *b"d");
        }
    }

    #[test]
    fn a_reply_alone_keeps_nothing_else() {
        let mut copier = Copier::default();
        let reply = copier.copy_front(b"alone", 5);
        assert!(copier.block.is_none(), "the block is the reply's own");
        assert_eq!((block(&reply).len(), Arc::strong_count(block(&reply))), (5, 1));
    }

    #[test]
    fn what_came_since_is_copied_anew() {
        let mut copier = Copier::default();
        assert_eq!(*copier.copy_front(b"onetw", 3), *b"one");
        copier.begin_anew();
        assert_eq!(*copier.copy_front(b"two", 3), *b"two");
    }
}
