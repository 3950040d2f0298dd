//! The benchmark, on the system's allocator.

use std::process::ExitCode;

use cenote_bench::Allocator;

fn main() -> ExitCode {
    cenote_bench::run(Allocator::System)
}
