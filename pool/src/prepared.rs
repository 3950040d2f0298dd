//! Which statements one connection has prepared: bounded, least recently used out first.
//!
//! No I/O. An entry carries the epoch in which it was prepared, so that a late error about an older preparation
//! does not undo a newer one.

use hashbrown::HashMap;

use crate::language::StatementId;

#[derive(Debug)]
struct Entry {
    epoch: u32,
    used: u64,
}

/// The prepared statements of one connection.
#[derive(Debug)]
pub(crate) struct Prepared {
    entries: HashMap<StatementId, Entry>,
    entries_max: usize,
    clock: u64,
    epoch: u32,
}

impl Prepared {
    pub(crate) fn new(entries_max: usize) -> Prepared {
        Prepared { entries: HashMap::new(), entries_max, clock: 0, epoch: 0 }
    }

    /// Notes a use. The epoch it was prepared in, if it is prepared.
    pub(crate) fn touch(&mut self, id: StatementId) -> Option<u32> {
        self.clock += 1;
        let entry = self.entries.get_mut(&id)?;
        entry.used = self.clock;
        Some(entry.epoch)
    }

    /// Notes that `id` is being prepared. The epoch of that.
    pub(crate) fn insert(&mut self, id: StatementId) -> u32 {
        self.clock += 1;
        self.epoch = self.epoch.wrapping_add(1);
        self.entries.insert(id, Entry { epoch: self.epoch, used: self.clock });
        self.epoch
    }

    /// One statement too many, if there is one: the least recently used. A batch may have overshot the limit, so
    /// this is asked until it says `None`, before anything new is prepared.
    pub(crate) fn evict(&mut self) -> Option<StatementId> {
        if self.entries.len() < self.entries_max.max(1) {
            return None;
        }
        // A scan: it runs only when something is prepared that was not, which costs a trip to the server anyway.
        let (&id, _) = self.entries.iter().min_by_key(|(_, entry)| entry.used)?;
        self.entries.remove(&id);
        Some(id)
    }

    /// The server does not know `id` as it was prepared in `epoch`.
    pub(crate) fn forget(&mut self, id: StatementId, epoch: u32) {
        if self.entries.get(&id).is_some_and(|entry| entry.epoch == epoch) {
            self.entries.remove(&id);
        }
    }

    /// The server has dropped all of them.
    pub(crate) fn forget_all(&mut self) {
        self.entries.clear();
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_goes_first() {
        let mut prepared = Prepared::new(2);
        let [a, b, c] = [1, 2, 3].map(StatementId);
        prepared.insert(a);
        assert_eq!(prepared.evict(), None, "1 of 2");
        prepared.insert(b);
        assert!(prepared.touch(a).is_some());
        assert_eq!(prepared.evict(), Some(b), "2 of 2, and one more is to come");
        prepared.insert(c);
        assert_eq!(prepared.touch(b), None);
        assert_eq!(prepared.len(), 2);
    }

    #[test]
    fn a_late_error_does_not_undo_a_newer_preparation() {
        let mut prepared = Prepared::new(2);
        let id = StatementId(7);
        let old = prepared.insert(id);
        prepared.forget(id, old);
        let new = prepared.insert(id);
        prepared.forget(id, old);
        assert_eq!(prepared.touch(id), Some(new));
    }
}
