//! `Statement`: what is known of an SQL text with the classes of its parameters, and how it comes to be known.
//!
//! Learned once for the whole pool: PREPARE on one connection. Each further connection prepares it before it first runs
//! there; who comes meanwhile with the same statement waits for that, and nobody else does. What its columns are comes
//! with every result.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use bytes::BytesMut;
use cenote_pool::{Flight, Learning, Lesson, Lookup, Preparation, StatementId, Waiting};

use crate::ask::Parameters;
use crate::error::Error;
use crate::firewall::Effects;
use crate::language::MySql;
use crate::pool::Pool;
use crate::reply;
use crate::server_error::ErrorCode;
use crate::value::{self, Format, Signature};
use crate::wire::column::Columns;
use crate::wire::frontend;

/// How often a statement is prepared again after the server had no room for it. Each time every connection gives up half
/// of what it has, which the server needs a moment to hear of.
const ROOM_ATTEMPTS_MAX: u32 = 8;

/// What is known of a statement.
#[derive(Debug)]
pub(crate) struct Statement {
    /// `None`: the server does not prepare statements of this kind, and it is sent as text.
    pub(crate) preparation: Option<Preparation>,
    parameters: u16,
    /// The columns of its last result.
    pub(crate) columns: ArcSwapOption<Columns>,
    /// What it does to the session it runs in.
    pub(crate) effects: Effects,
}

impl Statement {
    fn new(preparation: Option<Preparation>, parameters: u16, effects: Effects) -> Statement {
        Statement { preparation, parameters, columns: ArcSwapOption::empty(), effects }
    }

    pub(crate) fn id(&self) -> Option<StatementId> {
        self.preparation.as_ref().and_then(|preparation| preparation.id)
    }

    pub(crate) fn format(&self) -> Format {
        if self.preparation.is_some() { Format::Binary } else { Format::Text }
    }

    /// Appends what runs it once.
    #[inline]
    pub(crate) fn encode(
        &self,
        sql: &str,
        parameters: Parameters<'_>,
        max_allowed_packet: usize,
        out: &mut BytesMut,
    ) -> Result<(), Error> {
        if parameters.len() != usize::from(self.parameters) {
            return Err(wrong_count(self.parameters, parameters.len()));
        }
        match self.preparation {
            Some(_) => frontend::execute(max_allowed_packet, out, |out| value::append_parameters(parameters, out)),
            None => frontend::query(sql, max_allowed_packet, out),
        }
    }
}

#[cold]
fn wrong_count(parameters: u16, given: usize) -> Error {
    Error::caller(format!("the statement has {parameters} parameters, and {given} were given"))
}

impl Pool {
    /// The statement, learned if it is not known yet, and where to run it: who has learned it, on the connection that has
    /// prepared it for that.
    pub(crate) async fn statement(
        &self,
        sql: &str,
        signature: &Signature,
    ) -> Result<(Arc<Statement>, Flight<MySql>), Error> {
        frontend::check_text(sql, self.language().max_allowed_packet())?;
        let statements = &self.language().statements;
        loop {
            match statements.look_up(sql, signature.as_slice()) {
                Lookup::Known(statement) => {
                    self.admit(&statement.effects)?;
                    statements.remember(sql, signature.as_slice(), &statement);
                    return Ok((statement, Flight::default()));
                }
                // What holds in a session of its own need not hold for others, nor the other way round; nor does anybody wait
                // behind what else a lease does.
                Lookup::Learn(learning) if self.is_leased() => {
                    drop(learning);
                    let (statement, flight) = self.learn(sql).await?;
                    return Ok((self.share(sql, signature, statement)?, flight));
                }
                Lookup::Wait(_) if self.is_leased() => {
                    let (statement, flight) = self.learn(sql).await?;
                    return Ok((Arc::new(statement), flight));
                }
                Lookup::Learn(learning) => {
                    let (lesson, flight) = match self.learn(sql).await {
                        Ok((statement, flight)) => (Ok(statement), flight),
                        Err(error) => (Err(error), Flight::default()),
                    };
                    return Ok((tell(learning, lesson)?, flight));
                }
                Lookup::Wait(waiting) => {
                    if let Some(lesson) = self.wait_for_lesson(waiting, sql, signature).await {
                        let statement = lesson?;
                        self.admit(&statement.effects)?;
                        return Ok((statement, Flight::default()));
                    }
                }
            }
        }
    }

    /// Has all know what a lease has learned, unless somebody knows it by now.
    fn share(&self, sql: &str, signature: &Signature, statement: Statement) -> Result<Arc<Statement>, Error> {
        match self.language().statements.look_up(sql, signature.as_slice()) {
            Lookup::Learn(learning) => learning.finish(Ok(statement)),
            Lookup::Known(_) | Lookup::Wait(_) => Ok(Arc::new(statement)),
        }
    }

    /// What another caller learns of this text; `None` when he vanished, or has not come on for as long as a caller waits
    /// for anything (his future may be alive and never polled): then it is looked up again.
    async fn wait_for_lesson(
        &self,
        waiting: Waiting<Statement, Error>,
        sql: &str,
        signature: &Signature,
    ) -> Option<Result<Arc<Statement>, Error>> {
        match waiting.lesson(self.settings().acquire_timeout()).await {
            Lesson::Learned(lesson) => Some(lesson),
            Lesson::Vanished => None,
            Lesson::Overdue => {
                self.language().statements.give_up_on(sql, signature.as_slice());
                None
            }
        }
    }

    async fn learn(&self, sql: &str) -> Result<(Statement, Flight<MySql>), Error> {
        let effects = self.admit_text(sql).await?;
        let preparation = frontend::preparation(self.language().statements.next_id(), sql);
        let mut attempts = 0;
        loop {
            let answered = self.machine().prepare(&preparation).await?;
            let Some(error) = answered.failed.then(|| reply::refusal(&answered.reply)).flatten() else {
                let statement = Statement::new(Some(preparation), reply::parameters(&answered.reply)?, effects);
                return Ok((statement, answered.followed()));
            };
            match error.code() {
                ErrorCode::UNSUPPORTED_PREPARED => return Ok((Statement::new(None, 0, effects), Flight::default())),
                ErrorCode::TOO_MANY_PREPARED_STATEMENTS if attempts < ROOM_ATTEMPTS_MAX => {
                    attempts += 1;
                    self.machine().forget_half_of_prepared();
                }
                _ => return Err(Error::server(error)),
            }
        }
    }

    /// What was learned of a statement does not hold any more.
    pub(crate) fn unlearn(&self, sql: &str, signature: &Signature, statement: &Arc<Statement>) {
        self.language().statements.invalidate(sql, signature.as_slice(), statement);
    }
}

/// Tells those who wait what was learned. Of what went wrong they hear only what is true for them as well; for anything
/// else (a reply too large for him, his connection lost) one of them tries himself.
fn tell(learning: Learning<'_, Statement, Error>, lesson: Result<Statement, Error>) -> Result<Arc<Statement>, Error> {
    match lesson {
        Err(error) if !error.is_shared() => Err(error),
        lesson => learning.finish(lesson),
    }
}
