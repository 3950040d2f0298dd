//! The examples, as they are shown to people.

use std::process::Command;

use super::program::{Built, build, command, root, run, said};

#[test]
fn the_blocking_example_prints_its_rows() {
    let printed = run("examples/blocking.c", &[&cenote_tests::postgres_url()]);
    let ids: Vec<&str> = printed.lines().filter_map(|line| line.split_once(": ")).map(|(id, _)| id).collect();
    assert_eq!(ids, ["7", "8", "9"], "{printed}");
}

#[test]
fn the_blocking_example_says_what_went_wrong() {
    for (url, words) in
        [("postgres://[", "open: status -3: "), ("postgres://nobody@127.0.0.1:1/?connect_timeout=1", "query: status ")]
    {
        let output = command("examples/blocking.c", Built::Sanitized, &[url]).output().expect("it starts");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{errors}");
        assert!(errors.starts_with(words) && errors.trim_end().len() > words.len() + 3, "{errors}");
    }
}

#[test]
fn the_event_loop_example_asks_ten_thousand_times() {
    let printed = run("examples/event_loop.c", &[&cenote_tests::postgres_url()]);
    assert_eq!(printed, "10000 answers, 0 failed, sum 50005000\n");
}

#[test]
fn the_readmes_program_works_when_pasted() {
    let readme = std::fs::read_to_string(root().join("../README.md")).expect("the README is there");
    let program = readme.split("```c\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a program in C");
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("readme.c");
    if std::fs::read_to_string(&path).ok().as_deref() != Some(program) {
        std::fs::write(&path, program).expect("a source can be written");
    }
    let mut command = command(path.to_str().expect("a path of text"), Built::Sanitized, &[]);
    let output = command.env("POSTGRES_URL", cenote_tests::postgres_url()).output().expect("it starts");
    assert_eq!(said("README.md", output), "42\n");
}

#[test]
fn the_examples_are_clean_under_valgrind() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        // The sanitizers have looked at them above.
        return;
    }
    // Without TLS: what is written in assembler is not understood by valgrind.
    let url = cenote_tests::postgres_url();
    let url = format!("{url}{}sslmode=disable", if url.contains('?') { '&' } else { '?' });
    for source in ["examples/blocking.c", "examples/event_loop.c"] {
        let mut command = Command::new("valgrind");
        command.args([
            "--quiet",
            "--error-exitcode=99",
            "--leak-check=full",
            "--show-leak-kinds=definite",
            "--errors-for-leak-kinds=definite",
        ]);
        let output = command.arg(build(source, Built::Plain)).arg(&url).output();
        let output = output.expect("valgrind starts");
        assert!(output.status.success(), "{source}: {}", String::from_utf8_lossy(&output.stderr));
    }
}
