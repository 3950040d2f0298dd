//! Postgres without a driver: Bind, Execute and Sync for each lookup, and the one shape that its answer has
//! (BindComplete, DataRow with two `int4`, CommandComplete, ReadyForQuery). Everything else is an error.

use anyhow::{Context, anyhow, bail, ensure};
use bytes::BytesMut;
use postgres_protocol::IsNull;
use postgres_protocol::message::{backend, frontend};
use tokio_postgres::Config;
use tokio_postgres::config::Host;

use super::login::{self, STATEMENT, server_error};
use crate::driver::floor::{Answer, BUFFER_BYTES, Query, Socket, Wire, connect_tcp, connect_unix};

/// Where a server listens if its URL does not say.
const PORT: u16 = 5432;

/// Format code of a binary parameter or column.
const BINARY: i16 = 1;

/// A tag and a length, which counts itself but not the tag.
const HEADER_BYTES: usize = 5;

pub(super) struct Postgres {
    config: Config,
}

impl Postgres {
    pub(super) fn new(config: Config) -> Self {
        Self { config }
    }

    fn connect(&self) -> anyhow::Result<Box<dyn Socket>> {
        let port = self.config.get_ports().first().copied().unwrap_or(PORT);
        match self.config.get_hosts().first().context("the URL names no host")? {
            Host::Tcp(host) => connect_tcp(host, port),
            Host::Unix(folder) => connect_unix(&folder.join(format!(".s.PGSQL.{port}"))),
        }
    }
}

impl Wire for Postgres {
    fn open(&self) -> anyhow::Result<(Box<dyn Socket>, Query)> {
        let mut socket = self.connect()?;
        login::log_in(socket.as_mut(), &self.config)?;
        Ok((socket, Query::from_encoder(encode)?))
    }

    fn id_bytes(id: i32) -> [u8; 4] {
        id.to_be_bytes()
    }

    fn answer(bytes: &[u8]) -> anyhow::Result<Option<Answer>> {
        let mut rest = bytes;
        let mut row = None;
        while let Some(message) = Message::first_of(rest)? {
            match message.tag {
                b'2' | b'C' => {}
                b'D' => {
                    ensure!(row.is_none(), "more than one row for an id");
                    row = Some(two_integers(message.body).context("a row of another shape")?);
                }
                b'Z' => {
                    let row = row.context("no row for an id that exists")?;
                    return Ok(Some(Answer { row, bytes: bytes.len() - message.after.len() }));
                }
                b'E' => return Err(error_response(rest)),
                tag => bail!("an unexpected message {:?}", char::from(tag)),
            }
            rest = message.after;
        }
        Ok(None)
    }

    fn goodbye() -> Vec<u8> {
        let mut output = BytesMut::new();
        frontend::terminate(&mut output);
        output.to_vec()
    }
}

fn encode(id: i32) -> anyhow::Result<Vec<u8>> {
    let mut bytes = BytesMut::new();
    frontend::bind(
        "",
        STATEMENT,
        [BINARY],
        [id],
        |id, buffer| {
            buffer.extend_from_slice(&id.to_be_bytes());
            Ok(IsNull::No)
        },
        [BINARY],
        &mut bytes,
    )
    .map_err(|_| anyhow!("cannot encode Bind"))?;
    frontend::execute("", 0, &mut bytes).context("cannot encode Execute")?;
    frontend::sync(&mut bytes);
    Ok(bytes.to_vec())
}

/// One message, and the bytes that come after it.
struct Message<'bytes> {
    tag: u8,
    body: &'bytes [u8],
    after: &'bytes [u8],
}

impl<'bytes> Message<'bytes> {
    /// `None` until the message is whole.
    fn first_of(bytes: &'bytes [u8]) -> anyhow::Result<Option<Self>> {
        let Some((&[tag, a, b, c, d], after)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
            return Ok(None);
        };
        let body_bytes = (u32::from_be_bytes([a, b, c, d]) as usize)
            .checked_sub(HEADER_BYTES - 1)
            .context("a message with an impossible length")?;
        ensure!(body_bytes <= BUFFER_BYTES - HEADER_BYTES, "an answer is larger than {BUFFER_BYTES} bytes");
        let split = after.split_at_checked(body_bytes);
        Ok(split.map(|(body, after)| Self { tag, body, after }))
    }
}

