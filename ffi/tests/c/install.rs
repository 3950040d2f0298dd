//! `make install`, and a program built with what it installed; and what may not be built.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::program::{library, root, said, soname};

fn words(command: &mut Command) -> Vec<String> {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).split_whitespace().map(str::to_owned).collect()
}

/// Removed with all that is in it.
struct Prefix(PathBuf);

impl Drop for Prefix {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_program_is_built_with_what_was_installed() {
    let prefix = Prefix(Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("prefix-{}", std::process::id())));
    let path = prefix.0.to_str().expect("a path of text");
    let built = library();
    let folder = built.parent().and_then(Path::to_str).expect("a path of text");
    let workspace = root().parent().expect("the crate is in the workspace");
    let mut make = Command::new("make");
    make.arg("-C").arg(workspace).arg("install").arg(format!("PREFIX={path}")).arg(format!("LIBRARY={folder}"));
    words(make.env_remove("MAKEFLAGS").env_remove("DESTDIR"));

    let version = env!("CARGO_PKG_VERSION");
    let lib = prefix.0.join("lib");
    assert_eq!(std::fs::read_link(lib.join("libcenote.so")).ok(), Some(soname().into()));
    assert_eq!(std::fs::read_link(lib.join(soname())).ok(), Some(format!("libcenote.so.{version}").into()));
    assert!(lib.join(format!("libcenote.so.{version}")).is_file() && lib.join("libcenote.a").is_file());

    let described = std::fs::read_to_string(lib.join("pkgconfig/cenote.pc")).expect("it is there");
    assert!(described.contains(&format!("Version: {version}\n")) && !described.contains('@'), "{described}");
    let flags = if Command::new("pkg-config").arg("--version").output().is_ok() {
        words(
            Command::new("pkg-config")
                .args(["--cflags", "--libs", "cenote"])
                .env("PKG_CONFIG_PATH", lib.join("pkgconfig")),
        )
    } else {
        vec![format!("-I{path}/include"), format!("-L{path}/lib"), "-lcenote".to_owned()]
    };
    let program = prefix.0.join("blocking");
    let source = root().join("examples/blocking.c");
    words(
        Command::new("cc")
            .args(["-std=c11", "-Wall", "-Wextra", "-Werror"])
            .arg(source)
            .args(flags)
            .arg("-o")
            .arg(&program),
    );
    let mut run = Command::new(&program);
    let output = run.arg(cenote_tests::postgres_url()).env("LD_LIBRARY_PATH", &lib).output().expect("it starts");
    assert!(said("blocking", output).starts_with("7: "));
}

/// Its dependencies are not there, which is said as well; but a build that lets a panic abort is refused by name.
#[test]
fn a_build_where_panics_abort_is_refused() {
    let refusal = |panics: &str| {
        let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let mut command = Command::new(rustc);
        command.args([
            "--edition=2024",
            "--crate-type=lib",
            "--emit=metadata",
            "--out-dir",
            env!("CARGO_TARGET_TMPDIR"),
        ]);
        let output = command.arg(panics).arg(root().join("src/lib.rs")).output().expect("rustc runs");
        String::from_utf8_lossy(&output.stderr).contains("build cenote with panic=unwind")
    };
    assert!(refusal("-Cpanic=abort"));
    assert!(!refusal("-Cpanic=unwind"));
}
