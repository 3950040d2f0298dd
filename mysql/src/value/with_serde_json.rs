//! JSON by way of `serde_json`.
//!
//! It is sent as text: the server refuses bytes as JSON.

use std::error::Error as StdError;
use std::fmt;

use bytes::{BufMut, BytesMut};
use serde::{Deserialize, Serialize};

use crate::value::append::append_with;
use crate::value::{Field, FromValue, IsNull, ParameterType, ToValue};
use crate::wire::column::Column;

/// A value of the program that is JSON in the database.
///
/// ```
/// use cenote_mysql::value::{Json, ToValue};
///
/// #[derive(serde::Serialize, serde::Deserialize)]
/// struct Address {
///     street: String,
/// }
///
/// let parameter: &dyn ToValue = &Json(Address { street: "Long Road".to_owned() });
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Json<T>(pub T);

impl<T: fmt::Debug> fmt::Debug for Json<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// From JSON, or from text, which is what MariaDB keeps it in.
impl<'a, T: Deserialize<'a>> FromValue<'a> for Json<T> {
    fn accepts(column: &Column) -> bool {
        column.type_().is_text()
    }

    fn from_value(_: &Column, field: Field<'a>) -> Result<Json<T>, Box<dyn StdError + Send + Sync>> {
        Ok(Json(serde_json::from_slice(field.bytes())?))
    }
}

impl<T: Serialize> ToValue for Json<T> {
    fn null_type() -> ParameterType {
        ParameterType::Text
    }

    fn parameter_type(&self) -> ParameterType {
        ParameterType::Text
    }

    fn to_value(&self, out: &mut BytesMut) -> Result<IsNull, Box<dyn StdError + Send + Sync>> {
        append_with(out, |out| serde_json::to_writer(out.writer(), &self.0))?;
        Ok(IsNull::No)
    }
}

impl<'a> FromValue<'a> for serde_json::Value {
    fn accepts(column: &Column) -> bool {
        Json::<serde_json::Value>::accepts(column)
    }

    fn from_value(column: &Column, field: Field<'a>) -> Result<serde_json::Value, Box<dyn StdError + Send + Sync>> {
        Json::from_value(column, field).map(|Json(value)| value)
    }
}

impl ToValue for serde_json::Value {
    fn null_type() -> ParameterType {
        ParameterType::Text
    }

    fn parameter_type(&self) -> ParameterType {
        ParameterType::Text
    }

    fn to_value(&self, out: &mut BytesMut) -> Result<IsNull, Box<dyn StdError + Send + Sync>> {
        Json(self).to_value(out)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::value::Format;
    use crate::value::tests::{column, read, sent};

    #[test]
    fn json_is_read_and_sent_as_text() {
        let json_column = column(245, 0x80, 63, 0);
        let value = json!({"a": [1, null, "ü"]});
        assert_eq!(read::<serde_json::Value>(&json_column, br#"{"a": [1, null, "\u00fc"]}"#), value);
        assert_eq!(sent(&value), sent(&value.to_string()));
        assert_eq!(read::<Json<Vec<&str>>>(&json_column, br#"["a", "b"]"#), Json(vec!["a", "b"]));
        let long = json!("x".repeat(70_000));
        assert_eq!(sent(&long), sent(&long.to_string()));
        assert!(serde_json::Value::accepts(&column(252, 0x10, 255, 0)), "MariaDB's JSON is text");
        assert!(!serde_json::Value::accepts(&column(252, 0x80, 63, 0)), "bytes are none");
        for bytes in [&b"{"[..], b"\xFF", b""] {
            assert!(serde_json::Value::from_value(&json_column, Field::new(bytes, Format::Text)).is_err());
        }
    }
}
