//! `Postgres`: the language of this crate, for the machine in `cenote-pool`, and what a pool keeps of the server.

use std::sync::{Arc, RwLock};

use bytes::BytesMut;
use cenote_pool::{
    Address, CancelDialogue, CancelKey, Handle, LaneLimits, Language, LoginFailure, LoginStep, PoolLimits, Reply,
    StatementId, Statements, TlsFailure, TlsPeer,
};

use crate::error::Error;
use crate::leaving;
use crate::login::{Login, LoginError, Progress, Purpose};
use crate::reply;
use crate::server_error::Notice;
use crate::settings::{Host, Settings};
use crate::statement::Statement;
use crate::type_catalogue::TypeCatalogue;
use crate::wire::framer::ReplyFramer;
use crate::wire::frontend;

/// DISCARD ALL without what concerns prepared statements, which stay good.
const RESET: &str = "close all; set session authorization default; reset all; unlisten *; \
                     select pg_catalog.pg_advisory_unlock_all(); discard temp; discard sequences";

/// Who is told of notices.
type NoticeHandler = Arc<dyn Fn(&Notice) + Send + Sync>;

/// Postgres' language, and what one pool has learned.
pub(crate) struct Postgres {
    settings: Settings,
    addresses: Vec<Address>,
    pub(crate) statements: Statements<Statement, Error>,
    pub(crate) types: TypeCatalogue,
    notice_handler: RwLock<Option<NoticeHandler>>,
}

impl Postgres {
    pub(crate) fn new(settings: Settings) -> Postgres {
        let addresses = settings.hosts().iter().map(address).collect();
        Postgres {
            settings,
            addresses,
            statements: Statements::default(),
            types: TypeCatalogue::default(),
            notice_handler: RwLock::default(),
        }
    }

    fn host(&self, address: &Address) -> Result<&Host, LoginError> {
        let place = self.addresses.iter().position(|known| known == address);
        let host = place.and_then(|place| self.settings.hosts().get(place));
        host.ok_or_else(|| LoginError::Caller("an address that is none of the hosts".to_owned()))
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(crate) fn set_notice_handler(&self, handler: NoticeHandler) {
        *self.notice_handler.write().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(handler);
    }

    pub(crate) fn notify(&self, notice: &Notice) {
        // Cloned, so that no lock is held while a stranger's code runs.
        let handler = self.notice_handler.read().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
        if let Some(handler) = handler {
            handler(notice);
        }
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

fn address(host: &Host) -> Address {
    match (host, host.socket_path()) {
        (_, Some(path)) => Address::Unix(path),
        (Host::Tcp { name, address, port }, None) => {
            let host = address.map_or_else(|| name.clone(), |address| address.to_string());
            Address::Tcp { host, port: *port }
        }
        (Host::Unix { directory, .. }, None) => Address::Unix(directory.clone()),
    }
}

impl Language for Postgres {
    type Framer = ReplyFramer;
    type Login = Login;

    fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    fn login(
        &self,
        address: &Address,
        attempt: u32,
        output: &mut Vec<u8>,
    ) -> Result<(Login, LoginStep<ReplyFramer>), LoginFailure> {
        let started = self.host(address);
        let started = started.and_then(|host| Login::start(&self.settings, host, attempt, Purpose::LogIn, output));
        let (login, progress) = started.map_err(|error| failure(error, false))?;
        Ok((login, step(progress)))
    }

    fn append_forget(statement: StatementId, _: Handle, output: &mut Vec<u8>) {
        frontend::append_close(statement, output);
    }

    fn cancel(&self, address: &Address, key: &CancelKey, output: &mut Vec<u8>) -> CancelDialogue<Postgres> {
        let purpose = Purpose::Cancel(key.0.clone());
        let started = self.host(address).and_then(|host| Login::start(&self.settings, host, 0, purpose, output));
        Some(started.map(|(login, progress)| (login, step(progress))).map_err(|error| failure(error, false)))
    }

    fn strip_lead(reply: Reply) -> Reply {
        reply::behind_lead(reply)
    }

    fn rollback() -> Vec<u8> {
        frontend::simple_query("rollback")
    }

    fn reset(&self, forget_prepared: bool) -> Vec<Vec<u8>> {
        let sql = if forget_prepared { "discard all" } else { RESET };
        vec![frontend::simple_query(sql)]
    }

    fn reply_leaves_host(reply: &[u8]) -> bool {
        leaving::reply_leaves_host(reply)
    }

    fn farewell_leaves_host(farewell: &[u8]) -> bool {
        leaving::farewell_leaves_host(farewell)
    }

    fn farewell() -> &'static [u8] {
        // Terminate.
        b"X\0\0\0\x04"
    }
}

impl cenote_pool::Login for Login {
    type Framer = ReplyFramer;

    fn advance(&mut self, input: &mut BytesMut, output: &mut Vec<u8>) -> Result<LoginStep<ReplyFramer>, LoginFailure> {
        let progress = Login::advance(self, input, output);
        progress.map(step).map_err(|error| {
            let again = self.is_worth_another(&error);
            failure(error, again)
        })
    }

    fn tls_started(&mut self, peer: &TlsPeer, output: &mut Vec<u8>) -> Result<LoginStep<ReplyFramer>, LoginFailure> {
        Login::tls_started(self, peer, output).map_err(|error| failure(error, false))?;
        Ok(LoginStep::NeedsInput)
    }

    fn tls_failed(&mut self, reason: TlsFailure) -> LoginFailure {
        let error = Login::tls_failed(self, reason);
        let again = self.is_worth_another(&error);
        failure(error, again)
    }
}

fn step(progress: Progress) -> LoginStep<ReplyFramer> {
    match progress {
        Progress::NeedsInput => LoginStep::NeedsInput,
        Progress::StartTls(request) => LoginStep::StartTls(Box::new(request)),
        Progress::Ready(session) => LoginStep::Ready {
            framer: ReplyFramer::default(),
            in_flight_max: None,
            cancel_key: session.cancel_request().map(CancelKey),
        },
    }
}

fn failure(error: LoginError, again: bool) -> LoginFailure {
    LoginFailure { fatal: error.is_fatal(), again, error: Arc::new(error) }
}
