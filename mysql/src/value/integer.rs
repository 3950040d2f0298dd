//! Integers and `bool`.
//!
//! A column is read as any integer type that holds the value at hand, whatever the column's own width: what is stored in
//! a BIGINT is often small, and `count(*)` is one. A value that does not fit is an error that names it.

use std::error::Error as StdError;

use bytes::BytesMut;

use crate::value::{Field, Format, FromValue, IsNull, ParameterType, ToValue, ValueError};
use crate::wire::column::Column;
use crate::wire::column_type::ColumnType;

/// Whether a column holds whole numbers. `SUM` of integers is a DECIMAL, and so are literals too long for a BIGINT.
fn is_whole(column: &Column) -> bool {
    match column.type_() {
        ColumnType::Bit => true,
        ColumnType::Decimal => column.decimals() == 0,
        ty => ty.is_integer(),
    }
}

/// The value of a column that [`is_whole`].
#[inline]
pub(crate) fn integer(column: &Column, field: Field<'_>) -> Result<i128, ValueError> {
    match (field.format(), column.type_()) {
        (_, ColumnType::Bit) => bits(field.bytes()).map(i128::from),
        (_, ColumnType::Decimal) | (Format::Text, _) => digits(field.bytes()),
        (Format::Binary, ty) => {
            let is_unsigned = column.is_unsigned() || ty == ColumnType::Year;
            little_endian(field.bytes(), is_unsigned).ok_or(ValueError::Malformed { what: "integer" })
        }
    }
}

#[inline]
fn little_endian(bytes: &[u8], is_unsigned: bool) -> Option<i128> {
    let value = match (bytes.len(), is_unsigned) {
        (1, false) => i8::from_le_bytes(bytes.try_into().ok()?).into(),
        (2, false) => i16::from_le_bytes(bytes.try_into().ok()?).into(),
        (4, false) => i32::from_le_bytes(bytes.try_into().ok()?).into(),
        (8, false) => i64::from_le_bytes(bytes.try_into().ok()?).into(),
        (1, true) => u8::from_le_bytes(bytes.try_into().ok()?).into(),
        (2, true) => u16::from_le_bytes(bytes.try_into().ok()?).into(),
        (4, true) => u32::from_le_bytes(bytes.try_into().ok()?).into(),
        (8, true) => u64::from_le_bytes(bytes.try_into().ok()?).into(),
        _ => return None,
    };
    Some(value)
}

/// A BIT: as many bytes as its bits need, the most significant first, in both formats.
pub(crate) fn bits(bytes: &[u8]) -> Result<u64, ValueError> {
    if bytes.len() > size_of::<u64>() {
        return Err(ValueError::Malformed { what: "bits" });
    }
    Ok(bytes.iter().fold(0, |bits, &byte| bits << 8 | u64::from(byte)))
}

fn digits(bytes: &[u8]) -> Result<i128, ValueError> {
    let text = std::str::from_utf8(bytes).map_err(|_| ValueError::Malformed { what: "integer" })?;
    // A DECIMAL may be longer than any integer of the program.
    text.parse().map_err(|error: std::num::ParseIntError| match error.kind() {
        std::num::IntErrorKind::PosOverflow | std::num::IntErrorKind::NegOverflow => {
            out_of_range(text, "integer", i128::MIN, i128::MAX)
        }
        _ => ValueError::Malformed { what: "integer" },
    })
}

#[cold]
fn out_of_range(value: impl ToString, wanted: &'static str, least: impl ToString, most: impl ToString) -> ValueError {
    let range = format!("{} to {}", least.to_string(), most.to_string());
    ValueError::OutOfRange { value: value.to_string(), wanted, range }
}

macro_rules! integer {
    ($($ty:ident),+) => {$(
        impl<'a> FromValue<'a> for $ty {
            fn accepts(column: &Column) -> bool {
                is_whole(column)
            }

            #[inline]
            fn from_value(column: &Column, field: Field<'a>) -> Result<$ty, Box<dyn StdError + Send + Sync>> {
                let value = integer(column, field)?;
                value.try_into().map_err(|_| out_of_range(value, stringify!($ty), $ty::MIN, $ty::MAX).into())
            }
        }
    )+};
}

integer!(i8, i16, i32, i64, u8, u16, u32, u64);

macro_rules! sent_as_bigint {
    ($($ty:ident),+) => {$(
        impl ToValue for $ty {
            fn null_type() -> ParameterType {
                ParameterType::BigInt
            }

            #[inline]
            fn parameter_type(&self) -> ParameterType {
                ParameterType::BigInt
            }

            #[inline]
            fn to_value(&self, out: &mut BytesMut) -> Result<IsNull, Box<dyn StdError + Send + Sync>> {
                out.extend_from_slice(&i64::from(*self).to_le_bytes());
                Ok(IsNull::No)
            }
        }
    )+};
}

sent_as_bigint!(i8, i16, i32, i64, u8, u16, u32, bool);

