//! `Value`: any value, for those who do not know its type beforehand.

use std::error::Error as StdError;

use bytes::BytesMut;

use crate::value::float::{double, float};
use crate::value::integer::integer;
use crate::value::{Date, DateTime, Decimal, Field, FromValue, IsNull, ParameterType, Time, ToValue, ValueError};
use crate::wire::column::Column;
use crate::wire::column_type::ColumnType;

/// A value of any type, with what it holds.
///
/// ```no_run
/// # use cenote_mysql::value::Value;
/// # fn example(row: cenote_mysql::Row) -> Result<(), cenote_mysql::Error> {
/// for number in 0..row.len() {
///     match row.get(number)? {
///         Value::Null => println!("nothing"),
///         Value::Text(text) => println!("{text}"),
///         other => println!("{other:?}"),
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Default)]
#[non_exhaustive]
pub enum Value {
    /// NULL.
    #[default]
    Null,
    /// A signed integer.
    Integer(i64),
    /// An unsigned integer, a YEAR, a BIT.
    Unsigned(u64),
    /// A FLOAT.
    Float(f32),
    /// A DOUBLE.
    Double(f64),
    /// A DECIMAL.
    Decimal(Decimal),
    /// Text, ENUM, SET, JSON.
    Text(String),
    /// Bytes, GEOMETRY, VECTOR.
    Bytes(Vec<u8>),
    /// A DATE.
    Date(Date),
    /// A DATETIME or TIMESTAMP.
    DateTime(DateTime),
    /// A TIME.
    Time(Time),
}

impl<'a> FromValue<'a> for Value {
    fn accepts(_: &Column) -> bool {
        true
    }

    fn from_value(column: &Column, field: Field<'a>) -> Result<Value, Box<dyn StdError + Send + Sync>> {
        Ok(match column.type_() {
            ColumnType::Null => return Err(Box::new(ValueError::Malformed { what: "NULL" })),
            ColumnType::Float => Value::Float(float(field)?),
            ColumnType::Double => Value::Double(double(field)?),
            ColumnType::Decimal => Value::Decimal(Decimal::from_value(column, field)?),
            ColumnType::Date => Value::Date(Date::from_value(column, field)?),
            ColumnType::DateTime | ColumnType::Timestamp => Value::DateTime(DateTime::from_value(column, field)?),
            ColumnType::Time => Value::Time(Time::from_value(column, field)?),
            ColumnType::Bit | ColumnType::Year => Value::Unsigned(u64::from_value(column, field)?),
            ty if ty.is_integer() => {
                let value = integer(column, field)?;
                match (column.is_unsigned(), u64::try_from(value), i64::try_from(value)) {
                    (true, Ok(value), _) => Value::Unsigned(value),
                    (false, _, Ok(value)) => Value::Integer(value),
                    _ => return Err(Box::new(ValueError::Malformed { what: "integer" })),
                }
            }
            ty if ty.is_text() => Value::Text(String::from_value(column, field)?),
            _ => Value::Bytes(field.bytes().to_vec()),
        })
    }

    fn from_null(_: &Column) -> Result<Value, Box<dyn StdError + Send + Sync>> {
        Ok(Value::Null)
    }
}

impl ToValue for Value {
    fn null_type() -> ParameterType {
        ParameterType::Null
    }

    fn parameter_type(&self) -> ParameterType {
        match self {
            Value::Null => ParameterType::Null,
            Value::Integer(value) => value.parameter_type(),
            Value::Unsigned(value) => value.parameter_type(),
            Value::Float(value) => value.parameter_type(),
            Value::Double(value) => value.parameter_type(),
            Value::Decimal(value) => value.parameter_type(),
            Value::Text(value) => value.parameter_type(),
            Value::Bytes(value) => value.parameter_type(),
            Value::Date(value) => value.parameter_type(),
            Value::DateTime(value) => value.parameter_type(),
            Value::Time(value) => value.parameter_type(),
        }
    }

