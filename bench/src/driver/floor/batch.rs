//! A batch of lookups, encoded once: Bind, Execute and Sync for each. Only the ids are written anew each time.

use std::ops::Range;

use anyhow::Context;
use bytes::BytesMut;
use postgres_protocol::IsNull;
use postgres_protocol::message::frontend;

use super::login::STATEMENT;
use crate::driver::turn::Ids;

/// Format code of a binary parameter or column.
const BINARY: i16 = 1;

/// An `int4` in binary.
const ID_BYTES: usize = 4;

pub(super) struct Batch {
    bytes: Vec<u8>,
    query_bytes: usize,
    /// Where in each query its id stands.
    place: Range<usize>,
    ids: Vec<i32>,
}

impl Batch {
    pub(super) fn of(queries: usize) -> anyhow::Result<Self> {
        let query = encode(0)?;
        // All bits of -1 are set and none of 0, so the first byte that differs is the id's first.
        let place = encode(-1)?
            .iter()
            .zip(&query)
            .position(|(ones, zeros)| ones != zeros)
            .context("the id has no place in its query")?;
        Ok(Self {
            bytes: query.repeat(queries),
            query_bytes: query.len(),
            place: place..place + ID_BYTES,
            ids: vec![0; queries],
        })
    }

    /// Puts new ids in place and returns what to send.
    pub(super) fn draw(&mut self, ids: &mut Ids) -> anyhow::Result<&[u8]> {
        let queries = self.bytes.chunks_exact_mut(self.query_bytes);
        for (query, id) in queries.zip(&mut self.ids) {
            *id = ids.next_id();
            query
                .get_mut(self.place.clone())
                .context("the id's place is outside its query")?
                .copy_from_slice(&id.to_be_bytes());
        }
        Ok(&self.bytes)
    }

    /// The ids last drawn, in the order in which they are sent.
    pub(super) fn ids(&self) -> &[i32] {
        &self.ids
    }
}

fn encode(id: i32) -> anyhow::Result<Vec<u8>> {
    let mut bytes = BytesMut::new();
    frontend::bind(
        "",
        STATEMENT,
        [BINARY],
        [id],
        |id, buffer| {
            buffer.extend_from_slice(&id.to_be_bytes());
            Ok(IsNull::No)
        },
        [BINARY],
        &mut bytes,
    )
    .map_err(|_| anyhow::anyhow!("cannot encode Bind"))?;
    frontend::execute("", 0, &mut bytes).context("cannot encode Execute")?;
    frontend::sync(&mut bytes);
    Ok(bytes.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::world::ROWS;

    #[test]
    fn drawn_bytes_are_what_encoding_each_id_gives() {
        let mut batch = Batch::of(32).expect("the messages are short");
        for seed in 0..3 {
            let mut ids = Ids::seeded(seed);
            let sent = batch.draw(&mut ids).expect("the id has a place").to_vec();
            let encoded: Vec<_> =
                batch.ids().iter().flat_map(|id| encode(*id).expect("the messages are short")).collect();
            assert_eq!(sent, encoded);
            assert!(batch.ids().iter().all(|id| (1..=ROWS).contains(id)));
        }
    }
}
