//! The locks and atomics of the protocols between callers and drivers: the standard library's, or loom's where those
//! protocols are model-checked (`--cfg cenote_loom`, see `model.rs`).
//!
//! Counters, what merely helps to choose a lane, and what is made once for the whole process need no model and stay with the
//! standard library. So does `Arc`: nothing is ordered by a reference count here. But what a model is about has to
//! come from here: loom tries another order of two steps only where it has seen that they touch the same thing.

#[cfg(cenote_loom)]
pub(crate) use loom::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU32, AtomicUsize, fence},
};
#[cfg(not(cenote_loom))]
pub(crate) use std::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU32, AtomicUsize, fence},
};
