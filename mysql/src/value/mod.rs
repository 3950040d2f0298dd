//! Values: what goes to the server as a parameter and comes back in a column.
//!
//! | SQL | to read and to send |
//! |---|---|
//! | TINYINT to BIGINT | `i8` to `i64`, `u8` to `u64` (whichever holds the value), `bool` (0 and 1) |
//! | YEAR | the integers |
//! | BIT | the unsigned integers, `bool`, and bytes |
//! | FLOAT, DOUBLE | `f32` (FLOAT alone), `f64` |
//! | DECIMAL | [`Decimal`], text; the integers, if it has no digits behind the point. Never a floating-point number |
//! | CHAR, VARCHAR, TEXT, ENUM, SET, JSON | `&str`, `String`, `Box<str>`, `Cow<str>`, and bytes |
//! | BINARY, VARBINARY, BLOB, GEOMETRY | `&[u8]`, `Vec<u8>`, `Bytes`, `[u8; N]` |
//! | VECTOR | `Vec<f32>`, and bytes |
//! | DATE, DATETIME and TIMESTAMP, TIME | [`Date`], [`DateTime`], [`Time`]; `Duration` for a TIME that is not negative |
//! | NULL | `Option` of any of them |
//! | any | [`Value`] |
//!
//! With the feature of the crate's name:
//!
//! | feature | types |
//! |---|---|
//! | `uuid` | `Uuid`: sent as 16 bytes, for BINARY(16); read from those or from text. `Hyphenated`: as text |
//! | `chrono` | `NaiveDate`, `NaiveDateTime`, `NaiveTime`, `TimeDelta` |
//! | `time` | `Date`, `PrimitiveDateTime`, `Time`, `Duration` |
//! | `serde_json` | `serde_json::Value`, and `Json<T>` of whatever serde knows |
//! | `rust_decimal` | `Decimal` |
//!
//! A conversion loses nothing silently: a value that the type cannot hold is an error that names it. (When a time is sent
//! the server's finest grain is a microsecond, and what is finer is cut off.) There is no type with a time zone here:
//! what a DATETIME means depends on who wrote it, and what a TIMESTAMP shows on the session.
//!
//! It knows nothing of statements, replies and connections.

use std::error::Error as StdError;

use bytes::BytesMut;

use crate::wire::column::Column;

#[cfg(any(feature = "rust_decimal", feature = "serde_json", feature = "uuid"))]
mod append;
mod binary;
#[cfg(any(feature = "chrono", feature = "time"))]
mod converted;
mod date;
mod decimal;
mod dynamic;
mod error;
mod float;
mod integer;
mod parameter;
mod text;
mod time_of_day;
#[cfg(feature = "chrono")]
mod with_chrono;
#[cfg(feature = "rust_decimal")]
mod with_rust_decimal;
#[cfg(feature = "serde_json")]
mod with_serde_json;
#[cfg(feature = "time")]
mod with_time;
#[cfg(feature = "uuid")]
mod with_uuid;

pub use date::{Date, DateTime};
pub use decimal::Decimal;
pub use dynamic::Value;
pub use error::ValueError;
pub use parameter::ParameterType;
pub(crate) use parameter::{Signature, append_parameters, signature};
pub use time_of_day::Time;
#[cfg(feature = "serde_json")]
pub use with_serde_json::Json;

/// How a value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// As text: in the reply to a text query.
    Text,
    /// In the binary format of its type: in the reply to a prepared statement.
    Binary,
}

/// The bytes of a value that is not NULL, without their length.
#[derive(Clone, Copy, Debug)]
pub struct Field<'a> {
    bytes: &'a [u8],
    format: Format,
}

impl<'a> Field<'a> {
    pub(crate) fn new(bytes: &'a [u8], format: Format) -> Field<'a> {
        Field { bytes, format }
    }

    /// The bytes.
    pub fn bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// How they are to be read. Of text, bytes, DECIMAL and BIT both formats are the same.
    pub fn format(self) -> Format {
        self.format
    }
}

/// A type that values of columns can be read as.
///
/// A type of the program's own is read by way of one that is here:
///
/// ```
/// use std::error::Error;
/// use cenote_mysql::Column;
/// use cenote_mysql::value::{Field, FromValue};
///
/// struct Cents(i64);
///
/// impl<'a> FromValue<'a> for Cents {
///     fn accepts(column: &Column) -> bool {
///         i64::accepts(column)
///     }
///
///     fn from_value(column: &Column, field: Field<'a>) -> Result<Cents, Box<dyn Error + Send + Sync>> {
///         i64::from_value(column, field).map(Cents)
///     }
/// }
/// ```
pub trait FromValue<'a>: Sized {
    /// Whether values of this column can be read so.
    fn accepts(column: &Column) -> bool;

