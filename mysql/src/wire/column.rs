//! Column definitions: what the server says of a result's columns before its rows.
//!
//! ```text
//!  [column count] [definition] [definition] ... [row] [row] ... [end]
//!                 `------- the block --------'
//! ```
//!
//! The block is most of the reply to a small query, and it is the same each time the same statement runs. So its bytes are
//! kept with what they were parsed to: a reply that begins with the same bytes has the same columns, and nothing of
//! it needs to be parsed.
//!
//! It does not read the column count, nor the EOF packet that may end the block.
//!
//! Source: client/server protocol, "Text Resultset" and "Column Definition".

use std::fmt;

use crate::error::Error;
use crate::wire::column_type::{BinaryLength, ColumnType, UNSIGNED_FLAG};
use crate::wire::cursor::Cursor;
use crate::wire::packet::{HEADER_BYTES, Header};

const NOT_NULL_FLAG: u16 = 0x1;
const PRIMARY_KEY_FLAG: u16 = 0x2;
const AUTO_INCREMENT_FLAG: u16 = 0x200;

/// A column of a result.
#[derive(Clone, Debug)]
pub struct Column {
    schema: Box<str>,
    table: Box<str>,
    original_table: Box<str>,
    name: Box<str>,
    original_name: Box<str>,
    ty: ColumnType,
    charset: u16,
    length: u32,
    flags: u16,
    decimals: u8,
}

impl Column {
    /// Its name, or the name that the query gives it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its name in its table, if it comes from one.
    pub fn original_name(&self) -> Option<&str> {
        some_text(&self.original_name)
    }

    /// Its type.
    pub fn type_(&self) -> ColumnType {
        self.ty
    }

    /// Whether it is a number that cannot be negative.
    pub fn is_unsigned(&self) -> bool {
        self.flags & UNSIGNED_FLAG != 0
    }

    /// Whether it may be NULL, as far as the server knows.
    pub fn is_nullable(&self) -> bool {
        self.flags & NOT_NULL_FLAG == 0
    }

    /// Whether it is of its table's primary key.
    pub fn is_primary_key(&self) -> bool {
        self.flags & PRIMARY_KEY_FLAG != 0
    }

    /// Whether the server draws its values: AUTO_INCREMENT.
    pub fn is_auto_increment(&self) -> bool {
        self.flags & AUTO_INCREMENT_FLAG != 0
    }

    /// The table it comes from, if it comes from one, or the name that the query gives it.
    pub fn table(&self) -> Option<&str> {
        some_text(&self.table)
    }

    /// The table's own name.
    pub fn original_table(&self) -> Option<&str> {
        some_text(&self.original_table)
    }

    /// The table's schema (database).
    pub fn schema(&self) -> Option<&str> {
        some_text(&self.schema)
    }

    /// The number of its character set and collation. 63 is `binary`.
    pub fn charset(&self) -> u16 {
        self.charset
    }

    /// The most bytes a value has as text. Of BIT, the number of its bits.
    pub fn length(&self) -> u32 {
        self.length
    }

    /// Digits behind the point: of a DECIMAL, and of the seconds of a time. 31 when a floating-point number shows as many
    /// as it has.
    pub fn decimals(&self) -> u8 {
        self.decimals
    }

    /// The flags as the server sent them.
    pub fn flags(&self) -> u16 {
        self.flags
    }

    #[inline]
    pub(crate) fn binary_length(&self) -> BinaryLength {
        self.ty.binary_length()
    }

