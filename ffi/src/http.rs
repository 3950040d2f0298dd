//! The HTTP core for hosts: a context listens on a port, its requests come with the completions, many at a time, and are
//! answered many at a time.
//!
//! Sockets are read and written by whoever moves the context's bytes: its own thread while it waits or takes turns, so that
//! under load no other is involved.

mod exchange;
mod world;

use std::ffi::{c_char, c_void};
use std::sync::Arc;
use std::time::Duration;

use cenote_http::header::{CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, TRANSFER_ENCODING};
use cenote_http::{Bytes, HeaderName, HeaderValue, Response, StatusCode, Stop};

use crate::context::Context;
use crate::error::{ErrorObject, give, text};
use crate::guard::{Entry, Out, bytes, entry, leaf};
use crate::handles;
use crate::status::{CENOTE_ERR_ARGUMENT, CENOTE_ERR_NULL, CENOTE_ERR_SYSTEM};
use exchange::Exchange;

/// The port may be shared with other contexts, and other processes of the same user (`SO_REUSEPORT`): the kernel spreads the
/// connections.
pub const CENOTE_HTTP_SHARE_PORT: u32 = 1;
/// Requests come with their headers; else without.
pub const CENOTE_HTTP_HEADERS: u32 = 2;

/// Headers that say where an answer ends, and what comes behind it: the core's own.
const FRAMING: [HeaderName; 3] = [CONTENT_LENGTH, TRANSFER_ENCODING, CONNECTION];

/// In an answer: the connection is closed behind it.
pub const CENOTE_ANSWER_CLOSE: u32 = 1;

/// How a server is to be. Zeroed but for its size and the address it is as the HTTP core is by itself.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CenoteHttpOptions {
    /// The size of this struct.
    pub size: u32,
    /// `CENOTE_HTTP_*`, together.
    pub flags: u32,
    /// Where to listen, `127.0.0.1:8080` for example; port 0 is any that is free.
    pub address: *const c_char,
    /// Its length in bytes.
    pub address_length: usize,
    /// A body of more bytes is answered with 413. 0: 1 MiB.
    pub body_bytes_max: u64,
    /// Connections open at once; more wait. 0: 10,000.
    pub connections_max: u64,
    /// A stop waits so long for what is in flight. 0: 8 s.
    pub stop_deadline_ms: u32,
    /// A connection without a request is closed after so long. 0: 75 s.
    pub keep_alive_timeout_ms: u32,
}

/// The front of a request, as a completion brings it. Places are counted from its beginning.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct CenoteHttpRequest {
    /// What it is answered by.
    pub request: u64,
    /// Where the method begins: `GET`, in capitals as sent.
    pub method_at: u32,
    /// Its length in bytes.
    pub method_length: u32,
    /// Where the path begins, percent-encoded as sent, without the query.
    pub path_at: u32,
    /// Its length in bytes.
    pub path_length: u32,
    /// Where the query begins, without the question mark.
    pub query_at: u32,
    /// Its length in bytes.
    pub query_length: u32,
    /// Where the headers begin: `name: value` and a line feed, for each; none where they were not asked for.
    pub headers_at: u32,
    /// Their length in bytes.
    pub headers_length: u32,
    /// Where the body begins.
    pub body_at: u32,
    /// Its length in bytes.
    pub body_length: u32,
}

/// An answer of one piece: this, and behind it the content type, the headers (`name: value` and a line feed, for each;
/// not those that say where it ends) and the body, one behind the other.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct CenoteHttpAnswer {
    /// Its length in bytes with all of that, a multiple of 8.
    pub length: u64,
    /// The `request` that is answered.
    pub request: u64,
    /// The status: 200, for example.
    pub status: u32,
    /// `CENOTE_ANSWER_*`, together.
    pub flags: u32,
    /// The length of the content type; 0: there is none.
    pub content_type_length: u32,
    /// The length of the headers.
    pub headers_length: u32,
    /// The length of the body.
    pub body_length: u64,
}

/// A server's handle stands for this.
pub(crate) struct HttpServer {
    stop: Stop,
    port: u16,
    exchange: Arc<Exchange>,
    /// The handle of the context that it ends with.
    owner: u64,
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        self.stop.stop_now();
    }
}

