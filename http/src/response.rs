//! An answer.
//!
//! The body is one block of bytes; answers are not streamed. `Date`, `Content-Length` and the body's absence
//! after a `HEAD` are hyper's work.

use bytes::Bytes;
use http_body_util::Full;

use crate::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const CLOSE: HeaderValue = HeaderValue::from_static("close");

/// An answer to a request.
///
/// ```
/// use cenote_http::{Response, StatusCode, header};
///
/// let hello = Response::json(r#"{"message":"Hello, World!"}"#);
/// let later = Response::error(StatusCode::SERVICE_UNAVAILABLE, "the database is down")
///     .with_header(header::RETRY_AFTER, header::HeaderValue::from_static("1"));
/// assert_eq!(later.body(), r#"{"error":"the database is down"}"#);
/// ```
///
/// The errors of this crate turn into answers, so a handler may use `?` in an `async fn` that returns
/// `Result<Response, Response>`.
#[derive(Debug, Clone)]
#[must_use]
pub struct Response {
    status: StatusCode,
    content_type: Option<HeaderValue>,
    /// Boxed because most answers have none, and answers are moved about.
    headers: Option<Box<HeaderMap>>,
    body: Bytes,
    closes: bool,
}

impl Response {
    /// An answer of this status with an empty body.
    pub fn new(status: StatusCode) -> Response {
        Response { status, content_type: None, headers: None, body: Bytes::new(), closes: false }
    }

    /// 200 with an empty body.
    pub fn empty() -> Response {
        Response::new(StatusCode::OK)
    }

    /// 200 with text.
    pub fn text(body: impl Into<Bytes>) -> Response {
        Response::typed(StatusCode::OK, TEXT, body.into())
    }

    /// 200 with a body that is JSON already.
    pub fn json(body: impl Into<Bytes>) -> Response {
        Response::typed(StatusCode::OK, JSON, body.into())
    }

    /// An error as short JSON: `{"error":"<message>"}`.
    pub fn error(status: StatusCode, message: &str) -> Response {
        Response::typed(status, JSON, error_json(message).into())
    }

    /// The same answer with another status.
    pub fn with_status(mut self, status: StatusCode) -> Response {
        self.status = status;
        self
    }

    /// The same answer with `value` for the header `name`, in place of what was there.
    pub fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Response {
        if name == header::CONTENT_TYPE {
            self.content_type = Some(value);
        } else {
            self.headers.get_or_insert_default().insert(name, value);
        }
        self
    }

    /// The same answer, after which the connection is closed.
    pub fn closing(mut self) -> Response {
        self.closes = true;
        self
    }

    /// The status.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// The body.
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// The value of the header `name` if it was set here.
    pub fn header(&self, name: &HeaderName) -> Option<&HeaderValue> {
        if *name == header::CONTENT_TYPE {
            return self.content_type.as_ref();
        }
        self.headers.as_ref()?.get(name)
    }

    #[inline]
    pub(crate) fn close(&mut self) {
        self.closes = true;
    }

    #[inline]
    pub(crate) fn closes(&self) -> bool {
        self.closes
    }

    /// What hyper sends. `spare` is an empty map to use, so that the usual answer allocates none.
    #[inline]
    pub(crate) fn into_hyper(self, spare: HeaderMap) -> hyper::Response<Full<Bytes>> {
        let mut headers = match self.headers {
            Some(headers) => *headers,
            None => spare,
        };
        if let Some(content_type) = self.content_type {
            headers.insert(header::CONTENT_TYPE, content_type);
        }
        if self.closes {
            headers.insert(header::CONNECTION, CLOSE);
        }
        let mut response = hyper::Response::new(Full::new(self.body));
        *response.status_mut() = self.status;
        *response.headers_mut() = headers;
        response
    }

    fn typed(status: StatusCode, content_type: HeaderValue, body: Bytes) -> Response {
        let content_type = Some(content_type);
        Response { status, content_type, headers: None, body, closes: false }
    }
}

/// `{"error":"<message>"}`, escaped as JSON wants it.
pub(crate) fn error_json(message: &str) -> String {
    let mut json = String::with_capacity(message.len() + 12);
    json.push_str("{\"error\":\"");
    for character in message.chars() {
        match character {
            '"' => json.push_str("\\\""),
            '\\' => json.push_str("\\\\"),
            '\n' => json.push_str("\\n"),
            control if control < ' ' => {
                json.push_str(&format!("\\u{:04x}", u32::from(control)));
            }
            other => json.push(other),
        }
    }
    json.push_str("\"}");
    json
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_messages_stay_json() {
        assert_eq!(error_json("not found"), r#"{"error":"not found"}"#);
        assert_eq!(error_json("a \"b\"\\\n\u{1}é"), r#"{"error":"a \"b\"\\\n\u0001é"}"#);
    }

    #[test]
    fn headers_reach_hyper() {
        let response = Response::text("x")
            .with_header(header::CONTENT_TYPE, HeaderValue::from_static("text/csv"))
            .with_header(header::RETRY_AFTER, HeaderValue::from_static("1"))
            .with_status(StatusCode::CREATED)
            .closing()
            .into_hyper(HeaderMap::new());
        assert_eq!(response.status(), StatusCode::CREATED);
        assert_eq!(response.headers()[header::CONTENT_TYPE], "text/csv");
        assert_eq!(response.headers()[header::RETRY_AFTER], "1");
        assert_eq!(response.headers()[header::CONNECTION], "close");
    }

    #[test]
    fn an_answer_stays_small() {
        assert!(size_of::<Response>() <= 96, "Response has {} bytes", size_of::<Response>());
    }
}
