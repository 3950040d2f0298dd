//! Results as one block of bytes, read by the host without a call: where each field is, and its bytes as the server sent them.
//!
//! ```text
//!  [header 64][column 16] .. [column 16][names][field u32] .. [field u32][end u32][values]
//! ```
//!
//! Numbers are in the machine's own byte order. A field is where its value begins, counted from the first value; it ends
//! where the next one begins. The highest bit says NULL. What a value's bytes mean the column's type says: for Postgres the
//! binary format of that type, for MySQL that of the binary protocol.
//!
//! A batch is a block of blocks: `rows` of them, and the fields say where, the same way.

use std::sync::Arc;

use crate::guard::leaf;
use crate::handles;
use crate::status::CENOTE_ERR_TOO_LARGE;

/// The first number of a block: `CNB1`, the first letter lowest.
pub const CENOTE_BLOCK_MAGIC: u32 = 0x3142_4e43;
/// It came from MySQL or MariaDB.
pub const CENOTE_BLOCK_MYSQL: u32 = 1;
/// Its values are text, as a MySQL statement has them that the server does not prepare.
pub const CENOTE_BLOCK_TEXT: u32 = 2;
/// It holds blocks instead of rows.
pub const CENOTE_BLOCK_BATCH: u32 = 4;
/// In a field: it is NULL.
pub const CENOTE_FIELD_NULL: u32 = 0x8000_0000;
/// In a column: an integer that is not negative (MySQL).
pub const CENOTE_COLUMN_UNSIGNED: u32 = 1;
/// In a column: bytes, not text (MySQL).
pub const CENOTE_COLUMN_BYTES: u32 = 2;
/// In a column: a type of the database's own whose values are text (Postgres: an enum, citext), or an array of such.
pub const CENOTE_COLUMN_TEXT: u32 = 4;
/// In a column: an array (Postgres).
pub const CENOTE_COLUMN_ARRAY: u32 = 8;

/// The front of a block.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CenoteBlock {
    /// `CENOTE_BLOCK_MAGIC`.
    pub magic: u32,
    /// `CENOTE_BLOCK_*`, together.
    pub flags: u32,
    /// How many columns.
    pub columns: u32,
    /// How many rows; of a batch: how many blocks.
    pub rows: u32,
    /// Rows returned or changed.
    pub rows_affected: u64,
    /// MySQL: the value an INSERT drew; 0: none.
    pub last_insert_id: u64,
    /// MySQL: how many warnings the server has.
    pub warnings: u32,
    /// Where the columns begin, counted from the block's beginning.
    pub columns_at: u32,
    /// Where the fields begin.
    pub fields_at: u32,
    /// Where the values begin.
    pub values_at: u32,
    /// The length of the block in bytes.
    pub length: u64,
    /// Nothing yet.
    pub reserved: u64,
}

/// A column of a block.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CenoteColumn {
    /// Where its name begins, counted from the block's beginning: UTF-8, without a NUL.
    pub name_at: u32,
    /// The length of its name in bytes.
    pub name_length: u32,
    /// Postgres: the OID of its type. MySQL: the protocol's number of it.
    pub type_code: u32,
    /// `CENOTE_COLUMN_*`, together.
    pub flags: u32,
}

const HEADER_BYTES: usize = size_of::<CenoteBlock>();
const COLUMN_BYTES: usize = size_of::<CenoteColumn>();
const FIELD_BYTES: usize = size_of::<u32>();

/// Values of one block: the highest bit of a field is taken.
const VALUE_BYTES_MAX: usize = (1 << 31) - 1;

/// Blocks begin where numbers of eight bytes may be.
const ALIGNMENT: usize = 8;

/// A block that is kept until the host frees it.
#[derive(Debug)]
pub(crate) struct Block {
    words: Box<[u64]>,
    length: usize,
    /// The context that it was drained from.
    owner: u64,
}

impl Block {
    /// A copy of these bytes, where numbers may be read.
    pub(crate) fn copy(bytes: &[u8], owner: u64) -> Block {
        let words = bytes.chunks(ALIGNMENT).map(|chunk| {
            let mut word = [0; ALIGNMENT];
            word[..chunk.len()].copy_from_slice(chunk);
            u64::from_ne_bytes(word)
        });
        Block { words: words.collect(), length: bytes.len(), owner }
    }

