//! Replies, read: what the server answered to one statement.
//!
//! ```text
//! [OK]     [error]     [count][definitions][row]..[row][OK or error]
//! ```
//!
//! A procedure's reply has several of these, and its own OK.
//!
//! The definitions are most of a small reply, and the same each time: they are compared with those that were read
//! last, and parsed only when they differ.

use std::ops::Range;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use bytes::{Bytes, BytesMut};
use cenote_pool::Reply;

use crate::error::Error;
use crate::row::Row;
use crate::server_error::ServerError;
use crate::value::Format;
use crate::wire::column::Columns;
use crate::wire::cursor::Cursor;
use crate::wire::framer::DEFINITIONS_MAX;
use crate::wire::packet::{HEADER_BYTES, Header};
use crate::wire::status::{Capabilities, ERROR_HEADER, OK_HEADER, OkPacket, StatusFlags, ends_rows};

/// What matters to reading numbers off an OK packet: the log-in insists on it.
const CAPABILITIES: Capabilities = Capabilities::DEPRECATE_EOF;

/// What ended a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Completion {
    pub(crate) affected_rows: u64,
    pub(crate) last_insert_id: u64,
    pub(crate) warnings: u16,
}

/// Where a row is: in the reply, or by itself if it came in several packets.
pub(crate) enum RowBytes {
    Within(Range<usize>),
    Joined(Bytes),
}

impl RowBytes {
    /// The row, as a view into the reply.
    #[inline]
    pub(crate) fn into_row(self, reply: Reply, columns: Arc<Columns>, format: Format) -> Result<Row, Error> {
        match self {
            RowBytes::Within(range) => Row::new(reply, range, format, columns),
            RowBytes::Joined(bytes) => {
                let all = 0..bytes.len();
                Row::new(bytes.into(), all, format, columns)
            }
        }
    }
}

/// Reads a reply packet by packet.
struct Reader<'a> {
    reply: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// The payload of the next packet, and whether it goes on in the one behind it.
    #[inline(always)]
    fn next(&mut self) -> Result<(Range<usize>, bool), Error> {
        let rest = self.reply.get(self.at..).unwrap_or_default();
        let header = Header::parse(rest).ok_or_else(too_short)?;
        let begins_at = self.at + HEADER_BYTES;
        let ends_at = begins_at + header.payload_bytes;
        if ends_at > self.reply.len() {
            return Err(too_short());
        }
        self.at = ends_at;
        Ok((begins_at..ends_at, header.goes_on()))
    }

    #[inline(always)]
    fn bytes(&self, range: Range<usize>) -> &'a [u8] {
        self.reply.get(range).unwrap_or_default()
    }

    /// The rest of a payload whose first part is `first`.
    #[cold]
    fn join(&mut self, first: Range<usize>) -> Result<Bytes, Error> {
        let mut joined = BytesMut::from(self.bytes(first));
        loop {
            let (part, goes_on) = self.next()?;
            joined.extend_from_slice(self.bytes(part));
            if !goes_on {
                return Ok(joined.freeze());
            }
        }
    }
}

#[cold]
fn too_short() -> Error {
    Error::peer("a reply is cut short")
}

/// Whose session the statement ran in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Session {
    /// It has to be left as it was, and a statement has one result.
    Shared,
    /// Whoever holds the lease looks after it.
    Leased,
}

/// Gives `keep` every row of a statement's reply, with the columns they have in common. `known` are the columns that
/// were read last for this statement, and is renewed. What a procedure returns behind its first result is refused if it
/// has rows.
///
/// # Errors
///
/// The server's own error, what `keep` returns, or that the reply makes no sense.
#[inline]
pub(crate) fn rows(
    reply: &[u8],
    known: &ArcSwapOption<Columns>,
    session: Session,
    keep: impl FnMut(RowBytes, &Arc<Columns>) -> Result<(), Error>,
) -> Result<Completion, Error> {
    rows_and_columns(reply, known, session, keep).map(|(completion, _)| completion)
}

