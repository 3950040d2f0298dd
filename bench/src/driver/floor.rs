//! The floor: what is left when there is no driver.
//!
//! Blocking sockets from the standard library, queries encoded once, nothing sent along with them but what the server
//! insists on (Postgres: a Sync each). Each connection has a batch of queries (one per caller of its share) in flight:
//!
//! ```text
//! write batch to 1, 2, .. 8     then for 1, 2, .. 8, 1, 2, ..:   read until the batch is answered, write the next
//! ```
//!
//! So all connections are loaded while one is read, each batch is one write, and nothing is scheduled or woken. It is
//! no driver: a batch waits for its slowest query, and a server that stops reading would block it until its time-out.
//! What differs from database to database is behind `Wire`.

mod batch;
mod replies;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, ensure};

pub(super) use self::batch::Query;
use self::batch::{Batch, ID_BYTES};
use self::replies::Replies;
pub(super) use self::replies::{Answer, BUFFER_BYTES};
use super::turn::{Contender, Ids, Share, SocketCalls, even_part};

/// A server that says nothing for so long is down.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(10);

/// What the floor must know of a database.
pub(super) trait Wire: Send + Sync {
    /// A connection that has logged in, and the lookup that is prepared on it.
    fn open(&self) -> anyhow::Result<(Box<dyn Socket>, Query)>;

    /// An id as it stands in the lookup.
    fn id_bytes(id: i32) -> [u8; ID_BYTES];

    /// The answer at the beginning of these bytes, or `None` until it is whole.
    fn answer(bytes: &[u8]) -> anyhow::Result<Option<Answer>>;

    /// What a client says before it closes a connection.
    fn goodbye() -> Vec<u8>;
}

pub(super) struct Floor<W> {
    wire: W,
    writes: AtomicU64,
    reads: AtomicU64,
}

impl<W: Wire> Floor<W> {
    pub(super) fn new(wire: W) -> Self {
        Self { wire, writes: AtomicU64::new(0), reads: AtomicU64::new(0) }
    }
}

impl<W: Wire> Contender for Floor<W> {
    fn run(&self, share: &Arc<Share>) -> anyhow::Result<()> {
        let mut connections = Vec::with_capacity(share.connections);
        for connection in 0..share.connections {
            let callers = even_part(share.callers, share.connections, connection);
            let (socket, query) = self.wire.open()?;
            let batch = Batch::of(callers, query);
            connections.push(Connection { socket, batch, replies: Replies::new(), ids: share.ids(connection) });
        }
        share.ready();
        for connection in &mut connections {
            connection.send(self)?;
        }
        while !share.is_over() {
            for connection in &mut connections {
                connection.receive(self, share)?;
                connection.send(self)?;
            }
        }
        for connection in &mut connections {
            connection.receive(self, share)?;
            connection.socket.write_all(&W::goodbye()).context("cannot say goodbye")?;
        }
        Ok(())
    }

    fn socket_calls(&self) -> Option<SocketCalls> {
        Some(SocketCalls { writes: self.writes.load(Ordering::Relaxed), reads: self.reads.load(Ordering::Relaxed) })
    }
}

/// A blocking socket of either kind.
pub(super) trait Socket: Read + Write {}

impl Socket for TcpStream {}
impl Socket for UnixStream {}

struct Connection {
    socket: Box<dyn Socket>,
    batch: Batch,
    replies: Replies,
    ids: Ids,
}

impl Connection {
    fn send<W: Wire>(&mut self, floor: &Floor<W>) -> anyhow::Result<()> {
        let mut bytes = self.batch.draw(&mut self.ids, W::id_bytes)?;
        while !bytes.is_empty() {
            let written = self.socket.write(bytes).context("cannot write")?;
            floor.writes.fetch_add(1, Ordering::Relaxed);
            ensure!(written > 0, "the server takes no more bytes");
            bytes = bytes.get(written..).unwrap_or_default();
        }
        Ok(())
    }

    fn receive<W: Wire>(&mut self, floor: &Floor<W>, share: &Share) -> anyhow::Result<()> {
        for asked_id in self.batch.ids() {
            let (id, number) = loop {
                if let Some(row) = self.replies.next_row::<W>()? {
                    break row;
                }
                let space = self.replies.space()?;
                let read = self.socket.read(space).context("cannot read")?;
                floor.reads.fetch_add(1, Ordering::Relaxed);
                ensure!(read > 0, "the server closed the connection");
                self.replies.arrived(read);
            };
            share.check(*asked_id, id, number)?;
        }
        ensure!(self.replies.is_empty(), "the server sent more than was asked for");
        share.answered(self.batch.ids().len() as u64);
        Ok(())
    }
}

pub(super) fn connect_tcp(host: &str, port: u16) -> anyhow::Result<Box<dyn Socket>> {
    let socket = TcpStream::connect((host, port)).with_context(|| format!("cannot connect to {host}, port {port}"))?;
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(ANSWER_TIME_MAX))?;
    socket.set_write_timeout(Some(ANSWER_TIME_MAX))?;
    Ok(Box::new(socket))
}

pub(super) fn connect_unix(path: &Path) -> anyhow::Result<Box<dyn Socket>> {
    let socket = UnixStream::connect(path).with_context(|| format!("cannot connect to {}", path.display()))?;
    socket.set_read_timeout(Some(ANSWER_TIME_MAX))?;
    socket.set_write_timeout(Some(ANSWER_TIME_MAX))?;
    Ok(Box::new(socket))
}