    /// The context that it was drained from.
    pub(crate) fn owner(&self) -> u64 {
        self.owner
    }

    /// Where it is, and how long.
    pub(crate) fn place(&self) -> (*const u8, usize) {
        (self.words.as_ptr().cast(), self.length)
    }
}

/// Frees a block. 0 is none, and is let pass.
///
/// Any thread, leaf-safe.
#[unsafe(no_mangle)]
pub extern "C" fn cenote_block_free(block: u64) -> i32 {
    leaf("cenote_block_free", || match block {
        0 => Ok(()),
        block => handles::remove::<Block>(block).map(drop),
    })
}

/// The same, as a finaliser of Dart's, whose token is a pointer: the handle's number.
///
/// Any thread, leaf-safe.
#[unsafe(no_mangle)]
pub extern "C" fn cenote_block_finalize(block: *mut std::ffi::c_void) {
    cenote_block_free(block.addr() as u64);
}

/// Puts a block into the table: its handle, where it is, and how long.
pub(crate) fn keep(bytes: &[u8], owner: u64) -> (u64, *const u8, usize) {
    let block = Arc::new(Block::copy(bytes, owner));
    let (place, length) = block.place();
    (handles::insert(block), place, length)
}

/// Writes blocks, one behind the other.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    bytes: Vec<u8>,
}

/// What does not fit into a block.
pub(crate) struct TooLarge;

impl TooLarge {
    pub(crate) const STATUS: i32 = CENOTE_ERR_TOO_LARGE;
}

/// What a block says in its front, besides places.
#[derive(Default)]
pub(crate) struct Front {
    pub(crate) flags: u32,
    pub(crate) rows: usize,
    pub(crate) rows_affected: u64,
    pub(crate) last_insert_id: u64,
    pub(crate) warnings: u32,
}

/// A column, as a driver tells of it.
pub(crate) struct ColumnFront<'a> {
    pub(crate) name: &'a str,
    pub(crate) type_code: u32,
    pub(crate) flags: u32,
}

/// The fields of a block that is being written.
pub(crate) struct Fields<'a> {
    bytes: &'a mut Vec<u8>,
    next_field_at: usize,
    last_field_at: usize,
    values_at: usize,
    too_large: bool,
}

impl Writer {
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        // What one large result took is not kept for ever.
        self.bytes.shrink_to(1 << 20);
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Appends what is no block.
    pub(crate) fn append_bytes(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Appends a block; `fill` gives it its values, row by row.
    pub(crate) fn append<'c>(
        &mut self,
        front: &Front,
        columns: impl ExactSizeIterator<Item = ColumnFront<'c>>,
        value_bytes: usize,
        fill: impl FnOnce(&mut Fields<'_>),
    ) -> Result<(), TooLarge> {
        let begins_at = self.bytes.len();
        let column_count = columns.len();
        let fields = front.rows.checked_mul(column_count).ok_or(TooLarge)?;
        self.append_front(front, columns);
        self.append_fields(begins_at, fields, column_count, front, value_bytes, fill)
    }

    /// Appends a block of `count` blocks, which `fill` appends.
    pub(crate) fn append_batch(
        &mut self,
        count: usize,
        mut fill: impl FnMut(&mut Writer, usize) -> Result<(), TooLarge>,
    ) -> Result<(), TooLarge> {
        let begins_at = self.bytes.len();
        let front = Front { flags: CENOTE_BLOCK_BATCH, rows: count, ..Front::default() };
        self.append_front(&front, std::iter::empty());
        self.append_fields(begins_at, count, 0, &front, 0, |_| ())?;
        let (fields_at, values_at) = (begins_at + HEADER_BYTES, self.bytes.len());
        for number in 0..=count {
            let place = self.bytes.len() - values_at;
            if place > VALUE_BYTES_MAX {
                return Err(TooLarge);
            }
            let place = place as u32;
            put(&mut self.bytes, fields_at + number * FIELD_BYTES, place);
            if number < count {
                fill(self, number)?;
                pad(&mut self.bytes, begins_at);
            }
        }
        self.finish(begins_at)
    }

    fn append_front<'c>(&mut self, front: &Front, columns: impl ExactSizeIterator<Item = ColumnFront<'c>>) {
        let begins_at = self.bytes.len();
        for word in [CENOTE_BLOCK_MAGIC, front.flags, columns.len() as u32, front.rows as u32] {
            self.bytes.extend_from_slice(&word.to_ne_bytes());
        }
        self.bytes.extend_from_slice(&front.rows_affected.to_ne_bytes());
        self.bytes.extend_from_slice(&front.last_insert_id.to_ne_bytes());
        self.bytes.extend_from_slice(&front.warnings.to_ne_bytes());
        self.bytes.extend_from_slice(&(HEADER_BYTES as u32).to_ne_bytes());
        self.bytes.resize(begins_at + HEADER_BYTES + columns.len() * COLUMN_BYTES, 0);
        for (number, column) in columns.enumerate() {
            let name_at = (self.bytes.len() - begins_at) as u32;
            self.bytes.extend_from_slice(column.name.as_bytes());
            let entry = [name_at, column.name.len() as u32, column.type_code, column.flags];
            for (place, word) in entry.into_iter().enumerate() {
                let at = begins_at + HEADER_BYTES + number * COLUMN_BYTES + place * size_of::<u32>();
                put(&mut self.bytes, at, word);
            }
        }
        pad(&mut self.bytes, begins_at);
    }

