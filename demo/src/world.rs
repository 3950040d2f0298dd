//! The routes that read the table `world(id int primary key, randomnumber int not null)`, 10,000 rows: one row by a
//! random id for each read, nothing cached.

use cenote_http::{Head, HeaderValue, Response, StatusCode, header};
use cenote_postgres::{Error, Pool};
use serde::Serialize;

use crate::plain::json;

const LOOKUP: &str = "select id, randomnumber from world where id = $1";

/// Ids run from 1 to this.
const ROWS: i32 = 10_000;

/// Rows that one request to `/queries` may ask for.
const QUERIES_MAX: usize = 500;

/// When to come back while the database is not there: by then the pool has tried again several times.
const RETRY_AFTER_S: HeaderValue = HeaderValue::from_static("1");

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct World {
    id: i32,
    random_number: i32,
}

/// `GET /db`
pub(crate) async fn one(pool: Option<&Pool>) -> Result<Response, Response> {
    let pool = pool.ok_or_else(no_database)?;
    let world = random_world(pool).await.map_err(|error| failed(&error))?;
    Ok(json(&world))
}

/// `GET /queries?n=20`: each row read after the one before.
pub(crate) async fn many(pool: Option<&Pool>, head: &Head) -> Result<Response, Response> {
    let pool = pool.ok_or_else(no_database)?;
    let count = count(head.query("n")?.as_deref());
    let mut worlds = Vec::with_capacity(count);
    for _ in 0..count {
        worlds.push(random_world(pool).await.map_err(|error| failed(&error))?);
    }
    Ok(json(&worlds))
}

async fn random_world(pool: &Pool) -> Result<World, Error> {
    let row = pool.query_one(LOOKUP, &[&fastrand::i32(1..=ROWS)]).await?;
    Ok(World { id: row.get(0)?, random_number: row.get(1)? })
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

fn no_database() -> Response {
    Response::error(StatusCode::SERVICE_UNAVAILABLE, "no database was named; set POSTGRES_URL")
}

/// 503 when the database is not to be had right now, 500 when it is there and the demo is at fault.
fn failed(error: &Error) -> Response {
    let refused = error.was_sent() == Some(false);
    if error.is_timeout() || error.is_network() || error.is_closed() || refused {
        let message = format!("the database is not available: {error}");
        return Response::error(StatusCode::SERVICE_UNAVAILABLE, &message)
            .with_header(header::RETRY_AFTER, RETRY_AFTER_S);
    }
    Response::error(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string())
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
