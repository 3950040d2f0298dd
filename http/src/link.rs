//! One connection as its three users see it: hyper's socket, the service that calls the handler, and the
//! thread's clock. They run on one thread, one at a time.
//!
//! ```text
//!            accept
//!              │
//!            Fresh ── first byte ──> Head ── head complete ──> Request <──> Body (handler waits for it)
//!                                     ^                          │
//!                                     │ bytes                    │ handler done
//!                                     │                          v
//!                                    Idle <── nothing to read ── Answer ── closing ──> Linger
//! ```
//!
//! **Writes are gathered**: the answers to pipelined requests are kept until the connection's turn ends, and
//! leave in one write. That a client pipelines shows at its second request, so its first answer leaves by
//! itself. A turn never ends with bytes kept that the socket would take, so nobody waits for a neighbour in the
//! pipeline. (hyper's own `pipeline_flush` keeps an answer back for as long as the start of a next request is in
//! its buffer, a stray line end included; so it is off.)

use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};

use bytes::{Buf, BytesMut};
use hyper::Uri;
use hyper::body::Incoming;
use hyper::http::request::Parts;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::HeaderMap;
use crate::request::request_bytes;
use crate::thread::{Stage, Thread};

/// Answers kept for one write at most; past it hyper has to wait for the client.
const UNSENT_BYTES_MAX: usize = 64 * 1024;

/// Memory that a connection keeps for its next gathered write; more is given back.
const UNSENT_BYTES_KEPT: usize = 4 * 1024;

/// The shortest request: `GET / HTTP/1.0` and its line ends. Less than that past the end of a request is the
/// line end that some clients send after a body, or spaces in its head.
const REQUEST_BYTES_MIN: u64 = 18;

/// What a connection is doing, which tells how long it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Accepted, and nothing came yet.
    Fresh,
    /// A head is arriving.
    Head,
    /// A handler is at work.
    Request,
    /// A handler waits for the body.
    Body,
    /// The answer is made and on its way.
    Answer,
    /// Nothing is going on.
    Idle,
    /// The last answer is sent; what the client still sends is read and dropped.
    Linger,
}

/// Which time was up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expiry {
    Fresh,
    Head,
    Body,
    Idle,
    Linger,
    Write,
}

pub(crate) struct Link {
    thread: Rc<Thread>,
    peer: SocketAddr,
    stream: RefCell<TcpStream>,
    unsent: RefCell<BytesMut>,
    phase: Cell<Phase>,
    /// The tick at which the phase began.
    since: Cell<u32>,
    /// The tick since which the socket takes nothing.
    write_blocked_since: Cell<Option<u32>>,
    expiry: Cell<Option<Expiry>>,
    waker: RefCell<Option<Waker>>,
    /// Bytes read between requests that no request has been made of yet.
    bytes_unclaimed: Cell<u64>,
    /// Those that had been read when the current request began, its own among them. None: it was in hyper's
    /// buffer already, behind the one before it.
    bytes_of_request: Cell<u64>,
    /// Whether the client pipelines, as far as its last two requests tell.
    pipelines: Cell<bool>,
    requests: Cell<u64>,
    peer_closed: Cell<bool>,
    is_cut_short: Cell<bool>,
    unread_body: Cell<Option<Incoming>>,
    head: RefCell<Option<Rc<Parts>>>,
}

impl Link {
    pub(crate) fn new(thread: Rc<Thread>, stream: TcpStream, peer: SocketAddr) -> Link {
        Link {
            peer,
            stream: RefCell::new(stream),
            unsent: RefCell::new(BytesMut::new()),
            phase: Cell::new(Phase::Fresh),
            since: Cell::new(thread.now()),
            write_blocked_since: Cell::new(None),
            expiry: Cell::new(None),
            waker: RefCell::new(None),
            bytes_unclaimed: Cell::new(0),
            bytes_of_request: Cell::new(0),
            pipelines: Cell::new(false),
            requests: Cell::new(0),
            peer_closed: Cell::new(false),
            is_cut_short: Cell::new(false),
            unread_body: Cell::new(None),
            head: RefCell::new(None),
            thread,
        }
    }

    #[inline]
    pub(crate) fn thread(&self) -> &Rc<Thread> {
        &self.thread
    }

    pub(crate) fn peer(&self) -> SocketAddr {
        self.peer
    }

    // ----- phases -----

    #[inline]
    pub(crate) fn phase(&self) -> Phase {
        self.phase.get()
    }

    #[inline]
    pub(crate) fn enter(&self, phase: Phase) {
        self.phase.set(phase);
        self.since.set(self.thread.now());
    }

