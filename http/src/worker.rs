//! One thread of the server: its event loop, its listener, and its part of a stop.
//!
//! ```text
//!   serving     accept ──> spawn a connection          sweep once per tick
//!   stopping    accept what is queued, close the listener
//!               answers say `connection: close`
//!               idle connections end, then those that never asked
//!               wait: all closed, or the deadline, or stop_now
//!   ended       Handler::stopped, then the loop is dropped and cuts what is left
//! ```

use std::future::pending;
use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::rc::Rc;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use hyper::server::conn::http1;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::oneshot;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use crate::Handler;
use crate::connection;
use crate::link::Link;
use crate::listener::BACKLOG;
use crate::settings::Settings;
use crate::stats::Counters;
use crate::stop::{Order, Orders};
use crate::tasks::Tasks;
use crate::thread::{Stage, Thread};

/// The pause after accepting failed for lack of descriptors or memory. The connection stays in the queue, so
/// without a pause the loop would spin on it; closing connections is what helps.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// At a stop, a connection that was just made has so long to send its first request, which is likely under
/// way. One that has made a request before is closed without it.
const FRESH_GRACE: Duration = Duration::from_millis(250);

/// What one thread is given.
pub(crate) struct Worker {
    pub(crate) index: usize,
    pub(crate) listener: StdListener,
    pub(crate) settings: Settings,
    pub(crate) counters: Arc<Counters>,
    pub(crate) orders: Orders,
    pub(crate) ready: Ready,
}

/// How the threads begin together: each tells that it has all it needs, and waits until all have. So a client
/// that is quick cannot take the descriptors that a later thread needs for its event loop.
pub(crate) struct Ready {
    pub(crate) tell: mpsc::Sender<()>,
    pub(crate) all: oneshot::Receiver<()>,
}

/// Runs the event loop until the server was told to stop.
pub(crate) fn run<H: Handler>(worker: Worker, factory: impl FnOnce(usize) -> H) -> io::Result<()> {
    if worker.settings.pins_threads {
        pin_thread(worker.index)?;
    }
    let mut builder = Builder::new_current_thread();
    builder.enable_all();
    if let Some(interval) = worker.settings.event_interval {
        builder.event_interval(interval);
    }
    // A local runtime spawns futures that are not `Send` without the second queue of a `LocalSet`.
    let runtime = builder.build_local(LocalOptions::default())?;
    runtime.block_on(async {
        let handler = Rc::new(factory(worker.index));
        let listener = TcpListener::from_std(worker.listener)?;
        let Ready { tell, all } = worker.ready;
        let _ = tell.send(());
        // Whoever counts us must not wait for us too.
        drop(tell);
        match all.await {
            Ok(()) => serve(listener, worker.settings, worker.counters, worker.orders, handler, Tasks::Loop).await,
            // Another thread has failed, and the server does not begin.
            Err(_) => Ok(()),
        }
    })
}

#[cfg(target_os = "linux")]
fn pin_thread(index: usize) -> io::Result<()> {
    crate::affinity::pin(index)
}

#[cfg(not(target_os = "linux"))]
fn pin_thread(_: usize) -> io::Result<()> {
    Ok(())
}

/// Serves within whatever polls the future, until the server was told to stop.
pub(crate) async fn serve_here<H: Handler>(
    listener: StdListener,
    settings: Settings,
    counters: Arc<Counters>,
    orders: Orders,
    handler: H,
) -> io::Result<()> {
    let listener = TcpListener::from_std(listener)?;
    let tasks = Tasks::here();
    let serving = serve(listener, settings, counters, orders, Rc::new(handler), tasks.clone());
    tasks.run(serving).await
}

