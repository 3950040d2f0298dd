//! `batch`: several statements of one caller under one Sync: one round trip, all or nothing, on a shared connection.

use std::sync::Arc;
use std::time::Instant;

use cenote_pool::Answered;
use postgres_types::ToSql;

use crate::error::Error;
use crate::language::Postgres;
use crate::pool::Pool;
use crate::reply::{self, Part, Reader};
use crate::row::Row;
use crate::statement::Statement;
use crate::wire::frontend;

/// Statements of one batch: each may be one more statement prepared on the connection, and all replies are held at
/// once.
const STATEMENTS_MAX: usize = 1_000;

/// Statements that run together. Made by [`Pool::batch`].
#[derive(Debug)]
pub struct Batch<'a> {
    pool: &'a Pool,
    statements: Vec<(&'a str, &'a [&'a (dyn ToSql + Sync)])>,
}

/// What one statement of a batch did.
#[derive(Clone, Debug)]
pub struct BatchResult {
    rows: Vec<Row>,
    rows_affected: u64,
}

impl BatchResult {
    /// The rows it returned.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// The rows it returned.
    pub fn into_rows(self) -> Vec<Row> {
        self.rows
    }

    /// The number of rows it affected or returned.
    pub fn rows_affected(&self) -> u64 {
        self.rows_affected
    }
}

impl Pool {
    /// Several statements in one round trip and one transaction: all of them happen, or none.
    ///
    /// A statement that commits by itself (`CALL` of a procedure that does, `VACUUM`) does not belong in a batch: what it
    /// committed stays. They run in order, and a later one sees what an earlier one did. The parameters of one cannot depend on the
    /// rows of another: all leave before the first answer comes.
    ///
    /// ```no_run
    /// # async fn example(pool: cenote_postgres::Pool) -> Result<(), cenote_postgres::Error> {
    /// let results = pool
    ///     .batch()
    ///     .add("update account set balance = balance - $1 where id = $2", &[&100_i64, &1])
    ///     .add("update account set balance = balance + $1 where id = $2", &[&100_i64, &2])
    ///     .run()
    ///     .await?;
    /// assert_eq!(results[0].rows_affected(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn batch(&self) -> Batch<'_> {
        Batch { pool: self, statements: Vec::new() }
    }
}

impl<'a> Batch<'a> {
    /// Adds a statement with its parameters.
    #[must_use]
    pub fn add(mut self, sql: &'a str, parameters: &'a [&'a (dyn ToSql + Sync)]) -> Batch<'a> {
        self.statements.push((sql, parameters));
        self
    }

    /// Runs them. An empty batch does nothing.
    ///
    /// # Errors
    ///
    /// As for a single statement; nothing has happened then, and [`Error::batch_index`] says which one failed, where
    /// one did. When the connection was lost after it was sent, it is unknown whether all or nothing has happened.
    pub async fn run(self) -> Result<Vec<BatchResult>, Error> {
        if self.statements.is_empty() {
            return Ok(Vec::new());
        }
        if self.statements.len() > STATEMENTS_MAX {
            let count = self.statements.len();
            return Err(Error::caller(format!("a batch of {count} statements; it may have {STATEMENTS_MAX}")));
        }
        let began = Instant::now();
        let mut healed = false;
        // By their places; empty as long as there are none.
        let mut learned_anew: Vec<Option<Arc<Statement>>> = Vec::new();
        loop {
            let mut known = Vec::with_capacity(self.statements.len());
            for (index, (sql, parameters)) in self.statements.iter().enumerate() {
                frontend::check_parameters(parameters.len()).map_err(|error| error.in_batch(index))?;
                known.push(match learned_anew.get(index) {
                    Some(Some(statement)) => Arc::clone(statement),
                    _ => self.pool.statement(sql, &[]).await.map_err(|error| error.in_batch(index))?,
                });
            }
            // An unnamed one is gone when the next one is prepared: it is prepared where it runs.
            let named = known.iter().filter(|statement| statement.preparation.id.is_some());
            let preparations: Vec<_> = named.map(|statement| &statement.preparation).collect();
            let answered = match self.pool.run(&preparations, |out| self.encode(&known, out)).await {
                Ok(answered) => answered,
                Err(error) => {
                    let (known, sqls) = (known.iter(), self.statements.iter().map(|(sql, _)| sql));
                    let mut doubted = known.zip(sqls).enumerate();
                    let Some((index, (statement, sql))) = error.batch_index().and_then(|index| doubted.nth(index))
                    else {
                        return Err(error);
                    };
                    let otherwise = self.pool.known_otherwise(sql, statement, error, began).await;
                    let otherwise = otherwise.map_err(|error| error.in_batch(index))?;
                    learned_anew.resize(self.statements.len(), None);
                    learned_anew.iter_mut().skip(index).take(1).for_each(|anew| anew.clone_from(&otherwise));
                    continue;
                }
            };
            match self.read(&known, &answered).await {
                Ok(results) => return Ok(results),
                Err(error) => {
                    // The whole batch was undone, so running it again cannot run it twice.
                    let stale = |statement: &Arc<Statement>, sql: &str| self.pool.heal(sql, &[], statement, &answered);
                    let heals = known.iter().zip(&self.statements).filter(|(known, (sql, _))| stale(known, sql));
                    if healed || heals.count() == 0 {
                        return Err(error);
                    }
                    healed = true;
                }
            }
        }
    }

    fn encode(&self, known: &[Arc<Statement>], out: &mut bytes::BytesMut) -> Result<(), Error> {
        for (index, (statement, (_, parameters))) in known.iter().zip(&self.statements).enumerate() {
            if statement.preparation.id.is_none() {
                out.extend_from_slice(&statement.preparation.bytes);
            }
            frontend::execute_described(&statement.template, parameters, out).map_err(|error| error.in_batch(index))?;
        }
        frontend::sync(out);
        Ok(())
    }

    async fn read(&self, known: &[Arc<Statement>], answered: &Answered<Postgres>) -> Result<Vec<BatchResult>, Error> {
        let mut reader = Reader::new(self.pool, &answered.reply);
        let mut results = Vec::with_capacity(known.len());
        // What connections that had to prepare something say of it comes first, and is said again for each statement.
        for (index, (statement, (sql, _))) in known.iter().zip(&self.statements).enumerate() {
            let result = self.read_one(&mut reader, answered, statement, sql).await;
            results.push(result.map_err(|error| error.in_batch(index))?);
        }
        reply::finish(&mut reader)?;
        Ok(results)
    }

    async fn read_one(
        &self,
        reader: &mut Reader<'_>,
        answered: &Answered<Postgres>,
        statement: &Arc<Statement>,
        sql: &str,
    ) -> Result<BatchResult, Error> {
        let mut columns = Vec::new();
        let mut bodies = Vec::new();
        let rows_affected = loop {
            match reader.next()? {
                Part::Columns(body) => columns = crate::wire::backend::row_description(body)?,
                Part::NoColumns => columns.clear(),
                Part::Parameters(_) => {}
                Part::Row(body) => bodies.push(body),
                Part::Complete(tag) => break crate::wire::backend::rows_affected(tag),
                Part::Ready(_) => return Err(Error::peer("a statement without its end")),
            }
        };
        let reply = &answered.reply;
        let confirmed = reply::may_describe(reply).then_some(answered);
        let statement = self.pool.described_as(sql, &[], statement, columns, confirmed).await?;
        let rows = bodies.into_iter().map(|body| Row::new(reply.clone(), body, Arc::clone(&statement)));
        Ok(BatchResult { rows: rows.collect::<Result<_, _>>()?, rows_affected })
    }
}
