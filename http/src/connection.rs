//! The life of one connection: hyper reads and writes HTTP/1.1, the handler answers, and here is decided how
//! it ends.
//!
//! Closing a socket while bytes from the client are unread makes the kernel send a reset, and a reset may
//! overtake the answer and wipe it out of the client's buffer. So wherever an answer comes before the end of
//! what the client sends (a body or a head too large, a malformed or slow one), the connection
//! *lingers*: its sending side is closed, and what still arrives is read and dropped, for a bounded time and a
//! bounded number of bytes.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::SystemTime;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Body as _, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::ReadBuf;

use crate::body::{Body, BodyError};
use crate::link::{Expiry, Link, Phase};
use crate::response::error_json;
use crate::settings::Settings;
use crate::socket::Socket;
use crate::thread::Registration;
use crate::{Handler, Head, Request, Response, StatusCode, header};

/// Read at once at most. More makes large bodies cheaper and each connection that sends them larger.
const READ_BYTES_MAX: usize = 64 * 1024;

/// A body that a handler left unread is read before the answer up to here, which keeps the connection; past
/// it a new connection is cheaper than the bytes.
const DRAIN_BYTES_MAX: u64 = 64 * 1024;

/// Bytes read and dropped after the last answer at most. A client that sends on without reading the answer
/// gets its reset then. They cost a system call per 16 KiB and are not kept.
const LINGER_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// The buffer for them.
const LINGER_BUFFER_BYTES: usize = 16 * 1024;

/// hyper's part, set up once per thread.
pub(crate) fn http(settings: &Settings) -> http1::Builder {
    let mut http = http1::Builder::new();
    http.half_close(true)
        // Off because the link gathers writes itself, without holding answers back (see there).
        .pipeline_flush(false)
        // Off because a timer per request costs more than the rest of this crate (see `Thread`).
        .header_read_timeout(None)
        .max_header_size(settings.head_bytes_max)
        .max_buf_size(READ_BYTES_MAX.max(settings.head_bytes_max));
    http
}

/// How hyper's part ended.
enum End {
    Done(hyper::Result<()>),
    Expired(Expiry),
    /// The socket failed.
    Broken,
}

/// Serves a connection to its end.
pub(crate) async fn serve<H: Handler>(
    link: Rc<Link>,
    handler: Rc<H>,
    http: Rc<http1::Builder>,
    registration: Registration,
) {
    let service = service_fn(|request| answer(Rc::clone(&link), Rc::clone(&handler), request));
    let mut connection = http.serve_connection(TokioIo::new(Socket(Rc::clone(&link))), service);

    poll_fn(|context| Poll::Ready(link.set_waker(context.waker()))).await;
    let end = poll_fn(|context| match link.expiry() {
        // The handler waits for the body, and is the one to be told.
        None | Some(Expiry::Body) => poll_turn(&mut connection, &link, context),
        Some(expiry) => Poll::Ready(End::Expired(expiry)),
    });
    let end = end.await;
    let unparsed = connection.into_parts().read_buf;

    let counters = &link.thread().counters;
    let is_cut_short = match end {
        End::Done(Ok(())) => link.is_cut_short() || !unparsed.is_empty(),
        End::Done(Err(error)) if error.is_parse() => {
            // hyper has answered with a 4xx itself.
            counters.requests_malformed.add(1);
            counters.count_response(StatusCode::BAD_REQUEST);
            true
        }
        End::Done(Err(_)) | End::Broken => false,
        End::Expired(expiry) => {
            count_expiry(&link, expiry);
            if expiry == Expiry::Head {
                counters.count_response(StatusCode::REQUEST_TIMEOUT);
                link.add_unsent(&head_timeout_answer());
            }
            expiry == Expiry::Head
        }
    };
    if is_cut_short && !link.peer_closed() {
        linger(&link).await;
    }
    drop(registration);
}

