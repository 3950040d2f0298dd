//! Packets of a MySQL server as bytes, right and wrong. Nothing is checked: a test may want the impossible.
//!
//! A payload becomes a packet by [`packet`] or, as one of several, by [`packets`]. Payloads of 16 MiB and more are not
//! split here.
//!
//! Source: client/server protocol, "MySQL Packets", "Connection Phase", "Command Phase".

/// Capabilities: all of the first 25, up to `CLIENT_DEPRECATE_EOF`, but for compression and TLS. With later ones an answer
/// or a command would look different.
pub const CAPABILITIES: u32 = 0x01FF_FFFF & !(COMPRESS | SSL);

/// `CLIENT_COMPRESS`.
pub const COMPRESS: u32 = 1 << 5;

/// `CLIENT_SSL`.
pub const SSL: u32 = 1 << 11;

/// `CLIENT_PLUGIN_AUTH_LENENC_CLIENT_DATA`.
pub const LENENC_AUTH: u32 = 1 << 21;

/// `CLIENT_SECURE_CONNECTION`.
pub const SECURE_CONNECTION: u32 = 1 << 15;

/// `CLIENT_CONNECT_WITH_DB`.
pub const CONNECT_WITH_DB: u32 = 1 << 3;

/// `CLIENT_PLUGIN_AUTH`.
pub const PLUGIN_AUTH: u32 = 1 << 19;

/// `CLIENT_CONNECT_ATTRS`.
pub const CONNECT_ATTRS: u32 = 1 << 20;

/// `SERVER_STATUS_AUTOCOMMIT`.
pub const AUTOCOMMIT: u16 = 0x0002;

/// `SERVER_STATUS_IN_TRANS`.
pub const IN_TRANSACTION: u16 = 0x0001;

/// `SERVER_MORE_RESULTS_EXISTS`.
pub const MORE_RESULTS: u16 = 0x0008;

/// `MYSQL_TYPE_LONG`, an `int`.
pub const LONG: u8 = 0x03;

/// `MYSQL_TYPE_VAR_STRING`.
pub const VAR_STRING: u8 = 0xFD;

/// The collations `utf8mb4_general_ci` and `binary`.
const UTF8MB4: u16 = 45;
const BINARY: u16 = 63;

/// A packet with this number in its sequence.
pub fn packet(number: u8, payload: &[u8]) -> Vec<u8> {
    lying(number, payload.len() as u32, payload)
}

/// The packet that follows one with this number.
pub fn next(number: u8, payload: &[u8]) -> Vec<u8> {
    packet(number.wrapping_add(1), payload)
}

/// A packet that claims any length.
pub fn lying(number: u8, length: u32, payload: &[u8]) -> Vec<u8> {
    let [a, b, c, _] = length.to_le_bytes();
    [&[a, b, c, number], payload].concat()
}

/// One answer: packets whose numbers follow each other, from 1 as an answer's do.
pub fn packets(payloads: &[Vec<u8>]) -> Vec<u8> {
    let mut number = 0_u8;
    let mut bytes = Vec::new();
    for payload in payloads {
        number = number.wrapping_add(1);
        bytes.extend_from_slice(&packet(number, payload));
    }
    bytes
}

/// What a server says first.
#[derive(Clone, Debug)]
pub struct Greeting {
    /// What it calls itself.
    pub version: String,
    /// The connection's number.
    pub connection_id: u32,
    /// What the password is mixed with.
    pub nonce: [u8; 20],
    /// What it can.
    pub capabilities: u32,
    /// How it would like to be convinced.
    pub plugin: String,
    /// MariaDB's further capabilities; they are looked at where `CLIENT_LONG_PASSWORD` is not set.
    pub mariadb_capabilities: u32,
}

impl Default for Greeting {
    fn default() -> Greeting {
        Greeting {
            version: "8.4.0".to_owned(),
            connection_id: 4711,
            nonce: *b"abcdefghijklmnopqrst",
            capabilities: CAPABILITIES,
            plugin: "caching_sha2_password".to_owned(),
            mariadb_capabilities: 0,
        }
    }
}

impl Greeting {
    /// Its payload; its packet has the number 0.
    pub fn payload(&self) -> Vec<u8> {
        let [low, middle, high, highest] = self.capabilities.to_le_bytes();
        let (front, back) = self.nonce.split_at(8);
        let mut payload = vec![10];
        payload.extend_from_slice(self.version.as_bytes());
        payload.push(0);
        payload.extend_from_slice(&self.connection_id.to_le_bytes());
        payload.extend_from_slice(front);
        payload.extend_from_slice(&[0, low, middle, UTF8MB4 as u8]);
        payload.extend_from_slice(&AUTOCOMMIT.to_le_bytes());
        payload.extend_from_slice(&[high, highest, self.nonce.len() as u8 + 1]);
        payload.extend_from_slice(&[0; 6]);
        payload.extend_from_slice(&self.mariadb_capabilities.to_le_bytes());
        payload.extend_from_slice(back);
        payload.push(0);
        payload.extend_from_slice(self.plugin.as_bytes());
        payload.push(0);
        payload
    }
}

