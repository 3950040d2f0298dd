//! MySQL and MariaDB without a driver: COM_STMT_EXECUTE for each lookup, and the one shape that its answer has (a count
//! of two columns, their definitions, a binary row with two `int`, OK in EOF's place). Everything else is an error.

use anyhow::{Context, anyhow, ensure};
use mysql_async::Opts;

use super::login;
use crate::driver::floor::{Answer, BUFFER_BYTES, Query, Socket, Wire, connect_tcp, connect_unix};

/// Length of the payload and number in the sequence.
const HEADER_BYTES: usize = 4;

const COM_QUIT: u8 = 0x01;
const COM_STMT_EXECUTE: u8 = 0x17;

/// First bytes of a payload.
const ROW: u8 = 0x00;
const END: u8 = 0xFE;
const ERROR: u8 = 0xFF;

/// `MYSQL_TYPE_LONG`, signed: an `int`.
const LONG: [u8; 2] = [0x03, 0x00];

/// In the lookup's answer.
const COLUMNS: u8 = 2;

pub(super) struct Mysql {
    options: Opts,
}

impl Mysql {
    pub(super) fn new(options: Opts) -> Self {
        Self { options }
    }
}

impl Wire for Mysql {
    fn open(&self) -> anyhow::Result<(Box<dyn Socket>, Query)> {
        let mut socket = match self.options.socket() {
            Some(path) => connect_unix(path.as_ref())?,
            None => connect_tcp(self.options.ip_or_hostname(), self.options.tcp_port())?,
        };
        let statement = login::log_in(socket.as_mut(), &self.options)?;
        Ok((socket, Query::from_encoder(|id| execute(statement, Types::AsBefore, id))?))
    }

    fn id_bytes(id: i32) -> [u8; 4] {
        id.to_le_bytes()
    }

    fn answer(bytes: &[u8]) -> anyhow::Result<Option<Answer>> {
        let mut rest = bytes;
        let mut row = None;
        // Answers to commands begin with number 1. The last packet's is 5, or there are too many rows.
        for number in 1..=u8::MAX {
            let Some(packet) = Packet::first_of(rest)? else { return Ok(None) };
            ensure!(packet.number == number, "packet {} came where {number} was due", packet.number);
            rest = packet.after;
            match (number, packet.payload) {
                (_, [ERROR, ..]) => return Err(server_error(packet.payload)),
                (1, [COLUMNS]) | (2 | 3, [_, ..]) => {}
                (1, _) => anyhow::bail!("the answer has not {COLUMNS} columns"),
                (4.., [ROW, values @ ..]) => {
                    ensure!(row.is_none(), "more than one row for an id");
                    row = Some(two_integers(values).context("a row of another shape")?);
                }
                (4.., [END, ..]) => {
                    let row = row.context("no row for an id that exists")?;
                    return Ok(Some(Answer { row, bytes: bytes.len() - rest.len() }));
                }
                _ => anyhow::bail!("an unexpected packet {number}: {:02x?}", packet.payload),
            }
        }
        anyhow::bail!("the answer does not end")
    }

    fn goodbye() -> Vec<u8> {
        packet(0, &[COM_QUIT])
    }
}

/// A statement remembers the types of its parameters from one execution to the next.
pub(super) enum Types {
    Sent,
    AsBefore,
}

/// COM_STMT_EXECUTE of a statement with one `int` parameter.
pub(super) fn execute(statement: u32, types: Types, id: i32) -> anyhow::Result<Vec<u8>> {
    const NO_CURSOR: u8 = 0;
    const ONCE: [u8; 4] = 1_u32.to_le_bytes();
    const NO_NULLS: u8 = 0;
    let mut payload = vec![COM_STMT_EXECUTE];
    payload.extend_from_slice(&statement.to_le_bytes());
    payload.push(NO_CURSOR);
    payload.extend_from_slice(&ONCE);
    payload.push(NO_NULLS);
    match types {
        Types::Sent => {
            payload.push(1);
            payload.extend_from_slice(&LONG);
        }
        Types::AsBefore => payload.push(0),
    }
    payload.extend_from_slice(&id.to_le_bytes());
    Ok(packet(0, &payload))
}

/// A payload with its header. None that is sent here comes near the length at which it would have to be split.
pub(super) fn packet(number: u8, payload: &[u8]) -> Vec<u8> {
    let [a, b, c, _] = (payload.len() as u32).to_le_bytes();
    [&[a, b, c, number], payload].concat()
}

/// One packet, and the bytes that come after it.
pub(super) struct Packet<'bytes> {
    pub(super) number: u8,
    pub(super) payload: &'bytes [u8],
    pub(super) after: &'bytes [u8],
}

