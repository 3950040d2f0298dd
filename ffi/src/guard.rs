//! What every entry does before and after its own work: a forked child is refused, a panic becomes a status, and wakes that
//! fall due meanwhile are left to our own threads.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::fork;
use crate::status::{CENOTE_ERR_ARGUMENT, CENOTE_ERR_FORKED, CENOTE_ERR_NULL, CENOTE_ERR_PANIC, CENOTE_OK};

thread_local!(static IN_LEAF: Cell<u32> = const { Cell::new(0) });

/// A failed call: its status.
pub(crate) type Entry = Result<(), i32>;

/// Whether this thread is in a call that must not call back into the host.
pub(crate) fn in_leaf() -> bool {
    IN_LEAF.with(|depth| depth.get() > 0)
}

/// Runs an entry's work as a leaf: nothing that it does calls back into the host.
#[inline]
pub(crate) fn leaf(name: &'static str, work: impl FnOnce() -> Entry) -> i32 {
    struct Leaf;
    impl Drop for Leaf {
        fn drop(&mut self) {
            IN_LEAF.with(|depth| depth.set(depth.get() - 1));
        }
    }
    entry(name, || {
        IN_LEAF.with(|depth| depth.set(depth.get() + 1));
        let _leaf = Leaf;
        work()
    })
}

/// Runs an entry's work that may take its time.
#[inline]
pub(crate) fn entry(name: &'static str, work: impl FnOnce() -> Entry) -> i32 {
    if fork::happened() {
        return CENOTE_ERR_FORKED;
    }
    // What a panic leaves behind is behind locks that pass poison over, or is dropped whole.
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        inject(name);
        work()
    }));
    match outcome {
        Ok(Ok(())) => CENOTE_OK,
        Ok(Err(status)) => status,
        Err(panic) => {
            // Dropping what was thrown may throw.
            std::mem::forget(panic);
            CENOTE_ERR_PANIC
        }
    }
}

/// Where an answer goes: a pointer that must not be NULL.
pub(crate) struct Out<T>(*mut T);

impl<T> Out<T> {
    /// # Safety
    ///
    /// `pointer` is NULL or the caller's to be written through, for as long as this lives.
    pub(crate) unsafe fn new(pointer: *mut T) -> Result<Out<T>, i32> {
        if pointer.is_null() { Err(CENOTE_ERR_NULL) } else { Ok(Out(pointer)) }
    }

    pub(crate) fn write(&self, value: T) {
        // SAFETY: by `new`. Unaligned, as hosts may pack their structs.
        unsafe { self.0.write_unaligned(value) };
    }
}

/// Bytes of the caller in one piece, at most: neither database takes a message of 1 GiB, and nothing that cannot be sent is
/// copied.
const BYTES_MAX: usize = (1 << 30) - 1;

/// Bytes of the caller: NULL is allowed where there are none.
///
/// # Safety
///
/// `pointer` is to be read for `length` bytes, for as long as the result is used.
pub(crate) unsafe fn bytes<'a>(pointer: *const u8, length: usize) -> Result<&'a [u8], i32> {
    if length == 0 {
        return Ok(&[]);
    }
    if pointer.is_null() {
        return Err(CENOTE_ERR_NULL);
    }
    if length > BYTES_MAX {
        return Err(CENOTE_ERR_ARGUMENT);
    }
    // SAFETY: not NULL, no longer than an object may be, and the caller's word for the rest.
    Ok(unsafe { std::slice::from_raw_parts(pointer, length) })
}

#[cfg(not(feature = "inject-panics"))]
#[inline(always)]
fn inject(_: &'static str) {}

#[cfg(feature = "inject-panics")]
fn inject(name: &'static str) {
    injection::strike(name);
}

/// Panics on order.
#[cfg(feature = "inject-panics")]
pub mod injection {
    use std::sync::Mutex;

    static ORDERED: Mutex<Option<String>> = Mutex::new(None);

    /// Has the next call of the entry with this name panic.
    pub fn order(name: &str) {
        *ORDERED.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(name.to_owned());
    }

    pub(super) fn strike(name: &'static str) {
        let mut ordered = ORDERED.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if ordered.as_deref() == Some(name) {
            *ordered = None;
            drop(ordered);
            // Without the hook, which would print.
            std::panic::resume_unwind(Box::new(name));
        }
    }
}
