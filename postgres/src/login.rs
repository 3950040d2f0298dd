//! `Login`: the start-up dialogue, from the StartupMessage to the first ReadyForQuery, as bytes in and bytes out.
//!
//! ```text
//! TlsAsked --> TlsStarting --.
//!     \-------- no TLS -------v
//! Asked --> PasswordSent ----------------------------.
//!   |  \--> ScramStarted --> ScramProved --> Verified --> Starting --> Session
//!   '-------------- trusted ---------------------------^
//! ```
//!
//! No socket, no clock and no cryptography of TLS: the caller reads, writes, encrypts and sets the time limit. Whatever the server sends
//! costs a bounded amount of memory and of messages, and no more work than the capped hashing of a password.
//!
//! Asked for at start-up is what decoding relies on: `client_encoding` (text is UTF-8) and `DateStyle` (text forms
//! of dates are ISO). `extra_float_digits` is left out: floats travel in binary, its default has been exact since
//! Postgres 12, and poolers refuse it at start-up.
//!
//! Source: protocol chapters "Start-up", "SSL Session Encryption" and "Message Formats", version 3.0.

mod error;
mod opening;
mod session;
#[cfg(test)]
mod tests;

use std::mem;

use bytes::{Buf, Bytes, BytesMut};

use cenote_pool::{TlsFailure, TlsPeer, TlsRequest};

use crate::auth::{self, AuthRequest, Channel, ScramProved, ScramStarted};
use crate::server_error::ServerError;
use crate::settings::{APPLICATION_PROTOCOL, AuthMethod, ChannelBinding, Host, Password, Settings, SslMode};

pub(crate) use error::LoginError;
use opening::Opening;
pub(crate) use session::Session;

/// Version 3.0, which everything speaks.
const PROTOCOL_VERSION: u32 = 3 << 16;

/// SSLRequest: its length, and a number in the place of a version.
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];

/// The server reads no longer start-up message (`MAX_STARTUP_PACKET_LENGTH`).
const STARTUP_BYTES_MAX: usize = 10_000;

/// What one message of the log-in may take. Errors are the largest, and before authentication servers keep
/// those short.
const MESSAGE_BYTES_MAX: usize = 64 << 10;

/// How many messages a log-in may have. A usual one has twenty; without an end a server could go on for ever.
const MESSAGES_MAX: usize = 1_000;

/// The longest error in the words-only form that a server falls back to when it cannot even start a process.
const WORDS_BYTES_MAX: usize = 1 << 10;

/// The bytes of a cancel key: four in protocol 3.0, up to 256 in 3.2.
const SECRET_KEY_BYTES: std::ops::RangeInclusive<usize> = 4..=256;

/// A log-in under way.
pub(crate) struct Login {
    settings: Settings,
    purpose: Purpose,
    /// The host's name as it was given; `None` on a Unix socket.
    host: Option<String>,
    attempt: u32,
    opening: Opening,
    channel: Channel,
    state: State,
    session: Session,
    messages: usize,
}

/// What a connection is made for.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A session.
    LogIn,
    /// This request to stop a statement of another session; the server closes the connection when it has read it.
    Cancel(Box<[u8]>),
}

/// Where the dialogue stands.
pub(crate) enum Progress {
    /// Send what was appended to the output, then come back with more input.
    NeedsInput,
    /// TLS begins here: what was appended is sent, and nothing may have come that was not taken.
    StartTls(TlsRequest),
    /// The server is ready for queries.
    Ready(Session),
}

enum State {
    /// The question for TLS is out.
    TlsAsked,
    /// TLS is being set up.
    TlsStarting,
    /// The StartupMessage is out; the server says how it wants the user authenticated.
    Asked,
    /// A password is out, in clear or hashed; the server's verdict is next.
    PasswordSent,
    ScramStarted(ScramStarted),
    ScramProved(ScramProved),
    /// The server has proved itself, too; its verdict is next.
    ScramVerified,
    /// Authenticated; the server describes itself.
    Starting,
    /// Done or failed.
    Over,
}

