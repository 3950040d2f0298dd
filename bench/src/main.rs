//! Side-by-side benchmark of cenote against its peers and against the floor.
//!
//! `driver` compares the drivers alone, without HTTP: one-row lookups by id. Contenders take turns, each in a process
//! of its own, and every figure is formed from the same run. It prints a table, or one JSON object that keeps every round.
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

use crate::cli::{Cli, Command, DriverOptions, TurnOptions};

/// Tells on stderr who speaks.
const ERROR_PREFIX: &str = "cenote-bench: ";

/// Counts allocations for `allocations_per_query`; every contender runs on it.
///
/// Of the published counters this one costs least: per-thread counters without locked instructions, 3 ns for each
/// allocation with its release, beside 34 ns of the allocator's own (four atomic additions cost 20 ns). That is 1.3 %
/// of what tokio-postgres with its 15 allocations per query uses. Without the feature nothing is counted.
#[cfg(feature = "count-allocations")]
#[global_allocator]
static ALLOCATOR: alloc_tracker::Allocator<std::alloc::System> = alloc_tracker::Allocator::system();

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Driver(options) => compare_drivers(&options),
        Command::Turn(options) => take_turn(&options),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{ERROR_PREFIX}{error:#}");
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

fn take_turn(options: &TurnOptions) -> anyhow::Result<()> {
    let turn = driver::take_turn(options.contender, &options.load)?;
    println!("{}", serde_json::to_string(&turn)?);
    Ok(())
}
