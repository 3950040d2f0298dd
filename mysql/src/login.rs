//! `Login`: the start-up dialogue, from the server's greeting to a session that is ready, as bytes in and bytes out.
//!
//! ```text
//! Greeting --> [TlsAsked] --> Authenticating --> Setting --> Asking --> Session
//!                                  ^   |
//!                                  '---' another plugin, the server's key
//! ```
//!
//! No socket, no clock, no file and no TLS: the caller reads, writes, encrypts and sets the time limit. A message of the
//! server costs a bounded amount of memory, and each leads on: no state can be entered twice, so there is an end.
//!
//! Up to the verdict both sides take turns. The two commands that follow are sent together, where the settings or a
//! probe want commands to be pipelined; a server that does not bear that shows it here, and nowhere later.
//!
//! Never announced are `LOCAL INFILE`, several statements in one, and compression.
//!
//! Source: client/server protocol, "Connection Phase".

mod error;
mod session;
mod settling;
#[cfg(test)]
mod tests;

use std::mem;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use cenote_pool::TlsRequest;

use crate::auth::{self, Channel, Credentials, Exchange, PublicKey};
use crate::server_error::ServerError;
use crate::settings::{Pipelining, Settings, SslMode};
use crate::wire::handshake::{self, AuthSwitch, Greeting, Response};
use crate::wire::packet;
use crate::wire::status::{Capabilities, EOF_HEADER, ERROR_HEADER, LOCAL_INFILE_HEADER, OK_HEADER, OkPacket};

pub(crate) use error::LoginError;
pub(crate) use session::Session;
pub(crate) use settling::set_message;

/// What one message of the log-in may take. Session state in an OK packet is the largest, with some hundred bytes.
const MESSAGE_BYTES_MAX: usize = 64 << 10;

/// How long after the answer to one command the answer to the one behind it may take before it is taken for lost. The
/// server has nothing to look up for it.
const PROBE_WAIT: Duration = Duration::from_secs(1);

/// What the plugin at the server says, as against a verdict.
const MORE_DATA_HEADER: u8 = 0x01;

/// A further factor of authentication.
const NEXT_FACTOR_HEADER: u8 = 0x02;

/// What is agreed on where the server has it, too. What depends on the settings is added to it.
const CAPABILITIES: [Capabilities; 12] = [
    Capabilities::MYSQL,
    Capabilities::LONG_FLAG,
    Capabilities::PROTOCOL_41,
    Capabilities::TRANSACTIONS,
    Capabilities::SECURE_CONNECTION,
    Capabilities::MULTI_RESULTS,
    Capabilities::PREPARED_MULTI_RESULTS,
    Capabilities::PLUGIN_AUTH,
    Capabilities::PLUGIN_AUTH_LENENC,
    Capabilities::SESSION_TRACK,
    Capabilities::DEPRECATE_EOF,
    Capabilities::MARIADB_STATEMENT_BULK_OPERATIONS,
];

/// The way to the server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Transport {
    /// The host's name or address as the user gave it; none on a Unix socket.
    pub(crate) host: Option<String>,
    /// By a Unix socket.
    pub(crate) unix: bool,
}

/// A log-in under way.
pub(crate) struct Login {
    settings: Settings,
    host: Option<String>,
    channel: Channel,
    server_key: Option<PublicKey>,
    commands: Commands,
    state: State,
    session: Session,
    /// The number the next packet has, whoever sends it.
    sequence: u8,
}

/// How the commands at the end are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Commands {
    OneByOne,
    Together,
    /// Together, and to find out whether that goes well.
    Probe,
}

/// Where the dialogue stands.
pub(crate) enum Progress {
    /// Send what was appended to the output, then come back with more input.
    NeedsInput,
    /// The same, but when the time is over, ask [`Login::unanswered`].
    NeedsInputWithin(Duration),
    /// Send what was appended to the output, start TLS, then go on with [`Login::tls_started`].
    StartTls(TlsRequest),
    /// The server is ready for commands.
    Ready(Session),
}

enum State {
    /// The server speaks first.
    Greeting,
    /// The wish for TLS is out.
    TlsAsked(Proposal),
    Authenticating {
        exchange: Exchange,
        /// Another plugin may be asked for: once, and first of all.
        may_switch: bool,
    },
    /// The command that sets is out; if not one by one, the one that asks, too.
    Setting,
    Asking(settling::Answer),
    /// Done or failed.
    Over,
}

/// By what the server proposes to authenticate the user.
struct Proposal {
    nonce: Vec<u8>,
    plugin: Vec<u8>,
}

