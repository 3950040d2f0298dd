//! `ColumnType`: what a column holds, in the words of SQL.
//!
//! The protocol's type code alone does not say it: text and bytes share their codes and differ by the character set,
//! ENUM and SET come as strings with a flag. Here that is settled once, when the definition is read.
//!
//! Source: client/server protocol, "Column Definition" and `enum_field_types`.

use std::fmt;

/// The character set `binary`: what has it is bytes, not text. (The flag `BINARY` says something else: it is also set for
/// text with a collation that compares bytes.)
const BINARY_CHARSET: u16 = 63;

pub(crate) const UNSIGNED_FLAG: u16 = 0x20;
const ENUM_FLAG: u16 = 0x100;
const SET_FLAG: u16 = 0x800;

/// What a column holds.
///
/// Whether an integer is unsigned is the [`Column`](crate::Column)'s to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ColumnType {
    /// TINYINT, and BOOL, which is the same.
    TinyInt,
    /// SMALLINT.
    SmallInt,
    /// MEDIUMINT.
    MediumInt,
    /// INT.
    Int,
    /// BIGINT.
    BigInt,
    /// FLOAT.
    Float,
    /// DOUBLE.
    Double,
    /// DECIMAL.
    Decimal,
    /// BIT.
    Bit,
    /// YEAR.
    Year,
    /// DATE.
    Date,
    /// DATETIME.
    DateTime,
    /// TIMESTAMP.
    Timestamp,
    /// TIME: a duration as well as a time of day.
    Time,
    /// CHAR.
    Char,
    /// VARCHAR.
    VarChar,
    /// TINYTEXT, TEXT, MEDIUMTEXT, LONGTEXT.
    Text,
    /// BINARY.
    Binary,
    /// VARBINARY.
    VarBinary,
    /// TINYBLOB, BLOB, MEDIUMBLOB, LONGBLOB.
    Blob,
    /// ENUM.
    Enum,
    /// SET.
    Set,
    /// JSON. MariaDB's is [`Text`](ColumnType::Text).
    Json,
    /// GEOMETRY and what derives from it.
    Geometry,
    /// VECTOR.
    Vector,
    /// Of an expression that is always NULL.
    Null,
}

/// How long a value is in a row of the binary protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BinaryLength {
    /// Always so many bytes.
    Fixed(usize),
    /// A length-encoded length goes before it. (That of a date or time is one byte, which is the same.)
    Prefixed,
    /// There is no value; it is NULL.
    Absent,
}

impl ColumnType {
    /// The protocol's number of it: what a column of this type is announced with. Types that differ by their character set
    /// alone share one (CHAR and BINARY, for instance).
    pub fn code(self) -> u8 {
        match self {
            ColumnType::TinyInt => 1,
            ColumnType::SmallInt => 2,
            ColumnType::Int => 3,
            ColumnType::Float => 4,
            ColumnType::Double => 5,
            ColumnType::Null => 6,
            ColumnType::Timestamp => 7,
            ColumnType::BigInt => 8,
            ColumnType::MediumInt => 9,
            ColumnType::Date => 10,
            ColumnType::Time => 11,
            ColumnType::DateTime => 12,
            ColumnType::Year => 13,
            ColumnType::Bit => 16,
            ColumnType::Vector => 242,
            ColumnType::Json => 245,
            ColumnType::Decimal => 246,
            ColumnType::Enum => 247,
            ColumnType::Set => 248,
            ColumnType::Text | ColumnType::Blob => 252,
            ColumnType::VarChar | ColumnType::VarBinary => 253,
            ColumnType::Char | ColumnType::Binary => 254,
            ColumnType::Geometry => 255,
        }
    }

    /// The type, from the parts of a column's definition that say it. `None` for a code that no server sends.
    pub(crate) fn from_wire(code: u8, flags: u16, charset: u16) -> Option<ColumnType> {
        let is_bytes = charset == BINARY_CHARSET;
        let either = |bytes, text| if is_bytes { bytes } else { text };
        Some(match code {
            0 | 246 => ColumnType::Decimal,
            1 => ColumnType::TinyInt,
            2 => ColumnType::SmallInt,
            3 => ColumnType::Int,
            4 => ColumnType::Float,
            5 => ColumnType::Double,
            6 => ColumnType::Null,
            7 => ColumnType::Timestamp,
            8 => ColumnType::BigInt,
            9 => ColumnType::MediumInt,
            10 | 14 => ColumnType::Date,
            11 => ColumnType::Time,
            12 => ColumnType::DateTime,
            13 => ColumnType::Year,
            16 => ColumnType::Bit,
            242 => ColumnType::Vector,
            // Its character set is `binary`, and yet it is text.
            245 => ColumnType::Json,
            247 => ColumnType::Enum,
            248 => ColumnType::Set,
            255 => ColumnType::Geometry,
            15 | 249..=254 if flags & ENUM_FLAG != 0 => ColumnType::Enum,
            15 | 249..=254 if flags & SET_FLAG != 0 => ColumnType::Set,
            249..=252 => either(ColumnType::Blob, ColumnType::Text),
            15 | 253 => either(ColumnType::VarBinary, ColumnType::VarChar),
            254 => either(ColumnType::Binary, ColumnType::Char),
            _ => return None,
        })
    }

