//! What a host does wrong: it is told, and nothing else happens.

use cenote_tests::mysql::Server;

use super::program::{root, run};

fn urls() -> [String; 2] {
    [cenote_tests::postgres_url(), Server::Mysql.url()]
}

/// A C function of the header, and the types and names of its parameters.
struct Function {
    name: String,
    is_void: bool,
    parameters: Vec<(String, String)>,
}

/// All functions of the header.
fn functions() -> Vec<Function> {
    let header = std::fs::read_to_string(root().join("include/cenote.h")).expect("the header is there");
    let mut code = String::new();
    let mut rest = header.as_str();
    while let Some((before, behind)) = rest.split_once("/*") {
        code.push_str(before);
        rest = behind.split_once("*/").expect("a comment ends").1;
    }
    code.push_str(rest);
    let declarations = code.split(';').filter_map(|declaration| {
        let (front, parameters) = declaration.trim().rsplit_once('(').filter(|(front, _)| !front.contains("(*"))?;
        // Behind the preprocessor's lines.
        let front = front.lines().last()?.trim();
        let (returned, name) = front.rsplit_once(' ')?;
        let parameters = parameters.trim_end_matches(')').split(',').map(str::trim).filter(|text| *text != "void");
        let parameters = parameters.map(|parameter| {
            let at = parameter.rfind([' ', '*']).expect("a type and a name") + 1;
            (parameter[..at].trim().to_owned(), parameter[at..].to_owned())
        });
        name.starts_with("cenote_").then(|| Function {
            name: name.to_owned(),
            is_void: returned == "void",
            parameters: parameters.collect(),
        })
    });
    declarations.collect()
}

/// Names of parameters that are handles.
const HANDLES: [&str; 8] = ["server", "context", "pool", "session", "transaction", "block", "error", "target"];

/// Calls that are good with nothing: there is nothing to be freed, or nothing is asked for.
fn may_be_nothing(function: &Function, parameter: &str) -> bool {
    function.name.ends_with("_free")
        || matches!(
            (function.name.as_str(), parameter),
            ("cenote_version", _)
                | ("cenote_http_listen", "error")
                | ("cenote_context_new", "options")
                | ("cenote_pool_open", "error" | "context")
        )
}

fn is_handle(kind: &str, name: &str) -> bool {
    kind == "uint64_t" && HANDLES.contains(&name)
}

/// What is given where nothing is wrong with it.
fn good(kind: &str, name: &str) -> String {
    let known = match name {
        "sql" => "\"select 1\"",
        "sql_length" => "8",
        "url" => "\"postgres://b@a/\"",
        "url_length" => "15",
        "capacity" => "sizeof buffer",
        "buffer" => "buffer",
        "options" if kind.contains("http") => "&listening",
        "value_count" | "statement_count" => "1",
        "tag" => "tag++",
        // Those that are made by the library are of its making; what comes out goes elsewhere.
        "context" | "pool" | "error" | "target" if kind == "uint64_t" => name,
        _ if kind == "size_t" => "8",
        _ if kind.ends_with('*') => return format!("({kind})out()"),
        _ => "0",
    };
    known.to_owned()
}

/// A call of every function with each of its pointers NULL and each of its handles forged, one at a time, and with nothing at
/// all.
fn calls() -> String {
    let mut calls = String::new();
    let functions = functions();
    assert!(functions.len() >= 30, "the header is not understood: {}", functions.len());
    for function in &functions {
        let line = |arguments: &[String], expected: &str| {
            let call = format!("{}({})", function.name, arguments.join(", "));
            if function.is_void { format!("    {call};\n") } else { format!("    check_{expected}({call});\n") }
        };
        let nothing: Vec<String> = function
            .parameters
            .iter()
            .map(|(kind, _)| if kind.ends_with('*') { "NULL".to_owned() } else { "0".to_owned() })
            .collect();
        let is_plain = function.parameters.is_empty();
        calls.push_str(&line(&nothing, if is_plain { "nothing" } else { "no_panic" }));
        for (at, (kind, name)) in function.parameters.iter().enumerate() {
            let with = |argument: &str| {
                let good = function.parameters.iter().map(|(kind, name)| good(kind, name));
                let mut arguments: Vec<String> = good.collect();
                arguments[at] = argument.to_owned();
                arguments
            };
            if kind.ends_with('*') && !function.is_void {
                let expected = if may_be_nothing(function, name) { "ok" } else { "null" };
                calls.push_str(&line(&with("NULL"), expected));
            } else if is_handle(kind, name) {
                for forged in ["1", "0xdeadbeef", "UINT64_MAX", "freed", "1ULL << 32", "1ULL << 63"] {
                    calls.push_str(&line(&with(forged), "handle"));
                }
                let expected = if may_be_nothing(function, name) { "ok" } else { "handle" };
                calls.push_str(&line(&with("0"), expected));
            }
        }
    }
    calls
}

#[test]
fn every_function_takes_null_and_forged_handles() {
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("every_function.c");
    let source = include_str!("every_function.c").replace("    /* calls */\n", &calls());
    if std::fs::read_to_string(&path).ok().as_deref() != Some(&source) {
        std::fs::write(&path, source).expect("a source can be written");
    }
    run(path.to_str().expect("a path of text"), &[]);
}

#[test]
fn what_was_freed_is_gone() {
    for url in urls() {
        run("tests/c/handles.c", &[&url]);
    }
}

#[test]
fn eight_threads_call_while_another_closes() {
    for url in urls() {
        run("tests/c/close.c", &[&url]);
    }
}

#[test]
fn bytes_that_cannot_be_are_refused() {
    for url in urls() {
        run("tests/c/bytes.c", &[&url]);
    }
}

#[test]
fn a_wake_callback_may_call_back() {
    for url in urls() {
        run("tests/c/callback.c", &[&url]);
    }
}