/// Listens, and has requests come with the context's completions: with `tag`, `CENOTE_COMPLETION_REQUEST`, and a
/// `cenote_http_request` in the place of a block, to be answered. When the server has ended a last one comes with `CENOTE_COMPLETION_ENDED`.
///
/// On failure `*error` is an error's handle, to be freed, if `error` is not NULL.
///
/// The context's thread. It makes a socket, so it is no leaf.
///
/// # Safety
///
/// `options` is NULL or a struct of `options->size` bytes whose pointers are what they say; the others are NULL or to be
/// written through.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cenote_http_listen(
    context: u64,
    options: *const CenoteHttpOptions,
    tag: u64,
    server: *mut u64,
    error: *mut u64,
) -> i32 {
    entry("cenote_http_listen", || {
        // SAFETY: by the caller's word.
        let out = unsafe { Out::new(server)? };
        if options.is_null() {
            return Err(CENOTE_ERR_NULL);
        }
        // SAFETY: not NULL, and begins with its size.
        if unsafe { options.cast::<u32>().read_unaligned() } as usize != size_of::<CenoteHttpOptions>() {
            return Err(CENOTE_ERR_ARGUMENT);
        }
        // SAFETY: as long as it says, which is as long as ours.
        let options = unsafe { options.read_unaligned() };
        // SAFETY: by the caller's word.
        let address = unsafe { text(options.address, options.address_length)? };
        let context = handles::get::<Context>(context)?;
        let server = match bind(&options, address) {
            Ok(server) => server,
            Err(failure) => {
                let status = match failure.kind() {
                    std::io::ErrorKind::InvalidInput => CENOTE_ERR_ARGUMENT,
                    _ => CENOTE_ERR_SYSTEM,
                };
                let words = format!("cannot listen on {address}: {failure}");
                // SAFETY: by the caller's word.
                return Err(unsafe { give(error, ErrorObject::new(status, words)) });
            }
        };
        let exchange = Arc::new(Exchange::new(context.outside(), tag, options.flags & CENOTE_HTTP_HEADERS != 0));
        let (stop, port) = (server.stop(), server.address().port());
        context.spawn(world::serve(server, Arc::clone(&exchange)));
        let handle = handles::insert(Arc::new(HttpServer { stop, port, exchange, owner: context.handle() }));
        if let Err(status) = context.own_server(handle) {
            let _ = handles::remove::<HttpServer>(handle);
            return Err(status);
        }
        out.write(handle);
        Ok(())
    })
}

fn bind(options: &CenoteHttpOptions, address: &str) -> std::io::Result<cenote_http::Server> {
    let unfit = |words: &str| std::io::Error::new(std::io::ErrorKind::InvalidInput, words.to_owned());
    if options.flags & !(CENOTE_HTTP_SHARE_PORT | CENOTE_HTTP_HEADERS) != 0 {
        return Err(unfit("there is no such flag"));
    }
    let size = |bytes: u64| usize::try_from(bytes).map_err(|_| unfit("a bound that is too large"));
    let share = options.flags & CENOTE_HTTP_SHARE_PORT != 0;
    let mut builder = cenote_http::Server::builder().address(address).threads(1).share_port(share);
    if options.body_bytes_max != 0 {
        // Its place in a request is told in 32 bits.
        builder = builder.body_bytes_max(size(options.body_bytes_max.min(1 << 31))?);
    }
    if options.connections_max != 0 {
        builder = builder.connections_per_thread_max(size(options.connections_max)?);
    }
    if options.stop_deadline_ms != 0 {
        builder = builder.stop_deadline(Duration::from_millis(options.stop_deadline_ms.into()));
    }
    if options.keep_alive_timeout_ms != 0 {
        builder = builder.keep_alive_timeout(Duration::from_millis(options.keep_alive_timeout_ms.into()));
    }
    builder.bind()
}

/// The port that a server has.
///
/// Any thread, leaf-safe.
///
/// # Safety
///
/// `port` is NULL or to be written through.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cenote_http_port(server: u64, port: *mut u16) -> i32 {
    leaf("cenote_http_port", || {
        // SAFETY: by the caller's word.
        let out = unsafe { Out::new(port)? };
        out.write(handles::get::<HttpServer>(server)?.port);
        Ok(())
    })
}

/// Answers a request. `content_type` and `headers` (`name: value` and a line feed, for each) may be empty.
/// An answer to what was answered already, or whose client is gone, is passed over.
///
/// Any thread, leaf-safe. All is copied.
///
/// # Safety
///
/// The pointers are to be read for their lengths.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cenote_http_answer(
    server: u64,
    request: u64,
    status: u32,
    flags: u32,
    content_type: *const c_char,
    content_type_length: usize,
    headers: *const c_char,
    headers_length: usize,
    body: *const c_void,
    body_length: usize,
) -> i32 {
    leaf("cenote_http_answer", || {
        // SAFETY: by the caller's word.
        let (content_type, headers, body) = unsafe {
            (
                bytes(content_type.cast(), content_type_length)?,
                bytes(headers.cast(), headers_length)?,
                bytes(body.cast(), body_length)?,
            )
        };
        let server = handles::get::<HttpServer>(server)?;
        let response = response(status, flags, content_type, headers, body)?;
        server.exchange.answer(request, response);
        server.exchange.pump();
        Ok(())
    })
}

