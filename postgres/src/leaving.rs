//! Which words of a server mean that it is to be left, with all connections to it: it goes, or it takes no writes.
//!
//! Read from the bytes as they are: no error is made of them, since nobody but the pool wants to know.
//!
//! Source: the appendix "PostgreSQL Error Codes", protocol chapter "Error and Notice Message Fields".

use crate::wire::backend::Messages;

/// A write where only reads are allowed: the primary has become a standby, or its name stands for one.
const READ_ONLY: &[u8] = b"25006";

/// An administrator or a shutdown ends the session; another server process has crashed; the server cannot be used now. (The
/// first is said as well to a single session that somebody ends, and nobody can tell the two apart.)
const GOING: [&[u8]; 3] = [b"57P01", b"57P02", b"57P03"];

/// Of a reply that holds an error.
pub(crate) fn reply_leaves_host(reply: &[u8]) -> bool {
    let mut messages = Messages::new(reply);
    while let Ok(Some(message)) = messages.next() {
        if message.tag == b'E' && code(reply.get(message.body).unwrap_or_default()) == Some(READ_ONLY) {
            return true;
        }
    }
    false
}

/// Of the body of a fatal error.
pub(crate) fn farewell_leaves_host(body: &[u8]) -> bool {
    code(body).is_some_and(|code| GOING.contains(&code))
}

/// The SQLSTATE in an error's body.
fn code(body: &[u8]) -> Option<&[u8]> {
    body.split(|byte| *byte == 0).find_map(|field| field.strip_prefix(b"C"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(tag: u8, body: &[u8]) -> Vec<u8> {
        [&[tag], &(body.len() as u32 + 4).to_be_bytes()[..], body].concat()
    }

    #[test]
    fn replies() {
        let reply = |code: &str| {
            let error = format!("SERROR\0VERROR\0C{code}\0Mcannot execute INSERT\0\0");
            [message(b'2', b""), message(b'E', error.as_bytes()), message(b'Z', b"I")].concat()
        };
        assert!(reply_leaves_host(&reply("25006")));
        assert!(!reply_leaves_host(&reply("23505")));
        let words = message(b'E', b"SERROR\0C23505\0MC25006\0DC25006\0\0");
        assert!(!reply_leaves_host(&words), "only the code counts, not what a user wrote");
        assert!(!reply_leaves_host(&message(b'D', b"\0\x01\0\0\0\x07C25006\0")));
        for cut in 0..reply("25006").len() {
            reply_leaves_host(&reply("25006")[..cut]);
        }
    }

    #[test]
    fn farewells() {
        for (code, expected) in [
            ("57P01", true),
            ("57P02", true),
            ("57P03", true),
            // These end one session.
            ("57P05", false),
            ("25P03", false),
            ("08P01", false),
        ] {
            let body = format!("SFATAL\0VFATAL\0C{code}\0Mthe session ends\0\0");
            assert_eq!(farewell_leaves_host(body.as_bytes()), expected, "{code}");
        }
        assert!(!farewell_leaves_host(b""));
    }
}
