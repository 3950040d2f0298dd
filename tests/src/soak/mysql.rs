//! The bank on MySQL and MariaDB.

use std::time::Duration;

use cenote_mysql::{Error, ErrorCode, Pool, SettingsBuilder};
use cenote_pool::PoolStats;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts, OptsBuilder};

use super::bank::{ACCOUNTS, BALANCE, Bank, Ending, Failure, Overseer, Transfer, failure};

#[derive(Clone)]
pub(crate) struct MysqlBank {
    pool: Pool,
}

impl MysqlBank {
    /// Makes the tables of an empty database.
    pub(crate) async fn found(admin_url: &str) {
        let admin = crate::mysql::Admin::connect_to(admin_url).await;
        let accounts: Vec<String> = (1..=ACCOUNTS).map(|id| format!("({id}, {BALANCE})")).collect();
        admin.run("create table cenote.account (id bigint primary key, balance bigint not null)").await;
        admin.run(&format!("insert into cenote.account values {}", accounts.join(", "))).await;
        admin.run("create table cenote.ledger (id bigint not null)").await;
    }

    /// Under which the server knows the pool's sessions.
    pub(crate) fn name(&self) -> String {
        self.pool.settings().program_name().expect("the pool is named").to_owned()
    }

    pub(crate) fn open(settings: SettingsBuilder) -> MysqlBank {
        MysqlBank { pool: crate::mysql::open(settings) }
    }
}

fn failed(error: Error) -> Failure {
    // Shutting down, interrupted, killed, offline, too many connections; a lock that took too long, a deadlock.
    const PROVOKED: [u16; 7] = [1053, 1317, 1927, 3169, 1040, 1205, 1213];
    failure!(error, |code: ErrorCode| PROVOKED.contains(&code.number()))
}

impl Bank for MysqlBank {
    async fn look_up(&self, tag: i64, account: i64) -> Result<i64, Failure> {
        let row = self.pool.query_one("select ?, balance from account where id = ?", &[&tag, &account]).await;
        row.map_err(failed)?.get(0).map_err(failed)
    }

    const AT_ONCE_HAS_ID: bool = false;

    async fn transfer_at_once(&self, transfer: Transfer) -> Result<(), Failure> {
        const SQL: &str = "update account set balance = balance + if(id = ?, -?, ?) where id in (?, ?)";
        let Transfer { from, to, amount, .. } = transfer;
        let executed = self.pool.execute(SQL, &[&from, &amount, &amount, &from, &to]).await.map_err(failed)?;
        match executed.affected_rows() {
            2 => Ok(()),
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
        let row = self.pool.query_one("select sleep(?)", &[&time.as_secs_f64()]).await.map_err(failed)?;
        // 1 when it was interrupted.
        row.get::<_, i64>(0).map(|_| ()).map_err(failed)
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
        const SQL: &str = "update account set balance = balance + ? where id = ?";
        match transaction.execute(SQL, &[&change, &account]).await.map_err(before_commit)?.affected_rows() {
            1 => {}
            rows => return Err(Failure::wrong(format!("an update of {rows} rows"))),
        }
    }
    transaction.execute("insert into ledger values (?)", &[&id]).await.map_err(before_commit)?;
    match ending {
        Ending::Commit => transaction.commit().await.map_err(failed),
        Ending::Rollback => transaction.rollback().await.map_err(before_commit),
        Ending::Drop => Ok(()),
    }
}

/// Whoever has the connection next would find an empty table, or the lock held.
async fn mess(pool: &Pool, number: i64) -> Result<(), Error> {
    let lease = pool.lease().await?;
    lease.query_one("select get_lock(?, 10)", &[&format!("soak {number}")]).await?;
    lease.execute("create temporary table account (id bigint, balance bigint)", &[]).await?;
    lease.execute("set autocommit = 0", &[]).await?;
    if number % 2 == 0 {
        lease.execute("insert into ledger values (?)", &[&-number]).await?;
    }
    Ok(())
}

/// A connection of one who may do everything.
pub(crate) struct MysqlOverseer {
    connection: Conn,
    program_name: String,
}

/// The pool's sessions: a condition on their number.
const OURS: &str = "in (select processlist_id from performance_schema.session_connect_attrs \
                    where attr_name = 'program_name' and attr_value = ?)";

impl MysqlOverseer {
    async fn column<T: mysql_async::prelude::FromValue + Send + 'static>(
        &mut self,
        sql: &str,
    ) -> Result<Vec<T>, String> {
        let rows: Result<Vec<(T,)>, _> = self.connection.exec(sql, (self.program_name.as_str(),)).await;
        rows.map(|rows| rows.into_iter().map(|(value,)| value).collect()).map_err(|error| error.to_string())
    }
}

impl Overseer for MysqlOverseer {
    async fn connect(url: &str, program_name: &str) -> Result<MysqlOverseer, String> {
        let options = OptsBuilder::from_opts(Opts::from_url(url).map_err(|error| error.to_string())?);
        let mut connection = Conn::new(options.prefer_socket(false)).await.map_err(|error| error.to_string())?;
        // What was confirmed outlives a SIGKILL; anew after each start.
        let durable = connection.query_drop("set global innodb_flush_log_at_trx_commit = 2").await;
        durable.map_err(|error| error.to_string())?;
        Ok(MysqlOverseer { connection, program_name: program_name.to_owned() })
    }

    async fn sessions(&mut self) -> Result<Vec<i64>, String> {
        self.column(&format!("select id from information_schema.processlist where id {OURS}")).await
    }

    async fn end_session(&mut self, number: i64) -> Result<(), String> {
        self.connection.query_drop(format!("kill {number}")).await.map_err(|error| error.to_string())
    }

    async fn held(&mut self) -> Result<Vec<String>, String> {
        self.column(&format!(
            "select concat('transaction of ', trx_mysql_thread_id, ', ', trx_rows_locked, ' rows locked') \
             from information_schema.innodb_trx where trx_mysql_thread_id {OURS}"
        ))
        .await
    }

    async fn money(&mut self) -> Result<i64, String> {
        let sql = "select cast(sum(balance) as signed) from cenote.account where ? <> ''";
        self.column(sql).await?.first().copied().ok_or_else(|| "no account".to_owned())
    }

    async fn ledger(&mut self) -> Result<Vec<i64>, String> {
        self.column("select id from cenote.ledger where ? <> '' order by id").await
    }
}
