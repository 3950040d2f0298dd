//! Parameters: their types, what tells statements apart by them, and their part of the message that runs a statement.
//!
//! ```text
//!  [NULL bitmap][1: types follow][type, flag] ... [type, flag][value][value] ...
//! ```
//!
//! Since 8.0.22 MySQL resolves a statement for the types of its parameters. A value of another type is then converted to
//! that (text where an integer was is 0 unless it begins with digits), or makes the server prepare the statement anew at
//! that execution, and once more when the first type comes again. Callers who share a statement and disagree would get
//! wrong rows, or slow ones. So (a) what is one thing is sent as one type: an integer of any width is a BIGINT, signed if
//! it fits; a floating-point number is a DOUBLE; a NULL has the type that its values would have; and (b) the same text
//! with parameters of other types is another statement. What remains is one preparation more on each connection, at the
//! first execution, where the types are not those the server expected.
//!
//! The types are sent with each execution. The server would remember them, but then one caller's message would depend on
//! another's having been sent before it, and that may have moved to another connection.
//!
//! Source: client/server protocol, "COM_STMT_EXECUTE".

use bytes::BytesMut;

use crate::error::Error;
use crate::value::{IsNull, ToValue};
use crate::wire::frontend::check_parameters;

/// Parameters whose signature needs no allocation.
const SHORT_SIGNATURE_PARAMETERS_MAX: usize = 64;

/// The types that parameters are sent with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ParameterType {
    /// NULL of no particular type.
    Null,
    /// BIGINT: eight bytes, least first.
    BigInt,
    /// BIGINT UNSIGNED: eight bytes, least first. For what a BIGINT cannot hold.
    UnsignedBigInt,
    /// DOUBLE: eight bytes, least first.
    Double,
    /// DECIMAL, as text with its length.
    Decimal,
    /// Text in UTF-8, with its length.
    Text,
    /// Bytes, with their length.
    Bytes,
    /// DATE.
    Date,
    /// DATETIME and TIMESTAMP.
    DateTime,
    /// TIME.
    Time,
}

impl ParameterType {
    /// The protocol's type code, and its flag for unsigned.
    #[inline]
    fn on_the_wire(self) -> [u8; 2] {
        match self {
            ParameterType::Null => [6, 0],
            ParameterType::BigInt => [8, 0],
            ParameterType::UnsignedBigInt => [8, 0x80],
            ParameterType::Double => [5, 0],
            ParameterType::Decimal => [246, 0],
            ParameterType::Text => [253, 0],
            ParameterType::Bytes => [252, 0],
            ParameterType::Date => [10, 0],
            ParameterType::DateTime => [12, 0],
            ParameterType::Time => [11, 0],
        }
    }

    /// Its number in a signature. Never 0, which stands for "no parameter".
    #[inline]
    fn number(self) -> u8 {
        self as u8 + 1
    }
}

/// What tells statements of the same text apart: the types of their parameters, four to a word. Empty without parameters.
#[derive(Clone)]
pub(crate) struct Signature(Words);

#[derive(Clone)]
enum Words {
    Short { words: [u32; SHORT_SIGNATURE_PARAMETERS_MAX / 4], used: usize },
    Long(Vec<u32>),
}

impl Signature {
    #[inline]
    pub(crate) fn as_slice(&self) -> &[u32] {
        match &self.0 {
            Words::Short { words, used } => words.get(..*used).unwrap_or_default(),
            Words::Long(words) => words,
        }
    }
}

/// The signature of these parameters. Nothing is allocated for up to 64 of them.
#[inline]
pub(crate) fn signature(parameters: &[&(dyn ToValue + Sync)]) -> Signature {
    let used = parameters.len().div_ceil(4);
    if parameters.len() <= SHORT_SIGNATURE_PARAMETERS_MAX {
        let mut words = [0; SHORT_SIGNATURE_PARAMETERS_MAX / 4];
        pack(parameters, &mut words);
        Signature(Words::Short { words, used })
    } else {
        let mut words = vec![0; used];
        pack(parameters, &mut words);
        Signature(Words::Long(words))
    }
}

#[inline]
fn pack(parameters: &[&(dyn ToValue + Sync)], words: &mut [u32]) {
    for (four, word) in parameters.chunks(4).zip(words) {
        for value in four.iter().rev() {
            *word = *word << 8 | u32::from(value.parameter_type().number());
        }
    }
}

/// Appends the parameters' part of the message that runs a statement; nothing for none. On an error what was appended
/// makes no sense.
#[inline]
pub(crate) fn append_parameters(parameters: &[&(dyn ToValue + Sync)], out: &mut BytesMut) -> Result<(), Error> {
    let count = parameters.len();
    if count == 0 {
        return Ok(());
    }
    check_parameters(count)?;
    let nulls_at = out.len();
    let types_follow_at = nulls_at + count.div_ceil(8);
    let types_at = types_follow_at + 1;
    let values_at = types_at + 2 * count;
    out.resize(values_at, 0);
    put(out, types_follow_at, 1);
    for (index, value) in parameters.iter().enumerate() {
        let [code, flag] = value.parameter_type().on_the_wire();
        put(out, types_at + 2 * index, code);
        put(out, types_at + 2 * index + 1, flag);
        let begins_at = out.len();
        let is_null = value.to_value(out).map_err(|error| Error::parameter(index + 1, error))?;
        if out.len() < begins_at {
            return Err(Error::parameter(index + 1, "it took away what was written before it".into()));
        }
        if is_null == IsNull::Yes {
            out.truncate(begins_at);
            let at = nulls_at + index / 8;
            let nulls = out.get(at).copied().unwrap_or_default();
            put(out, at, nulls | 1 << (index % 8));
        }
    }
    Ok(())
}

