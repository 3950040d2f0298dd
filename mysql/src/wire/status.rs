//! What ends an answer, and what both sides have agreed on: status flags, OK and EOF packets, capabilities.
//!
//! Since `DEPRECATE_EOF` rows are ended by an OK packet under EOF's first byte; without it by an EOF packet. Both are
//! read into [`OkPacket`], an EOF with nothing affected.
//!
//! Source: client/server protocol, "OK_Packet", "EOF_Packet", "Capabilities Flags", "Status Flags"; MariaDB's "OK_Packet"
//! and its extended capabilities.

use std::fmt;
use std::ops::BitOr;

use super::cursor::Cursor;
use super::packet::PACKET_PAYLOAD_BYTES_MAX;

/// The first byte of an OK packet that answers a statement without rows.
pub(crate) const OK_HEADER: u8 = 0x00;

/// The first byte of what ends rows; also of a row whose first field needs eight bytes for its length: see
/// [`ends_rows`].
pub(crate) const EOF_HEADER: u8 = 0xFE;

/// The first byte of an error.
pub(crate) const ERROR_HEADER: u8 = 0xFF;

/// The first byte by which a server asks for a file of the client's.
pub(crate) const LOCAL_INFILE_HEADER: u8 = 0xFB;

/// An EOF packet has five bytes; what is at least this long begins with the length of a field.
const EOF_BYTES_END: usize = 9;

