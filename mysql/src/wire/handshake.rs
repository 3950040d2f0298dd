//! What is said before the first command: the server's greeting, the client's answer, and the switch to another
//! authentication plugin.
//!
//! Source: client/server protocol, "Connection Phase Packets"; MariaDB, "Connecting".

use super::cursor::{Cursor, append_lenenc_bytes};
use super::status::{Capabilities, EOF_HEADER, StatusFlags};

/// The only version there is.
const PROTOCOL_VERSION: u8 = 10;

/// The bytes by which the server's challenge differs each time.
pub(crate) const NONCE_BYTES: usize = 20;

/// What the greeting carries of the nonce before the capabilities.
const NONCE_FIRST_BYTES: usize = 8;

/// The rest of the nonce has at least this many bytes, its NUL included.
const NONCE_REST_BYTES_MIN: usize = 13;

/// `utf8mb4_general_ci`, which every server knows that knows utf8mb4. The default collation of each is asked for after
/// the log-in: some have numbers that do not fit into this byte.
const COLLATION: u8 = 45;

/// What the client says it could take in one packet: as much as a server ever sends. The servers do not go by it.
const PACKET_BYTES_MAX: u32 = 1 << 30;

/// What the server says of itself, unasked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Greeting<'a> {
    pub(crate) server_version: &'a [u8],
    pub(crate) connection_id: u32,
    pub(crate) capabilities: Capabilities,
    /// Of a session that does not exist yet: what the server has set for everybody.
    pub(crate) status: StatusFlags,
    pub(crate) nonce: Vec<u8>,
    /// Empty if the server knows none but the oldest.
    pub(crate) plugin: &'a [u8],
}

impl<'a> Greeting<'a> {
    /// Reads a greeting; `None` if it is none, or one of a server from before 2004.
    pub(crate) fn parse(payload: &'a [u8]) -> Option<Greeting<'a>> {
        let mut cursor = Cursor::new(payload);
        if cursor.u8()? != PROTOCOL_VERSION {
            return None;
        }
        let server_version = cursor.nul_bytes()?;
        let connection_id = cursor.u32()?;
        let mut nonce = cursor.bytes(NONCE_FIRST_BYTES)?.to_vec();
        cursor.u8()?;
        let low = cursor.u16()?;
        let _collation = cursor.u8()?;
        let status = StatusFlags::from_bits(cursor.u16()?);
        let high = cursor.u16()?;
        let nonce_bytes = usize::from(cursor.u8()?);
        let _reserved = cursor.bytes(6)?;
        let extended = cursor.u32()?;
        let mut bits = u64::from(low) | u64::from(high) << 16;
        if !Capabilities::from_bits(bits).contains(Capabilities::MYSQL) {
            bits |= u64::from(extended) << 32;
        }
        let rest_bytes = nonce_bytes.saturating_sub(NONCE_FIRST_BYTES).max(NONCE_REST_BYTES_MIN);
        let rest = cursor.bytes(rest_bytes)?;
        nonce.extend_from_slice(rest.strip_suffix(b"\0").unwrap_or(rest));
        let capabilities = Capabilities::from_bits(bits);
        let plugin = match capabilities.contains(Capabilities::PLUGIN_AUTH) {
            // Some servers have left the NUL out.
            true => cursor.nul_bytes().unwrap_or_else(|| cursor.rest()),
            false => b"",
        };
        Some(Greeting { server_version, connection_id, capabilities, status, nonce, plugin })
    }
}

/// The client's answer to the greeting.
#[derive(Clone, Debug)]
pub(crate) struct Response<'a> {
    pub(crate) capabilities: Capabilities,
    pub(crate) user: &'a str,
    pub(crate) auth_answer: &'a [u8],
    pub(crate) database: Option<&'a str>,
    pub(crate) plugin: &'a str,
    pub(crate) attributes: &'a [(&'a str, &'a str)],
}

impl Response<'_> {
    /// Appends the answer. Texts must be without NUL; what is left out of the capabilities is left out here.
    pub(crate) fn append(&self, out: &mut Vec<u8>) {
        append_beginning(self.capabilities, out);
        append_nul_text(self.user.as_bytes(), out);
        match self.capabilities.contains(Capabilities::PLUGIN_AUTH_LENENC) {
            true => append_lenenc_bytes(self.auth_answer, out),
            false => {
                // An answer of more bytes than this is never the first one.
                out.push(u8::try_from(self.auth_answer.len()).unwrap_or_default());
                out.extend_from_slice(self.auth_answer);
            }
        }
        if self.capabilities.contains(Capabilities::CONNECT_WITH_DATABASE) {
            append_nul_text(self.database.unwrap_or_default().as_bytes(), out);
        }
        if self.capabilities.contains(Capabilities::PLUGIN_AUTH) {
            append_nul_text(self.plugin.as_bytes(), out);
        }
        if self.capabilities.contains(Capabilities::CONNECTION_ATTRIBUTES) {
            let mut attributes = Vec::new();
            for (name, value) in self.attributes {
                append_lenenc_bytes(name.as_bytes(), &mut attributes);
                append_lenenc_bytes(value.as_bytes(), &mut attributes);
            }
            append_lenenc_bytes(&attributes, out);
        }
    }
}

/// Appends the wish for TLS: the answer's beginning alone. The capabilities must have [`Capabilities::TLS`].
pub(crate) fn append_tls_request(capabilities: Capabilities, out: &mut Vec<u8>) {
    append_beginning(capabilities, out);
}

fn append_beginning(capabilities: Capabilities, out: &mut Vec<u8>) {
    let [low @ .., e, f, g, h] = capabilities.bits().to_le_bytes();
    out.extend_from_slice(&low);
    out.extend_from_slice(&PACKET_BYTES_MAX.to_le_bytes());
    out.push(COLLATION);
    out.extend_from_slice(&[0; 19]);
    // Reserved, and all zeroes where the server is not MariaDB.
    out.extend_from_slice(&[e, f, g, h]);
}