#[inline]
fn put(out: &mut BytesMut, at: usize, byte: u8) {
    if let Some(place) = out.get_mut(at) {
        *place = byte;
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as StdError;

    use super::*;
    use crate::wire::frontend::PARAMETERS_MAX;

    fn appended(parameters: &[&(dyn ToValue + Sync)]) -> Vec<u8> {
        let mut out = BytesMut::from(&b"head"[..]);
        append_parameters(parameters, &mut out).expect("all of them can be sent");
        out.strip_prefix(b"head").expect("what was there stays").to_vec()
    }

    #[test]
    fn parameters_are_a_bitmap_types_and_values() {
        assert_eq!(appended(&[]), b"");
        assert_eq!(appended(&[&42_i32]), b"\0\x01\x08\0\x2a\0\0\0\0\0\0\0");
        assert_eq!(appended(&[&"ab", &None::<i32>]), b"\x02\x01\xfd\0\x08\0\x02ab");
        assert_eq!(appended(&[&u64::MAX]), b"\0\x01\x08\x80\xff\xff\xff\xff\xff\xff\xff\xff");
        let nulls: Vec<&(dyn ToValue + Sync)> = vec![&None::<&str>; 9];
        let mut expected = b"\xff\x01\x01".to_vec();
        expected.extend_from_slice(&b"\xfd\0".repeat(9));
        assert_eq!(appended(&nulls), expected);
    }

    #[test]
    fn signatures_differ_where_types_do() {
        let parameters: [&[&(dyn ToValue + Sync)]; 9] = [
            &[],
            &[&1_i64],
            &[&u64::MAX],
            &[&1.5],
            &["text"].map(|_| &"text" as &(dyn ToValue + Sync)),
            &[&b"bytes"],
            &[&1_i64, &1_i64],
            &[&1_i64, &1_i64, &1_i64, &1_i64],
            &[&1_i64, &1_i64, &1_i64, &1_i64, &1_i64],
        ];
        let signatures = parameters.map(signature);
        for (at, one) in signatures.iter().enumerate() {
            for other in &signatures[..at] {
                assert_ne!(one.as_slice(), other.as_slice(), "number {at}");
            }
        }
        assert!(signatures[0].as_slice().is_empty());
    }

    #[test]
    fn what_is_one_thing_has_one_signature() {
        let first = signature(&[&1_i64]);
        for other in [
            signature(&[&1_i8]),
            signature(&[&1_u32]),
            signature(&[&1_u64]),
            signature(&[&None::<u8>]),
            signature(&[&true]),
        ] {
            assert_eq!(first.as_slice(), other.as_slice());
        }
        assert_eq!(signature(&[&"a"]).as_slice(), signature(&[&None::<String>]).as_slice());
        assert_eq!(signature(&[&1.5_f32]).as_slice(), signature(&[&None::<f64>]).as_slice());
    }

    #[test]
    fn long_signatures_are_whole() {
        for count in [63, 64, 65, 66, 1000] {
            let numbers: Vec<&(dyn ToValue + Sync)> = vec![&1; count];
            let mut last_is_text = numbers.clone();
            last_is_text[count - 1] = &"text";
            assert_eq!(signature(&numbers).as_slice().len(), count.div_ceil(4));
            assert_ne!(signature(&numbers).as_slice(), signature(&last_is_text).as_slice(), "{count}");
        }
    }

    #[test]
    fn one_parameter_too_many_is_the_callers_error() {
        let most: Vec<&(dyn ToValue + Sync)> = vec![&1; PARAMETERS_MAX];
        let mut out = BytesMut::new();
        append_parameters(&most, &mut out).expect("as many as fit");
        assert_eq!(out.len(), PARAMETERS_MAX.div_ceil(8) + 1 + 10 * PARAMETERS_MAX);
        let more: Vec<&(dyn ToValue + Sync)> = vec![&1; PARAMETERS_MAX + 1];
        let error = append_parameters(&more, &mut out).expect_err("one more than fit");
        assert!(error.is_caller() && error.to_string().contains("65536"), "{error}");
    }

    /// A value that does what it should not.
    struct Unruly(fn(&mut BytesMut) -> Result<IsNull, Box<dyn StdError + Send + Sync>>);

    impl ToValue for Unruly {
        fn null_type() -> ParameterType {
            ParameterType::Text
        }

        fn parameter_type(&self) -> ParameterType {
            ParameterType::Text
        }

        fn to_value(&self, out: &mut BytesMut) -> Result<IsNull, Box<dyn StdError + Send + Sync>> {
            (self.0)(out)
        }
    }

    #[test]
    fn an_unruly_value_harms_only_itself() {
        let writes_and_is_null = Unruly(|out| {
            out.extend_from_slice(b"something");
            Ok(IsNull::Yes)
        });
        assert_eq!(appended(&[&writes_and_is_null, &"a"]), b"\x01\x01\xfd\0\xfd\0\x01a");
        let fails = Unruly(|_| Err("there is no writing it".into()));
        let takes_away = Unruly(|out| {
            out.clear();
            Ok(IsNull::No)
        });
        for (unruly, words) in [(fails, "there is no writing it"), (takes_away, "took away")] {
            let error = append_parameters(&[&1, &unruly], &mut BytesMut::new()).expect_err(words);
            assert!(error.is_caller() && error.to_string().contains("parameter 2"), "{error}");
            assert!(error.to_string().contains(words), "{error}");
        }
    }
}
