//! One turn: lookups of which each is timed, with a slow statement beside them or without.
//!
//! Threads, warm-up and window are those of `driver::turn`.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;

use super::{Company, Latencies};
use crate::cli::Load;
use crate::driver::cenote::{CLOSE_MAX, LookupPool};
use crate::driver::turn::{Contender, Ids, Share, WARM_UP};
use crate::driver::{Database, Turn, mysql, postgres, turn, world};

/// What one turn recorded.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct LookupsTurn {
    /// Answers within the window, and what they cost.
    #[serde(flatten)]
    pub(super) turn: Turn,
    /// Of the lookups begun within the window.
    pub(super) latencies: Latencies,
    pub(super) slow_statements: u64,
}

impl LookupsTurn {
    pub(super) fn lookups_per_s(&self) -> f64 {
        self.turn.queries as f64 / self.turn.seconds
    }
}

/// One turn in this process, which should have done nothing else before.
pub(crate) fn take(company: Company, load: &Load) -> anyhow::Result<LookupsTurn> {
    match load.database() {
        Database::Postgres => take_with(postgres::pool(load)?, company, load),
        Database::Mysql => take_with(mysql::pool(load)?, company, load),
    }
}

fn take_with<P: LookupPool>(pool: P, company: Company, load: &Load) -> anyhow::Result<LookupsTurn> {
    let (world, _) = world::load(load)?;
    let lookups = Arc::new(Lookups {
        pool,
        company,
        seat_taken: AtomicBool::new(false),
        slow_statements: AtomicU64::new(0),
        times_us: Mutex::new(Vec::new()),
    });
    let contender: Arc<dyn Contender> = Arc::<Lookups<P>>::clone(&lookups);
    let mut turn = turn::take(contender, load, &Arc::new(world))?;
    turn.allocations = None;
    let times_us = std::mem::take(&mut *lookups.times_us.lock().unwrap_or_else(PoisonError::into_inner));
    let slow_statements = lookups.slow_statements.load(Ordering::Relaxed);
    Ok(LookupsTurn { turn, latencies: Latencies::of(times_us)?, slow_statements })
}

struct Lookups<P> {
    pool: P,
    company: Company,
    /// Whether one of the threads has the slow caller's seat; it stays empty where there is none.
    seat_taken: AtomicBool,
    slow_statements: AtomicU64,
    /// Of all callers who are done.
    times_us: Mutex<Vec<u32>>,
}

impl<P: LookupPool> Contender for Lookups<P> {
    fn run(&self, share: &Arc<Share>) -> anyhow::Result<()> {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("cannot start a runtime")?
            .block_on(self.ask(share))
    }
}

impl<P: LookupPool> Lookups<P> {
    async fn ask(&self, share: &Arc<Share>) -> anyhow::Result<()> {
        let pool = self.pool.open_again()?;
        pool.look_up(1).await.context("cannot query")?;
        let has_seat = !self.seat_taken.swap(true, Ordering::Relaxed);
        share.ready();
        let window_start = Instant::now() + WARM_UP;
        let mut callers = JoinSet::new();
        for caller in usize::from(has_seat)..share.callers {
            callers.spawn(look_up(pool.clone(), Arc::clone(share), share.ids(caller), window_start));
        }
        if has_seat && self.company == Company::BesideSlow {
            let slow_statements = run_slowly(&pool, share, window_start).await?;
            self.slow_statements.fetch_add(slow_statements, Ordering::Relaxed);
        }
        while let Some(outcome) = callers.join_next().await {
            let times_us = outcome??;
            self.times_us.lock().unwrap_or_else(PoisonError::into_inner).extend(times_us);
        }
        pool.close(CLOSE_MAX).await;
        Ok(())
    }
}

/// Asks until it is over. The times of what was begun in the window.
async fn look_up<P: LookupPool>(
    pool: P,
    share: Arc<Share>,
    mut ids: Ids,
    window_start: Instant,
) -> anyhow::Result<Vec<u32>> {
    let mut times_us = Vec::new();
    while !share.is_over() {
        let id = ids.next_id();
        let begin = Instant::now();
        let (found_id, number) = pool.look_up(id).await?;
        if begin >= window_start {
            times_us.push(microseconds(begin.elapsed()));
        }
        share.check(id, found_id, number)?;
        share.answered(1);
    }
    Ok(times_us)
}

/// Runs the slow statement again and again in the window. How often.
async fn run_slowly<P: LookupPool>(pool: &P, share: &Share, window_start: Instant) -> anyhow::Result<u64> {
    tokio::time::sleep_until(window_start.into()).await;
    let mut statements = 0;
    while !share.is_over() {
        pool.run_slowly().await.context("the slow statement failed")?;
        statements += 1;
    }
    Ok(statements)
}

/// What does not fit, more than an hour, becomes the most that does: such a turn is broken anyway.
fn microseconds(time: Duration) -> u32 {
    u32::try_from(time.as_micros()).unwrap_or(u32::MAX)
}
