//! The body of a request, with its limits.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

use bytes::{Bytes, BytesMut};
use hyper::body::{Body as _, Incoming};

use crate::link::{Link, Phase};
use crate::{Response, StatusCode};

/// Memory reserved for a body before it comes: a length in a head is a claim, not bytes.
const RESERVED_BYTES_MAX: usize = 64 * 1024;

/// The body of a request, which arrives while it is read.
///
/// A body that is not read is no trouble: a short one is read and dropped before the answer leaves, and after
/// a longer one the connection is closed. A client that waits to be told to go on
/// (`Expect: 100-continue`) is told so at the first read.
pub struct Body {
    /// `None` when there is nothing to read any more. Boxed because most requests have no body, and requests are
    /// moved about.
    rest: Option<Box<Rest>>,
}

/// What is left of a body.
struct Rest {
    /// Taken only when this is dropped.
    incoming: Option<Incoming>,
    link: Rc<Link>,
    request_number: u64,
    bytes_left: u64,
    /// The tick of the first read, from which the time for the body counts.
    since: Option<u32>,
}

impl Body {
    #[inline]
    pub(crate) fn new(incoming: Incoming, link: &Rc<Link>, request_number: u64) -> Body {
        if incoming.is_end_stream() {
            return Body { rest: None };
        }
        let bytes_left = link.thread().limits.body_bytes_max;
        let (incoming, link) = (Some(incoming), Rc::clone(link));
        Body { rest: Some(Box::new(Rest { incoming, link, request_number, bytes_left, since: None })) }
    }

    /// Whether nothing is left to read. A chunked body counts as something until its end was seen.
    pub fn is_empty(&self) -> bool {
        self.rest.is_none()
    }

    /// Bytes left to read, if the head told.
    pub fn length(&self) -> Option<u64> {
        match &self.rest {
            Some(rest) => rest.incoming.as_ref()?.size_hint().exact(),
            None => Some(0),
        }
    }

    /// Reads the body to its end.
    ///
    /// # Errors
    ///
    /// It is larger than [`body_bytes_max`](crate::Builder::body_bytes_max), takes longer than
    /// [`body_read_timeout`](crate::Builder::body_read_timeout), or breaks off. The error answers 413, 408 or
    /// 400, and the connection is closed after it.
    pub async fn read(mut self) -> Result<Bytes, BodyError> {
        let length = self.length().unwrap_or(0);
        let Some(first) = self.chunk().await? else {
            return Ok(Bytes::new());
        };
        if self.is_empty() {
            return Ok(first);
        }
        let reserved = usize::try_from(length).unwrap_or(usize::MAX).min(RESERVED_BYTES_MAX);
        let mut whole = BytesMut::with_capacity(reserved.max(first.len()));
        whole.extend_from_slice(&first);
        while let Some(chunk) = self.chunk().await? {
            whole.extend_from_slice(&chunk);
        }
        Ok(whole.freeze())
    }

    /// Reads what comes next, in pieces as they arrive; `None` at the end.
    ///
    /// # Errors
    ///
    /// As [`read`](Body::read); the size counts from the first piece.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, BodyError> {
        let Some(rest) = &mut self.rest else {
            return Ok(None);
        };
        let chunk = rest.chunk().await;
        if matches!(chunk, Ok(None)) || rest.is_at_end() {
            self.rest = None;
        }
        chunk
    }
}

impl Rest {
    async fn chunk(&mut self) -> Result<Option<Bytes>, BodyError> {
        let now = self.link.thread().now();
        let since = *self.since.get_or_insert(now);
        let Some(incoming) = &mut self.incoming else {
            return Ok(None);
        };
        loop {
            if incoming.size_hint().lower() > self.bytes_left {
                return Err(BodyError::TOO_LARGE);
            }
            let waiting = Waiting::begin(&self.link, since);
            let frame = poll_fn(|context| {
                if self.link.body_is_expired() {
                    return Poll::Ready(Err(BodyError::TIMEOUT));
                }
                Pin::new(&mut *incoming).poll_frame(context).map(Ok)
            });
            let frame = frame.await?;
            drop(waiting);
            let data = match frame {
                None => return Ok(None),
                Some(Err(_)) => {
                    self.incoming = None;
                    return Err(BodyError::BROKEN);
                }
                // Trailers are of no use here.
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => data,
                    Err(_) => continue,
                },
            };
            let bytes = data.len() as u64;
            self.bytes_left = self.bytes_left.checked_sub(bytes).ok_or(BodyError::TOO_LARGE)?;
            return Ok(Some(data));
        }
    }

    fn is_at_end(&self) -> bool {
        self.incoming.as_ref().is_none_or(Incoming::is_end_stream)
    }
}

impl Drop for Rest {
    /// Leaves what was not read to the connection, which decides whether to read it or to close.
    fn drop(&mut self) {
        if let Some(incoming) = self.incoming.take()
            && !incoming.is_end_stream()
            && self.request_number == self.link.request_number()
            && matches!(self.link.phase(), Phase::Request | Phase::Body)
        {
            self.link.keep_unread_body(incoming);
        }
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Body").field("length", &self.length()).finish_non_exhaustive()
    }
}

/// Marks the time in which a handler waits for its client, even if it stops waiting halfway.
struct Waiting<'a>(&'a Link);

impl Waiting<'_> {
    fn begin(link: &Link, since: u32) -> Waiting<'_> {
        link.enter_body(since);
        Waiting(link)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.enter(Phase::Request);
    }
}

/// A body that could not be read. It answers 413, 408 or 400.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BodyError(Kind);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    TooLarge,
    Timeout,
    Broken,
}

impl BodyError {
    pub(crate) const TOO_LARGE: BodyError = BodyError(Kind::TooLarge);
    pub(crate) const TIMEOUT: BodyError = BodyError(Kind::Timeout);
    pub(crate) const BROKEN: BodyError = BodyError(Kind::Broken);

    /// It is larger than the limit.
    pub fn is_too_large(&self) -> bool {
        self.0 == Kind::TooLarge
    }

    /// It took too long to arrive.
    pub fn is_timeout(&self) -> bool {
        self.0 == Kind::Timeout
    }

    /// It broke off, or its framing is wrong.
    pub fn is_broken(&self) -> bool {
        self.0 == Kind::Broken
    }

    /// The status to answer with.
    pub fn status(&self) -> StatusCode {
        match self.0 {
            Kind::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Kind::Timeout => StatusCode::REQUEST_TIMEOUT,
            Kind::Broken => StatusCode::BAD_REQUEST,
        }
    }
}

impl fmt::Display for BodyError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self.0 {
            Kind::TooLarge => "body too large",
            Kind::Timeout => "body too slow",
            Kind::Broken => "body incomplete or malformed",
        })
    }
}

impl std::error::Error for BodyError {}

impl From<BodyError> for Response {
    fn from(error: BodyError) -> Response {
        Response::error(error.status(), &error.to_string()).closing()
    }
}
