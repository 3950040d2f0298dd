//! Turns in processes of their own: this program again, or its twin that counts allocations.
//!
//! It knows nothing of what happens in there; a turn comes back as one line of JSON, or as a sentence on stderr.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context, bail, ensure};
use serde::de::DeserializeOwned;

use super::{ContenderName, Turn, abi};
use crate::cli::Load;

/// The program whose allocator counts; it lies beside this one.
const TWIN: &str = "cenote-bench-allocations";

/// Ten thousands of queries: what one of them allocates shows at once.
const COUNTING_SECONDS: f64 = 0.2;

/// The programs in which turns are taken.
pub(super) struct Programs {
    timed: PathBuf,
    counting: Option<PathBuf>,
    abi: Option<PathBuf>,
}

impl Programs {
    /// Finds both, and builds the twin where `cargo run` has built only the program it was to run.
    ///
    /// The program in C is built where it takes part.
    pub(super) fn find(with_abi: bool) -> anyhow::Result<Self> {
        let timed = this_program()?;
        let twin = timed.with_file_name(TWIN);
        if let Some(build) = twin_build(&timed, |name| std::env::var_os(name)) {
            run_build(build)?;
        }
        let counting = twin.exists().then_some(twin);
        if counting.is_none() {
            eprintln!("allocations are not counted: {TWIN} is not built");
        }
        let abi = with_abi.then(|| abi::build(&timed)).transpose()?;
        Ok(Self { timed, counting, abi })
    }

    /// The turn that is measured.
    pub(super) fn time(&self, name: ContenderName, load: &Load) -> anyhow::Result<Turn> {
        if let (ContenderName::CenoteAbi, Some(program)) = (name, &self.abi) {
            return outcome(&abi::turn(program, load)?);
        }
        take_turn(&self.timed, &["turn", name.as_str()], load, load.seconds)
    }

    /// The turn in which allocations are counted, if they can be.
    pub(super) fn count(&self, name: ContenderName, load: &Load) -> anyhow::Result<Option<Turn>> {
        if name == ContenderName::CenoteAbi {
            // Its allocator is C's.
            return Ok(None);
        }
        let turn = |program: &PathBuf| take_turn(program, &["turn", name.as_str()], load, COUNTING_SECONDS);
        self.counting.as_ref().map(turn).transpose()
    }
}

/// How to bring the twin up to date with this program, in the same folder and with the same profile. Only where Cargo
/// runs this program: else whoever built it could build both.
fn twin_build(timed: &Path, variable: impl Fn(&str) -> Option<OsString>) -> Option<Command> {
    cargo_build(timed, &["--bin", TWIN], variable)
}

/// How Cargo builds something into the folder of this program, with the same profile.
pub(super) fn cargo_build(timed: &Path, what: &[&str], variable: impl Fn(&str) -> Option<OsString>) -> Option<Command> {
    let cargo = variable("CARGO")?;
    let package = variable("CARGO_MANIFEST_DIR")?;
    let folder = timed.parent()?;
    // Cargo names the folder after the profile, with this one exception.
    let profile = folder.file_name()?.to_str().map(|name| if name == "debug" { "dev" } else { name })?;
    let mut build = Command::new(cargo);
    build
        .args(["build", "--quiet"])
        .args(what)
        .args(["--profile", profile, "--target-dir"])
        .arg(folder.parent()?)
        .current_dir(package)
        .stdin(Stdio::null());
    Some(build)
}

pub(super) fn run_build(mut build: Command) -> anyhow::Result<()> {
    // What it prints is for people, and stdout belongs to the result.
    let output = build.output().with_context(|| format!("cannot run {:?}", build.get_program()))?;
    ensure!(
        output.status.success(),
        "cannot build a program that takes part: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(())
}

pub(crate) fn this_program() -> anyhow::Result<PathBuf> {
    std::env::current_exe().context("cannot find this program's file")
}

/// Takes a turn in a process of its own: the command's first `words` say which.
pub(crate) fn take_turn<T: DeserializeOwned>(
    program: &Path,
    words: &[&str],
    load: &Load,
    seconds: f64,
) -> anyhow::Result<T> {
    let output = Command::new(program)
        .args(words)
        .args(load.arguments(seconds))
        .env(load.database().url_variable(), load.url()?)
        .stdin(Stdio::null())
        .output()
        .context("cannot start a process for its turn")?;
    outcome(&output)
}

fn outcome<T: DeserializeOwned>(output: &Output) -> anyhow::Result<T> {
    if output.status.success() {
        return serde_json::from_slice(&output.stdout).context("its process gave no figures");
    }
    let words = String::from_utf8_lossy(&output.stderr);
    let sentence = words.trim();
    if sentence.is_empty() {
        bail!("its process ended with {}", output.status);
    }
    bail!("{}", sentence.strip_prefix(crate::ERROR_PREFIX).unwrap_or(sentence))
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    use super::*;

    const KILLED: i32 = 9;
    const FAILED: i32 = 1 << 8;

    fn outcome_of(wait_status: i32, stdout: &str, stderr: &str) -> anyhow::Result<Turn> {
        outcome(&Output { status: ExitStatus::from_raw(wait_status), stdout: stdout.into(), stderr: stderr.into() })
    }

    fn error_of(wait_status: i32, stdout: &str, stderr: &str) -> String {
        format!("{:#}", outcome_of(wait_status, stdout, stderr).expect_err("the process failed"))
    }

    #[test]
    fn a_turn_comes_back_as_it_was_recorded() {
        let line = r#"{"seconds":3.0,"queries":7,"user_s":0.1,"system_s":0.2,"allocations":null,"socket_calls":{"writes":1,"reads":2}}"#;
        let turn = outcome_of(0, line, "").expect("the line is a turn");
        assert_eq!(serde_json::to_string(&turn).expect("a turn is plain data"), line);
    }

    #[test]
    fn the_twin_is_built_as_this_program_was_and_only_under_cargo() {
        let under_cargo = |name: &str| Some(OsString::from(format!("the-{name}")));
        let build = twin_build(Path::new("/target/debug/cenote-bench"), under_cargo).expect("Cargo is there");
        assert_eq!(build.get_program(), "the-CARGO");
        assert_eq!(build.get_current_dir(), Some(Path::new("the-CARGO_MANIFEST_DIR")));
        let arguments: Vec<_> = build.get_args().map(|argument| argument.to_string_lossy()).collect();
        assert!(arguments.ends_with(&["--profile".into(), "dev".into(), "--target-dir".into(), "/target".into()]));
        let release = twin_build(Path::new("/target/release/cenote-bench"), under_cargo).expect("Cargo is there");
        assert!(release.get_args().any(|argument| argument == "release"));
        assert!(twin_build(Path::new("/target/release/cenote-bench"), |_| None).is_none());
    }

    #[test]
    fn failures_say_what_the_process_said() {
        assert_eq!(error_of(FAILED, "", "cenote-bench: cannot connect\n"), "cannot connect");
        assert_eq!(error_of(FAILED, "", "something else\n"), "something else");
        assert!(error_of(KILLED, "", "").contains("signal: 9"));
        assert!(error_of(0, "{}", "").contains("no figures"));
    }
}
