//! The C headers: `cenote.h` is what the sources say, its numbers are Cargo's and Rust's, and both headers compile alone.

use std::fmt::Write as _;
use std::io::Write as _;
use std::mem::offset_of;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cenote::block::{CenoteBlock, CenoteColumn};
use cenote::delivery::{CenoteCompletion, CenoteContextOptions, CenoteCounts};
use cenote::error::CenoteErrorInfo;
use cenote::http::{CenoteHttpAnswer, CenoteHttpOptions, CenoteHttpRequest};
use cenote::pool::CenotePoolStats;
use cenote::request::{CenoteRequest, CenoteStatement};
use cenote::value::CenoteValue;

/// Set to anything, it has the header written instead of compared.
const WRITES: &str = "CENOTE_WRITE_HEADER";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn header_path() -> PathBuf {
    root().join("include/cenote.h")
}

fn header() -> String {
    std::fs::read_to_string(header_path()).expect("the header is there")
}

/// As the sources say it is.
fn made() -> String {
    let config = cbindgen::Config::from_file(root().join("cbindgen.toml")).expect("the settings are good");
    let bindings = cbindgen::Builder::new().with_src(root().join("src/lib.rs")).with_config(config).generate();
    let mut bytes = Vec::new();
    bindings.expect("the sources can be read").write(&mut bytes);
    String::from_utf8(bytes).expect("it is text")
}

#[test]
fn the_header_is_what_the_sources_say() {
    let made = made();
    let unnamed = made.split(|letter: char| !letter.is_alphanumeric()).find(|word| word.starts_with("Cenote"));
    assert_eq!(unnamed, None, "this struct has no name in C: add one to [export.rename] in ffi/cbindgen.toml");
    if std::env::var_os(WRITES).is_some() {
        std::fs::write(header_path(), made).expect("the header can be written");
    } else {
        let is_same = made == std::fs::read_to_string(header_path()).unwrap_or_default();
        assert!(is_same, "ffi/include/cenote.h is out of date: {WRITES}=1 cargo test -p cenote-ffi --test header");
    }
}

/// What a `#define` of the header says.
fn defined(name: &str) -> String {
    let header = header();
    let mut lines = header.lines().filter_map(|line| line.strip_prefix("#define ")?.split_once(' '));
    lines.find(|(defined, _)| *defined == name).unwrap_or_else(|| panic!("{name} is not defined")).1.to_owned()
}

#[test]
fn the_headers_version_is_cargos() {
    assert_eq!(defined("CENOTE_VERSION_MAJOR"), env!("CARGO_PKG_VERSION_MAJOR"));
    assert_eq!(defined("CENOTE_VERSION_MINOR"), env!("CARGO_PKG_VERSION_MINOR"));
    assert_eq!(defined("CENOTE_VERSION_PATCH"), env!("CARGO_PKG_VERSION_PATCH"));
    let abi: u32 = defined("CENOTE_ABI_VERSION_MAJOR").parse().expect("a number");
    let minor: u32 = defined("CENOTE_ABI_VERSION_MINOR").parse().expect("a number");
    assert_eq!(cenote::version::cenote_abi_version(), abi << 16 | minor);
}

/// Both languages, as strict as they come.
fn compilers() -> [Vec<&'static str>; 2] {
    let strict = ["-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only"];
    let with = |compiler: [&'static str; 4]| compiler.into_iter().chain(strict).collect();
    [with(["cc", "-std=c11", "-x", "c"]), with(["c++", "-std=c++17", "-x", "c++"])]
}

fn compiles(compiler: &[&str], source: &str) {
    let mut command = Command::new(compiler[0]);
    command.args(&compiler[1..]).arg("-I").arg(root().join("include")).arg("-");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap_or_else(|error| panic!("{}: {error}", compiler[0]));
    child.stdin.take().expect("it is ours").write_all(source.as_bytes()).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{compiler:?}\n{said}");
}

#[test]
fn each_header_compiles_alone_and_twice() {
    for compiler in compilers() {
        for name in ["cenote.h", "cenote_block.h"] {
            let include = format!("#include \"{name}\"\n");
            compiles(&compiler, &format!("{include}{include}"));
        }
    }
}

/// Lines that compile where C lays a struct out as Rust does.
macro_rules! layout {
    ($lines:ident, $type:ident as $name:literal { $($field:ident),* }) => {
        let size = size_of::<$type>();
        writeln!($lines, "STATIC_ASSERT(sizeof({}) == {size}, \"{0}\");", $name).unwrap();
        // Named in full: a field that is missing here does not compile.
        let _ = |value: $type| { let $type { $($field: _),* } = value; };
        $(
            let (field, offset) = (stringify!($field), offset_of!($type, $field));
            writeln!($lines, "STATIC_ASSERT(offsetof({}, {field}) == {offset}, \"{field}\");", $name).unwrap();
        )*
    };
}

#[test]
fn structs_are_laid_out_as_in_rust() {
    let mut lines = "#include \"cenote_block.h\"\n#ifdef __cplusplus\n#define STATIC_ASSERT static_assert\n\
        #else\n#define STATIC_ASSERT _Static_assert\n#endif\n"
        .to_owned();
    layout!(lines, CenoteBlock as "cenote_block" {
        magic, flags, columns, rows, rows_affected, last_insert_id, warnings, columns_at, fields_at, values_at, length, reserved
    });
    layout!(lines, CenoteColumn as "cenote_column" { name_at, name_length, type_code, flags });
    layout!(lines, CenoteCompletion as "cenote_completion" { tag, status, flags, value, length, handle });
    layout!(lines, CenoteContextOptions as "cenote_context_options" {
        size, wake, function, data, dart_api, dart_port, operations_max
    });
    layout!(lines, CenoteCounts as "cenote_object_counts" { size, reserved, contexts, pools, sessions, blocks, errors, servers });
    layout!(lines, CenoteHttpAnswer as "cenote_http_response" {
        length, request, status, flags, content_type_length, headers_length, body_length
    });
    layout!(lines, CenoteHttpOptions as "cenote_http_options" {
        size, flags, address, address_length, body_bytes_max, connections_max, stop_deadline_ms, keep_alive_timeout_ms
    });
    layout!(lines, CenoteHttpRequest as "cenote_http_request" {
        request, method_at, method_length, path_at, path_length, query_at, query_length, headers_at, headers_length,
        body_at, body_length
    });
    layout!(lines, CenoteErrorInfo as "cenote_error_numbers" {
        size, status, number, sent, position, internal_position, line, batch_index
    });
    layout!(lines, CenotePoolStats as "cenote_pool_counters" {
        size, reserved, connections_max, connections, leases, in_flight, waiting, waiting_for_lease, replies, writes, reads,
        bytes_written, bytes_read, connects, connect_failures, connections_lost, leases_taken, leases_restored,
        lost_after_sent
    });
    layout!(lines, CenoteRequest as "cenote_request" {
        length, tag, target, flags, timeout_ms, statements_at, statement_count, is_batch
    });
    layout!(lines, CenoteStatement as "cenote_statement" { sql, sql_length, values, value_count });
    layout!(lines, CenoteValue as "cenote_value" { kind, reserved, bits, data, length });
    let structs = header().lines().filter(|line| line.starts_with("typedef struct")).count();
    assert_eq!(lines.matches("sizeof").count(), structs, "a struct of the header is not looked at here");
    for compiler in compilers() {
        compiles(&compiler, &lines);
    }
}
