//! Side-by-side benchmark of cenote against its peers and against the floor.
//!
//! `driver` compares the drivers alone, without HTTP: one-row lookups by id. Contenders take turns, each in a process
//! of its own, and every figure is formed from the same run. `head-of-line` compares cenote with itself: how long lookups
//! take beside a slow statement, and without it. Both print a table, or one JSON object that keeps every round.
//!
//! Two programs are made of it: `cenote-bench`, which measures time, and its twin `cenote-bench-allocations`, in whose
//! processes allocations are counted.
//!
//! It starts no server and fills no table: `scripts/servers up` does both.

mod cli;
mod driver;
mod head_of_line;
mod machine;
mod measure;
mod report;
mod summary;
mod table;

use std::process::ExitCode;

use clap::Parser;

use crate::cli::{Cli, Command, DriverOptions, HeadOfLineOptions, HeadOfLineTurnOptions, TurnOptions};

/// Tells on stderr who speaks.
const ERROR_PREFIX: &str = "cenote-bench: ";

/// Which allocator the program that calls `run` was linked with.
#[derive(Clone, Copy, Debug)]
pub enum Allocator {
    /// The system's own: nothing is counted and nothing is disturbed.
    System,
    /// One that counts allocations and so costs some CPU time.
    Counting,
}

/// The whole program: reads the command line, does what it says, prints the outcome.
pub fn run(allocator: Allocator) -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Driver(options) => compare_drivers(&options),
        Command::Turn(options) => take_turn(&options, allocator),
        Command::HeadOfLine(options) => measure_head_of_line(&options),
        Command::HeadOfLineTurn(options) => take_head_of_line_turn(&options),
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

fn take_turn(options: &TurnOptions, allocator: Allocator) -> anyhow::Result<()> {
    let turn = driver::take_turn(options.contender, &options.load, allocator)?;
    println!("{}", serde_json::to_string(&turn)?);
    Ok(())
}

fn measure_head_of_line(options: &HeadOfLineOptions) -> anyhow::Result<()> {
    let comparison = head_of_line::compare(options)?;
    let report = head_of_line::Report::of(&comparison);
    if options.json {
        println!("{}", serde_json::to_string(&report)?);
    } else {
        print!("{report}");
    }
    Ok(())
}

fn take_head_of_line_turn(options: &HeadOfLineTurnOptions) -> anyhow::Result<()> {
    let turn = head_of_line::take_turn(options.company, &options.load)?;
    println!("{}", serde_json::to_string(&turn)?);
    Ok(())
}