macro_rules! flags {
    ($type:ident: $($(#[$doc:meta])* $name:ident = $bits:expr;)*) => {
        impl $type {
            $($(#[$doc])* pub(crate) const $name: $type = $type($bits);)*

            const NAMED: &[($type, &str)] = &[$(($type::$name, stringify!($name))),*];

            /// Whether all of `flags` are set.
            #[inline]
            pub(crate) const fn contains(self, flags: $type) -> bool {
                self.0 & flags.0 == flags.0
            }
        }

        impl BitOr for $type {
            type Output = $type;

            fn bitor(self, other: $type) -> $type {
                $type(self.0 | other.0)
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let mut names = f.debug_set();
                for (_, name) in $type::NAMED.iter().filter(|(flag, _)| self.contains(*flag)) {
                    names.entry(&format_args!("{name}"));
                }
                names.finish()
            }
        }
    };
}

/// How the session stands after an answer.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct StatusFlags(u16);

flags! { StatusFlags:
    /// A transaction is open.
    IN_TRANSACTION = 0x0001;
    AUTOCOMMIT = 0x0002;
    /// Another result of the same command follows.
    MORE_RESULTS_EXISTS = 0x0008;
    CURSOR_EXISTS = 0x0040;
    LAST_ROW_SENT = 0x0080;
    DATABASE_DROPPED = 0x0100;
    /// `\` is a letter like any other in SQL text.
    NO_BACKSLASH_ESCAPES = 0x0200;
    /// A statement was prepared anew, and its columns are others in number now.
    METADATA_CHANGED = 0x0400;
    /// The row that follows holds a procedure's OUT parameters.
    PS_OUT_PARAMETERS = 0x1000;
    IN_READ_ONLY_TRANSACTION = 0x2000;
    /// The OK packet tells what has changed of the session.
    SESSION_STATE_CHANGED = 0x4000;
}

impl StatusFlags {
    #[inline]
    pub(crate) const fn from_bits(bits: u16) -> StatusFlags {
        StatusFlags(bits)
    }

    /// Whether a stranger's statement may follow: no transaction is open, none would open by itself, and the session still
    /// has its database.
    #[inline]
    pub(crate) const fn is_settled(self) -> bool {
        self.contains(StatusFlags::AUTOCOMMIT)
            && !self.contains(StatusFlags::IN_TRANSACTION)
            && !self.contains(StatusFlags::DATABASE_DROPPED)
    }
}

/// What a side can do, or what both have agreed on. MariaDB's extended flags are in the high half.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Capabilities(u64);

flags! { Capabilities:
    /// Of a server: it is MySQL and not MariaDB, which leaves it clear and has extended flags instead.
    MYSQL = 1;
    /// Affected rows are those that matched, not those that were changed by it.
    FOUND_ROWS = 1 << 1;
    LONG_FLAG = 1 << 2;
    CONNECT_WITH_DATABASE = 1 << 3;
    COMPRESS = 1 << 5;
    /// Never announced: the server could ask for any file.
    LOCAL_FILES = 1 << 7;
    PROTOCOL_41 = 1 << 9;
    TLS = 1 << 11;
    TRANSACTIONS = 1 << 13;
    /// Authentication data of 20 bytes.
    SECURE_CONNECTION = 1 << 15;
    /// Never announced: a `;` in SQL text could begin a second statement.
    MULTI_STATEMENTS = 1 << 16;
    MULTI_RESULTS = 1 << 17;
    PREPARED_MULTI_RESULTS = 1 << 18;
    PLUGIN_AUTH = 1 << 19;
    CONNECTION_ATTRIBUTES = 1 << 20;
    /// Authentication data of more than 250 bytes.
    PLUGIN_AUTH_LENENC = 1 << 21;
    SESSION_TRACK = 1 << 23;
    DEPRECATE_EOF = 1 << 24;
    OPTIONAL_RESULTSET_METADATA = 1 << 25;
    QUERY_ATTRIBUTES = 1 << 27;
    /// MariaDB: progress reports as error packets with code 0xFFFF.
    MARIADB_PROGRESS = 1 << 32;
    /// MariaDB: bulk execution, and the statement id -1 for the statement prepared last.
    MARIADB_STATEMENT_BULK_OPERATIONS = 1 << 34;
    MARIADB_EXTENDED_METADATA = 1 << 35;
    MARIADB_CACHE_METADATA = 1 << 36;
}

impl Capabilities {
    #[inline]
    pub(crate) const fn from_bits(bits: u64) -> Capabilities {
        Capabilities(bits)
    }

    pub(crate) const fn bits(self) -> u64 {
        self.0
    }

    /// Those that are set on both sides.
    pub(crate) const fn both(self, other: Capabilities) -> Capabilities {
        Capabilities(self.0 & other.0)
    }
}

/// Whether a payload that begins with `first_byte` and is `payload_bytes` long in all its packets ends a result's rows.
///
/// A row may begin with the same byte, which is then the length of a field of 2^24 bytes or more.
#[inline]
pub(crate) const fn ends_rows(first_byte: u8, payload_bytes: usize, capabilities: Capabilities) -> bool {
    let bytes_end = match capabilities.contains(Capabilities::DEPRECATE_EOF) {
        true => PACKET_PAYLOAD_BYTES_MAX,
        false => EOF_BYTES_END,
    };
    first_byte == EOF_HEADER && payload_bytes < bytes_end
}

/// What ends an answer that did not fail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OkPacket<'a> {
    pub(crate) affected_rows: u64,
    /// 0: none was made.
    pub(crate) last_insert_id: u64,
    pub(crate) status: StatusFlags,
    pub(crate) warnings: u16,
    /// For people, as in "Rows matched: 1  Changed: 0  Warnings: 0".
    pub(crate) info: &'a [u8],
    state: &'a [u8],
}

impl<'a> OkPacket<'a> {
    /// Reads an OK packet, under either of its first bytes, or without `DEPRECATE_EOF` an EOF packet. `None` if it is
    /// none or cannot be read.
    #[inline]
    pub(crate) fn parse(payload: &'a [u8], capabilities: Capabilities) -> Option<OkPacket<'a>> {
        let mut cursor = Cursor::new(payload);
        match cursor.u8()? {
            OK_HEADER => {}
            EOF_HEADER if capabilities.contains(Capabilities::DEPRECATE_EOF) => {}
            EOF_HEADER => return OkPacket::parse_eof(cursor),
            _ => return None,
        }
        let mut ok = OkPacket {
            affected_rows: cursor.lenenc()?,
            last_insert_id: cursor.lenenc()?,
            status: StatusFlags(cursor.u16()?),
            warnings: cursor.u16()?,
            info: &[],
            state: &[],
        };
        if !cursor.is_empty() {
            ok.parse_words(cursor, capabilities)?;
        }
        Some(ok)
    }

    fn parse_eof(mut cursor: Cursor<'a>) -> Option<OkPacket<'a>> {
        let warnings = cursor.u16()?;
        let status = StatusFlags(cursor.u16()?);
        Some(OkPacket { status, warnings, ..OkPacket::default() })
    }

    /// What follows the numbers.
    fn parse_words(&mut self, mut cursor: Cursor<'a>, capabilities: Capabilities) -> Option<()> {
        if !capabilities.contains(Capabilities::SESSION_TRACK) {
            // Said to fill the packet, and sent with a length all the same by most servers.
            let rest = cursor.rest();
            let with_length = cursor.lenenc_bytes().filter(|_| cursor.is_empty());
            self.info = with_length.unwrap_or(rest);
            return Some(());
        }
        self.info = cursor.lenenc_bytes()?;
        if self.status.contains(StatusFlags::SESSION_STATE_CHANGED) && !cursor.is_empty() {
            self.state = cursor.lenenc_bytes()?;
        }
        Some(())
    }

    /// The session's variables that have changed, each with its new value, as far as they can be read. What else has
    /// changed is passed over.
    pub(crate) fn changed_variables(&self) -> ChangedVariables<'a> {
        ChangedVariables { entries: Cursor::new(self.state), variables: Cursor::new(&[]) }
    }
}

/// The kind of change that is told by [`ChangedVariables`].
const SYSTEM_VARIABLES: u8 = 0;

/// Names and values, from an OK packet.
#[derive(Clone, Debug)]
pub(crate) struct ChangedVariables<'a> {
    entries: Cursor<'a>,
    /// Of the entry that was read last: MariaDB puts several into one.
    variables: Cursor<'a>,
}

impl<'a> Iterator for ChangedVariables<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<(&'a [u8], &'a [u8])> {
        while self.variables.is_empty() {
            let kind = self.entries.u8()?;
            let data = self.entries.lenenc_bytes()?;
            if kind == SYSTEM_VARIABLES {
                self.variables = Cursor::new(data);
            }
        }
        Some((self.variables.lenenc_bytes()?, self.variables.lenenc_bytes()?))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NEW: Capabilities =
        Capabilities::from_bits(Capabilities::DEPRECATE_EOF.bits() | Capabilities::SESSION_TRACK.bits());
    const OLD: Capabilities = Capabilities::from_bits(0);

    #[test]
    fn ok_packets_in_all_their_forms() {
        let bare = OkPacket { affected_rows: 1, last_insert_id: 300, warnings: 5, ..OkPacket::default() };
        let autocommit = OkPacket { status: StatusFlags::AUTOCOMMIT, ..bare };
        let table: [(&[u8], Capabilities, OkPacket<'_>); 6] = [
            (b"\0\x01\xfc\x2c\x01\x02\0\x05\0", NEW, autocommit),
            (b"\xfe\x01\xfc\x2c\x01\x02\0\x05\0", NEW, autocommit),
            (b"\0\x01\xfc\x2c\x01\x02\0\x05\0\x02hi", NEW, OkPacket { info: b"hi", ..autocommit }),
            (b"\0\x01\xfc\x2c\x01\x02\0\x05\0\x02hi", OLD, OkPacket { info: b"hi", ..autocommit }),
            (b"\0\x01\xfc\x2c\x01\x02\0\x05\0hi", OLD, OkPacket { info: b"hi", ..autocommit }),
            (b"\xfe\x05\0\x02\0", OLD, OkPacket { affected_rows: 0, last_insert_id: 0, ..autocommit }),
        ];
        for (payload, capabilities, expected) in table {
            assert_eq!(OkPacket::parse(payload, capabilities), Some(expected), "{payload:?}");
        }
    }

    #[test]
    fn what_is_no_ok_packet() {
        for payload in [
            &b""[..],
            b"\0",
            b"\0\0\0\x02\0\0",
            b"\0\xfb\0\x02\0\0\0",
            b"\0\0\xff\x02\0\0\0",
            b"\xff\0\0\x02\0\0\0",
            b"\x01\0\0\x02\0\0\0",
            b"\0\0\0\x02\0\0\0\x05ab",
            b"\0\0\0\x02\x40\0\0\0\x05ab",
        ] {
            assert_eq!(OkPacket::parse(payload, NEW), None, "{payload:?}");
        }
        assert_eq!(OkPacket::parse(b"\xfe\0\0\x02", OLD), None);
    }

    #[test]
    fn changed_variables_are_told_one_by_one() {
        let variables = b"\x00\x0f\x0aautocommit\x03OFF";
        let database = b"\x01\x05\x04shop";
        let two_variables = b"\x00\x08\x01a\x01b\x01c\x01d";
        let transaction = b"\x05\x09\x08T_______";
        let state = [&variables[..], database, two_variables, transaction].concat();
        let payload = [b"\0\0\0\x02\x40\0\0\0".as_slice(), &[state.len() as u8], &state].concat();
        let ok = OkPacket::parse(&payload, NEW).unwrap();
        assert!(ok.status.contains(StatusFlags::SESSION_STATE_CHANGED));
        let changed: Vec<(&[u8], &[u8])> = ok.changed_variables().collect();
        assert_eq!(changed, [(&b"autocommit"[..], &b"OFF"[..]), (b"a", b"b"), (b"c", b"d")]);
        // A flag without anything behind it: nothing that could be told.
        let bare = OkPacket::parse(b"\0\0\0\x02\x40\0\0", NEW).unwrap();
        assert_eq!(bare.changed_variables().count(), 0);
    }

    #[test]
    fn only_an_idle_session_with_autocommit_is_settled() {
        for (bits, settled) in [(0x2, true), (0x4002, true), (0x3, false), (0x1, false), (0x0, false), (0x2003, false)]
        {
            assert_eq!(StatusFlags::from_bits(bits).is_settled(), settled, "{bits:#x}");
        }
    }

    #[test]
    fn the_end_of_rows_is_no_row() {
        for (first_byte, payload_bytes, capabilities, ends) in [
            (0xFE, 7, NEW, true),
            (0xFE, 300, NEW, true),
            (0xFE, PACKET_PAYLOAD_BYTES_MAX - 1, NEW, true),
            (0xFE, PACKET_PAYLOAD_BYTES_MAX, NEW, false),
            (0xFE, 5, OLD, true),
            (0xFE, 9, OLD, false),
            (0x00, 7, NEW, false),
            (0xFF, 7, NEW, false),
        ] {
            assert_eq!(ends_rows(first_byte, payload_bytes, capabilities), ends, "{first_byte:#x}, {payload_bytes}");
        }
    }

    #[test]
    fn flags_show_their_names() {
        let flags = StatusFlags::IN_TRANSACTION | StatusFlags::MORE_RESULTS_EXISTS;
        assert_eq!(format!("{flags:?}"), "{IN_TRANSACTION, MORE_RESULTS_EXISTS}");
        let capabilities = Capabilities::TLS | Capabilities::LONG_FLAG;
        assert_eq!(capabilities.both(Capabilities::TLS | Capabilities::COMPRESS), Capabilities::TLS);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(payload in prop::collection::vec(any::<u8>(), 0..80), header in any::<bool>()) {
            let mut payload = payload;
            if let (true, Some(first)) = (header, payload.first_mut()) {
                *first = OK_HEADER;
            }
            for capabilities in [NEW, OLD] {
                if let Some(ok) = OkPacket::parse(&payload, capabilities) {
                    prop_assert!(ok.changed_variables().count() <= payload.len());
                }
            }
        }
    }
}
