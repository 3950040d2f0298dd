//! Which machine and which versions a run was made with, so that a recorded figure can be read later.
//!
//! What cannot be found out is left out; no run fails for it.

use std::fs;

use serde::Serialize;

/// The workspace's lock file as of this build: it names the versions that were compiled in.
const LOCK_FILE: &str = include_str!("../../Cargo.lock");

#[derive(Debug, Serialize)]
pub(crate) struct Machine {
    pub(crate) processor: Option<String>,
    pub(crate) cores: Option<usize>,
    pub(crate) kernel: Option<String>,
    pub(crate) cenote: &'static str,
    pub(crate) tokio_postgres: Option<&'static str>,
    pub(crate) mysql_async: Option<&'static str>,
    pub(crate) tokio: Option<&'static str>,
    pub(crate) server: Server,
}

/// What the server says of itself.
#[derive(Debug, Serialize)]
pub(crate) struct Server {
    pub(crate) version: String,
    /// When the run began: UTC, by the server's clock.
    pub(crate) date: String,
}

impl Machine {
    pub(crate) fn describe(server: Server) -> Self {
        Self {
            processor: fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| processor(&text)),
            cores: std::thread::available_parallelism().ok().map(usize::from),
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease").ok().map(|text| text.trim().to_owned()),
            cenote: env!("CARGO_PKG_VERSION"),
            tokio_postgres: locked_version(LOCK_FILE, "tokio-postgres"),
            mysql_async: locked_version(LOCK_FILE, "mysql_async"),
            tokio: locked_version(LOCK_FILE, "tokio"),
            server,
        }
    }
}

fn processor(cpuinfo: &str) -> Option<String> {
    let (_, name) = cpuinfo.lines().find(|line| line.starts_with("model name"))?.split_once(':')?;
    Some(name.trim().to_owned())
}

fn locked_version<'lock>(lock_file: &'lock str, package: &str) -> Option<&'lock str> {
    let name = format!("name = \"{package}\"");
    let mut lines = lock_file.lines().skip_while(|line| *line != name);
    lines.nth(1)?.strip_prefix("version = \"")?.strip_suffix('"')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_come_from_the_lock_file() {
        let lock_file = "[[package]]\nname = \"tokio-postgres\"\nversion = \"0.7.18\"\n\n\
                         [[package]]\nname = \"tokio\"\nversion = \"1.2.3\"\n";
        assert_eq!(locked_version(lock_file, "tokio"), Some("1.2.3"));
        assert_eq!(locked_version(lock_file, "tokio-postgres"), Some("0.7.18"));
        assert_eq!(locked_version(lock_file, "absent"), None);
        assert!(locked_version(LOCK_FILE, "tokio-postgres").is_some());
    }

    #[test]
    fn the_processor_is_named_once() {
        let cpuinfo =
            "processor\t: 0\nmodel name\t: Some CPU @ 3 GHz\n\nprocessor\t: 1\nmodel name\t: Some CPU @ 3 GHz\n";
        assert_eq!(processor(cpuinfo).as_deref(), Some("Some CPU @ 3 GHz"));
        assert_eq!(processor("processor\t: 0\n"), None);
    }
}
