//! `ServerError`: what the server says in an ErrorResponse or a NoticeResponse, every field of it.
//!
//! A message's body is a list of fields, each a type byte and a text that ends with a NUL, closed by a
//! zero byte (protocol chapter "Error and Notice Message Fields"). Reading never fails: unknown fields are
//! passed over, text that is not UTF-8 is made so, a body cut short gives what it has. What an error
//! means for the connection or for a retry is for others to decide.

mod sql_state;

use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::sync::Arc;

pub use sql_state::SqlState;

/// How much of a message body is kept. Far above what a server says of itself, and enough for the large
/// texts that `RAISE` can carry; an error that is held must not hold unbounded memory.
const BODY_BYTES_MAX: usize = 1 << 20;

/// How serious the server says it is, in the server's own words and never translated.
///
/// The order is that of the server: a later one is worse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Severity {
    /// Detail for developers.
    Debug,
    /// Written to the server's log, rarely sent.
    Log,
    /// Asked for by the statement.
    Info,
    /// Worth knowing.
    Notice,
    /// Probably a mistake.
    Warning,
    /// The statement failed.
    Error,
    /// The session ends.
    Fatal,
    /// Every session ends.
    Panic,
}

impl Severity {
    fn from_word(word: &str) -> Option<Severity> {
        Some(match word {
            "DEBUG" => Severity::Debug,
            "LOG" => Severity::Log,
            "INFO" => Severity::Info,
            "NOTICE" => Severity::Notice,
            "WARNING" => Severity::Warning,
            "ERROR" => Severity::Error,
            "FATAL" => Severity::Fatal,
            "PANIC" => Severity::Panic,
            _ => return None,
        })
    }
}

/// An error as the server reported it, with all its fields.
///
/// One pointer wide, and cheap to clone: when a session ends, the same error goes to many callers.
///
/// `Display` reads as psql shows it:
///
/// ```text
/// ERROR: duplicate key value violates unique constraint "item_pkey" (SQLSTATE 23505)
/// DETAIL: Key (id)=(1) already exists.
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct ServerError(Arc<Fields>);

/// A message that accompanies a statement without failing it. It has the same fields as an error.
pub type Notice = ServerError;

#[derive(Clone, PartialEq, Eq)]
struct Fields {
    code: SqlState,
    severity: Option<Severity>,
    severity_words: Option<Box<str>>,
    message: Option<Box<str>>,
    detail: Option<Box<str>>,
    hint: Option<Box<str>>,
    position: Option<u32>,
    internal_position: Option<u32>,
    internal_query: Option<Box<str>>,
    context: Option<Box<str>>,
    schema: Option<Box<str>>,
    table: Option<Box<str>>,
    column: Option<Box<str>>,
    data_type: Option<Box<str>>,
    constraint: Option<Box<str>>,
    file: Option<Box<str>>,
    line: Option<u32>,
    routine: Option<Box<str>>,
}

impl Fields {
    const EMPTY: Fields = Fields {
        code: SqlState::malformed(),
        severity: None,
        severity_words: None,
        message: None,
        detail: None,
        hint: None,
        position: None,
        internal_position: None,
        internal_query: None,
        context: None,
        schema: None,
        table: None,
        column: None,
        data_type: None,
        constraint: None,
        file: None,
        line: None,
        routine: None,
    };

    fn set(&mut self, field_type: u8, value: &[u8]) {
        let text: Cow<'_, str> = String::from_utf8_lossy(value);
        let number = || text.parse::<u32>().ok();
        let kept = || Some(Box::from(text.as_ref()));
        match field_type {
            b'S' => self.severity_words = kept(),
            b'V' => self.severity = Severity::from_word(&text),
            b'C' => self.code = SqlState::from_field(value),
            b'M' => self.message = kept(),
            b'D' => self.detail = kept(),
            b'H' => self.hint = kept(),
            b'P' => self.position = number(),
            b'p' => self.internal_position = number(),
            b'q' => self.internal_query = kept(),
            b'W' => self.context = kept(),
            b's' => self.schema = kept(),
            b't' => self.table = kept(),
            b'c' => self.column = kept(),
            b'd' => self.data_type = kept(),
            b'n' => self.constraint = kept(),
            b'F' => self.file = kept(),
            b'L' => self.line = number(),
            b'R' => self.routine = kept(),
            // The protocol asks clients to pass over what they do not know.
            _ => {}
        }
    }
}

impl ServerError {
    /// Reads the body of an ErrorResponse or NoticeResponse (what follows type byte and length).
    ///
    /// Takes anything: of a broken body it keeps what can be read.
    pub(crate) fn parse(body: &[u8]) -> ServerError {
        let mut rest = body.get(..BODY_BYTES_MAX).unwrap_or(body);
        let mut fields = Fields::EMPTY;
        while let Some((&field_type, after_type)) = rest.split_first() {
            if field_type == 0 {
                break;
            }
            let value_bytes = after_type.iter().position(|byte| *byte == 0).unwrap_or(after_type.len());
            let (value, after_value) = after_type.split_at(value_bytes);
            fields.set(field_type, value);
            rest = after_value.get(1..).unwrap_or_default();
        }
        // Servers before 9.6, and some that only speak the protocol, send no `V`.
        if fields.severity.is_none() {
            fields.severity = fields.severity_words.as_deref().and_then(Severity::from_word);
        }
        ServerError(Arc::new(fields))
    }

