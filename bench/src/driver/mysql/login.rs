//! Logging in by hand and preparing the one statement, before anything is measured.
//!
//! It speaks what servers ask for by default (mysql_native_password, caching_sha2_password), without TLS. Of the latter
//! only the short way: the same user has just read the table, so the server remembers the password.

use anyhow::{Context, bail, ensure};
use mysql_async::Opts;
use mysql_common::constants::CapabilityFlags;
use mysql_common::io::ParseBuf;
use mysql_common::packets::{AuthPlugin, AuthSwitchRequest, HandshakePacket, HandshakeResponse};
use mysql_common::proto::MySerialize;

use super::LOOKUP;
use super::wire::{Mysql, Packet, Types, execute, packet, server_error};
use crate::driver::floor::{Socket, Wire};

const COM_STMT_PREPARE: u8 = 0x16;

/// First bytes of a payload.
const OK: u8 = 0x00;
const MORE_DATA: u8 = 0x01;
const AUTH_SWITCH: u8 = 0xFE;
const ERROR: u8 = 0xFF;

/// What caching_sha2_password says when it remembers the password, and when it does not.
const REMEMBERED: u8 = 3;
const FORGOTTEN: u8 = 4;

/// As many bytes as a packet may have here; the server's own limit is the one that counts.
const PACKET_BYTES_MAX: u32 = 16 * 1024 * 1024;

/// The number of the prepared lookup.
pub(super) fn log_in(socket: &mut dyn Socket, options: &Opts) -> anyhow::Result<u32> {
    let mut session = Session { socket, input: Vec::new(), number: 0 };
    session.authenticate(options)?;
    let statement = session.prepare()?;
    session.tell_types(statement)?;
    ensure!(session.input.is_empty(), "the server sent more than was asked for");
    Ok(statement)
}

struct Session<'socket> {
    socket: &'socket mut dyn Socket,
    input: Vec<u8>,
    /// The next packet's in the sequence that client and server share.
    number: u8,
}

impl Session<'_> {
    fn authenticate(&mut self, options: &Opts) -> anyhow::Result<()> {
        let greeting = self.next_payload()?;
        let greeting = ParseBuf(&greeting).parse::<HandshakePacket<'_>>(()).context("a greeting of another shape")?;
        let plugin = greeting.auth_plugin().context("the server names no way to log in")?;
        let response = HandshakeResponse::new(
            Some(scramble(&plugin, options, &greeting.nonce())?),
            greeting.server_version_parsed().unwrap_or((8, 0, 0)),
            Some(options.user().context("the URL names no user")?.as_bytes()),
            Some(options.db_name().context("the URL names no database")?.as_bytes()),
            Some(plugin),
            CapabilityFlags::CLIENT_PROTOCOL_41
                | CapabilityFlags::CLIENT_LONG_PASSWORD
                | CapabilityFlags::CLIENT_SECURE_CONNECTION
                | CapabilityFlags::CLIENT_TRANSACTIONS
                | CapabilityFlags::CLIENT_DEPRECATE_EOF,
            None,
            PACKET_BYTES_MAX,
        );
        let mut bytes = Vec::new();
        response.serialize(&mut bytes);
        self.send(&bytes)?;
        loop {
            let payload = self.next_payload()?;
            match payload.as_slice() {
                [OK, ..] => return Ok(()),
                [MORE_DATA, REMEMBERED] => {}
                [MORE_DATA, FORGOTTEN] => bail!("the server has forgotten a password that it knew a moment ago"),
                [AUTH_SWITCH, ..] => {
                    let switch = ParseBuf(&payload).parse::<AuthSwitchRequest<'_>>(())?;
                    self.send(&scramble(&switch.auth_plugin(), options, switch.plugin_data())?)?;
                }
                _ => bail!("the server asks for a login that is not known here"),
            }
        }
    }

    fn prepare(&mut self) -> anyhow::Result<u32> {
        self.number = 0;
        self.send(&[&[COM_STMT_PREPARE], LOOKUP.as_bytes()].concat())?;
        let answer = self.next_payload()?;
        let [OK, a, b, c, d, 2, 0, 1, 0, ..] = answer.as_slice() else {
            bail!("the lookup has not one parameter and two columns");
        };
        // Their definitions.
        for _ in 0..3 {
            self.next_payload()?;
        }
        Ok(u32::from_le_bytes([*a, *b, *c, *d]))
    }

    /// The first execution tells the parameter's type; those that are measured refer to it.
    fn tell_types(&mut self, statement: u32) -> anyhow::Result<()> {
        self.socket.write_all(&execute(statement, Types::Sent, 1)?).context("cannot write")?;
        loop {
            if let Some(answer) = Mysql::answer(&self.input)? {
                ensure!(answer.row.0 == 1, "the first lookup gave another row");
                self.input.drain(..answer.bytes);
                return Ok(());
            }
            self.read()?;
        }
    }

    fn send(&mut self, payload: &[u8]) -> anyhow::Result<()> {
        self.socket.write_all(&packet(self.number, payload)).context("cannot write")?;
        self.number = self.number.wrapping_add(1);
        Ok(())
    }

    /// The next packet's payload; the server's errors are ours.
    fn next_payload(&mut self) -> anyhow::Result<Vec<u8>> {
        loop {
            if let Some(packet) = Packet::first_of(&self.input)? {
                ensure!(packet.number == self.number, "packet {} came where {} was due", packet.number, self.number);
                let payload = packet.payload.to_vec();
                self.input = packet.after.to_vec();
                self.number = self.number.wrapping_add(1);
                return if payload.first() == Some(&ERROR) { Err(server_error(&payload)) } else { Ok(payload) };
            }
            self.read()?;
        }
    }

    fn read(&mut self) -> anyhow::Result<()> {
        let mut piece = [0; 4_096];
        let read = self.socket.read(&mut piece).context("cannot read")?;
        ensure!(read > 0, "the server closed the connection");
        self.input.extend_from_slice(piece.get(..read).unwrap_or_default());
        Ok(())
    }
}

/// What proves that the password is known.
fn scramble(plugin: &AuthPlugin<'_>, options: &Opts, nonce: &[u8]) -> anyhow::Result<Vec<u8>> {
    match plugin {
        AuthPlugin::MysqlNativePassword | AuthPlugin::CachingSha2Password => {
            Ok(plugin.gen_data(options.pass(), nonce).map(|data| data.to_vec()).unwrap_or_default())
        }
        _ => bail!("the server asks for a login that is not known here"),
    }
}
