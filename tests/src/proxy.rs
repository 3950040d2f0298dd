//! A proxy between a driver and a real server, to spoil the network between them on purpose.
//!
//! It passes bytes on and knows nothing of any protocol. It runs on a thread of its own, so that it works on while a
//! test blocks its runtime. It does not shape traffic by time where a test could wait for a condition instead.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{oneshot, watch};

use crate::chaos::{Chaos, Course, Cut, Step};

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the driver to the server.
    ToServer,
    /// From the server to the driver.
    ToClient,
}

/// What the kernel keeps for a driver that writes into a stalled proxy: little, so that its writes block soon.
const RECEIVE_BUFFER_BYTES: u32 = 16 * 1024;

/// Bytes passed on at once.
const CHUNK_BYTES: usize = 64 * 1024;

/// One direction of all connections.
#[derive(Debug, Default)]
struct Way {
    stalled: watch::Sender<bool>,
    delay: Mutex<Duration>,
    bytes: AtomicU64,
    replacements: Mutex<Vec<(Vec<u8>, Vec<u8>)>>,
    counted: Mutex<Vec<(Vec<u8>, usize)>>,
}

impl Way {
    fn counted(&self) -> MutexGuard<'_, Vec<(Vec<u8>, usize)>> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug, Default)]
struct Shared {
    to_server: Way,
    to_client: Way,
    /// Counts the resets.
    resets: watch::Sender<u64>,
    /// Connections with a lower number are silent.
    first_heard: watch::Sender<usize>,
    chaos: Option<Chaos>,
    accepted: AtomicUsize,
    open: AtomicUsize,
}

impl Shared {
    fn way(&self, direction: Direction) -> &Way {
        match direction {
            Direction::ToServer => &self.to_server,
            Direction::ToClient => &self.to_client,
        }
    }
}

/// A proxy to one server. All its connections end when it is dropped.
#[derive(Debug)]
pub struct Proxy {
    shared: Arc<Shared>,
    port: u16,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Proxy {
    /// Starts a proxy to the server that `url` names.
    pub fn start(url: &str) -> Proxy {
        Proxy::start_on(0, url)
    }

    /// The same, at a port that is known beforehand; 0 is any.
    pub fn start_on(port: u16, url: &str) -> Proxy {
        Proxy::serve(port, url, None)
    }

    /// Starts a proxy that does to the bytes what this chaos says.
    pub fn spoiled(url: &str, chaos: &Chaos) -> Proxy {
        Proxy::serve(0, url, Some(chaos.clone()))
    }

    fn serve(port: u16, url: &str, chaos: Option<Chaos>) -> Proxy {
        let target = address_in(url).unwrap_or_else(|| panic!("the proxy needs one TCP address with its port"));
        let shared = Arc::new(Shared { chaos, ..Shared::default() });
        let (stop, stopped) = oneshot::channel();
        let (told, is_told) = std::sync::mpsc::channel();
        let thread = std::thread::spawn({
            let shared = Arc::clone(&shared);
            move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
                runtime.block_on(async {
                    let listener = listen(port);
                    told.send(listener.local_addr().expect("the listener has an address").port()).expect("is heard");
                    tokio::select! {
                        () = accept(listener, target, shared) => {}
                        // Told, or dropped.
                        _ = stopped => {}
                    }
                });
            }
        });
        let port = is_told.recv().expect("the proxy comes up");
        Proxy { shared, port, stop: Some(stop), thread: Some(thread) }
    }

    /// These settings, by way of this proxy.
    pub fn through<S: Rerouted>(&self, settings: S) -> S {
        settings.rerouted("127.0.0.1", self.port)
    }

    /// Where it listens, on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// From now on nothing is passed on this way, on old and new connections, until [`resume`](Proxy::resume).
    pub fn stall(&self, direction: Direction) {
        self.shared.way(direction).stalled.send_replace(true);
    }

