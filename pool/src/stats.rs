//! Counters, and one snapshot of them.

use std::sync::atomic::{AtomicU64, Ordering};

/// A counter that is written on one path and read by a snapshot; nothing is ordered by it.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    /// Adds, where only one thread writes at a time (under a lock, or in the lane's own task): no locked instruction.
    pub(crate) fn add_unshared(&self, count: u64) {
        self.0.store(self.0.load(Ordering::Relaxed) + count, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// For what is counted as long as it lasts.
    pub(crate) fn subtract(&self, count: u64) {
        self.0.fetch_sub(count, Ordering::Relaxed);
    }
}

/// Counters of one lane, written by its driver.
#[derive(Debug, Default)]
pub(crate) struct LaneCounters {
    pub(crate) turns: Counter,
    pub(crate) writes: Counter,
    pub(crate) reads: Counter,
    pub(crate) bytes_written: Counter,
    pub(crate) bytes_read: Counter,
    pub(crate) replies: Counter,
}

/// Counters of one pool that are not a lane's.
#[derive(Debug, Default)]
pub(crate) struct PoolCounters {
    pub(crate) retired: LaneCounters,
    pub(crate) connects: Counter,
    pub(crate) connect_failures: Counter,
    pub(crate) connections_lost: Counter,
    pub(crate) connections_retired: Counter,
    pub(crate) hosts_left: Counter,
    pub(crate) quarantines: Counter,
    pub(crate) resubmits: Counter,
    pub(crate) repeats: Counter,
    pub(crate) overdue: Counter,
    pub(crate) waits: Counter,
    pub(crate) leases: Counter,
    pub(crate) lease_waits: Counter,
    pub(crate) leases_restored: Counter,
    pub(crate) leases_closed: Counter,
    pub(crate) cancels: Counter,
    pub(crate) cancelling: Counter,
    pub(crate) acquire_timeouts: Counter,
    pub(crate) replies_too_large: Counter,
    pub(crate) lost_after_sent: Counter,
}

impl LaneCounters {
    /// Takes over the counts of a lane that has ended.
    pub(crate) fn absorb(&self, lane: &LaneCounters) {
        self.turns.add(lane.turns.get());
        self.writes.add(lane.writes.get());
        self.reads.add(lane.reads.get());
        self.bytes_written.add(lane.bytes_written.get());
        self.bytes_read.add(lane.bytes_read.get());
        self.replies.add(lane.replies.get());
    }
}

/// One lane at the moment of a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LaneStats {
    /// A number of the lane, never used twice in a pool.
    pub lane: u64,
    /// Statements in flight.
    pub in_flight: usize,
    /// How long the oldest of them has been the oldest, in microseconds; 0 with none in flight.
    pub oldest_age_us: u64,
    /// Statements prepared on the connection.
    pub prepared: usize,
}

/// One lease at the moment of a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeaseStats {
    /// The number of its connection, among those of the lanes.
    pub lane: u64,
    /// How long it has been held, in microseconds.
    pub held_us: u64,
    /// Where it was asked for: file, line and column.
    pub taken_at: String,
    /// The name of the thread that asked.
    pub thread: String,
}

/// A pool at one moment. Counts run from the opening of the pool and never go back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolStats {
    /// The bound on connections.
    pub connections_max: usize,
    /// The lanes: shared connections.
    pub lanes: Vec<LaneStats>,
    /// The leases: connections that one caller has for himself, or that are on their way back.
    pub leases: Vec<LeaseStats>,
    /// Connects under way.
    pub connecting: usize,
    /// Requests to stop a statement under way, each of which may have a connection of its own beside the bound.
    pub cancelling: usize,
    /// Callers that wait for room on a lane.
    pub waiting: usize,
    /// Callers that wait for a lease.
    pub waiting_for_lease: usize,
    /// Replies received.
    pub replies: u64,
    /// Turns of the lanes' drivers.
    pub turns: u64,
    /// Write system calls.
    pub writes: u64,
    /// Read system calls that brought bytes.
    pub reads: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Connections made.
    pub connects: u64,
    /// Connect attempts that failed.
    pub connect_failures: u64,
    /// Connections that ended before we closed them.
    pub connections_lost: u64,
    /// Connections closed because they were old or had long had nothing to do.
    pub connections_retired: u64,
    /// How often all connections were drained because one heard that its server shuts down or takes no writes.
    pub hosts_left: u64,
    /// Connections closed because a statement left a transaction open on them.
    pub quarantines: u64,
    /// Statements moved to another lane because theirs was lost before any byte had left.
    pub resubmits: u64,
    /// Statements that may run twice and were sent again, because their connection was lost after they were sent.
    pub repeats: u64,
    /// Callers that had to wait for room on a lane.
    pub waits: u64,
    /// Leases taken.
    pub leases_taken: u64,
    /// Callers that had to wait for a lease.
    pub lease_waits: u64,
    /// Leases that had to be rolled back or reset when they were given back.
    pub leases_restored: u64,
    /// Leases whose connection was closed because that did not come to an end.
    pub leases_closed: u64,
    /// Times that the server was asked to stop a lease's statement.
    pub cancels: u64,
    /// Callers that gave up waiting.
    pub acquire_timeouts: u64,
    /// Statements that were not answered within the time their caller gave them.
    pub overdue: u64,
    /// Replies dropped for their size.
    pub replies_too_large: u64,
    /// Statements that failed because the connection was lost after they were sent.
    pub lost_after_sent: u64,
}

impl PoolStats {
    /// Connections that exist or are being made.
    pub fn connections(&self) -> usize {
        self.lanes.len() + self.leases.len() + self.connecting
    }

    /// Statements in flight on all lanes.
    pub fn in_flight(&self) -> usize {
        self.lanes.iter().map(|lane| lane.in_flight).sum()
    }
}
