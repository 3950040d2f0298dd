//! The contenders on MySQL and MariaDB, and their table.

mod login;
mod mysql_async;
mod wire;

use std::sync::Arc;

use ::mysql_async::prelude::Queryable;
use ::mysql_async::{Conn, Opts, OptsBuilder};
use anyhow::{Context, bail};

use super::ContenderName;
use super::floor::Floor;
use super::turn::Contender;
use crate::cli::Load;
use crate::machine::Server;

/// What every contender sends.
const LOOKUP: &str = "select id, randomnumber from world where id = ?";

pub(super) fn contender(name: ContenderName, load: &Load) -> anyhow::Result<Arc<dyn Contender>> {
    Ok(match name {
        ContenderName::MysqlAsync => Arc::new(mysql_async::MysqlAsync::new(options(load)?)),
        ContenderName::Floor => Arc::new(Floor::new(wire::Mysql::new(options(load)?))),
        ContenderName::Cenote | ContenderName::TokioPostgres => bail!("{} is no driver for MySQL", name.as_str()),
    })
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