    /// An error of which the server sent nothing but words.
    pub(crate) fn from_words(words: &[u8]) -> ServerError {
        let mut fields = Fields::EMPTY;
        fields.severity = Some(Severity::Fatal);
        fields.set(b'M', words.trim_ascii());
        ServerError(Arc::new(fields))
    }

    /// The code of the condition: what programs should branch on.
    pub fn code(&self) -> SqlState {
        self.0.code
    }

    /// How serious it is; `None` only if the server did not say it in words that are known.
    pub fn severity(&self) -> Option<Severity> {
        self.0.severity
    }

    /// How serious it is in the server's language (`lc_messages`), for people.
    pub fn severity_words(&self) -> &str {
        match (&self.0.severity_words, self.0.severity) {
            (Some(words), _) => words,
            (None, Some(Severity::Fatal)) => "FATAL",
            (None, _) => "ERROR",
        }
    }

    /// Whether the session ends with it (`FATAL` or `PANIC`).
    pub fn ends_session(&self) -> bool {
        self.0.severity >= Some(Severity::Fatal)
    }

    /// The message itself, in the server's language. Empty only if the server sent none.
    pub fn message(&self) -> &str {
        self.0.message.as_deref().unwrap_or_default()
    }

    /// More about the problem, often with the values at fault.
    pub fn detail(&self) -> Option<&str> {
        self.0.detail.as_deref()
    }

    /// What to do about it.
    pub fn hint(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }

    /// Where in the statement's text it is: a count of characters, not bytes, from 1.
    pub fn position(&self) -> Option<u32> {
        self.0.position
    }

    /// Like [`position`](ServerError::position), inside [`internal_query`](ServerError::internal_query).
    pub fn internal_position(&self) -> Option<u32> {
        self.0.internal_position
    }

    /// The statement the server made itself and which failed, for example inside a function.
    pub fn internal_query(&self) -> Option<&str> {
        self.0.internal_query.as_deref()
    }

    /// Where it happened ("where" in the protocol): the call stack of functions, innermost first, a line each.
    pub fn context(&self) -> Option<&str> {
        self.0.context.as_deref()
    }

    /// The schema of the object at fault.
    pub fn schema(&self) -> Option<&str> {
        self.0.schema.as_deref()
    }

    /// The table at fault.
    pub fn table(&self) -> Option<&str> {
        self.0.table.as_deref()
    }

    /// The column at fault.
    pub fn column(&self) -> Option<&str> {
        self.0.column.as_deref()
    }

    /// The data type at fault.
    pub fn data_type(&self) -> Option<&str> {
        self.0.data_type.as_deref()
    }

    /// The constraint at fault.
    pub fn constraint(&self) -> Option<&str> {
        self.0.constraint.as_deref()
    }

    /// The file of the server's source that reported it.
    pub fn file(&self) -> Option<&str> {
        self.0.file.as_deref()
    }

    /// The line in [`file`](ServerError::file).
    pub fn line(&self) -> Option<u32> {
        self.0.line
    }

    /// The routine of the server's source that reported it. Unlike the message it is never translated.
    pub fn routine(&self) -> Option<&str> {
        self.0.routine.as_deref()
    }
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = self.severity_words();
        let message = self.message();
        write!(f, "{words}: {message} (SQLSTATE {})", self.code())?;
        if let Some(detail) = self.detail() {
            write!(f, "\nDETAIL: {detail}")?;
        }
        if let Some(hint) = self.hint() {
            write!(f, "\nHINT: {hint}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fields = &*self.0;
        let mut debug = f.debug_struct("ServerError");
        debug.field("severity", &self.severity_words());
        debug.field("code", &fields.code);
        debug.field("message", &self.message());
        let texts = [
            ("detail", &fields.detail),
            ("hint", &fields.hint),
            ("internal_query", &fields.internal_query),
            ("context", &fields.context),
            ("schema", &fields.schema),
            ("table", &fields.table),
            ("column", &fields.column),
            ("data_type", &fields.data_type),
            ("constraint", &fields.constraint),
            ("file", &fields.file),
            ("routine", &fields.routine),
        ];
        for (name, text) in texts {
            if let Some(text) = text {
                debug.field(name, text);
            }
        }
        let numbers =
            [("position", fields.position), ("internal_position", fields.internal_position), ("line", fields.line)];
        for (name, number) in numbers {
            if let Some(number) = number {
                debug.field(name, &number);
            }
        }
        debug.finish()
    }
}

impl Error for ServerError {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn body(fields: &[(u8, &str)]) -> Vec<u8> {
        let mut body = Vec::new();
        for (field_type, value) in fields {
            body.push(*field_type);
            body.extend_from_slice(value.as_bytes());
            body.push(0);
        }
        body.push(0);
        body
    }

