//! `MySql`: the language of this crate, for the machine in `cenote-pool`, and what a pool keeps of the server.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::time::Instant;

use bytes::BytesMut;
use cenote_pool::{
    Address, CancelKey, Handle, LaneLimits, Language, LoginFailure, LoginStep, PoolLimits, StatementId, Statements,
    TlsFailure, TlsPeer,
};

use crate::auth::PublicKey;
use crate::error::Error;
use crate::firewall::Backslashes;
use crate::leaving;
use crate::login::{self, Login, LoginError, Progress, Transport};
use crate::pipelining::{Host, Hosts};
use crate::reply;
use crate::settings::{self, Pipelining, Settings};
use crate::statement::Statement;
use crate::wire::framer::ReplyFramer;
use crate::wire::frontend;
use crate::wire::status::StatusFlags;

/// The most that `max_allowed_packet` can be: what counts before any server has told its own.
const MAX_ALLOWED_PACKET_BYTES: usize = 1 << 30;

/// What a file with a server's key may have. One of 8,192 bits takes 1.5 kB, and a file may hold some words besides.
const SERVER_KEY_BYTES_MAX: u64 = 64 << 10;

/// Of what a session was given only a default database cannot be taken away again: where the settings name none, this
/// fails in a session that has one, and the connection is closed. (A subquery of two rows is an error where it is run.)
const FAIL_WITH_DATABASE: &str = "SELECT IF(DATABASE() IS NULL, 0, (SELECT 1 UNION SELECT 2))";

/// MySQL's language, and what one pool has learned.
pub(crate) struct MySql {
    settings: Settings,
    addresses: Vec<Address>,
    pub(crate) statements: Statements<Statement, Error>,
    hosts: Hosts,
    max_allowed_packet: Arc<AtomicUsize>,
    /// How its sessions read backslashes: [`Backslashes`], all that were seen.
    backslashes: Arc<AtomicU8>,
}

impl MySql {
    pub(crate) fn new(settings: Settings) -> MySql {
        MySql {
            addresses: settings.hosts().iter().map(address).collect(),
            settings,
            statements: Statements::default(),
            hosts: Hosts::default(),
            max_allowed_packet: Arc::new(AtomicUsize::new(MAX_ALLOWED_PACKET_BYTES)),
            backslashes: Arc::default(),
        }
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// What the server that was connected to last takes in one command, in bytes.
    #[inline]
    pub(crate) fn max_allowed_packet(&self) -> usize {
        self.max_allowed_packet.load(Ordering::Relaxed)
    }

    /// How the sessions that were ever logged in read backslashes.
    pub(crate) fn backslashes(&self) -> Backslashes {
        Backslashes(self.backslashes.load(Ordering::Relaxed))
    }
}

/// The limits of the pool that these settings ask for.
pub(crate) fn limits(settings: &Settings) -> PoolLimits {
    PoolLimits {
        connections_max: settings.pool_size(),
        waiters_max: settings.waiters_max(),
        acquire_timeout: settings.acquire_timeout(),
        connect_timeout: settings.connect_timeout(),
        max_lifetime: settings.max_lifetime(),
        idle_timeout: settings.idle_timeout(),
        lane: LaneLimits {
            in_flight_max: settings.max_pipeline(),
            unsent_bytes_max: settings.unsent_bytes_max(),
            reply_bytes_max: settings.reply_bytes_max(),
            prepared_max: settings.statement_cache_size(),
        },
    }
}

fn address(host: &settings::Host) -> Address {
    match host {
        settings::Host::Tcp { name, port } => Address::Tcp { host: name.clone(), port: *port },
        settings::Host::Unix { path } => Address::Unix(path.clone()),
    }
}

impl Language for MySql {
    type Framer = ReplyFramer;
    type Login = ConnectionLogin;

    const SERVER_NAMES_STATEMENTS: bool = true;

    fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    fn login(
        &self,
        address: &Address,
        attempt: u32,
        _output: &mut Vec<u8>,
    ) -> Result<(ConnectionLogin, LoginStep<ReplyFramer>), LoginFailure> {
        let host = self.hosts.at(address);
        let pipelines = match self.settings.pipeline() {
            Pipelining::On => Pipelines::Yes,
            // The only reason for another attempt is that the last one was asked and did not take it well.
            Pipelining::Auto if attempt > 0 => Pipelines::Doubted(host),
            Pipelining::Auto if host.may_pipeline(Instant::now()) => Pipelines::Asked(host),
            Pipelining::Auto | Pipelining::Off => Pipelines::No,
        };
        let (name, unix) = match address {
            Address::Tcp { host, .. } => (Some(host.clone()), false),
            Address::Unix(_) => (None, true),
        };
        let probes = matches!(pipelines, Pipelines::Asked(_));
        let mut login = Login::start(&self.settings, Transport { host: name, unix }, probes);
        if let Some(path) = self.settings.server_public_key() {
            login.set_server_key(read_server_key(path).map_err(failure)?);
        }
        let max_allowed_packet = Arc::clone(&self.max_allowed_packet);
        let only_host = self.addresses.len() == 1;
        let backslashes = Arc::clone(&self.backslashes);
        Ok((ConnectionLogin { login, pipelines, max_allowed_packet, backslashes, only_host }, LoginStep::NeedsInput))
    }

    fn append_forget(_: StatementId, handle: Handle, output: &mut Vec<u8>) {
        frontend::append_close(handle, output);
    }

    fn handle(reply: &[u8]) -> Option<Handle> {
        reply::prepared(reply).map(|(handle, _)| Handle(handle))
    }

