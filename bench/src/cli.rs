//! The command line: what is compared, for how long and against which server.
//!
//! It only parses and checks; nothing here connects or measures.

use std::num::NonZeroUsize;

use anyhow::ensure;
use clap::{Args, Parser, Subcommand};
use serde::Serialize;

use crate::driver::{ContenderName, Database};
use crate::head_of_line::Company;

/// Fewer rounds say little about the spread on a shared machine.
const ROUNDS_MIN: i64 = 5;

/// Below this the kernel's accounting of CPU time (a tick is 4 ms on many systems) decides the figures.
const SECONDS_MIN: f64 = 0.1;

/// Three times the slow statement: once unknown, then known to be slow.
const HEAD_OF_LINE_SECONDS: &str = "6";

/// An hour per turn; more is a typing error.
const SECONDS_MAX: f64 = 3_600.0;

#[derive(Debug, Parser)]
#[command(name = "cenote-bench", version, about)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Compare the drivers alone: one-row lookups by id
    Driver(DriverOptions),
    /// One contender's turn, started by `driver` in a process of its own
    #[command(hide = true)]
    Turn(TurnOptions),
    /// Compare cenote with itself: one-row lookups beside a slow statement, and without it
    HeadOfLine(HeadOfLineOptions),
    /// One turn of `head-of-line`, started by it in a process of its own
    #[command(hide = true)]
    HeadOfLineTurn(HeadOfLineTurnOptions),
}

#[derive(Debug, Args, Serialize)]
pub(crate) struct DriverOptions {
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) load: Load,

    /// Rounds; in each, every contender has one turn
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(ROUNDS_MIN..))]
    pub(crate) rounds: u32,

    /// Print one JSON object instead of a table
    #[arg(long)]
    #[serde(skip)]
    pub(crate) json: bool,

    /// Run cenote's C ABI as well, from a program in C: needs a C compiler
    #[arg(long)]
    pub(crate) abi: bool,

    /// Run only these contenders: cenote, tokio-postgres or mysql-async, floor
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    #[serde(skip)]
    only: Vec<ContenderName>,
}

#[derive(Debug, Args)]
pub(crate) struct TurnOptions {
    pub(crate) contender: ContenderName,

    #[command(flatten)]
    pub(crate) load: Load,
}

#[derive(Debug, Args, Serialize)]
#[command(mut_arg("seconds", |seconds| seconds.default_value(HEAD_OF_LINE_SECONDS)))]
pub(crate) struct HeadOfLineOptions {
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) load: Load,

    /// Rounds; in each there is a turn with the slow statement and one without
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(ROUNDS_MIN..))]
    pub(crate) rounds: u32,

    /// Print one JSON object instead of a table
    #[arg(long)]
    #[serde(skip)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct HeadOfLineTurnOptions {
    pub(crate) company: Company,

    #[command(flatten)]
    pub(crate) load: Load,
}

/// What every contender has to do, where and for how long.
#[derive(Debug, Args, Serialize)]
pub(crate) struct Load {
    /// Seconds measured per contender and round, after a warm-up
    #[arg(long, default_value = "3", value_parser = parse_seconds)]
    pub(crate) seconds: f64,

    /// Callers that each wait for one query at a time
    #[arg(long, default_value = "256")]
    pub(crate) callers: NonZeroUsize,

    /// Connections, shared by all callers
    #[arg(long, default_value = "8")]
    pub(crate) connections: NonZeroUsize,

    /// Client threads; callers are divided among them
    #[arg(long, default_value = "1")]
    pub(crate) threads: NonZeroUsize,

    /// The drivers for MySQL and MariaDB instead of those for Postgres
    #[arg(long)]
    pub(crate) mysql: bool,

    /// The server; taken from POSTGRES_URL or MYSQL_URL when not given
    #[arg(long)]
    #[serde(skip)]
    url: Option<String>,
}

impl Load {
    /// Whose drivers are compared.
    pub(crate) fn database(&self) -> Database {
        if self.mysql { Database::Mysql } else { Database::Postgres }
    }

    /// The server to ask, or what to do when none is named.
    pub(crate) fn url(&self) -> anyhow::Result<String> {
        let named = self.url.clone().or_else(|| std::env::var(self.database().url_variable()).ok());
        let url = named.unwrap_or_default();
        ensure!(
            !url.is_empty(),
            "no server given: start one with `scripts/servers up`, then run `eval \"$(scripts/servers env)\"`, \
             or pass --url"
        );
        Ok(url)
    }

    /// The same load for another process, for its own time. The URL, which holds a password, goes by environment.
    pub(crate) fn arguments(&self, seconds: f64) -> Vec<String> {
        let mut arguments = vec![
            format!("--seconds={seconds}"),
            format!("--callers={}", self.callers),
            format!("--connections={}", self.connections),
            format!("--threads={}", self.threads),
        ];
        if self.mysql {
            arguments.push("--mysql".to_owned());
        }
        arguments
    }

    /// Every thread needs a connection, and every connection a caller: else a contender would stand idle in part.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        ensure!(
            self.connections >= self.threads,
            "{} client threads need at least as many connections, not {}",
            self.threads,
            self.connections
        );
        ensure!(
            self.callers >= self.connections,
            "{} connections need at least as many callers, not {}",
            self.connections,
            self.callers
        );
        Ok(())
    }
}

impl HeadOfLineOptions {
    /// One caller is the slow one, and without others nobody is held up.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        ensure!(self.load.callers.get() > 1, "one of the callers is slow, so at least 2 are needed");
        self.load.check()
    }
}

