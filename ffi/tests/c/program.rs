//! C programs: built once per source, run, and what they print.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::SystemTime;

/// How a program is built.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Built {
    /// With address and undefined-behaviour sanitizers.
    Sanitized,
    /// As it is: for valgrind, and where the sanitizers' own handlers would be in the way.
    Plain,
}

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn work_folder() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
}

/// The shared library that was built with this test: Cargo puts it beside the test's program.
pub(crate) fn library() -> PathBuf {
    let test = std::env::current_exe().expect("the test has a path");
    test.parent().expect("in a folder").join("libcenote.so")
}

/// The name under which a program asks for the library when it starts.
pub(crate) fn soname() -> String {
    format!("libcenote.so.{}", cenote::version::CENOTE_ABI_VERSION_MAJOR)
}

/// A folder with the library under both of its names.
fn library_folder() -> PathBuf {
    let folder = work_folder().join("lib");
    std::fs::create_dir_all(&folder).expect("a folder can be made");
    for name in ["libcenote.so".to_owned(), soname()] {
        let link = folder.join(name);
        if std::fs::read_link(&link).ok() != Some(library()) {
            let made = folder.join(format!("link-{}-{:?}", std::process::id(), std::thread::current().id()));
            std::os::unix::fs::symlink(library(), &made).expect("a link can be made");
            std::fs::rename(&made, &link).expect("a link can be renamed");
        }
    }
    folder
}

fn modified(path: &Path) -> Option<SystemTime> {
    path.metadata().and_then(|metadata| metadata.modified()).ok()
}

/// Builds a source of `ffi/`, unless that was done since it was written.
pub(crate) fn build(source: &str, built: Built) -> PathBuf {
    let path = root().join(source);
    let stem = path.file_stem().and_then(|stem| stem.to_str()).expect("a name");
    let program = work_folder().join(if built == Built::Plain { format!("{stem}-plain") } else { stem.to_owned() });
    let sources = [
        path.clone(),
        root().join("include/cenote.h"),
        root().join("include/cenote_block.h"),
        root().join("tests/c/host.h"),
        library(),
    ];
    let newest = sources.iter().filter_map(|source| modified(source)).max();
    if modified(&program) > newest {
        return program;
    }
    let made = work_folder().join(format!("{stem}-{}-{:?}", std::process::id(), std::thread::current().id()));
    let folder = library_folder();
    let mut command = Command::new("cc");
    command.args(["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-g", "-O1", "-pthread"]);
    if built == Built::Sanitized {
        command.args(["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"]);
    }
    command.arg("-I").arg(root().join("include")).arg("-I").arg(root().join("tests/c"));
    command.arg(&path).arg("-o").arg(&made);
    command.arg("-L").arg(&folder).arg("-lcenote").arg(format!("-Wl,-rpath,{}", folder.display()));
    let output = command.output().unwrap_or_else(|error| panic!("cc: {error}"));
    assert!(output.status.success(), "{source}: {}", String::from_utf8_lossy(&output.stderr));
    std::fs::rename(&made, &program).expect("a program can be renamed");
    program
}

/// A program that is to be run with these arguments.
pub(crate) fn command(source: &str, built: Built, arguments: &[&str]) -> Command {
    let mut command = Command::new(build(source, built));
    command.args(arguments).stdin(Stdio::null());
    command
}

/// Runs a program to its good end; what it printed.
pub(crate) fn run(source: &str, arguments: &[&str]) -> String {
    let output = command(source, Built::Sanitized, arguments).output().expect("the program starts");
    said(source, output)
}

pub(crate) fn said(source: &str, output: Output) -> String {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{source}: {}\n{errors}", output.status);
    assert_eq!(errors, "", "{source} says nothing of trouble, nor does the library");
    String::from_utf8(output.stdout).expect("it prints text")
}

/// Starts a program that is talked with by its input and output.
pub(crate) fn start(source: &str, built: Built, arguments: &[&str]) -> Child {
    let mut command = command(source, built, arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("the program starts")
}
