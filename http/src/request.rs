//! A request: its head, read in place, and its body, read when asked for.

use std::borrow::Cow;
use std::fmt;
use std::net::SocketAddr;
use std::rc::Rc;

use hyper::http::request::Parts;

use crate::body::Body;
use crate::encoding::query_value;
use crate::link::Link;
use crate::{BadEncoding, HeaderMap, HeaderName, HeaderValue, Method, header};

/// A request on its way through a handler.
///
/// Head and body are apart, so that the body can be read while path and query are in use:
///
/// ```
/// use cenote_http::{BodyError, Request, Response};
///
/// async fn rename(request: Request) -> Result<Response, Response> {
///     let name = request.head.query("name")?;
///     let body = request.body.read().await?;
///     Ok(Response::text(format!("{name:?}: {} bytes", body.len())))
/// }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct Request {
    /// Method, path, query and headers.
    pub head: Head,
    /// What follows the head; empty for most requests.
    pub body: Body,
}

impl Request {
    /// The method.
    pub fn method(&self) -> &Method {
        self.head.method()
    }

    /// The path as sent, still percent-encoded, without the query.
    pub fn path(&self) -> &str {
        self.head.path()
    }
}

/// How many bytes a request has, from what was made of it: exact, but for spaces that nobody needs and for the
/// framing of a chunked body.
pub(crate) fn request_bytes(head: &Parts) -> u64 {
    let target = head.uri.path_and_query().map_or(1, |target| target.as_str().len());
    let line = head.method.as_str().len() + " ".len() + target + " HTTP/1.1\r\n".len();
    let field =
        |(name, value): (&HeaderName, &HeaderValue)| name.as_str().len() + ": ".len() + value.len() + "\r\n".len();
    let fields: usize = head.headers.iter().map(field).sum();
    let length = head.headers.get(header::CONTENT_LENGTH);
    let body = length.and_then(|length| length.to_str().ok()?.parse().ok()).unwrap_or(0);
    (line + fields + "\r\n".len()) as u64 + body
}

/// The head of a request.
pub struct Head {
    parts: Rc<Parts>,
    link: Rc<Link>,
}

impl Head {
    #[inline]
    pub(crate) fn new(parts: Rc<Parts>, link: Rc<Link>) -> Head {
        Head { parts, link }
    }

    /// The method.
    pub fn method(&self) -> &Method {
        &self.parts.method
    }

    /// The path as sent, still percent-encoded, without the query.
    pub fn path(&self) -> &str {
        self.parts.uri.path()
    }

    /// The query string as sent, without the question mark.
    pub fn query_string(&self) -> Option<&str> {
        self.parts.uri.query()
    }

    /// The first value of `name` in the query string, decoded (`+` is a space); `None` if it is not there.
    ///
    /// # Errors
    ///
    /// The value is not valid percent-encoded UTF-8. The error answers 400.
    pub fn query(&self, name: &str) -> Result<Option<Cow<'_, str>>, BadEncoding> {
        match self.query_string() {
            Some(query) => query_value(query, name),
            None => Ok(None),
        }
    }

    /// The first value of the header `name`, if it is there and is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.parts.headers.get(name)?.to_str().ok()
    }

    /// All headers.
    pub fn headers(&self) -> &HeaderMap {
        &self.parts.headers
    }

    /// The address of the client, or of the proxy before it.
    pub fn peer(&self) -> SocketAddr {
        self.link.peer()
    }
}

impl fmt::Debug for Head {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Head")
            .field("method", self.method())
            .field("uri", &self.parts.uri)
            .field("headers", self.headers())
            .field("peer", &self.peer())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_knows_its_length() {
        let text = "POST /a?b=c HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\nhello";
        let request = hyper::Request::post("/a?b=c").header("host", "x").header("content-length", 5);
        let (parts, ()) = request.body(()).unwrap().into_parts();
        assert_eq!(request_bytes(&parts), text.len() as u64);
    }
}
