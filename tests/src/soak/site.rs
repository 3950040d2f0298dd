//! One database under soak: runs its workers, watches its connections, and looks at the books at the end.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;

use super::bank::{ACCOUNTS, BALANCE, Bank, Overseer};
use super::disturbance::{Disturbances, disturb};
use super::worker::{Shared, Tally, work};
use super::{POOL_SIZE, process};
use crate::wait::must_end;
use crate::{Chaos, PrivateServer, Proxy};

/// Callers: several for each connection.
const WORKERS: u64 = 48;

/// Between two looks at the connections.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(20);

/// A session whose connection was cut is seen at the server until that has noticed; one that is seen longer was not cut.
const DYING_TIME_MAX: Duration = Duration::from_secs(10);

/// What has not come true by then does not come true: far beyond what a loaded machine needs.
const SETTLES_WITHIN: Duration = Duration::from_secs(60);

/// Connects under way at once, at most.
const CONNECTING_MAX: usize = 2;

/// A database with all that is around it.
pub(crate) struct Site<B> {
    pub(crate) bank: B,
    pub(crate) server: PrivateServer,
    pub(crate) proxy: Proxy,
    pub(crate) chaos: Chaos,
    pub(crate) pool_name: String,
    pub(crate) time: Duration,
    pub(crate) seed: u64,
}

/// What came of one database.
#[derive(Debug)]
pub(crate) struct Outcome {
    tally: Tally,
    disturbances: Disturbances,
    cuts: u64,
    watched: Watched,
    pub(crate) violations: Vec<String>,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Outcome { tally, disturbances, cuts, watched, violations } = self;
        write!(
            f,
            "{} lookups, {} transfers ({} confirmed, {} unknown), {} messes, {} dropped, {} failed; {} sessions ended, {} resets, \
             {cuts} cuts, {} restarts; {} samples, at most {} sockets and {} sessions for {POOL_SIZE}; {} violations",
            tally.lookups,
            tally.transfers,
            tally.confirmed,
            tally.unknown.len(),
            tally.messes,
            tally.dropped,
            tally.failed,
            disturbances.sessions_ended,
            disturbances.resets,
            disturbances.restarts,
            watched.samples,
            watched.sockets_max,
            watched.sessions_max,
            violations.len()
        )
    }
}

/// What the watch has seen.
#[derive(Clone, Copy, Debug, Default)]
struct Watched {
    samples: u64,
    sockets_max: usize,
    sessions_max: usize,
}

impl<B: Bank> Site<B> {
    /// Works, disturbs and watches for its time, and checks.
    pub(crate) async fn soak<O: Overseer>(self) -> Outcome {
        let (shared, watched) = (Arc::new(Shared::default()), Watch::default());
        let mut workers = JoinSet::new();
        for number in 0..WORKERS {
            let seed = self.seed.wrapping_mul(WORKERS).wrapping_add(number);
            workers.spawn(work(self.bank.clone(), Arc::clone(&shared), seed));
        }
        let checked = async {
            let disturbances = disturb::<B, O>(&self).await;
            self.chaos.set_calm(true);
            shared.over.store(true, Ordering::SeqCst);
            let mut tally = Tally::default();
            for one in must_end("a worker of the soak", workers.join_all()).await {
                tally.add(one);
            }
            if let Err(text) = self.check::<O>(&shared, &tally).await {
                shared.violation(format!("the books cannot be read: {text}"));
            }
            (disturbances, tally)
        };
        let (disturbances, tally) = tokio::select! {
            checked = checked => checked,
            () = self.watch::<O>(&shared, &watched) => unreachable!("it watches until it is dropped"),
        };
        Outcome {
            tally,
            disturbances,
            cuts: self.chaos.cuts(),
            watched: watched.get(),
            violations: shared.violations(),
        }
    }

