//! `RawResult`: a result as it came, for those who carry its bytes elsewhere. It decodes nothing.

use std::fmt;
use std::sync::Arc;

use cenote_pool::{Reply, trace};
use postgres_types::ToSql;

use crate::ask::Query;
use crate::error::Error;
use crate::pool::Pool;
use crate::reply::{self, Reader};
use crate::row::Column;
use crate::statement::Statement;
use crate::wire::backend::{self, Body};

/// The result of one statement as it came: each field as its bytes, in the binary format of its type.
///
/// ```no_run
/// # async fn example(pool: cenote_postgres::Pool) -> Result<(), cenote_postgres::Error> {
/// let result = pool.query_raw("select id, name from item", &[]).await?;
/// let mut bytes = 0;
/// result.visit_fields(|field| bytes += field.map_or(0, <[u8]>::len))?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct RawResult {
    statement: Arc<Statement>,
    reply: Reply,
    rows: usize,
    rows_affected: u64,
}

impl Pool {
    /// Runs a statement and returns its result as it came: for what is to be decoded elsewhere.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub fn query_raw<'a>(&'a self, sql: &'a str, parameters: &'a [&'a (dyn ToSql + Sync)]) -> Query<'a, RawResult> {
        Query::new(self, sql, parameters, raw)
    }
}

fn raw(pool: &Pool, statement: Arc<Statement>, reply: Reply) -> Result<RawResult, Error> {
    let mut rows = 0;
    let mut reader = Reader::new(pool, &reply);
    let tag = reply::rows(&mut reader, |body| {
        rows += 1;
        backend::check_row(reply.get(body).unwrap_or_default(), statement.columns.len())
    })?;
    reply::finish(&mut reader)?;
    let rows_affected = backend::rows_affected(tag);
    trace::rows(rows_affected);
    Ok(RawResult { statement, reply, rows, rows_affected })
}

impl RawResult {
    /// Its columns. A statement that returns no rows has none.
    pub fn columns(&self) -> &[Column] {
        &self.statement.columns
    }

    /// Its number of rows.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether it has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// The number of rows that were returned, or affected.
    pub fn rows_affected(&self) -> u64 {
        self.rows_affected
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
        let mut messages = backend::Messages::new(&self.reply);
        while let Some(message) = messages.next()? {
            if message.tag != b'D' {
                continue;
            }
            let mut fields = Body(self.reply.get(message.body).unwrap_or_default());
            for _ in 0..fields.u16()? {
                visit(backend::field(&mut fields)?);
            }
        }
        Ok(())
    }
}

impl fmt::Debug for RawResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // No values: they may be anything, and this ends up in logs.
        f.debug_struct("RawResult").field("rows", &self.rows).field("rows_affected", &self.rows_affected).finish()
    }
}
