//! The verbs: `query`, `query_one`, `query_opt`, `query_as`, `query_text`, `execute`.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use cenote_pool::Reply;

use cenote_pool::trace;

use crate::ask::{Parameters, Query};
use crate::error::Error;
use crate::from_row::FromRow;
use crate::pool::Pool;
use crate::reply::{self, Completion, RowBytes};
use crate::row::Row;
use crate::statement::Statement;
use crate::value::Format;
use crate::wire::column::Columns;
use crate::wire::frontend;

const NO_ROW: &str = "the query returned no row";
const MORE_ROWS: &str = "the query returned more than one row";

/// What a statement did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Executed {
    pub(crate) completion: Completion,
}

impl Executed {
    /// Rows it changed. An UPDATE that finds a row as it would make it has not changed it, unless the settings say
    /// `found_rows`.
    pub fn affected_rows(&self) -> u64 {
        self.completion.affected_rows
    }

    /// The value that an INSERT drew for an AUTO_INCREMENT column (of several rows the first), or that
    /// `LAST_INSERT_ID(expression)` was given. `None`: there was none.
    pub fn last_insert_id(&self) -> Option<u64> {
        (self.completion.last_insert_id != 0).then_some(self.completion.last_insert_id)
    }

    /// How many warnings the server has. What they say stays with the connection, which is shared.
    pub fn warnings(&self) -> u16 {
        self.completion.warnings
    }
}

impl Pool {
    /// Runs a query and returns its rows.
    ///
    /// The statement is prepared once on each connection and learned once in the process. Dropping the future abandons the
    /// query: it runs, and its rows are read and dropped.
    ///
    /// ```no_run
    /// # async fn example(pool: cenote_mysql::Pool) -> Result<(), cenote_mysql::Error> {
    /// for row in pool.query("select id, name from item where price < ?", &[&100]).await? {
    ///     let (id, name): (i32, &str) = (row.get("id")?, row.get("name")?);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub fn query<'a>(&'a self, sql: &'a str, parameters: Parameters<'a>) -> Query<'a, Vec<Row>> {
        Query::new(self, sql, parameters, all_rows)
    }

    /// Runs a query that returns exactly one row.
    ///
    /// # Errors
    ///
    /// Also when there is no row, or more than one.
    pub fn query_one<'a>(&'a self, sql: &'a str, parameters: Parameters<'a>) -> Query<'a, Row> {
        Query::new(self, sql, parameters, exactly_one_row)
    }

    /// Runs a query that returns at most one row.
    ///
    /// # Errors
    ///
    /// Also when there is more than one row.
    pub fn query_opt<'a>(&'a self, sql: &'a str, parameters: Parameters<'a>) -> Query<'a, Option<Row>> {
        Query::new(self, sql, parameters, one_row)
    }

    /// Runs a query and makes a value of each row.
    ///
    /// ```no_run
    /// # async fn example(pool: cenote_mysql::Pool) -> Result<(), cenote_mysql::Error> {
    /// let items: Vec<(i32, String)> = pool.query_as("select id, name from item", &[]).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Also when a row does not fit `T`.
    pub fn query_as<'a, T: FromRow + 'a>(&'a self, sql: &'a str, parameters: Parameters<'a>) -> Query<'a, Vec<T>> {
        Query::new(self, sql, parameters, values::<T>)
    }

    /// Runs a statement and tells what it did; rows it returns are dropped.
    ///
    /// ```no_run
    /// # async fn example(pool: cenote_mysql::Pool) -> Result<(), cenote_mysql::Error> {
    /// let executed = pool.execute("insert into item(name) values (?)", &[&"rope"]).await?;
    /// assert_eq!(executed.affected_rows(), 1);
    /// let id: Option<u64> = executed.last_insert_id();
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub fn execute<'a>(&'a self, sql: &'a str, parameters: Parameters<'a>) -> Query<'a, Executed> {
        Query::new(self, sql, parameters, executed)
    }

    /// Runs a statement without preparing it: one round trip also for the first use, and rows in the text protocol. For
    /// statements that run once, or that the server does not prepare; never put values into the text.
    ///
    /// ```no_run
    /// # async fn example(pool: cenote_mysql::Pool) -> Result<(), cenote_mysql::Error> {
    /// let version: String = pool.query_text("select version()").await?[0].get(0)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn query_text(&self, sql: &str) -> Result<Vec<Row>, Error> {
        let effects = self.admit_text(sql).await?;
        let max_allowed_packet = self.language().max_allowed_packet();
        frontend::check_text(sql, max_allowed_packet)?;
        let answered = self.run(&[], |out| frontend::query(sql, max_allowed_packet, out)).await?;
        self.note_run(&effects, answered.failed, &answered.reply);
        rows(self, &ArcSwapOption::empty(), Format::Text, answered.reply)
    }
}

fn all_rows(pool: &Pool, statement: Arc<Statement>, reply: Reply) -> Result<Vec<Row>, Error> {
    rows(pool, &statement.columns, statement.format(), reply)
}

fn rows(pool: &Pool, known: &ArcSwapOption<Columns>, format: Format, reply: Reply) -> Result<Vec<Row>, Error> {
    let mut rows = Vec::new();
    reply::rows(&reply, known, pool.session(), |row, columns| {
        rows.push(row.into_row(reply.clone(), Arc::clone(columns), format)?);
        Ok(())
    })?;
    trace::rows(rows.len() as u64);
    Ok(rows)
}

fn values<T: FromRow>(pool: &Pool, statement: Arc<Statement>, reply: Reply) -> Result<Vec<T>, Error> {
    all_rows(pool, statement, reply)?.iter().map(T::from_row).collect()
}

fn executed(pool: &Pool, statement: Arc<Statement>, reply: Reply) -> Result<Executed, Error> {
    let completion = reply::completion(&reply, &statement.columns, pool.session())?;
    trace::rows(completion.affected_rows);
    Ok(Executed { completion })
}

fn exactly_one_row(pool: &Pool, statement: Arc<Statement>, reply: Reply) -> Result<Row, Error> {
    one_row(pool, statement, reply)?.ok_or_else(|| Error::row_count(NO_ROW))
}

/// The one row of a reply. It takes the reply over, so that the lookup of one row allocates nothing besides it.
#[inline]
fn one_row(pool: &Pool, statement: Arc<Statement>, reply: Reply) -> Result<Option<Row>, Error> {
    let mut found: Option<(RowBytes, Arc<Columns>)> = None;
    let keep = |row, columns: &Arc<Columns>| match found.replace((row, Arc::clone(columns))) {
        Some(_) => Err(Error::row_count(MORE_ROWS)),
        None => Ok(()),
    };
    reply::rows(&reply, &statement.columns, pool.session(), keep)?;
    trace::rows(u64::from(found.is_some()));
    found.map(|(row, columns)| row.into_row(reply, columns, statement.format())).transpose()
}