impl Login {
    /// Begins with whatever `sslmode` has come first in this `attempt`, which counts from 0: appends the StartupMessage
    /// or the question for TLS to `output`, or says that TLS begins.
    ///
    /// # Errors
    ///
    /// If the settings take more room than a server gives them.
    pub(crate) fn start(
        settings: &Settings,
        host: &Host,
        attempt: u32,
        purpose: Purpose,
        output: &mut Vec<u8>,
    ) -> Result<(Login, Progress), LoginError> {
        let host = match host {
            Host::Tcp { name, .. } => Some(name.clone()),
            Host::Unix { .. } => None,
        };
        let opening = Opening::choose(settings.ssl(), attempt, host.is_none());
        let state = match opening {
            Opening::Plain => State::Asked,
            Opening::Ask => State::TlsAsked,
            Opening::Direct => State::TlsStarting,
        };
        let settings = settings.clone();
        let session = Session::default();
        let login =
            Login { settings, purpose, host, attempt, opening, channel: Channel::Plain, state, session, messages: 0 };
        let progress = match opening {
            Opening::Plain => {
                login.write_first(output)?;
                Progress::NeedsInput
            }
            Opening::Ask => {
                output.extend_from_slice(&SSL_REQUEST);
                Progress::NeedsInput
            }
            Opening::Direct => Progress::StartTls(login.tls_request()),
        };
        Ok((login, progress))
    }

    fn tls_request(&self) -> TlsRequest {
        TlsRequest { settings: self.settings.ssl().tls(), host: self.host.clone() }
    }

    /// TLS is there: appends the StartupMessage, which from here on only the server can read.
    ///
    /// # Errors
    ///
    /// If the server took up TLS without saying that it is for Postgres, where it was not asked first.
    pub(crate) fn tls_started(&mut self, peer: &TlsPeer, output: &mut Vec<u8>) -> Result<(), LoginError> {
        if !matches!(mem::replace(&mut self.state, State::Over), State::TlsStarting) {
            return Err(LoginError::peer("TLS that is not due"));
        }
        if self.opening == Opening::Direct && peer.application_protocol.as_deref() != Some(APPLICATION_PROTOCOL) {
            return Err(LoginError::peer(
                "the server speaks TLS, but does not say that it is a Postgres server (17 or later), as \
                 sslnegotiation=direct needs it",
            ));
        }
        self.channel = Channel::Tls { end_point: peer.server_end_point() };
        self.write_first(output)?;
        self.state = State::Asked;
        Ok(())
    }

    /// What the connection is made for, in clear or within TLS.
    fn write_first(&self, output: &mut Vec<u8>) -> Result<(), LoginError> {
        match &self.purpose {
            Purpose::LogIn => write_startup(&self.settings, output),
            Purpose::Cancel(request) => {
                output.extend_from_slice(request);
                Ok(())
            }
        }
    }

    /// TLS did not come about.
    pub(crate) fn tls_failed(&mut self, failure: TlsFailure) -> LoginError {
        self.state = State::Over;
        LoginError::Tls(failure)
    }

    /// Whether `error`, which ended this log-in, may be different in the next attempt.
    pub(crate) fn is_worth_another(&self, error: &LoginError) -> bool {
        self.opening.is_worth_the_other(self.settings.ssl_mode(), self.attempt, error)
    }

    /// Consumes whole messages off the front of `input`, and appends answers to `output`.
    ///
    /// In one of these calls a password may be hashed, which takes some milliseconds of the thread.
    ///
    /// # Errors
    ///
    /// The log-in is over, and with it the connection. Nothing that was appended to `output` in this call needs
    /// to be sent.
    pub(crate) fn advance(&mut self, input: &mut BytesMut, output: &mut Vec<u8>) -> Result<Progress, LoginError> {
        let progress = match self.state {
            State::TlsAsked => self.handle_answer(input, output),
            _ => self.handle_messages(input, output),
        };
        if progress.is_err() {
            self.state = State::Over;
        }
        progress
    }

