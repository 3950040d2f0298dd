//! Who shares a pool: equal settings give the same pool, whichever thread opens it. Opens are counted, and the last
//! to close it drains it.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::language::Language;
use crate::limits::PoolLimits;
use crate::pool::{Inner, Pool};

/// The pools of a process that speak one language, by their settings.
pub struct Registry<K, L: Language> {
    pools: Mutex<HashMap<K, Weak<Inner<L>>>>,
}

impl<K: Eq + Hash, L: Language> Default for Registry<K, L> {
    fn default() -> Registry<K, L> {
        Registry { pools: Mutex::default() }
    }
}

impl<K, L: Language> fmt::Debug for Registry<K, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the keys: settings hold passwords.
        f.debug_struct("Registry").finish_non_exhaustive()
    }
}

impl<K: Eq + Hash, L: Language> Registry<K, L> {
    /// The pool with these settings, made by `make` if nobody has it open. No I/O.
    pub fn open(&self, settings: K, make: impl FnOnce(&K) -> (L, PoolLimits)) -> Pool<L> {
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pool) = pools.get(&settings).and_then(Weak::upgrade).and_then(Pool::join) {
            return pool;
        }
        pools.retain(|_, pool| pool.strong_count() > 0);
        let (language, limits) = make(&settings);
        let pool = Pool::new(language, limits);
        pools.insert(settings, Arc::downgrade(pool.inner()));
        pool
    }
}
