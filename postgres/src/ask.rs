//! `Ask`: one statement, from the call to its result. What `query`, `query_one`, `execute` and the like return.
//!
//! Written by hand, because its size counts: many callers ask at once, and between two looks at one caller's future all
//! the others are walked through the cache. The usual way (a statement this thread knows, a reply that is a result) is
//! here; everything else is a boxed `async fn`.

use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use cenote_pool::{Answered, Flight};
use postgres_types::ToSql;

use crate::error::Error;
use crate::firewall::Effect;
use crate::language::Postgres;
use crate::pool::Pool;
use crate::reply;
use crate::statement::Statement;
use crate::wire::frontend;

/// A reply, with the statement that describes the rows in it. It may hold an error of the server.
type Asked = (Arc<Statement>, Bytes);

/// What makes the result of a reply.
pub(crate) type Read<T> = fn(&Pool, Arc<Statement>, Bytes) -> Result<T, Error>;

/// The values of one statement's parameters.
type Parameters<'a> = &'a [&'a (dyn ToSql + Sync)];

/// One statement on its way to a result.
pub(crate) struct Ask<'a, T> {
    pool: &'a Pool,
    sql: &'a str,
    parameters: Parameters<'a>,
    read: Read<T>,
    stage: Stage<'a>,
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

impl<'a, T> Ask<'a, T> {
    pub(crate) fn new(pool: &'a Pool, sql: &'a str, parameters: Parameters<'a>, read: Read<T>) -> Ask<'a, T> {
        Ask { pool, sql, parameters, read, stage: Stage::Begun }
    }

    fn unusual(&self, answered: Option<(Arc<Statement>, Answered<Postgres>)>) -> Stage<'a> {
        Stage::Unusual(Box::pin(self.pool.ask_unusual(self.sql, self.parameters, answered)))
    }
}

impl<T> Future for Ask<'_, T> {
    type Output = Result<T, Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<T, Error>> {
        let ask = self.get_mut();
        let (statement, reply) = loop {
            match &mut ask.stage {
                Stage::Begun => {
                    frontend::check_parameters(ask.parameters.len())?;
                    ask.stage = match ask.pool.language().statements.recall(ask.sql, &[]) {
                        Some(statement) if statement.effect == Effect::None => {
                            Stage::Known { statement, flight: Flight::default() }
                        }
                        _ => ask.unusual(None),
                    };
                }
                Stage::Known { statement, flight } => {
                    let encode = |out: &mut _| frontend::execute_and_sync(&statement.template, ask.parameters, out);
                    let polled = flight.poll(cx, ask.pool.machine(), &[&statement.preparation], &encode);
                    let Poll::Ready(answered) = polled else { return Poll::Pending };
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
        mut answered: Option<(Arc<Statement>, Answered<Postgres>)>,
    ) -> Result<Asked, Error> {
        let mut healed = false;
        loop {
            let (statement, answered) = match answered.take() {
                Some(answered) => answered,
                None => {
                    let statement = self.statement(sql, &[]).await?;
                    let encode = |out: &mut _| frontend::execute_and_sync(&statement.template, parameters, out);
                    let answered = self.run(&[&statement.preparation], encode).await?;
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
