//! Percent-encoding of paths and query strings, read strictly.
//!
//! A `%` that is not followed by two hexadecimal digits, and bytes that are not UTF-8 once decoded, are an
//! error and become a 400, where a lenient reader would pass something else on than the client meant.

use std::borrow::Cow;
use std::fmt;

use crate::{Response, StatusCode};

/// A path parameter or a query value that is not valid percent-encoded UTF-8. It answers 400.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadEncoding(());

impl fmt::Display for BadEncoding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("invalid percent-encoding")
    }
}

impl std::error::Error for BadEncoding {}

impl From<BadEncoding> for Response {
    fn from(error: BadEncoding) -> Response {
        Response::error(StatusCode::BAD_REQUEST, &error.to_string())
    }
}

/// How a plus sign is read: as itself in a path, as a space in a query (the form encoding of HTML).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Plus {
    Literal,
    Space,
}

/// Decodes `raw`; borrows when there is nothing to decode.
pub(crate) fn decode(raw: &str, plus: Plus) -> Result<Cow<'_, str>, BadEncoding> {
    let encoded = |byte: u8| byte == b'%' || (byte == b'+' && plus == Plus::Space);
    let Some(first) = raw.bytes().position(encoded) else {
        return Ok(Cow::Borrowed(raw));
    };
    let (plain, rest) = raw.as_bytes().split_at(first);
    let mut decoded = Vec::with_capacity(raw.len());
    decoded.extend_from_slice(plain);
    let mut bytes = rest.iter().copied();
    while let Some(byte) = bytes.next() {
        match byte {
            b'%' => {
                let high = bytes.next().and_then(hexadecimal).ok_or(BadEncoding(()))?;
                let low = bytes.next().and_then(hexadecimal).ok_or(BadEncoding(()))?;
                decoded.push(high << 4 | low);
            }
            b'+' if plus == Plus::Space => decoded.push(b' '),
            _ => decoded.push(byte),
        }
    }
    String::from_utf8(decoded).map(Cow::Owned).map_err(|_| BadEncoding(()))
}

/// The value of `name` in the query string `query`: the first one, decoded. Names are compared decoded.
pub(crate) fn query_value<'q>(query: &'q str, name: &str) -> Result<Option<Cow<'q, str>>, BadEncoding> {
    for pair in query.split('&') {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        // A name that cannot be decoded is not the one looked for; only what is asked for can be wrong.
        if key == name || decode(key, Plus::Space).is_ok_and(|key| key == name) {
            return decode(value, Plus::Space).map(Some);
        }
    }
    Ok(None)
}

fn hexadecimal(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decodes_what_is_encoded_and_borrows_the_rest() {
        let plain = decode("item+1", Plus::Literal).unwrap();
        assert!(matches!(plain, Cow::Borrowed("item+1")), "nothing to decode: {plain:?}");
        assert_eq!(decode("a%20b%2Fc", Plus::Literal).unwrap(), "a b/c");
        assert_eq!(decode("a+b%2bc", Plus::Space).unwrap(), "a b+c");
        assert_eq!(decode("%C3%a9t%C3%A9", Plus::Literal).unwrap(), "été");
        assert_eq!(decode("", Plus::Space).unwrap(), "");
    }

    #[test]
    fn refuses_what_is_not_an_encoding() {
        for raw in ["%", "a%", "a%2", "%g0", "%0g", "%%20", "%ff", "%C3", "%C3%28"] {
            assert!(decode(raw, Plus::Literal).is_err(), "{raw:?} was decoded");
        }
    }

    #[test]
    fn finds_query_values_by_name() {
        let value = |query, name| query_value(query, name).map(|value| value.map(Cow::into_owned));
        assert_eq!(value("n=20", "n"), Ok(Some("20".into())));
        assert_eq!(value("a=1&n=2&n=3", "n"), Ok(Some("2".into())), "the first one counts");
        assert_eq!(value("a=1", "n"), Ok(None));
        assert_eq!(value("", "n"), Ok(None));
        assert_eq!(value("n", "n"), Ok(Some(String::new())));
        assert_eq!(value("n=a=b", "n"), Ok(Some("a=b".into())));
        assert_eq!(value("first+name=x%20y+z", "first name"), Ok(Some("x y z".into())));
        assert_eq!(value("%zz=1&n=2", "n"), Ok(Some("2".into())), "a broken stranger is passed over");
        assert_eq!(value("n=%zz", "n"), Err(BadEncoding(())));
    }
}
