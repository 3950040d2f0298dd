//! Floating-point numbers.
//!
//! A FLOAT is read as `f32` and, widened, as `f64`; a DOUBLE as `f64` alone, and a DECIMAL as neither: each of those would
//! lose digits. The server shortens a FLOAT in the reply to a text query (to six digits), so that only the binary
//! protocol gives it back as it is.

use std::error::Error as StdError;

use bytes::BytesMut;

use crate::value::{Field, Format, FromValue, IsNull, ParameterType, ToValue, ValueError};
use crate::wire::column::Column;
use crate::wire::column_type::ColumnType;

fn malformed() -> ValueError {
    ValueError::Malformed { what: "floating-point number" }
}

fn parsed<T: std::str::FromStr>(bytes: &[u8]) -> Result<T, ValueError> {
    let text = std::str::from_utf8(bytes).map_err(|_| malformed())?;
    text.parse().map_err(|_| malformed())
}

pub(crate) fn float(field: Field<'_>) -> Result<f32, ValueError> {
    match field.format() {
        Format::Text => parsed(field.bytes()),
        Format::Binary => field.bytes().try_into().map(f32::from_le_bytes).map_err(|_| malformed()),
    }
}

pub(crate) fn double(field: Field<'_>) -> Result<f64, ValueError> {
    match field.format() {
        Format::Text => parsed(field.bytes()),
        Format::Binary => field.bytes().try_into().map(f64::from_le_bytes).map_err(|_| malformed()),
    }
}

impl<'a> FromValue<'a> for f32 {
    fn accepts(column: &Column) -> bool {
        column.type_() == ColumnType::Float
    }

    fn from_value(_: &Column, field: Field<'a>) -> Result<f32, Box<dyn StdError + Send + Sync>> {
        Ok(float(field)?)
    }
}

impl<'a> FromValue<'a> for f64 {
    fn accepts(column: &Column) -> bool {
        matches!(column.type_(), ColumnType::Float | ColumnType::Double)
    }

    fn from_value(column: &Column, field: Field<'a>) -> Result<f64, Box<dyn StdError + Send + Sync>> {
        if column.type_() == ColumnType::Float { Ok(float(field)?.into()) } else { Ok(double(field)?) }
    }
}

impl ToValue for f64 {
    fn null_type() -> ParameterType {
        ParameterType::Double
    }

    #[inline]
    fn parameter_type(&self) -> ParameterType {
        ParameterType::Double
    }

    #[inline]
    fn to_value(&self, out: &mut BytesMut) -> Result<IsNull, Box<dyn StdError + Send + Sync>> {
        if !self.is_finite() {
            return Err(Box::new(ValueError::NotFinite));
        }
        out.extend_from_slice(&self.to_le_bytes());
        Ok(IsNull::No)
    }
}

/// Sent as a DOUBLE, which is what the server makes of it anyway.
impl ToValue for f32 {
    fn null_type() -> ParameterType {
        ParameterType::Double
    }

    #[inline]
    fn parameter_type(&self) -> ParameterType {
        ParameterType::Double
    }

    #[inline]
    fn to_value(&self, out: &mut BytesMut) -> Result<IsNull, Box<dyn StdError + Send + Sync>> {
        f64::from(*self).to_value(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::tests::{column, read, read_text, refused};

    #[test]
    fn text_and_binary_agree() {
        let (float, double) = (column(4, 0, 63, 31), column(5, 0, 63, 31));
        assert_eq!(read::<f32>(&float, &0.1_f32.to_le_bytes()), 0.1);
        assert_eq!(read_text::<f32>(&float, b"0.1"), 0.1);
        assert_eq!(read::<f64>(&float, &0.1_f32.to_le_bytes()), f64::from(0.1_f32));
        assert_eq!(read_text::<f64>(&float, b"0.1"), f64::from(0.1_f32));
        assert_eq!(read::<f64>(&double, &f64::MIN_POSITIVE.to_le_bytes()), f64::MIN_POSITIVE);
        assert_eq!(read_text::<f64>(&double, b"1.7976931348623157e308"), f64::MAX);
    }

    #[test]
    fn what_would_lose_digits_is_not_accepted() {
        assert!(!f32::accepts(&column(5, 0, 63, 31)), "DOUBLE as f32");
        assert!(!f64::accepts(&column(246, 0, 63, 2)), "DECIMAL as f64");
        assert!(!f64::accepts(&column(8, 0, 63, 0)), "BIGINT as f64");
    }

    #[test]
    fn infinity_is_not_sent() {
        for value in [f64::INFINITY, f64::NEG_INFINITY, f64::NAN] {
            let error = value.to_value(&mut BytesMut::new()).expect_err("the server does not know it");
            assert_eq!(error.downcast_ref(), Some(&ValueError::NotFinite), "{value}");
        }
        assert!(f32::NAN.to_value(&mut BytesMut::new()).is_err());
    }

    #[test]
    fn noise_is_refused() {
        let double = column(5, 0, 63, 31);
        for bytes in [&b""[..], b"1234567", b"123456789"] {
            refused::<f64>(&double, Field::new(bytes, Format::Binary));
        }
        for bytes in [&b""[..], b"one", b"\xFF", b"1.0 "] {
            refused::<f64>(&double, Field::new(bytes, Format::Text));
        }
    }
}