    /// The one byte that answers the question for TLS. It and all before TLS may come from anybody in between.
    fn handle_answer(&mut self, input: &mut BytesMut, output: &mut Vec<u8>) -> Result<Progress, LoginError> {
        let Some(answer) = input.first().copied() else { return Ok(Progress::NeedsInput) };
        input.advance(1);
        match (answer, self.settings.ssl_mode()) {
            (b'S', _) => {
                self.state = State::TlsStarting;
                Ok(Progress::StartTls(self.tls_request()))
            }
            (b'N', _) if !input.is_empty() => Err(LoginError::peer("bytes behind the answer to the question for TLS")),
            (b'N', SslMode::Prefer) => {
                self.write_first(output)?;
                self.state = State::Asked;
                Ok(Progress::NeedsInput)
            }
            (b'N', SslMode::Allow) => Err(LoginError::Caller(
                "the server does not let us in without TLS, and does not support TLS".to_owned(),
            )),
            (b'N', mode) => Err(LoginError::Caller(format!(
                "the server does not support TLS, which sslmode={} demands; nothing was sent to it",
                mode.name()
            ))),
            (b'E', _) => Err(LoginError::peer(
                "the server answered the question for TLS with an error; what it says is not shown, since before TLS \
                 anybody could have said it",
            )),
            _ => Err(LoginError::peer(
                "an answer to the question for TLS that is neither yes nor no; is this a Postgres server?",
            )),
        }
    }

    fn handle_messages(&mut self, input: &mut BytesMut, output: &mut Vec<u8>) -> Result<Progress, LoginError> {
        while let Some((kind, body)) = self.take_message(input)? {
            self.handle_message(kind, &body, output)?;
            if kind == b'Z' {
                if !input.is_empty() {
                    return Err(LoginError::peer("bytes after the first ReadyForQuery, to which nothing was asked"));
                }
                return Ok(Progress::Ready(mem::take(&mut self.session)));
            }
        }
        Ok(Progress::NeedsInput)
    }

    /// Takes the next message off `input` if all of it is there.
    fn take_message(&mut self, input: &mut BytesMut) -> Result<Option<(u8, Bytes)>, LoginError> {
        let Some([kind, length @ ..]) = input.first_chunk::<5>().copied() else {
            return Ok(None);
        };
        // The length counts itself, but not the byte before it.
        let length = u32::from_be_bytes(length) as usize;
        if kind == b'E' && length > MESSAGE_BYTES_MAX && self.messages == 0 {
            return words_only(input);
        }
        let Some(body_bytes) = length.checked_sub(4).filter(|bytes| *bytes <= MESSAGE_BYTES_MAX) else {
            return Err(LoginError::peer("a message length that no log-in has; is this a Postgres server?"));
        };
        if input.len() - 5 < body_bytes {
            return Ok(None);
        }
        self.messages += 1;
        if self.messages > MESSAGES_MAX {
            return Err(LoginError::peer("a log-in that does not come to an end"));
        }
        input.advance(5);
        Ok(Some((kind, input.split_to(body_bytes).freeze())))
    }

    fn handle_message(&mut self, kind: u8, body: &[u8], output: &mut Vec<u8>) -> Result<(), LoginError> {
        let state = mem::replace(&mut self.state, State::Over);
        self.state = match (kind, state) {
            (_, State::Over) => return Err(LoginError::peer("a message after the end of the log-in")),
            (b'E', _) => return Err(LoginError::Server(ServerError::parse(body))),
            (b'N', state) => {
                self.session.add_notice(ServerError::parse(body));
                state
            }
            (b'R', state) => self.authenticate(state, &AuthRequest::parse(body)?, output)?,
            (b'v', State::Asked) => {
                check_negotiation(body)?;
                State::Asked
            }
            (b'S', State::Starting) => {
                let (name, value) = two_texts(body).ok_or_else(|| garbled("ParameterStatus"))?;
                self.session.set_parameter(name, value)?;
                State::Starting
            }
            (b'K', State::Starting) => {
                self.set_key(body)?;
                State::Starting
            }
            (b'Z', State::Starting) => {
                if body != b"I" {
                    return Err(LoginError::peer("a session that does not begin idle"));
                }
                self.session.check()?;
                State::Over
            }
            (kind, state) => return Err(not_due(kind, &state)),
        };
        Ok(())
    }

