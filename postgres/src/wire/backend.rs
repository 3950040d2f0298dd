//! Messages of a reply, read one after another from the bytes as they came.
//!
//! Everything is checked against the bytes at hand: a server that lies about a length or a count gets an error, and
//! nothing is allocated by a number it merely claims.
//!
//! What every query goes through is inlined by hand: as calls it was a quarter of a lookup's instructions.

use std::ops::Range;

use postgres_types::Oid;

use crate::error::Error;

/// How most replies begin: `BindComplete`.
pub(crate) const BIND_COMPLETE: &[u8] = b"2\0\0\0\x04";

/// How most replies end: `ReadyForQuery`, outside of a transaction.
pub(crate) const SETTLED: &[u8] = b"Z\0\0\0\x05I";

/// One message: its type, and where its body is in the reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) tag: u8,
    pub(crate) body: Range<usize>,
}

/// The messages of one reply.
pub(crate) struct Messages<'a> {
    reply: &'a [u8],
    at: usize,
}

impl<'a> Messages<'a> {
    pub(crate) fn new(reply: &'a [u8]) -> Messages<'a> {
        Messages { reply, at: 0 }
    }

    /// What has not been read yet.
    #[inline(always)]
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.reply.get(self.at..).unwrap_or_default()
    }

    /// Passes over these bytes, if they come next.
    #[inline(always)]
    pub(crate) fn pass_over(&mut self, bytes: &[u8]) {
        if self.rest().starts_with(bytes) {
            self.at += bytes.len();
        }
    }

    /// The next message; `None` at the end.
    #[inline(always)]
    pub(crate) fn next(&mut self) -> Result<Option<Message>, Error> {
        let Some(rest) = self.reply.get(self.at..) else { return Err(too_short()) };
        let Some(&[tag, a, b, c, d]) = rest.first_chunk() else {
            return if rest.is_empty() { Ok(None) } else { Err(too_short()) };
        };
        let bytes = u32::from_be_bytes([a, b, c, d]) as usize + 1;
        if bytes < HEADER_BYTES || bytes > rest.len() {
            return Err(too_short());
        }
        let body = self.at + HEADER_BYTES..self.at + bytes;
        self.at += bytes;
        Ok(Some(Message { tag, body }))
    }
}

/// The type byte and the length.
const HEADER_BYTES: usize = 5;

#[cold]
fn too_short() -> Error {
    Error::peer("a message is cut short")
}

/// Reads numbers and strings off the front of a body.
pub(crate) struct Body<'a>(pub(crate) &'a [u8]);

impl<'a> Body<'a> {
    #[inline(always)]
    pub(crate) fn u16(&mut self) -> Result<u16, Error> {
        self.chunk().map(u16::from_be_bytes)
    }

    #[inline(always)]
    pub(crate) fn u32(&mut self) -> Result<u32, Error> {
        self.chunk().map(u32::from_be_bytes)
    }

    pub(crate) fn text(&mut self) -> Result<&'a str, Error> {
        let end = self.0.iter().position(|&byte| byte == 0).ok_or_else(|| Error::peer("a string without its end"))?;
        let (text, rest) = (&self.0[..end], &self.0[end + 1..]);
        self.0 = rest;
        std::str::from_utf8(text).map_err(|_| Error::peer("a name that is not UTF-8"))
    }

    #[inline(always)]
    fn chunk<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let Some((chunk, rest)) = self.0.split_first_chunk() else { return Err(too_short()) };
        self.0 = rest;
        Ok(*chunk)
    }
}

/// A column as `RowDescription` tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ColumnDescription {
    pub(crate) name: String,
    pub(crate) table_oid: Oid,
    pub(crate) column_id: u16,
    pub(crate) type_oid: Oid,
    pub(crate) type_modifier: i32,
}

