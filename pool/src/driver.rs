//! The other side of a lane: the task that owns the socket.
//!
//! A turn is one poll of the task: at most one write, of all that callers have queued since the last turn, and at
//! most one read. Writes and reads always advance together: with both socket buffers full, a client that only
//! wrote would deadlock with a server that only writes. After a read the task goes to the back of the scheduler's
//! queue, so that the callers it woke run first and their next statements share the next write.
//!
//! The task may end at any await because its runtime does. Then the library's own thread goes on where it stopped: a
//! thread that ends takes nobody's answer with it.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use deadpool::managed::Object;

use crate::budget::{Budget, Link, Live, Seat};
use crate::error::{Loss, LossCause};
use crate::home;
use crate::inbound::{Event, Inbound};
use crate::lane::{AfterDrain, Lane};
use crate::language::{Expected, Handle, Language, StatementId};
use crate::low_water::LowWater;
use crate::pace::SLOW_US;
use crate::pipeline::Outcome;
use crate::pool::Inner;
use crate::prepared::Prepared;
use crate::service::Service;
use crate::socket::Socket;
use crate::tenancy::Tenant;
use crate::trace;

/// A reply that is not whole yet is checked for a caller who still waits for it once it is this large.
const ABANDONED_CHECK_BYTES: usize = 64 * 1024;

/// A pause after which a connection is looked at before it is written to. It costs one system call, which a connection
/// that has rested for so long has time for.
const IDLE_LOOK_US: u64 = 1_000;

/// After a failed write, so much is read at most in search of the server's last words.
const LAST_WORDS_BYTES_MAX: usize = 64 * 1024;

/// How a lane ends.
enum Ending {
    /// It drained, as it was told to.
    Drained(AfterDrain),
    /// Its connection ended.
    Lost(LossCause),
}

/// Owns one connection while it is a lane.
pub(crate) struct Driver<L: Language> {
    pool: Arc<Inner<L>>,
    lane: Arc<Lane<L>>,
    seat: Option<Object<Budget<L>>>,
    /// `None` once the connection has ended or was parked.
    socket: Option<Socket>,
    inbound: Option<Inbound<L::Framer>>,
    writing: Vec<u8>,
    written: usize,
    /// The socket took nothing when last asked.
    blocked: bool,
    replies: Vec<Outcome>,
    /// Replies delivered so far, and which of those to come belong to preparations; what those that came call their
    /// statements. All empty where the driver names statements.
    delivered: u64,
    preparations: VecDeque<(u64, StatementId)>,
    /// One caller has the connection for himself; what the server last said of a transaction on it.
    leased: bool,
    settled: bool,
    named: Vec<(StatementId, Option<Handle>)>,
    wake: Vec<Waker>,
    farewell: Option<Bytes>,
    last_progress_us: u64,
    /// The least that a statement took which the server was idle before: the way there and back, and a little more.
    round_trip_us: u64,
    /// When such a statement was written.
    asked_at_us: Option<u64>,
    service: Service,
    low_water: LowWater,
    /// Statements that were written and not answered, as last seen.
    backlog: usize,
    /// Since when nothing is in flight; `None` while something is.
    idle_since_us: Option<u64>,
    /// Something came while the connection was idle, and is read before anything is written.
    holding: bool,
}

impl<L: Language> Driver<L> {
    pub(crate) fn new(
        pool: Arc<Inner<L>>,
        lane: Arc<Lane<L>>,
        seat: Object<Budget<L>>,
        socket: Socket,
        inbound: Inbound<L::Framer>,
        round_trip_us: u64,
    ) -> Driver<L> {
        Driver {
            idle_since_us: Some(pool.now_us()),
            holding: false,
            pool,
            lane,
            seat: Some(seat),
            socket: Some(socket),
            inbound: Some(inbound),
            writing: Vec::new(),
            written: 0,
            blocked: false,
            replies: Vec::new(),
            delivered: 0,
            preparations: VecDeque::new(),
            leased: false,
            settled: true,
            named: Vec::new(),
            wake: Vec::new(),
            farewell: None,
            last_progress_us: 0,
            round_trip_us,
            asked_at_us: None,
            service: Service::default(),
            low_water: LowWater::default(),
            backlog: 0,
        }
    }

    /// Drives the lane to its end.
    pub(crate) async fn run(mut self) {
        match poll_fn(|cx| self.turn(cx)).await {
            Ending::Lost(cause) => self.lose(cause),
            Ending::Drained(after_drain) => self.retire(after_drain),
        }
    }

