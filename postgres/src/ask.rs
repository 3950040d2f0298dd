//! `Query`: one statement, from the call to its result. What `query`, `query_one`, `execute` and the like return.
//!
//! Written by hand, because its size counts: many callers ask at once, and between two looks at one caller's future all
//! the others are walked through the cache. The usual way (a statement this thread knows, a reply that is a result) is
//! here; everything else is a boxed `async fn`.

use std::fmt;
use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use cenote_pool::trace::QuerySpan;
use cenote_pool::{Answered, Deadline, Flight, Reply};
use postgres_types::ToSql;

use crate::error::Error;
use crate::firewall::Effect;
use crate::language::Postgres;
use crate::pool::Pool;
use crate::reply;
use crate::statement::Statement;
use crate::wire::frontend;

/// A reply, with the statement that describes the rows in it. It may hold an error of the server.
type Asked = (Arc<Statement>, Reply);

/// What makes the result of a reply.
pub(crate) type Read<T> = fn(&Pool, Arc<Statement>, Reply) -> Result<T, Error>;

/// The values of one statement's parameters.
type Parameters<'a> = &'a [&'a (dyn ToSql + Sync)];

/// One statement on its way to a result: the future that the verbs return. Nothing happens before it is polled.
///
/// Dropping it abandons the statement: not sent yet, it never will be; sent, it runs, and its result is read and dropped.
///
/// It borrows its parameters. In `join!`, or kept for later, a list of local values has to live as long; `async` around it
/// sees to that.
///
/// ```no_run
/// # async fn example(pool: cenote_postgres::Pool, id: i32) -> Result<(), cenote_postgres::Error> {
/// let (item, stock) = tokio::join!(
///     async { pool.query_one("select name from item where id = $1", &[&id]).await },
///     async { pool.query_one("select count from stock where item = $1", &[&id]).await },
/// );
/// # drop((item?, stock?));
/// # Ok(())
/// # }
/// ```
#[must_use = "a query does nothing before it is awaited"]
pub struct Query<'a, T> {
    pool: &'a Pool,
    sql: &'a str,
    parameters: Parameters<'a>,
    read: Read<T>,
    idempotent: bool,
    span: QuerySpan,
    stage: Stage<'a>,
}

/// A [`Query`] that is to be answered within a certain time.
#[must_use = "a query does nothing before it is awaited"]
#[derive(Debug)]
pub struct TimedQuery<'a, T> {
    query: Query<'a, T>,
    deadline: Deadline,
}

enum Stage<'a> {
    Begun,
    /// On its way, with what is known of it.
    Known {
        statement: Arc<Statement>,
        flight: Flight<Postgres>,
    },
    /// It has to be learned first, or healed, or described anew, or it failed.
    Unusual(Pin<Box<dyn Future<Output = Result<Asked, Error>> + Send + 'a>>),
    Done,
}

impl<'a, T> Query<'a, T> {
    pub(crate) fn new(pool: &'a Pool, sql: &'a str, parameters: Parameters<'a>, read: Read<T>) -> Query<'a, T> {
        let span = QuerySpan::new("postgresql", sql);
        Query { pool, sql, parameters, read, idempotent: false, span, stage: Stage::Begun }
    }

    /// It may run twice: if its connection is lost after it was sent, it is sent once more, on another one. Without this
    /// such a loss is an error with [`was_sent`](Error::was_sent). In a lease nothing is sent twice.
    ///
    /// ```no_run
    /// # async fn example(pool: cenote_postgres::Pool) -> Result<(), cenote_postgres::Error> {
    /// let row = pool.query_one("select name from item where id = $1", &[&42]).idempotent().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn idempotent(mut self) -> Query<'a, T> {
        self.idempotent = true;
        self
    }

    /// It is to be answered within `limit` from its first poll on; else it ends with an error that
    /// [`is_timeout`](Error::is_timeout). On a pool that abandons it: the server's own `statement_timeout` stops the work.
    /// In a lease or transaction the server is asked to stop it.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # async fn example(pool: cenote_postgres::Pool) -> Result<(), cenote_postgres::Error> {
    /// let rows = pool.query("select name from item", &[]).timeout(Duration::from_millis(200)).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn timeout(self, limit: Duration) -> TimedQuery<'a, T> {
        TimedQuery { query: self, deadline: Deadline::new(limit) }
    }

    fn unusual(&self, answered: Option<(Arc<Statement>, Answered<Postgres>)>) -> Stage<'a> {
        Stage::Unusual(Box::pin(self.pool.ask_unusual(self.sql, self.parameters, self.idempotent, answered)))
    }
}

