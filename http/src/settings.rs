//! Everything that can be set, with its default and the reason for it.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::num::NonZero;
use std::thread;
use std::time::Duration;

use crate::Server;
use crate::ticks::Ticks;

/// A head (request line and headers) of more bytes is answered with 431. Browsers with large cookies stay
/// below 8 KiB; twice that is what other servers accept.
pub const HEAD_BYTES_MAX: usize = 16 * 1024;

/// A body of more bytes is answered with 413. Enough for any JSON an API takes, and little enough for every
/// connection to hold one.
pub const BODY_BYTES_MAX: usize = 1024 * 1024;

/// A head must be complete so long after its first byte, and a connection must send its first head so long
/// after it was made. A head is one packet or two; this covers a lossy mobile network with retries.
pub const HEAD_READ_TIMEOUT: Duration = Duration::from_secs(10);

/// A body must be complete so long after its handler began to read it: 1 MiB at 280 kbit/s.
pub const BODY_READ_TIMEOUT: Duration = Duration::from_secs(30);

/// A connection without a request is closed after so long. Longer than the 60 s after which the usual load
/// balancers close theirs, so that it is the client's side that closes and no request meets a closed door.
pub const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(75);

/// A client that takes no byte of its answer for so long is cut off.
pub const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// After an answer that came before the end of its request, the rest is read and dropped for so long, so that
/// the answer is not lost to the reset that closing would cause.
pub const LINGER_TIMEOUT: Duration = Duration::from_secs(2);

/// Connections open on one thread at most; more wait in the listener's queue. At about 10 KiB for an idle
/// one this is 100 MiB.
pub const CONNECTIONS_PER_THREAD_MAX: usize = 10_000;

/// A stop waits so long for what is in flight: less than the 10 s between the signals of `docker stop`.
pub const STOP_DEADLINE: Duration = Duration::from_secs(8);

/// A clock tick at most: coarse enough to cost nothing on an idle server.
const TICK_MAX: Duration = Duration::from_millis(500);

/// A clock tick at least: timeouts of milliseconds are for tests, and a finer clock would be all the thread
/// does.
const TICK_MIN: Duration = Duration::from_millis(5);

/// Ticks in the shortest timeout, which is exact to one of them.
const TICKS_PER_TIMEOUT: u32 = 8;

/// A smaller limit would refuse what every client sends.
const HEAD_BYTES_MIN: usize = 128;

/// What a server is made with; each method returns the same builder with one thing changed.
///
/// ```
/// use std::time::Duration;
/// use cenote_http::Server;
///
/// let server = Server::builder()
///     .address("127.0.0.1:0")
///     .threads(2)
///     .body_bytes_max(64 * 1024)
///     .keep_alive_timeout(Duration::from_secs(20))
///     .bind()?;
/// assert_ne!(server.address().port(), 0);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
#[must_use]
pub struct Builder {
    addresses: io::Result<Vec<SocketAddr>>,
    pub(crate) settings: Settings,
}

/// The settings past the addresses.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) threads: usize,
    pub(crate) shares_port: bool,
    pub(crate) pins_threads: bool,
    pub(crate) stops_on_signals: bool,
    pub(crate) event_interval: Option<u32>,
    pub(crate) head_bytes_max: usize,
    pub(crate) body_bytes_max: usize,
    pub(crate) head_read_timeout: Duration,
    pub(crate) body_read_timeout: Duration,
    pub(crate) keep_alive_timeout: Duration,
    pub(crate) write_timeout: Duration,
    pub(crate) linger_timeout: Duration,
    pub(crate) connections_per_thread_max: usize,
    pub(crate) stop_deadline: Duration,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            // Respects the affinity mask and the cgroup's quota.
            threads: thread::available_parallelism().map_or(1, NonZero::get),
            shares_port: false,
            pins_threads: false,
            stops_on_signals: false,
            event_interval: None,
            head_bytes_max: HEAD_BYTES_MAX,
            body_bytes_max: BODY_BYTES_MAX,
            head_read_timeout: HEAD_READ_TIMEOUT,
            body_read_timeout: BODY_READ_TIMEOUT,
            keep_alive_timeout: KEEP_ALIVE_TIMEOUT,
            write_timeout: WRITE_TIMEOUT,
            linger_timeout: LINGER_TIMEOUT,
            connections_per_thread_max: CONNECTIONS_PER_THREAD_MAX,
            stop_deadline: STOP_DEADLINE,
        }
    }
}

impl Builder {
    pub(crate) fn new() -> Builder {
        let local = SocketAddr::from((Ipv4Addr::LOCALHOST, 8080));
        Builder { addresses: Ok(vec![local]), settings: Settings::default() }
    }

    /// Where to listen; 127.0.0.1:8080 unless set. Of several addresses the first that can be bound is taken.
    /// Port 0 is a free one, which [`Server::address`] tells.
    pub fn address(mut self, address: impl ToSocketAddrs) -> Builder {
        self.addresses = address.to_socket_addrs().map(Iterator::collect);
        self
    }

    /// Event loops; one per core that this process may use unless set.
    pub fn threads(mut self, threads: usize) -> Builder {
        self.settings.threads = threads;
        self
    }

    /// Whether other servers may listen on the same port, in this process or another, and take their share of
    /// its connections (Linux only). Off, a second server on a port is an error.
    pub fn share_port(mut self, share: bool) -> Builder {
        self.settings.shares_port = share;
        self
    }