    fn append_fields(
        &mut self,
        begins_at: usize,
        fields: usize,
        columns: usize,
        front: &Front,
        value_bytes: usize,
        fill: impl FnOnce(&mut Fields<'_>),
    ) -> Result<(), TooLarge> {
        let fields_at = self.bytes.len();
        let table_bytes = fields.checked_add(1).and_then(|count| count.checked_mul(FIELD_BYTES)).ok_or(TooLarge)?;
        let front_fits = u32::try_from(front.rows).is_ok() && u32::try_from(columns).is_ok();
        if table_bytes > VALUE_BYTES_MAX || !front_fits {
            return Err(TooLarge);
        }
        self.bytes.reserve(table_bytes + ALIGNMENT + value_bytes);
        self.bytes.resize(fields_at + table_bytes, 0);
        pad(&mut self.bytes, begins_at);
        let values_at = self.bytes.len();
        put(&mut self.bytes, begins_at + 40, (fields_at - begins_at) as u32);
        put(&mut self.bytes, begins_at + 44, (values_at - begins_at) as u32);
        let last_field_at = fields_at + fields * FIELD_BYTES;
        let mut filled =
            Fields { bytes: &mut self.bytes, next_field_at: fields_at, last_field_at, values_at, too_large: false };
        fill(&mut filled);
        let too_large = filled.too_large;
        let values = self.bytes.len() - values_at;
        put(&mut self.bytes, last_field_at, values as u32);
        if too_large {
            return Err(TooLarge);
        }
        self.finish(begins_at)
    }

    fn finish(&mut self, begins_at: usize) -> Result<(), TooLarge> {
        let length = (self.bytes.len() - begins_at) as u64;
        if let Some(place) = self.bytes.get_mut(begins_at + 48..begins_at + 56) {
            place.copy_from_slice(&length.to_ne_bytes());
        }
        Ok(())
    }
}

impl Fields<'_> {
    /// The next value; `None` is NULL.
    #[inline]
    pub(crate) fn push(&mut self, value: Option<&[u8]>) {
        let begins_at = self.bytes.len() - self.values_at;
        let bytes = value.map_or(0, <[u8]>::len);
        if self.next_field_at >= self.last_field_at || begins_at + bytes > VALUE_BYTES_MAX {
            self.too_large = true;
            return;
        }
        let null = if value.is_none() { CENOTE_FIELD_NULL } else { 0 };
        put(self.bytes, self.next_field_at, begins_at as u32 | null);
        self.next_field_at += FIELD_BYTES;
        if let Some(value) = value {
            self.bytes.extend_from_slice(value);
        }
    }
}

#[inline]
fn put(bytes: &mut [u8], at: usize, number: u32) {
    if let Some(place) = bytes.get_mut(at..at + size_of::<u32>()) {
        place.copy_from_slice(&number.to_ne_bytes());
    }
}

