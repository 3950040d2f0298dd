//! UUIDs of the `uuid` crate.
//!
//! A `Uuid` is sent as its 16 bytes, in the order in which they are written, for a BINARY(16). (`UUID_TO_BIN(.., 1)` swaps
//! them; `BIN_TO_UUID(.., 1)` swaps them back.) For a column of text there is `Hyphenated`.

use std::error::Error as StdError;
use std::fmt::Write as _;

use bytes::BytesMut;
use uuid::Uuid;
use uuid::fmt::Hyphenated;

use crate::value::append::append_with;
use crate::value::{Field, FromValue, IsNull, ParameterType, ToValue, ValueError};
use crate::wire::column::Column;
use crate::wire::column_type::ColumnType;
use crate::wire::cursor::append_lenenc_bytes;

/// From 16 bytes, or from text.
impl<'a> FromValue<'a> for Uuid {
    fn accepts(column: &Column) -> bool {
        use ColumnType::{Binary, Blob, Char, Text, VarBinary, VarChar};
        matches!(column.type_(), Binary | VarBinary | Blob | Char | VarChar | Text)
    }

    fn from_value(column: &Column, field: Field<'a>) -> Result<Uuid, Box<dyn StdError + Send + Sync>> {
        let bytes = field.bytes();
        let uuid = if column.type_().is_bytes() { Uuid::from_slice(bytes) } else { Uuid::try_parse_ascii(bytes) };
        uuid.map_err(|_| ValueError::Malformed { what: "UUID" }.into())
    }
}

impl ToValue for Uuid {
    fn null_type() -> ParameterType {
        ParameterType::Bytes
    }

    fn parameter_type(&self) -> ParameterType {
        ParameterType::Bytes
    }

    fn to_value(&self, out: &mut BytesMut) -> Result<IsNull, Box<dyn StdError + Send + Sync>> {
        append_lenenc_bytes(self.as_bytes(), out);
        Ok(IsNull::No)
    }
}

impl<'a> FromValue<'a> for Hyphenated {
    fn accepts(column: &Column) -> bool {
        Uuid::accepts(column)
    }

    fn from_value(column: &Column, field: Field<'a>) -> Result<Hyphenated, Box<dyn StdError + Send + Sync>> {
        Uuid::from_value(column, field).map(Uuid::hyphenated)
    }
}

/// As text: `67e55044-10b1-426f-9247-bb680e5fe0c8`.
impl ToValue for Hyphenated {
    fn null_type() -> ParameterType {
        ParameterType::Text
    }

    fn parameter_type(&self) -> ParameterType {
        ParameterType::Text
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
    fn bytes_and_text_are_read_and_sent() {
        let text = "67e55044-10b1-426f-9247-bb680e5fe0c8";
        let uuid: Uuid = text.parse().unwrap();
        let (binary, char) = (column(254, 0x80, 63, 0), column(254, 0, 255, 0));
        assert_eq!(read::<Uuid>(&binary, uuid.as_bytes()), uuid);
        assert_eq!(read::<Uuid>(&char, text.as_bytes()), uuid);
        assert_eq!(read::<Hyphenated>(&char, text.as_bytes()).into_uuid(), uuid);
        assert_eq!(sent(&uuid)[1..], uuid.as_bytes()[..]);
        assert_eq!(sent(&uuid.hyphenated()), sent(&text));
        for (column, bytes) in [(&binary, &b"15 bytes of UUID"[..15]), (&char, b"67e55044"), (&char, b"\xFF")] {
            refused::<Uuid>(column, Field::new(bytes, Format::Binary));
        }
    }
}
