//! `Said`: named texts, from whatever source, on their way into a builder.
//!
//! Knows what each parameter's text means; limits and defaults are the builder's.

use cenote_pool::settings::{Assignments, Names, Parameters, Password, SettingsError};

use super::auth_methods::AuthMethods;
use super::builder::SettingsBuilder;
use super::{Lookup, Settings, host, names};

/// What was said so far of which parameter.
#[derive(Default)]
pub(super) struct Said {
    builder: SettingsBuilder,
    /// The three lists make hosts only together, so they wait here until all is said.
    host: Option<String>,
    hostaddr: Option<String>,
    port: Option<String>,
}

impl Parameters for Said {
    const NAMES: &'static Names = &names::NAMES;
    const DATABASE: &'static str = "dbname";
    const PORT_DEFAULT: u16 = host::PORT_DEFAULT;
    /// As with libpq the query has the last word.
    const OF_THE_ADDRESS: &'static [&'static str] = &[];

    fn set(&mut self, name: &'static str, value: &str) -> Result<(), SettingsError> {
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
            "require_auth" => builder.auth_methods = AuthMethods::read(value)?,
            _ if builder.limits.set(name, value)? || builder.ssl.set(name, value)? => {}
            _ => check_choice(name, value)?,
        }
        Ok(())
    }
}

/// Makes settings of all that was said.
pub(super) fn finish(assignments: Assignments<Said>, lookup: Lookup<'_>) -> Result<Settings, SettingsError> {
    let mut said = assignments.into_parameters();
    said.builder.hosts = host::from_lists(said.host.as_deref(), said.hostaddr.as_deref(), said.port.as_deref())?;
    said.builder.build_with(lookup)
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