    /// Answers an authentication request that is due, and refuses any other.
    fn authenticate(&self, state: State, request: &AuthRequest<'_>, output: &mut Vec<u8>) -> Result<State, LoginError> {
        match (state, request) {
            (State::Asked, request) if !self.can_bind(request) => Err(LoginError::Caller(
                "`channel_binding` is `require`, and the server asks for no password, or for one that is not bound to \
                 anything"
                    .to_owned(),
            )),
            (State::Asked, AuthRequest::Ok) => {
                self.allow(AuthMethod::None)?;
                Ok(State::Starting)
            }
            (State::Asked, AuthRequest::Cleartext) => {
                self.allow(AuthMethod::Password)?;
                write_password(self.password()?.as_bytes(), output);
                Ok(State::PasswordSent)
            }
            (State::Asked, AuthRequest::Md5 { salt }) => {
                self.allow(AuthMethod::Md5)?;
                let answer = auth::md5_answer(self.settings.user(), self.password()?, *salt);
                write_password(answer.as_bytes(), output);
                Ok(State::PasswordSent)
            }
            (State::Asked, AuthRequest::Sasl(offered)) => {
                let mechanism = auth::choose_mechanism(offered, &self.channel, self.settings.channel_binding())?;
                self.allow(AuthMethod::ScramSha256)?;
                let name = mechanism.name;
                let (started, message) = ScramStarted::new(self.password()?, mechanism);
                write_sasl_start(name, &message, output);
                Ok(State::ScramStarted(started))
            }
            (State::ScramStarted(started), AuthRequest::SaslContinue(server_first)) => {
                let (proved, message) = started.prove(server_first)?;
                write_message(b'p', &[&message], output);
                Ok(State::ScramProved(proved))
            }
            (State::ScramProved(proved), AuthRequest::SaslFinal(server_final)) => {
                proved.verify(server_final)?;
                Ok(State::ScramVerified)
            }
            (State::PasswordSent | State::ScramVerified, AuthRequest::Ok) => Ok(State::Starting),
            (State::ScramStarted(_) | State::ScramProved(_), AuthRequest::Ok) => Err(LoginError::peer(
                "the server ended SCRAM without its proof that it knows the password; it may not be what it seems",
            )),
            (State::Asked, AuthRequest::NotSpoken(method)) => Err(LoginError::Caller(format!(
                "the server asks for {method} authentication, which is not supported; \
                 supported are scram-sha-256, md5, password and trust in its pg_hba.conf"
            ))),
            _ => Err(LoginError::peer("an authentication request that is not due")),
        }
    }

    /// Whether what the server asks for can be bound to the channel, where the settings demand that.
    fn can_bind(&self, request: &AuthRequest<'_>) -> bool {
        let unbound = matches!(request, AuthRequest::Ok | AuthRequest::Cleartext | AuthRequest::Md5 { .. });
        !unbound || self.settings.channel_binding() != ChannelBinding::Require
    }

    fn allow(&self, method: AuthMethod) -> Result<(), LoginError> {
        if self.settings.allows_auth(method) {
            return Ok(());
        }
        Err(LoginError::Caller(format!(
            "the server wants authentication method `{}`, which `require_auth` in the settings rules out",
            method.name()
        )))
    }

    fn password(&self) -> Result<&Password, LoginError> {
        let missing = || LoginError::Caller("the server asks for a password, and the settings have none".to_owned());
        self.settings.password().ok_or_else(missing)
    }

    fn set_key(&mut self, body: &[u8]) -> Result<(), LoginError> {
        let (process_id, key) = body.split_first_chunk::<4>().ok_or_else(|| garbled("BackendKeyData"))?;
        if !SECRET_KEY_BYTES.contains(&key.len()) {
            return Err(garbled("BackendKeyData"));
        }
        self.session.process_id = i32::from_be_bytes(*process_id);
        self.session.secret_key = key.to_vec();
        Ok(())
    }
}