/// The columns of a `RowDescription`.
pub(crate) fn row_description(body: &[u8]) -> Result<Vec<ColumnDescription>, Error> {
    let mut body = Body(body);
    let count = body.u16()?;
    let mut columns = Vec::new();
    for _ in 0..count {
        let name = body.text()?.to_owned();
        let table_oid = body.u32()?;
        let column_id = body.u16()?;
        let type_oid = body.u32()?;
        let _type_size = body.u16()?;
        let type_modifier = body.u32()? as i32;
        let _format = body.u16()?;
        columns.push(ColumnDescription { name, table_oid, column_id, type_oid, type_modifier });
    }
    Ok(columns)
}

/// The parameter types of a `ParameterDescription`.
pub(crate) fn parameter_description(body: &[u8]) -> Result<Vec<Oid>, Error> {
    let mut body = Body(body);
    let count = body.u16()?;
    let mut oids = Vec::new();
    for _ in 0..count {
        oids.push(body.u32()?);
    }
    Ok(oids)
}

/// Rows affected, from a `CommandComplete` tag: its last word, where that is a number.
pub(crate) fn rows_affected(body: &[u8]) -> u64 {
    let tag = body.strip_suffix(b"\0").unwrap_or(body);
    let last = tag.rsplit(|&byte| byte == b' ').next().unwrap_or_default();
    std::str::from_utf8(last).ok().and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// Checks a `DataRow`: so many fields, each within the message, and nothing behind them.
#[inline]
pub(crate) fn check_row(body: &[u8], columns: usize) -> Result<(), Error> {
    let mut rest = Body(body);
    let count = rest.u16()? as usize;
    if count != columns {
        return Err(Error::peer(format!("a row of {count} fields for {columns} columns")));
    }
    for _ in 0..count {
        field(&mut rest)?;
    }
    if rest.0.is_empty() { Ok(()) } else { Err(Error::peer("a row with bytes behind its last field")) }
}

/// The next field of a row; `None` is NULL.
#[inline(always)]
pub(crate) fn field<'a>(rest: &mut Body<'a>) -> Result<Option<&'a [u8]>, Error> {
    match rest.u32()? {
        u32::MAX => Ok(None),
        length if length as usize <= rest.0.len() => {
            let (value, behind) = rest.0.split_at(length as usize);
            rest.0 = behind;
            Ok(Some(value))
        }
        length => Err(too_long(length, rest.0.len())),
    }
}

#[cold]
fn too_long(length: u32, left: usize) -> Error {
    Error::peer(format!("a field of {length} bytes in a message with {left} left"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn tags_tell_how_many_rows() {
        for (tag, rows) in [("SELECT 5\0", 5), ("INSERT 0 12\0", 12), ("CREATE TABLE\0", 0), ("UPDATE 0\0", 0), ("", 0)]
        {
            assert_eq!(rows_affected(tag.as_bytes()), rows, "{tag}");
        }
    }

    #[test]
    fn rows_that_lie_are_refused() {
        assert!(check_row(b"\0\x02\0\0\0\x01a\xff\xff\xff\xff", 2).is_ok());
        for (name, body) in [
            ("too few fields", &b"\0\x01\0\0\0\x01a"[..]),
            ("a field past the end", b"\0\x02\0\0\0\x09a\xff\xff\xff\xff"),
            ("a negative length", b"\0\x02\xff\xff\xff\xfe\xff\xff\xff\xff"),
            ("bytes behind", b"\0\x02\0\0\0\x01a\xff\xff\xff\xffz"),
            ("nothing", b""),
        ] {
            assert!(check_row(body, 2).is_err(), "{name}");
        }
    }

    proptest! {
        #[test]
        fn noise_never_panics(noise in proptest::collection::vec(any::<u8>(), 0..200), columns in 0_usize..5) {
            let _ = check_row(&noise, columns);
            let _ = row_description(&noise);
            let _ = parameter_description(&noise);
            let _ = rows_affected(&noise);
            let mut messages = Messages::new(&noise);
            while let Ok(Some(message)) = messages.next() {
                prop_assert!(message.body.end <= noise.len());
            }
        }
    }
}
