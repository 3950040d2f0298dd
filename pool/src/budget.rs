//! The one budget of connections, held by deadpool: a permit for each, never more than the pool's size.
//!
//! A lane owns its object for life; a lease will own one for as long as it lasts. The object is only ever awaited by
//! tasks of the pool itself, never by a caller's future, so making a connection here is detached from whoever
//! wanted it. A connection that ended leaves an empty object behind, whose socket was closed before: what comes
//! next in its place can never be one too many.

use std::sync::Arc;

use deadpool::managed::{Manager, Metrics, RecycleError, RecycleResult};

use crate::cancel::Cancellation;
use crate::connect;
use crate::error::ConnectFailure;
use crate::inbound::Inbound;
use crate::language::Language;
use crate::limits::PoolLimits;
use crate::lookup::Lookup;
use crate::prepared::Prepared;
use crate::retirement::Birth;
use crate::socket::{ParkedSocket, Socket};

/// A connection with all that belongs to it; its socket is a [`Link`] while it is in its seat.
#[derive(Debug)]
pub(crate) struct Live<F, S = Link> {
    pub(crate) link: S,
    pub(crate) inbound: Inbound<F>,
    pub(crate) prepared: Prepared,
    /// Statements in flight at most.
    pub(crate) in_flight_max: usize,
    /// `None` until it becomes a lane.
    pub(crate) birth: Option<Birth>,
    /// The least that the server took to answer, from what has been seen.
    pub(crate) round_trip_us: u64,
    /// How its statements are stopped.
    pub(crate) cancellation: Option<Arc<Cancellation>>,
}

/// The socket of a connection that nobody drives right now.
#[derive(Debug)]
pub(crate) enum Link {
    /// Just made, on the current runtime.
    New(Socket),
    /// Given back; it may go to another runtime.
    Parked(ParkedSocket),
}

/// What the budget keeps: a connection while nobody drives it, and an empty place while somebody does, or after it
/// ended.
#[derive(Debug)]
pub(crate) struct Seat<F>(pub(crate) Option<Live<F>>);

/// Makes connections for the budget.
pub(crate) struct Budget<L> {
    pub(crate) language: Arc<L>,
    pub(crate) lookup: Lookup,
    pub(crate) limits: PoolLimits,
}

impl<L: Language> Manager for Budget<L> {
    type Type = Seat<L::Framer>;
    type Error = Arc<ConnectFailure>;

    async fn create(&self) -> Result<Self::Type, Self::Error> {
        if cfg!(cenote_loom) {
            // A model brings its own sockets.
            return Ok(Seat(None));
        }
        let connected = connect::connect(&*self.language, &self.lookup, self.limits.connect_timeout).await?;
        let lane = &self.limits.lane;
        Ok(Seat(Some(Live {
            link: Link::New(connected.socket),
            inbound: Inbound::new(connected.framer, connected.leftover, lane.reply_bytes_max),
            prepared: Prepared::new(lane.prepared_max),
            birth: None,
            round_trip_us: connected.round_trip_us,
            cancellation: connected.cancellation.map(Arc::new),
            in_flight_max: connected.in_flight_max.map_or(lane.in_flight_max, |max| max.min(lane.in_flight_max)),
        })))
    }

    async fn recycle(&self, seat: &mut Self::Type, _: &Metrics) -> RecycleResult<Self::Error> {
        match &seat.0 {
            Some(Live { link: Link::Parked(socket), .. }) if socket.is_quiet() => Ok(()),
            Some(_) => {
                // Closed here and now: the place is free for a new connection from the next line on.
                seat.0 = None;
                Err(RecycleError::message("the connection ended while it was idle"))
            }
            None => Err(RecycleError::message("the connection has ended")),
        }
    }
}
