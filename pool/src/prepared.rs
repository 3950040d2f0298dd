//! Which statements one connection has prepared: bounded, least recently used out first.
//!
//! No I/O. An entry carries the epoch in which it was prepared, so that a late error about an older preparation
//! does not undo a newer one.

use hashbrown::HashMap;

use crate::language::StatementId;

/// What is known of a statement on this connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Standing {
    /// The server may have it or not: it is prepared anew before it is used, and closed when it makes room.
    Doubtful,
    /// It is prepared, and nobody has looked yet at what the server said it is.
    Unconfirmed,
    /// It is prepared, and is what it is known to be.
    Confirmed,
}

#[derive(Debug)]
struct Entry {
    standing: Standing,
    epoch: u64,
    used: u64,
}

/// The prepared statements of one connection.
#[derive(Debug)]
pub(crate) struct Prepared {
    entries: HashMap<StatementId, Entry>,
    entries_max: usize,
    clock: u64,
    epoch: u64,
}

impl Prepared {
    pub(crate) fn new(entries_max: usize) -> Prepared {
        Prepared { entries: HashMap::new(), entries_max, clock: 0, epoch: 0 }
    }

    /// Notes a use. How it stands, if it is prepared.
    pub(crate) fn touch(&mut self, id: StatementId) -> Option<Standing> {
        self.clock += 1;
        let entry = self.entries.get_mut(&id).filter(|entry| entry.standing != Standing::Doubtful)?;
        entry.used = self.clock;
        Some(entry.standing)
    }

    /// Notes that `id` is being prepared.
    pub(crate) fn insert(&mut self, id: StatementId) {
        self.clock += 1;
        self.epoch += 1;
        self.entries.insert(id, Entry { standing: Standing::Unconfirmed, epoch: self.epoch, used: self.clock });
    }

    /// The time by its own clock, which each use advances.
    pub(crate) fn now(&self) -> u64 {
        self.clock
    }

    /// The epoch: what is prepared later has a higher one.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// A statement too many, when so many more are to be prepared: a doubtful one, or the least recently used of those
    /// not used since `since`. Asked until it says `None`. A batch may hold more than there is room for; what comes
    /// after it makes up for that.
    pub(crate) fn evict(&mut self, more: usize, since: u64) -> Option<StatementId> {
        if self.entries.len() + more <= self.entries_max.max(1) {
            return None;
        }
        // A scan: it runs only when something is prepared that was not, which costs a trip to the server anyway.
        let old = self.entries.iter().filter(|(_, entry)| entry.used <= since);
        let (&id, _) = old.min_by_key(|(_, entry)| (entry.standing != Standing::Doubtful, entry.used))?;
        self.entries.remove(&id);
        Some(id)
    }

    /// The server may not know `id` as it was prepared up to `epoch`.
    pub(crate) fn forget(&mut self, id: StatementId, epoch: u64) {
        if let Some(entry) = self.entries.get_mut(&id).filter(|entry| entry.epoch <= epoch) {
            entry.standing = Standing::Doubtful;
        }
    }

    /// What the server said of `id` as it was prepared up to `epoch` is what is known of it.
    pub(crate) fn confirm(&mut self, id: StatementId, epoch: u64) {
        // Doubt is not lifted: the answer may be older than the doubt.
        let known = |entry: &&mut Entry| entry.epoch <= epoch && entry.standing != Standing::Doubtful;
        if let Some(entry) = self.entries.get_mut(&id).filter(known) {
            entry.standing = Standing::Confirmed;
        }
    }

    /// The server has dropped all of them.
    pub(crate) fn forget_all(&mut self) {
        self.entries.clear();
    }

    /// Statements that are prepared.
    pub(crate) fn len(&self) -> usize {
        self.entries.values().filter(|entry| entry.standing != Standing::Doubtful).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDS: [StatementId; 4] = [StatementId(1), StatementId(2), StatementId(3), StatementId(4)];

    #[test]
    fn the_least_recently_used_goes_first() {
        let mut prepared = Prepared::new(2);
        let [a, b, c, _] = IDS;
        prepared.insert(a);
        assert_eq!(prepared.evict(1, prepared.now()), None, "1 of 2");
        prepared.insert(b);
        assert!(prepared.touch(a).is_some());
        assert_eq!(prepared.evict(1, prepared.now()), Some(b), "2 of 2, and one more is to come");
        prepared.insert(c);
        assert_eq!(prepared.touch(b), None);
        assert_eq!(prepared.len(), 2);
    }

    #[test]
    fn what_is_about_to_be_used_makes_no_room() {
        let mut prepared = Prepared::new(2);
        let [a, b, c, d] = IDS;
        prepared.insert(a);
        prepared.insert(b);
        let since = prepared.now();
        prepared.touch(a);
        assert_eq!(prepared.evict(2, since), Some(b));
        assert_eq!(prepared.evict(2, since), None, "3 of 2, for a while");
        prepared.insert(c);
        prepared.insert(d);
        assert_eq!(prepared.len(), 3);
        let evicted: Vec<_> = std::iter::from_fn(|| prepared.evict(1, prepared.now())).collect();
        assert_eq!(evicted, [a, c], "the next one makes up for it");
    }

    #[test]
    fn a_late_word_does_not_change_a_newer_preparation() {
        let mut prepared = Prepared::new(2);
        let [id, other, ..] = IDS;
        prepared.insert(id);
        let old = prepared.epoch();
        prepared.forget(id, old);
        assert_eq!((prepared.touch(id), prepared.len()), (None, 0));
        prepared.insert(id);
        prepared.forget(id, old);
        prepared.confirm(id, old);
        assert_eq!(prepared.touch(id), Some(Standing::Unconfirmed));
        // Of several statements sent at once, each is meant, whenever it was prepared.
        prepared.insert(other);
        prepared.confirm(id, prepared.epoch());
        assert_eq!(prepared.touch(id), Some(Standing::Confirmed));
        prepared.forget(id, prepared.epoch());
        prepared.confirm(id, prepared.epoch());
        assert_eq!(prepared.touch(id), None, "doubt stays until it is prepared anew");
    }

    #[test]
    fn what_is_doubtful_is_closed_first() {
        let mut prepared = Prepared::new(2);
        let [a, b, ..] = IDS;
        prepared.insert(a);
        prepared.insert(b);
        prepared.forget(b, prepared.epoch());
        assert_eq!(prepared.len(), 1);
        assert_eq!(prepared.evict(1, prepared.now()), Some(b), "the server may have it, so it is closed");
        assert_eq!(prepared.evict(1, prepared.now()), None);
    }
}
