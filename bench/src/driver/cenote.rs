//! cenote's own pools, as their users would use them: one pool, any number of tasks, no connection in sight. Plaintext,
//! as everybody here.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use cenote_postgres::PoolStats;
use tokio::task::JoinSet;

use super::turn::{Contender, Ids, Share, SocketCalls};

/// How long closing the pool may take; nothing is in flight by then.
pub(crate) const CLOSE_MAX: Duration = Duration::from_secs(5);

/// How long the slow statements of both databases take: their texts say so.
pub(crate) const SLOW_STATEMENT_S: u32 = 2;

/// What the two drivers have in common here.
pub(crate) trait LookupPool: Clone + Send + Sync + 'static {
    /// Another open of the same pool.
    fn open_again(&self) -> anyhow::Result<Self>;

    /// The row with this id: its id and its number.
    fn look_up(&self, id: i32) -> impl Future<Output = anyhow::Result<(i32, i32)>> + Send;

    /// Runs a statement that takes [`SLOW_STATEMENT_S`].
    fn run_slowly(&self) -> impl Future<Output = anyhow::Result<()>> + Send;

    fn stats(&self) -> PoolStats;

    fn close(&self, deadline: Duration) -> impl Future<Output = ()> + Send;
}

/// Holds one open of the pool, for the counters.
pub(super) struct Cenote<P>(pub(super) P);

impl<P: LookupPool> Contender for Cenote<P> {
    fn run(&self, share: &Arc<Share>) -> anyhow::Result<()> {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("cannot start a runtime")?
            .block_on(ask(self.0.open_again()?, share))
    }

    fn socket_calls(&self) -> Option<SocketCalls> {
        let stats = self.0.stats();
        Some(SocketCalls { writes: stats.writes, reads: stats.reads })
    }
}

/// `pool` is this thread's own open of the pool that all threads share.
async fn ask<P: LookupPool>(pool: P, share: &Arc<Share>) -> anyhow::Result<()> {
    pool.look_up(1).await.context("cannot query")?;
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

async fn call<P: LookupPool>(pool: P, share: Arc<Share>, mut ids: Ids) -> anyhow::Result<()> {
    while !share.is_over() {
        let id = ids.next_id();
        let (found_id, number) = pool.look_up(id).await?;
        share.check(id, found_id, number)?;
        share.answered(1);
    }
    Ok(())
}
