//! `Session`: what is known of a connection when its log-in is done.

use std::fmt;

use super::LoginError;
use crate::server_error::Notice;

/// CancelRequest: a number in the place of a version.
const CANCEL_REQUEST: [u8; 4] = [0x04, 0xd2, 0x16, 0x2e];

/// A server reports about fifteen parameters; extensions may add some.
const PARAMETERS_MAX: usize = 128;

/// What all the names and values may take together; a server's own need less than one kB.
const PARAMETERS_BYTES_MAX: usize = 64 << 10;

/// How many notices of the log-in are kept, the first ones.
const NOTICES_MAX: usize = 8;

/// What is known of a connection when its log-in is done.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Session {
    /// The server's process; 0 if it did not say (some poolers do not), and then it cannot be asked to cancel.
    pub(crate) process_id: i32,
    /// What a cancel request must show; empty if the server did not say.
    pub(crate) secret_key: Vec<u8>,
    /// What the server reports of itself (`server_version`, `TimeZone`), each name once.
    pub(crate) parameters: Vec<(String, String)>,
    /// What the server had to say beside it.
    pub(crate) notices: Vec<Notice>,
}

impl Session {
    /// The message that has the server stop what this session runs, for a connection of its own; `None` where the server
    /// has not said what it would have to show.
    pub(crate) fn cancel_request(&self) -> Option<Box<[u8]>> {
        if self.process_id == 0 || self.secret_key.is_empty() {
            return None;
        }
        let length = u32::try_from(12 + self.secret_key.len()).ok()?;
        let parts = [&length.to_be_bytes()[..], &CANCEL_REQUEST, &self.process_id.to_be_bytes(), &self.secret_key];
        Some(parts.concat().into())
    }

    /// The value of a reported parameter.
    pub(crate) fn parameter(&self, name: &str) -> Option<&str> {
        let found = self.parameters.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    pub(super) fn add_notice(&mut self, notice: Notice) {
        if self.notices.len() < NOTICES_MAX {
            self.notices.push(notice);
        }
    }

    pub(super) fn set_parameter(&mut self, name: &[u8], value: &[u8]) -> Result<(), LoginError> {
        let name = String::from_utf8_lossy(name).into_owned();
        let value = String::from_utf8_lossy(value).into_owned();
        match self.parameters.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known_value)) => *known_value = value,
            None => self.parameters.push((name, value)),
        }
        let bytes: usize = self.parameters.iter().map(|(name, value)| name.len() + value.len()).sum();
        if self.parameters.len() > PARAMETERS_MAX || bytes > PARAMETERS_BYTES_MAX {
            return Err(LoginError::peer("more parameters reported than a server has"));
        }
        Ok(())
    }

    /// Refuses a server whose values would be misread without any sign of it.
    pub(super) fn check(&self) -> Result<(), LoginError> {
        let encoding = self.parameter("client_encoding").unwrap_or("UTF8");
        if !["UTF8", "UTF-8", "UNICODE"].iter().any(|name| encoding.eq_ignore_ascii_case(name)) {
            return Err(LoginError::peer("the server does not speak UTF-8 although asked to"));
        }
        if self.parameter("integer_datetimes") == Some("off") {
            return Err(LoginError::peer("the server was built with floating-point timestamps"));
        }
        Ok(())
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The key would let any reader of a log cancel this connection's statements.
        f.debug_struct("Session")
            .field("process_id", &self.process_id)
            .field("parameters", &self.parameters)
            .field("notices", &self.notices)
            .finish_non_exhaustive()
    }
}
