//! Which statements one connection has prepared: bounded, least recently used out first.
//!
//! No I/O. An entry carries the epoch in which it was prepared, so that a late error about an older preparation
//! does not undo a newer one.

use std::task::Waker;

use hashbrown::HashMap;

use crate::language::{Handle, StatementId};

/// So many statements may be held past the limit between their preparation and their first use. Were those closed to make
/// room, more callers at once than there is room for would close each other's for ever.
const UNUSED_MAX: usize = 128;

/// One that was not used while the others were used so often belongs to nobody any more: who asked for it has vanished. It
/// is more than the statements that usually are in flight, several times over.
const UNUSED_USES_MAX: u64 = 1024;

/// What is known of a statement on this connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Standing {
    /// The server may have it or not: it is prepared anew before it is used, and closed when it makes room.
    Doubtful,
    /// The server was asked to prepare it and has not said yet what it calls it: not to be used or closed before.
    Pending,
    /// The server has named it, and nobody has run it yet.
    Unused,
    /// It is prepared, and nobody has looked yet at what the server said it is.
    Unconfirmed,
    /// It is prepared, and is what it is known to be.
    Confirmed,
}

#[derive(Debug)]
struct Entry {
    standing: Standing,
    /// Where the server names statements.
    handle: Handle,
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
    /// Some may be unconfirmed.
    unconfirmed: bool,
    /// Who waits until a pending statement is not pending any more.
    waiting: Vec<(StatementId, Waker)>,
}

/// What can be done with a statement where the server names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Readiness {
    /// It can be run by this name.
    Ready(Handle),
    /// Somebody has it prepared; the waker is woken when the server has answered.
    Pending,
    /// The same, and too many wait for it already.
    Crowded,
    /// It has to be prepared.
    Missing,
}

impl Prepared {
    pub(crate) fn new(entries_max: usize) -> Prepared {
        Prepared { entries: HashMap::new(), entries_max, clock: 0, epoch: 0, unconfirmed: false, waiting: Vec::new() }
    }

