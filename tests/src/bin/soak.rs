//! `make soak`: see `cenote_tests::soak`.
//!
//! `soak [--seconds N] [--seed N] [postgres] [mysql] [mariadb]`. Ends with 1 when something was violated.

use std::process::ExitCode;
use std::time::Duration;

use cenote_tests::soak::{Database, Options, run};

/// Long enough for some restarts.
const SECONDS: u64 = 60;

fn main() -> ExitCode {
    let options = match read(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(text) => {
            eprintln!("soak: {text}");
            return ExitCode::from(2);
        }
    };
    println!("soak for {} s, --seed {}", options.time.as_secs(), options.seed);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let report = runtime.expect("a runtime").block_on(run(&options));
    println!("{report}");
    let violations = report.violations();
    for violation in &violations {
        println!("VIOLATION {violation}");
    }
    if violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn read(mut arguments: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options = Options { time: Duration::from_secs(SECONDS), seed: fastrand::u64(..), databases: Vec::new() };
    while let Some(argument) = arguments.next() {
        let mut number = || {
            let text = arguments.next().ok_or_else(|| format!("{argument} needs a number"))?;
            text.parse::<u64>().map_err(|error| format!("{argument} {text}: {error}"))
        };
        match argument.as_str() {
            "--seconds" => options.time = Duration::from_secs(number()?),
            "--seed" => options.seed = number()?,
            name => {
                let database = Database::ALL.into_iter().find(|database| database.name() == name);
                options.databases.push(database.ok_or_else(|| format!("there is no database {name}"))?);
            }
        }
    }
    if options.databases.is_empty() {
        options.databases = Database::ALL.to_vec();
    }
    Ok(options)
}
