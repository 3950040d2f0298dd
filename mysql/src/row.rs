//! `Row`: a view into the reply it came in, decoded where it is read.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use cenote_pool::Reply;

use crate::error::Error;
use crate::value::{Field, Format, FromValue, ValueError};
use crate::wire::column::{Column, Columns};
use crate::wire::column_type::ColumnType;
use crate::wire::{binary_row, text_row};

/// One row of a result: a view into the reply, decoded where it is read.
///
/// Reading a column walks over those before it: the first are the fastest to read.
///
/// ```no_run
/// # async fn example(row: cenote_mysql::Row) -> Result<(), cenote_mysql::Error> {
/// let id: i32 = row.get(0)?;
/// let name: Option<&str> = row.get("name")?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Row {
    reply: Reply,
    begins_at: usize,
    ends_at: usize,
    format: Format,
    columns: Arc<Columns>,
}

impl Row {
    /// A row whose fields were checked against the columns and the bytes. `payload` is where in the reply its packet's
    /// payload is.
    #[inline]
    pub(crate) fn new(
        reply: Reply,
        payload: Range<usize>,
        format: Format,
        columns: Arc<Columns>,
    ) -> Result<Row, Error> {
        let body = reply.get(payload.clone()).unwrap_or_default();
        match format {
            Format::Binary => binary_row::check(body, columns.as_slice())?,
            Format::Text => text_row::check(body, columns.len())?,
        }
        Ok(Row { reply, begins_at: payload.start, ends_at: payload.end, format, columns })
    }

    /// Its columns.
    pub fn columns(&self) -> &[Column] {
        self.columns.as_slice()
    }

    /// The number of its columns.
    pub fn len(&self) -> usize {
        self.columns.len()
    }

    /// Whether it has no columns.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How its values are written: binary, or as text if it came from a text query.
    pub fn format(&self) -> Format {
        self.format
    }

    /// The value of a column, by its number (from 0) or name. NULL is an `Option`'s `None`.
    ///
    /// # Errors
    ///
    /// When there is no such column, its type does not fit `T`, it is NULL and `T` is not an `Option`, or its bytes
    /// cannot be read as `T`.
    pub fn get<'a, I: RowIndex, T: FromValue<'a>>(&'a self, index: I) -> Result<T, Error> {
        let number = index.find(self.columns()).ok_or_else(|| self.no_column(&index))?;
        let column = self.columns().get(number).ok_or_else(|| self.no_column(&number))?;
        // What is always NULL has no type that could be the wrong one.
        if !T::accepts(column) && column.type_() != ColumnType::Null {
            return Err(wrong_type::<T>(column));
        }
        let value = match self.raw(number)? {
            Some(bytes) => T::from_value(column, Field::new(bytes, self.format)),
            None => T::from_null(column),
        };
        value.map_err(|error| Error::column(column.name(), error))
    }

    /// The value of a column as its bytes on the wire, in this row's [`format`](Row::format).
    ///
    /// # Errors
    ///
    /// When there is no such column.
    pub fn get_bytes<I: RowIndex>(&self, index: I) -> Result<Option<&[u8]>, Error> {
        match index.find(self.columns()) {
            Some(number) => self.raw(number),
            None => Err(self.no_column(&index)),
        }
    }

    #[inline]
    fn raw(&self, number: usize) -> Result<Option<&[u8]>, Error> {
        let body = self.reply.get(self.begins_at..self.ends_at).unwrap_or_default();
        match self.format {
            Format::Binary => binary_row::field(body, self.columns(), number),
            Format::Text => text_row::field(body, number),
        }
    }

    #[cold]
    fn no_column(&self, index: &dyn fmt::Display) -> Error {
        Error::caller(format!("there is no column {index}; the columns are {}", names(self.columns())))
    }
}

#[cold]
fn wrong_type<T>(column: &Column) -> Error {
    let error = ValueError::WrongType { column: column.type_(), wanted: std::any::type_name::<T>() };
    Error::column(column.name(), Box::new(error))
}

fn names(columns: &[Column]) -> String {
    columns.iter().map(Column::name).collect::<Vec<_>>().join(", ")
}

impl fmt::Debug for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // No values: they may be anything, and this ends up in logs.
        f.debug_struct("Row").field("columns", &names(self.columns())).finish()
    }
}

