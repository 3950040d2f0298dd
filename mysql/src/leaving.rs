//! Which words of a server mean that it is to be left, with all connections to it: it goes, or it takes no writes.
//!
//! Read from the bytes as they are: no error is made of them, since nobody but the pool wants to know.
//!
//! Source: client/server protocol, "ERR_Packet"; the servers' lists of errors.

use crate::server_error::ErrorCode;
use crate::wire::cursor::Cursor;
use crate::wire::packet::{HEADER_BYTES, Header};
use crate::wire::status::ERROR_HEADER;

/// How the option is spelled that makes `ER_OPTION_PREVENTS_STATEMENT` a matter of the server's role; it is never
/// translated. `--super-read-only` ends like it.
const READ_ONLY_OPTION: &[u8] = b"read-only";
const READ_ONLY_VARIABLE: &[u8] = b"read_only";

/// Of a reply that holds an error: it is its last packet.
pub(crate) fn reply_leaves_host(reply: &[u8]) -> bool {
    let mut rest = reply;
    while let Some(header) = Header::parse(rest) {
        let Some(payload) = rest.get(HEADER_BYTES..HEADER_BYTES + header.payload_bytes) else { return false };
        rest = &rest[HEADER_BYTES + header.payload_bytes..];
        if rest.is_empty() {
            return payload.split_first().is_some_and(|(first, body)| *first == ERROR_HEADER && leaves_host(body));
        }
    }
    false
}

/// Of an error's body, behind its first byte.
pub(crate) fn leaves_host(body: &[u8]) -> bool {
    let mut cursor = Cursor::new(body);
    match cursor.u16().map(ErrorCode::from_number) {
        Some(ErrorCode::SERVER_SHUTDOWN | ErrorCode::READ_ONLY_MODE) => true,
        Some(ErrorCode::OPTION_PREVENTS_STATEMENT) => {
            let says = |words: &[u8]| cursor.rest().windows(words.len()).any(|window| window == words);
            says(READ_ONLY_OPTION) || says(READ_ONLY_VARIABLE)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::packet;

    fn error(code: u16, words: &str) -> Vec<u8> {
        [&[ERROR_HEADER], &code.to_le_bytes()[..], b"#HY000", words.as_bytes()].concat()
    }

    #[test]
    fn what_is_left() {
        let option = |option: &str| format!("The MySQL server is running with the {option} option so it cannot");
        for (error, expected) in [
            (error(1053, "Server shutdown in progress"), true),
            (error(1290, &option("--read-only")), true),
            (error(1290, &option("--super-read-only")), true),
            (error(1290, &option("--secure-file-priv")), false),
            (error(1836, "Running in read-only mode"), true),
            // A matter of that session, or of that statement.
            (error(1792, "Cannot execute statement in a READ ONLY transaction."), false),
            (error(1062, "Duplicate entry '--read-only' for key 'item.PRIMARY'"), false),
            (error(4031, "The client was disconnected by the server because of inactivity."), false),
        ] {
            let words = String::from_utf8_lossy(&error).into_owned();
            assert_eq!(leaves_host(&error[1..]), expected, "{words}");
            let mut reply = Vec::new();
            packet::append(&error, 1, &mut reply);
            assert_eq!(reply_leaves_host(&reply), expected, "{words}");
            let mut behind_rows = Vec::new();
            let sequence = packet::append(b"\x01", 1, &mut behind_rows);
            packet::append(&error, sequence, &mut behind_rows);
            assert_eq!(reply_leaves_host(&behind_rows), expected, "{words}");
            for cut in 0..behind_rows.len() {
                reply_leaves_host(&behind_rows[..cut]);
            }
        }
        let mut rows = Vec::new();
        let sequence = packet::append(&error(1053, ""), 1, &mut rows);
        packet::append(b"row", sequence, &mut rows);
        assert!(!reply_leaves_host(&rows), "only the last packet can be the error");
    }
}