impl DriverOptions {
    /// The contenders to run, each once, in the order in which they are reported.
    pub(crate) fn contenders(&self) -> anyhow::Result<Vec<ContenderName>> {
        let mut known = self.load.database().contenders().to_vec();
        if self.abi {
            known.push(ContenderName::CenoteAbi);
            known.sort();
        }
        for name in &self.only {
            ensure!(known.contains(name), "{} takes no part on this database", name.as_str());
        }
        Ok(known.into_iter().filter(|name| self.only.is_empty() || self.only.contains(name)).collect())
    }
}

fn parse_seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (SECONDS_MIN..=SECONDS_MAX).contains(&seconds) => Ok(seconds),
        _ => Err(format!("a number from {SECONDS_MIN} to {SECONDS_MAX} is needed")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn driver_options(arguments: &[&str]) -> Result<DriverOptions, clap::Error> {
        let words = ["cenote-bench", "driver"].iter().chain(arguments);
        match Cli::try_parse_from(words)?.command {
            Command::Driver(options) => Ok(options),
            other => unreachable!("the words ask for the driver, not for {other:?}"),
        }
    }

    #[test]
    fn defaults_are_the_headline_case() {
        let options = driver_options(&[]).expect("no argument is needed");
        assert_eq!(options.load.seconds, 3.0);
        assert_eq!(options.rounds, 5);
        assert_eq!(options.load.callers.get(), 256);
        assert_eq!(options.load.connections.get(), 8);
        assert_eq!(options.load.threads.get(), 1);
        assert!(!options.json);
    }

    #[test]
    fn fewer_than_five_rounds_are_refused() {
        assert!(driver_options(&["--rounds", "4"]).is_err());
        assert!(driver_options(&["--rounds", "5"]).is_ok());
    }

    #[test]
    fn seconds_that_measure_nothing_are_refused() {
        for seconds in ["0", "-1", "0.05", "NaN", "inf", "3601", "three"] {
            let argument = format!("--seconds={seconds}");
            assert!(driver_options(&[&argument]).is_err(), "{seconds}");
        }
        assert!(driver_options(&["--seconds", "0.1"]).is_ok());
    }

    #[test]
    fn only_keeps_the_order_of_the_report_and_drops_repeats() {
        let options = driver_options(&["--only", "floor,tokio-postgres,floor"]).expect("both names are known");
        let contenders = options.contenders().expect("both take part");
        assert_eq!(contenders, [ContenderName::TokioPostgres, ContenderName::Floor]);
        assert!(driver_options(&["--only", "nobody"]).is_err());
    }

    #[test]
    fn the_abi_takes_part_when_it_is_asked_for() {
        let contenders = |arguments: &[&str]| driver_options(arguments).expect("the names are known").contenders();
        let all = contenders(&["--abi"]).expect("it takes part everywhere");
        assert_eq!(all[..2], [ContenderName::Cenote, ContenderName::CenoteAbi]);
        assert!(!contenders(&[]).expect("all take part").contains(&ContenderName::CenoteAbi));
        assert!(contenders(&["--only=cenote-abi"]).is_err());
    }

    #[test]
    fn a_driver_for_the_other_database_is_refused() {
        let contenders = |arguments: &[&str]| driver_options(arguments).expect("the names are known").contenders();
        assert!(contenders(&["--only=mysql-async"]).is_err());
        assert!(contenders(&["--mysql", "--only=tokio-postgres"]).is_err());
        assert!(contenders(&["--mysql", "--only=mysql-async"]).is_ok());
    }

    #[test]
    fn idle_threads_and_connections_are_refused() {
        let check = |arguments: &[&str]| driver_options(arguments).expect("the numbers are in range").load.check();
        assert!(check(&["--threads", "2"]).is_ok());
        assert!(check(&["--threads", "9"]).is_err());
        assert!(check(&["--callers", "7"]).is_err());
    }

    #[test]
    fn a_load_reaches_another_process_whole_but_for_its_url() {
        let options = driver_options(&[
            "--seconds=0.25",
            "--callers=64",
            "--connections=4",
            "--threads=2",
            "--mysql",
            "--url=secret",
        ])
        .expect("the numbers are in range");
        let arguments = options.load.arguments(0.25);
        let words = ["cenote-bench", "turn", "floor"].map(str::to_owned).into_iter().chain(arguments.clone());
        let Command::Turn(turn) = Cli::try_parse_from(words).expect("the turn takes the same load").command else {
            panic!("the words ask for a turn");
        };
        assert_eq!(turn.contender, ContenderName::Floor);
        assert_eq!(turn.load.arguments(turn.load.seconds), arguments);
        assert!(!arguments.concat().contains("secret"), "{arguments:?}");
    }

    #[test]
    fn head_of_line_is_given_time_for_three_slow_statements_or_what_is_asked() {
        let options = |arguments: &[&str]| {
            let words = ["cenote-bench", "head-of-line"].iter().chain(arguments);
            match Cli::try_parse_from(words).expect("the words are known").command {
                Command::HeadOfLine(options) => options,
                other => unreachable!("the words ask for head-of-line, not for {other:?}"),
            }
        };
        assert_eq!(options(&[]).load.seconds, 6.0);
        assert_eq!(options(&["--seconds=0.5"]).load.seconds, 0.5);
        assert!(options(&[]).check().is_ok());
        assert!(options(&["--callers=1", "--connections=1"]).check().is_err(), "a slow caller alone");
    }

    #[test]
    fn a_missing_url_names_the_way_to_get_one() {
        let options = driver_options(&["--url", ""]).expect("an empty URL parses");
        let error = options.load.url().expect_err("an empty URL names no server");
        assert!(error.to_string().contains("scripts/servers env"), "{error}");
    }
}
