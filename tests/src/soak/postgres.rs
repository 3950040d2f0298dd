//! The bank on Postgres.

use std::time::Duration;

use cenote_pool::PoolStats;
use cenote_postgres::{Error, Pool, SettingsBuilder, SqlState};
use tokio_postgres::{Client, NoTls};

use super::bank::{ACCOUNTS, BALANCE, Bank, Ending, Failure, Overseer, Transfer, failure};

#[derive(Clone)]
pub(crate) struct PostgresBank {
    pool: Pool,
}

impl PostgresBank {
    /// Makes the tables of an empty database.
    pub(crate) async fn found(admin_url: &str) {
        let admin = crate::Admin::connect_to(admin_url).await;
        admin
            .run(&format!(
                "create table account (id int8 primary key, balance int8 not null); \
                 insert into account select id, {BALANCE} from generate_series(1, {ACCOUNTS}) as id; \
                 create table ledger (id int8 not null); \
                 grant all on account, ledger to cenote; \
                 alter role cenote set deadlock_timeout = '50ms'"
            ))
            .await;
    }

    /// Under which the server knows the pool's sessions.
    pub(crate) fn name(&self) -> String {
        self.pool.settings().application_name().expect("the pool is named").to_owned()
    }

    pub(crate) fn open(settings: SettingsBuilder) -> PostgresBank {
        // A session whose client is gone ends though it waits for a lock.
        let options = "-c synchronous_commit=on -c client_connection_check_interval=100ms";
        PostgresBank { pool: crate::open(settings.options(options)) }
    }
}

fn failed(error: Error) -> Failure {
    const PROVOKED: [SqlState; 3] = [SqlState::ADMIN_SHUTDOWN, SqlState::DEADLOCK_DETECTED, SqlState::QUERY_CANCELED];
    // Crash, and not up yet.
    const OTHERS: [&str; 3] = ["57P02", "57P03", "53300"];
    failure!(error, |code: SqlState| PROVOKED.contains(&code) || OTHERS.contains(&code.code()))
}

impl Bank for PostgresBank {
    async fn look_up(&self, tag: i64, account: i64) -> Result<i64, Failure> {
        const SQL: &str = "select $1::int8, balance from account where id = $2";
        let row = self.pool.query_one(SQL, &[&tag, &account]).await.map_err(failed)?;
        row.get(0).map_err(failed)
    }

    const AT_ONCE_HAS_ID: bool = true;

    async fn transfer_at_once(&self, transfer: Transfer) -> Result<(), Failure> {
        const SQL: &str = "with moved as (update account set balance = balance + case id when $2 then -$4::int8 else $4 end \
                           where id in ($2, $3) returning 1), \
                           entered as (insert into ledger values ($1) returning 1) \
                           select (select count(*) from moved) + (select count(*) from entered)";
        let Transfer { id, from, to, amount, .. } = transfer;
        let row = self.pool.query_one(SQL, &[&id, &from, &to, &amount]).await.map_err(failed)?;
        match row.get::<_, i64>(0).map_err(failed)? {
            3 => Ok(()),
            rows => Err(Failure::wrong(format!("a transfer of {rows} rows"))),
        }
    }

    async fn transfer(&self, transfer: Transfer) -> Result<(), Failure> {
        in_transaction(&self.pool, transfer).await
    }

    async fn mess(&self, number: i64) -> Result<(), Failure> {
        mess(&self.pool, number).await.map_err(failed)
    }

    async fn dawdle(&self, time: Duration) -> Result<(), Failure> {
        let slept = self.pool.query_one("select pg_sleep($1)", &[&time.as_secs_f64()]).await;
        slept.map(|_| ()).map_err(failed)
    }

    fn stats(&self) -> PoolStats {
        self.pool.stats()
    }

    async fn close(&self) {
        self.pool.close(Duration::from_secs(60)).await;
    }
}

/// In the order of the accounts, so that most do not wait for each other in a circle.
async fn in_transaction(pool: &Pool, transfer: Transfer) -> Result<(), Failure> {
    let before_commit = |error| failed(error).without_effect();
    let Transfer { id, from, to, amount, ending } = transfer;
    let mut moves = [(from, -amount), (to, amount)];
    moves.sort();
    let transaction = pool.begin().await.map_err(before_commit)?;
    for (account, change) in moves {
        const SQL: &str = "update account set balance = balance + $1 where id = $2";
        match transaction.execute(SQL, &[&change, &account]).await.map_err(before_commit)? {
            1 => {}
            rows => return Err(Failure::wrong(format!("an update of {rows} rows"))),
        }
    }
    transaction.execute("insert into ledger values ($1)", &[&id]).await.map_err(before_commit)?;
    match ending {
        Ending::Commit => transaction.commit().await.map_err(failed),
        Ending::Rollback => transaction.rollback().await.map_err(before_commit),
        Ending::Drop => Ok(()),
    }
}

/// Whoever has the connection next would not find the tables, or would find the lock held.
async fn mess(pool: &Pool, number: i64) -> Result<(), Error> {
    let lease = pool.lease().await?;
    lease.execute("set search_path to nowhere", &[]).await?;
    lease.query_one("select pg_advisory_lock($1)", &[&number]).await?;
    lease.execute("create temporary table account (id int8)", &[]).await?;
    if number % 2 == 0 {
        lease.execute("begin", &[]).await?;
        lease.execute("update public.account set balance = balance + 1 where id = 1", &[]).await?;
    }
    Ok(())
}

/// A superuser's connection.
pub(crate) struct PostgresOverseer {
    client: Client,
    application_name: String,
}

impl PostgresOverseer {
    async fn column<T>(&self, sql: &str) -> Result<Vec<T>, String>
    where
        T: for<'a> tokio_postgres::types::FromSql<'a>,
    {
        let rows = self.client.query(sql, &[&self.application_name]).await.map_err(|error| error.to_string())?;
        rows.iter().map(|row| row.try_get(0).map_err(|error| error.to_string())).collect()
    }
}

impl Overseer for PostgresOverseer {
    async fn connect(url: &str, application_name: &str) -> Result<PostgresOverseer, String> {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await.map_err(|error| error.to_string())?;
        tokio::spawn(connection);
        Ok(PostgresOverseer { client, application_name: application_name.to_owned() })
    }

    async fn sessions(&mut self) -> Result<Vec<i64>, String> {
        self.column("select pid::int8 from pg_stat_activity where application_name = $1").await
    }

    async fn end_session(&mut self, number: i64) -> Result<(), String> {
        let ended = self.client.query("select pg_terminate_backend($1::int8::int4)", &[&number]).await;
        ended.map(|_| ()).map_err(|error| error.to_string())
    }

    async fn held(&mut self) -> Result<Vec<String>, String> {
        let mut held = self
            .column(
                "select format('%s of %s by %s', mode, locktype, pid) from pg_locks join pg_stat_activity using (pid) \
                 where application_name = $1",
            )
            .await?;
        let open = "select format('%s is %s', pid, state) from pg_stat_activity \
                    where application_name = $1 and state <> 'idle'";
        held.extend(self.column::<String>(open).await?);
        Ok(held)
    }

    async fn money(&mut self) -> Result<i64, String> {
        let sql = "select sum(balance)::int8 from account where $1 <> ''";
        self.column(sql).await?.first().copied().ok_or_else(|| "no account".to_owned())
    }

    async fn ledger(&mut self) -> Result<Vec<i64>, String> {
        self.column("select id from ledger where $1 <> '' order by id").await
    }
}
