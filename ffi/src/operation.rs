//! Operations: statements and batches, as futures on their way to an outcome.

use std::time::Duration;

use cenote_mysql as mysql;
use cenote_mysql::value::ToValue;
use cenote_postgres as postgres;
use futures_util::future::try_join_all;
use postgres_types::ToSql;

use crate::context::Work;
use crate::error::ErrorObject;
use crate::pool::Database;
use crate::session::{self, Held, Session};
use crate::value::Value;

/// What an operation came to.
pub(crate) enum Outcome {
    Postgres(postgres::RawResult),
    MySql(mysql::RawResult),
    PostgresBatch(Vec<postgres::BatchResult>),
    MySqlBatch(Vec<mysql::RawResult>),
    Session(Session),
    /// It was done, and there is nothing to tell of it.
    Done,
    Answer(bool),
    Failed(Box<ErrorObject>),
    /// An HTTP request that came.
    Request(Vec<u8>),
    /// An HTTP server has ended, as it should or not.
    Ended(Option<std::io::Error>),
}

/// Where a statement runs.
pub(crate) enum Target {
    Pool(Database),
    Session(std::sync::Arc<Session>),
}

/// A statement with its parameters.
pub(crate) struct Statement {
    pub(crate) sql: Box<str>,
    pub(crate) values: Vec<Value>,
}

/// What the host says of a statement besides.
#[derive(Clone, Copy, Default)]
pub(crate) struct Terms {
    /// It may run twice.
    pub(crate) idempotent: bool,
    /// It is to be answered within this; `None`: whenever it is.
    pub(crate) limit: Option<Duration>,
}

pub(crate) fn postgres(error: postgres::Error) -> Outcome {
    Outcome::Failed(Box::new(ErrorObject::postgres(&error)))
}

pub(crate) fn mysql(error: mysql::Error) -> Outcome {
    Outcome::Failed(Box::new(ErrorObject::mysql(&error)))
}

/// Runs one statement.
pub(crate) fn query(target: Target, statement: Statement, terms: Terms) -> Work {
    match target {
        Target::Pool(Database::Postgres(pool)) => Box::pin(async move {
            let values = postgres_values(&statement.values);
            postgres_outcome(pool.query_raw(&statement.sql, &values), terms).await
        }),
        Target::Pool(Database::MySql(pool)) => Box::pin(async move {
            let values = mysql_values(&statement.values);
            mysql_outcome(pool.query_raw(&statement.sql, &values), terms).await
        }),
        Target::Session(session) => Box::pin(async move {
            let held = session.held.read().await;
            match &*held {
                Some(Held::PostgresLease(lease)) => {
                    let values = postgres_values(&statement.values);
                    postgres_outcome(lease.query_raw(&statement.sql, &values), terms).await
                }
                Some(Held::PostgresTransaction(transaction)) => {
                    let values = postgres_values(&statement.values);
                    postgres_outcome(transaction.query_raw(&statement.sql, &values), terms).await
                }
                Some(Held::MySqlLease(lease)) => {
                    let values = mysql_values(&statement.values);
                    mysql_outcome(lease.query_raw(&statement.sql, &values), terms).await
                }
                Some(Held::MySqlTransaction(transaction)) => {
                    let values = mysql_values(&statement.values);
                    mysql_outcome(transaction.query_raw(&statement.sql, &values), terms).await
                }
                None => Outcome::Failed(session::ended()),
            }
        }),
    }
}

async fn postgres_outcome(query: postgres::Query<'_, postgres::RawResult>, terms: Terms) -> Outcome {
    let query = if terms.idempotent { query.idempotent() } else { query };
    let result = match terms.limit {
        None => query.await,
        Some(limit) => query.timeout(limit).await,
    };
    result.map_or_else(postgres, Outcome::Postgres)
}

async fn mysql_outcome(query: mysql::Query<'_, mysql::RawResult>, terms: Terms) -> Outcome {
    let query = if terms.idempotent { query.idempotent() } else { query };
    let result = match terms.limit {
        None => query.await,
        Some(limit) => query.timeout(limit).await,
    };
    result.map_or_else(mysql, Outcome::MySql)
}

/// Runs several statements: all of them, or none.
pub(crate) fn batch(target: Target, statements: Vec<Statement>) -> Work {
    Box::pin(async move {
        match target {
            Target::Pool(Database::Postgres(pool)) => postgres_batch(pool.batch(), &statements).await,
            Target::Pool(Database::MySql(pool)) => match pool.begin().await {
                Ok(transaction) => mysql_batch(transaction, &statements).await,
                Err(error) => mysql(error),
            },
            Target::Session(session) => {
                let mut held = session.held.write().await;
                match &mut *held {
                    Some(Held::PostgresLease(lease)) => postgres_batch(lease.batch(), &statements).await,
                    Some(Held::PostgresTransaction(transaction)) => {
                        postgres_batch(transaction.batch(), &statements).await
                    }
                    Some(Held::MySqlLease(lease)) => mysql_batch(lease.begin(), &statements).await,
                    Some(Held::MySqlTransaction(transaction)) => match transaction.savepoint().await {
                        Ok(savepoint) => mysql_batch(savepoint, &statements).await,
                        Err(error) => mysql(error),
                    },
                    None => Outcome::Failed(session::ended()),
                }
            }
        }
    })
}

async fn postgres_batch(batch: postgres::Batch<'_>, statements: &[Statement]) -> Outcome {
    let values: Vec<_> = statements.iter().map(|statement| postgres_values(&statement.values)).collect();
    let mut batch = batch;
    for (statement, values) in statements.iter().zip(&values) {
        batch = batch.add(&statement.sql, values);
    }
    batch.run().await.map_or_else(postgres, Outcome::PostgresBatch)
}

/// In a transaction of its own, or a savepoint: what has no end when one fails is rolled back.
async fn mysql_batch(transaction: mysql::Transaction<'_>, statements: &[Statement]) -> Outcome {
    let results = statements.iter().enumerate().map(|(index, statement)| {
        let transaction = &transaction;
        async move {
            let values = mysql_values(&statement.values);
            let result = transaction.query_raw(&statement.sql, &values).await;
            result.map_err(|error| Box::new(ErrorObject::mysql(&error).in_batch(index)))
        }
    });
    match try_join_all(results).await {
        Ok(results) => match transaction.commit().await {
            Ok(()) => Outcome::MySqlBatch(results),
            Err(error) => mysql(error),
        },
        Err(failed) => match transaction.rollback().await {
            Ok(()) => Outcome::Failed(failed),
            // Gone with its connection, it is rolled back as well.
            Err(_) => Outcome::Failed(failed),
        },
    }
}

fn postgres_values(values: &[Value]) -> Vec<&(dyn ToSql + Sync)> {
    values.iter().map(|value| value as &(dyn ToSql + Sync)).collect()
}

fn mysql_values(values: &[Value]) -> Vec<&(dyn ToValue + Sync)> {
    values.iter().map(|value| value as &(dyn ToValue + Sync)).collect()
}
