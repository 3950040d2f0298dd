//! From hyper's request to the handler and back to hyper's answer.
//!
//! The future made here is the one hyper keeps per connection. It holds the handler's own future in place:
//! each `async` layer around it would copy the request twice more.

use std::convert::Infallible;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Body as _, Incoming};
use pin_project_lite::pin_project;

use crate::body::{Body, BodyError};
use crate::link::{Link, Phase};
use crate::{Handler, Head, Request, Response, StatusCode, header};

/// A body that a handler left unread is read before the answer up to here, which keeps the connection; past
/// it a new connection is cheaper than the bytes.
const DRAIN_BYTES_MAX: u64 = 64 * 1024;

/// Begins a request: calls the handler, whose future is then polled by the returned one.
pub(crate) fn call<H: Handler>(
    link: &Rc<Link>,
    handler: &Rc<H>,
    request: hyper::Request<Incoming>,
) -> Answering<impl Future<Output = Response> + use<H>> {
    let request_number = link.begin_request();
    let thread = link.thread();
    thread.counters.requests.add(1);

    let (parts, incoming) = request.into_parts();
    let has_body = !incoming.is_end_stream();
    let waits_for_continue = has_body && parts.headers.contains_key(header::EXPECT);
    let step = if has_body && incoming.size_hint().lower() > thread.limits.body_bytes_max {
        // Before any of it is read, and before a client that waits for a 100 sends any.
        link.keep_unread_body(incoming);
        Step::Refused { error: BodyError::TOO_LARGE }
    } else {
        let head = Head::new(link.store_head(parts), Rc::clone(link));
        let body = Body::new(incoming, link, request_number);
        let handler = Rc::clone(handler);
        let call = AssertUnwindSafe(|| handler.call(Request { head, body }));
        match catch_unwind(call) {
            Ok(future) => Step::Handling { future },
            Err(_) => Step::Panicked,
        }
    };
    Answering { link: Rc::clone(link), waits_for_continue, step }
}

pin_project! {
    /// A request on its way to an answer.
    pub(crate) struct Answering<F> {
        link: Rc<Link>,
        waits_for_continue: bool,
        #[pin]
        step: Step<F>,
    }
}

pin_project! {
    #[project = StepProjection]
    enum Step<F> {
        Handling { #[pin] future: F },
        // The handler panicked before it made a future.
        Panicked,
        // The handler was not asked.
        Refused { error: BodyError },
        // The handler is done and has left a body unread.
        Draining { drain: Drain, response: Option<Response> },
    }
}

impl<F: Future<Output = Response>> Future for Answering<F> {
    type Output = Result<hyper::Response<Full<Bytes>>, Infallible>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let response = match this.step.as_mut().project() {
            StepProjection::Handling { future } => ready!(poll_handler(this.link, future, context)),
            StepProjection::Panicked => panicked(this.link),
            StepProjection::Refused { error } => Response::from(*error),
            StepProjection::Draining { drain, response } => {
                let is_drained = ready!(drain.poll(context));
                // There is always one; an empty answer is what polling after the end would get.
                let response = response.take().unwrap_or_else(Response::empty);
                return Poll::Ready(Ok(finish(this.link, response, is_drained)));
            }
        };
        let Some(unread) = this.link.take_unread_body() else {
            return Poll::Ready(Ok(finish(this.link, response, true)));
        };
        if *this.waits_for_continue || response.closes() || Drain::is_too_long(&unread) {
            return Poll::Ready(Ok(finish(this.link, response, false)));
        }
        let mut drain = Drain::new(this.link, unread);
        match drain.poll(context) {
            Poll::Ready(is_drained) => Poll::Ready(Ok(finish(this.link, response, is_drained))),
            Poll::Pending => {
                this.step.set(Step::Draining { drain, response: Some(response) });
                Poll::Pending
            }
        }
    }
}

/// Polls the handler's future; a panic in it becomes a 500 and the end of the connection.
///
/// The handler's state is shared with the thread's other requests, and a panic may leave it halfway changed,
/// as it may with any state. Nothing of the connection is touched by it.
fn poll_handler<F: Future<Output = Response>>(
    link: &Link,
    future: Pin<&mut F>,
    context: &mut Context<'_>,
) -> Poll<Response> {
    let polled = catch_unwind(AssertUnwindSafe(|| future.poll(context)));
    polled.unwrap_or_else(|_| Poll::Ready(panicked(link)))
}

#[cold]
fn panicked(link: &Link) -> Response {
    link.thread().counters.handler_panics.add(1);
    Response::error(StatusCode::INTERNAL_SERVER_ERROR, "internal error").closing()
}

/// The answer as hyper sends it. `is_read` says whether the request was read to its end.
#[inline]
fn finish(link: &Link, mut response: Response, is_read: bool) -> hyper::Response<Full<Bytes>> {
    if !is_read {
        link.cut_short();
    }
    if !is_read || link.ends_after_this() {
        response.close();
    }
    link.enter(Phase::Answer);
    link.thread().counters.count_response(response.status());
    response.into_hyper(link.take_header_map())
}

/// Reads and drops a body that the handler did not read.
struct Drain {
    link: Rc<Link>,
    unread: Incoming,
    bytes_left: u64,
    since: u32,
}

impl Drain {
    fn is_too_long(unread: &Incoming) -> bool {
        unread.size_hint().lower() > DRAIN_BYTES_MAX
    }

    fn new(link: &Rc<Link>, unread: Incoming) -> Drain {
        let since = link.thread().now();
        Drain { link: Rc::clone(link), unread, bytes_left: DRAIN_BYTES_MAX, since }
    }

    /// Ready with whether the end was reached, within the limits of bytes and of time.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<bool> {
        self.link.enter_body(self.since);
        loop {
            if self.link.body_is_expired() {
                return Poll::Ready(false);
            }
            let Some(frame) = ready!(Pin::new(&mut self.unread).poll_frame(context)) else {
                return Poll::Ready(true);
            };
            let Ok(frame) = frame else {
                return Poll::Ready(false);
            };
            let bytes = frame.data_ref().map_or(0, Bytes::len) as u64;
            match self.bytes_left.checked_sub(bytes) {
                Some(left) => self.bytes_left = left,
                None => return Poll::Ready(false),
            }
        }
    }
}