/// What a column can be asked for by: its number, or its name.
pub trait RowIndex: fmt::Display {
    /// Its number among `columns`.
    fn find(&self, columns: &[Column]) -> Option<usize>;
}

impl RowIndex for usize {
    #[inline]
    fn find(&self, columns: &[Column]) -> Option<usize> {
        (*self < columns.len()).then_some(*self)
    }
}

impl RowIndex for str {
    fn find(&self, columns: &[Column]) -> Option<usize> {
        let exact = columns.iter().position(|column| column.name() == self);
        // To the server `randomNumber` and `randomnumber` are the same column.
        exact.or_else(|| columns.iter().position(|column| column.name().eq_ignore_ascii_case(self)))
    }
}

impl RowIndex for String {
    fn find(&self, columns: &[Column]) -> Option<usize> {
        RowIndex::find(self.as_str(), columns)
    }
}

impl<I: RowIndex + ?Sized> RowIndex for &I {
    #[inline]
    fn find(&self, columns: &[Column]) -> Option<usize> {
        (**self).find(columns)
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;
    use crate::value::Value;
    use crate::wire::column::tests::columns;

    const NUMBER: (&str, u8, u16, u16, u8) = ("randomNumber", 3, 0, 63, 0);
    const NAME: (&str, u8, u16, u16, u8) = ("name", 253, 0, 255, 0);
    const NOTHING: (&str, u8, u16, u16, u8) = ("nothing", 6, 0, 63, 0);

    fn row(format: Format) -> Row {
        let payload: &[u8] = match format {
            Format::Binary => b"\0\x10\x2a\0\0\0\x03abc",
            Format::Text => b"\x0242\x03abc\xfb",
        };
        let reply = bytes::Bytes::from([b"before", payload, b"behind"].concat());
        let columns = Arc::new(columns(&[NUMBER, NAME, NOTHING]));
        Row::new(reply.into(), 6..6 + payload.len(), format, columns).expect("it is well formed")
    }

    #[test]
    fn both_formats_are_read_alike() {
        for row in [row(Format::Binary), row(Format::Text)] {
            assert_eq!((row.len(), row.get::<_, i32>(0).unwrap()), (3, 42));
            assert_eq!(row.get::<_, &str>("name").unwrap(), "abc");
            assert_eq!(row.get::<_, i64>("randomnumber".to_owned()).unwrap(), 42, "whatever the case");
            assert_eq!(row.get::<_, Option<i32>>("nothing").unwrap(), None);
            assert_eq!(row.get::<_, Value>("nothing").unwrap(), Value::Null);
            assert_eq!(row.get_bytes(1).unwrap(), Some(&b"abc"[..]));
            assert_eq!(row.get_bytes("nothing").unwrap(), None);
            assert_eq!(format!("{row:?}"), "Row { columns: \"randomNumber, name, nothing\" }", "it shows no values");
        }
    }

    #[test]
    fn what_cannot_be_read_is_an_error_that_names_the_column() {
        for row in [row(Format::Binary), row(Format::Text)] {
            let error = row.get::<_, &str>(0).expect_err("an INT is no text");
            assert!(error.is_caller() && error.to_string().contains("\"randomNumber\": INT"), "{error}");
            let error = row.get::<_, i32>("nothing").expect_err("NULL is no number");
            assert!(error.source().and_then(|source| source.downcast_ref()) == Some(&ValueError::Null), "{error}");
            for error in [
                row.get::<_, i32>("missing").expect_err("there is none"),
                row.get_bytes("missing").expect_err("there is none"),
                row.get::<_, i32>(3).expect_err("there is no fourth"),
            ] {
                assert!(error.is_caller() && error.to_string().contains("randomNumber, name, nothing"), "{error}");
            }
        }
    }

    #[test]
    fn a_row_that_lies_is_not_made() {
        let columns = Arc::new(columns(&[NUMBER, NAME]));
        let reply = Reply::from(bytes::Bytes::from_static(b"\0\x05"));
        for format in [Format::Binary, Format::Text] {
            let error = Row::new(reply.clone(), 0..2, format, Arc::clone(&columns)).expect_err("too short");
            assert!(error.is_peer(), "{error}");
            let past = Row::new(reply.clone(), 0..20, format, Arc::clone(&columns));
            assert!(past.is_err_and(|error| error.is_peer()), "past the end of the reply");
        }
    }
}