    pub(crate) fn binary_length(self) -> BinaryLength {
        match self {
            ColumnType::TinyInt => BinaryLength::Fixed(1),
            ColumnType::SmallInt | ColumnType::Year => BinaryLength::Fixed(2),
            // A MEDIUMINT has three bytes on disk and four here.
            ColumnType::MediumInt | ColumnType::Int | ColumnType::Float => BinaryLength::Fixed(4),
            ColumnType::BigInt | ColumnType::Double => BinaryLength::Fixed(8),
            ColumnType::Null => BinaryLength::Absent,
            _ => BinaryLength::Prefixed,
        }
    }

    /// Whether it is a whole number: TINYINT to BIGINT, and YEAR.
    pub fn is_integer(self) -> bool {
        use ColumnType::{BigInt, Int, MediumInt, SmallInt, TinyInt, Year};
        matches!(self, TinyInt | SmallInt | MediumInt | Int | BigInt | Year)
    }

    /// Whether it is text: CHAR, VARCHAR, TEXT, ENUM, SET and JSON.
    pub fn is_text(self) -> bool {
        use ColumnType::{Char, Enum, Json, Set, Text, VarChar};
        matches!(self, Char | VarChar | Text | Enum | Set | Json)
    }

    /// Whether it is bytes: BINARY, VARBINARY, BLOB, GEOMETRY and VECTOR.
    pub fn is_bytes(self) -> bool {
        use ColumnType::{Binary, Blob, Geometry, VarBinary, Vector};
        matches!(self, Binary | VarBinary | Blob | Geometry | Vector)
    }

    /// Its name in SQL.
    pub fn name(self) -> &'static str {
        match self {
            ColumnType::TinyInt => "TINYINT",
            ColumnType::SmallInt => "SMALLINT",
            ColumnType::MediumInt => "MEDIUMINT",
            ColumnType::Int => "INT",
            ColumnType::BigInt => "BIGINT",
            ColumnType::Float => "FLOAT",
            ColumnType::Double => "DOUBLE",
            ColumnType::Decimal => "DECIMAL",
            ColumnType::Bit => "BIT",
            ColumnType::Year => "YEAR",
            ColumnType::Date => "DATE",
            ColumnType::DateTime => "DATETIME",
            ColumnType::Timestamp => "TIMESTAMP",
            ColumnType::Time => "TIME",
            ColumnType::Char => "CHAR",
            ColumnType::VarChar => "VARCHAR",
            ColumnType::Text => "TEXT",
            ColumnType::Binary => "BINARY",
            ColumnType::VarBinary => "VARBINARY",
            ColumnType::Blob => "BLOB",
            ColumnType::Enum => "ENUM",
            ColumnType::Set => "SET",
            ColumnType::Json => "JSON",
            ColumnType::Geometry => "GEOMETRY",
            ColumnType::Vector => "VECTOR",
            ColumnType::Null => "NULL",
        }
    }
}

impl fmt::Display for ColumnType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UTF8MB4: u16 = 255;
    const BINARY_FLAG: u16 = 0x80;

    #[test]
    fn the_character_set_tells_text_from_bytes() {
        for (name, code, flags, charset, expected) in [
            ("VARCHAR", 253, 0, UTF8MB4, ColumnType::VarChar),
            ("VARCHAR with a collation that compares bytes", 253, BINARY_FLAG, 46, ColumnType::VarChar),
            ("VARBINARY", 253, BINARY_FLAG, 63, ColumnType::VarBinary),
            ("CHAR", 254, 0, UTF8MB4, ColumnType::Char),
            ("BINARY", 254, BINARY_FLAG, 63, ColumnType::Binary),
            ("TEXT", 252, 0x10, UTF8MB4, ColumnType::Text),
            ("BLOB", 252, BINARY_FLAG, 63, ColumnType::Blob),
            ("JSON, whose character set says bytes", 245, BINARY_FLAG, 63, ColumnType::Json),
            ("ENUM", 254, ENUM_FLAG, UTF8MB4, ColumnType::Enum),
            ("SET", 254, SET_FLAG, UTF8MB4, ColumnType::Set),
            ("DECIMAL", 246, BINARY_FLAG, 63, ColumnType::Decimal),
        ] {
            assert_eq!(ColumnType::from_wire(code, flags, charset), Some(expected), "{name}");
        }
    }

    #[test]
    fn codes_that_no_server_sends_are_none() {
        for code in [17, 18, 19, 20, 100, 241, 243, 244] {
            assert_eq!(ColumnType::from_wire(code, 0, 63), None, "{code}");
        }
    }
}