    /// A column from the payload of its definition.
    fn parse(payload: &[u8]) -> Result<Column, Error> {
        let mut cursor = Cursor::new(payload);
        // The catalog, which is always `def`.
        text(&mut cursor)?;
        let (schema, table, original_table) = (text(&mut cursor)?, text(&mut cursor)?, text(&mut cursor)?);
        let (name, original_name) = (text(&mut cursor)?, text(&mut cursor)?);
        let mut fixed = Cursor::new(cursor.lenenc_bytes().ok_or_else(cut_short)?);
        if !cursor.is_empty() {
            return Err(Error::peer("a column definition with bytes behind its end"));
        }
        let (Some(charset), Some(length), Some(code)) = (fixed.u16(), fixed.u32(), fixed.u8()) else {
            return Err(cut_short());
        };
        let (Some(flags), Some(decimals)) = (fixed.u16(), fixed.u8()) else { return Err(cut_short()) };
        let ty = ColumnType::from_wire(code, flags, charset)
            .ok_or_else(|| Error::peer(format!("a column of type {code}, which is not known")))?;
        Ok(Column {
            schema: schema.into(),
            table: table.into(),
            original_table: original_table.into(),
            name: name.into(),
            original_name: original_name.into(),
            ty,
            charset,
            length,
            flags,
            decimals,
        })
    }
}

fn some_text(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}

fn text<'a>(cursor: &mut Cursor<'a>) -> Result<&'a str, Error> {
    let bytes = cursor.lenenc_bytes().ok_or_else(cut_short)?;
    std::str::from_utf8(bytes).map_err(|_| Error::peer("a name that is not UTF-8"))
}

fn cut_short() -> Error {
    Error::peer("a column definition is cut short")
}

/// The columns of one result, with the bytes they were parsed from.
pub(crate) struct Columns {
    columns: Box<[Column]>,
    block: Box<[u8]>,
}

impl Columns {
    /// The columns at the front of `block`, which begins with the packet (header included) of the first definition; and
    /// how many bytes they take.
    pub(crate) fn parse(block: &[u8], count: usize) -> Result<(Columns, usize), Error> {
        // Grown as they come: the count is a claim.
        let mut columns = Vec::new();
        let mut cursor = Cursor::new(block);
        for _ in 0..count {
            columns.push(Column::parse(packet(&mut cursor)?)?);
        }
        let bytes = block.len() - cursor.rest().len();
        let block = block.get(..bytes).unwrap_or_default();
        Ok((Columns { columns: columns.into(), block: block.into() }, bytes))
    }

    /// Whether `bytes` begin with the very definitions these were parsed from, and if so how many bytes those take.
    #[inline]
    pub(crate) fn matches(&self, bytes: &[u8]) -> Option<usize> {
        bytes.starts_with(&self.block).then_some(self.block.len())
    }

    #[inline]
    pub(crate) fn as_slice(&self) -> &[Column] {
        &self.columns
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.columns.len()
    }
}

impl fmt::Debug for Columns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.columns).finish()
    }
}