impl<T> fmt::Debug for Query<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the values of the parameters.
        f.debug_struct("Query").field("sql", &self.sql).finish_non_exhaustive()
    }
}

impl<T> Future for TimedQuery<'_, T> {
    type Output = Result<T, Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<T, Error>> {
        let TimedQuery { query, deadline } = self.get_mut();
        if let Poll::Ready(result) = Pin::new(&mut *query).poll(cx) {
            return Poll::Ready(result);
        }
        deadline.poll(cx, query.pool.machine()).map(|overdue| {
            query.stage = Stage::Done;
            Err(overdue.into())
        })
    }
}

impl<T> Future for Query<'_, T> {
    type Output = Result<T, Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<T, Error>> {
        let query = self.get_mut();
        let span = query.span.clone();
        let polled = {
            let _entered = span.enter();
            query.advance(cx)
        };
        if let Poll::Ready(result) = &polled {
            span.end(result, Error::without_values);
        }
        polled
    }
}

impl<T> Query<'_, T> {
    #[inline(always)]
    fn advance(&mut self, cx: &mut Context<'_>) -> Poll<Result<T, Error>> {
        let ask = self;
        let (statement, reply) = loop {
            match &mut ask.stage {
                Stage::Begun => {
                    frontend::check_parameters(ask.parameters.len())?;
                    ask.stage = match ask.pool.language().statements.recall(ask.sql, &[]) {
                        Some(statement) if statement.effect == Effect::None => {
                            Stage::Known { statement, flight: Flight::default().idempotent(ask.idempotent) }
                        }
                        _ => ask.unusual(None),
                    };
                }
                Stage::Known { statement, flight } => {
                    let encode = |out: &mut _| frontend::execute_and_sync(&statement.template, ask.parameters, out);
                    let polled = flight.poll(cx, ask.pool.machine(), &[&statement.preparation], &encode);
                    let Poll::Ready(answered) = polled else { return Poll::Pending };
                    if let Err(error) = &answered
                        && ask.pool.may_be_outdated(error)
                    {
                        // Nothing was sent. Perhaps its parameters are of other types by now.
                        ask.stage = ask.unusual(None);
                        continue;
                    }
                    let (answered, stage) = (answered?, mem::replace(&mut ask.stage, Stage::Done));
                    let Stage::Known { statement, .. } = stage else { continue };
                    if !answered.failed && !reply::may_describe(&answered.reply) {
                        break (statement, answered.reply);
                    }
                    ask.stage = ask.unusual(Some((statement, answered)));
                }
                Stage::Unusual(future) => {
                    let Poll::Ready(asked) = future.as_mut().poll(cx) else { return Poll::Pending };
                    ask.stage = Stage::Done;
                    break asked?;
                }
                Stage::Done => panic!("a query is polled after it was ready"),
            }
        };
        Poll::Ready((ask.read)(ask.pool, statement, reply))
    }
}

impl Pool {
    /// Runs a statement, healed once if what was known of it does not hold any more. It may have been answered once.
    async fn ask_unusual(
        &self,
        sql: &str,
        parameters: Parameters<'_>,
        idempotent: bool,
        mut answered: Option<(Arc<Statement>, Answered<Postgres>)>,
    ) -> Result<Asked, Error> {
        let began = Instant::now();
        let mut healed = false;
        let mut learned_anew = None;
        loop {
            let (statement, answered) = match answered.take() {
                Some(answered) => answered,
                None => {
                    let statement = match &learned_anew {
                        Some(statement) => Arc::clone(statement),
                        None => self.statement(sql, &[]).await?,
                    };
                    let encode = |out: &mut _| frontend::execute_and_sync(&statement.template, parameters, out);
                    let flight = Flight::default().idempotent(idempotent);
                    let answered = match self.machine().run_flight(flight, &[&statement.preparation], encode).await {
                        Err(error) => {
                            learned_anew = self.known_otherwise(sql, &statement, error, began).await?;
                            continue;
                        }
                        Ok(answered) => answered,
                    };
                    (statement, answered)
                }
            };
            if !healed && self.heal(sql, &[], &statement, &answered) {
                healed = true;
                continue;
            }
            return match reply::new_description(&answered.reply)? {
                None => Ok((statement, answered.reply)),
                Some(columns) => {
                    let described = self.described_as(sql, &[], &statement, columns, Some(&answered)).await?;
                    Ok((described, answered.reply))
                }
            };
        }
    }
}