    /// Whether each thread stays on one core (Linux only). Off unless set: it helps a server that has its
    /// cores to itself, and harms where other processes want them too, as the scheduler can no longer move
    /// the thread to a free one.
    pub fn pin_threads(mut self, pin: bool) -> Builder {
        self.settings.pins_threads = pin;
        self
    }

    /// Whether SIGINT and SIGTERM stop the server. The first asks it to, the second ends it at once; where a
    /// handler blocks its thread, it ends the process a second later. The signals stay caught for the life of
    /// the process.
    pub fn stop_on_signals(mut self, stop: bool) -> Builder {
        self.settings.stops_on_signals = stop;
        self
    }

    /// Tasks that a thread runs between two looks at its sockets; tokio's default (61) unless set.
    pub fn event_interval(mut self, tasks: u32) -> Builder {
        self.settings.event_interval = Some(tasks);
        self
    }

    /// Bytes of a head at most: [`HEAD_BYTES_MAX`] unless set, and at least 128.
    pub fn head_bytes_max(mut self, bytes: usize) -> Builder {
        self.settings.head_bytes_max = bytes;
        self
    }

    /// Bytes of a body at most: [`BODY_BYTES_MAX`] unless set.
    pub fn body_bytes_max(mut self, bytes: usize) -> Builder {
        self.settings.body_bytes_max = bytes;
        self
    }

    /// Time for a head: [`HEAD_READ_TIMEOUT`] unless set.
    pub fn head_read_timeout(mut self, timeout: Duration) -> Builder {
        self.settings.head_read_timeout = timeout;
        self
    }

    /// Time for a body: [`BODY_READ_TIMEOUT`] unless set.
    pub fn body_read_timeout(mut self, timeout: Duration) -> Builder {
        self.settings.body_read_timeout = timeout;
        self
    }

    /// Time without a request: [`KEEP_ALIVE_TIMEOUT`] unless set.
    pub fn keep_alive_timeout(mut self, timeout: Duration) -> Builder {
        self.settings.keep_alive_timeout = timeout;
        self
    }

    /// Time for a client to take a byte of its answer: [`WRITE_TIMEOUT`] unless set.
    pub fn write_timeout(mut self, timeout: Duration) -> Builder {
        self.settings.write_timeout = timeout;
        self
    }

    /// Time to read and drop what was refused: [`LINGER_TIMEOUT`] unless set.
    pub fn linger_timeout(mut self, timeout: Duration) -> Builder {
        self.settings.linger_timeout = timeout;
        self
    }

    /// Connections per thread at most: [`CONNECTIONS_PER_THREAD_MAX`] unless set.
    pub fn connections_per_thread_max(mut self, connections: usize) -> Builder {
        self.settings.connections_per_thread_max = connections;
        self
    }

    /// Time that a stop waits for what is in flight: [`STOP_DEADLINE`] unless set.
    pub fn stop_deadline(mut self, deadline: Duration) -> Builder {
        self.settings.stop_deadline = deadline;
        self
    }

    /// Makes the listeners. From here on clients can connect; they are served once the server runs.
    ///
    /// # Errors
    ///
    /// A setting makes no sense, or the address cannot be resolved or bound.
    pub fn bind(self) -> io::Result<Server> {
        let addresses = self.addresses?;
        self.settings.check()?;
        Server::bind(&addresses, self.settings)
    }
}

impl Settings {
    fn check(&self) -> io::Result<()> {
        let refused = if self.threads == 0 {
            "a server needs a thread"
        } else if self.connections_per_thread_max == 0 {
            "a server needs a connection"
        } else if self.head_bytes_max < HEAD_BYTES_MIN {
            "the limit for heads is below 128 bytes"
        } else if self.event_interval == Some(0) {
            "the event interval is zero"
        } else if self.timeouts().contains(&Duration::ZERO) {
            "a timeout is zero"
        } else {
            return Ok(());
        };
        Err(io::Error::new(io::ErrorKind::InvalidInput, refused))
    }

    fn timeouts(&self) -> [Duration; 5] {
        [
            self.head_read_timeout,
            self.body_read_timeout,
            self.keep_alive_timeout,
            self.write_timeout,
            self.linger_timeout,
        ]
    }

    /// How long a tick of the threads' clocks is.
    pub(crate) fn tick(&self) -> Duration {
        let shortest = self.timeouts().into_iter().min().unwrap_or(TICK_MAX);
        (shortest / TICKS_PER_TIMEOUT).clamp(TICK_MIN, TICK_MAX)
    }

    pub(crate) fn limits(&self) -> Limits {
        let ticks = |timeout| Ticks::lasting(timeout, self.tick());
        Limits {
            body_bytes_max: self.body_bytes_max as u64,
            head_read: ticks(self.head_read_timeout),
            body_read: ticks(self.body_read_timeout),
            keep_alive: ticks(self.keep_alive_timeout),
            write: ticks(self.write_timeout),
            linger: ticks(self.linger_timeout),
        }
    }
}

/// The limits that a connection looks at while it runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) body_bytes_max: u64,
    pub(crate) head_read: Ticks,
    pub(crate) body_read: Ticks,
    pub(crate) keep_alive: Ticks,
    pub(crate) write: Ticks,
    pub(crate) linger: Ticks,
}