/// The same, and the columns, which a result without rows may have; `None` where the statement returns none.
#[inline]
pub(crate) fn rows_and_columns(
    reply: &[u8],
    known: &ArcSwapOption<Columns>,
    session: Session,
    keep: impl FnMut(RowBytes, &Arc<Columns>) -> Result<(), Error>,
) -> Result<(Completion, Option<Arc<Columns>>), Error> {
    let mut reader = Reader { reply, at: 0 };
    let result = result(&mut reader, known, keep)?;
    if result.status.contains(StatusFlags::MORE_RESULTS_EXISTS) {
        let (last, more_rows) = further_results(&mut reader, session)?;
        return match more_rows {
            false => Ok((last, result.columns)),
            true => Err(Error::caller("the statement has run, and has several results with rows. Use `call` for it")),
        };
    }
    finish(&reader, result.status, session)?;
    Ok((result.completion, result.columns))
}

/// The same for whoever wants no rows, of whichever result.
pub(crate) fn completion(reply: &[u8], known: &ArcSwapOption<Columns>, session: Session) -> Result<Completion, Error> {
    let mut reader = Reader { reply, at: 0 };
    let result = result(&mut reader, known, |_, _| Ok(()))?;
    if result.status.contains(StatusFlags::MORE_RESULTS_EXISTS) {
        return further_results(&mut reader, session).map(|(last, _)| last);
    }
    finish(&reader, result.status, session)?;
    Ok(result.completion)
}

/// Reads what follows the first result: how the last one ended, and whether any has rows.
#[cold]
fn further_results(reader: &mut Reader<'_>, session: Session) -> Result<(Completion, bool), Error> {
    if session == Session::Shared {
        return Err(Error::caller(
            "the statement has several results, which needs a connection of its own. Use `call` of a lease or a transaction",
        ));
    }
    let mut any_rows = false;
    loop {
        let result = result(reader, &ArcSwapOption::empty(), |_, _| Ok(()))?;
        any_rows |= result.columns.is_some();
        if !result.status.contains(StatusFlags::MORE_RESULTS_EXISTS) {
            finish(reader, result.status, session)?;
            return Ok((result.completion, any_rows));
        }
    }
}

/// One of the results of a statement.
pub(crate) struct ResultEnd {
    /// `None`: it is none with rows.
    pub(crate) columns: Option<Arc<Columns>>,
    pub(crate) completion: Completion,
    pub(crate) status: StatusFlags,
}

/// Gives `keep` every row of every result of a statement, and `end` each end.
///
/// # Errors
///
/// As for [`rows`].
pub(crate) fn results(
    reply: &[u8],
    mut keep: impl FnMut(RowBytes, &Arc<Columns>) -> Result<(), Error>,
    mut end: impl FnMut(ResultEnd),
) -> Result<(), Error> {
    let mut reader = Reader { reply, at: 0 };
    loop {
        let result = result(&mut reader, &ArcSwapOption::empty(), &mut keep)?;
        let status = result.status;
        end(result);
        if !status.contains(StatusFlags::MORE_RESULTS_EXISTS) {
            return finish(&reader, status, Session::Leased);
        }
    }
}

/// Reads one result.
#[inline(always)]
fn result(
    reader: &mut Reader<'_>,
    known: &ArcSwapOption<Columns>,
    mut keep: impl FnMut(RowBytes, &Arc<Columns>) -> Result<(), Error>,
) -> Result<ResultEnd, Error> {
    let (first, _) = reader.next()?;
    let first = reader.bytes(first);
    match first.first() {
        Some(&OK_HEADER) => return complete(first, None),
        Some(&ERROR_HEADER) => return Err(server_error(first)),
        _ => {}
    }
    let count = Cursor::new(first).lenenc().filter(|count| *count <= DEFINITIONS_MAX);
    let count = count.ok_or_else(|| Error::peer("a number of columns that cannot be"))? as usize;
    let columns = columns(reader, known, count)?;
    loop {
        let (payload, goes_on) = reader.next()?;
        let front = reader.bytes(payload.clone());
        let first_byte = front.first().copied().unwrap_or_default();
        if first_byte == ERROR_HEADER {
            return Err(server_error(front));
        }
        if ends_rows(first_byte, front.len(), CAPABILITIES) {
            return complete(front, Some(columns));
        }
        let row = if goes_on { RowBytes::Joined(reader.join(payload)?) } else { RowBytes::Within(payload) };
        keep(row, &columns)?;
    }
}

