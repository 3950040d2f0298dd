//! Rows of a prepared statement: which fields are NULL, and then the others, each in the binary format of its column.
//!
//! ```text
//!  [0][NULL bitmap][field][field] ...
//! ```
//!
//! Many fields are as long as they happen to be, so that finding one means walking over those before it.
//!
//! It does not read what is in a field.
//!
//! Source: client/server protocol, "Binary Protocol Resultset Row".

use crate::error::Error;
use crate::wire::column::Column;
use crate::wire::column_type::BinaryLength;
use crate::wire::cursor::Cursor;

/// The first byte of a row.
const HEADER: u8 = 0;

/// The first bits of the bitmap, which stand for nothing.
const BITS_BEFORE: usize = 2;

/// The parts of a row.
struct Fields<'a> {
    nulls: &'a [u8],
    rest: Cursor<'a>,
}

impl<'a> Fields<'a> {
    #[inline]
    fn new(body: &'a [u8], columns: usize) -> Result<Fields<'a>, Error> {
        let mut rest = Cursor::new(body);
        if rest.u8() != Some(HEADER) {
            return Err(Error::peer("a row that does not begin as one"));
        }
        let nulls = rest.bytes((columns + BITS_BEFORE).div_ceil(8)).ok_or_else(cut_short)?;
        Ok(Fields { nulls, rest })
    }

    /// The next field, which has this number and column; `None` is NULL.
    #[inline]
    fn next(&mut self, number: usize, column: &Column) -> Result<Option<&'a [u8]>, Error> {
        let bit = number + BITS_BEFORE;
        if self.nulls.get(bit / 8).is_some_and(|nulls| nulls >> (bit % 8) & 1 == 1) {
            return Ok(None);
        }
        let field = match column.binary_length() {
            BinaryLength::Fixed(bytes) => self.rest.bytes(bytes),
            BinaryLength::Prefixed => self.rest.lenenc_bytes(),
            BinaryLength::Absent => return Err(Error::peer("a value in a column that has none")),
        };
        field.map(Some).ok_or_else(cut_short)
    }
}

#[cold]
fn cut_short() -> Error {
    Error::peer("a row is cut short")
}

/// Checks a row: all its fields within the packet, and nothing behind them.
#[inline]
pub(crate) fn check(body: &[u8], columns: &[Column]) -> Result<(), Error> {
    visit(body, columns, |_| ())
}

/// The same, and shows each field; `None` is NULL.
#[inline]
pub(crate) fn visit(body: &[u8], columns: &[Column], mut visit: impl FnMut(Option<&[u8]>)) -> Result<(), Error> {
    let mut fields = Fields::new(body, columns.len())?;
    for (number, column) in columns.iter().enumerate() {
        visit(fields.next(number, column)?);
    }
    if fields.rest.is_empty() { Ok(()) } else { Err(Error::peer("a row with bytes behind its last field")) }
}

/// A field, by its number; `None` is NULL. Those before it are walked over.
#[inline]
pub(crate) fn field<'a>(body: &'a [u8], columns: &[Column], number: usize) -> Result<Option<&'a [u8]>, Error> {
    let mut fields = Fields::new(body, columns.len())?;
    let Some((column, before)) = columns.get(..=number).and_then(<[Column]>::split_last) else {
        return Err(Error::caller(format!("there is no column {number}")));
    };
    for (number, column) in before.iter().enumerate() {
        fields.next(number, column)?;
    }
    fields.next(number, column)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::column::tests::columns;

    #[test]
    fn fields_are_found_by_number() {
        let columns = columns(&[
            ("id", 3, 0, 63, 0),
            ("name", 253, 0, 255, 0),
            ("nothing", 8, 0, 63, 0),
            ("day", 10, 0, 63, 0),
            ("year", 13, 0x20, 63, 0),
            ("null", 6, 0, 63, 0),
            ("ninth bit", 1, 0, 63, 0),
            ("small", 2, 0, 63, 0),
        ]);
        let row = b"\0\x90\x01\x2a\0\0\0\x02ab\0\xe8\x07\x01\0";
        let fields =
            [Some(&b"\x2a\0\0\0"[..]), Some(b"ab"), None, Some(b""), Some(b"\xe8\x07"), None, None, Some(b"\x01\0")];
        check(row, columns.as_slice()).unwrap();
        for (number, expected) in fields.into_iter().enumerate() {
            assert_eq!(field(row, columns.as_slice(), number).unwrap(), expected, "number {number}");
        }
        assert!(field(row, columns.as_slice(), 8).is_err_and(|error| error.is_caller()), "there is no ninth");
        assert!(field(row, columns.as_slice(), usize::MAX).is_err_and(|error| error.is_caller()));
        check(b"\0\0", &[]).unwrap();
    }

    #[test]
    fn rows_that_lie_are_refused() {
        let columns = columns(&[("id", 3, 0, 63, 0), ("name", 253, 0, 255, 0), ("null", 6, 0, 63, 0)]);
        let whole = b"\0\x10\x2a\0\0\0\x02ab";
        check(whole, columns.as_slice()).unwrap();
        for cut in 0..whole.len() {
            assert!(check(&whole[..cut], columns.as_slice()).is_err_and(|error| error.is_peer()), "cut to {cut}");
        }
        for (name, row) in [
            ("bytes behind", &b"\0\x10\x2a\0\0\0\x02abc"[..]),
            ("another first byte", b"\x01\x10\x2a\0\0\0\x02ab"),
            ("a value in a column that is always NULL", b"\0\0\x2a\0\0\0\x02ab"),
            ("a length past the end", b"\0\x10\x2a\0\0\0\xfe\xff\xff\xff\xff\xff\xff\xff\xff"),
        ] {
            assert!(check(row, columns.as_slice()).is_err_and(|error| error.is_peer()), "{name}");
        }
    }

    proptest! {
        #[test]
        fn noise_never_panics(mut noise in proptest::collection::vec(any::<u8>(), 0..100), is_row: bool) {
            let columns = columns(&[("a", 3, 0, 63, 0), ("b", 253, 0, 255, 0), ("c", 12, 0, 63, 0), ("d", 1, 0, 63, 0)]);
            if let (true, Some(first)) = (is_row, noise.first_mut()) {
                *first = HEADER;
            }
            let is_row = check(&noise, columns.as_slice()).is_ok();
            for number in 0..columns.len() {
                let found = field(&noise, columns.as_slice(), number).is_ok();
                prop_assert!(found || !is_row, "a row that was checked has all its fields");
            }
        }
    }
}
