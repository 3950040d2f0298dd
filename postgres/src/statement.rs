//! `Statement`: what is known of an SQL text with its parameter types, and how it comes to be known.
//!
//! Learned once for the whole pool: Parse and Describe, in one trip. Each connection prepares it when it first runs
//! there, in the same trip that runs it, and says then what it is there: a table may have changed since it was learned.
//! Until somebody has looked at that, those who run it behind him on the same connection ask again.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use cenote_pool::{Answered, Flight, Learning, Lesson, Lookup, Preparation, StatementId, Waiting};
use postgres_types::{Oid, Type};

use crate::error::Error;
use crate::firewall::{self, Effect};
use crate::language::Postgres;
use crate::own_session::Naming;
use crate::pool::Pool;
use crate::reply::{self, Shape};
use crate::row::Column;
use crate::server_error::SqlState;
use crate::wire::backend::ColumnDescription;
use crate::wire::frontend::{self, Template};

/// When a value is not of the type that is known, and that was looked at so recently, it is taken to be the value's fault.
/// A program that errs all the time costs one trip in this time; one that is right has to wait for so long at most, if
/// the type changes twice.
const DOUBT_INTERVAL: Duration = Duration::from_secs(30);

/// In place of a signature: stands for looking whether a text still has the parameters that are known. No type has this
/// number.
const LOOKING: &[Oid] = &[Oid::MAX];

/// What is known of a statement.
#[derive(Debug)]
pub(crate) struct Statement {
    /// What runs it: its name and parameter types on the wire.
    pub(crate) template: Template,
    pub(crate) preparation: Preparation,
    pub(crate) columns: Vec<Column>,
    /// What it does to the session it runs in.
    pub(crate) effect: Effect,
    learned: Instant,
    /// When a value was last at odds with it and the server said that it is as it is known.
    upheld: Mutex<Option<Instant>>,
}

impl Statement {
    fn was_upheld(&self) -> bool {
        let upheld = self.upheld.lock().unwrap_or_else(PoisonError::into_inner);
        upheld.is_some_and(|upheld| upheld.elapsed() < DOUBT_INTERVAL)
    }

    /// Whether a connection that prepared it just now describes its columns as they are known.
    pub(crate) fn is_described_by(&self, columns: &[ColumnDescription]) -> bool {
        self.columns.len() == columns.len()
            && self
                .columns
                .iter()
                .zip(columns)
                .all(|(known, told)| known.name() == told.name && known.type_().oid() == told.type_oid)
    }
}

impl Pool {
    /// The statement, learned if it is not known yet.
    pub(crate) async fn statement(&self, sql: &str, types: &[Type]) -> Result<Arc<Statement>, Error> {
        frontend::check_text(sql)?;
        let signature = signature(types);
        loop {
            match self.language().statements.look_up(sql, &signature) {
                Lookup::Known(statement) => {
                    self.admit(statement.effect)?;
                    if signature.is_empty() {
                        self.language().statements.remember(sql, &[], &statement);
                    }
                    return Ok(statement);
                }
                // What holds in a session of its own need not hold for others, nor the other way round; nor does anybody wait
                // behind what else a lease does.
                Lookup::Learn(learning) if self.is_leased() => {
                    drop(learning);
                    return self.share(sql, types, self.learn(sql, types).await?);
                }
                Lookup::Wait(_) if self.is_leased() => return self.learn(sql, types).await.map(Arc::new),
                Lookup::Learn(learning) => {
                    return tell(learning, self.learn(sql, types).await);
                }
                Lookup::Wait(waiting) => {
                    if let Some(lesson) = self.wait_for_lesson(waiting, sql, types).await {
                        let statement = lesson?;
                        self.admit(statement.effect)?;
                        return Ok(statement);
                    }
                }
            }
        }
    }

    /// Has all know what a lease has learned, unless somebody knows it by now.
    pub(crate) fn share(&self, sql: &str, types: &[Type], statement: Statement) -> Result<Arc<Statement>, Error> {
        if self.machine().has_changed_names() {
            // It may mean another table there.
            return Ok(Arc::new(statement));
        }
        match self.language().statements.look_up(sql, &signature(types)) {
            Lookup::Learn(learning) => learning.finish(Ok(statement)),
            Lookup::Known(_) | Lookup::Wait(_) => Ok(Arc::new(statement)),
        }
    }