/// One turn: hyper does what it can, then what it wrote is sent.
fn poll_turn<C>(connection: &mut C, link: &Link, context: &mut Context<'_>) -> Poll<End>
where
    C: Future<Output = hyper::Result<()>> + Unpin,
{
    if let Poll::Ready(result) = Pin::new(connection).poll(context) {
        return Poll::Ready(End::Done(result));
    }
    match link.poll_flush(context) {
        Poll::Ready(Err(_)) => Poll::Ready(End::Broken),
        _ => Poll::Pending,
    }
}

/// One request: to the handler and back.
async fn answer<H: Handler>(
    link: Rc<Link>,
    handler: Rc<H>,
    request: hyper::Request<Incoming>,
) -> Result<hyper::Response<Full<Bytes>>, Infallible> {
    let request_number = link.begin_request();
    let thread = link.thread();
    thread.counters.requests.add(1);

    let (parts, incoming) = request.into_parts();
    let is_too_large = incoming.size_hint().lower() > thread.limits.body_bytes_max;
    let waits_for_continue = !incoming.is_end_stream() && parts.headers.contains_key(header::EXPECT);
    let mut response = if is_too_large {
        // Before any of it is read, and before a client that waits for a 100 sends any.
        link.keep_unread_body(incoming);
        Response::from(BodyError::TOO_LARGE)
    } else {
        let head = Head::new(parts, Rc::clone(&link));
        let body = Body::new(incoming, Rc::clone(&link), request_number);
        handle(&link, handler, Request { head, body }).await
    };

    if let Some(unread) = link.take_unread_body() {
        let is_drained = !waits_for_continue && !response.closes() && drain(&link, unread).await;
        if !is_drained {
            link.cut_short();
            response = response.closing();
        }
    }
    if link.ends_after_this() {
        response = response.closing();
    }
    link.enter(Phase::Answer);
    thread.counters.count_response(response.status());
    Ok(response.into_hyper(link.take_header_map()))
}

/// Runs the handler; a panic in it becomes a 500 and the end of the connection.
///
/// The handler's state is shared with the thread's other requests, and like any state a panic may leave it
/// halfway changed; `RefCell` then tells by being borrowed. Nothing of the connection is touched by it.
async fn handle<H: Handler>(link: &Link, handler: Rc<H>, request: Request) -> Response {
    let mut future = pin!(async move { handler.call(request).await });
    poll_fn(|context| {
        let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context)));
        polled.unwrap_or_else(|_| {
            link.thread().counters.handler_panics.add(1);
            let status = StatusCode::INTERNAL_SERVER_ERROR;
            Poll::Ready(Response::error(status, "internal error").closing())
        })
    })
    .await
}

/// Reads and drops a body that the handler did not read. `false` if it is too long or too slow.
async fn drain(link: &Rc<Link>, unread: Incoming) -> bool {
    if unread.size_hint().lower() > DRAIN_BYTES_MAX {
        return false;
    }
    let mut body = Body::new(unread, Rc::clone(link), link.request_number());
    let mut drained_bytes = 0;
    let is_drained = loop {
        match body.chunk().await {
            Ok(None) => break true,
            Ok(Some(chunk)) => drained_bytes += chunk.len() as u64,
            Err(_) => break false,
        }
        if drained_bytes > DRAIN_BYTES_MAX {
            break false;
        }
    };
    drop(body);
    // What is left of it now is nobody's.
    drop(link.take_unread_body());
    is_drained
}

fn count_expiry(link: &Link, expiry: Expiry) {
    let counters = &link.thread().counters;
    match expiry {
        Expiry::Fresh | Expiry::Head => counters.timeouts_head.add(1),
        Expiry::Idle => counters.timeouts_idle.add(1),
        Expiry::Write | Expiry::Linger => counters.timeouts_write.add(1),
        // Counted where the handler is told.
        Expiry::Body => {}
    }
}

/// What hyper cannot say, as to it the request has not begun.
fn head_timeout_answer() -> Vec<u8> {
    let body = error_json("request head too slow");
    let date = httpdate::fmt_http_date(SystemTime::now());
    let length = body.len();
    format!(
        "HTTP/1.1 408 Request Timeout\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\
         connection: close\r\ndate: {date}\r\n\r\n{body}"
    )
    .into_bytes()
}

/// Sends what is left to send, then reads and drops until the client has closed.
async fn linger(link: &Link) {
    link.enter(Phase::Linger);
    let mut buffer = vec![0; LINGER_BUFFER_BYTES];
    let mut bytes_left = LINGER_BYTES_MAX;
    let mut is_shut_down = false;
    let end = poll_fn(|context| {
        if link.expiry() == Some(Expiry::Linger) {
            count_expiry(link, Expiry::Linger);
            return Poll::Ready(());
        }
        if !is_shut_down {
            if ready!(link.poll_shutdown(context)).is_err() {
                return Poll::Ready(());
            }
            is_shut_down = true;
        }
        loop {
            let mut read = ReadBuf::new(&mut buffer);
            if ready!(link.poll_read(context, &mut read)).is_err() {
                return Poll::Ready(());
            }
            let bytes = read.filled().len() as u64;
            bytes_left = bytes_left.saturating_sub(bytes);
            if bytes == 0 || bytes_left == 0 {
                return Poll::Ready(());
            }
        }
    });
    end.await;
}