/// `AuthSwitchRequest`.
pub fn auth_switch(plugin: &str, nonce: &[u8; 20]) -> Vec<u8> {
    [b"\xFE", plugin.as_bytes(), b"\0", nonce, b"\0"].concat()
}

/// `AuthMoreData`.
pub fn auth_more(data: &[u8]) -> Vec<u8> {
    [b"\x01", data].concat()
}

/// What caching_sha2_password says when it remembers the password.
pub fn fast_auth_ok() -> Vec<u8> {
    auth_more(&[3])
}

/// What it says when it wants the password itself.
pub fn full_auth() -> Vec<u8> {
    auth_more(&[4])
}

/// `OK` of a statement that changed so many rows, in autocommit.
pub fn ok(affected_rows: u64, last_insert_id: u64) -> Vec<u8> {
    ok_with(0x00, affected_rows, last_insert_id, AUTOCOMMIT, b"")
}

/// `OK` in the place of `EOF`, behind the rows of a result.
pub fn end() -> Vec<u8> {
    ok_with(0xFE, 0, 0, AUTOCOMMIT, b"")
}

/// Either, with this status, without warnings, and with anything behind them (info, session state).
pub fn ok_with(header: u8, affected_rows: u64, last_insert_id: u64, status: u16, rest: &[u8]) -> Vec<u8> {
    let mut payload = vec![header];
    payload.extend_from_slice(&lenenc(affected_rows));
    payload.extend_from_slice(&lenenc(last_insert_id));
    payload.extend_from_slice(&status.to_le_bytes());
    payload.extend_from_slice(&[0, 0]);
    payload.extend_from_slice(rest);
    payload
}

/// `ERR` with this code, SQLSTATE and text.
pub fn error(code: u16, sql_state: &str, text: &str) -> Vec<u8> {
    error_without_state(code, &format!("#{sql_state}{text}"))
}

/// `ERR` as it comes in the place of a greeting.
pub fn error_without_state(code: u16, text: &str) -> Vec<u8> {
    [&[0xFF], &code.to_le_bytes()[..], text.as_bytes()].concat()
}

/// What `LOAD DATA LOCAL` is answered with, and what a rogue server says to anything: a demand for a file.
pub fn local_infile(path: &str) -> Vec<u8> {
    [b"\xFB", path.as_bytes()].concat()
}

/// The number of a result's columns.
pub fn column_count(count: usize) -> Vec<u8> {
    lenenc(count as u64)
}

/// The definition of a column: a number, or a text in `utf8mb4`.
pub fn column(name: &str, kind: u8) -> Vec<u8> {
    let character_set = if kind == VAR_STRING { UTF8MB4 } else { BINARY };
    let mut payload = Vec::new();
    for text in ["def", "", "", "", name, ""] {
        payload.extend_from_slice(&lenenc_bytes(text.as_bytes()));
    }
    payload.push(0x0C);
    payload.extend_from_slice(&character_set.to_le_bytes());
    payload.extend_from_slice(&11_u32.to_le_bytes());
    payload.push(kind);
    // No flags, no decimals, a filler.
    payload.extend_from_slice(&[0; 5]);
    payload
}

/// A row of a text result.
pub fn text_row(values: &[Option<&[u8]>]) -> Vec<u8> {
    values.iter().flat_map(|value| value.map_or_else(|| vec![0xFB], lenenc_bytes)).collect()
}

/// A row of a binary result; the values are already what they are on the wire.
pub fn binary_row(values: &[Option<&[u8]>]) -> Vec<u8> {
    // Two bits of the map of NULLs are reserved.
    let mut nulls = vec![0_u8; (values.len() + 2).div_ceil(8)];
    for (index, _) in values.iter().enumerate().filter(|(_, value)| value.is_none()) {
        nulls[(index + 2) / 8] |= 1 << ((index + 2) % 8);
    }
    let values = values.iter().copied().flatten().flatten().copied();
    [0].into_iter().chain(nulls).chain(values).collect()
}

/// What a PREPARE is answered with: first this, then the parameters' definitions, then the columns'.
pub fn prepare_ok(statement: u32, columns: u16, parameters: u16) -> Vec<u8> {
    let mut payload = vec![0x00];
    payload.extend_from_slice(&statement.to_le_bytes());
    payload.extend_from_slice(&columns.to_le_bytes());
    payload.extend_from_slice(&parameters.to_le_bytes());
    // A filler and no warnings.
    payload.extend_from_slice(&[0; 3]);
    payload
}

/// A number of variable length.
pub fn lenenc(number: u64) -> Vec<u8> {
    let bytes = number.to_le_bytes();
    match number {
        0..=0xFA => vec![bytes[0]],
        0xFB..=0xFFFF => [&[0xFC], &bytes[..2]].concat(),
        0x1_0000..=0xFF_FFFF => [&[0xFD], &bytes[..3]].concat(),
        _ => [&[0xFE], &bytes[..]].concat(),
    }
}

/// Bytes behind their length.
pub fn lenenc_bytes(bytes: &[u8]) -> Vec<u8> {
    [lenenc(bytes.len() as u64), bytes.to_vec()].concat()
}