impl Login {
    /// Begins. With `probe` and [`Pipelining::Auto`] it finds out whether the server pipelines; without it the server is
    /// taken for one that does not.
    pub(crate) fn start(settings: &Settings, transport: Transport, probe: bool) -> Login {
        let commands = match settings.pipeline() {
            Pipelining::On => Commands::Together,
            Pipelining::Auto if probe => Commands::Probe,
            Pipelining::Auto | Pipelining::Off => Commands::OneByOne,
        };
        Login {
            settings: settings.clone(),
            host: transport.host,
            channel: Channel { unix: transport.unix, ..Channel::default() },
            server_key: None,
            commands,
            state: State::Greeting,
            session: Session::default(),
            sequence: 0,
        }
    }

    /// Hands over the key in the file that [`Settings::server_public_key`] names. Without it a log-in that needs the key
    /// fails.
    pub(crate) fn set_server_key(&mut self, key: PublicKey) {
        self.server_key = Some(key);
    }

    /// Consumes whole packets off the front of `input`, and appends answers to `output`.
    ///
    /// # Errors
    ///
    /// The log-in is over, and with it the connection. Nothing that was appended to `output` in this call needs to be
    /// sent.
    pub(crate) fn advance(&mut self, input: &mut BytesMut, output: &mut Vec<u8>) -> Result<Progress, LoginError> {
        let probing = self.is_probing();
        let progress = self.handle_messages(input, output);
        self.ended_by(progress, probing)
    }

    /// TLS is there: appends what was held back for it.
    ///
    /// # Errors
    ///
    /// As with [`advance`](Login::advance).
    pub(crate) fn tls_started(&mut self, output: &mut Vec<u8>) -> Result<Progress, LoginError> {
        let progress = match mem::replace(&mut self.state, State::Over) {
            State::TlsAsked(proposal) => {
                self.channel.tls = true;
                self.channel.tls_verified = self.settings.ssl_mode() >= SslMode::VerifyCa;
                self.respond(&proposal, output).map(|()| Progress::NeedsInput)
            }
            _ => Err(LoginError::peer("TLS for which nobody asked")),
        };
        self.ended_by(progress, false)
    }

    /// The server closed the connection, or the time of [`Progress::NeedsInputWithin`] is over: what that means, if it
    /// means anything.
    pub(crate) fn unanswered(&mut self) -> Option<LoginError> {
        self.is_probing().then(|| {
            self.state = State::Over;
            LoginError::DoesNotPipeline
        })
    }

    /// Whether a second command is out before the first was answered, to see what happens.
    fn is_probing(&self) -> bool {
        self.commands == Commands::Probe && matches!(self.state, State::Setting | State::Asking(_))
    }

    /// Whether the next packet is not the first of an answer, so that its first byte can be that of a value.
    fn is_inside_answer(&self) -> bool {
        matches!(&self.state, State::Asking(answer) if *answer != settling::Answer::default())
    }

    fn ended_by(&mut self, progress: Result<Progress, LoginError>, probing: bool) -> Result<Progress, LoginError> {
        progress.map_err(|error| {
            self.state = State::Over;
            match error {
                // What does not pipeline answers in odd ways: out of order, with a farewell, with garbage.
                LoginError::Peer(_) if probing => LoginError::DoesNotPipeline,
                LoginError::Server(error) if probing && error.ends_session() => LoginError::DoesNotPipeline,
                error => error,
            }
        })
    }

    fn handle_messages(&mut self, input: &mut BytesMut, output: &mut Vec<u8>) -> Result<Progress, LoginError> {
        while let Some(payload) = self.take_message(input)? {
            let output_bytes = output.len();
            let progress = self.handle_message(&payload, output)?;
            // Whoever is answered must have waited for the answer.
            let answered = output.len() > output_bytes || matches!(progress, Some(Progress::Ready(_)));
            if answered && !input.is_empty() {
                return Err(LoginError::peer("bytes behind a message before it was answered"));
            }
            if let Some(progress) = progress {
                return Ok(progress);
            }
        }
        Ok(match &self.state {
            State::Setting if self.is_probing() => Progress::NeedsInputWithin(self.settings.connect_timeout() / 2),
            State::Asking(_) if self.is_probing() => Progress::NeedsInputWithin(PROBE_WAIT),
            _ => Progress::NeedsInput,
        })
    }

    /// Takes the next payload off `input` if all of it is there.
    fn take_message(&mut self, input: &mut BytesMut) -> Result<Option<Bytes>, LoginError> {
        match input[..] {
            // A server that gives up sends its reason under a number of its own.
            [_, _, _, sequence, ERROR_HEADER, ..] => self.sequence = sequence,
            // Whether the number matters, the next byte tells.
            [a, b, c, sequence] if sequence != self.sequence && [a, b, c] != [0; 3] => return Ok(None),
            _ => {}
        }
        packet::take(input, &mut self.sequence, MESSAGE_BYTES_MAX).map_err(|fault| {
            let doubt = if matches!(self.state, State::Greeting) { "; is this a MySQL server?" } else { "" };
            LoginError::peer(format_args!("{fault}{doubt}"))
        })
    }

