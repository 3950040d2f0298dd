//! The bounds of a pool. Nothing in it grows without one of these.

use std::time::Duration;

/// The bounds of one lane.
#[derive(Clone, Debug)]
pub struct LaneLimits {
    /// Statements in flight. Past some tens the server is never idle; more only adds waiting behind a slow one.
    pub in_flight_max: usize,
    /// Bytes queued and not yet taken by the writer. One statement may overshoot it, or a statement larger than
    /// the limit could never be sent.
    pub unsent_bytes_max: usize,
    /// Bytes of one buffered reply; past it the rest is read and dropped and the caller gets an error.
    pub reply_bytes_max: usize,
    /// Statements kept prepared on one connection.
    pub prepared_max: usize,
}

impl Default for LaneLimits {
    fn default() -> LaneLimits {
        LaneLimits {
            in_flight_max: 128,
            unsent_bytes_max: 256 * 1024,
            reply_bytes_max: 64 * 1024 * 1024,
            prepared_max: 256,
        }
    }
}

/// The bounds of one pool.
#[derive(Clone, Debug)]
pub struct PoolLimits {
    /// Connections, of any kind, at any instant.
    pub connections_max: usize,
    /// Callers waiting for room on a lane; one more gets an error at once.
    pub waiters_max: usize,
    /// How long a caller waits for room on a lane.
    pub acquire_timeout: Duration,
    /// How long one address may take to connect and log in, and how long it may take to look up a name.
    pub connect_timeout: Duration,
    /// How long a connection is used; up to a tenth less, so that not all of them end together. Zero: for ever.
    pub max_lifetime: Duration,
    /// How long a connection may have nothing to do before it is closed; one is kept. Zero: for ever.
    pub idle_timeout: Duration,
    /// The bounds of each lane.
    pub lane: LaneLimits,
}

impl Default for PoolLimits {
    fn default() -> PoolLimits {
        PoolLimits {
            connections_max: 8,
            waiters_max: 10_000,
            acquire_timeout: Duration::from_secs(5),
            connect_timeout: Duration::from_secs(5),
            max_lifetime: Duration::from_secs(30 * 60),
            idle_timeout: Duration::from_secs(10 * 60),
            lane: LaneLimits::default(),
        }
    }
}

/// The reply to a preparation is kept up to this size, whatever the bound for others: without it the server's name for the
/// statement is lost. The most that a server can say of 4,096 columns and 65,535 parameters.
pub(crate) const PREPARATION_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Connects under way at once, per pool: enough to fill a pool quickly, too few to storm a server that is
/// struggling to come up.
pub(crate) const CONNECTS_MAX: usize = 2;

/// Statements of one lease that wait for room on its connection; one more gets an error at once.
pub(crate) const LEASE_WAITERS_MAX: usize = 10_000;

/// The read buffer of a lane. One read takes all that a busy server has sent since the last turn.
pub(crate) const READ_BUFFER_BYTES: usize = 64 * 1024;

/// A read with less room than this is not worth its system call: the buffer is made larger first.
pub(crate) const READ_ROOM_BYTES_MIN: usize = 16 * 1024;

/// Replies up to this size are copied out of the read buffer, so that a row that is kept does not keep the whole
/// block; larger ones are split off without a copy.
pub(crate) const COPIED_REPLY_BYTES_MAX: usize = 16 * 1024;

/// Buffers that grew past this for one large statement or reply are given back.
pub(crate) const BUFFER_BYTES_KEPT: usize = 256 * 1024;

/// What a server may say during log-in before it is taken for something else.
pub(crate) const LOGIN_INPUT_BYTES_MAX: usize = 256 * 1024;
