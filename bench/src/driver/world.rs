//! The table that is asked for rows, read once beforehand: the truth that every answer is held against.
//!
//! It makes no table; `scripts/servers up` does.

use anyhow::{Context, bail, ensure};
use tokio_postgres::{Config, NoTls};

use crate::machine::Server;

/// What every contender sends.
pub(crate) const LOOKUP: &str = "select id, randomnumber from world where id = $1";

/// Rows in the table; their ids run from 1 to this.
pub(crate) const ROWS: i32 = 10_000;

/// The table's numbers by id. Small ones, so that looking one up costs the measured process as little of its caches as
/// can be: as `i32` the check was a tenth of a fast contender's user time.
pub(crate) struct World {
    numbers: Vec<u16>,
}

impl World {
    /// Whether this row is the one that was asked for, with the table's value in it.
    pub(crate) fn check(&self, asked_id: i32, id: i32, number: i32) -> anyhow::Result<()> {
        let index = usize::try_from(asked_id).ok().and_then(|id| id.checked_sub(1));
        let expected = index.and_then(|index| self.numbers.get(index));
        if id == asked_id && expected.is_some_and(|expected| i32::from(*expected) == number) {
            return Ok(());
        }
        bail!("wrong row: asked for id {asked_id} (randomnumber {expected:?}), got id {id} (randomnumber {number})")
    }
}

/// Reads the table, and what the server says of itself.
pub(crate) fn load(config: &Config) -> anyhow::Result<(World, Server)> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start a runtime")?
        .block_on(read(config))
}

async fn read(config: &Config) -> anyhow::Result<(World, Server)> {
    let (client, connection) = config.connect(NoTls).await.context("cannot connect")?;
    let connection = tokio::spawn(connection);
    let rows = client
        .query("select id, randomnumber from world order by id", &[])
        .await
        .context("cannot read table world, which `scripts/servers up` makes")?;
    let mut numbers = Vec::with_capacity(rows.len());
    for (row, id) in rows.iter().zip(1..) {
        let found: i32 = row.try_get(0)?;
        ensure!(found == id, "table world has no row with id {id}");
        let number: i32 = row.try_get(1)?;
        let small =
            u16::try_from(number).with_context(|| format!("row {id} of table world has the number {number}"))?;
        numbers.push(small);
    }
    ensure!(i32::try_from(numbers.len()) == Ok(ROWS), "table world has {} rows where {ROWS} are needed", numbers.len());
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
    Ok((World { numbers }, server))
}

#[cfg(test)]
impl World {
    /// Every row's number is its id plus 7.
    pub(crate) fn made_up() -> Self {
        Self { numbers: (1..=ROWS).map(|id| (id + 7) as u16).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_asked_row_with_the_tables_number_passes() {
        let world = World::made_up();
        assert!(world.check(1, 1, 8).is_ok());
        assert!(world.check(ROWS, ROWS, ROWS + 7).is_ok());
        assert!(world.check(1, 2, 8).is_err(), "another id");
        assert!(world.check(1, 1, 9).is_err(), "another number");
        assert!(world.check(0, 0, 7).is_err(), "no such row");
        assert!(world.check(-1, -1, 6).is_err(), "no such row");
        assert!(world.check(ROWS + 1, ROWS + 1, ROWS + 8).is_err(), "no such row");
    }
}