    /// What another caller learns of this text; `None` when he vanished, or has not come on for as long as a caller waits
    /// for anything (his future may be alive and never polled): then it is looked up again.
    pub(crate) async fn wait_for_lesson(
        &self,
        waiting: Waiting<Statement, Error>,
        sql: &str,
        types: &[Type],
    ) -> Option<Result<Arc<Statement>, Error>> {
        let patience = self.settings().acquire_timeout();
        match waiting.lesson(patience).await {
            Lesson::Learned(lesson) => Some(lesson),
            Lesson::Vanished => None,
            Lesson::Overdue => {
                self.language().statements.give_up_on(sql, &signature(types));
                None
            }
        }
    }

    pub(crate) async fn learn(&self, sql: &str, types: &[Type]) -> Result<Statement, Error> {
        self.admit(firewall::classify(sql))?;
        let mut asking = self.asking(sql, types)?;
        loop {
            let encode = |out: &mut BytesMut| -> Result<(), Error> {
                out.extend_from_slice(&asking.describes);
                frontend::sync(out);
                Ok(())
            };
            // Asked twice it says the same.
            let flight = Flight::default().idempotent(true);
            let answered = self.machine().run_flight(flight, &[&asking.preparation], encode).await?;
            match reply::shape(self, &answered.reply) {
                Ok(shape) => {
                    asking.is_answered(&answered);
                    return self.resolve(sql, asking.preparation.id, shape).await;
                }
                Err(error) => {
                    asking.is_refused(&answered);
                    if !asking.was_led_astray(error.code()) {
                        return Err(error);
                    }
                    asking = self.asking_alone(sql, types)?;
                }
            }
        }
    }

    /// What has the server prepare a text that nobody knows yet, and say what it is. On a lease those who do so at the same
    /// time share a name, and the first of them prepares it.
    pub(crate) fn asking(&self, sql: &str, types: &[Type]) -> Result<Asking<'_>, Error> {
        let Some(own) = self.own().filter(|_| self.names_statements()) else { return self.asking_alone(sql, types) };
        let naming = own.name(sql, signature(types), || self.language().statements.next_id());
        let preparation = frontend::preparation(Some(naming.id), sql, types)?;
        Ok(Asking::new(preparation, Some(naming)))
    }

    /// The same under a name of its own.
    pub(crate) fn asking_alone(&self, sql: &str, types: &[Type]) -> Result<Asking<'_>, Error> {
        let id = self.names_statements().then(|| self.language().statements.next_id());
        Ok(Asking::new(frontend::preparation(id, sql, types)?, None))
    }

    fn names_statements(&self) -> bool {
        self.language().settings().statement_cache_size() > 0
    }

    /// A statement from its shape. From here on it is prepared with the parameter types that are known, so that each
    /// connection takes the same bytes for a value.
    pub(crate) async fn resolve(&self, sql: &str, id: Option<StatementId>, shape: Shape) -> Result<Statement, Error> {
        let mut parameters = Vec::with_capacity(shape.parameters.len());
        for oid in shape.parameters {
            parameters.push(self.type_of(oid).await?);
        }
        let mut columns = Vec::with_capacity(shape.columns.len());
        for column in shape.columns {
            let ty = self.type_of(column.type_oid).await?;
            columns.push(Column::new(column, ty));
        }
        let preparation = frontend::preparation(id, sql, &parameters)?;
        let template = Template::new(frontend::statement_name(id), parameters);
        let effect = firewall::classify(sql);
        Ok(Statement { template, preparation, columns, effect, learned: Instant::now(), upheld: Mutex::default() })
    }

    /// Whether an error may come of what is known of a statement, and not of the caller.
    #[cold]
    pub(crate) fn may_be_outdated(&self, error: &Error) -> bool {
        if self.is_leased() { error.is_conversion() } else { error.is_wrong_type() }
    }

    /// A value could not be written as the type that is known of its parameter; nothing was sent. A table may have been
    /// changed since, which no server tells unasked. The statement to go on with, where it is this caller's alone; `None`: it
    /// is known anew. The error, if it is the value's own: what was learned since the call `began` is not doubted.
    pub(crate) async fn known_otherwise(
        &self,
        sql: &str,
        statement: &Arc<Statement>,
        error: Error,
        began: Instant,
    ) -> Result<Option<Arc<Statement>>, Error> {
        if !self.may_be_outdated(&error) {
            return Err(error);
        }
        if self.is_leased() {
            // The same text may mean another table in a session of its own: asked anew there.
            let anew = self.learn(sql, &[]).await?;
            let differs = anew.template.types() != statement.template.types();
            return if differs { Ok(Some(Arc::new(anew))) } else { Err(error) };
        }
        if statement.learned >= began {
            return Err(error);
        }
        match self.is_known_anew(sql, statement).await {
            Ok(true) => Ok(None),
            // The text has no meaning any more.
            Err(refused) if refused.is_server() => Err(refused),
            Ok(false) | Err(_) => Err(error),
        }
    }

    /// Asked in one trip which runs nothing, by one of those who want to know it at once. When the server has said that all is
    /// as it is known, nobody asks again for a while.
    async fn is_known_anew(&self, sql: &str, statement: &Arc<Statement>) -> Result<bool, Error> {
        loop {
            match self.language().statements.look_up(sql, &[]) {
                Lookup::Known(current) if Arc::ptr_eq(&current, statement) => {}
                // Dropped at once if it is the duty to learn: whoever runs it next does.
                _ => return Ok(true),
            }
            if statement.was_upheld() {
                return Ok(false);
            }
            match self.language().statements.look_up(sql, LOOKING) {
                Lookup::Learn(looking) => {
                    let anew = self.parameters_now(sql).await?;
                    let known = statement.template.types().iter().map(Type::oid);
                    if known.eq(anew) {
                        *statement.upheld.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
                    } else {
                        self.unlearn(sql, &[], statement);
                    }
                    // Those who wait look for themselves now.
                    drop(looking);
                }
                Lookup::Wait(waiting) => {
                    if let Lesson::Overdue = waiting.lesson(self.settings().acquire_timeout()).await {
                        self.language().statements.give_up_on(sql, LOOKING);
                    }
                }
                // Nobody ever says so.
                Lookup::Known(_) => return Ok(false),
            }
        }
    }

    /// The types of a text's parameters, as the server says now.
    async fn parameters_now(&self, sql: &str) -> Result<Vec<Oid>, Error> {
        let preparation = frontend::preparation(None, sql, &[])?;
        let encode = |out: &mut BytesMut| -> Result<(), Error> {
            frontend::sync(out);
            Ok(())
        };
        let flight = Flight::default().idempotent(true);
        let answered = self.machine().run_flight(flight, &[&preparation], encode).await?;
        Ok(reply::shape(self, &answered.reply)?.parameters)
    }

    /// What was learned of a statement does not hold any more.
    pub(crate) fn unlearn(&self, sql: &str, types: &[Type], statement: &Arc<Statement>) {
        self.language().statements.invalidate(sql, &signature(types), statement);
    }
}