    fn to_value(&self, out: &mut BytesMut) -> Result<IsNull, Box<dyn StdError + Send + Sync>> {
        match self {
            Value::Null => Ok(IsNull::Yes),
            Value::Integer(value) => value.to_value(out),
            Value::Unsigned(value) => value.to_value(out),
            Value::Float(value) => value.to_value(out),
            Value::Double(value) => value.to_value(out),
            Value::Decimal(value) => value.to_value(out),
            Value::Text(value) => value.to_value(out),
            Value::Bytes(value) => value.to_value(out),
            Value::Date(value) => value.to_value(out),
            Value::DateTime(value) => value.to_value(out),
            Value::Time(value) => value.to_value(out),
        }
    }
}

macro_rules! from {
    ($($variant:ident: $($ty:ty),+;)+) => {$($(
        impl From<$ty> for Value {
            fn from(value: $ty) -> Value {
                Value::$variant(value.into())
            }
        }
    )+)+};
}

from! {
    Integer: i8, i16, i32, i64;
    Unsigned: u8, u16, u32, u64;
    Float: f32;
    Double: f64;
    Decimal: Decimal;
    Text: &str, String;
    Bytes: &[u8], Vec<u8>;
    Date: Date;
    DateTime: DateTime;
    Time: Time;
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Value {
        value.map_or(Value::Null, Into::into)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::value::Format;
    use crate::value::tests::{column, read, read_text, sent};

    #[test]
    fn each_type_has_its_kind_of_value() {
        let date: Date = "2024-02-29".parse().unwrap();
        for (column, text, value) in [
            (column(1, 0, 63, 0), "-5", Value::Integer(-5)),
            (column(8, 0x20, 63, 0), "18446744073709551615", Value::Unsigned(u64::MAX)),
            (column(13, 0x60, 63, 0), "2024", Value::Unsigned(2024)),
            (column(16, 0x20, 63, 0), "\x01\x02", Value::Unsigned(258)),
            (column(4, 0, 63, 31), "1.5", Value::Float(1.5)),
            (column(5, 0, 63, 31), "1.5", Value::Double(1.5)),
            (column(246, 0, 63, 1), "1.5", Value::Decimal("1.5".parse().unwrap())),
            (column(253, 0, 255, 0), "text", Value::Text("text".to_owned())),
            (column(245, 0x80, 63, 0), "{}", Value::Text("{}".to_owned())),
            (column(252, 0x90, 63, 0), "bytes", Value::Bytes(b"bytes".to_vec())),
            (column(10, 0, 63, 0), "2024-02-29", Value::Date(date)),
            (column(7, 0, 63, 0), "2024-02-29 00:00:00", Value::DateTime(date.into())),
            (column(11, 0, 63, 0), "-01:00:00", Value::Time("-01:00:00".parse().unwrap())),
        ] {
            assert_eq!(read_text::<Value>(&column, text.as_bytes()), value, "{column:?}");
        }
        assert_eq!(read::<Value>(&column(1, 0, 63, 0), &[0xFF]), Value::Integer(-1));
        assert_eq!(Value::from_null(&column(3, 0, 63, 0)).unwrap(), Value::Null);
    }

    #[test]
    fn a_value_is_sent_as_what_it_holds() {
        assert_eq!(sent(&Value::from(5_i8)), sent(&5_i64));
        assert_eq!(Value::from(u64::MAX).parameter_type(), ParameterType::UnsignedBigInt);
        assert_eq!(sent(&Value::from("text")), sent(&"text"));
        assert_eq!(Value::from(None::<i32>), Value::Null);
        assert_eq!(Value::Null.to_value(&mut BytesMut::new()).unwrap(), IsNull::Yes);
    }

    proptest! {
        #[test]
        fn noise_never_panics(
            noise in proptest::collection::vec(any::<u8>(), 0..100),
            code: u8,
            flags: u16,
            charset in prop_oneof![Just(63_u16), Just(255)],
        ) {
            if ColumnType::from_wire(code, flags, charset).is_some() {
                for format in [Format::Binary, Format::Text] {
                    let _ = Value::from_value(&column(code, flags, charset, 0), Field::new(&noise, format));
                }
            }
        }
    }
}
