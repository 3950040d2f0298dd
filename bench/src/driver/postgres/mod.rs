//! The contenders on Postgres, and its table.

mod login;
mod tokio_postgres;
mod wire;

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use ::tokio_postgres::{Config, NoTls};
use anyhow::{Context, bail};
use cenote_postgres::{Pool, PoolStats, Settings, SslMode};

use super::ContenderName;
use super::cenote::{Cenote, LookupPool};
use super::floor::Floor;
use super::turn::Contender;
use crate::cli::Load;
use crate::machine::Server;

/// What every contender sends.
const LOOKUP: &str = "select id, randomnumber from world where id = $1";

/// Takes [`SLOW_STATEMENT_S`](super::cenote::SLOW_STATEMENT_S) and no processor.
const SLOW_STATEMENT: &str = "select pg_sleep(2)";

pub(super) fn contender(name: ContenderName, load: &Load) -> anyhow::Result<Arc<dyn Contender>> {
    Ok(match name {
        ContenderName::Cenote => Arc::new(Cenote(pool(load)?)),
        ContenderName::TokioPostgres => Arc::new(tokio_postgres::TokioPostgres::new(config(load)?)),
        ContenderName::CenoteAbi => bail!("{} has a program of its own", name.as_str()),
        ContenderName::Floor => Arc::new(Floor::new(wire::Postgres::new(config(load)?))),
        ContenderName::MysqlAsync => bail!("{} is no driver for Postgres", name.as_str()),
    })
}

/// The pool, with as many connections as the load names.
pub(crate) fn pool(load: &Load) -> anyhow::Result<Pool> {
    let settings = Settings::from_url(&load.url()?)?.to_builder();
    Ok(Pool::open(settings.pool_size(load.connections.get()).ssl_mode(SslMode::Disable).build()?)?)
}

impl LookupPool for Pool {
    fn open_again(&self) -> anyhow::Result<Self> {
        Ok(Pool::open(self.settings())?)
    }

    async fn look_up(&self, id: i32) -> anyhow::Result<(i32, i32)> {
        let row = self.query_one(LOOKUP, &[&id]).await?;
        Ok((row.get(0)?, row.get(1)?))
    }

    async fn run_slowly(&self) -> anyhow::Result<()> {
        self.query_one(SLOW_STATEMENT, &[]).await?;
        Ok(())
    }

    fn stats(&self) -> PoolStats {
        self.stats()
    }

    async fn close(&self, deadline: Duration) {
        self.close(deadline).await;
    }
}

fn config(load: &Load) -> anyhow::Result<Config> {
    Config::from_str(&load.url()?).context("cannot use this URL")
}

/// The table's rows by id, and what the server says of itself.
pub(super) async fn read_world(load: &Load) -> anyhow::Result<(Vec<(i32, i32)>, Server)> {
    let (client, connection) = config(load)?.connect(NoTls).await.context("cannot connect")?;
    let connection = tokio::spawn(connection);
    let rows = client
        .query("select id, randomnumber from world order by id", &[])
        .await
        .context("cannot read table world, which `scripts/servers up` makes")?;
    let rows = rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect::<anyhow::Result<_>>()?;
    let row = client
        .query_one(
            "select 'PostgreSQL ' || current_setting('server_version'), \
             to_char(now() at time zone 'utc', 'YYYY-MM-DD HH24:MI:SS')",
            &[],
        )
        .await
        .context("cannot ask the server for its version")?;
    let server = Server { version: row.try_get(0)?, date: row.try_get(1)? };
    drop(client);
    connection.await??;
    Ok((rows, server))
}
