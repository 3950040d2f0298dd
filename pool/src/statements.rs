//! The statements a pool knows: SQL text and parameter signature, mapped to what was learned about them, once for
//! all connections.
//!
//! The first user of a text learns it from the server; those who come meanwhile wait for him alone and stall nobody
//! else. If he fails, they get his error; if he vanishes, one of them takes over. Nothing that failed is kept.
//!
//! It does not know what is learned (`M`), nor what an error is (`E`).

use std::any::Any;
use std::cell::RefCell;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use hashbrown::{Equivalent, HashMap};
use tokio::sync::watch;

use crate::connect::within;
use crate::language::StatementId;

/// Statements known at once. More than any program has by hand; a program that builds SQL text from values finds
/// its bound here.
const STATEMENTS_MAX: usize = 4096;

#[derive(Debug, PartialEq, Eq, Hash)]
struct Key {
    sql: Box<str>,
    signature: Box<[u32]>,
}

#[derive(PartialEq, Eq)]
struct KeyRef<'a> {
    sql: &'a str,
    signature: &'a [u32],
}

impl Hash for KeyRef<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.sql.hash(state);
        self.signature.hash(state);
    }
}

impl Equivalent<Key> for KeyRef<'_> {
    fn equivalent(&self, key: &Key) -> bool {
        *self.sql == *key.sql && *self.signature == *key.signature
    }
}

/// What is told to those who wait; nothing while it is being learned.
type Told<M, E> = Option<Result<Arc<M>, E>>;

#[derive(Debug)]
enum State<M, E> {
    Known(Arc<M>),
    BeingLearned(watch::Receiver<Told<M, E>>),
}

#[derive(Debug)]
struct Entry<M, E> {
    state: State<M, E>,
    /// The value of `insertions` when it was last looked up: an age that costs nothing while nothing is inserted.
    used: AtomicU64,
}

/// The registry of one pool.
#[derive(Debug)]
pub struct Statements<M, E> {
    entries: RwLock<HashMap<Key, Entry<M, E>>>,
    insertions: AtomicU64,
    next_id: AtomicU64,
    /// Tells registries apart in what threads remember.
    number: u64,
    /// Changes when something that was known is known no more.
    version: AtomicU64,
}

/// What a thread remembers of the statements it used last: the way of a query without a lock or a hash. An entry is
/// found by the address of its text, and counts only if the text itself is the same.
struct Recent {
    registry: u64,
    version: u64,
    sql: Box<str>,
    signature: Box<[u32]>,
    /// An `Arc` of what is known.
    known: Box<dyn Any>,
}

/// Entries of [`Recent`] for each thread; more than one handler usually runs.
const RECENT_MAX: usize = 64;

thread_local! {
    static RECENT: RefCell<[Option<Recent>; RECENT_MAX]> = const { RefCell::new([const { None }; RECENT_MAX]) };
}

#[inline]
fn place(sql: &str, signature: &[u32]) -> usize {
    let address = sql.as_ptr() as usize;
    let signature = signature.first().map_or(0, |first| *first as usize);
    (address ^ (address >> 6) ^ sql.len() ^ signature ^ (signature >> 6)) % RECENT_MAX
}

/// What is known of a statement.
#[derive(Debug)]
pub enum Lookup<'a, M: Send + Sync + 'static, E: Clone> {
    /// All there is to know.
    Known(Arc<M>),
    /// Nothing: the caller has to learn it, and others wait for him.
    Learn(Learning<'a, M, E>),
    /// Somebody is learning it.
    Wait(Waiting<M, E>),
}

impl<M: Send + Sync + 'static, E: Clone> Default for Statements<M, E> {
    fn default() -> Statements<M, E> {
        static REGISTRIES: AtomicU64 = AtomicU64::new(0);
        Statements {
            entries: RwLock::default(),
            insertions: AtomicU64::new(0),
            next_id: AtomicU64::new(1),
            number: REGISTRIES.fetch_add(1, Ordering::Relaxed),
            version: AtomicU64::new(0),
        }
    }
}

