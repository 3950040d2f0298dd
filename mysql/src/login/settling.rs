//! What is set and asked when the user is let in: two commands, and the reading of their answers.
//!
//! They are the first two that can follow each other, so they also show whether that goes well. Set is what decoding
//! and sharing rely on, `utf8mb4` and autocommit, and nothing else: the server's `sql_mode` and time zone stay what
//! they are.

use std::time::Duration;

use super::LoginError;
use crate::wire::cursor::Cursor;
use crate::wire::frontend;
use crate::wire::status::{Capabilities, OK_HEADER, OkPacket, StatusFlags};

/// Both in one command costs nothing. Autocommit is always set: a server whose default is off says otherwise in its
/// status flags until the first statement.
const SET: &str = "SET NAMES utf8mb4, autocommit = 1";

/// What is read from the answer, in this order.
const ASK: &str = "SELECT @@max_allowed_packet, @@wait_timeout";
const COLUMNS: u64 = 2;

/// What the server told of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) max_allowed_packet: usize,
    pub(super) wait_timeout: Duration,
    pub(super) status: StatusFlags,
}

/// The command that sets.
pub(super) fn set_command() -> Vec<u8> {
    query(SET)
}

/// The same as a whole message: a session that was reset has lost what was set.
pub(crate) fn set_message() -> Vec<u8> {
    frontend::own_query(SET)
}

/// The command that asks.
pub(super) fn ask_command() -> Vec<u8> {
    query(ASK)
}

/// Checks the answer to [`set_command`], of which it is known that it is no error.
pub(super) fn check_set(payload: &[u8], capabilities: Capabilities) -> Result<(), LoginError> {
    let ok = OkPacket::parse(payload, capabilities).filter(|_| payload.first() == Some(&OK_HEADER));
    let ok = ok.ok_or_else(|| LoginError::peer("an answer to SET NAMES that cannot be read"))?;
    // Servers tell what they have set, as a rule: what would be misread without any sign of it is refused.
    let mut encodings = ok.changed_variables().filter(|(name, _)| name.starts_with(b"character_set_"));
    match encodings.all(|(_, value)| value == b"utf8mb4") {
        true => Ok(()),
        false => Err(LoginError::peer("the server does not speak utf8mb4 although asked to")),
    }
}

/// A COM_QUERY.
fn query(sql: &str) -> Vec<u8> {
    [b"\x03", sql.as_bytes()].concat()
}

/// Where the answer to [`ask_command`] stands, packet by packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Answer {
    definitions: u64,
    part: Part,
    values: Option<(usize, Duration)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Part {
    #[default]
    Count,
    Definitions,
    Row,
    End,
}

impl Answer {
    /// Takes the next packet, of which it is known that it is no error.
    pub(super) fn take(&mut self, payload: &[u8], capabilities: Capabilities) -> Result<Option<Told>, LoginError> {
        match self.part {
            Part::Count => {
                if Cursor::new(payload).lenenc() != Some(COLUMNS) {
                    return Err(garbled());
                }
                self.part = Part::Definitions;
            }
            Part::Definitions => {
                self.definitions += 1;
                if self.definitions == COLUMNS {
                    self.part = Part::Row;
                }
            }
            Part::Row => {
                self.values = Some(row(payload).ok_or_else(garbled)?);
                self.part = Part::End;
            }
            Part::End => {
                let ok = OkPacket::parse(payload, capabilities).ok_or_else(garbled)?;
                let (max_allowed_packet, wait_timeout) = self.values.ok_or_else(garbled)?;
                return Ok(Some(Told { max_allowed_packet, wait_timeout, status: ok.status }));
            }
        }
        Ok(None)
    }
}

fn row(payload: &[u8]) -> Option<(usize, Duration)> {
    let mut cursor = Cursor::new(payload);
    let max_allowed_packet = number(cursor.lenenc_bytes()?)?;
    let wait_timeout_s = number(cursor.lenenc_bytes()?)?;
    // A server's smallest limit is 1 kB; with less than this no command would pass.
    let max_allowed_packet = usize::try_from(max_allowed_packet).ok().filter(|bytes| *bytes >= 1 << 10)?;
    cursor.is_empty().then_some((max_allowed_packet, Duration::from_secs(wait_timeout_s)))
}

fn number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn garbled() -> LoginError {
    LoginError::peer("an answer about the server's variables that cannot be read")
}
