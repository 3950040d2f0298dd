//! Asking the server to stop what runs on a lease. Never on a lane: it would hit whoever is running.
//!
//! A request is bound to its lease: it is not made when nothing of the lease is in flight, and the connection goes to nobody
//! else before the server has heard of it and one more trip has shown that it hit nothing that came later.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::BytesMut;

use crate::connect::{self, within};
use crate::error::Failure;
use crate::home;
use crate::lane::Lane;
use crate::language::{Address, CancelKey, Language};
use crate::pool::{Inner, Pool};
use crate::tenancy::Tenant;

/// How a connection's statements are stopped.
#[derive(Debug)]
pub(crate) struct Cancellation {
    /// Where its server is.
    pub(crate) address: Address,
    /// The same when its name had been looked up.
    pub(crate) peer: Option<SocketAddr>,
    pub(crate) key: CancelKey,
}

/// Stops what runs on one lease. Kept beyond the lease it does nothing.
pub struct Canceller<L: Language> {
    pool: Arc<Inner<L>>,
    lane: Arc<Lane<L>>,
    tenant: Tenant,
}

impl<L: Language> Clone for Canceller<L> {
    fn clone(&self) -> Canceller<L> {
        Canceller { pool: Arc::clone(&self.pool), lane: Arc::clone(&self.lane), tenant: self.tenant }
    }
}

impl<L: Language> std::fmt::Debug for Canceller<L> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Canceller").field("lane", &self.lane.number).finish_non_exhaustive()
    }
}

impl<L: Language> Canceller<L> {
    pub(crate) fn new(pool: Arc<Inner<L>>, lane: Arc<Lane<L>>, tenant: Tenant) -> Canceller<L> {
        Canceller { pool, lane, tenant }
    }

    /// Asks the server to stop what the lease runs, and waits until it has heard of it: the statement then ends with the
    /// server's error, if it was not done before. `false`: there was nothing to stop.
    ///
    /// Dropping the future does not take the request back.
    ///
    /// # Errors
    ///
    /// When the server could not be told.
    pub async fn cancel(&self) -> Result<bool, Failure> {
        let Some(request) = Request::begin(&self.pool, &self.lane, self.tenant, false) else { return Ok(false) };
        // A task of our own: a caller who vanishes must not leave a request behind of which nobody knows where it is.
        let Some(runtime) = home::background() else { return Ok(false) };
        match runtime.spawn(request.send()).await {
            Ok(sent) => sent.map(|()| true),
            Err(_) => Ok(false),
        }
    }
}

/// A request under way. While there is one, its lease does not end.
pub(crate) struct Request<L: Language> {
    pool: Arc<Inner<L>>,
    lane: Arc<Lane<L>>,
    cancellation: Arc<Cancellation>,
    /// The server has heard of it. Until then it may be anywhere, and hit whoever has the connection when it arrives.
    heard: bool,
}

impl<L: Language> Request<L> {
    /// `None`: nothing of this tenant runs, or it cannot be stopped. A lease that is over is stopped by whoever restores it,
    /// and by nobody else.
    pub(crate) fn begin(
        pool: &Arc<Inner<L>>,
        lane: &Arc<Lane<L>>,
        tenant: Tenant,
        restoring: bool,
    ) -> Option<Request<L>> {
        let cancellation = lane.cancellation.clone()?;
        let mut shared = lane.lock();
        if shared.tenancy.tenant != tenant || shared.pipeline.depth() == 0 || (shared.tenancy.ended && !restoring) {
            return None;
        }
        shared.tenancy.disturbed = true;
        shared.tenancy.cancels += 1;
        pool.counters.cancels.add(1);
        Some(Request { pool: Arc::clone(pool), lane: Arc::clone(lane), cancellation, heard: false })
    }

    pub(crate) async fn send(mut self) -> Result<(), Failure> {
        let timeout = self.pool.limits.connect_timeout;
        let sent = match L::cancel_statement(&self.cancellation.key) {
            Some(message) => within(timeout, self.send_statement(&message)).await,
            None => {
                let sent = connect::cancel(&*self.pool.language, &self.cancellation);
                let failure = |cause| Failure::NotCancelled(Arc::new(self.failure(cause)));
                within(timeout, sent).await.map(|sent| sent.map_err(failure))
            }
        };
        let sent = sent.unwrap_or_else(|| {
            Err(Failure::NotCancelled(Arc::new(self.failure(crate::error::ConnectCause::TimedOut(timeout)))))
        });
        self.heard = sent.is_ok();
        sent
    }

    fn failure(&self, cause: crate::error::ConnectCause) -> crate::error::ConnectFailure {
        crate::error::ConnectFailure::at(self.cancellation.address.clone(), self.cancellation.peer, cause)
    }

    /// Where another statement does it: on a lane, where there is one; else on a connection made for it.
    async fn send_statement(&self, message: &[u8]) -> Result<(), Failure> {
        let encode = |out: &mut BytesMut| {
            out.extend_from_slice(message);
            Ok::<(), Failure>(())
        };
        let lanes = self.pool.lanes.load_full();
        // By another server's count the number is somebody else's.
        let peer = |lane: &Arc<Lane<L>>| lane.cancellation.as_ref().and_then(|cancellation| cancellation.peer);
        if lanes.iter().any(|lane| peer(lane) != self.cancellation.peer) {
            let cause = crate::error::ConnectCause::Io(Arc::new(std::io::Error::other(
                "the pool's connections lead to several servers",
            )));
            return Err(Failure::NotCancelled(Arc::new(self.failure(cause))));
        }
        if !lanes.is_empty()
            && let Some(pool) = Pool::join(Arc::clone(&self.pool))
        {
            return pool.run(&[], encode).await.map(drop);
        }
        let (language, lookup) = (&*self.pool.language, &self.pool.budget.manager().lookup);
        let connected = connect::connect(language, lookup, self.pool.limits.connect_timeout).await;
        let connected = connected.map_err(Failure::NotCancelled)?;
        let done = connect::run_once(connected, message).await;
        done.map_err(|cause| Failure::NotCancelled(Arc::new(self.failure(cause))))
    }
}

impl<L: Language> Drop for Request<L> {
    fn drop(&mut self) {
        let mut wake = Vec::new();
        let mut shared = self.lane.lock();
        shared.tenancy.cancels = shared.tenancy.cancels.saturating_sub(1);
        if !self.heard {
            // The connection goes to nobody any more.
            (shared.tenancy.changed, shared.tenancy.spoiled) = (true, true);
        }
        shared.tenancy.wake_for_room(&mut wake);
        drop(shared);
        wake.into_iter().for_each(std::task::Waker::wake);
    }
}
