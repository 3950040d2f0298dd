//! `Assignments`: named texts, from whatever source, on their way into a builder.
//!
//! Knows what each parameter's text means; limits and defaults are the builder's.

use super::auth_methods::AuthMethods;
use super::builder::SettingsBuilder;
use super::error::SettingsError;
use super::host;
use super::names;
use super::password::Password;
use super::value::{read_bytes, read_count, read_duration};
use super::{Lookup, Settings};

/// What was said so far. The later word wins; an empty value is the same as saying nothing.
#[derive(Default)]
pub(super) struct Assignments {
    builder: SettingsBuilder,
    /// The three lists make hosts only together, so they wait here until all is said.
    host: Option<String>,
    hostaddr: Option<String>,
    port: Option<String>,
    said: Vec<&'static str>,
}

impl Assignments {
    pub(super) fn has(&self, name: &str) -> bool {
        self.said.contains(&name)
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
        if name == "ssl" {
            self.said.push("sslmode");
        }
        let builder = &mut self.builder;
        match name {
            "host" => self.host = Some(value.to_owned()),
            "hostaddr" => self.hostaddr = Some(value.to_owned()),
            "port" => self.port = Some(value.to_owned()),
            "user" => builder.user = Some(value.to_owned()),
            "password" => builder.password = Some(Password::new(value)),
            "dbname" => builder.dbname = Some(value.to_owned()),
            "application_name" => builder.application_name = Some(value.to_owned()),
            "options" => builder.options = Some(value.to_owned()),
            "connect_timeout" => builder.connect_timeout = Some(read_duration(name, value)?),
            "require_auth" => builder.auth_methods = AuthMethods::read(value)?,
            "pool_size" => builder.pool_size = Some(read_count(name, value)?),
            "max_pipeline" => builder.max_pipeline = Some(read_count(name, value)?),
            "acquire_timeout" => builder.acquire_timeout = Some(read_duration(name, value)?),
            "statement_cache_size" => {
                builder.statement_cache_size = Some(read_count(name, value)?);
            }
            "reply_bytes_max" => builder.reply_bytes_max = Some(read_bytes(name, value)?),
            "unsent_bytes_max" => builder.unsent_bytes_max = Some(read_bytes(name, value)?),
            "waiters_max" => builder.waiters_max = Some(read_count(name, value)?),
            _ if builder.ssl.set(name, value)? => {}
            _ => check_choice(name, value)?,
        }
        Ok(())
    }

    pub(super) fn finish(mut self, lookup: Lookup<'_>) -> Result<Settings, SettingsError> {
        self.builder.hosts = host::from_lists(self.host.as_deref(), self.hostaddr.as_deref(), self.port.as_deref())?;
        self.builder.build_with(lookup)
    }
}

/// Parameters of which so far only those values can be had that change nothing.
fn check_choice(name: &str, value: &str) -> Result<(), SettingsError> {
    let not_yet = |words| Err(SettingsError::of(name, words));
    match (name, value) {
        ("gssencmode", "disable" | "prefer")
        | ("load_balance_hosts", "disable")
        | ("sslcertmode", "allow")
        | ("sslcompression", "0")
        | ("target_session_attrs", "any") => Ok(()),
        ("gssencmode", "require") => not_yet("asks for GSSAPI, which is not supported"),
        ("load_balance_hosts", "random") => not_yet("is not supported yet: hosts are tried in their order"),
        ("target_session_attrs", "read-write" | "read-only" | "primary" | "standby" | "prefer-standby") => {
            not_yet("is not supported yet: only `any` host can be asked for")
        }
        ("client_encoding", encoding) => match encoding.to_ascii_lowercase().as_str() {
            "auto" | "utf8" | "utf-8" | "unicode" => Ok(()),
            _ => not_yet("must be UTF8: text is UTF-8 throughout"),
        },
        ("gssencmode", _) => not_yet("must be one of disable, prefer, require"),
        ("load_balance_hosts", _) => not_yet("must be one of disable, random"),
        ("sslcertmode", _) => {
            not_yet("is not supported: a certificate is sent where `sslcert` names one and the server asks")
        }
        ("sslcompression", _) => not_yet("is not supported: compressed TLS gives secrets away"),
        _ => not_yet("must be one of any, read-write, read-only, primary, standby, prefer-standby"),
    }
}