fn append_nul_text(text: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(text);
    out.push(0);
}

/// The server wants the user authenticated by another plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AuthSwitch<'a> {
    pub(crate) plugin: &'a [u8],
    pub(crate) data: &'a [u8],
}

impl<'a> AuthSwitch<'a> {
    /// Reads the request; `None` if it is none. Without a name it is the one that servers sent before there were names.
    pub(crate) fn parse(payload: &'a [u8]) -> Option<AuthSwitch<'a>> {
        let mut cursor = Cursor::new(payload);
        if cursor.u8()? != EOF_HEADER {
            return None;
        }
        if cursor.is_empty() {
            return Some(AuthSwitch { plugin: b"mysql_old_password", data: b"" });
        }
        let plugin = cursor.nul_bytes()?;
        let data = cursor.rest();
        Some(AuthSwitch { plugin, data: data.strip_suffix(b"\0").unwrap_or(data) })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn greeting(version: &str, capabilities: u32, extended: u32, plugin: &[u8]) -> Vec<u8> {
        let [a, b, c, d] = capabilities.to_le_bytes();
        [
            &[10][..],
            version.as_bytes(),
            b"\0\x2a\0\0\0",
            b"12345678\0",
            &[a, b, 255, 2, 0, c, d, 21],
            &[0; 6],
            &extended.to_le_bytes(),
            b"901234567890\0",
            plugin,
        ]
        .concat()
    }

    #[test]
    fn greetings_of_both_servers() {
        let payload = greeting("9.7.0", 0xdfff_ffff, 7, b"caching_sha2_password\0");
        let mysql = Greeting::parse(&payload).unwrap();
        assert_eq!(mysql.server_version, b"9.7.0");
        assert_eq!(mysql.connection_id, 42);
        assert_eq!(mysql.capabilities.bits(), 0xdfff_ffff, "the reserved bytes are MariaDB's");
        assert_eq!(mysql.nonce, b"12345678901234567890");
        assert_eq!(mysql.plugin, b"caching_sha2_password");
        assert_eq!(mysql.status, StatusFlags::AUTOCOMMIT);

        let payload = greeting("5.5.5-10.11.6-MariaDB", 0x81bf_f7fe, 0x1d, b"mysql_native_password");
        let mariadb = Greeting::parse(&payload).unwrap();
        assert!(mariadb.capabilities.contains(Capabilities::MARIADB_CACHE_METADATA));
        assert_eq!(mariadb.plugin, b"mysql_native_password", "without its NUL");
    }

    #[test]
    fn a_greeting_cut_short_is_none() {
        let payload = greeting("9.7.0", 0xdfff_ffff, 0, b"");
        for cut in 0..payload.len() {
            assert_eq!(Greeting::parse(&payload[..cut]), None, "cut to {cut}");
        }
        assert!(Greeting::parse(&payload).is_some());
        let other_version = [&[9][..], &payload[1..]].concat();
        assert_eq!(Greeting::parse(&other_version), None);
    }

    #[test]
    fn an_answer_byte_by_byte() {
        let capabilities = Capabilities::PROTOCOL_41
            | Capabilities::SECURE_CONNECTION
            | Capabilities::PLUGIN_AUTH
            | Capabilities::PLUGIN_AUTH_LENENC
            | Capabilities::CONNECT_WITH_DATABASE
            | Capabilities::CONNECTION_ATTRIBUTES
            | Capabilities::MARIADB_STATEMENT_BULK_OPERATIONS;
        let mut out = Vec::new();
        let response = Response {
            capabilities,
            user: "app",
            auth_answer: b"abc",
            database: Some("shop"),
            plugin: "mysql_native_password",
            attributes: &[("a", "b")],
        };
        response.append(&mut out);
        let expected = [
            &b"\x08\x82\x38\0\0\0\0\x40\x2d"[..],
            &[0; 19],
            b"\x04\0\0\0app\0\x03abcshop\0mysql_native_password\0\x04\x01a\x01b",
        ]
        .concat();
        assert_eq!(out, expected);

        let mut out = Vec::new();
        let bare = Response { capabilities: Capabilities::PROTOCOL_41, ..response };
        bare.append(&mut out);
        assert_eq!(&out[32..], b"app\0\x03abc");

        let mut out = Vec::new();
        append_tls_request(Capabilities::TLS | Capabilities::PROTOCOL_41, &mut out);
        assert_eq!((out.len(), &out[..4]), (32, &b"\0\x0a\0\0"[..]));
    }

    #[test]
    fn switches_to_another_plugin() {
        for (payload, plugin, data) in [
            (&b"\xfemysql_native_password\0nonce\0"[..], "mysql_native_password", &b"nonce"[..]),
            (b"\xfemysql_clear_password\0", "mysql_clear_password", b""),
            (b"\xfe", "mysql_old_password", b""),
        ] {
            let expected = AuthSwitch { plugin: plugin.as_bytes(), data };
            assert_eq!(AuthSwitch::parse(payload), Some(expected), "{payload:?}");
        }
        assert_eq!(AuthSwitch::parse(b"\xfename"), None);
        assert_eq!(AuthSwitch::parse(b""), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..120)) {
            let payload = [&[PROTOCOL_VERSION][..], &bytes].concat();
            for payload in [&payload, &bytes] {
                if let Some(greeting) = Greeting::parse(payload) {
                    prop_assert!(greeting.nonce.len() <= payload.len());
                }
                let _ = AuthSwitch::parse(payload);
            }
        }
    }
}