    /// Passes on what was held back and what comes.
    pub fn resume(&self, direction: Direction) {
        self.shared.way(direction).stalled.send_replace(false);
    }

    /// Holds each piece of data that goes this way for so long.
    pub fn delay(&self, direction: Direction, delay: Duration) {
        *self.shared.way(direction).delay.lock().unwrap_or_else(PoisonError::into_inner) = delay;
    }

    /// From now on puts `to` in the place of `from`, where one piece of data holds it whole.
    ///
    /// # Panics
    ///
    /// When the two differ in length: what counts lengths must not notice.
    pub fn replace(&self, direction: Direction, from: &[u8], to: &[u8]) {
        assert_eq!(from.len(), to.len(), "a replacement has the length of what it replaces");
        let way = self.shared.way(direction);
        way.replacements.lock().unwrap_or_else(PoisonError::into_inner).push((from.to_vec(), to.to_vec()));
    }

    /// From now on counts how often `text` goes this way, where one piece of data holds it whole.
    pub fn count(&self, direction: Direction, text: &[u8]) {
        self.shared.way(direction).counted().push((text.to_vec(), 0));
    }

    /// How often it did.
    ///
    /// # Panics
    ///
    /// When it was not to be counted.
    pub fn counted(&self, direction: Direction, text: &[u8]) -> usize {
        let counted = self.shared.way(direction).counted();
        counted.iter().find(|(counted, _)| counted == text).expect("it was to be counted").1
    }

    /// Cuts all connections that are open now, both sides, by a TCP reset. New ones are served.
    pub fn reset(&self) {
        self.shared.resets.send_modify(|resets| *resets += 1);
    }

    /// From now on nothing is passed on, or even read, on the connections that are open now: they look alive and say
    /// nothing, until a [`reset`](Proxy::reset). New ones are served.
    pub fn silence(&self) {
        self.shared.first_heard.send_replace(self.accepted());
    }

    /// Bytes passed on this way.
    pub fn bytes(&self, direction: Direction) -> u64 {
        self.shared.way(direction).bytes.load(Ordering::SeqCst)
    }

    /// Connections accepted so far.
    pub fn accepted(&self) -> usize {
        self.shared.accepted.load(Ordering::SeqCst)
    }

