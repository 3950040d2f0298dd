//! Replies, read: what the server answered to one unit of work.

use std::ops::Range;

use cenote_pool::Reply;
use postgres_types::Oid;

use crate::error::Error;
use crate::pool::Pool;
use crate::server_error::{Notice, ServerError};
use crate::wire::backend::{self, BIND_COMPLETE, ColumnDescription, Message, Messages, SETTLED};

/// What `Describe` tells of a statement.
#[derive(Debug, Default)]
pub(crate) struct Shape {
    pub(crate) parameters: Vec<Oid>,
    pub(crate) columns: Vec<ColumnDescription>,
}

/// Reads a reply message by message. Notices are passed on and what else may come at any time is passed over.
pub(crate) struct Reader<'a> {
    pool: &'a Pool,
    reply: &'a [u8],
    messages: Messages<'a>,
}

/// A message that means something to the reader.
pub(crate) enum Part<'a> {
    /// `ParameterDescription`.
    Parameters(&'a [u8]),
    /// `RowDescription`.
    Columns(&'a [u8]),
    /// `NoData`.
    NoColumns,
    /// `DataRow`: where its body is.
    Row(Range<usize>),
    /// `CommandComplete`, or the empty query's answer (then without a tag).
    Complete(&'a [u8]),
    /// `ReadyForQuery`: the end, with the state of the session.
    Ready(u8),
}

impl<'a> Reader<'a> {
    pub(crate) fn new(pool: &'a Pool, reply: &'a [u8]) -> Reader<'a> {
        let mut messages = Messages::new(reply);
        messages.pass_over(BIND_COMPLETE);
        Reader { pool, reply, messages }
    }

    /// The next part. An error of the server is returned as such; what follows it is the end.
    #[inline(always)]
    pub(crate) fn next(&mut self) -> Result<Part<'a>, Error> {
        while let Some(message) = self.messages.next()? {
            match message.tag {
                // BindComplete.
                b'2' => {}
                b'D' => return Ok(Part::Row(message.body)),
                b'C' => return Ok(Part::Complete(self.reply.get(message.body).unwrap_or_default())),
                b'Z' => return Ok(Part::Ready(self.reply.get(message.body.start).copied().unwrap_or_default())),
                _ => {
                    if let Some(part) = self.unusual(message)? {
                        return Ok(part);
                    }
                }
            }
        }
        Err(Error::peer("a reply without its end"))
    }

    /// What the reply to a plain query does not hold.
    #[cold]
    fn unusual(&mut self, message: Message) -> Result<Option<Part<'a>>, Error> {
        let body = self.reply.get(message.body).unwrap_or_default();
        match message.tag {
            b'I' => Ok(Some(Part::Complete(body))),
            b'E' => Err(self.pool.refused(ServerError::parse(body))),
            b't' => Ok(Some(Part::Parameters(body))),
            b'T' => Ok(Some(Part::Columns(body))),
            b'n' => Ok(Some(Part::NoColumns)),
            b'N' => {
                self.pool.language().notify(&Notice::parse(body));
                Ok(None)
            }
            // ParseComplete, CloseComplete, ParameterStatus, NotificationResponse.
            b'1' | b'3' | b'S' | b'A' => Ok(None),
            b'H' | b'd' | b'c' => Err(Error::caller("COPY is not there yet")),
            tag => Err(Error::peer(format!("a message of type {:?} in this place", tag as char))),
        }
    }
}

/// Checks the end of a reply: nothing may follow, and a session that is shared must be as it was.
#[inline]
pub(crate) fn finish(reader: &mut Reader<'_>) -> Result<(), Error> {
    if reader.messages.rest() == SETTLED {
        return Ok(());
    }
    finish_otherwise(reader)
}

#[cold]
fn finish_otherwise(reader: &mut Reader<'_>) -> Result<(), Error> {
    match reader.next()? {
        Part::Ready(b'I') => Ok(()),
        Part::Ready(_) if reader.pool.is_leased() => Ok(()),
        Part::Ready(_) => Err(Error::caller(
            "the statement left a transaction open on a shared connection; the connection was closed and the \
             transaction rolled back. Use `pool.begin()` for a transaction",
        )),
        _ => Err(Error::peer("something behind the end of a statement")),
    }
}