impl ToValue for u64 {
    fn null_type() -> ParameterType {
        ParameterType::BigInt
    }

    #[inline]
    fn parameter_type(&self) -> ParameterType {
        if *self > i64::MAX as u64 { ParameterType::UnsignedBigInt } else { ParameterType::BigInt }
    }

    #[inline]
    fn to_value(&self, out: &mut BytesMut) -> Result<IsNull, Box<dyn StdError + Send + Sync>> {
        out.extend_from_slice(&self.to_le_bytes());
        Ok(IsNull::No)
    }
}

impl<'a> FromValue<'a> for bool {
    fn accepts(column: &Column) -> bool {
        is_whole(column)
    }

    fn from_value(column: &Column, field: Field<'a>) -> Result<bool, Box<dyn StdError + Send + Sync>> {
        match integer(column, field)? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(out_of_range(other, "bool", 0, 1).into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::value::tests::{column, read, read_text, refused};

    #[test]
    fn integers_are_read_at_their_edges() {
        let tinyint = column(1, 0, 63, 0);
        assert_eq!((read::<i8>(&tinyint, &[0x80]), read::<i64>(&tinyint, &[0xFF])), (i8::MIN, -1));
        let unsigned = column(1, 0x20, 63, 0);
        assert_eq!((read::<u8>(&unsigned, &[0xFF]), read::<i16>(&unsigned, &[0xFF])), (255, 255));
        let mediumint = column(9, 0, 63, 0);
        assert_eq!(read::<i32>(&mediumint, &(-8_388_608_i32).to_le_bytes()), -8_388_608);
        let bigint = column(8, 0x20, 63, 0);
        assert_eq!(read::<u64>(&bigint, &[0xFF; 8]), u64::MAX);
        assert_eq!(read_text::<u64>(&bigint, b"18446744073709551615"), u64::MAX);
        let year = column(13, 0, 63, 0);
        assert_eq!((read::<u16>(&year, &[0, 0]), read_text::<u16>(&year, b"0000")), (0, 0));
        assert_eq!((read::<u16>(&year, &2155_u16.to_le_bytes()), read_text::<u16>(&year, b"2155")), (2155, 2155));
        let zerofill = column(3, 0x60, 63, 0);
        assert_eq!(read_text::<u32>(&zerofill, b"0000000042"), 42);
        let bit = column(16, 0x20, 63, 0);
        assert_eq!((read::<u64>(&bit, &[0xFF; 8]), read_text::<u16>(&bit, &[1, 2])), (u64::MAX, 258));
        assert_eq!((read::<bool>(&bit, &[1]), read::<bool>(&tinyint, &[0])), (true, false));
        let sum = column(246, 0, 63, 0);
        assert_eq!(read::<i64>(&sum, b"-9223372036854775808"), i64::MIN);
    }

    #[test]
    fn what_does_not_fit_is_an_error_that_names_it() {
        let bigint = column(8, 0, 63, 0);
        let error = refused::<i32>(&bigint, Field::new(&(1_i64 << 31).to_le_bytes(), Format::Binary));
        assert_eq!(error.to_string(), "2147483648 is no i32 (-2147483648 to 2147483647)");
        let error = refused::<u64>(&bigint, Field::new(b"-1", Format::Text));
        assert_eq!(error.to_string(), "-1 is no u64 (0 to 18446744073709551615)");
        let error = refused::<bool>(&bigint, Field::new(b"2", Format::Text));
        assert_eq!(error.to_string(), "2 is no bool (0 to 1)");
        let error = refused::<i64>(&column(246, 0, 63, 0), Field::new(&[b'9'; 65], Format::Binary));
        assert!(error.to_string().starts_with("99999"), "{error}");
    }

    #[test]
    fn a_decimal_with_digits_behind_its_point_is_no_integer() {
        assert!(i64::accepts(&column(246, 0, 63, 0)));
        assert!(!i64::accepts(&column(246, 0, 63, 2)));
        assert!(!i64::accepts(&column(5, 0, 63, 31)), "nor is a DOUBLE");
        assert!(!i64::accepts(&column(253, 0, 255, 0)), "nor a text");
    }

    proptest! {
        #[test]
        fn noise_never_panics(noise in proptest::collection::vec(any::<u8>(), 0..100), code: u8, flags: u16) {
            for format in [Format::Binary, Format::Text] {
                if ColumnType::from_wire(code, flags, 63).is_some() {
                    let _ = i8::from_value(&column(code, flags, 63, 0), Field::new(&noise, format));
                    let _ = u64::from_value(&column(code, flags, 63, 0), Field::new(&noise, format));
                }
            }
        }

        #[test]
        fn text_and_binary_agree(value: i64) {
            let bigint = column(8, 0, 63, 0);
            prop_assert_eq!(read::<i64>(&bigint, &value.to_le_bytes()), value);
            prop_assert_eq!(read_text::<i64>(&bigint, value.to_string().as_bytes()), value);
        }
    }
}