    /// Connections that are open.
    pub fn open(&self) -> usize {
        self.shared.open.load(Ordering::SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the proxy was printed when it happened.
            let _ = thread.join();
        }
    }
}

/// Settings of either driver, whose address can be another.
pub trait Rerouted {
    /// The same, with this as their only address.
    fn rerouted(self, host: &str, port: u16) -> Self;
}

impl Rerouted for cenote_postgres::SettingsBuilder {
    fn rerouted(self, host: &str, port: u16) -> Self {
        self.hosts([]).host(host, port)
    }
}

impl Rerouted for cenote_mysql::SettingsBuilder {
    fn rerouted(self, host: &str, port: u16) -> Self {
        self.hosts([]).host(host, port)
    }
}

/// The host and the port that a URL of any scheme names.
fn address_in(url: &str) -> Option<(String, u16)> {
    let (_, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?']).next()?;
    let address = authority.rsplit_once('@').map_or(authority, |(_, address)| address);
    let (host, port) = address.rsplit_once(':')?;
    Some((host.to_owned(), port.parse().ok()?)).filter(|(host, _)| !host.is_empty() && !host.contains(','))
}

fn listen(port: u16) -> TcpListener {
    let socket = TcpSocket::new_v4().expect("a socket");
    // A port that was in use a moment ago counts as free.
    socket.set_reuseaddr(true).expect("a reusable address");
    // Accepted sockets inherit it.
    socket.set_recv_buffer_size(RECEIVE_BUFFER_BYTES).expect("a small receive buffer");
    socket.bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).expect("a free port");
    socket.listen(1024).expect("a listening socket")
}

async fn accept(listener: TcpListener, target: (String, u16), shared: Arc<Shared>) {
    loop {
        let Ok((client, _)) = listener.accept().await else { continue };
        let number = shared.accepted.fetch_add(1, Ordering::SeqCst);
        shared.open.fetch_add(1, Ordering::SeqCst);
        let (target, shared) = (target.clone(), Arc::clone(&shared));
        tokio::spawn(async move {
            // Subscribed before anything is awaited, so that no reset is missed.
            let resets = shared.resets.subscribe();
            if let Ok(server) = TcpStream::connect((target.0.as_str(), target.1)).await {
                serve(number, client, server, &shared, resets).await;
            }
            shared.open.fetch_sub(1, Ordering::SeqCst);
        });
    }
}

async fn serve(
    number: usize,
    mut client: TcpStream,
    mut server: TcpStream,
    shared: &Shared,
    mut resets: watch::Receiver<u64>,
) {
    for stream in [&client, &server] {
        stream.set_nodelay(true).expect("a connected socket");
    }
    let mut first_heard = shared.first_heard.subscribe();
    let course = |direction| shared.chaos.as_ref().map(|chaos| chaos.course(number, direction));
    let cut = {
        let (mut from_client, mut to_client) = client.split();
        let (mut from_server, mut to_server) = server.split();
        let both = async {
            tokio::try_join!(
                pump(&shared.to_server, course(Direction::ToServer), &mut from_client, &mut to_server),
                pump(&shared.to_client, course(Direction::ToClient), &mut from_server, &mut to_client),
            )
        };
        let silenced = async {
            let _ = first_heard.wait_for(|first| number < *first).await;
        };
        let ended = tokio::select! {
            ended = both => Some(ended.err().unwrap_or(Cut::Close)),
            () = silenced => None,
            _ = resets.changed() => Some(Cut::Reset),
        };
        match ended {
            Some(cut) => cut,
            // Both sockets stay open, and nobody looks at them.
            None => {
                let _ = resets.changed().await;
                Cut::Reset
            }
        }
    };
    if cut == Cut::Reset {
        for stream in [&client, &server] {
            // Closing throws away what is unsent and sends RST.
            SockRef::from(stream).set_linger(Some(Duration::ZERO)).expect("a socket that can be reset");
        }
    }
}

/// Passes bytes on until one side has no more, or the connection is to end, in the way that it says.
async fn pump(
    way: &Way,
    mut course: Option<Course>,
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
) -> Result<(), Cut> {
    let mut stalled = way.stalled.subscribe();
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        // The sender lives as long as this.
        let _ = stalled.wait_for(|stalled| !stalled).await;
        let count = from.read(&mut chunk).await.map_err(broken)?;
        let _ = stalled.wait_for(|stalled| !stalled).await;
        if count == 0 {
            return to.shutdown().await.map_err(broken);
        }
        let delay = *way.delay.lock().unwrap_or_else(PoisonError::into_inner);
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        let bytes = &mut chunk[..count];
        for (old, new) in way.replacements.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let found: Vec<usize> = memchr::memmem::find_iter(bytes, old).collect();
            found.into_iter().for_each(|at| bytes[at..at + new.len()].copy_from_slice(new));
        }
        for (text, times) in way.counted().iter_mut() {
            *times += memchr::memmem::find_iter(bytes, text).count();
        }
        let mut rest = bytes;
        while !rest.is_empty() {
            let step = course.as_mut().map(|course| course.step(rest));
            let (count, pause) = match step {
                None => (rest.len(), Duration::ZERO),
                Some(Step::Pass { count, pause }) => (count, pause),
                Some(Step::Cut(cut)) => return Err(cut),
            };
            if !pause.is_zero() {
                tokio::time::sleep(pause).await;
            }
            let (piece, later) = rest.split_at_mut(count);
            to.write_all(piece).await.map_err(broken)?;
            way.bytes.fetch_add(count as u64, Ordering::SeqCst);
            rest = later;
        }
    }
}

/// An error of one side ends the other, too.
fn broken(_: std::io::Error) -> Cut {
    Cut::Close
}