/// The columns at the reader's place.
#[inline]
fn columns(reader: &mut Reader<'_>, known: &ArcSwapOption<Columns>, count: usize) -> Result<Arc<Columns>, Error> {
    let block = reader.reply.get(reader.at..).unwrap_or_default();
    let last = known.load();
    if let Some(last) = &*last
        && last.len() == count
        && let Some(bytes) = last.matches(block)
    {
        reader.at += bytes;
        return Ok(Arc::clone(last));
    }
    let (parsed, bytes) = Columns::parse(block, count)?;
    reader.at += bytes;
    let parsed = Arc::new(parsed);
    known.store(Some(Arc::clone(&parsed)));
    Ok(parsed)
}

/// An OK packet that ends a result.
#[inline]
fn complete(payload: &[u8], columns: Option<Arc<Columns>>) -> Result<ResultEnd, Error> {
    let ok = OkPacket::parse(payload, CAPABILITIES).ok_or_else(|| Error::peer("an OK packet that cannot be read"))?;
    let OkPacket { affected_rows, last_insert_id, warnings, status, .. } = ok;
    Ok(ResultEnd { columns, completion: Completion { affected_rows, last_insert_id, warnings }, status })
}

/// Checks the end of a reply: nothing may follow, and a session that is shared must be as it was.
#[inline]
fn finish(reader: &Reader<'_>, status: StatusFlags, session: Session) -> Result<(), Error> {
    if session == Session::Shared && !status.is_settled() {
        return Err(Error::caller(
            "the statement left a transaction open on a shared connection, autocommit off, or no default database; the \
             connection was closed and the transaction rolled back. Use `pool.begin()` for a transaction",
        ));
    }
    if reader.at != reader.reply.len() {
        return Err(Error::peer("something behind the end of a statement"));
    }
    Ok(())
}

#[cold]
fn server_error(payload: &[u8]) -> Error {
    Error::server(ServerError::parse(payload.get(1..).unwrap_or_default()))
}

/// The error in a reply that begins with one: then nothing came before it.
pub(crate) fn refusal(reply: &[u8]) -> Option<ServerError> {
    let mut reader = Reader { reply, at: 0 };
    let (first, _) = reader.next().ok()?;
    let body = reader.bytes(first).strip_prefix(&[ERROR_HEADER])?;
    Some(ServerError::parse(body))
}

/// The error in a reply that ends with one.
#[cold]
pub(crate) fn failure(reply: &[u8]) -> Option<ServerError> {
    let mut reader = Reader { reply, at: 0 };
    loop {
        let (payload, _) = reader.next().ok()?;
        if reader.at == reply.len() {
            return reader.bytes(payload).strip_prefix(&[ERROR_HEADER]).map(ServerError::parse);
        }
    }
}

/// The number of parameters, from the reply to a preparation.
pub(crate) fn parameters(reply: &[u8]) -> Result<u16, Error> {
    let (_, parameters) =
        prepared(reply).ok_or_else(|| Error::peer("an answer to a preparation that cannot be read"))?;
    Ok(parameters)
}

