//! The invariants of ARCHITECTURE.md that can be read from the sources: who depends on whom, what the pure parts use,
//! and that the documents say what the code says.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

fn root() -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests.parent().expect("the crate is in the workspace").to_owned()
}

fn read(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// What each crate may use of the workspace.
const MAY_DEPEND_ON: &[(&str, &[&str])] = &[
    ("cenote-pool", &[]),
    ("cenote-postgres", &["cenote-pool"]),
    ("cenote-mysql", &["cenote-pool"]),
    ("cenote-http", &[]),
    ("cenote-ffi", &["cenote-http", "cenote-mysql", "cenote-pool", "cenote-postgres"]),
    ("cenote-demo", &["cenote-http", "cenote-mysql", "cenote-postgres"]),
    ("cenote-bench", &["cenote-demo", "cenote-mysql", "cenote-postgres"]),
    ("cenote-tests", &["cenote-demo", "cenote-http", "cenote-mysql", "cenote-pool", "cenote-postgres"]),
];

#[test]
fn no_crate_depends_upward() {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--no-deps", "--offline"])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo prints JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    for package in packages {
        let name = package["name"].as_str().expect("a name");
        let allowed = MAY_DEPEND_ON.iter().find(|(known, _)| *known == name);
        let (_, allowed) = allowed.unwrap_or_else(|| panic!("{name} has no place in the map; give it one"));
        let dependencies = package["dependencies"].as_array().expect("dependencies");
        let used: BTreeSet<&str> = dependencies
            .iter()
            .filter(|dependency| dependency["kind"].is_null())
            .filter_map(|dependency| dependency["name"].as_str())
            .filter(|dependency| dependency.starts_with("cenote"))
            .collect();
        for dependency in used {
            assert!(allowed.contains(&dependency), "{name} must not depend on {dependency}");
        }
    }
    assert_eq!(packages.len(), MAY_DEPEND_ON.len(), "every crate of the map is there");
}

/// Parts that decide, and do nothing: bytes, time and random numbers are arguments.
const WITHOUT_IO: &[&str] = &[
    "pool/src/backoff.rs",
    "pool/src/generations.rs",
    "pool/src/inbound.rs",
    "pool/src/language.rs",
    "pool/src/low_water.rs",
    "pool/src/pace.rs",
    "pool/src/service.rs",
    "pool/src/tenancy.rs",
    "pool/src/pipeline.rs",
    "pool/src/plan.rs",
    "pool/src/prepared.rs",
    "pool/src/retirement.rs",
    "pool/src/route.rs",
    "mysql/src/auth.rs",
    "mysql/src/auth/scramble.rs",
    "mysql/src/firewall.rs",
    "mysql/src/leaving.rs",
    "mysql/src/login.rs",
    "mysql/src/login/session.rs",
    "mysql/src/login/settling.rs",
    "mysql/src/reply.rs",
    "mysql/src/row.rs",
    "mysql/src/value/binary.rs",
    "mysql/src/value/parameter.rs",
    "mysql/src/value/text.rs",
    "mysql/src/wire/binary_row.rs",
    "mysql/src/wire/column.rs",
    "mysql/src/wire/cursor.rs",
    "mysql/src/wire/framer.rs",
    "mysql/src/wire/frontend.rs",
    "mysql/src/wire/handshake.rs",
    "mysql/src/wire/packet.rs",
    "mysql/src/wire/status.rs",
    "mysql/src/wire/text_row.rs",
    "postgres/src/auth.rs",
    "postgres/src/firewall.rs",
    "postgres/src/leaving.rs",
    "postgres/src/login.rs",
    "postgres/src/reply.rs",
    "postgres/src/row.rs",
    "postgres/src/wire/backend.rs",
    "postgres/src/wire/framer.rs",
    "postgres/src/wire/frontend.rs",
];

/// What a part that only decides has no use for.
const IO: &[&str] = &["tokio", "socket2", "std::net", "Instant", "SystemTime", "thread_local"];

#[test]
fn the_pure_parts_use_no_socket_no_clock_and_no_runtime() {
    for file in WITHOUT_IO {
        let source = read(file);
        let code = source.split("#[cfg(test)]").next().unwrap_or_default();
        for line in code.lines().filter(|line| !line.trim_start().starts_with("//")) {
            let used = IO.iter().find(|name| line.contains(**name));
            assert_eq!(used, None, "{file}: {line}");
        }
    }
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    for entry in entries {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => sources(&path, found),
            false => found.push(path),
        }
    }
}

/// What is old, idle or late is so by a clock that nobody sets: a machine's time may jump.
#[test]
fn nothing_depends_on_the_time_of_day() {
    let mut files = Vec::new();
    for folder in ["pool/src", "postgres/src", "mysql/src"] {
        sources(&root().join(folder), &mut files);
    }
    assert!(files.len() > 50, "{} files", files.len());
    for file in files {
        assert!(!read(&file).contains("SystemTime"), "{} asks for the time of day", file.display());
    }
}

#[test]
fn the_examples_of_the_readme_are_those_that_are_built() {
    for file in ["postgres/examples/first_query.rs", "mysql/examples/first_query.rs"] {
        let example = read(file);
        let (_, code) = example.split_once("\n\n").expect("a comment, an empty line, the code");
        assert!(read("README.md").contains(code), "README.md does not show {file} as it is");
    }
}

#[test]
fn every_crate_but_the_abi_forbids_unsafe_code() {
    assert!(read("Cargo.toml").contains("unsafe_code = \"forbid\""));
    for (name, _) in MAY_DEPEND_ON {
        let folder = name.trim_start_matches("cenote-");
        let manifest = read(format!("{folder}/Cargo.toml"));
        if folder == "ffi" {
            assert!(manifest.contains("undocumented_unsafe_blocks = \"warn\""), "each block there has its reason");
            continue;
        }
        assert!(
            manifest.contains("[lints]\nworkspace = true"),
            "{folder}/Cargo.toml does not take the workspace's lints"
        );
    }
}
