//! A second way to look at a Postgres server and to act on it: an ordinary connection of another driver, as a
//! superuser.

use cenote_postgres::Pool;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, NoTls, Row};

use crate::environment::admin_url;
use crate::wait::wait_until;

/// A session of the server, as `pg_stat_activity` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backend {
    /// Its process.
    pub pid: i32,
    /// `active`, `idle`, `idle in transaction`, ...
    pub state: String,
    /// What it waits for, if it waits: `Lock`, `Client`, ...
    pub wait_event_type: Option<String>,
    /// Its newest statement.
    pub query: String,
}

/// A superuser's connection.
pub struct Admin {
    client: Client,
}

impl Admin {
    /// Connects to the shared server. The connection is driven by the current runtime.
    pub async fn connect() -> Admin {
        Admin::connect_to(&admin_url()).await
    }

    /// Connects to the server at `url`.
    pub async fn connect_to(url: &str) -> Admin {
        let (client, connection) = tokio_postgres::connect(url, NoTls)
            .await
            .unwrap_or_else(|error| panic!("the administrator cannot connect: {error}"));
        // It ends with the client; what it ends with is seen there.
        tokio::spawn(connection);
        Admin { client }
    }

    /// The client itself.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Runs statements without parameters.
    pub async fn run(&self, sql: &str) {
        self.client.batch_execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    }

    /// Runs a query.
    pub async fn rows(&self, sql: &str, parameters: &[&(dyn ToSql + Sync)]) -> Vec<Row> {
        self.client.query(sql, parameters).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"))
    }

    /// Runs a query for one number.
    pub async fn number(&self, sql: &str, parameters: &[&(dyn ToSql + Sync)]) -> i64 {
        let row = self.client.query_one(sql, parameters).await;
        row.unwrap_or_else(|error| panic!("{sql}: {error:?}")).get(0)
    }

    /// The sessions of a pool, which has an application name of its own.
    pub async fn backends(&self, pool: &Pool) -> Vec<Backend> {
        let name = pool.settings().application_name().expect("the pool of a test is named");
        self.backends_named(name).await
    }

    /// The sessions with this application name.
    pub async fn backends_named(&self, application_name: &str) -> Vec<Backend> {
        let sql = "select pid, coalesce(state, ''), wait_event_type, query from pg_stat_activity \
                   where application_name = $1 order by pid";
        let rows = self.rows(sql, &[&application_name]).await;
        let backend =
            |row: &Row| Backend { pid: row.get(0), state: row.get(1), wait_event_type: row.get(2), query: row.get(3) };
        rows.iter().map(backend).collect()
    }

    /// Ends the sessions of a pool, as an administrator does, and waits until they are gone. How many there were.
    pub async fn terminate(&self, pool: &Pool) -> usize {
        let before = self.backends(pool).await;
        for backend in &before {
            self.rows("select pg_terminate_backend($1)", &[&backend.pid]).await;
        }
        let gone = || async {
            let now = self.backends(pool).await;
            before.iter().all(|old| now.iter().all(|new| new.pid != old.pid))
        };
        wait_until("the terminated sessions are gone", gone).await;
        before.len()
    }

    /// Waits until the server has no session of this pool any more.
    pub async fn wait_for_no_backend(&self, pool: &Pool) {
        let none = || async { self.backends(pool).await.is_empty() };
        wait_until("the server has no session of the pool any more", none).await;
    }
}

impl std::fmt::Debug for Admin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Admin").finish_non_exhaustive()
    }
}