/// Answers with answers of one piece, one behind the other; `*answered` says how many were read, and the status what was wrong
/// with the next. One whose request is gone is passed over.
///
/// Any thread, leaf-safe. All is copied.
///
/// # Safety
///
/// `answers` is to be read for `length` bytes; `answered` is NULL or to be written through.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cenote_http_answers(
    server: u64,
    answers: *const c_void,
    length: usize,
    answered: *mut u32,
) -> i32 {
    leaf("cenote_http_answers", || {
        // SAFETY: by the caller's word.
        let answered = unsafe { Out::new(answered)? };
        // Whatever is wrong: the caller counts by it.
        answered.write(0);
        // SAFETY: by the caller's word.
        let rest = unsafe { bytes(answers.cast(), length)? };
        let server = handles::get::<HttpServer>(server)?;
        let read = answer_all(&server, rest, &answered);
        server.exchange.pump();
        read
    })
}

fn answer_all(server: &HttpServer, mut rest: &[u8], answered: &Out<u32>) -> Entry {
    let mut count = 0;
    while !rest.is_empty() {
        let front = rest.get(..size_of::<CenoteHttpAnswer>()).ok_or(CENOTE_ERR_ARGUMENT)?;
        // SAFETY: so many bytes, and any bytes are a `CenoteHttpAnswer`.
        let answer = unsafe { front.as_ptr().cast::<CenoteHttpAnswer>().read_unaligned() };
        let length = usize::try_from(answer.length).map_err(|_| CENOTE_ERR_ARGUMENT)?;
        let (piece, behind) = rest.split_at_checked(length).ok_or(CENOTE_ERR_ARGUMENT)?;
        let body_length = usize::try_from(answer.body_length).map_err(|_| CENOTE_ERR_ARGUMENT)?;
        let parts = piece.get(front.len()..).ok_or(CENOTE_ERR_ARGUMENT)?;
        let (content_type, parts) =
            parts.split_at_checked(answer.content_type_length as usize).ok_or(CENOTE_ERR_ARGUMENT)?;
        let (headers, parts) = parts.split_at_checked(answer.headers_length as usize).ok_or(CENOTE_ERR_ARGUMENT)?;
        let body = parts.get(..body_length).ok_or(CENOTE_ERR_ARGUMENT)?;
        let response = response(answer.status, answer.flags, content_type, headers, body)?;
        server.exchange.answer(answer.request, response);
        count += 1;
        answered.write(count);
        rest = behind;
    }
    Ok(())
}

fn response(status: u32, flags: u32, content_type: &[u8], headers: &[u8], body: &[u8]) -> Result<Response, i32> {
    let status = u16::try_from(status).ok().and_then(|status| StatusCode::from_u16(status).ok());
    let status = status.ok_or(CENOTE_ERR_ARGUMENT)?;
    let value = |bytes: &[u8]| HeaderValue::from_bytes(bytes).map_err(|_| CENOTE_ERR_ARGUMENT);
    let mut response = match (content_type, body) {
        (b"", b"") => Response::new(status),
        (b"application/json", body) => Response::json(Bytes::copy_from_slice(body)).with_status(status),
        (content_type, body) => {
            let content_type = if content_type.is_empty() { b"application/octet-stream" } else { content_type };
            let response = Response::json(Bytes::copy_from_slice(body)).with_status(status);
            response.with_header(CONTENT_TYPE, value(content_type)?)
        }
    };
    for line in headers.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
        let colon = line.iter().position(|&byte| byte == b':').ok_or(CENOTE_ERR_ARGUMENT)?;
        let (name, text) = line.split_at(colon);
        let name = HeaderName::from_bytes(name).map_err(|_| CENOTE_ERR_ARGUMENT)?;
        if FRAMING.contains(&name) {
            return Err(CENOTE_ERR_ARGUMENT);
        }
        response = response.with_header(name, value(text.get(1..).unwrap_or_default().trim_ascii())?);
    }
    if flags & !CENOTE_ANSWER_CLOSE != 0 {
        return Err(CENOTE_ERR_ARGUMENT);
    }
    Ok(if flags & CENOTE_ANSWER_CLOSE != 0 { response.closing() } else { response })
}

/// Asks a server to end: connections that wait are accepted, the port is closed, what is in flight is to be answered, and is
/// given the stop's deadline for it. A completion with `CENOTE_COMPLETION_ENDED` says when it has.
///
/// Any thread, leaf-safe.
#[unsafe(no_mangle)]
pub extern "C" fn cenote_http_stop(server: u64) -> i32 {
    leaf("cenote_http_stop", || {
        handles::get::<HttpServer>(server)?.stop.stop();
        Ok(())
    })
}

/// Lets go of a server: if it has not ended, it does so at once, and its connections are cut. 0 is none, and is let pass.
///
/// Any thread, leaf-safe.
#[unsafe(no_mangle)]
pub extern "C" fn cenote_http_free(server: u64) -> i32 {
    leaf("cenote_http_free", || match server {
        0 => Ok(()),
        handle => {
            let server = handles::remove::<HttpServer>(handle)?;
            if let Ok(owner) = handles::get::<Context>(server.owner) {
                owner.disown_server(handle);
            }
            Ok(())
        }
    })
}
