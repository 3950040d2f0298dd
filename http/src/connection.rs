//! The life of one connection: hyper reads and writes HTTP/1.1, the handler answers, and here is decided how
//! it ends.
//!
//! Closing a socket while bytes from the client are unread makes the kernel send a reset, and a reset may
//! overtake the answer and wipe it out of the client's buffer. So wherever an answer comes before the end of
//! what the client sends (a body or a head too large, a malformed or slow one), the connection
//! *lingers*: its sending side is closed, and what still arrives is read and dropped, for a bounded time and a
//! bounded number of bytes.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::SystemTime;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::ReadBuf;

use crate::link::{Expiry, Link, Phase};
use crate::response::error_json;
use crate::settings::Settings;
use crate::socket::Socket;
use crate::thread::Registration;
use crate::{Handler, StatusCode, service};

/// Read at once at most. More makes large bodies cheaper and each connection that sends them larger.
const READ_BYTES_MAX: usize = 64 * 1024;

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
    let service = service_fn(|request| service::call(&link, &handler, request));
    let mut connection = http.serve_connection(TokioIo::new(Socket(Rc::clone(&link))), service);

    // The task's waker is the same for life.
    let set_waker = poll_fn(|context| {
        link.set_waker(context.waker());
        Poll::Ready(())
    });
    set_waker.await;
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

fn count_expiry(link: &Link, expiry: Expiry) {
    let counters = &link.thread().counters;
    match expiry {
        Expiry::Fresh | Expiry::Head => counters.timeouts_head.add(1),
        Expiry::Idle => counters.timeouts_idle.add(1),
        Expiry::Write | Expiry::Linger => counters.timeouts_write.add(1),
        // Counted where it is noticed; the handler is told, and the connection goes on.
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