    fn turn(&mut self, cx: &mut Context<'_>) -> Poll<Ending> {
        self.lane.counters.turns.add_unshared(1);
        if let Some(ending) = self.collect(cx) {
            return Poll::Ready(ending);
        }
        let mut again = false;
        if self.written < self.writing.len() {
            self.look_before_writing();
        }
        if self.holding {
            again = true;
        } else if self.written < self.writing.len() {
            match self.write(cx) {
                Ok(more) => again = more,
                Err(cause) => {
                    self.hear_last_words();
                    return Poll::Ready(Ending::Lost(cause));
                }
            }
        }
        match self.read(cx) {
            // What had come was not for us but for what lies between, as TLS' own messages are.
            Poll::Pending if self.holding => self.holding = self.socket.as_ref().is_some_and(Socket::has_input),
            Poll::Pending => {}
            Poll::Ready(Ok(())) => {
                self.holding = false;
                again = true;
            }
            Poll::Ready(Err(cause)) => return Poll::Ready(Ending::Lost(cause)),
        }
        if again {
            cx.waker().wake_by_ref();
        } else {
            self.adjust_low_water();
        }
        Poll::Pending
    }

    /// Before the driver rests: how much has to come before the kernel wakes it.
    fn adjust_low_water(&mut self) {
        if !self.socket.as_ref().is_some_and(Socket::has_low_water) {
            return;
        }
        if self.leased {
            // Nobody watches over it.
            if self.low_water.is_raised() {
                self.tell_low_water(1);
                self.low_water = LowWater::default();
            }
            return;
        }
        if let Some(bytes) = self.low_water.adjust(self.backlog, self.lane.service_us(), self.round_trip_us) {
            self.tell_low_water(bytes);
        }
    }

    fn tell_low_water(&mut self, bytes: usize) {
        // Said first, so that the watch that is there, or is called for here, sees it.
        self.lane.set_collects(bytes > 1);
        let bytes = if bytes == 1 || self.pool.watch() { bytes } else { 1 };
        if let Some(socket) = &self.socket {
            socket.set_low_water(bytes);
        }
    }

    /// Takes what callers have queued.
    fn collect(&mut self, cx: &Context<'_>) -> Option<Ending> {
        let mut shared = self.lane.lock();
        match &mut shared.driver {
            Some(known) if known.will_wake(cx.waker()) => {}
            driver => *driver = Some(cx.waker().clone()),
        }
        if let Some(cause) = &shared.killed {
            return Some(Ending::Lost(cause.clone()));
        }
        self.leased = shared.tenancy.tenant != Tenant::PUBLIC;
        if std::mem::take(&mut shared.fetch) && self.socket.as_ref().is_some_and(Socket::has_input) {
            self.low_water.lower();
        }
        self.backlog = shared.pipeline.backlog();
        if self.written < self.writing.len() {
            return None;
        }
        self.writing.clear();
        self.written = 0;
        if shared.pipeline.may_wait(self.lane.service_us(), self.round_trip_us) {
            return None;
        }
        let had_room = shared.pipeline.has_room_for_bytes();
        if shared.pipeline.backlog() == 0 && shared.pipeline.depth() > 0 {
            self.asked_at_us = Some(self.pool.now_us());
        }
        shared.take_unsent(&mut self.writing, &mut self.preparations);
        self.backlog = shared.pipeline.backlog();
        self.lane.publish(&shared);
        let drained = shared.pipeline.is_drained() && self.writing.is_empty();
        let after_drain = shared.after_drain;
        drop(shared);
        if !had_room {
            self.pool.grant();
        }
        if drained && after_drain == AfterDrain::Lease {
            self.pool.drained_for_lease(&self.lane);
            return None;
        }
        drained.then_some(Ending::Drained(after_drain))
    }

    /// The first statement after a pause: if the server has said something meanwhile that the runtime has not noticed yet
    /// (its thread was busy with something else), that is read first. It may be good-bye, and then the statement goes
    /// elsewhere instead of being lost with the connection.
    fn look_before_writing(&mut self) {
        let Some(idle_since_us) = self.idle_since_us.take() else { return };
        if self.pool.now_us().saturating_sub(idle_since_us) >= IDLE_LOOK_US {
            self.holding = self.socket.as_ref().is_some_and(Socket::has_input);
        }
        if self.holding && self.low_water.is_raised() {
            // Seen by us and not by the runtime, which would never be told of so little.
            self.tell_low_water(1);
            self.low_water = LowWater::default();
        }
    }

