//! Logging in by hand and preparing the one statement, before anything is measured.
//!
//! It speaks what servers ask for by default (nothing, cleartext, MD5, SCRAM-SHA-256), without TLS.

use anyhow::{Context, anyhow, bail, ensure};
use bytes::BytesMut;
use fallible_iterator::FallibleIterator;
use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{ChannelBinding, SCRAM_SHA_256, ScramSha256};
use postgres_protocol::message::backend::{ErrorFields, Message};
use postgres_protocol::message::frontend;
use tokio_postgres::Config;

use super::LOOKUP;
use crate::driver::floor::Socket;

/// The prepared statement's name on the server.
pub(super) const STATEMENT: &str = "lookup";

/// `int4`, from the server's `pg_type`.
const INT4: u32 = 23;

pub(super) fn log_in(socket: &mut dyn Socket, config: &Config) -> anyhow::Result<()> {
    let mut session = Session { socket, input: BytesMut::new(), output: BytesMut::new() };
    session.start(config)?;
    session.authenticate(config)?;
    session.wait_until_ready()?;
    session.prepare()?;
    session.wait_until_ready()?;
    ensure!(session.input.is_empty(), "the server sent more than was asked for");
    Ok(())
}

struct Session<'socket> {
    socket: &'socket mut dyn Socket,
    input: BytesMut,
    output: BytesMut,
}

impl Session<'_> {
    fn start(&mut self, config: &Config) -> anyhow::Result<()> {
        let user = user(config)?;
        let database = config.get_dbname().unwrap_or(user);
        let parameters = [("user", user), ("database", database), ("client_encoding", "UTF8")];
        frontend::startup_message(parameters, &mut self.output)?;
        self.flush()
    }

    fn authenticate(&mut self, config: &Config) -> anyhow::Result<()> {
        let password = || config.get_password().context("the URL names no password");
        loop {
            match self.next_message()? {
                Message::AuthenticationOk => return Ok(()),
                Message::AuthenticationCleartextPassword => {
                    frontend::password_message(password()?, &mut self.output)?;
                    self.flush()?;
                }
                Message::AuthenticationMd5Password(body) => {
                    let hash = md5_hash(user(config)?.as_bytes(), password()?, body.salt());
                    frontend::password_message(hash.as_bytes(), &mut self.output)?;
                    self.flush()?;
                }
                Message::AuthenticationSasl(_) => self.scram(password()?)?,
                _ => bail!("the server asks for a login that is not known here"),
            }
        }
    }

    fn scram(&mut self, password: &[u8]) -> anyhow::Result<()> {
        let mut scram = ScramSha256::new(password, ChannelBinding::unsupported());
        frontend::sasl_initial_response(SCRAM_SHA_256, scram.message(), &mut self.output)?;
        self.flush()?;
        let Message::AuthenticationSaslContinue(body) = self.next_message()? else {
            bail!("the server left the login half-way");
        };
        scram.update(body.data())?;
        frontend::sasl_response(scram.message(), &mut self.output)?;
        self.flush()?;
        let Message::AuthenticationSaslFinal(body) = self.next_message()? else {
            bail!("the server left the login half-way");
        };
        scram.finish(body.data()).context("the server does not know the password")
    }

    fn prepare(&mut self) -> anyhow::Result<()> {
        frontend::parse(STATEMENT, LOOKUP, [INT4], &mut self.output)?;
        frontend::sync(&mut self.output);
        self.flush()
    }

    fn wait_until_ready(&mut self) -> anyhow::Result<()> {
        while !matches!(self.next_message()?, Message::ReadyForQuery(_)) {}
        Ok(())
    }

    fn flush(&mut self) -> anyhow::Result<()> {
        self.socket.write_all(&self.output).context("cannot write")?;
        self.output.clear();
        Ok(())
    }

    /// The next message; the server's errors are ours.
    fn next_message(&mut self) -> anyhow::Result<Message> {
        loop {
            match Message::parse(&mut self.input).context("the server broke the protocol")? {
                Some(Message::ErrorResponse(body)) => return Err(server_error(body.fields())),
                Some(message) => return Ok(message),
                None => {}
            }
            let mut piece = [0; 4_096];
            let read = self.socket.read(&mut piece).context("cannot read")?;
            ensure!(read > 0, "the server closed the connection");
            self.input.extend_from_slice(piece.get(..read).unwrap_or_default());
        }
    }
}

fn user(config: &Config) -> anyhow::Result<&str> {
    config.get_user().context("the URL names no user")
}

/// A server's error in its own words.
pub(super) fn server_error(mut fields: ErrorFields<'_>) -> anyhow::Error {
    let mut message = String::new();
    let mut code = String::new();
    // A broken list of fields ends early: what came before it is still worth telling.
    while let Ok(Some(field)) = fields.next() {
        let value = String::from_utf8_lossy(field.value_bytes()).into_owned();
        match field.type_() {
            b'M' => message = value,
            b'C' => code = value,
            _ => {}
        }
    }
    anyhow!("the server says: {message} ({code})")
}