    /// Looks at the connections, over and over.
    async fn watch<O: Overseer>(&self, shared: &Shared, watch: &Watch) {
        let mut overseer: Option<O> = None;
        let mut excess_since: Option<Instant> = None;
        let mut before = self.bank.stats();
        loop {
            tokio::time::sleep(SAMPLE_INTERVAL).await;
            let sockets = process::sockets_to(self.proxy.port());
            let stats = self.bank.stats();
            // Those by which the server is asked to stop a statement are beside the pool's connections: whichever were under
            // way at the last look, and all that have begun since.
            let cancels = before.cancelling + (stats.cancels - before.cancels) as usize;
            before = stats.clone();
            if sockets > POOL_SIZE + cancels {
                shared.violation(format!("{sockets} sockets for {POOL_SIZE} connections: {stats:?}"));
            }
            if stats.connections() > POOL_SIZE || stats.connecting > CONNECTING_MAX {
                shared.violation(format!("{} connections: {stats:?}", stats.connections()));
            }
            let sessions = match &mut overseer {
                Some(overseer) => overseer.sessions().await.ok().map(|sessions| sessions.len()),
                None => None,
            };
            if sessions.is_none() {
                overseer = O::connect(self.server.admin_url(), &self.pool_name).await.ok();
            }
            let sessions = sessions.unwrap_or(0);
            match excess_since.filter(|_| sessions > POOL_SIZE) {
                None => excess_since = (sessions > POOL_SIZE).then(Instant::now),
                Some(since) if since.elapsed() > DYING_TIME_MAX => {
                    shared.violation(format!("{sessions} sessions at the server, for {:?}", since.elapsed()));
                    excess_since = None;
                }
                Some(_) => {}
            }
            watch.note(sockets, sessions);
        }
    }

    /// Looks at everything when the work is done.
    async fn check<O: Overseer>(&self, shared: &Shared, tally: &Tally) -> Result<(), String> {
        let quiet = settles(async || {
            let stats = self.bank.stats();
            (stats.in_flight(), stats.waiting, stats.waiting_for_lease, stats.leases.len()) == (0, 0, 0, 0)
        });
        if !quiet.await {
            shared.violation(format!("something is left in the pool: {:?}", self.bank.stats()));
        }
        let mut overseer = O::connect(self.server.admin_url(), &self.pool_name).await?;
        let mut held = Vec::new();
        let released = settles(async || {
            held = overseer.held().await.unwrap_or_else(|error| vec![error]);
            held.is_empty()
        });
        if !released.await {
            shared.violation(format!("held at the server: {held:?}"));
        }
        let served = settles(async || self.bank.look_up(-1, 1).await.is_ok_and(|tag| tag == -1));
        if !served.await {
            shared.violation("nobody is served any more".to_owned());
        }
        let money = overseer.money().await?;
        if money != ACCOUNTS * BALANCE {
            shared.violation(format!("{money} in the accounts, where {} was", ACCOUNTS * BALANCE));
        }
        check_ledger(shared, tally, &overseer.ledger().await?);
        must_end("the close of a pool", self.bank.close()).await;
        let gone = settles(async || {
            let sessions = overseer.sessions().await.map_or(usize::MAX, |sessions| sessions.len());
            sessions == 0 && process::sockets_to(self.proxy.port()) == 0
        });
        if !gone.await {
            shared.violation("connections are left after the close".to_owned());
        }
        Ok(())
    }
}

/// Each transfer is in the ledger as its caller was told.
fn check_ledger(shared: &Shared, tally: &Tally, ledger: &[i64]) {
    let entered: BTreeSet<i64> = ledger.iter().copied().collect();
    if entered.len() != ledger.len() {
        shared.violation(format!("{} transfers happened twice", ledger.len() - entered.len()));
    }
    for id in entered.intersection(&tally.denied) {
        shared.violation(format!("transfer {id} happened, which was said not to have"));
    }
    let of_unknown = entered.intersection(&tally.unknown).count() as u64;
    let confirmed = entered.len() as u64 - of_unknown;
    if confirmed != tally.confirmed {
        shared.violation(format!("{} transfers were confirmed, {confirmed} are in the ledger", tally.confirmed));
    }
}

async fn settles(mut condition: impl AsyncFnMut() -> bool) -> bool {
    let begin = Instant::now();
    while begin.elapsed() < SETTLES_WITHIN {
        if condition().await {
            return true;
        }
        tokio::time::sleep(SAMPLE_INTERVAL).await;
    }
    false
}

/// Written by the watch, read when it is over.
#[derive(Debug, Default)]
struct Watch(Cell<Watched>);

impl Watch {
    fn note(&self, sockets: usize, sessions: usize) {
        let Watched { samples, sockets_max, sessions_max } = self.get();
        self.0.set(Watched {
            samples: samples + 1,
            sockets_max: sockets_max.max(sockets),
            sessions_max: sessions_max.max(sessions),
        });
    }

    fn get(&self) -> Watched {
        self.0.get()
    }
}
