//! cenote's own pool, as its users would use it: one pool, any number of tasks, no connection in sight.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use cenote_postgres::{Pool, Settings};
use tokio::task::JoinSet;

use super::LOOKUP;
use crate::cli::Load;
use crate::driver::turn::{Contender, Ids, Share, SocketCalls};

/// How long closing the pool may take; nothing is in flight by then.
const CLOSE_MAX: Duration = Duration::from_secs(5);

pub(crate) struct Cenote {
    settings: Settings,
    /// For the counters.
    pool: Pool,
}

impl Cenote {
    /// Opens the pool, with as many connections as the load names.
    pub(crate) fn new(load: &Load) -> anyhow::Result<Self> {
        let settings = Settings::from_url(&load.url()?)?.to_builder().pool_size(load.connections.get()).build()?;
        let pool = Pool::open(&settings)?;
        Ok(Self { settings, pool })
    }
}

impl Contender for Cenote {
    fn run(&self, share: &Arc<Share>) -> anyhow::Result<()> {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("cannot start a runtime")?
            .block_on(ask(Pool::open(&self.settings)?, share))
    }

    fn socket_calls(&self) -> Option<SocketCalls> {
        let stats = self.pool.stats();
        Some(SocketCalls { writes: stats.writes, reads: stats.reads })
    }
}

/// `pool` is this thread's own open of the pool that all threads share.
async fn ask(pool: Pool, share: &Arc<Share>) -> anyhow::Result<()> {
    pool.query_one(LOOKUP, &[&1]).await.context("cannot query")?;
    share.ready();
    let mut callers = JoinSet::new();
    for caller in 0..share.callers {
        callers.spawn(call(pool.clone(), Arc::clone(share), share.ids(caller)));
    }
    while let Some(outcome) = callers.join_next().await {
        outcome??;
    }
    pool.close(CLOSE_MAX).await;
    Ok(())
}

async fn call(pool: Pool, share: Arc<Share>, mut ids: Ids) -> anyhow::Result<()> {
    while !share.is_over() {
        let id = ids.next_id();
        let row = pool.query_one(LOOKUP, &[&id]).await?;
        share.check(id, row.get(0)?, row.get(1)?)?;
        share.answered(1);
    }
    Ok(())
}
