//! The table that is asked for rows, read once beforehand: the truth that every answer is held against.
//!
//! It makes no table; `scripts/servers up` does.

use anyhow::{Context, bail, ensure};

use super::{Database, mysql, postgres};
use crate::cli::Load;
use crate::machine::Server;

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
pub(crate) fn load(load: &Load) -> anyhow::Result<(World, Server)> {
    let read = async {
        match load.database() {
            Database::Postgres => postgres::read_world(load).await,
            Database::Mysql => mysql::read_world(load).await,
        }
    };
    let (rows, server) = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start a runtime")?
        .block_on(read)?;
    Ok((World::of(&rows)?, server))
}

impl World {
    /// From rows in the order of their ids.
    fn of(rows: &[(i32, i32)]) -> anyhow::Result<Self> {
        let mut numbers = Vec::with_capacity(rows.len());
        for (&(found, number), id) in rows.iter().zip(1..) {
            ensure!(found == id, "table world has no row with id {id}");
            let small =
                u16::try_from(number).with_context(|| format!("row {id} of table world has the number {number}"))?;
            numbers.push(small);
        }
        let count = numbers.len();
        ensure!(i32::try_from(count) == Ok(ROWS), "table world has {count} rows where {ROWS} are needed");
        Ok(Self { numbers })
    }
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
    fn a_table_with_a_gap_a_large_number_or_too_few_rows_is_refused() {
        let rows: Vec<_> = (1..=ROWS).map(|id| (id, id + 7)).collect();
        assert!(World::of(&rows).is_ok_and(|world| world.check(5, 5, 12).is_ok()));
        assert!(World::of(rows.get(1..).unwrap_or_default()).is_err(), "a gap");
        assert!(World::of(rows.get(..9_999).unwrap_or_default()).is_err(), "too few");
        let mut large = rows;
        large.push((ROWS + 1, 65_536));
        assert!(World::of(&large).is_err(), "a large number");
    }

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