    fn handle_message(&mut self, payload: &[u8], output: &mut Vec<u8>) -> Result<Option<Progress>, LoginError> {
        match payload {
            [] => return Err(LoginError::peer("an empty packet")),
            [ERROR_HEADER, body @ ..] => return Err(LoginError::Server(ServerError::parse(body))),
            [LOCAL_INFILE_HEADER, ..] if !self.is_inside_answer() => {
                return Err(LoginError::peer("the server asks for a file of the client's, which is never sent"));
            }
            _ => {}
        }
        match mem::replace(&mut self.state, State::Over) {
            State::Greeting => self.greeted(payload, output),
            State::TlsAsked(_) => Err(LoginError::peer("bytes between the wish for TLS and its start")),
            State::Authenticating { exchange, may_switch } => {
                self.authenticate(exchange, may_switch, payload, output).map(|()| None)
            }
            State::Setting => self.set(payload, output).map(|()| None),
            State::Asking(answer) => self.asked(answer, payload),
            State::Over => Err(LoginError::peer("a message after the end of the log-in")),
        }
    }

    fn greeted(&mut self, payload: &[u8], output: &mut Vec<u8>) -> Result<Option<Progress>, LoginError> {
        let greeting = Greeting::parse(payload)
            .ok_or_else(|| LoginError::peer("a greeting that cannot be read; is this a MySQL server?"))?;
        let tls = self.wants_tls(greeting.capabilities)?;
        self.session = Session::greeted(&greeting);
        self.session.capabilities = self.agree(greeting.capabilities, tls)?;
        let proposal = Proposal { nonce: greeting.nonce.clone(), plugin: greeting.plugin.to_vec() };
        if !tls {
            return self.respond(&proposal, output).map(|()| None);
        }
        let capabilities = self.session.capabilities;
        self.send(output, |out| handshake::append_tls_request(capabilities, out));
        self.state = State::TlsAsked(proposal);
        Ok(Some(Progress::StartTls(TlsRequest { settings: self.settings.tls(), host: self.host.clone() })))
    }

    /// Whether to encrypt, with a server that can do this much.
    fn wants_tls(&self, server: Capabilities) -> Result<bool, LoginError> {
        match (self.settings.ssl_mode(), server.contains(Capabilities::TLS)) {
            (SslMode::Disabled, _) => Ok(false),
            (SslMode::Preferred, offered) => Ok(offered && !self.channel.unix),
            (_, true) => Ok(true),
            (_, false) => Err(LoginError::Caller("the server does not offer TLS, which `ssl_mode` demands".to_owned())),
        }
    }

    fn agree(&self, server: Capabilities, tls: bool) -> Result<Capabilities, LoginError> {
        if !server.contains(Capabilities::PROTOCOL_41 | Capabilities::SECURE_CONNECTION | Capabilities::DEPRECATE_EOF) {
            let words = "the server, or what stands before it, is older than MySQL 5.7 and MariaDB 10.2, the oldest that \
                         are supported";
            return Err(LoginError::Caller(words.to_owned()));
        }
        let demanded = [
            (self.settings.found_rows(), Capabilities::FOUND_ROWS, "`found_rows`"),
            (self.settings.database().is_some(), Capabilities::CONNECT_WITH_DATABASE, "`database`"),
            (tls, Capabilities::TLS, "`ssl_mode`"),
        ];
        let mut wanted = CAPABILITIES.into_iter().fold(Capabilities::default(), |all, one| all | one);
        for (_, capability, name) in demanded.into_iter().filter(|(demanded, ..)| *demanded) {
            if !server.contains(capability) {
                return Err(LoginError::Caller(format!(
                    "the server does not know what {name} in the settings asks for"
                )));
            }
            wanted = wanted | capability;
        }
        if self.settings.connection_attributes() {
            wanted = wanted | Capabilities::CONNECTION_ATTRIBUTES;
        }
        Ok(wanted.both(server))
    }

    /// Says who wants in, with a first proof of it.
    fn respond(&mut self, proposal: &Proposal, output: &mut Vec<u8>) -> Result<(), LoginError> {
        let plugin = auth::first_plugin(&proposal.plugin, &self.settings);
        let (exchange, answer) = Exchange::begin(plugin, &proposal.nonce, self.credentials())?;
        let capabilities = self.session.capabilities;
        if answer.len() > usize::from(u8::MAX) && !capabilities.contains(Capabilities::PLUGIN_AUTH_LENENC) {
            return Err(LoginError::peer("a server that is too old for an answer of this length"));
        }
        let attributes = attributes(&self.settings);
        let response = Response {
            capabilities,
            user: self.settings.user(),
            auth_answer: &answer,
            database: self.settings.database(),
            plugin: plugin.name(),
            attributes: &attributes,
        };
        self.sequence = packet::append_with(self.sequence, output, |out| response.append(out));
        self.state = State::Authenticating { exchange, may_switch: true };
        Ok(())
    }

