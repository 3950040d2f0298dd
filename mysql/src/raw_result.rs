//! `RawResult`: a result as it came, for those who carry its bytes elsewhere. It decodes nothing.

use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use cenote_pool::{Reply, trace};

use crate::ask::{Parameters, Query};
use crate::error::Error;
use crate::pool::Pool;
use crate::query::Executed;
use crate::reply::{self, RowBytes, Session};
use crate::statement::Statement;
use crate::value::Format;
use crate::wire::column::{Column, Columns};
use crate::wire::{binary_row, text_row};

/// The result of one statement as it came: each field as its bytes, in the [`format`](RawResult::format) of the result.
///
/// ```no_run
/// # async fn example(pool: cenote_mysql::Pool) -> Result<(), cenote_mysql::Error> {
/// let result = pool.query_raw("select id, name from item", &[]).await?;
/// let mut bytes = 0;
/// result.visit_fields(|field| bytes += field.map_or(0, <[u8]>::len))?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct RawResult {
    /// `None`: it is none with rows.
    columns: Option<Arc<Columns>>,
    format: Format,
    reply: Reply,
    rows: usize,
    executed: Executed,
}

impl Pool {
    /// Runs a statement and returns its result as it came: for what is to be decoded elsewhere.
    ///
    /// # Errors
    ///
    /// See [`Error`](crate::Error).
    pub fn query_raw<'a>(&'a self, sql: &'a str, parameters: Parameters<'a>) -> Query<'a, RawResult> {
        Query::new(self, sql, parameters, raw)
    }
}

fn raw(pool: &Pool, statement: Arc<Statement>, reply: Reply) -> Result<RawResult, Error> {
    let format = statement.format();
    let mut rows = 0;
    let (completion, columns) = reply::rows_and_columns(&reply, &statement.columns, pool.session(), |row, columns| {
        rows += 1;
        fields(&row, &reply, columns, format, |_| ())
    })?;
    trace::rows(if columns.is_some() { rows as u64 } else { completion.affected_rows });
    Ok(RawResult { columns, format, reply, rows, executed: Executed { completion } })
}

/// Shows `visit` each field of a row, checked.
fn fields(
    row: &RowBytes,
    reply: &[u8],
    columns: &Columns,
    format: Format,
    visit: impl FnMut(Option<&[u8]>),
) -> Result<(), Error> {
    let body = match row {
        RowBytes::Within(range) => reply.get(range.clone()).unwrap_or_default(),
        RowBytes::Joined(bytes) => bytes,
    };
    match format {
        Format::Binary => binary_row::visit(body, columns.as_slice(), visit),
        Format::Text => text_row::visit(body, columns.len(), visit),
    }
}

impl RawResult {
    /// Its columns. A statement that returns no rows has none.
    pub fn columns(&self) -> &[Column] {
        self.columns.as_deref().map_or(&[], Columns::as_slice)
    }

    /// How its fields are written.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Its number of rows.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether it has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// What the statement did.
    pub fn executed(&self) -> Executed {
        self.executed
    }

    /// How many bytes the server's reply has: all fields together have less.
    pub fn reply_bytes(&self) -> usize {
        self.reply.len()
    }

    /// Shows `visit` each field, row by row; NULL is `None`.
    ///
    /// # Errors
    ///
    /// None for a result of this crate: it was checked when it came.
    pub fn visit_fields(&self, mut visit: impl FnMut(Option<&[u8]>)) -> Result<(), Error> {
        let Some(columns) = &self.columns else { return Ok(()) };
        let known = ArcSwapOption::new(Some(Arc::clone(columns)));
        // Whoever asked for it has passed the check of the session.
        let each = |row, columns: &Arc<Columns>| fields(&row, &self.reply, columns, self.format, &mut visit);
        reply::rows_and_columns(&self.reply, &known, Session::Leased, each).map(|_| ())
    }
}

impl fmt::Debug for RawResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // No values: they may be anything, and this ends up in logs.
        f.debug_struct("RawResult").field("rows", &self.rows).field("executed", &self.executed).finish()
    }
}
