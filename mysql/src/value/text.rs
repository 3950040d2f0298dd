//! Text: `&str` and what owns it.
//!
//! It comes in UTF-8, which the connection asks for. What is bytes by its character set is not read as text, nor guessed
//! at: the same bytes may be text in one row and none in the next.

use std::borrow::Cow;
use std::error::Error as StdError;

use bytes::BytesMut;

use crate::value::{Field, FromValue, IsNull, ParameterType, ToValue, ValueError};
use crate::wire::column::Column;
use crate::wire::column_type::ColumnType;
use crate::wire::cursor::append_lenenc_bytes;

impl<'a> FromValue<'a> for &'a str {
    fn accepts(column: &Column) -> bool {
        // A DECIMAL is text in both formats.
        column.type_().is_text() || column.type_() == ColumnType::Decimal
    }

    #[inline]
    fn from_value(_: &Column, field: Field<'a>) -> Result<&'a str, Box<dyn StdError + Send + Sync>> {
        std::str::from_utf8(field.bytes()).map_err(|_| ValueError::NotUtf8.into())
    }
}

macro_rules! owned {
    ($($ty:ty),+) => {$(
        impl<'a> FromValue<'a> for $ty {
            fn accepts(column: &Column) -> bool {
                <&str>::accepts(column)
            }

            fn from_value(column: &Column, field: Field<'a>) -> Result<$ty, Box<dyn StdError + Send + Sync>> {
                <&str>::from_value(column, field).map(Into::into)
            }
        }
    )+};
}

owned!(String, Box<str>, Cow<'a, str>);

macro_rules! sent_as_text {
    ($($ty:ty),+) => {$(
        impl ToValue for $ty {
            fn null_type() -> ParameterType {
                ParameterType::Text
            }

            #[inline]
            fn parameter_type(&self) -> ParameterType {
                ParameterType::Text
            }

            #[inline]
            fn to_value(&self, out: &mut BytesMut) -> Result<IsNull, Box<dyn StdError + Send + Sync>> {
                append_lenenc_bytes(self.as_bytes(), out);
                Ok(IsNull::No)
            }
        }
    )+};
}

sent_as_text!(&str, String, Box<str>, Cow<'_, str>);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Format;
    use crate::value::tests::{column, read, refused, sent};

    #[test]
    fn text_is_read_and_sent() {
        let varchar = column(253, 0, 255, 0);
        let bytes = "äöü €uro 🐘".as_bytes();
        assert_eq!(read::<&str>(&varchar, bytes).as_bytes(), bytes);
        assert_eq!(read::<String>(&varchar, b""), "");
        assert_eq!(&*read::<Box<str>>(&varchar, b"a"), "a");
        assert!(matches!(read::<Cow<'_, str>>(&varchar, b"a"), Cow::Borrowed("a")));
        for sent in [sent(&"ab"), sent(&"ab".to_owned()), sent(&Cow::Borrowed("ab")), sent(&Box::<str>::from("ab"))] {
            assert_eq!(sent, b"\x02ab");
        }
    }

    #[test]
    fn the_character_set_decides_what_is_text() {
        for (name, code, flags, charset, is_text) in [
            ("VARCHAR", 253, 0, 255, true),
            ("VARCHAR that compares bytes", 253, 0x80, 46, true),
            ("JSON", 245, 0x80, 63, true),
            ("ENUM", 254, 0x100, 255, true),
            ("SET", 254, 0x800, 255, true),
            ("DECIMAL", 246, 0x80, 63, true),
            ("VARBINARY", 253, 0x80, 63, false),
            ("BLOB", 252, 0x90, 63, false),
            ("GEOMETRY", 255, 0x90, 63, false),
            ("BIGINT", 8, 0, 63, false),
            ("DATE", 10, 0, 63, false),
        ] {
            assert_eq!(<&str>::accepts(&column(code, flags, charset, 0)), is_text, "{name}");
        }
    }

    #[test]
    fn what_is_not_utf8_is_an_error() {
        let varchar = column(253, 0, 255, 0);
        for bytes in [&b"\xFF"[..], b"a\xC3", b"\xED\xA0\x80"] {
            assert_eq!(refused::<&str>(&varchar, Field::new(bytes, Format::Binary)), ValueError::NotUtf8);
            assert_eq!(refused::<String>(&varchar, Field::new(bytes, Format::Text)), ValueError::NotUtf8);
        }
    }
}