/// The payload of the next packet.
fn packet<'a>(cursor: &mut Cursor<'a>) -> Result<&'a [u8], Error> {
    let header = cursor.bytes(HEADER_BYTES).and_then(Header::parse).ok_or_else(cut_short)?;
    // Names have 256 bytes at most: no definition is that long.
    if header.goes_on() {
        return Err(Error::peer("a column definition of 16 MiB"));
    }
    cursor.bytes(header.payload_bytes).ok_or_else(cut_short)
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::cursor::append_lenenc_bytes;

    /// The packet of a definition.
    pub(crate) fn definition(sequence: u8, name: &str, code: u8, flags: u16, charset: u16, decimals: u8) -> Vec<u8> {
        let mut payload = Vec::new();
        for text in ["def", "shop", "i", "item", name, "original"] {
            append_lenenc_bytes(text.as_bytes(), &mut payload);
        }
        payload.push(12);
        payload.extend_from_slice(&charset.to_le_bytes());
        payload.extend_from_slice(&11_u32.to_le_bytes());
        payload.push(code);
        payload.extend_from_slice(&flags.to_le_bytes());
        payload.extend_from_slice(&[decimals, 0, 0]);
        let mut packet = (payload.len() as u32).to_le_bytes()[..3].to_vec();
        packet.push(sequence);
        packet.extend_from_slice(&payload);
        packet
    }

    /// Columns of these types.
    pub(crate) fn columns(types: &[(&str, u8, u16, u16, u8)]) -> Columns {
        let block: Vec<u8> = types
            .iter()
            .zip(2..)
            .flat_map(|(&(name, code, flags, charset, decimals), sequence)| {
                definition(sequence, name, code, flags, charset, decimals)
            })
            .collect();
        let (columns, bytes) = Columns::parse(&block, types.len()).expect("they are well formed");
        assert_eq!(bytes, block.len());
        columns
    }

    #[test]
    fn a_definition_says_what_there_is_to_know() {
        let columns = columns(&[("id", 3, 0x4223, 63, 0), ("name", 253, 0, 255, 0)]);
        let [id, name] = columns.as_slice() else { panic!("{columns:?}") };
        assert_eq!((id.name(), id.type_(), id.is_unsigned()), ("id", ColumnType::Int, true));
        assert_eq!((id.schema(), id.table(), id.original_table()), (Some("shop"), Some("i"), Some("item")));
        assert_eq!((id.original_name(), id.charset(), id.length(), id.decimals()), (Some("original"), 63, 11, 0));
        assert!(id.is_primary_key() && id.is_auto_increment() && !id.is_nullable(), "{id:?}");
        assert_eq!((name.name(), name.type_(), name.is_unsigned()), ("name", ColumnType::VarChar, false));
        assert!(name.is_nullable() && !name.is_primary_key(), "{name:?}");
    }

    #[test]
    fn the_same_bytes_are_the_same_columns() {
        let mut block = [definition(2, "a", 3, 0, 63, 0), definition(3, "b", 3, 0, 63, 0)].concat();
        let (columns, bytes) = Columns::parse(&block, 2).unwrap();
        block.extend_from_slice(b"rows");
        assert_eq!(columns.matches(&block), Some(bytes));
        assert_eq!(columns.matches(&block[..bytes]), Some(bytes));
        assert_eq!(columns.matches(&block[..bytes - 1]), None, "cut short");
        for at in 0..bytes {
            let mut other = block.clone();
            other[at] ^= 1;
            assert_eq!(columns.matches(&other), None, "byte {at} differs");
        }
        let (none, bytes) = Columns::parse(&block, 0).unwrap();
        assert_eq!((none.len(), bytes, none.matches(b"")), (0, 0, Some(0)));
    }

    #[test]
    fn definitions_that_lie_are_refused() {
        let whole = definition(2, "a", 3, 0, 63, 0);
        for cut in 0..whole.len() {
            assert!(Columns::parse(&whole[..cut], 1).is_err(), "cut to {cut} bytes");
        }
        assert!(Columns::parse(&whole, 2).is_err(), "one where two are claimed");
        assert!(Columns::parse(&whole, usize::MAX).is_err(), "no end of them claimed");
        let mut behind = whole.clone();
        behind[0] += 1;
        behind.push(0);
        assert!(Columns::parse(&behind, 1).is_err(), "a byte behind the end");
        let mut huge = vec![0xFF, 0xFF, 0xFF, 2];
        huge.resize(0xFF_FFFF + 4, 0);
        assert!(Columns::parse(&huge, 1).is_err(), "a packet that goes on in the next");
        assert!(Columns::parse(&definition(2, "a", 200, 0, 63, 0), 1).is_err(), "a type that is not known");
        let mut not_utf8 = definition(2, "a", 3, 0, 63, 0);
        let at = not_utf8.windows(2).position(|pair| pair == b"\x01a").unwrap() + 1;
        not_utf8[at] = 0xFF;
        assert!(Columns::parse(&not_utf8, 1).is_err(), "a name that is not UTF-8");
    }

    proptest! {
        #[test]
        fn noise_never_panics(noise in proptest::collection::vec(any::<u8>(), 0..300), count in 0_usize..5) {
            if let Ok((columns, bytes)) = Columns::parse(&noise, count) {
                prop_assert_eq!(columns.len(), count);
                prop_assert!(bytes <= noise.len());
            }
        }

        #[test]
        fn a_spoilt_definition_never_panics(at in 0_usize..60, byte: u8) {
            let mut packet = definition(2, "name", 253, 0, 255, 0);
            if let Some(place) = packet.get_mut(at) {
                *place = byte;
            }
            let _ = Columns::parse(&packet, 1);
        }
    }
}