    fn fill_in(messages: &mut [u8], handle: Handle) {
        frontend::fill_in(messages, handle);
    }

    const LEAD_HAS_OWN_REPLY: bool = true;

    const ASK_STATE: Option<&'static [u8]> = Some(frontend::PING);

    const RESET_FORGETS_PREPARED: bool = true;

    fn rollback() -> Vec<u8> {
        frontend::own_query("ROLLBACK")
    }

    fn reset(&self, _forget_prepared: bool) -> Vec<Vec<u8>> {
        let database = match self.settings.database() {
            Some(name) => frontend::use_database(name),
            None => frontend::own_query(FAIL_WITH_DATABASE),
        };
        vec![frontend::RESET_CONNECTION.to_vec(), login::set_message(), database]
    }

    fn reply_leaves_host(reply: &[u8]) -> bool {
        leaving::reply_leaves_host(reply)
    }

    fn farewell_leaves_host(farewell: &[u8]) -> bool {
        leaving::leaves_host(farewell)
    }

    fn cancel_statement(CancelKey(key): &CancelKey) -> Option<Vec<u8>> {
        let connection_id = u32::from_le_bytes(*key.first_chunk()?);
        Some(frontend::own_query(&format!("KILL QUERY {connection_id}")))
    }

    fn farewell() -> &'static [u8] {
        frontend::QUIT
    }
}

/// Read for each connection, so that one that was renewed counts from the next connection on.
fn read_server_key(path: &Path) -> Result<PublicKey, LoginError> {
    let mut pem = Vec::new();
    let read = File::open(path).and_then(|file| file.take(SERVER_KEY_BYTES_MAX + 1).read_to_end(&mut pem));
    let about = |words: &str| LoginError::Caller(format!("the file {} (`server_public_key`) {words}", path.display()));
    read.map_err(|error| about(&format!("cannot be read: {error}")))?;
    if pem.len() as u64 > SERVER_KEY_BYTES_MAX {
        return Err(about("is larger than 64 KiB"));
    }
    PublicKey::parse(&pem).ok_or_else(|| about("holds no RSA public key in PEM"))
}

/// Whether a connection's commands may follow each other without waiting.
enum Pipelines {
    Yes,
    No,
    /// The log-in asks, and this host remembers.
    Asked(Arc<Host>),
    /// The last log-in asked and failed. If this one, which does not ask, comes to be, then that was why; a server that was
    /// about to end would not let it in either.
    Doubted(Arc<Host>),
}

/// The log-in of one connection, and who wants to know what it learns.
pub(crate) struct ConnectionLogin {
    login: Login,
    pipelines: Pipelines,
    max_allowed_packet: Arc<AtomicUsize>,
    backslashes: Arc<AtomicU8>,
    /// A session's number means something at its own server alone, and another connection is with that for sure.
    only_host: bool,
}

impl ConnectionLogin {
    fn step(&mut self, progress: Result<Progress, LoginError>) -> Result<LoginStep<ReplyFramer>, LoginFailure> {
        let session = match progress.map_err(failure)? {
            Progress::NeedsInput => return Ok(LoginStep::NeedsInput),
            Progress::NeedsInputWithin(limit) => return Ok(LoginStep::NeedsInputWithin(limit)),
            Progress::StartTls(request) => return Ok(LoginStep::StartTls(Box::new(request))),
            Progress::Ready(session) => session,
        };
        self.max_allowed_packet.store(session.max_allowed_packet, Ordering::Relaxed);
        let letters = session.status.contains(StatusFlags::NO_BACKSLASH_ESCAPES);
        let Backslashes(read) = if letters { Backslashes::LETTERS } else { Backslashes::ESCAPE };
        self.backslashes.fetch_or(read, Ordering::Relaxed);
        let (host, in_flight_max) = match &self.pipelines {
            Pipelines::Yes => (None, None),
            Pipelines::No => (None, Some(1)),
            Pipelines::Asked(host) => (Some(Arc::clone(host)), None),
            Pipelines::Doubted(host) => {
                host.does_not_pipeline(Instant::now());
                (None, Some(1))
            }
        };
        let cancel_key = self.only_host.then(|| CancelKey(session.connection_id.to_le_bytes().into()));
        Ok(LoginStep::Ready { framer: ReplyFramer::new(host), in_flight_max, cancel_key })
    }
}

fn failure(error: LoginError) -> LoginFailure {
    let again = matches!(error, LoginError::DoesNotPipeline);
    LoginFailure { fatal: error.is_fatal(), again, error: Arc::new(error) }
}

impl cenote_pool::Login for ConnectionLogin {
    type Framer = ReplyFramer;

    fn advance(&mut self, input: &mut BytesMut, output: &mut Vec<u8>) -> Result<LoginStep<ReplyFramer>, LoginFailure> {
        let progress = self.login.advance(input, output);
        self.step(progress)
    }

    fn tls_started(&mut self, _: &TlsPeer, output: &mut Vec<u8>) -> Result<LoginStep<ReplyFramer>, LoginFailure> {
        let progress = self.login.tls_started(output);
        self.step(progress)
    }

    fn tls_failed(&mut self, reason: TlsFailure) -> LoginFailure {
        // What is broken now may be well the next time; all else is told at once.
        LoginFailure { fatal: reason.is_lasting(), ..failure(LoginError::tls(&reason)) }
    }

    fn unanswered(&mut self) -> Option<LoginFailure> {
        self.login.unanswered().map(failure)
    }
}