/// The server's name for a statement and the number of its parameters, from the reply to its preparation; `None` if
/// that failed.
pub(crate) fn prepared(reply: &[u8]) -> Option<(u32, u16)> {
    let mut cursor = Cursor::new(reply.get(HEADER_BYTES..)?);
    if cursor.u8()? != OK_HEADER {
        return None;
    }
    let handle = cursor.u32()?;
    let _columns = cursor.u16()?;
    Some((handle, cursor.u16()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::column::tests::definition;
    use crate::wire::packet;

    const END: &[u8] = b"\xfe\0\0\x02\0\0\0";

    fn reply(count: u8, rows: &[&[u8]], end: &[u8]) -> Bytes {
        let mut out = Vec::new();
        let mut sequence = packet::append(&[count], 1, &mut out);
        for name in ["a", "b"].iter().take(count.into()) {
            out.extend_from_slice(&definition(sequence, name, 3, 0, 63, 0));
            sequence += 1;
        }
        for payload in rows.iter().chain([&end]) {
            sequence = packet::append(payload, sequence, &mut out);
        }
        out.into()
    }

    fn collect(reply: &[u8], known: &ArcSwapOption<Columns>) -> Result<(Vec<Vec<u8>>, Completion), Error> {
        let mut found = Vec::new();
        let completion = rows(reply, known, Session::Shared, |row, _| {
            found.push(match row {
                RowBytes::Within(range) => reply[range].to_vec(),
                RowBytes::Joined(bytes) => bytes.to_vec(),
            });
            Ok(())
        })?;
        Ok((found, completion))
    }

    #[test]
    fn rows_and_the_end_are_found_and_columns_are_known_again() {
        let known = ArcSwapOption::empty();
        let first = reply(1, &[b"\0\0one", b"\0\0two"], END);
        let (rows, completion) = collect(&first, &known).unwrap();
        assert_eq!(rows, [b"\0\0one", b"\0\0two"]);
        assert_eq!(completion, Completion { affected_rows: 0, last_insert_id: 0, warnings: 0 });
        let columns = known.load_full().unwrap();
        collect(&first, &known).unwrap();
        assert!(Arc::ptr_eq(&columns, &known.load_full().unwrap()), "the same definitions are not parsed again");
        collect(&reply(2, &[], END), &known).unwrap();
        assert_eq!(known.load_full().unwrap().len(), 2, "others are");
        // Fewer columns than known, whose definitions are the same as far as they go.
        assert_eq!(collect(&reply(1, &[], END), &known).unwrap().0.len(), 0);
        assert_eq!(known.load_full().unwrap().len(), 1);
    }

    #[test]
    fn a_row_of_several_packets_is_joined() {
        let row: Vec<u8> = (0..packet::PACKET_PAYLOAD_BYTES_MAX + 5).map(|at| (at % 251) as u8).collect();
        let (rows, _) = collect(&reply(1, &[&row, b"\0\0next"], END), &ArcSwapOption::empty()).unwrap();
        assert!(rows[0] == row, "the row came back changed");
        assert_eq!(rows[1], b"\0\0next");
    }

    #[test]
    fn an_answer_without_rows_tells_what_it_did() {
        let mut out = Vec::new();
        packet::append(b"\0\x03\xfc\x2c\x01\x02\0\x05\0", 1, &mut out);
        let (_, completion) = collect(&out, &ArcSwapOption::empty()).unwrap();
        assert_eq!(completion, Completion { affected_rows: 3, last_insert_id: 300, warnings: 5 });
    }

    #[test]
    fn errors_are_told_whose_fault_they_are() {
        let known = ArcSwapOption::empty();
        let error = |bytes: &Bytes| collect(bytes, &known).unwrap_err();
        let interrupted = reply(1, &[b"\0\0one"], b"\xff\x25\x05#70100Query execution was interrupted");
        assert!(error(&interrupted).is_server());
        assert_eq!(failure(&interrupted).map(|error| error.code().number()), Some(1317));
        assert!(failure(&reply(1, &[b"\xff\0\0"], END)).is_none(), "only the last packet can be the error");
        assert!(error(&reply(1, &[], b"\xfe\0\0\x03\0\0\0")).is_caller(), "a transaction left open");
        assert!(error(&reply(1, &[], b"\xfe\0\0\0\0\0\0")).is_caller(), "autocommit off");
        assert!(error(&reply(1, &[], b"\xfe\0\0\x0a\0\0\0")).is_caller(), "several results");
        let whole = reply(1, &[b"\0\0one"], END);
        for cut in 0..whole.len() {
            assert!(error(&whole.slice(..cut)).is_peer(), "cut to {cut}");
        }
        let behind = Bytes::from([&whole[..], b"\0\0\0\x07"].concat());
        assert!(error(&behind).is_peer(), "something behind the end");
    }

    #[test]
    fn a_preparation_is_read() {
        let mut ok = Vec::new();
        packet::append(b"\0\x01\x02\x03\x04\x02\0\x01\0\0\0\0", 1, &mut ok);
        assert_eq!(prepared(&ok), Some((0x0403_0201, 1)));
        let mut error = Vec::new();
        packet::append(b"\xff\x28\x04#42000no", 1, &mut error);
        assert_eq!(prepared(&error), None);
        let error = Bytes::from(error);
        assert_eq!(refusal(&error).map(|error| error.code().number()), Some(1064));
        assert!(parameters(&error).is_err());
    }
}
