//! The routes that read the table `world(id int primary key, randomnumber int not null)`, 10,000 rows: one row by a
//! random id for each read, nothing cached.

use cenote_http::{Head, Response};
use serde::Serialize;

use crate::databases::{DatabaseError, failed, not_named};
use crate::plain::json;

/// Ids run from 1 to this.
const ROWS: i32 = 10_000;

/// Rows that one request to `/queries` may ask for.
const QUERIES_MAX: usize = 500;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct World {
    id: i32,
    random_number: i32,
}

/// A pool of a database that has the table.
pub(crate) trait WorldPool {
    /// The variable that names the database.
    const VARIABLE: &'static str;

    type Error: DatabaseError;

    async fn world(&self, id: i32) -> Result<World, Self::Error>;
}

impl WorldPool for cenote_postgres::Pool {
    const VARIABLE: &'static str = "POSTGRES_URL";

    type Error = cenote_postgres::Error;

    async fn world(&self, id: i32) -> Result<World, Self::Error> {
        let row = self.query_one("select id, randomnumber from world where id = $1", &[&id]).await?;
        Ok(World { id: row.get(0)?, random_number: row.get(1)? })
    }
}

impl WorldPool for cenote_mysql::Pool {
    const VARIABLE: &'static str = "MYSQL_URL";

    type Error = cenote_mysql::Error;

    async fn world(&self, id: i32) -> Result<World, Self::Error> {
        let row = self.query_one("select id, randomnumber from world where id = ?", &[&id]).await?;
        Ok(World { id: row.get(0)?, random_number: row.get(1)? })
    }
}

/// `GET /db` and `GET /mysql/db`
pub(crate) async fn one<P: WorldPool>(pool: Option<&P>) -> Result<Response, Response> {
    let pool = pool.ok_or_else(|| not_named(P::VARIABLE))?;
    let world = random_world(pool).await.map_err(|error| failed(&error))?;
    Ok(json(&world))
}

/// `GET /queries?n=20` and `GET /mysql/queries?n=20`: each row read after the one before.
pub(crate) async fn many<P: WorldPool>(pool: Option<&P>, head: &Head) -> Result<Response, Response> {
    let pool = pool.ok_or_else(|| not_named(P::VARIABLE))?;
    let count = count(head.query("n")?.as_deref());
    let mut worlds = Vec::with_capacity(count);
    for _ in 0..count {
        worlds.push(random_world(pool).await.map_err(|error| failed(&error))?);
    }
    Ok(json(&worlds))
}

async fn random_world<P: WorldPool>(pool: &P) -> Result<World, P::Error> {
    pool.world(fastrand::i32(1..=ROWS)).await
}

/// What is no number counts as 1, and every number as the nearest that is allowed.
fn count(n: Option<&str>) -> usize {
    let digits = n.unwrap_or_default();
    match digits.parse::<usize>() {
        Ok(number) => number.clamp(1, QUERIES_MAX),
        // More digits than a number has room for.
        Err(_) if !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit()) => QUERIES_MAX,
        Err(_) => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_clamped_and_what_is_no_number_is_one() {
        for (n, expected) in [
            (None, 1),
            (Some(""), 1),
            (Some("x"), 1),
            (Some("-5"), 1),
            (Some("1.5"), 1),
            (Some("0"), 1),
            (Some("1"), 1),
            (Some("20"), 20),
            (Some("500"), 500),
            (Some("501"), 500),
            (Some("99999999999999999999999999"), 500),
        ] {
            assert_eq!(count(n), expected, "n={n:?}");
        }
    }
}
