//! Bytes, and the numbers of a VECTOR.

use std::borrow::Cow;
use std::error::Error as StdError;

use bytes::{BufMut, Bytes, BytesMut};

use crate::value::{Field, FromValue, IsNull, ParameterType, ToValue, ValueError};
use crate::wire::column::Column;
use crate::wire::column_type::ColumnType;
use crate::wire::cursor::{append_lenenc, append_lenenc_bytes};

/// Text can be had as bytes too; the other way round it could not.
impl<'a> FromValue<'a> for &'a [u8] {
    fn accepts(column: &Column) -> bool {
        let ty = column.type_();
        ty.is_bytes() || ty.is_text() || ty == ColumnType::Bit
    }

    #[inline]
    fn from_value(_: &Column, field: Field<'a>) -> Result<&'a [u8], Box<dyn StdError + Send + Sync>> {
        Ok(field.bytes())
    }
}

macro_rules! owned {
    ($($ty:ty: $from:path),+) => {$(
        impl<'a> FromValue<'a> for $ty {
            fn accepts(column: &Column) -> bool {
                <&[u8]>::accepts(column)
            }

            fn from_value(_: &Column, field: Field<'a>) -> Result<$ty, Box<dyn StdError + Send + Sync>> {
                Ok($from(field.bytes()))
            }
        }
    )+};
}

owned!(Vec<u8>: Vec::from, Box<[u8]>: Box::from, Cow<'a, [u8]>: Cow::Borrowed, Bytes: Bytes::copy_from_slice);

impl<'a, const N: usize> FromValue<'a> for [u8; N] {
    fn accepts(column: &Column) -> bool {
        <&[u8]>::accepts(column)
    }

    fn from_value(_: &Column, field: Field<'a>) -> Result<[u8; N], Box<dyn StdError + Send + Sync>> {
        let bytes = field.bytes();
        bytes.try_into().map_err(|_| {
            let (value, range) = (format!("a value of {} bytes", bytes.len()), format!("{N} bytes"));
            ValueError::OutOfRange { value, wanted: "array", range }.into()
        })
    }
}

macro_rules! sent_as_bytes {
    ($([$($generic:tt)*] $ty:ty),+) => {$(
        impl<$($generic)*> ToValue for $ty {
            fn null_type() -> ParameterType {
                ParameterType::Bytes
            }

            #[inline]
            fn parameter_type(&self) -> ParameterType {
                ParameterType::Bytes
            }

            #[inline]
            fn to_value(&self, out: &mut BytesMut) -> Result<IsNull, Box<dyn StdError + Send + Sync>> {
                append_lenenc_bytes(self, out);
                Ok(IsNull::No)
            }
        }
    )+};
}

sent_as_bytes!([] &[u8], [] Vec<u8>, [] Box<[u8]>, [] Cow<'_, [u8]>, [] Bytes, [const N: usize] [u8; N]);

/// A VECTOR. A server that does not say that it is one says that it is bytes.
impl<'a> FromValue<'a> for Vec<f32> {
    fn accepts(column: &Column) -> bool {
        use ColumnType::{Binary, Blob, VarBinary, Vector};
        matches!(column.type_(), Vector | VarBinary | Binary | Blob)
    }

    fn from_value(_: &Column, field: Field<'a>) -> Result<Vec<f32>, Box<dyn StdError + Send + Sync>> {
        let (numbers, rest) = field.bytes().as_chunks::<4>();
        if !rest.is_empty() {
            return Err(Box::new(ValueError::Malformed { what: "vector" }));
        }
        Ok(numbers.iter().map(|&number| f32::from_le_bytes(number)).collect())
    }
}

fn append_vector(numbers: &[f32], out: &mut BytesMut) -> Result<IsNull, Box<dyn StdError + Send + Sync>> {
    if !numbers.iter().all(|number| number.is_finite()) {
        return Err(Box::new(ValueError::NotFinite));
    }
    append_lenenc(size_of_val(numbers) as u64, out);
    out.reserve(size_of_val(numbers));
    for &number in numbers {
        out.put_f32_le(number);
    }
    Ok(IsNull::No)
}

macro_rules! sent_as_vector {
    ($($ty:ty),+) => {$(
        impl ToValue for $ty {
            fn null_type() -> ParameterType {
                ParameterType::Bytes
            }

            fn parameter_type(&self) -> ParameterType {
                ParameterType::Bytes
            }

            fn to_value(&self, out: &mut BytesMut) -> Result<IsNull, Box<dyn StdError + Send + Sync>> {
                append_vector(self, out)
            }
        }
    )+};
}

sent_as_vector!(&[f32], Vec<f32>);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Format;
    use crate::value::tests::{column, read, refused, sent};

    #[test]
    fn bytes_are_read_and_sent() {
        let blob = column(252, 0x90, 63, 0);
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(read::<&[u8]>(&blob, &all), all);
        assert_eq!(read::<Vec<u8>>(&blob, &all), all);
        assert_eq!(read::<Bytes>(&blob, &all), all);
        assert_eq!(read::<[u8; 3]>(&blob, b"abc"), *b"abc");
        let error = refused::<[u8; 3]>(&blob, Field::new(b"abcd", Format::Binary));
        assert_eq!(error.to_string(), "a value of 4 bytes is no array (3 bytes)");
        for sent in [sent(&b"ab"), sent(&&b"ab"[..]), sent(&b"ab".to_vec()), sent(&Bytes::from_static(b"ab"))] {
            assert_eq!(sent, b"\x02ab");
        }
    }

    #[test]
    fn text_is_bytes_as_well_and_numbers_are_not() {
        for (name, code, charset, are_bytes) in [
            ("TEXT", 252, 255, true),
            ("GEOMETRY", 255, 63, true),
            ("VECTOR", 242, 63, true),
            ("BIT", 16, 63, true),
            ("INT", 3, 63, false),
            ("DATE", 10, 63, false),
        ] {
            assert_eq!(<&[u8]>::accepts(&column(code, 0, charset, 0)), are_bytes, "{name}");
        }
    }

    #[test]
    fn vectors_make_the_round_trip() {
        let numbers = [0.0_f32, -1.5, f32::MAX, f32::MIN_POSITIVE];
        let bytes = sent(&&numbers[..]);
        assert_eq!(bytes.first(), Some(&16));
        let vector = column(242, 0x80, 63, 0);
        assert_eq!(read::<Vec<f32>>(&vector, &bytes[1..]), numbers);
        assert_eq!(read::<Vec<f32>>(&vector, b""), [0.0; 0]);
        refused::<Vec<f32>>(&vector, Field::new(b"12345", Format::Binary));
        assert!(vec![1.0, f32::NAN].to_value(&mut BytesMut::new()).is_err());
    }
}
