//! What answers requests.
//!
//! A handler lives on one thread and is called for every request of that thread's connections. It is shared
//! by the requests in flight (`Rc`), so its state needs `Cell` or `RefCell` at most, never a lock.

use std::future::{Future, ready};
use std::rc::Rc;

use crate::{Request, Response};

/// Answers requests; one value per thread, made by the factory given to [`Server::run`](crate::Server::run).
///
/// Every `Fn(Request) -> impl Future<Output = Response>` is one. A type of one's own is one like this:
///
/// ```
/// use std::rc::Rc;
/// use cenote_http::{Handler, Request, Response};
///
/// struct App { greeting: String }
///
/// impl Handler for App {
///     async fn call(self: Rc<Self>, request: Request) -> Response {
///         Response::text(format!("{}, {}", self.greeting, request.head.peer()))
///     }
/// }
/// ```
///
/// The future is not required to be `Send`: it is polled on the thread that made it. It is dropped before its
/// end only where a panic, the stop deadline or a client that takes no answer cuts the connection; a client
/// that merely goes away does not stop it.
///
/// To spawn a task on the same thread, use [`tokio::task::spawn_local`] or [`tokio::spawn`].
pub trait Handler: 'static {
    /// Answers one request.
    fn call(self: Rc<Self>, request: Request) -> impl Future<Output = Response> + 'static;

    /// Runs once, after the thread's last connection was closed and before the thread's event loop ends: the
    /// place to close what lives on it. The stop deadline bounds it.
    fn stopped(self: Rc<Self>) -> impl Future<Output = ()> {
        ready(())
    }
}

impl<F, A> Handler for F
where
    F: Fn(Request) -> A + 'static,
    A: Future<Output = Response> + 'static,
{
    fn call(self: Rc<Self>, request: Request) -> impl Future<Output = Response> + 'static {
        self(request)
    }
}
