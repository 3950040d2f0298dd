//! The server as a whole: its listeners, its threads, and their end.

use std::any::Any;
use std::future::Future;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};

use tokio::sync::oneshot;

use crate::listener;
use crate::settings::Settings;
use crate::signals::Signals;
use crate::stats::Counters;
use crate::worker::{self, Ready, Worker};
use crate::{Builder, Handler, StatsHandle, Stop};

/// A server that has its port and does not serve yet. See the [first page](crate) for an example.
#[derive(Debug)]
pub struct Server {
    settings: Settings,
    listeners: Vec<TcpListener>,
    address: SocketAddr,
    counters: Arc<[Arc<Counters>]>,
    stop: Stop,
}

impl Server {
    /// Starts to describe a server.
    pub fn builder() -> Builder {
        Builder::new()
    }

    pub(crate) fn bind(addresses: &[SocketAddr], settings: Settings) -> io::Result<Server> {
        let (listeners, address) = listener::bind(addresses, settings.threads, settings.shares_port)?;
        let counters = listeners.iter().map(|_| Arc::default()).collect();
        Ok(Server { settings, listeners, address, counters, stop: Stop::new() })
    }

    /// The address it listens on, with the port it was given.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What stops it, from any thread.
    pub fn stop(&self) -> Stop {
        self.stop.clone()
    }

    /// What reads its counters, from any thread: a handler may hold it.
    pub fn stats(&self) -> StatsHandle {
        StatsHandle::new(Arc::clone(&self.counters))
    }

    /// Serves until it is stopped: [`start`](Server::start) and [`join`](Running::join) in one.
    ///
    /// # Errors
    ///
    /// As those two.
    pub fn run<F, H>(self, factory: F) -> io::Result<()>
    where
        F: Fn(usize) -> H + Send + Sync + 'static,
        H: Handler,
    {
        self.start(factory)?.join()
    }

    /// Serves within the future that is returned, on whatever runtime polls it, until it is stopped: for whoever has a
    /// thread and an event loop already. It has one thread, whatever the builder says, and is not `Send`.
    ///
    /// ```no_run
    /// # use cenote_http::{Request, Response, Server};
    /// # async fn example() -> std::io::Result<()> {
    /// let server = Server::builder().address("127.0.0.1:0").threads(1).bind()?;
    /// server.serve_here(|_: Request| async { Response::text("hello") }).await
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The listener cannot be watched by the runtime, or there is no runtime.
    pub fn serve_here<H: Handler>(self, handler: H) -> impl Future<Output = io::Result<()>> + use<H> {
        let Server { settings, listeners, counters, stop, .. } = self;
        async move {
            let parts = listeners.into_iter().next().zip(counters.first().map(Arc::clone));
            let (listener, counters) = parts.ok_or_else(|| io::Error::other("a server without a listener"))?;
            worker::serve_here(listener, settings, counters, stop.listen(), handler).await
        }
    }

    /// Starts the threads and returns once they accept. Each calls `factory` with its number, counted from 0, to
    /// make its own handler, inside its event loop: tasks can be spawned there.
    ///
    /// # Errors
    ///
    /// A thread or its event loop cannot be made, `factory` panics, or signals cannot be caught.
    pub fn start<F, H>(self, factory: F) -> io::Result<Running>
    where
        F: Fn(usize) -> H + Send + Sync + 'static,
        H: Handler,
    {
        let signals = match self.settings.stops_on_signals {
            true => Some(Signals::listen(self.stop.clone())?),
            false => None,
        };
        let mut running = Running {
            address: self.address,
            stop: self.stop.clone(),
            stats: self.stats(),
            threads: Vec::with_capacity(self.listeners.len()),
            _signals: signals,
        };
        let factory = Arc::new(factory);
        let (tell, ready) = mpsc::channel();
        let mut begin = Vec::with_capacity(self.listeners.len());
        let parts = self.listeners.into_iter().zip(self.counters.iter());
        for (index, (listener, counters)) in parts.enumerate() {
            let (all_ready, all) = oneshot::channel();
            begin.push(all_ready);
            let worker = Worker {
                index,
                listener,
                settings: self.settings.clone(),
                counters: Arc::clone(counters),
                orders: self.stop.listen(),
                ready: Ready { tell: tell.clone(), all },
            };
            let factory = Arc::clone(&factory);
            let others = StopOthers(self.stop.clone());
            // Dropping `begin` on an error ends the threads that were made.
            let thread = thread::Builder::new().name(format!("cenote-http-{index}")).spawn(move || {
                let _others = others;
                worker::run(worker, |index| factory(index))
            })?;
            running.threads.push(thread);
        }
        drop(tell);
        if ready.iter().take(begin.len()).count() < begin.len() {
            // All have told or ended, and not all have told.
            drop(begin);
            let ended = running.join();
            return ended.and(Err(io::Error::other("a thread of the server has ended early")));
        }
        for all_ready in begin {
            // A thread that is gone meanwhile is told of by `join`.
            let _ = all_ready.send(());
        }
        Ok(running)
    }
}

/// Stops the server when the first of its threads ends, in whatever way: half a server would answer only a
/// part of its clients.
struct StopOthers(Stop);

impl Drop for StopOthers {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// A server whose threads run. Dropping it asks it to stop and does not wait; [`join`](Running::join) waits.
#[derive(Debug)]
#[must_use = "a server that is dropped stops"]
pub struct Running {
    address: SocketAddr,
    stop: Stop,
    stats: StatsHandle,
    threads: Vec<JoinHandle<io::Result<()>>>,
    _signals: Option<Signals>,
}

impl Running {
    /// The address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What stops it, from any thread.
    pub fn stop(&self) -> Stop {
        self.stop.clone()
    }

    /// What reads its counters, from any thread.
    pub fn stats(&self) -> StatsHandle {
        self.stats.clone()
    }

    /// Waits until it has stopped. It does not ask it to: [`Stop`] and signals do.
    ///
    /// # Errors
    ///
    /// A thread panicked outside of a request, such as in [`Handler::stopped`].
    pub fn join(mut self) -> io::Result<()> {
        let mut result = Ok(());
        for thread in self.threads.drain(..) {
            let ended = thread.join().unwrap_or_else(|panic| Err(panicked(&*panic)));
            result = result.and(ended);
        }
        result
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.stop();
    }
}

fn panicked(panic: &(dyn Any + Send)) -> io::Error {
    let message = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message");
    io::Error::other(format!("a thread of the server panicked: {message}"))
}
