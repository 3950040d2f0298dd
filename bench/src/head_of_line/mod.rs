//! What a slow statement does to the quick ones beside it: one caller runs one of 2 s again and again, all others look up
//! rows, on one pool; against the same without the slow caller.
//!
//! ```text
//! round 1   alone         beside-slow
//! round 2   beside-slow   alone        ...
//!             |
//!             +-- one turn: a process that connects, warms up, then times every lookup that is begun in its window
//! ```
//!
//! The slow statement is first run when the window begins, so that lookups which it catches while the pool does not know
//! it yet are among those that count. A lookup counts however late it is answered.
//!
//! Callers ask again once they are answered. So one who is held up for 2 s is one long lookup and not the many that he
//! would have made: percentiles alone could hide some such callers. So those who are held up are counted, and the longest
//! lookup is reported.

mod latencies;
mod report;
mod turn;

use std::str::FromStr;

use anyhow::Context;
use serde::Serialize;

use crate::cli::HeadOfLineOptions;
use crate::driver::process::{take_turn as take_turn_elsewhere, this_program};
use crate::driver::world;
use crate::machine::Machine;
pub(crate) use latencies::Latencies;
pub(crate) use report::Report;
pub(crate) use turn::{LookupsTurn, take as take_turn};

/// Who is there beside those who look up rows.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Company {
    /// Nobody.
    Alone,
    /// One who runs a slow statement.
    BesideSlow,
}

impl Company {
    const ALL: [Self; 2] = [Self::Alone, Self::BesideSlow];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Alone => "alone",
            Self::BesideSlow => "beside-slow",
        }
    }
}

impl FromStr for Company {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let known = Self::ALL.map(Self::as_str).join(", ");
        Self::ALL.into_iter().find(|company| company.as_str() == text).ok_or_else(|| format!("known are {known}"))
    }
}

/// All that a run recorded.
pub(crate) struct Comparison<'run> {
    settings: &'run HeadOfLineOptions,
    machine: Machine,
    rounds: Vec<Round>,
}

/// Both turns of one round.
#[derive(Debug, Serialize)]
struct Round {
    alone: LookupsTurn,
    beside_slow: LookupsTurn,
}

/// Runs all rounds; says on stderr how far it is.
pub(crate) fn compare(options: &HeadOfLineOptions) -> anyhow::Result<Comparison<'_>> {
    options.check()?;
    let load = &options.load;
    let (_, server) = world::load(load)?;
    let machine = Machine::describe(server);
    let program = this_program()?;
    let turn = |number: u32, company: Company| -> anyhow::Result<LookupsTurn> {
        let words = ["head-of-line-turn", company.as_str()];
        let turn: LookupsTurn = take_turn_elsewhere(&program, &words, load, load.seconds)
            .with_context(|| format!("the turn {} failed, so the run is void", company.as_str()))?;
        report_progress(number, options.rounds, company, &turn);
        Ok(turn)
    };
    let mut rounds = Vec::new();
    for number in 0..options.rounds {
        // Each goes first in every other round: what else the machine does meets both.
        let round = if number.is_multiple_of(2) {
            let alone = turn(number, Company::Alone)?;
            Round { alone, beside_slow: turn(number, Company::BesideSlow)? }
        } else {
            let beside_slow = turn(number, Company::BesideSlow)?;
            Round { alone: turn(number, Company::Alone)?, beside_slow }
        };
        rounds.push(round);
    }
    Ok(Comparison { settings: options, machine, rounds })
}

fn report_progress(round: u32, rounds: u32, company: Company, turn: &LookupsTurn) {
    let latencies = turn.latencies;
    eprintln!(
        "round {} of {rounds}: {:<11} {:>9.0} lookups/s, p50 {} us, p99 {} us, p99.9 {} us, longest {} us",
        round + 1,
        company.as_str(),
        turn.lookups_per_s(),
        latencies.p50_us,
        latencies.p99_us,
        latencies.p999_us,
        latencies.longest_us,
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn companies_are_read_as_they_are_written() {
        for company in Company::ALL {
            assert_eq!(company.as_str().parse(), Ok(company));
        }
        assert!("crowded".parse::<Company>().is_err());
    }
}
