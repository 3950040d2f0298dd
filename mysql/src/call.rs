//! `call`: a stored procedure, with all of its results.

use std::sync::Arc;

use cenote_pool::Reply;

use crate::ask::{Parameters, Query};
use crate::error::Error;
use crate::pool::Pool;
use crate::query::Executed;
use crate::reply;
use crate::row::Row;
use crate::statement::Statement;
use crate::value::Format;
use crate::wire::column::{Column, Columns};
use crate::wire::frontend;
use crate::wire::status::StatusFlags;

/// One of the results of a procedure: rows, or that a statement has run.
#[derive(Clone, Debug)]
pub struct ResultSet {
    rows: Vec<Row>,
    columns: Option<Arc<Columns>>,
    executed: Executed,
    out_parameters: bool,
}

impl ResultSet {
    /// Its rows, in order.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Its rows, in order.
    pub fn into_rows(self) -> Vec<Row> {
        self.rows
    }

    /// The columns of its rows, also when there are none of these; `None` of a result that is not one with rows.
    pub fn columns(&self) -> Option<&[Column]> {
        self.columns.as_deref().map(Columns::as_slice)
    }

    /// What was done.
    pub fn executed(&self) -> Executed {
        self.executed
    }

    /// Whether its one row holds the procedure's OUT and INOUT parameters, of those that were given as `?`.
    pub fn is_out_parameters(&self) -> bool {
        self.out_parameters
    }
}

impl Pool {
    /// See `call` of a lease: on a shared connection it is refused.
    pub(crate) fn call<'a>(&'a self, sql: &'a str, parameters: Parameters<'a>) -> Query<'a, Vec<ResultSet>> {
        Query::new(self, sql, parameters, all_results)
    }

    pub(crate) async fn call_text(&self, sql: &str) -> Result<Vec<ResultSet>, Error> {
        let effects = self.admit_text(sql).await?;
        let max_allowed_packet = self.language().max_allowed_packet();
        frontend::check_text(sql, max_allowed_packet)?;
        let answered = self.run(&[], |out| frontend::query(sql, max_allowed_packet, out)).await?;
        self.note_run(&effects, answered.failed, &answered.reply);
        results(Format::Text, &answered.reply)
    }
}

fn all_results(_: &Pool, statement: Arc<Statement>, reply: Reply) -> Result<Vec<ResultSet>, Error> {
    results(statement.format(), &reply)
}

fn results(format: Format, reply: &Reply) -> Result<Vec<ResultSet>, Error> {
    let mut results = Vec::new();
    let rows = std::cell::RefCell::new(Vec::new());
    let keep = |row: reply::RowBytes, columns: &Arc<Columns>| {
        rows.borrow_mut().push(row.into_row(reply.clone(), Arc::clone(columns), format)?);
        Ok(())
    };
    reply::results(reply, keep, |end| {
        results.push(ResultSet {
            rows: rows.take(),
            columns: end.columns,
            executed: Executed { completion: end.completion },
            out_parameters: end.status.contains(StatusFlags::PS_OUT_PARAMETERS),
        });
    })?;
    Ok(results)
}
