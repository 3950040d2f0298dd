//! Side-by-side benchmark of cenote against its peers and against the floor.
//!
//! `driver` compares the drivers alone, without HTTP: one-row lookups by id. Contenders take turns in one process,
//! and every figure is formed from the same run. It prints a table, or one JSON object that keeps every round.
//!
//! It starts no server and fills no table: `scripts/servers up` does both.

mod cli;
mod driver;
mod machine;
mod measure;
mod report;
mod summary;

use std::process::ExitCode;

use clap::Parser;

use crate::cli::{Cli, Command, DriverOptions};

/// Counts allocations for `allocations_per_query`. Of the published counters this one costs least: per-thread
/// counters without locked instructions, 3 ns per allocation and release where the allocator itself takes 34 ns (one
/// with four atomic additions takes 20 ns). Every contender runs on it.
#[global_allocator]
static ALLOCATOR: alloc_tracker::Allocator<std::alloc::System> = alloc_tracker::Allocator::system();

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Driver(options) => compare_drivers(&options),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cenote-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn compare_drivers(options: &DriverOptions) -> anyhow::Result<()> {
    let comparison = driver::compare(options)?;
    let report = report::Report::of(&comparison);
    if options.json {
        println!("{}", serde_json::to_string(&report)?);
    } else {
        print!("{report}");
    }
    Ok(())
}