fn pad(bytes: &mut Vec<u8>, begins_at: usize) {
    let length = bytes.len() - begins_at;
    bytes.resize(begins_at + length.next_multiple_of(ALIGNMENT), 0);
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;

    fn word(bytes: &[u8], at: usize) -> u32 {
        u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap())
    }

    #[test]
    fn what_is_written_is_where_the_struct_says() {
        let mut writer = Writer::default();
        let columns = [("id", 23, 0), ("näme", 25, CENOTE_COLUMN_BYTES)];
        let columns = columns.iter().map(|&(name, type_code, flags)| ColumnFront { name, type_code, flags });
        let front = Front { flags: 0, rows: 2, rows_affected: 7, last_insert_id: 8, warnings: 9 };
        let fill = |fields: &mut Fields<'_>| {
            for value in [Some(&b"\0\0\0\x2a"[..]), Some(b"x"), None, Some(b"")] {
                fields.push(value);
            }
        };
        assert!(writer.append(&front, columns, 5, fill).is_ok());
        let bytes = writer.bytes();
        assert_eq!(word(bytes, offset_of!(CenoteBlock, magic)), CENOTE_BLOCK_MAGIC);
        assert_eq!(word(bytes, offset_of!(CenoteBlock, columns)), 2);
        assert_eq!(word(bytes, offset_of!(CenoteBlock, rows)), 2);
        assert_eq!(word(bytes, offset_of!(CenoteBlock, warnings)), 9);
        assert_eq!(word(bytes, offset_of!(CenoteBlock, rows_affected)), 7);
        assert_eq!(word(bytes, offset_of!(CenoteBlock, last_insert_id)), 8);
        assert_eq!(word(bytes, offset_of!(CenoteBlock, length)), bytes.len() as u32);
        let second = word(bytes, offset_of!(CenoteBlock, columns_at)) as usize + COLUMN_BYTES;
        let name_at = word(bytes, second) as usize;
        assert_eq!(&bytes[name_at..name_at + word(bytes, second + 4) as usize], "näme".as_bytes());
        assert_eq!((word(bytes, second + 8), word(bytes, second + 12)), (25, CENOTE_COLUMN_BYTES));
        let fields_at = word(bytes, offset_of!(CenoteBlock, fields_at)) as usize;
        let fields: Vec<u32> = (0..5).map(|number| word(bytes, fields_at + number * 4)).collect();
        assert_eq!(fields, [0, 4, 5 | CENOTE_FIELD_NULL, 5, 5]);
        let values_at = word(bytes, offset_of!(CenoteBlock, values_at)) as usize;
        assert_eq!(&bytes[values_at..], b"\0\0\0\x2ax");
    }

    #[test]
    fn a_batch_holds_blocks_that_begin_on_words() {
        let mut writer = Writer::default();
        let one = |writer: &mut Writer, number: usize| {
            let column = [ColumnFront { name: "n", type_code: 23, flags: 0 }];
            let front = Front { rows: 1, ..Front::default() };
            writer.append(&front, column.into_iter(), 1, |fields| fields.push(Some(&[number as u8])))
        };
        assert!(writer.append_batch(3, one).is_ok());
        let bytes = writer.bytes();
        assert_eq!(word(bytes, offset_of!(CenoteBlock, flags)), CENOTE_BLOCK_BATCH);
        let fields_at = word(bytes, offset_of!(CenoteBlock, fields_at)) as usize;
        let values_at = word(bytes, offset_of!(CenoteBlock, values_at)) as usize;
        for number in 0..3 {
            let at = values_at + word(bytes, fields_at + number * 4) as usize;
            assert_eq!(at % ALIGNMENT, 0);
            assert_eq!(word(bytes, at), CENOTE_BLOCK_MAGIC);
            let value_at = at + word(bytes, at + offset_of!(CenoteBlock, values_at)) as usize;
            assert_eq!(bytes[value_at], number as u8);
        }
        assert_eq!(values_at + word(bytes, fields_at + 12) as usize, bytes.len());
    }

    #[test]
    fn more_values_than_fields_are_refused() {
        let mut writer = Writer::default();
        let front = Front { rows: 1, ..Front::default() };
        let column = [ColumnFront { name: "n", type_code: 23, flags: 0 }];
        let refused = writer.append(&front, column.into_iter(), 0, |fields| {
            fields.push(None);
            fields.push(None);
        });
        assert!(refused.is_err());
    }
}
