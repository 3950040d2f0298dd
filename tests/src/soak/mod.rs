//! The soak: many callers mix lookups, transfers and more on one small pool, while their futures are dropped, their
//! sessions ended, their connections cut and their server restarted. Then the books must balance.
//!
//! ```text
//!  workers ──> pool ──> chaos proxy ──> private server <── overseer: ends sessions, counts them, looks at locks and books
//! ```
//!
//! Checked: nobody gets another's answer, no error comes but those that were provoked; never more connections than the
//! pool may have; at the end nothing in flight, nobody waiting, no lock at the server, all money there, each transfer done
//! once or not at all as its caller was told, and memory where it was. It does not measure speed.
//!
//! `make soak` runs it ([`run`]).

mod bank;
mod disturbance;
mod mysql;
mod postgres;
mod process;
mod site;
mod worker;

use std::fmt;
use std::time::Duration;

use futures_util::future::{LocalBoxFuture, join_all};

use self::mysql::{MysqlBank, MysqlOverseer};
use self::postgres::{PostgresBank, PostgresOverseer};
use self::site::{Outcome, Site};
use crate::mysql::Server;
use crate::{Chaos, Direction, Mischief, PrivateServer, Proxy};

/// Connections of each pool: few, so that many callers share them.
const POOL_SIZE: usize = 8;

/// Less than a restart takes: some callers give up meanwhile, and all are served afterwards.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(2);

/// Memory that may come to what was in use after the first quarter: allocators do not give everything back at once.
const GROWTH_KIB_MAX: u64 = 24 * 1024;

/// Which database is soaked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Database {
    /// Postgres.
    Postgres,
    /// MySQL or MariaDB.
    Mysql(Server),
}

impl Database {
    /// All of them.
    pub const ALL: [Database; 3] =
        [Database::Postgres, Database::Mysql(Server::Mysql), Database::Mysql(Server::Mariadb)];

    /// Its name in `scripts/servers`.
    pub fn name(self) -> &'static str {
        match self {
            Database::Postgres => "postgres",
            Database::Mysql(server) => server.service(),
        }
    }
}

/// What is to be done.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long there is work.
    pub time: Duration,
    /// Of all that is drawn.
    pub seed: u64,
    /// On which databases, all at once.
    pub databases: Vec<Database>,
}

/// What came of it.
#[derive(Debug)]
pub struct Report {
    outcomes: Vec<(Database, Outcome)>,
    start_kib: u64,
    end_kib: u64,
}

impl Report {
    /// What must not be, in words.
    pub fn violations(&self) -> Vec<String> {
        let of_one = |(database, outcome): &(Database, Outcome)| {
            let name = database.name();
            outcome.violations.iter().map(|text| format!("{name}: {text}")).collect::<Vec<_>>()
        };
        let mut violations: Vec<String> = self.outcomes.iter().flat_map(of_one).collect();
        if self.end_kib > self.start_kib + GROWTH_KIB_MAX {
            violations.push(format!("memory grew from {} to {} KiB", self.start_kib, self.end_kib));
        }
        violations
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (database, outcome) in &self.outcomes {
            writeln!(f, "{}: {outcome}", database.name())?;
        }
        write!(
            f,
            "memory {} KiB after the first quarter, {} KiB at the end; {} violations",
            self.start_kib,
            self.end_kib,
            self.violations().len()
        )
    }
}

/// Soaks all databases at once.
///
/// # Panics
///
/// When a server cannot be started, or something hangs.
pub async fn run(options: &Options) -> Report {
    let mut running = Vec::new();
    // One after another: making a server's data folder is more work than the soak.
    for (number, database) in options.databases.iter().copied().enumerate() {
        running.push((database, start(database, options, number as u64).await));
    }
    let (databases, runs): (Vec<Database>, Vec<_>) = running.into_iter().unzip();
    let measuring = async {
        tokio::time::sleep(options.time / 4).await;
        process::resident_kib()
    };
    let (outcomes, start_kib) = tokio::join!(join_all(runs), measuring);
    Report { outcomes: databases.into_iter().zip(outcomes).collect(), start_kib, end_kib: process::resident_kib() }
}

async fn start(database: Database, options: &Options, number: u64) -> LocalBoxFuture<'static, Outcome> {
    let (time, seed) = (options.time, options.seed.wrapping_add(number));
    let server = match database {
        Database::Postgres => PrivateServer::postgres("soak").await,
        Database::Mysql(server) => PrivateServer::mysql(server, "soak").await,
    };
    let chaos = chaos(seed);
    let proxy = Proxy::spoiled(server.url(), &chaos);
    match database {
        Database::Postgres => {
            PostgresBank::found(server.admin_url()).await;
            let settings = proxy.through(crate::settings_at(server.url(), "soak"));
            let bank = PostgresBank::open(settings.pool_size(POOL_SIZE).acquire_timeout(ACQUIRE_TIMEOUT));
            let pool_name = bank.name();
            let site = Site { bank, server, proxy, chaos, pool_name, time, seed };
            Box::pin(site.soak::<PostgresOverseer>())
        }
        Database::Mysql(_) => {
            MysqlBank::found(server.admin_url()).await;
            let settings = proxy.through(crate::mysql::settings_at(server.url(), "soak"));
            let bank = MysqlBank::open(settings.pool_size(POOL_SIZE).acquire_timeout(ACQUIRE_TIMEOUT));
            let pool_name = bank.name();
            let site = Site { bank, server, proxy, chaos, pool_name, time, seed };
            Box::pin(site.soak::<MysqlOverseer>())
        }
    }
}

/// Both ways torn and slow now and then, and each connection cut in the end.
fn chaos(seed: u64) -> Chaos {
    let mischief = Mischief {
        piece_bytes_max: 4_000,
        pause_every_bytes: 50_000,
        pause_max: Duration::from_millis(5),
        cut_after_bytes: 100_000,
        flip_every_bytes: 0,
    };
    Chaos::new(seed).on(Direction::ToServer, mischief).on(Direction::ToClient, mischief)
}
