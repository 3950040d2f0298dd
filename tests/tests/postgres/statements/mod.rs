//! Statements on a real server: what is known of them may cease to hold, there may be more of them than are kept, they may
//! be refused, be larger than large, or come many at a time.

mod batches;
mod changes;
mod errors;
mod eviction;
mod limits;
mod unnamed;

use std::collections::BTreeMap;

use cenote_postgres::{Pool, Row};
use cenote_tests::{must_end, wait_until};
use futures_util::future::join_all;

/// Has all connections of the pool opened.
async fn open_all(pool: &Pool) {
    let connections = pool.settings().pool_size();
    let opened = || async {
        let asked = join_all((0..32 * connections).map(|_| pool.query_one("select 1", &[]))).await;
        asked.into_iter().for_each(|row| assert!(row.is_ok(), "{row:?}"));
        pool.stats().lanes.len() == connections
    };
    wait_until("all connections are open", opened).await;
}

/// Runs a query whose first column is `pg_backend_pid()` until each connection of the pool has answered it. All rows that
/// came, by process.
async fn everywhere(pool: &Pool, sql: &str) -> BTreeMap<i32, Vec<Row>> {
    let connections = pool.stats().lanes.len();
    let mut answers: BTreeMap<i32, Vec<Row>> = BTreeMap::new();
    let everywhere = async {
        while answers.len() < connections {
            for rows in join_all((0..16 * connections).map(|_| pool.query(sql, &[]))).await {
                let rows = rows.unwrap_or_else(|error| panic!("{sql}: {error}"));
                let pid = rows.first().unwrap_or_else(|| panic!("{sql}: no row")).get(0).unwrap();
                answers.entry(pid).or_default().extend(rows);
            }
        }
    };
    must_end(sql, everywhere).await;
    answers
}

/// How many named statements each connection has prepared, as the server sees it: this very question among them.
async fn prepared_at_server(pool: &Pool) -> BTreeMap<i32, i64> {
    let sql = "select pg_backend_pid(), count(*) from pg_prepared_statements where name <> ''";
    let newest = |rows: Vec<Row>| rows.last().expect("a row").get(1).unwrap();
    everywhere(pool, sql).await.into_iter().map(|(pid, rows)| (pid, newest(rows))).collect()
}