fn error_response(bytes: &[u8]) -> anyhow::Error {
    match backend::Message::parse(&mut BytesMut::from(bytes)) {
        Ok(Some(backend::Message::ErrorResponse(body))) => server_error(body.fields()),
        _ => anyhow!("the server sent a broken error"),
    }
}

/// A DataRow's two `int4` columns, in binary.
fn two_integers(body: &[u8]) -> Option<(i32, i32)> {
    const COLUMNS: [u8; 2] = 2_u16.to_be_bytes();
    const INTEGER_BYTES: [u8; 4] = 4_u32.to_be_bytes();
    let rest = body.strip_prefix(&COLUMNS)?;
    let (id, rest) = rest.strip_prefix(&INTEGER_BYTES)?.split_first_chunk()?;
    let (number, rest) = rest.strip_prefix(&INTEGER_BYTES)?.split_first_chunk()?;
    rest.is_empty().then(|| (i32::from_be_bytes(*id), i32::from_be_bytes(*number)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(tag: u8, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len() + 4).expect("a short message");
        [&[tag][..], &length.to_be_bytes(), body].concat()
    }

    fn row(id: i32, number: i32) -> Vec<u8> {
        let body = [&[0, 2, 0, 0, 0, 4][..], &id.to_be_bytes(), &[0, 0, 0, 4], &number.to_be_bytes()];
        message(b'D', &body.concat())
    }

    fn answer(rows: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = message(b'2', b"");
        bytes.extend(rows.concat());
        bytes.extend(message(b'C', b"SELECT 1\0"));
        bytes.extend(message(b'Z', b"I"));
        bytes
    }

    fn error_of(bytes: &[u8]) -> String {
        format!("{:#}", Postgres::answer(bytes).expect_err("the answer is wrong"))
    }

    #[test]
    fn an_answer_is_taken_when_it_is_whole_and_no_more_than_it() {
        let bytes = answer(&[row(10_000, -5)]);
        for cut in 0..bytes.len() {
            let part = Postgres::answer(bytes.get(..cut).expect("a part"));
            assert_eq!(part.expect("nothing is wrong yet"), None, "cut at {cut}");
        }
        let whole = Some(Answer { row: (10_000, -5), bytes: bytes.len() });
        let twice = bytes.repeat(2);
        assert_eq!(Postgres::answer(&bytes).expect("the answer is right"), whole);
        assert_eq!(Postgres::answer(&twice).expect("the answers are right"), whole);
    }

    #[test]
    fn anything_but_one_row_of_two_integers_is_an_error() {
        assert!(error_of(&answer(&[])).contains("no row"));
        assert!(error_of(&answer(&[row(1, 1), row(1, 1)])).contains("more than one row"));
        let null = message(b'D', &[0, 2, 0, 0, 0, 4, 0, 0, 0, 1, 255, 255, 255, 255]);
        assert!(error_of(&answer(&[null])).contains("another shape"));
        assert!(error_of(&message(b'W', b"")).contains("'W'"));
        assert!(error_of(&[b'Z', 0, 0, 0, 3]).contains("impossible length"));
        assert!(error_of(&[b'D', 255, 255, 255, 255]).contains("larger than"));
    }

    #[test]
    fn the_servers_error_is_told_in_its_own_words() {
        let fields = b"SERROR\0C57014\0Mcanceling statement\0\0";
        let error = error_of(&message(b'E', fields));
        assert_eq!(error, "the server says: canceling statement (57014)");
    }

    #[test]
    fn the_id_stands_in_its_query() {
        let bytes = encode(0x0102_0304).expect("the messages are short");
        assert!(bytes.windows(4).any(|window| window == Postgres::id_bytes(0x0102_0304)));
    }
}
