//! `Said`: named texts, from whatever source, on their way into a builder.
//!
//! Knows what each parameter's text means; limits and defaults are the builder's.

use std::path::PathBuf;

use cenote_pool::settings::{Assignments, Names, Parameters, Password, SettingsError, read_switch};

use super::auth_plugins::AuthPlugins;
use super::builder::SettingsBuilder;
use super::pipelining::Pipelining;
use super::ssl::{SslMode, SslRoots};
use super::{Lookup, Settings, host, names};

/// What was said so far of which parameter.
#[derive(Default)]
pub(super) struct Said {
    builder: SettingsBuilder,
    /// These make hosts only together, so they wait here until all is said.
    host: Option<String>,
    port: Option<String>,
    socket: Option<String>,
}

impl Said {
    /// The list of hosts, as it was said.
    pub(super) fn host(&self) -> Option<&str> {
        self.host.as_deref()
    }
}

impl Parameters for Said {
    const NAMES: &'static Names = &names::NAMES;
    const DATABASE: &'static str = "database";
    const PORT_DEFAULT: u16 = host::PORT_DEFAULT;
    const OF_THE_ADDRESS: &'static [&'static str] = &["host", "port", "socket", "user", "password", "database"];

    fn set(&mut self, name: &'static str, value: &str) -> Result<(), SettingsError> {
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
            "ssl_mode" => builder.ssl.mode = Some(SslMode::read(value)?),
            "ssl_ca" => builder.ssl.ca = Some(SslRoots::read(value)),
            "ssl_cert" => builder.ssl.cert = Some(PathBuf::from(value)),
            "ssl_key" => builder.ssl.key = Some(PathBuf::from(value)),
            "auth_plugins" => builder.auth_plugins = AuthPlugins::read(value)?,
            "allow_cleartext_password" => builder.allow_cleartext_password = Some(read_switch(name, value)?),
            "allow_public_key_retrieval" => builder.allow_public_key_retrieval = Some(read_switch(name, value)?),
            "server_public_key" => builder.server_public_key = Some(PathBuf::from(value)),
            "pipeline" => builder.pipeline = Some(Pipelining::read(value)?),
            _ if builder.limits.set(name, value)? => {}
            _ => check_charset(name, value)?,
        }
        Ok(())
    }
}

/// Makes settings of all that was said.
pub(super) fn finish(assignments: Assignments<Said>, lookup: Lookup<'_>) -> Result<Settings, SettingsError> {
    let mut said = assignments.into_parameters();
    said.builder.hosts = host::from_texts(said.host.as_deref(), said.port.as_deref(), said.socket.as_deref())?;
    said.builder.build_with(lookup)
}

/// There is one character set. `utf8` is another one at the servers, of three bytes at most.
fn check_charset(name: &str, value: &str) -> Result<(), SettingsError> {
    match value.to_ascii_lowercase().as_str() {
        "utf8mb4" | "utf-8" => Ok(()),
        _ => Err(SettingsError::of(name, "must be utf8mb4: text is UTF-8 throughout")),
    }
}
