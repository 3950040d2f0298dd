//! Forked children: threads do not survive a fork, so nothing here works in a child. It is told so, at once, instead of
//! waiting for threads that are not there.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

static FORKED: AtomicBool = AtomicBool::new(false);

extern "C" fn in_child() {
    // Nothing else: a lock may be held by a thread that is gone.
    FORKED.store(true, Ordering::Relaxed);
}

/// Has forks noticed from here on.
pub(crate) fn watch() {
    static WATCHED: Once = Once::new();
    WATCHED.call_once(|| {
        // SAFETY: the handler does nothing but store to an atomic, which is allowed in a child of a threaded process; and
        // the library is never unloaded. Where there is no room for it (ENOMEM) forks go unnoticed, as before.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
}

/// Whether this is a child.
#[inline]
pub(crate) fn happened() -> bool {
    FORKED.load(Ordering::Relaxed)
}
