//! `Assignments`: named texts, from whatever source, on their way into a builder.
//!
//! Knows what each parameter's text means; limits and defaults are the builder's.

use std::path::PathBuf;

use super::auth_plugins::AuthPlugins;
use super::builder::SettingsBuilder;
use super::error::SettingsError;
use super::host;
use super::names;
use super::password::Password;
use super::pipelining::Pipelining;
use super::ssl::{SslMode, SslRoots};
use super::value::{read_bytes, read_count, read_duration, read_switch};
use super::{Lookup, Settings};

/// What was said so far. The later word wins; an empty value is the same as saying nothing.
#[derive(Default)]
pub(super) struct Assignments {
    builder: SettingsBuilder,
    /// These make hosts only together, so they wait here until all is said.
    host: Option<String>,
    port: Option<String>,
    socket: Option<String>,
    said: Vec<&'static str>,
}

impl Assignments {
    pub(super) fn has(&self, name: &str) -> bool {
        self.said.contains(&name)
    }

    /// The list of hosts, as it was said.
    pub(super) fn host(&self) -> Option<&str> {
        self.host.as_deref()
    }

    /// Sets a parameter by its name; for `showable` see [`names::find`].
    pub(super) fn set(&mut self, name: &str, value: &str, showable: bool) -> Result<(), SettingsError> {
        let name = names::find(name, showable)?;
        if value.is_empty() {
            return Ok(());
        }
        if !self.has(name) {
            self.said.push(name);
        }
        let builder = &mut self.builder;
        match name {
            "host" => self.host = Some(value.to_owned()),
            "port" => self.port = Some(value.to_owned()),
            "socket" => self.socket = Some(value.to_owned()),
            "user" => builder.user = Some(value.to_owned()),
            "password" => builder.password = Some(Password::new(value)),
            "database" => builder.database = Some(value.to_owned()),
            "program_name" => builder.program_name = Some(value.to_owned()),
            "connection_attributes" => builder.connection_attributes = Some(read_switch(name, value)?),
            "found_rows" => builder.found_rows = Some(read_switch(name, value)?),
            "connect_timeout" => builder.connect_timeout = Some(read_duration(name, value)?),
            "ssl_mode" => builder.ssl.mode = Some(SslMode::read(value)?),
            "ssl_ca" => builder.ssl.ca = Some(SslRoots::read(value)),
            "ssl_cert" => builder.ssl.cert = Some(PathBuf::from(value)),
            "ssl_key" => builder.ssl.key = Some(PathBuf::from(value)),
            "auth_plugins" => builder.auth_plugins = AuthPlugins::read(value)?,
            "allow_cleartext_password" => builder.allow_cleartext_password = Some(read_switch(name, value)?),
            "allow_public_key_retrieval" => builder.allow_public_key_retrieval = Some(read_switch(name, value)?),
            "server_public_key" => builder.server_public_key = Some(PathBuf::from(value)),
            "pipeline" => builder.pipeline = Some(Pipelining::read(value)?),
            "pool_size" => builder.pool_size = Some(read_count(name, value)?),
            "max_pipeline" => builder.max_pipeline = Some(read_count(name, value)?),
            "acquire_timeout" => builder.acquire_timeout = Some(read_duration(name, value)?),
            "statement_cache_size" => builder.statement_cache_size = Some(read_count(name, value)?),
            "reply_bytes_max" => builder.reply_bytes_max = Some(read_bytes(name, value)?),
            "unsent_bytes_max" => builder.unsent_bytes_max = Some(read_bytes(name, value)?),
            "waiters_max" => builder.waiters_max = Some(read_count(name, value)?),
            _ => check_charset(name, value)?,
        }
        Ok(())
    }

    pub(super) fn finish(mut self, lookup: Lookup<'_>) -> Result<Settings, SettingsError> {
        self.builder.hosts = host::from_texts(self.host.as_deref(), self.port.as_deref(), self.socket.as_deref())?;
        self.builder.build_with(lookup)
    }
}

/// There is one character set. `utf8` is another one at the servers, of three bytes at most.
fn check_charset(name: &str, value: &str) -> Result<(), SettingsError> {
    match value.to_ascii_lowercase().as_str() {
        "utf8mb4" | "utf-8" => Ok(()),
        _ => Err(SettingsError::of(name, "must be utf8mb4: text is UTF-8 throughout")),
    }
}
