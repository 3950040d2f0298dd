//! Rows of a text query: each value is text with its length before it, or one byte for NULL.
//!
//! It does not tell rows from what else may come in their place; see the reader of replies.
//!
//! Source: client/server protocol, "Text Resultset Row".

use crate::error::Error;
use crate::wire::cursor::Cursor;

/// In place of a length: NULL.
const NULL: u8 = 0xFB;

/// Checks a row: so many fields, each within the packet, and nothing behind them.
pub(crate) fn check(body: &[u8], columns: usize) -> Result<(), Error> {
    visit(body, columns, |_| ())
}

/// The same, and shows each field; `None` is NULL.
pub(crate) fn visit(body: &[u8], columns: usize, mut visit: impl FnMut(Option<&[u8]>)) -> Result<(), Error> {
    let mut rest = Cursor::new(body);
    for _ in 0..columns {
        visit(next(&mut rest)?);
    }
    if rest.is_empty() { Ok(()) } else { Err(Error::peer("a row with bytes behind its last field")) }
}

/// A field, by its number; `None` is NULL. Those before it are walked over.
pub(crate) fn field(body: &[u8], number: usize) -> Result<Option<&[u8]>, Error> {
    let mut rest = Cursor::new(body);
    for _ in 0..number {
        next(&mut rest)?;
    }
    next(&mut rest)
}

fn next<'a>(rest: &mut Cursor<'a>) -> Result<Option<&'a [u8]>, Error> {
    if rest.rest().first() == Some(&NULL) {
        rest.u8();
        return Ok(None);
    }
    rest.lenenc_bytes().map(Some).ok_or_else(|| Error::peer("a row is cut short"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn fields_are_found_by_number() {
        let row = b"\x02ab\xfb\0\x01c";
        check(row, 4).unwrap();
        let fields = [Some(&b"ab"[..]), None, Some(b""), Some(b"c")];
        for (number, expected) in fields.into_iter().enumerate() {
            assert_eq!(field(row, number).unwrap(), expected, "number {number}");
        }
        assert!(field(row, 4).is_err(), "there is no fifth");
        check(b"", 0).unwrap();
    }

    #[test]
    fn rows_that_lie_are_refused() {
        for (name, row) in [
            ("too few fields", &b"\x01a"[..]),
            ("a field past the end", b"\x01a\x05b"),
            ("an error's mark for a length", b"\x01a\xff"),
            ("a length of eight bytes past the end", b"\x01a\xfe\xff\xff\xff\xff\xff\xff\xff\xff"),
            ("bytes behind", b"\x01a\x01bc"),
            ("nothing", b""),
        ] {
            assert!(check(row, 2).is_err_and(|error| error.is_peer()), "{name}");
        }
    }

    proptest! {
        #[test]
        fn noise_never_panics(noise in proptest::collection::vec(any::<u8>(), 0..200), columns in 0_usize..9) {
            let is_row = check(&noise, columns).is_ok();
            for number in 0..columns {
                prop_assert!(field(&noise, number).is_ok() || !is_row, "a row that was checked has all its fields");
            }
        }
    }
}