    /// Reads a value of a column that [`accepts`](FromValue::accepts) has said yes to.
    ///
    /// # Errors
    ///
    /// When this very value cannot be read so.
    fn from_value(column: &Column, field: Field<'a>) -> Result<Self, Box<dyn StdError + Send + Sync>>;

    /// NULL. Only `Option` and [`Value`] hold it.
    ///
    /// # Errors
    ///
    /// For all others.
    fn from_null(column: &Column) -> Result<Self, Box<dyn StdError + Send + Sync>> {
        let _ = column;
        Err(Box::new(ValueError::Null))
    }
}

impl<'a, T: FromValue<'a>> FromValue<'a> for Option<T> {
    #[inline]
    fn accepts(column: &Column) -> bool {
        T::accepts(column)
    }

    #[inline]
    fn from_value(column: &Column, field: Field<'a>) -> Result<Self, Box<dyn StdError + Send + Sync>> {
        T::from_value(column, field).map(Some)
    }

    fn from_null(_: &Column) -> Result<Self, Box<dyn StdError + Send + Sync>> {
        Ok(None)
    }
}

/// Whether a value is NULL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IsNull {
    /// It is, and nothing was written.
    Yes,
    /// It is not.
    No,
}

/// A type whose values can be sent as parameters.
///
/// A type of the program's own is sent by way of one that is here:
///
/// ```
/// use std::error::Error;
/// use bytes::BytesMut;
/// use cenote_mysql::value::{IsNull, ParameterType, ToValue};
///
/// struct Cents(i64);
///
/// impl ToValue for Cents {
///     fn null_type() -> ParameterType {
///         i64::null_type()
///     }
///
///     fn parameter_type(&self) -> ParameterType {
///         self.0.parameter_type()
///     }
///
///     fn to_value(&self, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Send + Sync>> {
///         self.0.to_value(out)
///     }
/// }
/// ```
pub trait ToValue {
    /// The type that its NULL is sent with: that of most of its values, so that the same statement serves both.
    fn null_type() -> ParameterType
    where
        Self: Sized;

    /// The type that this value is sent with.
    fn parameter_type(&self) -> ParameterType;

    /// Appends the value in the binary format of that type, or nothing and says that it is NULL.
    ///
    /// # Errors
    ///
    /// When the server has no such value.
    fn to_value(&self, out: &mut BytesMut) -> Result<IsNull, Box<dyn StdError + Send + Sync>>;
}

impl<T: ToValue> ToValue for Option<T> {
    fn null_type() -> ParameterType {
        T::null_type()
    }

    #[inline]
    fn parameter_type(&self) -> ParameterType {
        self.as_ref().map_or_else(T::null_type, T::parameter_type)
    }

    #[inline]
    fn to_value(&self, out: &mut BytesMut) -> Result<IsNull, Box<dyn StdError + Send + Sync>> {
        match self {
            Some(value) => value.to_value(out),
            None => Ok(IsNull::Yes),
        }
    }
}

impl<T: ToValue> ToValue for &T {
    fn null_type() -> ParameterType {
        T::null_type()
    }

    #[inline]
    fn parameter_type(&self) -> ParameterType {
        (**self).parameter_type()
    }

    #[inline]
    fn to_value(&self, out: &mut BytesMut) -> Result<IsNull, Box<dyn StdError + Send + Sync>> {
        (**self).to_value(out)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::fmt::Debug;

    use super::*;

    /// A column of this type.
    pub(crate) fn column(code: u8, flags: u16, charset: u16, decimals: u8) -> Column {
        let columns = crate::wire::column::tests::columns(&[("c", code, flags, charset, decimals)]);
        columns.as_slice()[0].clone()
    }

    /// A value read from its binary format.
    pub(crate) fn read<'a, T: FromValue<'a>>(column: &Column, bytes: &'a [u8]) -> T {
        read_field(column, Field::new(bytes, Format::Binary))
    }

    /// A value read from text.
    pub(crate) fn read_text<'a, T: FromValue<'a>>(column: &Column, bytes: &'a [u8]) -> T {
        read_field(column, Field::new(bytes, Format::Text))
    }

    fn read_field<'a, T: FromValue<'a>>(column: &Column, field: Field<'a>) -> T {
        assert!(T::accepts(column), "{column:?}");
        T::from_value(column, field).unwrap_or_else(|error| panic!("{column:?} {field:?}: {error}"))
    }

    /// Why a value cannot be read.
    pub(crate) fn refused<'a, T: FromValue<'a> + Debug>(column: &Column, field: Field<'a>) -> ValueError {
        let error = T::from_value(column, field).expect_err("it cannot be read");
        *error.downcast().expect("it says why")
    }

    /// A value as it is sent.
    pub(crate) fn sent(value: &dyn ToValue) -> Vec<u8> {
        let mut out = BytesMut::new();
        assert_eq!(value.to_value(&mut out).expect("it can be sent"), IsNull::No);
        out.to_vec()
    }

    #[test]
    fn null_is_an_options_none() {
        let column = column(3, 0, 63, 0);
        assert_eq!(Option::<i32>::from_null(&column).unwrap(), None);
        let error = i32::from_null(&column).expect_err("NULL is no number");
        assert_eq!(error.downcast_ref(), Some(&ValueError::Null));
        assert_eq!(None::<&str>.to_value(&mut BytesMut::new()).unwrap(), IsNull::Yes);
        assert_eq!(sent(&Some("a")), sent(&"a"));
    }
}
