//! Asking the server to stop what runs on a lease. Never on a lane: it would hit whoever is running.
//!
//! A request is bound to its lease: it is not made when nothing of the lease is in flight, and the connection goes to nobody
//! else before the server has heard of it and one more trip has shown that it hit nothing that came later. Of one lease there
//! is one at a time: nothing is queued behind it meanwhile, so it is meant for the same statements as any that is asked for
//! beside it.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::BytesMut;
use tokio::sync::watch;

use crate::connect::{self, within};
use crate::error::{ConnectCause, ConnectFailure, Failure, Tried};
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

/// What comes of a request, for everybody who asks for it; `None` as long as it is under way.
pub(crate) type CancelOutcome = watch::Receiver<Option<Result<(), Failure>>>;

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
    /// server's error, if it was not done before. `false`: there was nothing to stop. While one request is under way, who
    /// asks for another waits for that one.
    ///
    /// Dropping the future does not take the request back.
    ///
    /// # Errors
    ///
    /// When the server could not be told, or refuses.
    pub async fn cancel(&self) -> Result<bool, Failure> {
        let mut outcome = match Request::begin(&self.pool, &self.lane, self.tenant, Why::Asked) {
            None => return Ok(false),
            Some(Begun::Joined(outcome)) => outcome,
            Some(Begun::New(request)) => {
                let outcome = request.outcome.subscribe();
                // A task of our own: a caller who vanishes must not leave a request behind of which nobody knows where it is.
                home::background().map(|runtime| runtime.spawn(request.send()));
                outcome
            }
        };
        match outcome.wait_for(Option::is_some).await.map(|outcome| outcome.clone()) {
            Ok(Some(outcome)) => outcome.map(|()| true),
            // The task has ended before its time, with its thread.
            Ok(None) | Err(_) => Err(not_cancelled(&self.lane, "the thread that was to ask has ended")),
        }
    }
}

/// Why something is to be stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// Its owner asks for it.
    Asked,
    /// A statement's time is over.
    Overdue,
    /// The lease is over, and is restored.
    Restored,
}

/// What became of the wish to stop what a lease runs.
pub(crate) enum Begun<L: Language> {
    /// It is to be sent.
    New(Request<L>),
    /// One is under way.
    Joined(CancelOutcome),
}

/// A request under way. While there is one, its lease does not end.
pub(crate) struct Request<L: Language> {
    pool: Arc<Inner<L>>,
    lane: Arc<Lane<L>>,
    cancellation: Arc<Cancellation>,
    outcome: watch::Sender<Option<Result<(), Failure>>>,
    /// The server has heard of it. Until then it may be anywhere, and hit whoever has the connection when it arrives.
    heard: bool,
}

impl<L: Language> Request<L> {
    /// `None`: nothing of this tenant runs, or it cannot be stopped. A lease that is over is stopped by whoever restores it,
    /// and by nobody else. For a statement whose time is over a request that is under way may have come too early: it may
    /// have stopped the one before. Then one more follows.
    pub(crate) fn begin(pool: &Arc<Inner<L>>, lane: &Arc<Lane<L>>, tenant: Tenant, why: Why) -> Option<Begun<L>> {
        let cancellation = lane.cancellation.clone()?;
        let mut shared = lane.lock();
        if shared.tenancy.tenant != tenant
            || shared.pipeline.depth() == 0
            || (shared.tenancy.ended && why != Why::Restored)
        {
            return None;
        }
        if let Some(outcome) = shared.tenancy.cancel.clone() {
            shared.tenancy.cancel_again |= why == Why::Overdue;
            return Some(Begun::Joined(outcome));
        }
        let outcome = watch::Sender::new(None);
        shared.tenancy.disturbed = true;
        shared.tenancy.cancel = Some(outcome.subscribe());
        shared.tenancy.cancel_again = false;
        pool.counters.cancels.add(1);
        pool.counters.cancelling.add(1);
        let (pool, lane) = (Arc::clone(pool), Arc::clone(lane));
        Some(Begun::New(Request { pool, lane, cancellation, outcome, heard: false }))
    }

    /// Sends it, and tells those who wait for it what came of it.
    pub(crate) async fn send(mut self) {
        let mut sent = self.send_once().await;
        while self.is_wanted_again() {
            self.pool.counters.cancels.add(1);
            sent = self.send_once().await;
        }
        let outcome = self.outcome.clone();
        // Over before anybody hears of it: whoever does may ask for the next.
        drop(self);
        outcome.send_replace(Some(sent));
    }

    /// Whether another statement's time has ended since, and something still runs: nothing was queued meanwhile.
    fn is_wanted_again(&self) -> bool {
        let mut shared = self.lane.lock();
        let again = std::mem::take(&mut shared.tenancy.cancel_again);
        again && !shared.tenancy.ended && shared.pipeline.depth() > 0
    }

    async fn send_once(&mut self) -> Result<(), Failure> {
        let timeout = self.pool.limits.connect_timeout;
        let sent = match L::cancel_statement(&self.cancellation.key) {
            Some(message) => within(timeout, self.send_statement(&message)).await,
            None => {
                let sent = connect::cancel(&*self.pool.language, &self.cancellation);
                within(timeout, sent).await.map(|sent| sent.map_err(|cause| self.failure(cause)))
            }
        };
        let sent = sent.unwrap_or_else(|| Err(self.failure(ConnectCause::TimedOut(timeout))));
        self.heard = matches!(sent, Ok(()) | Err(Failure::CancelRefused(_)));
        sent
    }

    fn failure(&self, cause: ConnectCause) -> Failure {
        let failure = ConnectFailure::at(self.cancellation.address.clone(), self.cancellation.peer, cause);
        Failure::NotCancelled(Arc::new(failure))
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
            return Err(not_cancelled(&self.lane, "the pool's connections lead to several servers"));
        }
        if !lanes.is_empty()
            && let Some(pool) = Pool::join(Arc::clone(&self.pool))
        {
            let answered = pool.run(&[], encode).await?;
            return if answered.failed { Err(Failure::CancelRefused(answered.reply)) } else { Ok(()) };
        }
        let (language, lookup) = (&*self.pool.language, &self.pool.budget.manager().lookup);
        let connected = connect::connect(language, lookup, self.pool.limits.connect_timeout).await;
        let connected = connected.map_err(Failure::NotCancelled)?;
        match connect::run_once(connected, message).await {
            Ok(None) => Ok(()),
            Ok(Some(refusal)) => Err(Failure::CancelRefused(refusal)),
            Err(cause) => Err(self.failure(cause)),
        }
    }
}

fn not_cancelled<L: Language>(lane: &Lane<L>, words: &str) -> Failure {
    let tried = lane.cancellation.as_ref().map(|cancellation| Tried {
        address: cancellation.address.clone(),
        peer: cancellation.peer,
        cause: ConnectCause::Io(Arc::new(std::io::Error::other(words.to_owned()))),
    });
    Failure::NotCancelled(Arc::new(ConnectFailure { tried: tried.into_iter().collect() }))
}

impl<L: Language> Drop for Request<L> {
    fn drop(&mut self) {
        // Its connection, where it had one, is closed.
        self.pool.counters.cancelling.subtract(1);
        let mut wake = Vec::new();
        let mut shared = self.lane.lock();
        let outcome = shared.tenancy.cancel.take();
        if !self.heard {
            // The connection goes to nobody any more.
            (shared.tenancy.changed, shared.tenancy.spoiled) = (true, true);
        }
        shared.tenancy.wake_for_room(&mut wake);
        drop(shared);
        drop(outcome);
        wake.into_iter().for_each(std::task::Waker::wake);
    }
}