fn not_due(kind: u8, state: &State) -> LoginError {
    let shown = kind.escape_ascii();
    LoginError::Peer(match state {
        State::Asked => {
            format!("a message of type '{shown}' where authentication is due; is this a Postgres server?")
        }
        _ => format!("a message of type '{shown}' that is not due"),
    })
}

fn garbled(message: &str) -> LoginError {
    LoginError::Peer(format!("a {message} that cannot be read"))
}

/// A server that cannot start a process for the session sends `E`, words and a NUL, with no length: the form of
/// protocol 2. Gives no message, but the error or the wish for more input.
fn words_only(input: &BytesMut) -> Result<Option<(u8, Bytes)>, LoginError> {
    let words = input.get(1..).unwrap_or_default();
    match words.iter().take(WORDS_BYTES_MAX).position(|byte| *byte == 0) {
        Some(end) => {
            let words = words.get(..end).unwrap_or_default();
            Err(LoginError::Server(ServerError::from_words(words)))
        }
        None if words.len() < WORDS_BYTES_MAX => Ok(None),
        None => Err(LoginError::peer("an error that cannot be read; is this a Postgres server?")),
    }
}

/// A NegotiateProtocolVersion names the version the server would rather speak, and what it did not understand.
/// Less than 3.0 was not asked for, and no option was sent, so only an answer that changes nothing is sound.
fn check_negotiation(body: &[u8]) -> Result<(), LoginError> {
    let accepted = [PROTOCOL_VERSION.to_be_bytes(), [0; 4]].concat();
    match body == accepted {
        true => Ok(()),
        false => {
            Err(LoginError::peer("the server negotiates about the protocol, where 3.0 leaves nothing to negotiate"))
        }
    }
}

/// Two texts, each ended by a NUL, and nothing else.
fn two_texts(body: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut parts = body.split(|byte| *byte == 0);
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(first), Some(second), Some([]), None) => Some((first, second)),
        _ => None,
    }
}

fn write_startup(settings: &Settings, output: &mut Vec<u8>) -> Result<(), LoginError> {
    let mut body = PROTOCOL_VERSION.to_be_bytes().to_vec();
    let parameters = [
        ("user", Some(settings.user())),
        ("database", Some(settings.dbname())),
        ("client_encoding", Some("UTF8")),
        ("DateStyle", Some("ISO")),
        ("application_name", settings.application_name()),
        ("options", settings.options()),
    ];
    for (name, value) in parameters {
        let Some(value) = value else { continue };
        for text in [name, value] {
            body.extend_from_slice(text.as_bytes());
            body.push(0);
        }
    }
    body.push(0);
    let length = body.len() + 4;
    if length > STARTUP_BYTES_MAX {
        return Err(LoginError::Caller(format!(
            "user, database, application_name and options take {length} bytes together; a server accepts \
             {STARTUP_BYTES_MAX}"
        )));
    }
    output.extend_from_slice(&length_field(length));
    output.extend_from_slice(&body);
    Ok(())
}

fn write_password(password: &[u8], output: &mut Vec<u8>) {
    write_message(b'p', &[password, b"\0"], output);
}

fn write_sasl_start(mechanism: &str, message: &[u8], output: &mut Vec<u8>) {
    write_message(b'p', &[mechanism.as_bytes(), b"\0", &length_field(message.len()), message], output);
}

fn write_message(kind: u8, parts: &[&[u8]], output: &mut Vec<u8>) {
    let body_bytes: usize = parts.iter().map(|part| part.len()).sum();
    output.push(kind);
    output.extend_from_slice(&length_field(body_bytes + 4));
    parts.iter().for_each(|part| output.extend_from_slice(part));
}

/// What is written here is bounded by the settings' limits and by `MESSAGE_BYTES_MAX`, far below 4 GiB.
fn length_field(length: usize) -> [u8; 4] {
    u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes()
}
