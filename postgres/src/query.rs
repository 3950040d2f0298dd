//! The verbs: `query`, `query_one`, `query_opt`, `query_as`, `query_typed`, `execute`.

use std::ops::Range;
use std::sync::Arc;

use cenote_pool::{Answered, Lookup, Reply, trace};
use postgres_types::{ToSql, Type};

use crate::ask::Query;
use crate::error::Error;
use crate::firewall;
use crate::from_row::FromRow;
use crate::language::Postgres;
use crate::pool::Pool;
use crate::reply::{self, Reader, Shape};
use crate::row::Row;
use crate::server_error::SqlState;
use crate::statement::{Statement, signature, tell};
use crate::wire::backend::{self, ColumnDescription};
use crate::wire::frontend;

const NO_ROW: &str = "the query returned no row";
const MORE_ROWS: &str = "the query returned more than one row";

impl Pool {
    /// Runs a query and returns its rows.
    ///
    /// The statement is prepared once on each connection and its types are learned once in the process. Dropping the
    /// future abandons the query: it runs, and its rows are read and dropped.
    ///
    /// ```no_run
    /// # async fn example(pool: cenote_postgres::Pool) -> Result<(), cenote_postgres::Error> {
    /// for row in pool.query("select id, name from item where price < $1", &[&100]).await? {
    ///     let (id, name): (i32, &str) = (row.get("id")?, row.get("name")?);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub fn query<'a>(&'a self, sql: &'a str, parameters: &'a [&'a (dyn ToSql + Sync)]) -> Query<'a, Vec<Row>> {
        Query::new(self, sql, parameters, all_rows)
    }

    /// Runs a query that returns exactly one row.
    ///
    /// # Errors
    ///
    /// Also when there is no row, or more than one.
    pub fn query_one<'a>(&'a self, sql: &'a str, parameters: &'a [&'a (dyn ToSql + Sync)]) -> Query<'a, Row> {
        Query::new(self, sql, parameters, exactly_one_row)
    }

    /// Runs a query that returns at most one row.
    ///
    /// # Errors
    ///
    /// Also when there is more than one row.
    pub fn query_opt<'a>(&'a self, sql: &'a str, parameters: &'a [&'a (dyn ToSql + Sync)]) -> Query<'a, Option<Row>> {
        Query::new(self, sql, parameters, one_row)
    }

    /// Runs a query and makes a value of each row.
    ///
    /// ```no_run
    /// # async fn example(pool: cenote_postgres::Pool) -> Result<(), cenote_postgres::Error> {
    /// let items: Vec<(i32, String)> = pool.query_as("select id, name from item", &[]).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Also when a row does not fit `T`.
    pub fn query_as<'a, T: FromRow + 'a>(
        &'a self,
        sql: &'a str,
        parameters: &'a [&'a (dyn ToSql + Sync)],
    ) -> Query<'a, Vec<T>> {
        Query::new(self, sql, parameters, values::<T>)
    }

    /// Runs a query whose parameter types the caller names: always one round trip, also for the first use.
    ///
    /// ```no_run
    /// # use cenote_postgres::types::Type;
    /// # async fn example(pool: cenote_postgres::Pool) -> Result<(), cenote_postgres::Error> {
    /// let rows = pool.query_typed("select name from item where id = $1", &[(&42, Type::INT4)]).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn query_typed(&self, sql: &str, parameters: &[(&(dyn ToSql + Sync), Type)]) -> Result<Vec<Row>, Error> {
        let (statement, reply) = self.ask_typed(sql, parameters).await?;
        all_rows(self, statement, reply)
    }

    pub(crate) async fn query_typed_opt(
        &self,
        sql: &str,
        parameters: &[(&(dyn ToSql + Sync), Type)],
    ) -> Result<Option<Row>, Error> {
        let (statement, reply) = self.ask_typed(sql, parameters).await?;
        one_row(self, statement, reply)
    }

    /// Runs a statement and returns the number of rows it affected; rows it returns are dropped.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub fn execute<'a>(&'a self, sql: &'a str, parameters: &'a [&'a (dyn ToSql + Sync)]) -> Query<'a, u64> {
        Query::new(self, sql, parameters, affected)
    }

    async fn ask_typed(
        &self,
        sql: &str,
        parameters: &[(&(dyn ToSql + Sync), Type)],
    ) -> Result<(Arc<Statement>, Reply), Error> {
        frontend::check_text(sql)?;
        let (values, types): (Vec<&(dyn ToSql + Sync)>, Vec<Type>) = parameters.iter().cloned().unzip();
        let mut healed = false;
        loop {
            let statement = match self.language().statements.look_up(sql, &signature(&types)) {
                Lookup::Known(statement) => {
                    self.admit(statement.effect)?;
                    statement
                }
                Lookup::Wait(_) if self.is_leased() => Arc::new(self.learn(sql, &types).await?),
                Lookup::Wait(waiting) => match self.wait_for_lesson(waiting, sql, &types).await {
                    Some(lesson) => {
                        let statement = lesson?;
                        self.admit(statement.effect)?;
                        statement
                    }
                    None => continue,
                },
                Lookup::Learn(learning) => {
                    let mut first_reply = None;
                    // Nobody waits behind what else a lease does.
                    let learning = (!self.is_leased()).then_some(learning);
                    let lesson = self.learn_by_running(sql, &types, &values, &mut first_reply).await;
                    // What went wrong with this run says nothing to those who wait to run it with values of their own.
                    let statement = match learning {
                        None => self.share(sql, &types, lesson?)?,
                        Some(learning) => tell(learning, lesson)?,
                    };
                    match first_reply {
                        Some(reply) => return Ok((statement, reply)),
                        None => continue,
                    }
                }
            };
            let answered = self
                .run(&[&statement.preparation], |out| frontend::execute_and_sync(&statement.template, &values, out))
                .await?;
            if !healed && self.heal(sql, &types, &statement, &answered) {
                healed = true;
                continue;
            }
            return match reply::new_description(&answered.reply)? {
                None => Ok((statement, answered.reply)),
                Some(columns) => {
                    let described = self.described_as(sql, &types, &statement, columns, Some(&answered)).await?;
                    Ok((described, answered.reply))
                }
            };
        }
    }

    /// Learns a statement whose parameter types are named, in the trip that runs it.
    async fn learn_by_running(
        &self,
        sql: &str,
        types: &[Type],
        values: &[&(dyn ToSql + Sync)],
        reply: &mut Option<Reply>,
    ) -> Result<Statement, Error> {
        self.admit(firewall::classify(sql))?;
        let mut asking = self.asking(sql, types)?;
        let (answered, columns) = loop {
            let name = frontend::statement_name(asking.preparation.id);
            let answered = self
                .run(&[&asking.preparation], |out| {
                    out.extend_from_slice(&asking.describes);
                    frontend::execute(&name, types, values, out)?;
                    frontend::sync(out);
                    Ok(())
                })
                .await?;
            if let Some(columns) = reply::new_description(&answered.reply)? {
                break (answered, columns);
            }
            // It was not prepared after all, and the reply says why.
            asking.is_refused(&answered);
            let Some(refusal) = reply::refusal(&answered.reply) else {
                return Err(Error::peer("a statement without its description"));
            };
            if !asking.was_led_astray(Some(refusal.error.code())) {
                return Err(self.refused(refusal.error));
            }
            asking = self.asking_alone(sql, types)?;
        };
        asking.is_answered(&answered);
        *reply = Some(answered.reply);
        let parameters = types.iter().map(Type::oid).collect();
        self.resolve(sql, asking.preparation.id, Shape { parameters, columns }).await.map_err(Error::after_running)
    }

    /// Whether the reply says that what was known of the statement does not hold any more, and running it again cannot run
    /// it twice: it failed before it ran. Then what was known is forgotten. In a transaction, which has failed with it, there is
    /// no other try.
    pub(crate) fn heal(
        &self,
        sql: &str,
        types: &[Type],
        statement: &Arc<Statement>,
        answered: &Answered<Postgres>,
    ) -> bool {
        if !answered.failed {
            return false;
        }
        self.forget_stale(sql, types, statement, answered) && !self.machine().is_in_transaction()
    }

    /// The same, whether or not another try is possible.
    fn forget_stale(
        &self,
        sql: &str,
        types: &[Type],
        statement: &Arc<Statement>,
        answered: &Answered<Postgres>,
    ) -> bool {
        // A statement that had begun may have done something that stays (a procedure that commits), whatever it says then.
        let Some(refusal) = reply::refusal(&answered.reply).filter(|refusal| refusal.nothing_stays) else {
            return false;
        };
        let code = refusal.error.code();
        let forget = || {
            if let Some(id) = statement.preparation.id {
                answered.forget_prepared(id);
            }
        };
        if refusal.while_preparing {
            // The connection was to prepare it and could not: a table or type it names is gone, or another one now.
            forget();
            self.language().types.clear();
            self.unlearn(sql, types, statement);
            return true;
        }
        if code.class() == "42" && code != SqlState::INSUFFICIENT_PRIVILEGE {
            // It made sense when it was learned: what it names has changed, and with it perhaps its parameters.
            self.language().types.clear();
            self.unlearn(sql, types, statement);
            return true;
        }
        match code {
            // By the routine, not by the message: that is translated.
            SqlState::FEATURE_NOT_SUPPORTED if refusal.error.routine() == Some("RevalidateCachedQuery") => {
                self.unlearn(sql, types, statement);
                true
            }
            SqlState::INVALID_SQL_STATEMENT_NAME | SqlState::DUPLICATE_PREPARED_STATEMENT => {
                forget();
                // Under another name, since the next try may meet a connection that is as wrong about this one.
                self.unlearn(sql, types, statement);
                true
            }
            // A type was dropped and made anew under the same name.
            SqlState::INTERNAL_ERROR if refusal.error.message().starts_with("cache lookup failed for type") => {
                self.language().types.clear();
                self.unlearn(sql, types, statement);
                true
            }
            _ => false,
        }
    }

    /// The statement with these columns, as a connection that prepared it just now tells them. If they are not those
    /// that were known, they count from here on; if they are, `confirmed` hears of it.
    pub(crate) async fn described_as(
        &self,
        sql: &str,
        types: &[Type],
        statement: &Arc<Statement>,
        columns: Vec<ColumnDescription>,
        confirmed: Option<&Answered<Postgres>>,
    ) -> Result<Arc<Statement>, Error> {
        if statement.is_described_by(&columns) {
            if let (Some(answered), Some(id)) = (confirmed, statement.preparation.id) {
                answered.confirm_prepared(id);
            }
            return Ok(Arc::clone(statement));
        }
        self.unlearn(sql, types, statement);
        let parameters = statement.template.types().iter().map(Type::oid).collect();
        let shape = Shape { parameters, columns };
        let resolved = self.resolve(sql, statement.preparation.id, shape).await;
        resolved.map(Arc::new).map_err(Error::after_running)
    }
}

