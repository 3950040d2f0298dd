//! Commands: what goes out for one caller, in packets.
//!
//! Each begins a new numbering of packets at 0, which is what lets commands follow each other without waiting. What
//! parameters look like is `value`'s; log-in has its own messages.
//!
//! Source: client/server protocol, "Command Phase".

use bytes::BytesMut;
use cenote_pool::{Handle, Pace, Preparation, StatementId};

use super::packet::{self, HEADER_BYTES, Header, PACKET_PAYLOAD_BYTES_MAX};
use crate::error::Error;

const COM_QUIT: u8 = 0x01;
const COM_INIT_DB: u8 = 0x02;
const COM_QUERY: u8 = 0x03;
const COM_PING: u8 = 0x0E;
const COM_STMT_PREPARE: u8 = 0x16;
const COM_STMT_EXECUTE: u8 = 0x17;
const COM_STMT_CLOSE: u8 = 0x19;
const COM_RESET_CONNECTION: u8 = 0x1F;

/// Parameters of one statement: their number travels in 16 bits.
pub(crate) const PARAMETERS_MAX: usize = u16::MAX as usize;

/// A command's byte is part of its payload.
const COMMAND_BYTES: usize = 1;

/// What is written before an orderly close.
pub(crate) const QUIT: &[u8] = &[COMMAND_BYTES as u8, 0, 0, 0, COM_QUIT];

/// What is answered by how the session stands, and nothing else.
pub(crate) const PING: &[u8] = &[COMMAND_BYTES as u8, 0, 0, 0, COM_PING];

/// What makes a session one that has just begun, but for its default database: that stays.
pub(crate) const RESET_CONNECTION: &[u8] = &[COMMAND_BYTES as u8, 0, 0, 0, COM_RESET_CONNECTION];

/// The front of an EXECUTE: command, the server's name for the statement, no cursor, one iteration.
const EXECUTE_FRONT: [u8; 10] = [COM_STMT_EXECUTE, 0, 0, 0, 0, 0, 1, 0, 0, 0];

/// Where in the packet of an EXECUTE the server's name for the statement is.
const HANDLE_AT: usize = HEADER_BYTES + COMMAND_BYTES;

/// Refuses a statement that the server would not take: it would close the connection, and with it what is in flight.
pub(crate) fn check_text(sql: &str, max_allowed_packet: usize) -> Result<(), Error> {
    check_bytes(sql.len() + COMMAND_BYTES, max_allowed_packet)
}

/// Whether so many parameters can be sent: asked before the statement is learned, which would send it, and where they
/// are encoded.
#[inline]
pub(crate) fn check_parameters(count: usize) -> Result<(), Error> {
    if count <= PARAMETERS_MAX {
        return Ok(());
    }
    Err(Error::caller(format!("{count} parameters; a statement has {PARAMETERS_MAX} at most")))
}

/// A payload has to be shorter than `max_allowed_packet`, not as long.
fn check_bytes(payload_bytes: usize, max_allowed_packet: usize) -> Result<(), Error> {
    if payload_bytes < max_allowed_packet {
        return Ok(());
    }
    Err(Error::caller(format!(
        "the statement takes {payload_bytes} bytes with its parameters; the server accepts less than its \
         max_allowed_packet, {max_allowed_packet}"
    )))
}

/// What has one connection's server prepare a statement.
pub(crate) fn preparation(id: StatementId, sql: &str) -> Preparation {
    let mut out = Vec::with_capacity(HEADER_BYTES + COMMAND_BYTES + sql.len());
    packet::append_with(0, &mut out, |out| {
        out.push(COM_STMT_PREPARE);
        out.extend_from_slice(sql.as_bytes());
    });
    Preparation { id: Some(id), describe_at: out.len(), bytes: out.into(), pace: Pace::default() }
}

/// Appends a statement with its text.
pub(crate) fn query(sql: &str, max_allowed_packet: usize, out: &mut BytesMut) -> Result<(), Error> {
    command(max_allowed_packet, out, |out| {
        out.extend_from_slice(&[COM_QUERY]);
        out.extend_from_slice(sql.as_bytes());
        Ok(())
    })
}

/// A statement of the driver's own with its text. It is short.
pub(crate) fn own_query(sql: &str) -> Vec<u8> {
    text_command(COM_QUERY, sql)
}

/// What makes a database the session's default.
pub(crate) fn use_database(name: &str) -> Vec<u8> {
    text_command(COM_INIT_DB, name)
}

fn text_command(command: u8, text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER_BYTES + COMMAND_BYTES + text.len());
    packet::append_with(0, &mut out, |out| {
        out.push(command);
        out.extend_from_slice(text.as_bytes());
    });
    out
}