    /// Goes back to waiting for a body whose time began at tick `since`.
    #[inline]
    pub(crate) fn enter_body(&self, since: u32) {
        self.phase.set(Phase::Body);
        self.since.set(since);
    }

    /// A head is complete: the next request begins. Its number tells it from the others of the connection.
    #[inline]
    pub(crate) fn begin_request(&self) -> u64 {
        self.enter(Phase::Request);
        let bytes = self.bytes_unclaimed.replace(0);
        let last_bytes = self.bytes_of_request.replace(bytes);
        self.pipelines.set(bytes == 0 || (last_bytes == 0 && self.requests.get() > 0));
        let number = self.requests.get() + 1;
        self.requests.set(number);
        number
    }

    #[inline]
    pub(crate) fn request_number(&self) -> u64 {
        self.requests.get()
    }

    /// Whether the answer in the making is the connection's last because the server stops. Requests that were
    /// read already are answered first.
    #[inline]
    pub(crate) fn ends_after_this(&self) -> bool {
        self.thread.stage() >= Stage::Stopping && !self.has_more_requests()
    }

    /// Whether more requests were read than the current one. hyper does not tell, and looking for the ends of
    /// heads in all that is read would cost every request; so it is worked out only when a stop asks.
    #[cold]
    fn has_more_requests(&self) -> bool {
        let read = self.bytes_of_request.get();
        let own = self.head.borrow().as_ref().map_or(read, |head| request_bytes(head));
        read == 0 || read.saturating_sub(own) >= REQUEST_BYTES_MIN
    }

    pub(crate) fn peer_closed(&self) -> bool {
        self.peer_closed.get()
    }

    /// Notes that the last answer comes before the end of its request.
    pub(crate) fn cut_short(&self) {
        self.is_cut_short.set(true);
    }

    pub(crate) fn is_cut_short(&self) -> bool {
        self.is_cut_short.get()
    }

    // ----- the clock -----

    /// How to wake the task of the connection.
    pub(crate) fn set_waker(&self, waker: &Waker) {
        *self.waker.borrow_mut() = Some(waker.clone());
    }

    pub(crate) fn wake(&self) {
        if let Some(waker) = &*self.waker.borrow() {
            waker.wake_by_ref();
        }
    }

    /// Notes and wakes if the time of the phase is up. Called once per tick.
    pub(crate) fn expire(&self) {
        let now = self.thread.now();
        let limits = &self.thread.limits;
        let (limit, expiry) = match self.phase.get() {
            Phase::Fresh => (limits.head_read, Expiry::Fresh),
            Phase::Head => (limits.head_read, Expiry::Head),
            Phase::Body => (limits.body_read, Expiry::Body),
            Phase::Idle => (limits.keep_alive, Expiry::Idle),
            Phase::Linger => (limits.linger, Expiry::Linger),
            Phase::Request | Phase::Answer => return self.expire_write(now),
        };
        if limit.passed(self.since.get(), now) {
            self.expiry.set(Some(expiry));
            self.wake();
        } else {
            self.expire_write(now);
        }
    }

    fn expire_write(&self, now: u32) {
        let blocked = self.write_blocked_since.get();
        if blocked.is_some_and(|since| self.thread.limits.write.passed(since, now)) {
            self.expiry.set(Some(Expiry::Write));
            self.wake();
        }
    }

    #[inline]
    pub(crate) fn expiry(&self) -> Option<Expiry> {
        self.expiry.get()
    }

    /// Whether the time for the body is up, counted where it is noticed.
    pub(crate) fn body_is_expired(&self) -> bool {
        let is_expired = self.expiry.get() == Some(Expiry::Body);
        if is_expired {
            self.thread.counters.timeouts_body.add(1);
        }
        is_expired
    }

    // ----- what the service leaves here -----

    /// Keeps a body that a handler did not read to its end.
    #[inline]
    pub(crate) fn keep_unread_body(&self, body: Incoming) {
        self.unread_body.set(Some(body));
    }

    #[inline]
    pub(crate) fn take_unread_body(&self) -> Option<Incoming> {
        self.unread_body.take()
    }

    /// Keeps the head of a request where its handler reads it, in the memory of the last one: requests are
    /// moved about, and a head is large.
    #[inline]
    pub(crate) fn store_head(&self, parts: Parts) -> Rc<Parts> {
        let mut place = self.head.borrow_mut();
        if let Some(last) = &mut *place
            && let Some(memory) = Rc::get_mut(last)
        {
            *memory = parts;
            return Rc::clone(last);
        }
        // The first one, or the handler has kept the last one.
        Rc::clone(place.insert(Rc::new(parts)))
    }

