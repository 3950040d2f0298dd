//! Numbers of the `rust_decimal` crate.
//!
//! They have 28 digits, a DECIMAL up to 65: what does not fit is an error; [`Decimal`](crate::value::Decimal) holds it.

use std::error::Error as StdError;
use std::fmt::Write as _;

use bytes::BytesMut;
use rust_decimal::Decimal;

use crate::value::append::append_with;
use crate::value::time_of_day::not_held;
use crate::value::{Decimal as Digits, Field, FromValue, IsNull, ParameterType, ToValue};
use crate::wire::column::Column;

/// Behind the point.
const DIGITS_MAX: usize = 28;

impl<'a> FromValue<'a> for Decimal {
    fn accepts(column: &Column) -> bool {
        Digits::accepts(column)
    }

    fn from_value(column: &Column, field: Field<'a>) -> Result<Decimal, Box<dyn StdError + Send + Sync>> {
        let text = <&str>::from_value(column, field)?;
        // A column of 30 digits behind the point shows all of them, also where they are zero.
        let digits = match text.split_once('.') {
            Some((_, fraction)) if fraction.len() > DIGITS_MAX => text.trim_end_matches('0'),
            _ => text,
        };
        Decimal::from_str_exact(digits).map_err(|_| not_held(text.to_owned(), "Decimal", "28 digits").into())
    }
}

impl ToValue for Decimal {
    fn null_type() -> ParameterType {
        ParameterType::Decimal
    }

    fn parameter_type(&self) -> ParameterType {
        ParameterType::Decimal
    }

    fn to_value(&self, out: &mut BytesMut) -> Result<IsNull, Box<dyn StdError + Send + Sync>> {
        append_with(out, |out| write!(out, "{self}"))?;
        Ok(IsNull::No)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Format;
    use crate::value::tests::{column, read, refused, sent};

    #[test]
    fn what_fits_is_read_and_sent_and_what_does_not_is_an_error() {
        let decimal = column(246, 0, 63, 30);
        for text in ["0", "-1.50", "79228162514264337593543950335", "0.0000000000000000000000000001"] {
            let value = read::<Decimal>(&decimal, text.as_bytes());
            assert_eq!(value.to_string(), text);
            assert_eq!(sent(&value), sent(&text));
        }
        let zeros = format!("1.5{}", "0".repeat(29));
        assert_eq!(read::<Decimal>(&decimal, zeros.as_bytes()).to_string(), "1.5");
        for text in ["79228162514264337593543950336", "0.00000000000000000000000000001", "", "x"] {
            refused::<Decimal>(&decimal, Field::new(text.as_bytes(), Format::Text));
        }
    }
}
