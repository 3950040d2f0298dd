//! A second way to look at a MySQL or MariaDB server and to act on it: an ordinary connection of another driver, as one
//! who may do everything.

use cenote_mysql::Pool;
use mysql_async::prelude::{FromRow, Queryable};
use mysql_async::{Conn, Opts, OptsBuilder, Params, Row};
use tokio::sync::Mutex;

use super::Server;
use crate::wait::wait_until;

/// `ER_NO_SUCH_THREAD`: who is to be killed is gone.
const NO_SUCH_THREAD: u16 = 1094;

/// A session of the server, as its list of processes shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// Its number.
    pub id: u64,
    /// Who has logged in.
    pub user: String,
    /// `Query`, `Execute`, `Sleep`, ...
    pub command: String,
    /// What it does within that: `User sleep`, `Waiting for table metadata lock`, ...
    pub state: String,
    /// The statement that runs.
    pub query: Option<String>,
}

/// A connection of one who may do everything.
pub struct Admin {
    connection: Mutex<Conn>,
}

impl Admin {
    /// Connects to a shared server.
    pub async fn connect(server: Server) -> Admin {
        Admin::connect_to(&server.admin_url()).await
    }

    /// Connects to the server at `url`.
    pub async fn connect_to(url: &str) -> Admin {
        let connection = connect(url).await;
        Admin { connection: connection.unwrap_or_else(|error| panic!("the administrator cannot connect: {error}")) }
    }

    /// Runs a statement without parameters; several, with semicolons between them, are allowed.
    pub async fn run(&self, sql: &str) {
        let outcome = self.connection.lock().await.query_drop(sql).await;
        outcome.unwrap_or_else(|error| panic!("{sql}: {error}"));
    }

    /// Runs a query as a prepared statement.
    pub async fn rows(&self, sql: &str, parameters: impl Into<Params> + Send) -> Vec<Row> {
        self.rows_as(sql, parameters).await
    }

