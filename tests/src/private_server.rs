//! A server that a test has for itself, to stop, kill and start it.

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;

use crate::mysql::Server;

/// A server of one test's own; ended and removed when this is dropped.
#[derive(Debug)]
pub struct PrivateServer {
    instance: String,
    /// With what the names of its variables begin.
    prefix: &'static str,
    variables: HashMap<String, String>,
}

impl PrivateServer {
    /// Starts a fresh Postgres. `name` has lower case letters, digits and dashes.
    pub async fn postgres(name: &str) -> PrivateServer {
        PrivateServer::create("postgres", "POSTGRES", name).await
    }

    /// Starts a fresh MySQL or MariaDB.
    pub async fn mysql(server: Server, name: &str) -> PrivateServer {
        PrivateServer::create(server.service(), server.prefix(), name).await
    }

    async fn create(service: &str, prefix: &'static str, name: &str) -> PrivateServer {
        let instance = format!("{service}-{name}-{}", std::process::id());
        let mut server = PrivateServer { instance, prefix, variables: HashMap::new() };
        server.script("up-private").await;
        server.variables = assignments(&server.script("env").await);
        server
    }

    /// Its address for an ordinary user.
    pub fn url(&self) -> &str {
        self.variable("URL")
    }

    /// Its address for one who may do everything.
    pub fn admin_url(&self) -> &str {
        self.variable("ADMIN_URL")
    }

    fn variable(&self, rest: &str) -> &str {
        let name = format!("{}_{rest}", self.prefix);
        self.variables.get(&name).unwrap_or_else(|| panic!("{} has no {name}", self.instance))
    }

    /// A clean stop: sessions are told.
    pub async fn stop(&self) {
        self.script("stop").await;
    }

    /// SIGKILL to all its processes.
    pub async fn kill(&self) {
        self.script("kill").await;
    }

    /// Starts it again, with the same data at the same address; returns when it takes connections.
    pub async fn start(&self) {
        self.script("start").await;
    }

    async fn script(&self, verb: &str) -> String {
        let mut command = script(verb, &self.instance);
        let output = tokio::task::spawn_blocking(move || command.output())
            .await
            .expect("the script does not panic")
            .unwrap_or_else(|error| panic!("scripts/servers {verb}: {error}"));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "scripts/servers {verb} {}: {said}", self.instance);
        String::from_utf8(output.stdout).expect("the script prints text")
    }
}

impl Drop for PrivateServer {
    fn drop(&mut self) {
        // What is left behind by a failure here ends with `scripts/servers down`.
        if let Err(error) = script("down-private", &self.instance).output() {
            eprintln!("{} stays: {error}", self.instance);
        }
    }
}

fn script(verb: &str, instance: &str) -> Command {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/servers");
    let mut command = Command::new(path);
    command.arg(verb).arg(instance).stdin(std::process::Stdio::null());
    command
}

/// Reads lines of the form `export NAME='value'`.
fn assignments(text: &str) -> HashMap<String, String> {
    let pairs = text.lines().filter_map(|line| line.strip_prefix("export ")?.split_once('='));
    pairs.map(|(name, value)| (name.to_owned(), value.trim_matches('\'').to_owned())).collect()
}
