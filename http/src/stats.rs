//! What the server counts.
//!
//! Each thread counts in a block of its own that no other thread writes, so counting is a load and a store in
//! a cache line the core holds already. A snapshot reads all blocks and adds them up; it is exact once the
//! threads are at rest, and a moment old while they run.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hyper::StatusCode;

/// A number that one thread writes and any thread reads.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// Adds without a locked instruction: only the thread that owns the counter calls this.
    #[inline]
    pub(crate) fn add(&self, amount: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// One thread's counters, on cache lines of their own (128: two lines, which current cores fetch in pairs).
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Counters {
    pub(crate) connections_accepted: Counter,
    pub(crate) connections_closed: Counter,
    pub(crate) connections_cut: Counter,
    pub(crate) accept_errors: Counter,
    pub(crate) requests: Counter,
    pub(crate) requests_malformed: Counter,
    pub(crate) handler_panics: Counter,
    pub(crate) timeouts_head: Counter,
    pub(crate) timeouts_body: Counter,
    pub(crate) timeouts_idle: Counter,
    pub(crate) timeouts_write: Counter,
    pub(crate) bytes_received: Counter,
    pub(crate) bytes_sent: Counter,
    responses: [Counter; 5],
}

impl Counters {
    #[inline]
    pub(crate) fn count_response(&self, status: StatusCode) {
        let class = usize::from(status.as_u16() / 100);
        if let Some(counter) = self.responses.get(class.wrapping_sub(1)) {
            counter.add(1);
        }
    }
}

/// Reads the counters of a server, from any thread, while it runs and afterwards.
#[derive(Debug, Clone)]
pub struct StatsHandle {
    threads: Arc<[Arc<Counters>]>,
}

impl StatsHandle {
    pub(crate) fn new(threads: Arc<[Arc<Counters>]>) -> StatsHandle {
        StatsHandle { threads }
    }

    /// All counters of all threads, added up.
    pub fn snapshot(&self) -> Stats {
        let sum =
            |read: fn(&Counters) -> &Counter| -> u64 { self.threads.iter().map(|counters| read(counters).get()).sum() };
        // Closed before accepted, so that the difference is never negative.
        let closed = sum(|counters| &counters.connections_closed);
        let accepted = sum(|counters| &counters.connections_accepted);
        Stats {
            threads: self.threads.len(),
            connections_open: accepted.saturating_sub(closed),
            connections_accepted: accepted,
            connections_cut: sum(|counters| &counters.connections_cut),
            accept_errors: sum(|counters| &counters.accept_errors),
            requests: sum(|counters| &counters.requests),
            requests_malformed: sum(|counters| &counters.requests_malformed),
            responses_by_class: [
                sum(|counters| &counters.responses[0]),
                sum(|counters| &counters.responses[1]),
                sum(|counters| &counters.responses[2]),
                sum(|counters| &counters.responses[3]),
                sum(|counters| &counters.responses[4]),
            ],
            handler_panics: sum(|counters| &counters.handler_panics),
            timeouts_head: sum(|counters| &counters.timeouts_head),
            timeouts_body: sum(|counters| &counters.timeouts_body),
            timeouts_idle: sum(|counters| &counters.timeouts_idle),
            timeouts_write: sum(|counters| &counters.timeouts_write),
            bytes_received: sum(|counters| &counters.bytes_received),
            bytes_sent: sum(|counters| &counters.bytes_sent),
        }
    }
}

/// The counters of a server at one moment, since its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Event loops.
    pub threads: usize,
    /// Connections open now.
    pub connections_open: u64,
    /// Connections accepted.
    pub connections_accepted: u64,
    /// Connections cut at the end of the stop deadline, or by [`Stop::stop_now`](crate::Stop::stop_now).
    pub connections_cut: u64,
    /// Times that accepting failed for lack of something, such as file descriptors.
    pub accept_errors: u64,
    /// Requests handed to a handler, or refused for the size of their body.
    pub requests: u64,
    /// Connections closed because what came was not HTTP/1.1 or its head was too large (400, 414, 431).
    pub requests_malformed: u64,
    /// Answers by class: 1xx to 5xx. The answers to what was malformed or too slow are among them.
    pub responses_by_class: [u64; 5],
    /// Handlers that panicked.
    pub handler_panics: u64,
    /// Connections closed because a head took too long, the first one of a connection included.
    pub timeouts_head: u64,
    /// Requests whose body took too long.
    pub timeouts_body: u64,
    /// Connections closed because no request came in time.
    pub timeouts_idle: u64,
    /// Connections closed because the client did not take its answer, or did not end what was refused.
    pub timeouts_write: u64,
    /// Bytes read from clients.
    pub bytes_received: u64,
    /// Bytes written to clients.
    pub bytes_sent: u64,
}
