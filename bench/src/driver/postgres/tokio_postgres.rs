//! tokio-postgres as its own users would write it: a few clients, each with its prepared statement, shared by tasks.
//!
//! Clients, their connections and all callers live on one current-thread runtime per client thread, so the driver
//! pipelines what its callers ask in one turn of the scheduler. Nothing is tuned.

use std::sync::Arc;

use anyhow::Context;
use tokio::task::JoinSet;
use tokio_postgres::{Client, Config, NoTls, Statement};

use super::LOOKUP;
use crate::driver::turn::{Contender, Ids, Share};

pub(crate) struct TokioPostgres {
    config: Config,
}

impl TokioPostgres {
    pub(crate) fn new(config: Config) -> Self {
        Self { config }
    }
}

impl Contender for TokioPostgres {
    fn run(&self, share: &Arc<Share>) -> anyhow::Result<()> {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("cannot start a runtime")?
            .block_on(ask(&self.config, share))
    }
}

async fn ask(config: &Config, share: &Arc<Share>) -> anyhow::Result<()> {
    let mut connections = JoinSet::new();
    let mut clients = Vec::with_capacity(share.connections);
    for _ in 0..share.connections {
        let (client, connection) = config.connect(NoTls).await.context("cannot connect")?;
        connections.spawn(connection);
        let statement = client.prepare(LOOKUP).await.context("cannot prepare")?;
        clients.push((Arc::new(client), statement));
    }
    share.ready();
    let mut callers = JoinSet::new();
    for (caller, (client, statement)) in (0..share.callers).zip(clients.iter().cycle()) {
        callers.spawn(call(Arc::clone(client), statement.clone(), Arc::clone(share), share.ids(caller)));
    }
    while let Some(outcome) = callers.join_next().await {
        outcome??;
    }
    drop(clients);
    while let Some(outcome) = connections.join_next().await {
        outcome?.context("the connection failed")?;
    }
    Ok(())
}

async fn call(client: Arc<Client>, statement: Statement, share: Arc<Share>, mut ids: Ids) -> anyhow::Result<()> {
    while !share.is_over() {
        let id = ids.next_id();
        let row = client.query_one(&statement, &[&id]).await?;
        share.check(id, row.try_get(0)?, row.try_get(1)?)?;
        share.answered(1);
    }
    Ok(())
}