/// A text that is to be learned.
pub(crate) struct Asking<'a> {
    /// What prepares it.
    pub(crate) preparation: Preparation,
    /// What asks what it is: it goes along whether or not the connection has prepared it by then.
    pub(crate) describes: Box<[u8]>,
    naming: Option<Naming<'a>>,
}

impl<'a> Asking<'a> {
    fn new(mut preparation: Preparation, naming: Option<Naming<'a>>) -> Asking<'a> {
        let parts = preparation.bytes.split_at_checked(preparation.describe_at);
        let (prepares, describes): (Box<[u8]>, Box<[u8]>) =
            parts.map(|(a, b)| (a.into(), b.into())).unwrap_or_default();
        preparation.bytes = prepares;
        Asking { preparation, describes, naming }
    }

    /// The server has said what it is.
    pub(crate) fn is_answered(&self, answered: &Answered<Postgres>) {
        self.preparation.id.iter().for_each(|id| answered.confirm_prepared(*id));
    }

    /// It was not prepared after all.
    pub(crate) fn is_refused(&self, answered: &Answered<Postgres>) {
        self.preparation.id.iter().for_each(|id| answered.forget_prepared(*id));
    }

    /// Whoever was to prepare it could not: why, one hears by doing so oneself.
    pub(crate) fn was_led_astray(&self, code: Option<SqlState>) -> bool {
        self.naming.as_ref().is_some_and(|naming| naming.follows) && code == Some(SqlState::INVALID_SQL_STATEMENT_NAME)
    }
}

/// Tells those who wait what was learned. Of what went wrong they hear only what is true for them as well; for anything
/// else (a value of this caller's, a reply too large for him, his connection lost) one of them tries himself.
pub(crate) fn tell(
    learning: Learning<'_, Statement, Error>,
    lesson: Result<Statement, Error>,
) -> Result<Arc<Statement>, Error> {
    match lesson {
        Err(error) if !error.is_shared() => Err(error),
        lesson => learning.finish(lesson),
    }
}

/// What tells statements of the same text apart: the types the caller names.
pub(crate) fn signature(types: &[Type]) -> Vec<Oid> {
    // An empty vector, which is the usual case, does not allocate.
    types.iter().map(Type::oid).collect()
}