    /// Lets go of the bytes of the head, which hold up the read buffer, and takes its header map, empty, for
    /// the answer. A head that the handler has kept stays as it is.
    #[inline]
    pub(crate) fn take_header_map(&self) -> HeaderMap {
        let mut place = self.head.borrow_mut();
        let Some(head) = place.as_mut().and_then(Rc::get_mut) else {
            return HeaderMap::new();
        };
        head.uri = Uri::default();
        let mut map = std::mem::take(&mut head.headers);
        map.clear();
        map
    }

    // ----- bytes -----

    #[inline]
    pub(crate) fn poll_read(&self, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        match Pin::new(&mut *self.stream.borrow_mut()).poll_read(context, buffer) {
            Poll::Ready(Ok(())) => {
                self.received(buffer.filled().len().saturating_sub(before));
                Poll::Ready(Ok(()))
            }
            Poll::Pending => {
                self.nothing_to_read();
                // To hyper this reads as the client's end: it has nothing more to do, and closes.
                if self.is_to_close() { Poll::Ready(Ok(())) } else { Poll::Pending }
            }
            failed => failed,
        }
    }

    #[inline]
    fn received(&self, bytes: usize) {
        if bytes == 0 {
            self.peer_closed.set(true);
            return;
        }
        self.thread.counters.bytes_received.add(bytes as u64);
        if matches!(self.phase.get(), Phase::Fresh | Phase::Answer | Phase::Idle) {
            self.enter(Phase::Head);
        }
        if self.phase.get() == Phase::Head {
            self.bytes_unclaimed.set(self.bytes_unclaimed.get() + bytes as u64);
        }
    }

    /// Asked for bytes after an answer, there are none: hyper has dealt with all that was read.
    #[inline]
    fn nothing_to_read(&self) {
        if self.phase.get() == Phase::Answer {
            self.bytes_unclaimed.set(0);
            self.enter(Phase::Idle);
        }
    }

    #[inline]
    fn is_to_close(&self) -> bool {
        match self.phase.get() {
            Phase::Idle => self.thread.stage() >= Stage::ClosingIdle,
            Phase::Fresh => self.thread.stage() >= Stage::ClosingFresh,
            _ => false,
        }
    }

    /// Takes bytes to send: now, or at the end of the turn if the answer is likely one of several.
    pub(crate) fn poll_write(&self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let is_empty = self.unsent.borrow().is_empty();
        if is_empty && (!self.pipelines.get() || bytes.len() >= UNSENT_BYTES_MAX) {
            return self.poll_send(context, bytes);
        }
        if self.unsent.borrow().len() >= UNSENT_BYTES_MAX {
            ready!(self.poll_flush(context))?;
        }
        self.unsent.borrow_mut().extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    /// Keeps bytes that hyper does not know of, to be sent after its own.
    pub(crate) fn add_unsent(&self, bytes: &[u8]) {
        self.unsent.borrow_mut().extend_from_slice(bytes);
    }

    /// Sends what was kept.
    #[inline]
    pub(crate) fn poll_flush(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.unsent.borrow().is_empty() {
            return Poll::Ready(Ok(()));
        }
        self.poll_send_kept(context)
    }

    fn poll_send_kept(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut unsent = self.unsent.borrow_mut();
        while !unsent.is_empty() {
            match ready!(self.poll_send(context, &unsent))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                sent => unsent.advance(sent),
            }
        }
        if unsent.capacity() > UNSENT_BYTES_KEPT {
            *unsent = BytesMut::new();
        }
        Poll::Ready(Ok(()))
    }

    #[inline]
    fn poll_send(&self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let sent = Pin::new(&mut *self.stream.borrow_mut()).poll_write(context, bytes);
        match &sent {
            Poll::Ready(Ok(sent)) => {
                self.write_blocked_since.set(None);
                self.thread.counters.bytes_sent.add(*sent as u64);
            }
            Poll::Ready(Err(_)) => {}
            Poll::Pending => {
                let since = self.write_blocked_since.get().unwrap_or_else(|| self.thread.now());
                self.write_blocked_since.set(Some(since));
            }
        }
        sent
    }

    /// Sends what was kept and tells the client that no more will come.
    pub(crate) fn poll_shutdown(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_flush(context))?;
        Pin::new(&mut *self.stream.borrow_mut()).poll_shutdown(context)
    }
}
