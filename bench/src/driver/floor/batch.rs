//! A batch of lookups, encoded once. Only the ids are written anew each time.

use std::ops::Range;

use anyhow::{Context, ensure};

use crate::driver::turn::Ids;

/// An id in binary, on both databases.
pub(crate) const ID_BYTES: usize = 4;

/// One lookup as bytes, and where in them its id stands.
#[derive(Debug)]
pub(crate) struct Query {
    bytes: Vec<u8>,
    place: Range<usize>,
}

impl Query {
    /// Finds the id's place in what `encode` makes of an id.
    pub(crate) fn from_encoder(encode: impl Fn(i32) -> anyhow::Result<Vec<u8>>) -> anyhow::Result<Self> {
        let bytes = encode(0)?;
        // All bits of -1 are set and none of 0, so the first byte that differs is the id's first.
        let place = encode(-1)?
            .iter()
            .zip(&bytes)
            .position(|(ones, zeros)| ones != zeros)
            .context("the id has no place in its query")?;
        let place = place..place + ID_BYTES;
        ensure!(place.end <= bytes.len(), "the id's place is outside its query");
        Ok(Self { bytes, place })
    }
}

pub(super) struct Batch {
    bytes: Vec<u8>,
    query: Query,
    ids: Vec<i32>,
}

impl Batch {
    pub(super) fn of(queries: usize, query: Query) -> Self {
        Self { bytes: query.bytes.repeat(queries), query, ids: vec![0; queries] }
    }

    /// Puts new ids in place and returns what to send.
    pub(super) fn draw(&mut self, ids: &mut Ids, id_bytes: impl Fn(i32) -> [u8; ID_BYTES]) -> anyhow::Result<&[u8]> {
        let queries = self.bytes.chunks_exact_mut(self.query.bytes.len());
        for (query, id) in queries.zip(&mut self.ids) {
            *id = ids.next_id();
            query
                .get_mut(self.query.place.clone())
                .context("the id's place is outside its query")?
                .copy_from_slice(&id_bytes(*id));
        }
        Ok(&self.bytes)
    }

    /// The ids last drawn, in the order in which they are sent.
    pub(super) fn ids(&self) -> &[i32] {
        &self.ids
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::world::ROWS;

    fn encode(id: i32) -> anyhow::Result<Vec<u8>> {
        Ok([b"look up ", &id.to_be_bytes()[..], b"!"].concat())
    }

    #[test]
    fn drawn_bytes_are_what_encoding_each_id_gives() {
        let query = Query::from_encoder(encode).expect("the id has a place");
        let mut batch = Batch::of(32, query);
        for seed in 0..3 {
            let mut ids = Ids::seeded(seed);
            let sent = batch.draw(&mut ids, i32::to_be_bytes).expect("the id has a place").to_vec();
            let encoded: Vec<_> = batch.ids().iter().flat_map(|id| encode(*id).expect("it cannot fail")).collect();
            assert_eq!(sent, encoded);
            assert!(batch.ids().iter().all(|id| (1..=ROWS).contains(id)));
        }
    }

    #[test]
    fn a_query_without_a_whole_id_is_refused() {
        assert!(Query::from_encoder(|_| Ok(b"look up".to_vec())).is_err());
        assert!(Query::from_encoder(|id| Ok(id.to_be_bytes().into_iter().take(3).collect())).is_err());
    }
}
