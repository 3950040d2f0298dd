//! The floor: what is left when there is no driver.
//!
//! Blocking sockets from the standard library, messages encoded once, one Sync per query. Each connection has a batch
//! of queries (one per caller of its share) in flight:
//!
//! ```text
//! write batch to 1, 2, .. 8     then for 1, 2, .. 8, 1, 2, ..:   read until the batch is answered, write the next
//! ```
//!
//! So all connections are loaded while one is read, each batch is one write, and nothing is scheduled or woken. It is
//! no driver: a batch waits for its slowest query, and a server that stops reading would block it until its time-out.

mod batch;
mod login;
mod replies;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, ensure};
use tokio_postgres::Config;
use tokio_postgres::config::Host;

use self::batch::Batch;
use self::replies::Replies;
use super::turn::{Contender, Ids, Share, SocketCalls, even_part};

/// A server that says nothing for so long is down.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(10);

/// Where a server listens if its URL does not say.
const PORT: u16 = 5432;

pub(crate) struct Floor {
    config: Config,
    writes: AtomicU64,
    reads: AtomicU64,
}

impl Floor {
    pub(crate) fn new(config: Config) -> Self {
        Self { config, writes: AtomicU64::new(0), reads: AtomicU64::new(0) }
    }
}

impl Contender for Floor {
    fn run(&self, share: &Arc<Share>) -> anyhow::Result<()> {
        let mut connections = Vec::with_capacity(share.connections);
        for connection in 0..share.connections {
            let callers = even_part(share.callers, share.connections, connection);
            connections.push(Connection::open(&self.config, callers, share.ids(connection))?);
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
            login::say_goodbye(connection.socket.as_mut())?;
        }
        Ok(())
    }

    fn socket_calls(&self) -> Option<SocketCalls> {
        Some(SocketCalls { writes: self.writes.load(Ordering::Relaxed), reads: self.reads.load(Ordering::Relaxed) })
    }
}

/// A blocking socket of either kind.
trait Socket: Read + Write {}

impl Socket for TcpStream {}
impl Socket for UnixStream {}

struct Connection {
    socket: Box<dyn Socket>,
    batch: Batch,
    replies: Replies,
    ids: Ids,
}

impl Connection {
    fn open(config: &Config, callers: usize, ids: Ids) -> anyhow::Result<Self> {
        let mut socket = connect(config)?;
        login::log_in(socket.as_mut(), config)?;
        Ok(Self { socket, batch: Batch::of(callers)?, replies: Replies::new(), ids })
    }

    fn send(&mut self, floor: &Floor) -> anyhow::Result<()> {
        let mut bytes = self.batch.draw(&mut self.ids)?;
        while !bytes.is_empty() {
            let written = self.socket.write(bytes).context("cannot write")?;
            floor.writes.fetch_add(1, Ordering::Relaxed);
            ensure!(written > 0, "the server takes no more bytes");
            bytes = bytes.get(written..).unwrap_or_default();
        }
        Ok(())
    }

    fn receive(&mut self, floor: &Floor, share: &Share) -> anyhow::Result<()> {
        for asked_id in self.batch.ids() {
            let (id, number) = loop {
                if let Some(row) = self.replies.next_row()? {
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

fn connect(config: &Config) -> anyhow::Result<Box<dyn Socket>> {
    let port = config.get_ports().first().copied().unwrap_or(PORT);
    match config.get_hosts().first().context("the URL names no host")? {
        Host::Tcp(host) => {
            let socket = TcpStream::connect((host.as_str(), port))
                .with_context(|| format!("cannot connect to {host}, port {port}"))?;
            socket.set_nodelay(true)?;
            socket.set_read_timeout(Some(ANSWER_TIME_MAX))?;
            socket.set_write_timeout(Some(ANSWER_TIME_MAX))?;
            Ok(Box::new(socket))
        }
        Host::Unix(folder) => {
            let path = folder.join(format!(".s.PGSQL.{port}"));
            let socket = UnixStream::connect(&path).with_context(|| format!("cannot connect to {}", path.display()))?;
            socket.set_read_timeout(Some(ANSWER_TIME_MAX))?;
            socket.set_write_timeout(Some(ANSWER_TIME_MAX))?;
            Ok(Box::new(socket))
        }
    }
}
