//! What the two drivers have in common here, and another driver's word on whether a server takes connections.

use cenote_pool::PoolStats;
use mysql_async::{Conn, Opts, OptsBuilder};
use tokio_postgres::NoTls;

/// Rows of the table `world`, which each server has.
const ROWS: i32 = 10_000;

/// A pool under test.
pub(crate) trait Client: Clone + Send + Sync + 'static {
    /// One row by a random id; an error in words.
    fn look_up(&self) -> impl Future<Output = Result<(), String>> + Send;

    fn stats(&self) -> PoolStats;

    /// Whether somebody else can log in at this address now. May wait for as long as the server lets one wait.
    fn can_log_in(url: &str) -> impl Future<Output = bool> + Send;
}

impl Client for cenote_postgres::Pool {
    async fn look_up(&self) -> Result<(), String> {
        const SQL: &str = "select id, randomnumber from world where id = $1";
        let row = self.query_one(SQL, &[&fastrand::i32(1..=ROWS)]).await;
        row.map(|_| ()).map_err(|error| error.to_string())
    }

    fn stats(&self) -> PoolStats {
        self.stats()
    }

    async fn can_log_in(url: &str) -> bool {
        tokio_postgres::connect(url, NoTls).await.is_ok()
    }
}

impl Client for cenote_mysql::Pool {
    async fn look_up(&self) -> Result<(), String> {
        const SQL: &str = "select id, randomnumber from world where id = ?";
        let row = self.query_one(SQL, &[&fastrand::i32(1..=ROWS)]).await;
        row.map(|_| ()).map_err(|error| error.to_string())
    }

    fn stats(&self) -> PoolStats {
        self.stats()
    }

    async fn can_log_in(url: &str) -> bool {
        let options = Opts::from_url(url).expect("the script prints addresses");
        // Over TCP, as the pool does it: the Unix socket may be there earlier.
        Conn::new(OptsBuilder::from_opts(options).prefer_socket(false)).await.is_ok()
    }
}
