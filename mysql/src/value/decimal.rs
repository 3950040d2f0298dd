//! `Decimal`: the digits of a DECIMAL, as they are.

use std::error::Error as StdError;
use std::fmt;
use std::str::FromStr;

use bytes::BytesMut;

use crate::value::{Field, FromValue, IsNull, ParameterType, ToValue, ValueError};
use crate::wire::column::Column;
use crate::wire::column_type::ColumnType;
use crate::wire::cursor::append_lenenc_bytes;

/// A column has 65 at most; what the server calculates with has 81.
const DIGITS_MAX: usize = 81;

/// A DECIMAL, digit by digit. It does not calculate; it brings a number to the server and back without a floating-point
/// number on its way.
///
/// It is sent as a DECIMAL. Text would not do for comparisons: the server compares a DECIMAL with a text as
/// floating-point numbers.
///
/// ```
/// use cenote_mysql::value::Decimal;
///
/// let price: Decimal = "12345678901234567890.99".parse()?;
/// assert_eq!(price.as_str(), "12345678901234567890.99");
/// # Ok::<(), cenote_mysql::value::ValueError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Decimal(Box<str>);

impl Decimal {
    /// The digits, with a sign and a point where they belong.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Decimal {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Decimal, ValueError> {
        check(text.as_bytes()).map(|text| Decimal(text.into()))
    }
}

/// The text, if it is a sign, digits and a point.
fn check(bytes: &[u8]) -> Result<&str, ValueError> {
    let malformed = || ValueError::Malformed { what: "DECIMAL" };
    let text = std::str::from_utf8(bytes).map_err(|_| malformed())?;
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let digits = whole.len() + fraction.len();
    let are_digits = whole.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit());
    if are_digits && (1..=DIGITS_MAX).contains(&digits) { Ok(text) } else { Err(malformed()) }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Decimal({self})")
    }
}

impl<'a> FromValue<'a> for Decimal {
    fn accepts(column: &Column) -> bool {
        column.type_() == ColumnType::Decimal
    }

    fn from_value(_: &Column, field: Field<'a>) -> Result<Decimal, Box<dyn StdError + Send + Sync>> {
        Ok(Decimal(check(field.bytes())?.into()))
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
        append_lenenc_bytes(self.0.as_bytes(), out);
        Ok(IsNull::No)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Format;
    use crate::value::tests::{column, read, refused, sent};

    #[test]
    fn digits_are_kept_as_they_are() {
        let decimal = column(246, 0, 63, 30);
        let long = format!("-{}.{}", "9".repeat(35), "9".repeat(30));
        for text in ["0", "-0.00", "12.50", "+1", ".5", "1.", long.as_str()] {
            assert_eq!(text.parse::<Decimal>().map(|decimal| decimal.to_string()).as_deref(), Ok(text));
            assert_eq!(read::<Decimal>(&decimal, text.as_bytes()).as_str(), text);
            assert_eq!(read::<&str>(&decimal, text.as_bytes()), text);
        }
        assert_eq!(sent(&"1.5".parse::<Decimal>().unwrap()), b"\x031.5");
    }

    #[test]
    fn what_is_no_decimal_is_refused() {
        let decimal = column(246, 0, 63, 30);
        let endless = "1".repeat(100_000);
        for text in ["", "-", ".", "1.2.3", "1e5", "--1", "NaN", " 1", "0x10", "1,5", endless.as_str()] {
            assert!(text.parse::<Decimal>().is_err(), "{text:.20}");
            refused::<Decimal>(&decimal, Field::new(text.as_bytes(), Format::Text));
        }
        refused::<Decimal>(&decimal, Field::new(b"\xFF", Format::Binary));
    }
}
