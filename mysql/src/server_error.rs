//! `ServerError`: what the server says in an ERR packet.
//!
//! Reading never fails: text that is not UTF-8 is made so, a packet cut short gives what it has. What an error means
//! for a log-in or for a retry is for others to decide.
//!
//! Source: client/server protocol, "ERR_Packet".

mod error_code;

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use crate::wire::cursor::Cursor;

pub use error_code::ErrorCode;

/// How much of a message is kept. The server's own end at 512 bytes; an error that is held must not hold unbounded
/// memory.
const MESSAGE_BYTES_MAX: usize = 64 << 10;

/// What an error without an SQLSTATE has: "general error".
const GENERAL_ERROR: [u8; 5] = *b"HY000";

/// An error as the server reported it.
///
/// One pointer wide, and cheap to clone: when a connection ends, the same error goes to many callers.
///
/// `Display` reads as the `mysql` client shows it:
///
/// ```text
/// ERROR 1062 (23000): Duplicate entry '1' for key 'item.PRIMARY'
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct ServerError(Arc<Fields>);

#[derive(Clone, PartialEq, Eq)]
struct Fields {
    code: ErrorCode,
    sql_state: [u8; 5],
    message: Box<str>,
}

impl ServerError {
    /// Reads an ERR packet's payload behind its first byte, 0xFF.
    ///
    /// Takes anything: of a broken payload it keeps what can be read. Without an SQLSTATE, as everything before the
    /// log-in is, it has `HY000`.
    pub(crate) fn parse(body: &[u8]) -> ServerError {
        let mut cursor = Cursor::new(body);
        let code = ErrorCode::from_number(cursor.u16().unwrap_or_default());
        let (sql_state, message) = match cursor.rest() {
            [b'#', a, b, c, d, e, message @ ..] => (sql_state([*a, *b, *c, *d, *e]), message),
            message => (GENERAL_ERROR, message),
        };
        let kept = message.get(..MESSAGE_BYTES_MAX).unwrap_or(message);
        ServerError(Arc::new(Fields { code, sql_state, message: String::from_utf8_lossy(kept).into() }))
    }

    /// The code of the condition: what programs should branch on.
    pub fn code(&self) -> ErrorCode {
        self.0.code
    }

    /// The SQLSTATE: five digits or capital letters. Coarser than the code, which has names of its own for most of what
    /// shares a state.
    pub fn sql_state(&self) -> &str {
        std::str::from_utf8(&self.0.sql_state).unwrap_or("HY000")
    }

    /// The message, in the server's language (`lc_messages`).
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Whether the connection ends with it.
    pub fn ends_session(&self) -> bool {
        self.code().ends_session()
    }
}

/// What is no SQLSTATE is kept as "general error".
fn sql_state(characters: [u8; 5]) -> [u8; 5] {
    let well_formed = |byte: &u8| byte.is_ascii_digit() || byte.is_ascii_uppercase();
    if characters.iter().all(well_formed) { characters } else { GENERAL_ERROR }
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ERROR {} ({}): {}", self.code(), self.sql_state(), self.message())
    }
}

impl fmt::Debug for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerError")
            .field("code", &self.code())
            .field("sql_state", &self.sql_state())
            .field("message", &self.message())
            .finish()
    }
}

impl Error for ServerError {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_error_as_servers_send_it() {
        let error = ServerError::parse(b"\x26\x04#23000Duplicate entry '1' for key 'item.PRIMARY'");
        assert_eq!(error.code(), ErrorCode::DUPLICATE_ENTRY);
        assert_eq!(error.sql_state(), "23000");
        assert_eq!(error.message(), "Duplicate entry '1' for key 'item.PRIMARY'");
        assert_eq!(error.to_string(), "ERROR 1062 (23000): Duplicate entry '1' for key 'item.PRIMARY'");
        assert!(!error.ends_session());
        let debug = format!("{error:?}");
        for part in ["ErrorCode(1062)", "23000", "Duplicate entry"] {
            assert!(debug.contains(part), "{part} is missing in {debug}");
        }
    }

    #[test]
    fn before_the_log_in_there_is_no_state() {
        let error = ServerError::parse(b"\x10\x04Too many connections");
        assert_eq!(error.to_string(), "ERROR 1040 (HY000): Too many connections");
        let error = ServerError::parse(b"\x69\x04Host '10.0.0.7' is blocked because of many connection errors");
        assert_eq!(error.code(), ErrorCode::HOST_BLOCKED);
    }

    #[test]
    fn what_ends_a_session() {
        assert!(ServerError::parse(b"\x1d\x04#08S01Server shutdown in progress").ends_session());
        assert!(ServerError::parse(b"\xbf\x0f#HY000The client was disconnected by the server").ends_session());
        assert!(!ServerError::parse(b"\x25\x05#70100Query execution was interrupted").ends_session());
    }

    #[test]
    fn a_packet_cut_short_gives_what_it_has() {
        let whole = b"\x26\x04#23000Duplicate";
        for cut in 0..whole.len() {
            let error = ServerError::parse(&whole[..cut]);
            assert_eq!(error.code() == ErrorCode::DUPLICATE_ENTRY, cut >= 2, "cut to {cut}");
            assert_eq!(error.sql_state(), if cut >= 8 { "23000" } else { "HY000" }, "cut to {cut}");
        }
    }

    #[test]
    fn what_is_kept_is_text_and_bounded() {
        let long = [b"\x26\x04#230 0".as_slice(), &vec![0xff; 1 << 20]].concat();
        let error = ServerError::parse(&long);
        assert_eq!(error.sql_state(), "HY000");
        assert!(error.message().chars().all(|c| c == char::REPLACEMENT_CHARACTER));
        assert_eq!(error.message().chars().count(), MESSAGE_BYTES_MAX);
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let error = ServerError::parse(&bytes);
            let _ = (error.to_string(), format!("{error:?}"), error.ends_session());
        }
    }
}