impl<'bytes> Packet<'bytes> {
    /// `None` until the packet is whole.
    pub(super) fn first_of(bytes: &'bytes [u8]) -> anyhow::Result<Option<Self>> {
        let Some((&[a, b, c, number], after)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
            return Ok(None);
        };
        let payload_bytes = u32::from_le_bytes([a, b, c, 0]) as usize;
        ensure!(payload_bytes <= BUFFER_BYTES - HEADER_BYTES, "an answer is larger than {BUFFER_BYTES} bytes");
        let split = after.split_at_checked(payload_bytes);
        Ok(split.map(|(payload, after)| Self { number, payload, after }))
    }
}

/// A server's error in its own words: its mark, a number, an SQLSTATE behind `#`, a text.
pub(super) fn server_error(payload: &[u8]) -> anyhow::Error {
    let [_, low, high, text @ ..] = payload else {
        return anyhow!("the server sent a broken error");
    };
    let code = u16::from_le_bytes([*low, *high]);
    let text = match text {
        [b'#', _, _, _, _, _, text @ ..] => text,
        text => text,
    };
    anyhow!("the server says: {} ({code})", String::from_utf8_lossy(text))
}

/// A row's two `int` columns, in binary, behind the map of which are NULL.
fn two_integers(values: &[u8]) -> Option<(i32, i32)> {
    const NO_NULLS: [u8; 1] = [0];
    let (id, rest) = values.strip_prefix(&NO_NULLS)?.split_first_chunk()?;
    let (number, rest) = rest.split_first_chunk()?;
    rest.is_empty().then(|| (i32::from_le_bytes(*id), i32::from_le_bytes(*number)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(id: i32, number: i32) -> Vec<u8> {
        [&[ROW, 0][..], &id.to_le_bytes(), &number.to_le_bytes()].concat()
    }

    fn answer(rows: &[Vec<u8>]) -> Vec<u8> {
        let columns = [vec![COLUMNS], b"\x03def...id".to_vec(), b"\x03def...randomnumber".to_vec()];
        let end = vec![END, 0, 0, 2, 0, 0, 0];
        let payloads = columns.iter().chain(rows).chain([&end]);
        payloads.zip(1..).flat_map(|(payload, number)| packet(number, payload)).collect()
    }

    fn error_of(bytes: &[u8]) -> String {
        format!("{:#}", Mysql::answer(bytes).expect_err("the answer is wrong"))
    }

    #[test]
    fn an_answer_is_taken_when_it_is_whole_and_no_more_than_it() {
        let bytes = answer(&[row(10_000, -5)]);
        for cut in 0..bytes.len() {
            let part = Mysql::answer(bytes.get(..cut).expect("a part"));
            assert_eq!(part.expect("nothing is wrong yet"), None, "cut at {cut}");
        }
        let whole = Some(Answer { row: (10_000, -5), bytes: bytes.len() });
        let twice = bytes.repeat(2);
        assert_eq!(Mysql::answer(&bytes).expect("the answer is right"), whole);
        assert_eq!(Mysql::answer(&twice).expect("the answers are right"), whole);
    }

    #[test]
    fn anything_but_one_row_of_two_integers_is_an_error() {
        assert!(error_of(&answer(&[])).contains("no row"));
        assert!(error_of(&answer(&[row(1, 1), row(1, 1)])).contains("more than one row"));
        let null = [&[ROW, 0b1000][..], &1_i32.to_le_bytes()].concat();
        assert!(error_of(&answer(&[null])).contains("another shape"));
        assert!(error_of(&packet(1, &[3])).contains("2 columns"));
        assert!(error_of(&packet(1, &[0, 0, 0, 2, 0, 0, 0])).contains("2 columns"), "an answer without rows");
        assert!(error_of(&packet(2, &[COLUMNS])).contains("where 1 was due"));
        assert!(error_of(&[255, 255, 255, 1]).contains("larger than"));
    }

    #[test]
    fn the_servers_error_is_told_in_its_own_words() {
        let error = error_of(&packet(1, b"\xFF\x25\x05#70100Query execution was interrupted"));
        assert_eq!(error, "the server says: Query execution was interrupted (1317)");
        assert_eq!(error_of(&packet(1, b"\xFF\x10\x04Too many")), "the server says: Too many (1040)");
        assert_eq!(error_of(&packet(1, b"\xFF")), "the server sent a broken error");
    }

    #[test]
    fn the_id_stands_at_the_end_of_its_query() {
        for types in [Types::Sent, Types::AsBefore] {
            let bytes = execute(7, types, 0x0102_0304).expect("it cannot fail");
            assert!(bytes.ends_with(&Mysql::id_bytes(0x0102_0304)));
            assert_eq!(bytes.first().map(|length| usize::from(*length) + HEADER_BYTES), Some(bytes.len()));
        }
    }
}
