//! `Pipelining`: whether commands are sent before the ones in front of them are answered.

use cenote_pool::settings::SettingsError;

/// Whether commands are sent before the ones in front of them are answered.
///
/// MySQL and MariaDB take it well, and so do most things that only pass bytes on. ProxySQL closes the connection, and
/// Aurora's 5.7 line answers no more.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Pipelining {
    /// Tried at the end of each log-in, with a time limit. Where that goes wrong it is remembered per host, and tried again
    /// after some minutes.
    #[default]
    Auto,
    /// Without trying.
    On,
    /// One command at a time on each connection.
    Off,
}

impl Pipelining {
    pub(super) fn read(text: &str) -> Result<Pipelining, SettingsError> {
        match text {
            "auto" => Ok(Pipelining::Auto),
            "on" => Ok(Pipelining::On),
            "off" => Ok(Pipelining::Off),
            _ => Err(SettingsError::of("pipeline", "must be one of auto, on, off")),
        }
    }
}
