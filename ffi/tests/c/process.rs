//! In somebody else's process: its signals, its forks, its end, its names.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command};

use cenote_tests::PrivateServer;
use cenote_tests::mysql::Server;

use super::program::{Built, command, library, root, said, soname, start};

fn urls() -> [String; 2] {
    [cenote_tests::postgres_url(), Server::Mysql.url()]
}

/// Waits for a line of what the program prints.
fn await_line(child: &mut Child, line: &str) {
    let output = child.stdout.as_mut().expect("it is ours");
    let mut read = String::new();
    // Nothing follows until it is told to go on: no byte of what follows is in this reader.
    BufReader::new(output).read_line(&mut read).expect("it prints text");
    assert_eq!(read.trim_end(), line);
}

async fn survives(server: &PrivateServer, terms: &str) {
    let separator = if server.url().contains('?') { '&' } else { '?' };
    let url = format!("{}{separator}{terms}", server.url());
    // The sanitizers' own handlers are none of this.
    let mut child = start("tests/c/sigpipe.c", Built::Plain, &[&url]);
    let (mut child, _) = tokio::task::spawn_blocking(move || {
        await_line(&mut child, "asking");
        (child, ())
    })
    .await
    .expect("it gets an answer");
    server.kill().await;
    child.stdin.take().expect("it is ours").write_all(b"gone\n").expect("it is there");
    let output = tokio::task::spawn_blocking(move || child.wait_with_output()).await.expect("it ends");
    assert_eq!(said("sigpipe", output.expect("it has output")), "survived\n", "{terms}");
    server.start().await;
}

#[tokio::test]
async fn a_killed_postgres_raises_no_sigpipe() {
    let server = PrivateServer::postgres("sigpipe").await;
    for terms in ["sslmode=disable", "sslmode=require"] {
        survives(&server, terms).await;
    }
}

#[tokio::test]
async fn a_killed_mysql_raises_no_sigpipe() {
    let server = PrivateServer::mysql(Server::Mysql, "sigpipe").await;
    for terms in ["ssl-mode=disabled&allow-public-key-retrieval=true", "ssl-mode=required"] {
        survives(&server, terms).await;
    }
}

#[test]
fn forked_children_are_told_and_disturb_nobody() {
    for url in urls() {
        let mut command = command("tests/c/fork.c", Built::Sanitized, &[&url]);
        // A child has none of the threads, so what their stacks held looks lost.
        let output = command.env("ASAN_OPTIONS", "detect_leaks=0").output().expect("it starts");
        said("fork", output);
    }
}

#[test]
fn a_storm_of_signals_is_the_hosts_alone() {
    for url in urls() {
        let output = command("tests/c/signals.c", Built::Plain, &[&url]).output().expect("it starts");
        said("signals", output);
    }
}

#[test]
fn exit_with_statements_in_flight_is_an_ordinary_end() {
    for url in urls() {
        for _ in 0..10 {
            let output = command("tests/c/exit.c", Built::Sanitized, &[&url]).output().expect("it starts");
            let errors = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(7), "{errors}");
            assert_eq!(errors, "");
        }
    }
}

/// What the header declares and nothing else.
#[test]
fn the_library_exports_its_functions_alone() {
    let output = Command::new("nm").args(["-D", "--defined-only"]).arg(library()).output().expect("nm runs");
    let listed = String::from_utf8(output.stdout).expect("it is text");
    let exported: BTreeSet<&str> = listed.lines().filter_map(|line| line.split_whitespace().nth(2)).collect();
    let allowed = std::fs::read_to_string(root().join("tests/c/exported.txt")).expect("the list is there");
    let allowed: BTreeSet<&str> = allowed.lines().filter(|line| !line.is_empty()).collect();
    let header = std::fs::read_to_string(root().join("include/cenote.h")).expect("the header is there");
    assert_eq!(exported, allowed, "ffi/tests/c/exported.txt is the list of what may be exported");
    for name in exported {
        assert!(header.contains(&format!(" {name}(")), "{name} is not in the header");
    }
}

#[test]
fn the_library_stays_loaded_and_has_its_abis_name() {
    let output = Command::new("readelf").args(["--dynamic", "--wide"]).arg(library()).output().expect("readelf runs");
    let listed = String::from_utf8(output.stdout).expect("it is text");
    assert!(listed.contains("NODELETE"), "{listed}");
    assert!(listed.contains(&format!("[{}]", soname())), "{listed}");
}