impl<M: Send + Sync + 'static, E: Clone> Statements<M, E> {
    /// What this thread remembers of `sql` with this parameter signature: the shortest way, for what is used all the time.
    #[inline]
    pub fn recall(&self, sql: &str, signature: &[u32]) -> Option<Arc<M>> {
        let version = self.version.load(Ordering::Acquire);
        RECENT.with_borrow(|recent| {
            let entry = recent.get(place(sql, signature))?.as_ref()?;
            let same = *entry.sql == *sql && *entry.signature == *signature;
            if entry.registry != self.number || entry.version != version || !same {
                return None;
            }
            entry.known.downcast_ref().cloned()
        })
    }

    /// Makes this thread remember what is known of `sql` with this parameter signature.
    pub fn remember(&self, sql: &str, signature: &[u32], known: &Arc<M>) {
        let version = self.version.load(Ordering::Acquire);
        // Looked up once more, so that nothing is remembered that was invalidated meanwhile.
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        match entries.get(&KeyRef { sql, signature }) {
            Some(Entry { state: State::Known(current), .. }) if Arc::ptr_eq(current, known) => {}
            _ => return,
        }
        drop(entries);
        let known = Box::new(Arc::<M>::clone(known));
        let entry = Recent { registry: self.number, version, sql: sql.into(), signature: signature.into(), known };
        let place = place(sql, signature);
        let old = RECENT.with_borrow_mut(|recent| recent.get_mut(place).and_then(|place| place.replace(entry)));
        // Outside of the borrow: this may be the last of it.
        drop(old);
    }

    /// An identity for a statement, never given twice.
    pub fn next_id(&self) -> StatementId {
        StatementId(self.next_id.fetch_add(1, Ordering::Relaxed))
    }

    /// What is known of `sql` with this parameter signature (empty where the caller names no types).
    pub fn look_up(&self, sql: &str, signature: &[u32]) -> Lookup<'_, M, E> {
        let key = KeyRef { sql, signature };
        if let Some(entry) = self.entries.read().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return self.found(entry);
        }
        let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = entries.get(&key) {
            return self.found(entry);
        }
        if entries.len() >= STATEMENTS_MAX {
            Self::evict(&mut entries);
            self.version.fetch_add(1, Ordering::Release);
        }
        let (sender, receiver) = watch::channel(None);
        let used = AtomicU64::new(self.insertions.fetch_add(1, Ordering::Relaxed) + 1);
        let key = Key { sql: sql.into(), signature: signature.into() };
        entries.insert(key, Entry { state: State::BeingLearned(receiver), used });
        Lookup::Learn(Learning { statements: self, sql: sql.into(), signature: signature.into(), sender: Some(sender) })
    }

    fn found(&self, entry: &Entry<M, E>) -> Lookup<'_, M, E> {
        let insertions = self.insertions.load(Ordering::Relaxed);
        if entry.used.load(Ordering::Relaxed) != insertions {
            entry.used.store(insertions, Ordering::Relaxed);
        }
        match &entry.state {
            State::Known(known) => Lookup::Known(Arc::clone(known)),
            State::BeingLearned(receiver) => Lookup::Wait(Waiting(receiver.clone())),
        }
    }

    fn evict(entries: &mut HashMap<Key, Entry<M, E>>) {
        let oldest = entries
            .iter()
            .filter(|(_, entry)| matches!(entry.state, State::Known(_)))
            .map(|(_, entry)| entry.used.load(Ordering::Relaxed))
            .min();
        // All that share the oldest age go at once.
        entries.retain(|_, entry| {
            !matches!(entry.state, State::Known(_)) || Some(entry.used.load(Ordering::Relaxed)) != oldest
        });
    }

    /// What was learned does not hold any more: the next user learns it anew. Does nothing if that has happened
    /// since.
    pub fn invalidate(&self, sql: &str, signature: &[u32], known: &Arc<M>) {
        let key = KeyRef { sql, signature };
        let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(Entry { state: State::Known(current), .. }) = entries.get(&key)
            && Arc::ptr_eq(current, known)
        {
            entries.remove(&key);
            self.version.fetch_add(1, Ordering::Release);
        }
    }

    /// Whoever is learning this statement is taken for vanished: the next to look it up learns it.
    pub fn give_up_on(&self, sql: &str, signature: &[u32]) {
        let key = KeyRef { sql, signature };
        let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(Entry { state: State::BeingLearned(_), .. }) = entries.get(&key) {
            entries.remove(&key);
        }
    }

    /// Statements known or being learned.
    pub fn len(&self) -> usize {
        self.entries.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Whether no statement is known.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The duty to learn a statement. Dropped without a word, it passes to whoever waits or comes next.
#[derive(Debug)]
pub struct Learning<'a, M: Send + Sync + 'static, E: Clone> {
    statements: &'a Statements<M, E>,
    sql: Box<str>,
    signature: Box<[u32]>,
    sender: Option<watch::Sender<Told<M, E>>>,
}

impl<M: Send + Sync + 'static, E: Clone> Learning<'_, M, E> {
    /// Tells what was learned, to all who wait; only a success is kept.
    pub fn finish(mut self, lesson: Result<M, E>) -> Result<Arc<M>, E> {
        let lesson = lesson.map(Arc::new);
        self.settle(lesson.as_ref().ok());
        if let Some(sender) = self.sender.take() {
            sender.send_replace(Some(lesson.clone()));
        }
        lesson
    }

    fn settle(&self, known: Option<&Arc<M>>) {
        let key = KeyRef { sql: &self.sql, signature: &self.signature };
        let mut entries = self.statements.entries.write().unwrap_or_else(PoisonError::into_inner);
        match (known, entries.get_mut(&key)) {
            (Some(known), Some(entry)) => entry.state = State::Known(Arc::clone(known)),
            (None, Some(Entry { state: State::BeingLearned(_), .. })) => {
                entries.remove(&key);
            }
            // Somebody else has learned it meanwhile.
            (None, Some(_)) => {}
            (_, None) => {}
        }
    }
}

impl<M: Send + Sync + 'static, E: Clone> Drop for Learning<'_, M, E> {
    fn drop(&mut self) {
        if self.sender.is_some() {
            self.settle(None);
        }
    }
}

/// Waits for what another caller learns.
#[derive(Debug)]
pub struct Waiting<M, E>(watch::Receiver<Told<M, E>>);

/// What became of another caller's learning.
#[derive(Debug, PartialEq, Eq)]
pub enum Lesson<M, E> {
    /// It has ended: this is known now, or why it is not.
    Learned(Result<Arc<M>, E>),
    /// The learner vanished: look the statement up again.
    Vanished,
    /// Nothing has come of it for as long as one was willing to wait.
    Overdue,
}

impl<M, E: Clone> Waiting<M, E> {
    /// Waits for what another caller learns, for so long.
    pub async fn lesson(mut self, patience: Duration) -> Lesson<M, E> {
        match within(patience, self.0.wait_for(Option::is_some)).await {
            None => Lesson::Overdue,
            Some(Err(_)) => Lesson::Vanished,
            Some(Ok(told)) => told.clone().map_or(Lesson::Vanished, Lesson::Learned),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    type Toy = Statements<u32, &'static str>;

    fn learn<'a>(statements: &'a Toy, sql: &str) -> Learning<'a, u32, &'static str> {
        match statements.look_up(sql, &[]) {
            Lookup::Learn(learning) => learning,
            other => panic!("expected to learn, got {other:?}"),
        }
    }

    fn waiting(statements: &Toy, sql: &str) -> Waiting<u32, &'static str> {
        match statements.look_up(sql, &[]) {
            Lookup::Wait(waiting) => waiting,
            other => panic!("expected to wait, got {other:?}"),
        }
    }

    fn now<T>(future: impl Future<Output = T>) -> T {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(output) => output,
            Poll::Pending => panic!("not ready"),
        }
    }

    #[test]
    fn one_learns_and_all_know() {
        let statements = Toy::default();
        let learning = learn(&statements, "a");
        let other = waiting(&statements, "a");
        assert_eq!(learning.finish(Ok(7)), Ok(Arc::new(7)));
        assert_eq!(now(other.lesson(Duration::from_secs(3_600))), Lesson::Learned(Ok(Arc::new(7))));
        assert!(matches!(statements.look_up("a", &[]), Lookup::Known(known) if *known == 7));
        assert!(matches!(statements.look_up("a", &[23]), Lookup::Learn(_)), "another signature is another statement");
    }

    #[test]
    fn a_failure_is_told_to_all_who_wait_and_not_kept() {
        let statements = Toy::default();
        let learning = learn(&statements, "a");
        let other = waiting(&statements, "a");
        assert_eq!(learning.finish(Err("no such table")), Err("no such table"));
        assert_eq!(now(other.lesson(Duration::from_secs(3_600))), Lesson::Learned(Err("no such table")));
        learn(&statements, "a").finish(Ok(1)).unwrap();
    }

    #[test]
    fn a_learner_who_vanishes_passes_the_duty_on() {
        let statements = Toy::default();
        let learning = learn(&statements, "a");
        let other = waiting(&statements, "a");
        drop(learning);
        assert_eq!(now(other.lesson(Duration::from_secs(3_600))), Lesson::Vanished);
        learn(&statements, "a").finish(Ok(1)).unwrap();
    }

    #[test]
    fn a_learner_who_does_not_come_on_is_given_up_on() {
        let statements = Toy::default();
        let stuck = learn(&statements, "a");
        let _other = waiting(&statements, "a");
        statements.give_up_on("a", &[]);
        let known = learn(&statements, "a").finish(Ok(2)).unwrap();
        statements.give_up_on("a", &[]);
        assert!(matches!(statements.look_up("a", &[]), Lookup::Known(found) if Arc::ptr_eq(&found, &known)));
        drop(stuck);
    }

    #[test]
    fn invalidation_hits_only_what_it_meant() {
        let statements = Toy::default();
        let old = learn(&statements, "a").finish(Ok(1)).unwrap();
        statements.invalidate("a", &[], &old);
        let new = learn(&statements, "a").finish(Ok(2)).unwrap();
        statements.invalidate("a", &[], &old);
        assert!(matches!(statements.look_up("a", &[]), Lookup::Known(known) if Arc::ptr_eq(&known, &new)));
    }

    #[test]
    fn what_a_thread_remembers_is_what_is_known() {
        let (statements, others) = (Toy::default(), Toy::default());
        let sql = "a".to_owned();
        assert_eq!(statements.recall(&sql, &[]), None);
        let old = learn(&statements, &sql).finish(Ok(1)).unwrap();
        statements.remember(&sql, &[], &old);
        assert_eq!(statements.recall(&sql, &[]), Some(Arc::new(1)));
        assert_eq!(others.recall(&sql, &[]), None, "another registry");
        assert_eq!(statements.recall(&sql, &[1]), None, "another signature");
        assert_eq!(statements.recall("b", &[]), None);
        statements.invalidate(&sql, &[], &old);
        assert_eq!(statements.recall(&sql, &[]), None, "invalidated");
        statements.remember(&sql, &[], &old);
        assert_eq!(statements.recall(&sql, &[]), None, "what is known no more is not remembered");
    }

    #[test]
    fn the_number_of_statements_is_bounded_and_what_is_in_use_stays() {
        let statements = Toy::default();
        learn(&statements, "kept").finish(Ok(0)).unwrap();
        for number in 0..(3 * STATEMENTS_MAX as u32) {
            learn(&statements, &number.to_string()).finish(Ok(number)).unwrap();
            assert!(statements.len() <= STATEMENTS_MAX);
            assert!(matches!(statements.look_up("kept", &[]), Lookup::Known(_)), "after {number}");
        }
    }
}