    /// The same, with its rows as tuples.
    pub async fn rows_as<T: FromRow + Send + 'static>(
        &self,
        sql: &str,
        parameters: impl Into<Params> + Send,
    ) -> Vec<T> {
        let outcome = self.connection.lock().await.exec(sql, parameters.into()).await;
        outcome.unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    /// Runs a query for one number.
    pub async fn number(&self, sql: &str, parameters: impl Into<Params> + Send) -> i64 {
        let rows: Vec<(i64,)> = self.rows_as(sql, parameters).await;
        let [(number,)] = rows[..] else { panic!("{sql}: {} rows", rows.len()) };
        number
    }

    /// A number from the server's global status: `Prepared_stmt_count`, `Com_stmt_prepare`, ...
    pub async fn status(&self, name: &str) -> i64 {
        let value = self.status_text(name).await;
        value.parse().unwrap_or_else(|_| panic!("the status {name} is no number: {value}"))
    }

    /// A text from the server's global status.
    pub async fn status_text(&self, name: &str) -> String {
        // No prepared statement: the count of those is among what is asked for.
        let sql = format!("show global status where variable_name = '{name}'");
        let row: Result<Option<(String, String)>, _> = self.connection.lock().await.query_first(&sql).await;
        let row = row.unwrap_or_else(|error| panic!("{sql}: {error}"));
        row.unwrap_or_else(|| panic!("the server has no status {name}")).1
    }

    /// The public key, as PEM, that MySQL takes passwords by where there is no TLS.
    pub async fn public_key(&self) -> String {
        self.status_text("Caching_sha2_password_rsa_public_key").await
    }

    /// The sessions of a pool, which has a program name of its own.
    pub async fn sessions(&self, pool: &Pool) -> Vec<Session> {
        self.sessions_named(program_name(pool)).await
    }

    /// The sessions with this program name.
    pub async fn sessions_named(&self, program_name: &str) -> Vec<Session> {
        let which = "id in (select processlist_id from performance_schema.session_connect_attrs \
                     where attr_name = 'program_name' and attr_value = ?)";
        self.sessions_where(which, program_name).await
    }

    /// The sessions of this user.
    pub async fn sessions_of_user(&self, user: &str) -> Vec<Session> {
        self.sessions_where("user = ?", user).await
    }

    async fn sessions_where(&self, which: &str, parameter: &str) -> Vec<Session> {
        let sql = format!(
            "select id, user, command, coalesce(state, ''), info from information_schema.processlist \
             where {which} order by id"
        );
        let rows: Vec<(u64, String, String, String, Option<String>)> = self.rows_as(&sql, (parameter,)).await;
        let session = |(id, user, command, state, query)| Session { id, user, command, state, query };
        rows.into_iter().map(session).collect()
    }

    /// Ends a session; whether it was still there.
    pub async fn kill(&self, id: u64) -> bool {
        self.kill_by(&format!("kill {id}")).await
    }

    /// Ends the statement that a session runs; whether the session was still there.
    pub async fn kill_query(&self, id: u64) -> bool {
        self.kill_by(&format!("kill query {id}")).await
    }

    async fn kill_by(&self, sql: &str) -> bool {
        match self.connection.lock().await.query_drop(sql).await {
            Ok(()) => true,
            Err(mysql_async::Error::Server(error)) if error.code == NO_SUCH_THREAD => false,
            Err(error) => panic!("{sql}: {error}"),
        }
    }

    /// Ends the sessions of a pool, as an administrator does, and waits until they are gone. How many there were.
    pub async fn terminate(&self, pool: &Pool) -> usize {
        self.terminate_named(program_name(pool)).await
    }

    /// The same for all sessions with this program name.
    pub async fn terminate_named(&self, program_name: &str) -> usize {
        let before = self.sessions_named(program_name).await;
        for session in &before {
            self.kill(session.id).await;
        }
        let gone = || async {
            let now = self.sessions_named(program_name).await;
            before.iter().all(|old| now.iter().all(|new| new.id != old.id))
        };
        wait_until("the terminated sessions are gone", gone).await;
        before.len()
    }

    /// Waits until the server has no session of this pool any more.
    pub async fn wait_for_no_session(&self, pool: &Pool) {
        self.wait_for_no_session_named(program_name(pool)).await;
    }

    /// Waits until the server has no session with this program name any more.
    pub async fn wait_for_no_session_named(&self, program_name: &str) {
        let none = || async { self.sessions_named(program_name).await.is_empty() };
        wait_until("the server has no session of this name any more", none).await;
    }
}

fn program_name(pool: &Pool) -> &str {
    pool.settings().program_name().expect("the pool of a test is named")
}

impl std::fmt::Debug for Admin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Admin").finish_non_exhaustive()
    }
}

async fn connect(url: &str) -> mysql_async::Result<Mutex<Conn>> {
    let options = OptsBuilder::from_opts(Opts::from_url(url)?);
    // A change of the server's socket would be a second log-in.
    Conn::new(options.prefer_socket(false)).await.map(Mutex::new)
}

/// Runs statements one by one on a connection of their own, from wherever: a runtime cannot be blocked on from within
/// another, and what is dropped cannot wait. The first that fails is the last.
pub(super) fn run_apart(admin_url: &str, statements: Vec<String>) -> Result<(), String> {
    let admin_url = admin_url.to_owned();
    let running = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        let outcome: mysql_async::Result<()> = runtime.block_on(async {
            let mut connection = connect(&admin_url).await?.into_inner();
            // Somebody may still hold a lock: then what was to be removed stays.
            connection.query_drop("set session lock_wait_timeout = 5").await?;
            for sql in statements {
                connection.query_drop(sql).await?;
            }
            connection.disconnect().await
        });
        outcome.map_err(|error| error.to_string())
    });
    running.join().unwrap_or_else(|_| Err("it panicked".to_owned()))
}
