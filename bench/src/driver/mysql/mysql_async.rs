//! mysql_async as its own users would write it: its pool, from which each query takes a connection and gives it back.
//! A connection's cache of prepared statements knows the lookup after its first.
//!
//! One thing is tuned, as whoever cares for speed would: by default a connection is reset when it is given back, which
//! costs a round trip and all its prepared statements. The lookups leave nothing behind that would need it.

use std::sync::Arc;

use anyhow::Context;
use mysql_async::prelude::Queryable;
use mysql_async::{Opts, OptsBuilder, Pool, PoolConstraints, PoolOpts};
use tokio::task::JoinSet;

use super::LOOKUP;
use crate::driver::turn::{Contender, Ids, Share};

pub(crate) struct MysqlAsync {
    options: Opts,
}

impl MysqlAsync {
    pub(crate) fn new(options: Opts) -> Self {
        Self { options }
    }
}

impl Contender for MysqlAsync {
    fn run(&self, share: &Arc<Share>) -> anyhow::Result<()> {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("cannot start a runtime")?
            .block_on(ask(&self.options, share))
    }
}

/// Each client thread has a pool of its own with its part of the connections: none crosses threads.
async fn ask(options: &Opts, share: &Arc<Share>) -> anyhow::Result<()> {
    let constraints =
        PoolConstraints::new(share.connections, share.connections).context("a pool without connections")?;
    let pool_options = PoolOpts::default().with_constraints(constraints).with_reset_connection(false);
    let pool = Pool::new(OptsBuilder::from_opts(options.clone()).pool_opts(pool_options));
    let mut connections = Vec::with_capacity(share.connections);
    for _ in 0..share.connections {
        let mut connection = pool.get_conn().await.context("cannot connect")?;
        connection.prep(LOOKUP).await.context("cannot prepare")?;
        connections.push(connection);
    }
    drop(connections);
    share.ready();
    let mut callers = JoinSet::new();
    for caller in 0..share.callers {
        callers.spawn(call(pool.clone(), Arc::clone(share), share.ids(caller)));
    }
    while let Some(outcome) = callers.join_next().await {
        outcome??;
    }
    pool.disconnect().await.context("cannot close the pool")
}

async fn call(pool: Pool, share: Arc<Share>, mut ids: Ids) -> anyhow::Result<()> {
    while !share.is_over() {
        let id = ids.next_id();
        let mut connection = pool.get_conn().await?;
        let row: Option<(i32, i32)> = connection.exec_first(LOOKUP, (id,)).await?;
        drop(connection);
        let (found_id, number) = row.context("no row for an id that exists")?;
        share.check(id, found_id, number)?;
        share.answered(1);
    }
    Ok(())
}
