//! cenote by way of its C ABI: a program in C, built against the library beside this one.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context, ensure};

use super::process::{cargo_build, run_build};
use crate::cli::Load;

/// The program's name; it lies beside this one.
const PROGRAM: &str = "cenote-bench-abi";

/// The library it is linked with, and the name by which it is loaded then: that of its ABI.
const LIBRARY: &str = "libcenote.so";
const LOADED_AS: &str = "libcenote.so.0";

/// Brings the library up to date where Cargo runs this program, and builds the program.
pub(super) fn build(timed: &Path) -> anyhow::Result<PathBuf> {
    if let Some(build) = cargo_build(timed, &["-p", "cenote-ffi"], |name| std::env::var_os(name)) {
        run_build(build)?;
    }
    let folder = timed.parent().context("this program lies in no folder")?;
    ensure!(folder.join(LIBRARY).exists(), "{LIBRARY} is not built: cargo build --release -p cenote-ffi");
    // Cargo builds it without the link that an installed one has.
    match std::os::unix::fs::symlink(LIBRARY, folder.join(LOADED_AS)) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            return Err(error).context("cannot name the library by its ABI");
        }
        _ => {}
    }
    let bench = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = folder.join(PROGRAM);
    let mut compiler = Command::new("cc");
    compiler
        .args(["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-o"])
        .arg(&program)
        .arg(bench.join("abi/callers.c"))
        .arg("-I")
        .arg(bench.join("../ffi/include"))
        .arg("-L")
        .arg(folder)
        .args(["-lcenote", "-lpthread"])
        .arg(format!("-Wl,-rpath,{}", folder.display()))
        .stdin(Stdio::null());
    run_build(compiler)?;
    Ok(program)
}

/// One turn of it.
pub(super) fn turn(program: &Path, load: &Load) -> anyhow::Result<Output> {
    let url = load.url()?;
    let separator = if url.contains('?') { '&' } else { '?' };
    let url = format!("{url}{separator}pool_size={}&{}", load.connections, plaintext(load));
    Command::new(program)
        .arg(url)
        .args([load.callers.to_string(), load.threads.to_string(), load.seconds.to_string()])
        .stdin(Stdio::null())
        .output()
        .context("cannot start the program in C")
}

/// Without TLS, as all contenders.
fn plaintext(load: &Load) -> &'static str {
    if load.mysql { "ssl-mode=disabled&allow-public-key-retrieval=true" } else { "sslmode=disable" }
}
