//! `Flight`: one statement from its caller's side, from the call to the reply.
//!
//! ```text
//!  Start ── room on a lane ──────────────────────────> InFlight ── reply ──> Answered
//!    │                                                   │
//!    └── none ──> Waiting ── granted ──> (room again) ───┘
//!    ^                                                   │
//!    └────────── lost, and no byte of it had left <──────┘
//! ```
//!
//! Where the server names statements, one that its connection has not prepared goes by `Preparing` (its own request) or
//! `Retry` (another caller's) and starts again on that connection.
//!
//! Written by hand: it is part of every query's future, which 256 callers walk through the cache all the time.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::BytesMut;

use crate::connect::within;
use crate::error::{Failure, LossCause};
use crate::lane::{Answer, Lane, Origin, Submitted};
use crate::language::{Language, Preparation, StatementId};
use crate::pipeline::{Outcome, Refusal};
use crate::pool::{Inner, Pool};
use crate::reply::Reply;
use crate::submit::NoRoom;
use crate::trace;
use crate::waiters::Place;

/// How often a statement is moved to another lane because its own was lost before any byte of it had left. A server
/// that takes connections and drops them at once must not keep a caller for ever.
const RESUBMITS_MAX: u32 = 8;

/// Who waits looks so often whether there is room that nobody has told of: a lane behind something slow becomes room when
/// the connection that was hoped for does not come.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);

/// A reply, and where it came from.
pub struct Answered<L: Language> {
    /// The reply, as the server sent it.
    pub reply: Reply,
    /// Whether it holds an error.
    pub failed: bool,
    /// Where the server names statements: it answers the preparation, and the statement was not sent.
    pub to_preparation: bool,
    origin: Origin<L>,
}

impl<L: Language> fmt::Debug for Answered<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answered").field("reply", &self.reply).finish_non_exhaustive()
    }
}

impl<L: Language> Answered<L> {
    /// The reply says that the connection may not have prepared this statement after all.
    pub fn forget_prepared(&self, id: StatementId) {
        self.origin.forget(id);
    }

    /// The reply says of a statement what is known of it, so it need not be asked again.
    pub fn confirm_prepared(&self, id: StatementId) {
        self.origin.confirm(id);
    }

    /// The reply says that the connection has dropped all its prepared statements.
    pub fn forget_all_prepared(&self) {
        self.origin.forget_all();
    }

    /// A statement that goes where this reply came from, if there is room: what was prepared is there.
    pub fn followed(&self) -> Flight<L> {
        Flight { stage: Stage::Retry(Arc::clone(&self.origin.lane)), ..Flight::default() }
    }
}

/// A statement on its way, without what it says: that is an argument of each poll, so that a driver's own future need not
/// hold it twice. Dropping it abandons the statement: queued, it runs; not queued, it never will.
pub struct Flight<L: Language> {
    stage: Stage<L>,
    resubmits: u32,
    /// The reply to the preparation is what is wanted.
    prepares_only: bool,
    /// It may be sent once more when its connection is lost with it.
    repeats: bool,
}

type WaitForRoom = Pin<Box<dyn Future<Output = Result<Place, Failure>> + Send>>;

enum Stage<L: Language> {
    Start,
    /// Boxed: the slow path, whose state would make every query's future larger.
    Waiting(WaitForRoom),
    InFlight(Answer<L>),
    Preparing(Answer<L>),
    Retry(Arc<Lane<L>>),
    /// What leads it goes before it.
    Leading(Answer<L>),
}

impl<L: Language> From<Submitted<L>> for Stage<L> {
    fn from(submitted: Submitted<L>) -> Stage<L> {
        match submitted {
            Submitted::Statement(answer) => Stage::InFlight(answer),
            Submitted::Preparation(answer) => Stage::Preparing(answer),
            Submitted::Pending(lane) => Stage::Retry(lane),
            Submitted::Lead(answer) => Stage::Leading(answer),
        }
    }
}

impl<L: Language> Default for Flight<L> {
    fn default() -> Flight<L> {
        Flight { stage: Stage::Start, resubmits: 0, prepares_only: false, repeats: false }
    }
}

