//! A connection, and the server at its other end. What the kernel does is one step here.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::BytesMut;
use loom::sync::{Mutex, MutexGuard};

#[derive(Debug, Default)]
struct State {
    /// Written, and not seen by the server yet.
    asked: VecDeque<u8>,
    asked_bytes_max: usize,
    /// Answered, and not read yet.
    answered: VecDeque<u8>,
    reader: Option<Waker>,
    writer: Option<Waker>,
    server: Option<Waker>,
    prompt: bool,
    hung_up: bool,
    /// All that was ever written.
    written: Vec<u8>,
}

/// One end of it, or the other.
#[derive(Clone, Debug)]
pub(crate) struct Line(Arc<Mutex<State>>);

impl Line {
    pub(super) fn new(asked_bytes_max: usize) -> Line {
        Line(Arc::new(Mutex::new(State { asked_bytes_max, ..State::default() })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("nothing panics in here")
    }

    pub(crate) fn poll_read(&self, cx: &Context<'_>, buffer: &mut BytesMut) -> Poll<io::Result<usize>> {
        let mut state = self.state();
        if state.answered.is_empty() {
            state.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let count = state.answered.len();
        buffer.extend(state.answered.drain(..));
        Poll::Ready(Ok(count))
    }

    pub(crate) fn poll_write(&self, cx: &Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut state = self.state();
        let count = bytes.len().min(state.asked_bytes_max - state.asked.len());
        if count == 0 {
            state.writer = Some(cx.waker().clone());
            return Poll::Pending;
        }
        state.asked.extend(&bytes[..count]);
        state.written.extend(&bytes[..count]);
        let server = state.server.take();
        if state.prompt {
            drop(state);
            self.answer();
            return Poll::Ready(Ok(count));
        }
        drop(state);
        server.inspect(Waker::wake_by_ref);
        Poll::Ready(Ok(count))
    }

    pub(crate) fn try_read(&self, buffer: &mut BytesMut) -> io::Result<usize> {
        match self.poll_read(&Context::from_waker(Waker::noop()), buffer) {
            Poll::Ready(result) => result,
            Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    pub(crate) fn has_input(&self) -> bool {
        !self.state().answered.is_empty()
    }

    /// Answers all that has come, whenever it has, until the line is hung up.
    pub(super) async fn serve(&self) {
        while poll_fn(|cx| self.poll_asked(cx)).await {
            self.answer();
        }
    }

    fn poll_asked(&self, cx: &Context<'_>) -> Poll<bool> {
        let mut state = self.state();
        if state.asked.is_empty() && !state.hung_up {
            state.server = Some(cx.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(!state.hung_up)
    }

    /// What is written is answered in that moment.
    pub(super) fn answer_promptly(&self) {
        self.state().prompt = true;
    }

    /// Answers what has come.
    pub(super) fn answer(&self) {
        let mut state = self.state();
        let asked = std::mem::take(&mut state.asked);
        state.answered.extend(asked);
        let woken = [state.reader.take(), state.writer.take()];
        drop(state);
        woken.into_iter().flatten().for_each(Waker::wake);
    }

    /// Nobody asks any more.
    pub(super) fn hang_up(&self) {
        let mut state = self.state();
        state.hung_up = true;
        let server = state.server.take();
        drop(state);
        server.inspect(Waker::wake_by_ref);
    }

    /// All that was ever written.
    pub(super) fn written(&self) -> Vec<u8> {
        self.state().written.clone()
    }
}