    /// Notes a use. How it stands, if it is prepared.
    #[inline]
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
        self.unconfirmed = true;
        let entry =
            Entry { standing: Standing::Unconfirmed, handle: Handle::default(), epoch: self.epoch, used: self.clock };
        self.entries.insert(id, entry);
    }

    /// Notes a use of `id` where the server names statements. While it is pending `waker` is kept, one of `waiting_max`.
    pub(crate) fn readiness(&mut self, id: StatementId, waker: &Waker, waiting_max: usize) -> Readiness {
        self.clock += 1;
        match self.entries.get_mut(&id) {
            Some(entry) if entry.standing == Standing::Pending => {
                if !self.waiting.iter().any(|(waited, known)| *waited == id && known.will_wake(waker)) {
                    if self.waiting.len() >= waiting_max {
                        return Readiness::Crowded;
                    }
                    self.waiting.push((id, waker.clone()));
                }
                Readiness::Pending
            }
            Some(entry) if entry.standing != Standing::Doubtful => {
                entry.used = self.clock;
                entry.standing = Standing::Confirmed;
                Readiness::Ready(entry.handle)
            }
            _ => Readiness::Missing,
        }
    }

    /// Notes that the server is asked to prepare `id`. If it had it before and that is in doubt, the old name is
    /// returned, to be forgotten first.
    pub(crate) fn insert_pending(&mut self, id: StatementId) -> Option<Handle> {
        let doubtful = self.entries.get(&id).map(|entry| entry.handle);
        self.insert(id);
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.standing = Standing::Pending;
        }
        doubtful
    }

    /// The server has answered the request to prepare `id`: it has a name, or could not be prepared. Who waited for it
    /// is pushed to `wake`.
    pub(crate) fn settle(&mut self, id: StatementId, handle: Option<Handle>, wake: &mut Vec<Waker>) {
        if let Some(entry) = self.entries.get_mut(&id).filter(|entry| entry.standing == Standing::Pending) {
            match handle {
                Some(handle) => {
                    self.clock += 1;
                    (entry.standing, entry.handle, entry.used) = (Standing::Unused, handle, self.clock);
                }
                None => {
                    self.entries.remove(&id);
                }
            }
        }
        let freed = self.waiting.extract_if(.., |(waited, _)| *waited == id);
        wake.extend(freed.map(|(_, waker)| waker));
    }

    /// How many wait for a preparation.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// The connection is lost: who waited here is pushed to `wake`, to try elsewhere.
    pub(crate) fn lose(&mut self, wake: &mut Vec<Waker>) {
        wake.extend(self.waiting.drain(..).map(|(_, waker)| waker));
    }

    /// From here on at most half as many are kept as there are now: the server has no room for so many.
    pub(crate) fn halve(&mut self) {
        self.entries_max = (self.entries.len() / 2).max(1);
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
    pub(crate) fn evict(&mut self, more: usize, since: u64) -> Option<(StatementId, Handle)> {
        if self.entries.len() + more <= self.entries_max.max(1) {
            return None;
        }
        // A scan: it runs only when something is prepared that was not, which costs a trip to the server anyway.
        let many = self.entries.len() + more > self.entries_max.max(1) + UNUSED_MAX;
        let kept = |entry: &Entry| match entry.standing {
            Standing::Pending => true,
            Standing::Unused => !many && self.clock - entry.used <= UNUSED_USES_MAX,
            Standing::Doubtful | Standing::Unconfirmed | Standing::Confirmed => false,
        };
        let old = self.entries.iter().filter(|(_, entry)| entry.used <= since && !kept(entry));
        let (&id, _) = old.min_by_key(|(_, entry)| (entry.standing != Standing::Doubtful, entry.used))?;
        self.entries.remove(&id).map(|entry| (id, entry.handle))
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

    /// Nobody may have looked at what came of those that are unconfirmed, and in a transaction that had failed that was
    /// nothing.
    pub(crate) fn doubt_unconfirmed(&mut self) {
        if !std::mem::take(&mut self.unconfirmed) {
            return;
        }
        for entry in self.entries.values_mut().filter(|entry| entry.standing == Standing::Unconfirmed) {
            entry.standing = Standing::Doubtful;
        }
    }

    /// The server has them, but they are not what they would be if they were prepared now.
    pub(crate) fn doubt_all(&mut self) {
        for entry in self.entries.values_mut().filter(|entry| entry.standing != Standing::Pending) {
            entry.standing = Standing::Doubtful;
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
    use std::sync::Arc;
    use std::task::Wake;

    use super::*;

    struct Sleeper;

    impl Wake for Sleeper {
        fn wake(self: Arc<Self>) {}
    }

    #[test]
    fn what_nobody_has_looked_at_is_prepared_anew() {
        let mut prepared = Prepared::new(2);
        let [a, b, c, _] = IDS;
        prepared.insert(a);
        prepared.confirm(a, prepared.epoch());
        prepared.insert(b);
        prepared.doubt_unconfirmed();
        assert_eq!((prepared.touch(a), prepared.touch(b)), (Some(Standing::Confirmed), None));
        prepared.confirm(b, prepared.epoch());
        assert_eq!(prepared.touch(b), None, "its answer may be older than the doubt");
        prepared.insert(b);
        prepared.insert_pending(c);
        prepared.doubt_unconfirmed();
        assert_eq!((prepared.touch(b), prepared.touch(c)), (None, Some(Standing::Pending)));
    }

    const IDS: [StatementId; 4] = [StatementId(1), StatementId(2), StatementId(3), StatementId(4)];

    #[test]
    fn the_least_recently_used_goes_first() {
        let mut prepared = Prepared::new(2);
        let [a, b, c, _] = IDS;
        prepared.insert(a);
        assert_eq!(prepared.evict(1, prepared.now()), None, "1 of 2");
        prepared.insert(b);
        assert!(prepared.touch(a).is_some());
        assert_eq!(prepared.evict(1, prepared.now()), Some((b, Handle(0))), "2 of 2, and one more is to come");
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
        assert_eq!(prepared.evict(2, since), Some((b, Handle(0))));
        assert_eq!(prepared.evict(2, since), None, "3 of 2, for a while");
        prepared.insert(c);
        prepared.insert(d);
        assert_eq!(prepared.len(), 3);
        let evicted: Vec<_> = std::iter::from_fn(|| prepared.evict(1, prepared.now())).map(|(id, _)| id).collect();
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
    fn a_pending_statement_is_neither_used_nor_closed_and_wakes_who_waits() {
        let mut prepared = Prepared::new(1);
        let [a, b, ..] = IDS;
        let waker = &Waker::from(Arc::new(Sleeper));
        assert_eq!(prepared.readiness(a, waker, 8), Readiness::Missing);
        assert_eq!(prepared.insert_pending(a), None);
        assert_eq!(prepared.readiness(a, waker, 8), Readiness::Pending);
        assert_eq!(prepared.readiness(a, waker, 8), Readiness::Pending, "the same waker is kept once");
        let other = &Waker::from(Arc::new(Sleeper));
        assert_eq!((prepared.readiness(a, other, 1), prepared.waiting()), (Readiness::Crowded, 1), "one waits already");
        assert_eq!(prepared.evict(1, prepared.now()), None, "its name is not known yet");
        let mut wake = Vec::new();
        prepared.settle(b, None, &mut wake);
        assert_eq!(wake.len(), 0, "another one's answer");
        prepared.settle(a, Some(Handle(7)), &mut wake);
        assert_eq!(wake.len(), 1);
        assert_eq!(prepared.evict(1, prepared.now()), None, "who asked for it has not run it yet");
        assert_eq!(prepared.readiness(a, waker, 8), Readiness::Ready(Handle(7)));
        assert_eq!(prepared.evict(1, prepared.now()), Some((a, Handle(7))));
    }

    #[test]
    fn what_nobody_comes_for_is_closed_in_the_end() {
        let mut prepared = Prepared::new(1);
        let [a, b, ..] = IDS;
        for id in [a, b] {
            prepared.insert_pending(id);
            prepared.settle(id, Some(Handle(7)), &mut Vec::new());
        }
        for _ in 0..UNUSED_USES_MAX {
            assert!(matches!(prepared.readiness(b, Waker::noop(), 8), Readiness::Ready(_)));
            prepared.insert(b);
        }
        assert_eq!(prepared.evict(0, prepared.now()), Some((a, Handle(7))));
    }

    #[test]
    fn what_could_not_be_prepared_or_is_in_doubt_is_prepared_anew() {
        let mut prepared = Prepared::new(4);
        let [a, ..] = IDS;
        let (waker, mut wake) = (Waker::noop(), Vec::new());
        prepared.insert_pending(a);
        prepared.settle(a, None, &mut wake);
        assert_eq!(prepared.readiness(a, waker, 8), Readiness::Missing);
        prepared.insert_pending(a);
        prepared.settle(a, Some(Handle(3)), &mut wake);
        prepared.forget(a, prepared.epoch());
        assert_eq!(prepared.readiness(a, waker, 8), Readiness::Missing);
        assert_eq!(prepared.insert_pending(a), Some(Handle(3)), "the old name is forgotten first");
    }

    #[test]
    fn what_is_doubtful_is_closed_first() {
        let mut prepared = Prepared::new(2);
        let [a, b, ..] = IDS;
        prepared.insert(a);
        prepared.insert(b);
        prepared.forget(b, prepared.epoch());
        assert_eq!(prepared.len(), 1);
        assert_eq!(prepared.evict(1, prepared.now()), Some((b, Handle(0))), "the server may have it, so it is closed");
        assert_eq!(prepared.evict(1, prepared.now()), None);
    }
}