/// The shape of a statement, from the reply to Parse and Describe.
pub(crate) fn shape(pool: &Pool, reply: &[u8]) -> Result<Shape, Error> {
    let mut reader = Reader::new(pool, reply);
    let mut shape = Shape::default();
    loop {
        match reader.next()? {
            Part::Parameters(body) => shape.parameters = backend::parameter_description(body)?,
            Part::Columns(body) => shape.columns = backend::row_description(body)?,
            Part::NoColumns => {}
            Part::Ready(_) => return Ok(shape),
            Part::Row(_) | Part::Complete(_) => return Err(Error::peer("a result where a description was asked for")),
        }
    }
}

/// Where every row of one statement is, into `keep`; the tag of its end.
pub(crate) fn rows<'a>(
    reader: &mut Reader<'a>,
    mut keep: impl FnMut(Range<usize>) -> Result<(), Error>,
) -> Result<&'a [u8], Error> {
    loop {
        match reader.next()? {
            Part::Row(body) => keep(body)?,
            Part::Complete(tag) => return Ok(tag),
            // From a connection that prepared the statement in this trip; see `new_description`.
            Part::Parameters(_) | Part::Columns(_) | Part::NoColumns => {}
            Part::Ready(_) => return Err(Error::peer("a statement without its end")),
        }
    }
}

/// The tag of the last statement of a reply.
pub(crate) fn last_tag(pool: &Pool, reply: &[u8]) -> Result<Vec<u8>, Error> {
    let mut reader = Reader::new(pool, reply);
    let mut last = Vec::new();
    loop {
        match reader.next()? {
            Part::Complete(tag) => last = tag.strip_suffix(b"\0").unwrap_or(tag).to_vec(),
            Part::Ready(_) => return Ok(last),
            _ => {}
        }
    }
}

/// A reply without its front, which answers the statement that began the transaction. Where that failed, the whole.
pub(crate) fn behind_lead(reply: Reply) -> Reply {
    let mut messages = Messages::new(&reply);
    while let Ok(Some(message)) = messages.next() {
        match message.tag {
            b'C' => {
                let end = message.body.end;
                return reply.behind(end);
            }
            b'E' => break,
            _ => {}
        }
    }
    reply
}

/// Why a unit of work failed, and when.
pub(crate) struct Refusal {
    pub(crate) error: ServerError,
    /// The connection had to prepare the statement first, and that is what failed.
    pub(crate) while_preparing: bool,
    /// It failed to be prepared or bound, and what ran before it in the same unit of work was undone with it.
    pub(crate) nothing_stays: bool,
}

/// The error in a reply that holds one.
pub(crate) fn refusal(reply: &[u8]) -> Option<Refusal> {
    let mut messages = Messages::new(reply);
    let mut last = 0;
    let (mut nothing_stays, mut something_stayed) = (true, false);
    while let Ok(Some(message)) = messages.next() {
        if message.tag == b'E' {
            let error = ServerError::parse(reply.get(message.body)?);
            // A Parse always follows a Close.
            return Some(Refusal { error, while_preparing: last == b'3', nothing_stays });
        }
        match message.tag {
            b'2' => nothing_stays = false,
            b'C' => {
                something_stayed |= !is_undone(reply.get(message.body.clone()).unwrap_or_default());
                nothing_stays = !something_stayed;
            }
            b'I' => nothing_stays = !something_stayed,
            _ => {}
        }
        if !matches!(message.tag, b'N' | b'S' | b'A') {
            last = message.tag;
        }
    }
    None
}

/// Whether a statement with this tag is undone when a later one of the same unit of work fails. CALL and VACUUM, to name
/// two, may have committed.
fn is_undone(tag: &[u8]) -> bool {
    let first = tag.split(|&byte| byte == b' ').next().unwrap_or_default();
    matches!(first, b"SELECT" | b"INSERT" | b"UPDATE" | b"DELETE" | b"MERGE")
}

/// Whether a reply may describe statements that were prepared in this trip, or just before it.
pub(crate) fn may_describe(reply: &[u8]) -> bool {
    // The usual reply begins with BindComplete.
    reply.first() != Some(&b'2')
}

/// The columns of a statement, from a reply that describes it before it runs. `None` where it does not.
pub(crate) fn new_description(reply: &[u8]) -> Result<Option<Vec<ColumnDescription>>, Error> {
    if !may_describe(reply) {
        return Ok(None);
    }
    let mut messages = Messages::new(reply);
    while let Some(message) = messages.next()? {
        match message.tag {
            b'T' => return backend::row_description(reply.get(message.body).unwrap_or_default()).map(Some),
            b'n' => return Ok(Some(Vec::new())),
            b'2' | b'Z' => break,
            _ => {}
        }
    }
    Ok(None)
}