    #[test]
    fn every_field_reaches_its_getter() {
        let error = ServerError::parse(&body(&[
            (b'S', "FEHLER"),
            (b'V', "ERROR"),
            (b'C', "23505"),
            (b'M', "the message"),
            (b'D', "the detail"),
            (b'H', "the hint"),
            (b'P', "15"),
            (b'p', "7"),
            (b'q', "select 1"),
            (b'W', "the context"),
            (b's', "public"),
            (b't', "item"),
            (b'c', "id"),
            (b'd', "int4"),
            (b'n', "item_pkey"),
            (b'F', "nbtinsert.c"),
            (b'L', "666"),
            (b'R', "_bt_check_unique"),
        ]));
        assert_eq!(error.severity_words(), "FEHLER");
        assert_eq!(error.severity(), Some(Severity::Error));
        assert_eq!(error.code(), SqlState::UNIQUE_VIOLATION);
        assert_eq!(error.message(), "the message");
        assert_eq!(error.detail(), Some("the detail"));
        assert_eq!(error.hint(), Some("the hint"));
        assert_eq!(error.position(), Some(15));
        assert_eq!(error.internal_position(), Some(7));
        assert_eq!(error.internal_query(), Some("select 1"));
        assert_eq!(error.context(), Some("the context"));
        assert_eq!(error.schema(), Some("public"));
        assert_eq!(error.table(), Some("item"));
        assert_eq!(error.column(), Some("id"));
        assert_eq!(error.data_type(), Some("int4"));
        assert_eq!(error.constraint(), Some("item_pkey"));
        assert_eq!(error.file(), Some("nbtinsert.c"));
        assert_eq!(error.line(), Some(666));
        assert_eq!(error.routine(), Some("_bt_check_unique"));
        assert!(!error.ends_session());
        assert_eq!(error.to_string(), "FEHLER: the message (SQLSTATE 23505)\nDETAIL: the detail\nHINT: the hint");
        let debug = format!("{error:?}");
        for part in ["SqlState(23505)", "_bt_check_unique", "position: 15", "item_pkey"] {
            assert!(debug.contains(part), "{part} is missing in {debug}");
        }
    }

    #[test]
    fn severity_falls_back_to_the_shown_word_where_it_is_known() {
        let old = ServerError::parse(&body(&[(b'S', "FATAL"), (b'C', "57P01")]));
        assert_eq!(old.severity(), Some(Severity::Fatal));
        assert!(old.ends_session());
        let translated = ServerError::parse(&body(&[(b'S', "FATALE"), (b'C', "57P01")]));
        assert_eq!(translated.severity(), None);
        assert!(!translated.ends_session());
        let panic = ServerError::parse(&body(&[(b'S', "PANIK"), (b'V', "PANIC")]));
        assert!(panic.ends_session());
    }

    #[test]
    fn unknown_and_broken_fields_do_no_harm() {
        let error = ServerError::parse(&body(&[(b'Y', "new"), (b'P', "x"), (b'M', "m"), (b'L', "-1")]));
        assert_eq!(error.message(), "m");
        assert_eq!(error.position(), None);
        assert_eq!(error.line(), None);
        assert_eq!(error.to_string(), "ERROR: m (SQLSTATE ?????)");
    }

    #[test]
    fn a_body_cut_short_gives_what_it_has() {
        let whole = body(&[(b'V', "FATAL"), (b'C', "57P01"), (b'M', "stop")]);
        for end in 0..whole.len() {
            let error = ServerError::parse(&whole[..end]);
            assert!("stop".starts_with(error.message()), "cut at {end}");
        }
        assert_eq!(ServerError::parse(&whole[..whole.len() - 2]).message(), "stop");
    }

    #[test]
    fn text_that_is_not_utf8_is_made_so() {
        let error = ServerError::parse(b"Mbad \xff byte\0\0");
        assert_eq!(error.message(), "bad \u{fffd} byte");
    }

    #[test]
    fn what_follows_the_closing_zero_is_not_read() {
        let mut bytes = body(&[(b'M', "first")]);
        bytes.extend_from_slice(b"Msecond\0\0");
        assert_eq!(ServerError::parse(&bytes).message(), "first");
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut bytes = vec![b'x'; 3 * BODY_BYTES_MAX];
        bytes[0] = b'M';
        assert_eq!(ServerError::parse(&bytes).message().len(), BODY_BYTES_MAX - 1);
    }

    #[test]
    fn bare_words_make_an_error_that_ends_the_session() {
        let error = ServerError::from_words(b"could not fork\n");
        assert_eq!(error.to_string(), "FATAL: could not fork (SQLSTATE ?????)");
        assert!(error.ends_session());
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken(bytes in proptest::collection::vec(any::<u8>(), 0..512)) {
            let error = ServerError::parse(&bytes);
            let _ = (error.to_string(), format!("{error:?}"));
        }
    }
}