    /// One write. `Ok(true)`: there is more to write, and the socket may take it; what was queued since a write could not
    /// be finished counts as well, because nobody wakes us for it again.
    fn write(&mut self, cx: &mut Context<'_>) -> Result<bool, LossCause> {
        let Some(socket) = &mut self.socket else { return Ok(false) };
        let left_over = self.written > 0 || self.blocked;
        match socket.poll_write(cx, &self.writing[self.written..]) {
            Poll::Pending => {
                self.blocked = true;
                Ok(false)
            }
            Poll::Ready(Ok(0)) => Err(LossCause::PeerClosed),
            Poll::Ready(Ok(count)) => {
                self.written += count;
                self.blocked = false;
                self.lane.counters.writes.add_unshared(1);
                self.lane.counters.bytes_written.add_unshared(count as u64);
                Ok(left_over || self.written < self.writing.len())
            }
            Poll::Ready(Err(error)) => Err(LossCause::Io(Arc::new(error))),
        }
    }

    /// One read, and all that comes of it.
    fn read(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LossCause>> {
        let (Some(socket), Some(inbound)) = (&mut self.socket, &mut self.inbound) else { return Poll::Pending };
        match socket.poll_read(cx, inbound.buffer()) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Ok(0)) => Poll::Ready(Err(LossCause::PeerClosed)),
            Poll::Ready(Ok(count)) => {
                self.lane.counters.reads.add_unshared(1);
                self.lane.counters.bytes_read.add_unshared(count as u64);
                Poll::Ready(self.receive())
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(LossCause::Io(Arc::new(error)))),
        }
    }

    /// Cuts replies off the input and hands them to their callers.
    fn receive(&mut self) -> Result<(), LossCause> {
        let Some(inbound) = &mut self.inbound else { return Ok(()) };
        // What waits to be written is owed no reply.
        let expecting = self.backlog;
        let mut result = Ok(());
        let mut leaves_host = false;
        loop {
            let place = self.delivered + self.replies.len() as u64;
            let preparation = self.preparations.front().filter(|(expected, _)| *expected == place).map(|(_, id)| *id);
            // Said to the compiler, which then leaves out what is for other languages.
            let preparation = if L::SERVER_NAMES_STATEMENTS { preparation } else { None };
            let expected = match preparation {
                _ if expecting == self.replies.len() => Expected::Nothing,
                Some(_) => Expected::Preparation,
                None => Expected::Statement,
            };
            match inbound.next(expected) {
                Ok(Some(Event::Reply { bytes, settled, failed })) => {
                    if let Some(bytes) = &bytes {
                        self.low_water.saw_reply(bytes.len());
                        // Asked before it is delivered: until then its lease, if it is of one, has not ended.
                        leaves_host |=
                            failed && L::reply_leaves_host(bytes) && self.lane.lock().tenancy.hears_the_server();
                    }
                    if let Some(id) = preparation {
                        self.preparations.pop_front();
                        // One that failed in its middle is not to be used, whatever name it began with.
                        self.named.push((id, bytes.as_deref().filter(|_| !failed).and_then(L::handle)));
                    }
                    self.replies.push(bytes.map_or(Outcome::TooLarge, |bytes| Outcome::Reply {
                        bytes,
                        failed,
                        slow: false,
                    }));
                    self.settled = settled;
                    if !settled && !self.leased {
                        self.pool.counters.quarantines.add(1);
                        trace::quarantined(self.lane.number);
                        result = Err(LossCause::Quarantined);
                        break;
                    }
                }
                Ok(Some(Event::Farewell(bytes))) => {
                    leaves_host |= L::farewell_leaves_host(&bytes);
                    // Not waited for: whoever says good-bye and stays would keep everyone in flight.
                    self.farewell = Some(bytes);
                    result = Err(LossCause::PeerClosed);
                    break;
                }
                Ok(None) => break,
                Err(fault) => {
                    result = Err(LossCause::Peer(fault));
                    break;
                }
            }
        }
        let large = inbound.held_bytes() > ABANDONED_CHECK_BYTES;
        let too_large = inbound.is_dropping();
        if !self.replies.is_empty() || large || too_large {
            self.deliver(large, too_large);
        }
        if leaves_host {
            self.pool.leave_host(self.lane.birth.generation);
        }
        result
    }

    fn deliver(&mut self, large: bool, too_large: bool) {
        let now_us = self.pool.now_us();
        let count = self.replies.len();
        let mut shared = self.lane.lock();
        let began_us = shared.pipeline.oldest_since_us().unwrap_or(now_us).max(self.last_progress_us);
        let alone_us = now_us.saturating_sub(shared.pipeline.oldest_since_us().unwrap_or(now_us));
        if let Some(Outcome::Reply { slow, .. }) = self.replies.first_mut() {
            *slow = alone_us > SLOW_US;
        }
        let says_state = matches!(self.replies.last(), Some(Outcome::Reply { failed: false, .. }));
        for outcome in self.replies.drain(..) {
            shared.pipeline.complete(outcome, &mut self.wake, now_us);
        }
        self.delivered += count as u64;
        self.backlog = self.backlog.saturating_sub(count);
        if count > 0
            && let Some(asked_at_us) = self.asked_at_us.take()
        {
            self.round_trip_us = self.round_trip_us.min(now_us.saturating_sub(asked_at_us));
        }
        for (id, handle) in self.named.drain(..) {
            shared.prepared.settle(id, handle, &mut self.wake);
        }
        if self.leased {
            shared.tenancy.answered(count, self.settled);
            let mut queued = false;
            if count > 0 && (says_state || self.settled) {
                shared.tenancy.asked = false;
            } else if count > 0 {
                queued = shared.ask_state::<L>(now_us);
            }
            if queued || shared.pay_owed(now_us) {
                self.wake.extend(shared.driver.clone());
            }
            shared.tenancy.wake_for_room(&mut self.wake);
        }
        if too_large {
            // Told now: whether the rest ever comes is up to the server.
            shared.pipeline.complete_early(Outcome::TooLarge, &mut self.wake);
        }
        // The reply to a preparation is needed even if its caller is gone: it says the statement's name.
        let is_preparation = self.preparations.front().is_some_and(|(place, _)| *place == self.delivered);
        let abandoned = large && !is_preparation && shared.pipeline.oldest_is_abandoned();
        if shared.pipeline.depth() == 0 {
            self.idle_since_us = Some(now_us);
        }
        self.lane.publish(&shared);
        drop(shared);
        if count > 0 && self.lane.counters.replies.get() == 0 {
            self.pool.note_first_reply();
        }
        self.lane.counters.replies.add_unshared(count as u64);
        self.wake.drain(..).for_each(Waker::wake);
        if abandoned && let Some(inbound) = &mut self.inbound {
            inbound.drop_current_reply();
        }
        if count > 0 {
            self.lane.set_service_us(self.service.add(now_us.saturating_sub(began_us), count as u64));
            self.last_progress_us = now_us;
            self.pool.grant();
        }
    }

    /// After a failed write the server's reason may be waiting to be read.
    fn hear_last_words(&mut self) {
        let mut heard = 0;
        while heard < LAST_WORDS_BYTES_MAX {
            let (Some(socket), Some(inbound)) = (&mut self.socket, &mut self.inbound) else { return };
            match socket.try_read(inbound.buffer()) {
                Ok(count) if count > 0 => heard += count,
                _ => return,
            }
            if self.receive().is_err() {
                return;
            }
        }
    }

    /// The connection has ended: everyone in flight is told, the place in the budget becomes free.
    fn lose(&mut self, cause: LossCause) {
        let runtime_ends = matches!(cause, LossCause::RuntimeEnded);
        if !runtime_ends && !matches!(cause, LossCause::PoolClosed) {
            self.pool.counters.connections_lost.add(1);
        }
        let by_peer = matches!(cause, LossCause::PeerClosed | LossCause::Io(_) | LossCause::Peer(_));
        if by_peer && self.lane.counters.replies.get() == 0 {
            self.pool.note_early_end();
        }
        if by_peer && let Some(inbound) = &mut self.inbound {
            inbound.lost(self.lane.depth());
        }
        trace::connection_lost(self.lane.number, self.lane.depth(), &cause);
        // From here on nobody takes it for a lane or a lease; a lease that comes back just now is not listed again.
        self.lane.lock().killed.get_or_insert(cause.clone());
        // First out of the list, so that nobody who is woken here chooses this lane again.
        self.pool.remove_lane(&self.lane);
        let loss = Arc::new(Loss { farewell: self.farewell.take(), cause });
        let unwritten_bytes = self.writing.len() - self.written;
        let mut shared = self.lane.lock();
        shared.pipeline.lose(&loss, unwritten_bytes, &mut self.wake);
        shared.prepared.lose(&mut self.wake);
        shared.tenancy.wake_for_room(&mut self.wake);
        shared.lost = Some(Arc::clone(&loss));
        self.lane.publish(&shared);
        drop(shared);
        self.leave(runtime_ends);
        self.wake.drain(..).for_each(Waker::wake);
    }

    /// The lane has drained.
    fn retire(&mut self, after_drain: AfterDrain) {
        self.pool.remove_lane(&self.lane);
        let live = match (after_drain, self.socket.take(), self.inbound.take()) {
            (AfterDrain::HandOver, Some(socket), Some(inbound)) => {
                if self.low_water.is_raised() {
                    socket.set_low_water(1);
                }
                socket.park().ok().map(|socket| {
                    let prepared = std::mem::replace(&mut self.lane.lock().prepared, Prepared::new(0));
                    let (in_flight_max, round_trip_us) = (self.lane.in_flight_max, self.round_trip_us);
                    let cancellation = self.lane.cancellation.clone();
                    let (link, birth) = (Link::Parked(socket), Some(self.lane.birth));
                    Live { link, inbound, prepared, in_flight_max, birth, round_trip_us, cancellation }
                })
            }
            (_, Some(mut socket), _) => {
                socket.try_write(L::farewell());
                None
            }
            _ => None,
        };
        if let Some(seat) = &mut self.seat {
            **seat = Seat(live);
        }
        self.leave(false);
    }

    /// Closes the socket, if it is still ours, and then gives the place back: in this order there is never a socket
    /// too many.
    fn leave(&mut self, runtime_ends: bool) {
        self.socket = None;
        self.inbound = None;
        self.seat = None;
        self.pool.lane_ended(runtime_ends);
    }
}

