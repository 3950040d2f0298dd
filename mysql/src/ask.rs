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
use std::time::Duration;

use bytes::BytesMut;
use cenote_pool::trace::QuerySpan;
use cenote_pool::{Answered, Deadline, Flight, Reply};

use crate::error::Error;
use crate::language::MySql;
use crate::pool::Pool;
use crate::reply;
use crate::server_error::ErrorCode;
use crate::statement::Statement;
use crate::value::{self, Signature, ToValue};
use crate::wire::frontend;

/// How often a statement is tried again for what the server says of its preparation. Once is usual; where the server has
/// no room for prepared statements it takes some attempts until all connections have made some.
const HEALS_MAX: u32 = 8;

/// A reply, with the statement it answers. It may hold an error of the server.
type Asked = (Arc<Statement>, Reply);

/// What makes the result of a reply.
pub(crate) type Read<T> = fn(&Pool, Arc<Statement>, Reply) -> Result<T, Error>;

/// The values of one statement's parameters.
pub(crate) type Parameters<'a> = &'a [&'a (dyn ToValue + Sync)];

/// One statement on its way to a result: the future that the verbs return. Nothing happens before it is polled.
///
/// Dropping it abandons the statement: not sent yet, it never will be; sent, it runs, and its result is read and dropped.
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
        flight: Flight<MySql>,
    },
    /// It has to be learned first, or it failed.
    Unusual(Pin<Box<dyn Future<Output = Result<Asked, Error>> + Send + 'a>>),
    Done,
}

impl<'a, T> Query<'a, T> {
    pub(crate) fn new(pool: &'a Pool, sql: &'a str, parameters: Parameters<'a>, read: Read<T>) -> Query<'a, T> {
        let span = QuerySpan::new("mysql", sql);
        Query { pool, sql, parameters, read, idempotent: false, span, stage: Stage::Begun }
    }

    /// It may run twice: if its connection is lost after it was sent, it is sent once more, on another one. Without this
    /// such a loss is an error with [`was_sent`](Error::was_sent). In a lease nothing is sent twice.
    ///
    /// ```no_run
    /// # async fn example(pool: cenote_mysql::Pool) -> Result<(), cenote_mysql::Error> {
    /// let row = pool.query_one("select name from item where id = ?", &[&42]).idempotent().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn idempotent(mut self) -> Query<'a, T> {
        self.idempotent = true;
        self
    }

    /// It is to be answered within `limit` from its first poll on; else it ends with an error that
    /// [`is_timeout`](Error::is_timeout). On a pool that abandons it: the server's own limit (`max_execution_time`, on
    /// MariaDB `max_statement_time`) stops the work. In a lease or transaction the server is asked to stop it.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # async fn example(pool: cenote_mysql::Pool) -> Result<(), cenote_mysql::Error> {
    /// let rows = pool.query("select name from item", &[]).timeout(Duration::from_millis(200)).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn timeout(self, limit: Duration) -> TimedQuery<'a, T> {
        TimedQuery { query: self, deadline: Deadline::new(limit) }
    }

    fn unusual(&self, answered: Option<(Arc<Statement>, Answered<MySql>)>) -> Stage<'a> {
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
                    let signature = value::signature(ask.parameters);
                    ask.stage = match ask.pool.language().statements.recall(ask.sql, signature.as_slice()) {
                        Some(statement) if statement.effects.is_none() => {
                            Stage::Known { statement, flight: Flight::default().idempotent(ask.idempotent) }
                        }
                        _ => ask.unusual(None),
                    };
                }
                Stage::Known { statement, flight } => {
                    let max_allowed_packet = ask.pool.language().max_allowed_packet();
                    let encode =
                        |out: &mut BytesMut| statement.encode(ask.sql, ask.parameters, max_allowed_packet, out);
                    let preparation = statement.preparation.as_ref();
                    let polled = flight.poll(cx, ask.pool.machine(), preparation.as_slice(), &encode);
                    let Poll::Ready(answered) = polled else { return Poll::Pending };
                    let (answered, stage) = (answered?, mem::replace(&mut ask.stage, Stage::Done));
                    let Stage::Known { statement, .. } = stage else { continue };
                    if !answered.failed {
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
    /// Runs a statement, healed if what the server says of its preparation allows it. It may have been answered once.
    async fn ask_unusual(
        &self,
        sql: &str,
        parameters: Parameters<'_>,
        idempotent: bool,
        mut answered: Option<(Arc<Statement>, Answered<MySql>)>,
    ) -> Result<Asked, Error> {
        let signature = value::signature(parameters);
        let mut heals = 0;
        loop {
            let (statement, answered) = match answered.take() {
                Some(answered) => answered,
                None => {
                    let (statement, flight) = self.statement(sql, &signature).await?;
                    let max_allowed_packet = self.language().max_allowed_packet();
                    let encode = |out: &mut BytesMut| statement.encode(sql, parameters, max_allowed_packet, out);
                    let preparation = statement.preparation.as_ref();
                    let flight = flight.idempotent(idempotent);
                    let answered = self.machine().run_flight(flight, preparation.as_slice(), encode).await?;
                    (statement, answered)
                }
            };
            let heals_max = if answered.to_preparation { HEALS_MAX } else { 1 };
            if heals < heals_max && self.heal(sql, &signature, &statement, &answered) {
                heals += 1;
                continue;
            }
            self.note_run(&statement.effects, answered.failed, &answered.reply);
            return Ok((statement, answered.reply));
        }
    }

    /// Whether the reply says that the statement did not run for the sake of its preparation, and another try may do. Then
    /// what stood in the way is forgotten.
    fn heal(&self, sql: &str, signature: &Signature, statement: &Arc<Statement>, answered: &Answered<MySql>) -> bool {
        let Some(error) = answered.failed.then(|| reply::refusal(&answered.reply)).flatten() else { return false };
        match error.code() {
            ErrorCode::TOO_MANY_PREPARED_STATEMENTS if answered.to_preparation => {
                self.machine().forget_half_of_prepared();
                true
            }
            // It could be prepared once: what it names is gone or another now. What is known of it goes as well, so that
            // the next caller asks anew.
            _ if answered.to_preparation => {
                self.unlearn(sql, signature, statement);
                false
            }
            // The connection has lost it, or its tables have changed faster than the server could follow.
            ErrorCode::UNKNOWN_STATEMENT | ErrorCode::NEED_REPREPARE => match statement.id() {
                Some(id) => {
                    answered.forget_prepared(id);
                    // A procedure may have said it, after it had done something.
                    statement.effects.is_none()
                }
                // Sent as text: then it is something that ran which says so.
                None => false,
            },
            _ => false,
        }
    }
}