fn all_rows(pool: &Pool, statement: Arc<Statement>, reply: Reply) -> Result<Vec<Row>, Error> {
    let mut rows = Vec::new();
    let mut reader = Reader::new(pool, &reply);
    reply::rows(&mut reader, |body| {
        rows.push(Row::new(reply.clone(), body, Arc::clone(&statement))?);
        Ok(())
    })?;
    reply::finish(&mut reader)?;
    trace::rows(rows.len() as u64);
    Ok(rows)
}

fn values<T: FromRow>(pool: &Pool, statement: Arc<Statement>, reply: Reply) -> Result<Vec<T>, Error> {
    all_rows(pool, statement, reply)?.iter().map(T::from_row).collect()
}

fn affected(pool: &Pool, _: Arc<Statement>, reply: Reply) -> Result<u64, Error> {
    let mut reader = Reader::new(pool, &reply);
    let tag = reply::rows(&mut reader, |_| Ok(()))?;
    reply::finish(&mut reader)?;
    let count = backend::rows_affected(tag);
    trace::rows(count);
    Ok(count)
}

fn exactly_one_row(pool: &Pool, statement: Arc<Statement>, reply: Reply) -> Result<Row, Error> {
    one_row(pool, statement, reply)?.ok_or_else(|| Error::row_count(NO_ROW))
}

/// The one row of a reply. It takes the reply over, so that the lookup of one row allocates nothing besides it.
#[inline]
fn one_row(pool: &Pool, statement: Arc<Statement>, reply: Reply) -> Result<Option<Row>, Error> {
    let mut found: Option<Range<usize>> = None;
    let mut more = false;
    let mut reader = Reader::new(pool, &reply);
    reply::rows(&mut reader, |body| {
        more = found.replace(body).is_some();
        if more { Err(Error::row_count(MORE_ROWS)) } else { Ok(()) }
    })?;
    reply::finish(&mut reader)?;
    trace::rows(u64::from(found.is_some()));
    found.map(|body| Row::new(reply, body, statement)).transpose()
}