impl<L: Language> Driver<L> {
    /// The runtime ends while the lane is in use: the library's own thread drives it from here on, and nobody notices.
    fn move_to_background(&mut self) -> bool {
        let Some(runtime) = home::background() else { return false };
        let Some(socket) = self.socket.take().and_then(|socket| socket.park().ok()) else { return false };
        let mut driver = Driver {
            pool: Arc::clone(&self.pool),
            lane: Arc::clone(&self.lane),
            seat: self.seat.take(),
            socket: None,
            inbound: self.inbound.take(),
            writing: std::mem::take(&mut self.writing),
            written: self.written,
            blocked: self.blocked,
            replies: std::mem::take(&mut self.replies),
            delivered: self.delivered,
            preparations: std::mem::take(&mut self.preparations),
            leased: self.leased,
            settled: self.settled,
            named: std::mem::take(&mut self.named),
            wake: std::mem::take(&mut self.wake),
            farewell: self.farewell.take(),
            last_progress_us: self.last_progress_us,
            round_trip_us: self.round_trip_us,
            asked_at_us: self.asked_at_us,
            service: std::mem::take(&mut self.service),
            low_water: std::mem::take(&mut self.low_water),
            backlog: self.backlog,
            idle_since_us: self.idle_since_us,
            holding: self.holding,
        };
        self.lane.set_home(home::SHARED);
        runtime.spawn(async move {
            match socket.unpark() {
                Ok(socket) => {
                    driver.socket = Some(socket);
                    driver.run().await;
                }
                Err(error) => driver.lose(LossCause::Io(Arc::new(error))),
            }
        });
        true
    }
}

impl<L: Language> Drop for Driver<L> {
    fn drop(&mut self) {
        if self.seat.is_none() {
            return;
        }
        // A driver that panicked is not to be trusted with what it has read.
        if std::thread::panicking() || !self.move_to_background() {
            self.lose(LossCause::RuntimeEnded);
        }
    }
}

/// Takes a connection out of its seat and onto the current runtime.
pub(crate) fn take_over<L: Language>(seat: &mut Object<Budget<L>>) -> Option<Live<L::Framer, Socket>> {
    let Live { link, inbound, prepared, in_flight_max, birth, round_trip_us, cancellation } = seat.0.take()?;
    let socket = match link {
        Link::New(socket) => socket,
        Link::Parked(parked) => parked.unpark().ok()?,
    };
    Some(Live { link: socket, inbound, prepared, in_flight_max, birth, round_trip_us, cancellation })
}
