//! What passes between a server's connections, on whichever thread drives them, and its host: requests one way, answers the
//! other.

use std::sync::{Mutex, PoisonError};

use cenote_http::{Bytes, Head, Response};
use futures_util::task::AtomicWaker;

use super::CenoteHttpRequest;
use crate::context::Outside;
use crate::operation::Outcome;

pub(crate) struct Exchange {
    host: Outside,
    tag: u64,
    with_headers: bool,
    answers: Mutex<Vec<(u64, Response)>>,
    pump: AtomicWaker,
}

impl Exchange {
    pub(super) fn new(host: Outside, tag: u64, with_headers: bool) -> Exchange {
        Exchange { host, tag, with_headers, answers: Mutex::default(), pump: AtomicWaker::new() }
    }

    /// Has the host given a request.
    pub(super) fn request(&self, handle: u64, head: &Head, body: &Bytes) {
        self.host.push(self.tag, Outcome::Request(encode(handle, head, self.with_headers, body)));
    }

    /// The server has ended.
    pub(super) fn ended(&self, failure: Option<std::io::Error>) {
        self.host.push(self.tag, Outcome::Ended(failure));
    }

    /// Takes an answer, to be handed out at the next [`pump`](Exchange::pump).
    pub(super) fn answer(&self, request: u64, response: Response) {
        self.lock().push((request, response));
    }

    /// Has the answers taken that were given.
    pub(super) fn pump(&self) {
        self.pump.wake();
    }

    /// What wakes whoever takes answers.
    pub(super) fn waker(&self) -> &AtomicWaker {
        &self.pump
    }

    pub(super) fn take_answers(&self) -> Vec<(u64, Response)> {
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<(u64, Response)>> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request as the host reads it.
fn encode(handle: u64, head: &Head, with_headers: bool, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; size_of::<CenoteHttpRequest>()];
    let query = head.query_string().unwrap_or_default();
    let mut place = |part: &[u8]| {
        let at = bytes.len() as u32;
        bytes.extend_from_slice(part);
        [at, part.len() as u32]
    };
    let method = place(head.method().as_str().as_bytes());
    let path = place(head.path().as_bytes());
    let query = place(query.as_bytes());
    let mut headers = Vec::new();
    if with_headers {
        for (name, value) in head.headers() {
            headers.extend_from_slice(name.as_str().as_bytes());
            headers.extend_from_slice(b": ");
            headers.extend_from_slice(value.as_bytes());
            headers.push(b'\n');
        }
    }
    let headers = place(&headers);
    let body = place(body);
    let places = [method, path, query, headers, body];
    let (front, rest) = bytes.split_at_mut(size_of::<u64>());
    front.copy_from_slice(&handle.to_ne_bytes());
    for (word, value) in rest.chunks_exact_mut(size_of::<u32>()).zip(places.as_flattened()) {
        word.copy_from_slice(&value.to_ne_bytes());
    }
    bytes
}