impl<L: Language> fmt::Debug for Flight<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stage = match self.stage {
            Stage::Start => "start",
            Stage::Waiting(_) => "waiting",
            Stage::InFlight(_) => "in flight",
            Stage::Preparing(_) => "preparing",
            Stage::Retry(_) => "waiting for another's preparation",
            Stage::Leading(_) => "behind what leads it",
        };
        f.debug_struct("Flight").field("stage", &stage).finish_non_exhaustive()
    }
}

impl<L: Language> Flight<L> {
    /// Of a statement that may run twice: if its connection is lost after it was sent, it is sent once more.
    #[must_use]
    pub fn idempotent(mut self, idempotent: bool) -> Flight<L> {
        self.repeats = idempotent;
        self
    }

    /// Whether it is queued: it will run, whatever becomes of this.
    pub fn is_queued(&self) -> bool {
        matches!(self.stage, Stage::InFlight(_))
    }

    /// Sends one submission and waits for its reply.
    ///
    /// `encode` writes the payload; it runs again if the statement has to go to another connection, and never under a
    /// lock. The output is an error if `encode` returns one, or a [`Failure`]. All arguments are to be the same each
    /// time.
    pub fn poll<E: From<Failure>>(
        &mut self,
        cx: &Context<'_>,
        pool: &Pool<L>,
        preparations: &[&Preparation],
        encode: &impl Fn(&mut BytesMut) -> Result<(), E>,
    ) -> Poll<Result<Answered<L>, E>> {
        loop {
            let mut preferred = None;
            let place = match &mut self.stage {
                Stage::InFlight(answer) => {
                    let Poll::Ready((outcome, origin)) = answer.poll(cx) else { return Poll::Pending };
                    if let Outcome::Reply { failed, slow, .. } = outcome
                        && (slow || !failed)
                    {
                        preparations.iter().for_each(|preparation| preparation.pace.note(slow));
                    }
                    let outcome = match outcome {
                        Outcome::Reply { bytes: reply, failed, .. } if !pool.is_leased() => {
                            return Poll::Ready(Ok(Answered { reply, failed, to_preparation: false, origin }));
                        }
                        outcome => outcome,
                    };
                    match self.settle(pool, outcome, origin) {
                        Some(settled) => return Poll::Ready(settled.map_err(E::from)),
                        None => continue,
                    }
                }
                Stage::Preparing(answer) => {
                    let Poll::Ready((outcome, origin)) = answer.poll(cx) else { return Poll::Pending };
                    match self.settle_preparation(pool, outcome, origin) {
                        Some(settled) => return Poll::Ready(settled.map_err(E::from)),
                        None => continue,
                    }
                }
                Stage::Leading(answer) => {
                    let Poll::Ready((outcome, origin)) = answer.poll(cx) else { return Poll::Pending };
                    match self.settle_lead(pool, outcome, origin) {
                        Some(settled) => return Poll::Ready(settled.map_err(E::from)),
                        None => continue,
                    }
                }
                Stage::Start | Stage::Retry(_) if pool.is_closed() => return Poll::Ready(Err(Failure::Closed.into())),
                Stage::Retry(lane) => {
                    preferred = Some(Arc::clone(lane));
                    None
                }
                Stage::Waiting(wait) => match wait.as_mut().poll(&mut Context::from_waker(cx.waker())) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Err(failure)) => return Poll::Ready(Err(failure.into())),
                    Poll::Ready(Ok(place)) => Some(place),
                },
                Stage::Start => None,
            };
            let inner = pool.inner();
            if let Some(pin) = pool.pin() {
                return match inner.submit_pinned(preparations, encode, cx.waker(), pin)? {
                    Ok(submitted) => {
                        self.stage = submitted.into();
                        Poll::Pending
                    }
                    // Woken when there is.
                    Err(Refusal::Full) => Poll::Pending,
                    Err(refusal) => Poll::Ready(Err(pin.lane.failure(refusal).into())),
                };
            }
            // Whoever comes back from a preparation has had his place among those who wait.
            let granted = place.is_some() || preferred.is_some();
            match inner.submit(preparations, encode, cx.waker(), granted, preferred.as_ref()) {
                Ok(Ok(submitted)) => {
                    if let Some(place) = place {
                        place.spend();
                    }
                    self.stage = submitted.into();
                    // Its waker is registered: it cannot be there without being woken.
                    return Poll::Pending;
                }
                Ok(Err(NoRoom::Wait)) => {
                    self.stage = Stage::Waiting(Box::pin(wait_for_room(Arc::clone(inner), place)));
                }
                Ok(Err(NoRoom::Closed)) => return Poll::Ready(Err(Failure::Closed.into())),
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    /// What the outcome means for the caller; `None` when the statement starts anew.
    #[cold]
    fn settle(&mut self, pool: &Pool<L>, outcome: Outcome, origin: Origin<L>) -> Option<Result<Answered<L>, Failure>> {
        let inner = pool.inner();
        let leased = pool.is_leased();
        let outcome = if leased { led(outcome, &origin) } else { outcome };
        Some(match outcome {
            Outcome::Reply { bytes: reply, failed, .. } => {
                Ok(Answered { reply, failed, to_preparation: false, origin })
            }
            Outcome::TooLarge => {
                inner.counters.replies_too_large.add(1);
                Err(Failure::ReplyTooLarge { reply_bytes_max: inner.limits.lane.reply_bytes_max })
            }
            Outcome::Lost { sent: false, .. } if !leased && self.resubmits < RESUBMITS_MAX => {
                inner.counters.resubmits.add(1);
                trace::sent_again(origin.lane.number, false);
                self.resubmits += 1;
                self.stage = Stage::Start;
                return None;
            }
            // Who breaks the protocol once is not asked again.
            Outcome::Lost { sent: true, loss }
                if !leased && !matches!(loss.cause, LossCause::Peer(_)) && std::mem::take(&mut self.repeats) =>
            {
                inner.counters.repeats.add(1);
                trace::sent_again(origin.lane.number, true);
                self.stage = Stage::Start;
                return None;
            }
            Outcome::Lost { sent, loss } => {
                if !sent {
                    return Some(Err(Failure::lost_unsent(loss)));
                }
                inner.counters.lost_after_sent.add(1);
                Err(Failure::Lost { sent, loss })
            }
        })
    }
}

impl<L: Language> Flight<L> {
    /// What the outcome of a preparation means; `None` when the statement goes on, on the same connection. Whatever happens
    /// to a preparation, the statement was not sent.
    #[cold]
    fn settle_preparation(
        &mut self,
        pool: &Pool<L>,
        outcome: Outcome,
        origin: Origin<L>,
    ) -> Option<Result<Answered<L>, Failure>> {
        let outcome = if pool.is_leased() { led(outcome, &origin) } else { outcome };
        match outcome {
            Outcome::Reply { failed: false, .. } if !self.prepares_only => {
                self.stage = Stage::Retry(origin.lane);
                None
            }
            Outcome::Reply { bytes: reply, failed, .. } => {
                Some(Ok(Answered { reply, failed, to_preparation: true, origin }))
            }
            Outcome::Lost { loss, .. } => self.settle(pool, Outcome::Lost { sent: false, loss }, origin),
            outcome @ Outcome::TooLarge => self.settle(pool, outcome, origin),
        }
    }
}

impl<L: Language> Flight<L> {
    /// What came of what leads the statement; `None` when that goes on. Whatever it came to, the statement was not sent.
    #[cold]
    fn settle_lead(
        &mut self,
        pool: &Pool<L>,
        outcome: Outcome,
        origin: Origin<L>,
    ) -> Option<Result<Answered<L>, Failure>> {
        if let Outcome::Reply { failed: false, .. } = outcome {
            self.stage = Stage::Start;
            return None;
        }
        origin.lane.lock().tenancy.fail_transaction();
        match outcome {
            Outcome::Lost { loss, .. } => self.settle(pool, Outcome::Lost { sent: false, loss }, origin),
            outcome => self.settle(pool, outcome, origin),
        }
    }
}

/// What a lease's statement came to, when what led it has been seen to: a transaction that could not begin is what it
/// failed by.
#[cold]
fn led<L: Language>(outcome: Outcome, origin: &Origin<L>) -> Outcome {
    if L::LEAD_HAS_OWN_REPLY {
        return origin.lane.lock().lead_outcome().unwrap_or(outcome);
    }
    match outcome {
        Outcome::Reply { bytes, failed, slow } if origin.led => {
            Outcome::Reply { bytes: L::strip_lead(bytes), failed, slow }
        }
        outcome => outcome,
    }
}

impl<L: Language> Pool<L> {
    /// Where the server names statements: has one connection prepare a statement, and returns the reply to that.
    ///
    /// # Errors
    ///
    /// A [`Failure`].
    pub async fn prepare(&self, preparation: &Preparation) -> Result<Answered<L>, Failure> {
        let mut flight = Flight { prepares_only: true, ..Flight::default() };
        poll_fn(|cx| flight.poll(cx, self, &[preparation], &|_: &mut BytesMut| Ok(()))).await
    }