    fn authenticate(
        &mut self,
        exchange: Exchange,
        may_switch: bool,
        payload: &[u8],
        output: &mut Vec<u8>,
    ) -> Result<(), LoginError> {
        let data = match payload {
            [OK_HEADER, ..] => {
                exchange.check_end()?;
                return self.let_in(payload, output);
            }
            [EOF_HEADER, ..] if may_switch => return self.switch(payload, output),
            [EOF_HEADER, ..] => return Err(LoginError::peer("a change of the authentication plugin that is not due")),
            [NEXT_FACTOR_HEADER, ..] => {
                let words = "the server asks for a second factor of authentication, which is not supported";
                return Err(LoginError::Caller(words.to_owned()));
            }
            [MORE_DATA_HEADER, data @ ..] => data,
            // MariaDB marks only what could be taken for something else.
            data => data,
        };
        let (exchange, answer) = exchange.go_on(data, self.credentials())?;
        if let Some(answer) = answer {
            self.send(output, |out| out.extend_from_slice(&answer));
        }
        self.state = State::Authenticating { exchange, may_switch: false };
        Ok(())
    }

    fn switch(&mut self, payload: &[u8], output: &mut Vec<u8>) -> Result<(), LoginError> {
        let switch = AuthSwitch::parse(payload)
            .ok_or_else(|| LoginError::peer("a change of the authentication plugin that cannot be read"))?;
        let plugin = auth::allowed_plugin(switch.plugin, &self.settings)?;
        let (exchange, answer) = Exchange::begin(plugin, switch.data, self.credentials())?;
        self.send(output, |out| out.extend_from_slice(&answer));
        self.state = State::Authenticating { exchange, may_switch: false };
        Ok(())
    }

    fn let_in(&mut self, payload: &[u8], output: &mut Vec<u8>) -> Result<(), LoginError> {
        OkPacket::parse(payload, self.session.capabilities)
            .ok_or_else(|| LoginError::peer("an OK packet that cannot be read"))?;
        self.send_command(&settling::set_command(), output);
        if self.commands != Commands::OneByOne {
            self.send_command(&settling::ask_command(), output);
        }
        self.state = State::Setting;
        Ok(())
    }

    fn set(&mut self, payload: &[u8], output: &mut Vec<u8>) -> Result<(), LoginError> {
        settling::check_set(payload, self.session.capabilities)?;
        match self.commands {
            Commands::OneByOne => self.send_command(&settling::ask_command(), output),
            // Sent before; its answer is numbered anew.
            Commands::Together | Commands::Probe => self.sequence = 1,
        }
        self.state = State::Asking(settling::Answer::default());
        Ok(())
    }

    fn asked(&mut self, mut answer: settling::Answer, payload: &[u8]) -> Result<Option<Progress>, LoginError> {
        let Some(told) = answer.take(payload, self.session.capabilities)? else {
            self.state = State::Asking(answer);
            return Ok(None);
        };
        if !told.status.is_settled() {
            return Err(LoginError::peer("a session that does not begin idle and with autocommit"));
        }
        self.session.max_allowed_packet = told.max_allowed_packet;
        self.session.wait_timeout = told.wait_timeout;
        self.session.status = told.status;
        self.session.pipelines = self.commands != Commands::OneByOne;
        Ok(Some(Progress::Ready(mem::take(&mut self.session))))
    }

    fn credentials(&self) -> Credentials<'_> {
        Credentials { settings: &self.settings, channel: self.channel, pinned_key: self.server_key.as_ref() }
    }

    /// Sends the packet whose turn it is.
    fn send(&mut self, output: &mut Vec<u8>, encode: impl FnOnce(&mut Vec<u8>)) {
        self.sequence = packet::append_with(self.sequence, output, encode);
    }

    /// A command is where numbers begin anew.
    fn send_command(&mut self, command: &[u8], output: &mut Vec<u8>) {
        self.sequence = packet::append(command, 0, output);
    }
}

/// What the server is told of who connects. Neither host nor process: whoever can read `performance_schema` would.
fn attributes(settings: &Settings) -> Vec<(&'static str, &str)> {
    let mut attributes = vec![
        ("_client_name", "cenote"),
        ("_client_version", env!("CARGO_PKG_VERSION")),
        ("_os", std::env::consts::OS),
        ("_platform", std::env::consts::ARCH),
    ];
    attributes.extend(settings.program_name().map(|name| ("program_name", name)));
    attributes
}
