//! Messages of a Postgres server as bytes, right and wrong. Nothing is checked: a test may want the impossible.
//!
//! Source: protocol chapter "Message Formats".

/// A message of this type: its length is that of the body.
pub fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    lying(tag, body.len() as u32 + 4, body)
}

/// A message that claims any length (which counts itself, but not the type byte).
pub fn lying(tag: u8, length: u32, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![tag];
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.extend_from_slice(body);
    bytes
}

/// `AuthenticationOk`.
pub fn authentication_ok() -> Vec<u8> {
    message(b'R', &[0; 4])
}

/// `ParameterStatus`.
pub fn parameter_status(name: &str, value: &str) -> Vec<u8> {
    message(b'S', &[name.as_bytes(), b"\0", value.as_bytes(), b"\0"].concat())
}

/// `BackendKeyData`.
pub fn backend_key_data(process_id: u32, key: &[u8]) -> Vec<u8> {
    message(b'K', &[&process_id.to_be_bytes(), key].concat())
}

/// `ReadyForQuery` with this state of the session: `b'I'`, `b'T'`, `b'E'`, or one that there is not.
pub fn ready(status: u8) -> Vec<u8> {
    message(b'Z', &[status])
}

/// `ParseComplete`.
pub fn parse_complete() -> Vec<u8> {
    message(b'1', b"")
}

/// `BindComplete`.
pub fn bind_complete() -> Vec<u8> {
    message(b'2', b"")
}

/// `CloseComplete`.
pub fn close_complete() -> Vec<u8> {
    message(b'3', b"")
}

/// `ParameterDescription`.
pub fn parameter_description(types: &[u32]) -> Vec<u8> {
    let mut body = (types.len() as u16).to_be_bytes().to_vec();
    types.iter().for_each(|oid| body.extend_from_slice(&oid.to_be_bytes()));
    message(b't', &body)
}

/// `RowDescription` of columns with these names and types, in the binary format.
pub fn row_description(columns: &[(&str, u32)]) -> Vec<u8> {
    let mut body = (columns.len() as u16).to_be_bytes().to_vec();
    for (name, oid) in columns {
        body.extend_from_slice(name.as_bytes());
        // No table, no number in it; then the type, its size, its modifier and the format.
        body.extend_from_slice(&[0; 1 + 4 + 2]);
        body.extend_from_slice(&oid.to_be_bytes());
        body.extend_from_slice(&(-1_i16).to_be_bytes());
        body.extend_from_slice(&(-1_i32).to_be_bytes());
        body.extend_from_slice(&1_u16.to_be_bytes());
    }
    message(b'T', &body)
}

/// `DataRow`.
pub fn data_row(values: &[Option<&[u8]>]) -> Vec<u8> {
    let mut body = (values.len() as u16).to_be_bytes().to_vec();
    for value in values {
        let length = value.map_or(-1, |value| value.len() as i32);
        body.extend_from_slice(&length.to_be_bytes());
        body.extend_from_slice(value.unwrap_or_default());
    }
    message(b'D', &body)
}

/// `CommandComplete`.
pub fn command_complete(tag: &str) -> Vec<u8> {
    message(b'C', &[tag.as_bytes(), b"\0"].concat())
}

/// `ErrorResponse` with this severity (`ERROR`, `FATAL`), SQLSTATE and text.
pub fn error(severity: &str, code: &str, text: &str) -> Vec<u8> {
    report(b'E', &[(b'S', severity), (b'V', severity), (b'C', code), (b'M', text)])
}

/// `NoticeResponse`.
pub fn notice(text: &str) -> Vec<u8> {
    report(b'N', &[(b'S', "NOTICE"), (b'V', "NOTICE"), (b'C', "00000"), (b'M', text)])
}

/// `ErrorResponse` (`b'E'`) or `NoticeResponse` (`b'N'`) with these fields.
pub fn report(tag: u8, fields: &[(u8, &str)]) -> Vec<u8> {
    let mut body = Vec::new();
    for (name, value) in fields {
        body.push(*name);
        body.extend_from_slice(value.as_bytes());
        body.push(0);
    }
    body.push(0);
    message(tag, &body)
}

/// `NotificationResponse`.
pub fn notification(channel: &str, payload: &str) -> Vec<u8> {
    message(b'A', &[&4711_u32.to_be_bytes(), channel.as_bytes(), b"\0", payload.as_bytes(), b"\0"].concat())
}
