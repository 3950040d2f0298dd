//! The contenders on MySQL and MariaDB, and their table.

mod login;
mod mysql_async;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use ::mysql_async::prelude::Queryable;
use ::mysql_async::{Conn, Opts, OptsBuilder};
use anyhow::{Context, bail};
use cenote_mysql::{Pool, PoolStats, Settings, SslMode};

use super::ContenderName;
use super::cenote::{Cenote, LookupPool};
use super::floor::Floor;
use super::turn::Contender;
use crate::cli::Load;
use crate::machine::Server;

/// What every contender sends.
const LOOKUP: &str = "select id, randomnumber from world where id = ?";

/// Takes [`SLOW_STATEMENT_S`](super::cenote::SLOW_STATEMENT_S) and no processor.
const SLOW_STATEMENT: &str = "select sleep(2)";

pub(super) fn contender(name: ContenderName, load: &Load) -> anyhow::Result<Arc<dyn Contender>> {
    Ok(match name {
        ContenderName::Cenote => Arc::new(Cenote(pool(load)?)),
        ContenderName::MysqlAsync => Arc::new(mysql_async::MysqlAsync::new(options(load)?)),
        ContenderName::CenoteAbi => bail!("{} has a program of its own", name.as_str()),
        ContenderName::Floor => Arc::new(Floor::new(wire::Mysql::new(options(load)?))),
        ContenderName::TokioPostgres => bail!("{} is no driver for MySQL", name.as_str()),
    })
}

/// The pool, with as many connections as the load names.
pub(crate) fn pool(load: &Load) -> anyhow::Result<Pool> {
    let settings = Settings::from_url(&load.url()?)?.to_builder();
    Ok(Pool::open(
        settings
            .pool_size(load.connections.get())
            .ssl_mode(SslMode::Disabled)
            .allow_public_key_retrieval(true)
            .build()?,
    )?)
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

/// The server that the URL names, by the way that the URL names: mysql_async would by itself leave TCP for the server's
/// Unix socket where it finds that, and the others would not.
fn options(load: &Load) -> anyhow::Result<Opts> {
    let options = Opts::from_url(&load.url()?).context("cannot use this URL")?;
    Ok(OptsBuilder::from_opts(options).prefer_socket(false).into())
}

/// The table's rows by id, and what the server says of itself.
pub(super) async fn read_world(load: &Load) -> anyhow::Result<(Vec<(i32, i32)>, Server)> {
    let mut connection = Conn::new(options(load)?).await.context("cannot connect")?;
    let rows = connection
        .query("select id, randomnumber from world order by id")
        .await
        .context("cannot read table world, which `scripts/servers up` makes")?;
    let row: Option<(String, String)> = connection
        .query_first(
            "select if(version() like '%MariaDB%', version(), concat('MySQL ', version())), \
             date_format(utc_timestamp(), '%Y-%m-%d %H:%i:%s')",
        )
        .await
        .context("cannot ask the server for its version")?;
    let (version, date) = row.context("the server does not tell its version")?;
    connection.disconnect().await?;
    Ok((rows, Server { version, date }))
}