async fn serve<H: Handler>(
    listener: TcpListener,
    settings: Settings,
    counters: Arc<Counters>,
    mut orders: Orders,
    handler: Rc<H>,
    tasks: Tasks,
) -> io::Result<()> {
    let thread = Rc::new(Thread::new(settings.limits(), counters));
    let door = Door {
        http: Rc::new(connection::http(&settings)),
        connections_max: settings.connections_per_thread_max,
        handler: Rc::clone(&handler),
        thread: Rc::clone(&thread),
        tasks: tasks.clone(),
    };
    tasks.spawn(sweep(Rc::clone(&thread), settings.tick()));

    tokio::select! {
        biased;
        () = orders.at_least(Order::Stop) => {}
        () = door.accept(&listener) => {}
    }

    let deadline = Instant::now() + settings.stop_deadline;
    thread.enter(Stage::Stopping);
    door.empty_queue(listener.into_std()?);
    tokio::select! {
        biased;
        () = orders.at_least(Order::Cut) => {}
        () = sleep_until(deadline) => {}
        () = finish(&thread) => {}
    }
    let cut = thread.connections();
    thread.counters.connections_cut.add(cut as u64);
    tokio::select! {
        biased;
        () = orders.at_least(Order::Cut) => {}
        _ = timeout_at(deadline, handler.stopped()) => {}
    }
    Ok(())
}

/// Advances the thread's clock while there are connections.
async fn sweep(thread: Rc<Thread>, tick: Duration) {
    loop {
        while thread.connections() == 0 {
            thread.opened.notified().await;
        }
        sleep(tick).await;
        thread.sweep();
    }
}

/// Closes the connections of a thread that stops, and returns when the last is gone.
async fn finish(thread: &Thread) {
    // Each yield lets the loop look at the sockets once: after it, what had arrived when the stop came is
    // known, and only what is idle looks idle.
    yield_now().await;
    yield_now().await;
    thread.enter(Stage::ClosingIdle);
    let all_closed = async {
        while thread.connections() > 0 {
            thread.closed.notified().await;
        }
    };
    let close_fresh = async {
        sleep(FRESH_GRACE).await;
        thread.enter(Stage::ClosingFresh);
        pending().await
    };
    tokio::select! {
        biased;
        () = all_closed => {}
        () = close_fresh => {}
    }
}

/// Where connections come in.
struct Door<H> {
    handler: Rc<H>,
    http: Rc<http1::Builder>,
    thread: Rc<Thread>,
    tasks: Tasks,
    connections_max: usize,
}

impl<H: Handler> Door<H> {
    /// Accepts for ever.
    async fn accept(&self, listener: &TcpListener) {
        loop {
            while self.thread.connections() >= self.connections_max {
                self.thread.closed.notified().await;
            }
            match listener.accept().await {
                Ok((stream, peer)) => self.admit(stream, peer),
                Err(error) if is_of_the_connection(&error) => {}
                Err(_) => {
                    self.thread.counters.accept_errors.add(1);
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    /// Accepts what waits and closes the listener: to their clients these connections are made. Asking the
    /// socket itself, as the event loop may not have heard of the last ones. Bounded, as others may arrive
    /// for as long as there is a listener.
    fn empty_queue(&self, listener: StdListener) {
        for _ in 0..BACKLOG {
            match listener.accept() {
                Ok((stream, peer)) => {
                    let stream = stream.set_nonblocking(true).and_then(|()| TcpStream::from_std(stream));
                    if let Ok(stream) = stream {
                        self.admit(stream, peer);
                    }
                }
                Err(error) if is_of_the_connection(&error) => {}
                Err(_) => return,
            }
        }
    }

    fn admit(&self, stream: TcpStream, peer: SocketAddr) {
        // Answers are written whole, so there is nothing to wait for. If the client is gone already, reading
        // will tell.
        let _ = stream.set_nodelay(true);
        let link = Rc::new(Link::new(Rc::clone(&self.thread), stream, peer));
        let registration = Thread::register(Rc::clone(&link));
        let handler = Rc::clone(&self.handler);
        self.tasks.spawn(connection::serve(link, handler, Rc::clone(&self.http), registration));
    }
}

/// Whether accepting failed because of the connection, which is gone then, and not of the listener.
fn is_of_the_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}