/// Appends what runs a prepared statement once; `parameters` appends their types and values. The server's name for the
/// statement is [filled in](fill_in) when it is known on which connection it runs.
#[inline]
pub(crate) fn execute(
    max_allowed_packet: usize,
    out: &mut BytesMut,
    parameters: impl FnOnce(&mut BytesMut) -> Result<(), Error>,
) -> Result<(), Error> {
    command(max_allowed_packet, out, |out| {
        out.extend_from_slice(&EXECUTE_FRONT);
        parameters(out)
    })
}

/// Writes the server's name for the statement into an EXECUTE.
#[inline]
pub(crate) fn fill_in(execute: &mut [u8], Handle(handle): Handle) {
    if let Some(place) = execute.get_mut(HANDLE_AT..).and_then(|rest| rest.first_chunk_mut()) {
        *place = handle.to_le_bytes();
    }
}

/// Appends what makes the server forget a prepared statement. It answers nothing.
pub(crate) fn append_close(Handle(handle): Handle, out: &mut Vec<u8>) {
    packet::append_with(0, out, |out| {
        out.push(COM_STMT_CLOSE);
        out.extend_from_slice(&handle.to_le_bytes());
    });
}

#[inline]
fn command(
    max_allowed_packet: usize,
    out: &mut BytesMut,
    encode: impl FnOnce(&mut BytesMut) -> Result<(), Error>,
) -> Result<(), Error> {
    let begins_at = out.len();
    out.extend_from_slice(&[0; HEADER_BYTES]);
    encode(out)?;
    let payload_bytes = out.len() - begins_at - HEADER_BYTES;
    check_bytes(payload_bytes, max_allowed_packet)?;
    if payload_bytes >= PACKET_PAYLOAD_BYTES_MAX {
        split(begins_at, out);
    } else if let Some(place) = out.get_mut(begins_at..).and_then(|rest| rest.first_chunk_mut()) {
        *place = Header { payload_bytes, sequence: 0 }.to_bytes();
    }
    Ok(())
}

/// Cuts a command that is too long for one packet.
#[cold]
fn split(begins_at: usize, out: &mut BytesMut) {
    let payload = out.split_off(begins_at + HEADER_BYTES);
    out.truncate(begins_at);
    let mut packets = Vec::new();
    packet::append(&payload, 0, &mut packets);
    out.extend_from_slice(&packets);
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALLOWED: usize = 64 << 20;

    fn execute_of(parameter_bytes: usize, max_allowed_packet: usize) -> Result<BytesMut, Error> {
        let mut out = BytesMut::from(&b"before"[..]);
        execute(max_allowed_packet, &mut out, |out| {
            out.resize(out.len() + parameter_bytes, b'p');
            Ok(())
        })?;
        Ok(out.split_off(6))
    }

    #[test]
    fn an_execute_names_its_statement_once_it_is_known() {
        let mut out = execute_of(2, ALLOWED).unwrap();
        fill_in(&mut out, Handle(0x0403_0201));
        assert_eq!(out[..], b"\x0c\0\0\0\x17\x01\x02\x03\x04\0\x01\0\0\0pp"[..]);
        fill_in(&mut out[..6], Handle(9));
        assert_eq!(&out[..6], b"\x0c\0\0\0\x17\x01", "too short, and left as it is");
    }

    #[test]
    fn commands_longer_than_a_packet_are_split_and_still_named() {
        for parameter_bytes in [PACKET_PAYLOAD_BYTES_MAX - 11, PACKET_PAYLOAD_BYTES_MAX - 10, PACKET_PAYLOAD_BYTES_MAX]
        {
            let mut out = execute_of(parameter_bytes, ALLOWED).unwrap();
            fill_in(&mut out, Handle(7));
            let mut sequence = 0;
            let payload = packet::take(&mut out, &mut sequence, ALLOWED).unwrap().unwrap();
            assert_eq!(payload.len(), parameter_bytes + EXECUTE_FRONT.len());
            assert_eq!(payload[..6], *b"\x17\x07\0\0\0\0");
            assert!(out.is_empty());
        }
    }

    #[test]
    fn what_the_server_would_not_take_is_refused_here() {
        assert!(execute_of(1_013, 1_024).is_ok());
        let error = execute_of(1_014, 1_024).unwrap_err();
        assert!(error.is_caller() && error.to_string().contains("max_allowed_packet"), "{error}");
        assert!(check_text(&"x".repeat(1_022), 1_024).is_ok());
        assert!(check_text(&"x".repeat(1_023), 1_024).is_err());
    }
}
