//! A turn in a process of its own: this program again, with the same load.
//!
//! It knows nothing of what happens in there; a turn comes back as one line of JSON, or as a sentence on stderr.

use std::process::{Command, Output, Stdio};

use anyhow::{Context, bail};

use super::{ContenderName, Turn};
use crate::cli::{Load, URL_VARIABLE};

pub(super) fn take_turn(name: ContenderName, load: &Load) -> anyhow::Result<Turn> {
    let program = std::env::current_exe().context("cannot find this program's file")?;
    let output = Command::new(program)
        .args(["turn", name.as_str()])
        .args(load.arguments())
        .env(URL_VARIABLE, load.url()?)
        .stdin(Stdio::null())
        .output()
        .context("cannot start a process for its turn")?;
    outcome(&output)
}

fn outcome(output: &Output) -> anyhow::Result<Turn> {
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
    fn failures_say_what_the_process_said() {
        assert_eq!(error_of(FAILED, "", "cenote-bench: cannot connect\n"), "cannot connect");
        assert_eq!(error_of(FAILED, "", "something else\n"), "something else");
        assert!(error_of(KILLED, "", "").contains("signal: 9"));
        assert!(error_of(0, "{}", "").contains("no figures"));
    }
}