    /// Where the server names statements: has every connection's server forget half of them, and keeps no more from here
    /// on: the server has no room for so many.
    pub fn forget_half_of_prepared(&self) {
        self.inner().lanes.load().iter().for_each(|lane| lane.forget_half());
        if let Some(pin) = self.pin() {
            pin.lane.forget_half();
        }
    }

    /// Sends one submission and waits for its reply: [`Flight`] as a future.
    ///
    /// # Errors
    ///
    /// What `encode` returns, or a [`Failure`].
    pub async fn run<E: From<Failure>>(
        &self,
        preparations: &[&Preparation],
        encode: impl Fn(&mut BytesMut) -> Result<(), E>,
    ) -> Result<Answered<L>, E> {
        self.run_flight(Flight::default(), preparations, encode).await
    }

    /// The same for a flight that has begun, or is to begin in a certain place.
    ///
    /// # Errors
    ///
    /// What `encode` returns, or a [`Failure`].
    pub async fn run_flight<E: From<Failure>>(
        &self,
        mut flight: Flight<L>,
        preparations: &[&Preparation],
        encode: impl Fn(&mut BytesMut) -> Result<(), E>,
    ) -> Result<Answered<L>, E> {
        poll_fn(|cx| flight.poll(cx, self, preparations, &encode)).await
    }
}

/// Waits until room is granted. With a `place` that was granted room which came to nothing, from that place on.
async fn wait_for_room<L: Language>(inner: Arc<Inner<L>>, place: Option<Place>) -> Result<Place, Failure> {
    let mut place = match place {
        Some(mut place) => {
            place.requeue();
            place
        }
        None => {
            inner.counters.waits.add(1);
            if let Some(failure) = inner.refused() {
                return Err(Failure::Refused(failure));
            }
            inner.waiters.join()?
        }
    };
    if inner.closing.load(Ordering::SeqCst) {
        // Whoever closes the pool sets this first and then fails everyone who waits.
        return Err(Failure::Closed);
    }
    if let Some(failure) = inner.refused() {
        // Asked again: whoever was refused told those who waited then, and we may just have missed it.
        return Err(Failure::Refused(failure));
    }
    // Asked after joining: a place that becomes free from here on is granted to us, and one that became free just
    // before is seen here.
    inner.grant();
    inner.ensure_lane();
    let waited = |place: &Place| place.since().elapsed();
    loop {
        let remaining = inner.limits.acquire_timeout.saturating_sub(waited(&place));
        match within(remaining.min(LOOK_INTERVAL), place.granted()).await {
            Some(Ok(())) => return Ok(place),
            Some(Err(failure)) => return Err(failure),
            None if remaining > LOOK_INTERVAL => inner.grant(),
            None => {
                let waited = waited(&place);
                drop(place);
                // A grant that came in this very moment was not used.
                inner.grant();
                return Err(inner.acquire_timed_out(waited));
            }
        }
    }
}
