//! `ValueError`: why a value of the server is no value of the program, or the other way round.

use std::error::Error as StdError;
use std::fmt;

use crate::value::{Date, DateTime};
use crate::wire::column_type::ColumnType;

/// Why a value cannot be read as what was asked for, or cannot be sent. It is the
/// [`source`](std::error::Error::source) of the [`Error`](crate::Error) that names the column or the parameter.
///
/// ```
/// use std::error::Error as _;
/// use cenote_mysql::Error;
/// use cenote_mysql::value::ValueError;
///
/// /// Whether a date is missing rather than wrong.
/// fn is_zero_date(error: &Error) -> bool {
///     let reason = error.source().and_then(|source| source.downcast_ref::<ValueError>());
///     matches!(reason, Some(ValueError::NoSuchDate(date)) if date.is_zero())
/// }
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ValueError {
    /// The column's type is not read as this type of the program.
    WrongType {
        /// The column's type.
        column: ColumnType,
        /// The type that was asked for.
        wanted: &'static str,
    },
    /// It is NULL, and what was asked for is not an `Option`.
    Null,
    /// The type that was asked for cannot hold it.
    OutOfRange {
        /// The value.
        value: String,
        /// The type that was asked for.
        wanted: &'static str,
        /// What that holds.
        range: String,
    },
    /// A date without a year, month or day (`0000-00-00`, `2024-00-15`), or one that is in no calendar (`2024-02-30`). The
    /// server allows both by its `sql_mode`; [`Date`] holds them.
    NoSuchDate(Date),
    /// The same with a time; [`DateTime`] holds it.
    NoSuchDateTime(DateTime),
    /// It is text, and not UTF-8.
    NotUtf8,
    /// The bytes are none that a value of the column's type has.
    Malformed {
        /// What it was to be.
        what: &'static str,
    },
    /// The server has no such value: infinity, or what is not a number.
    NotFinite,
}

impl fmt::Display for ValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ValueError::WrongType { column, wanted } => write!(f, "{column} is not read as {wanted}"),
            ValueError::Null => f.write_str("it is NULL, and what was asked for is not an Option"),
            ValueError::OutOfRange { value, wanted, range } => write!(f, "{value} is no {wanted} ({range})"),
            ValueError::NoSuchDate(date) => write!(f, "{date} is no day of the calendar"),
            ValueError::NoSuchDateTime(date) => write!(f, "{date} is no time of the calendar"),
            ValueError::NotUtf8 => f.write_str("its text is not UTF-8"),
            ValueError::Malformed { what } => write!(f, "its bytes are no {what}"),
            ValueError::NotFinite => f.write_str("the server has no infinity, and nothing that is not a number"),
        }
    }
}

impl StdError for ValueError {}
