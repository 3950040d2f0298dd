//! The printed result of `head-of-line`: a table for people, one JSON object for programs, with the same figures.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::{Comparison, LookupsTurn, Round};
use crate::cli::HeadOfLineOptions;
use crate::driver::cenote::SLOW_STATEMENT_S;
use crate::machine::Machine;
use crate::summary::Spread;
use crate::table::{cell, write_rows};

/// How much longer the 99th percentile may be beside the slow statement.
const P99_RATIO_MAX: f64 = 1.5;

/// Ratios are small numbers on every line.
const RATIO_DECIMALS: usize = 2;

/// What is shown, and with how many decimal places.
const LINES: [(Figure, usize); 7] = [
    (Figure { name: "lookups_per_s", title: "lookups/s", value: LookupsTurn::lookups_per_s }, 0),
    (Figure { name: "p50_ms", title: "p50 ms", value: |turn| milliseconds(turn.latencies.p50_us) }, 2),
    (Figure { name: "p99_ms", title: "p99 ms", value: |turn| milliseconds(turn.latencies.p99_us) }, 2),
    (Figure { name: "p999_ms", title: "p99.9 ms", value: |turn| milliseconds(turn.latencies.p999_us) }, 2),
    (Figure { name: "longest_ms", title: "longest ms", value: |turn| milliseconds(turn.latencies.longest_us) }, 2),
    (Figure { name: "held_up", title: "held up over 1 s", value: |turn| turn.latencies.held_up as f64 }, 0),
    (Figure { name: "slow_statements", title: "slow statements", value: |turn| turn.slow_statements as f64 }, 0),
];

const P99: &str = "p99_ms";

/// One figure of a turn.
struct Figure {
    /// In the JSON.
    name: &'static str,
    /// In the table.
    title: &'static str,
    value: fn(&LookupsTurn) -> f64,
}

fn milliseconds(us: u32) -> f64 {
    f64::from(us) / 1_000.0
}

type Summary = BTreeMap<&'static str, Spread>;

#[derive(Serialize)]
pub(crate) struct Report<'run> {
    alone: Summary,
    beside_slow: Summary,
    /// Beside the slow statement, divided by alone, in each round.
    ratios: Summary,
    p99_ratio_max: f64,
    settings: &'run HeadOfLineOptions,
    machine: &'run Machine,
    rounds: &'run [Round],
}

impl<'run> Report<'run> {
    pub(crate) fn of(comparison: &'run Comparison<'_>) -> Self {
        let rounds = comparison.rounds.as_slice();
        Self {
            alone: summary(rounds, |round, value| value(&round.alone)),
            beside_slow: summary(rounds, |round, value| value(&round.beside_slow)),
            ratios: summary(rounds, |round, value| value(&round.beside_slow) / value(&round.alone)),
            p99_ratio_max: P99_RATIO_MAX,
            settings: comparison.settings,
            machine: &comparison.machine,
            rounds,
        }
    }
}

/// Each figure over all rounds. A ratio to nothing is no figure.
fn summary(rounds: &[Round], figure: impl Fn(&Round, fn(&LookupsTurn) -> f64) -> f64) -> Summary {
    let spread = |line: &Figure| {
        let values: Vec<_> = rounds.iter().map(|round| figure(round, line.value)).filter(|v| v.is_finite()).collect();
        Some((line.name, Spread::of(&values)?))
    };
    LINES.iter().filter_map(|(line, _)| spread(line)).collect()
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (settings, machine) = (self.settings, self.machine);
        writeln!(
            formatter,
            "One-row lookups by id beside a statement of {SLOW_STATEMENT_S} s: {} callers and the slow one, \
             {} connections, client threads: {}; {} rounds of {} s",
            settings.load.callers.get().saturating_sub(1),
            settings.load.connections,
            settings.load.threads,
            settings.rounds,
            settings.load.seconds
        )?;
        writeln!(
            formatter,
            "{}; {} x {}; {}\n",
            machine.server.version,
            machine.cores.unwrap_or_default(),
            machine.processor.as_deref().unwrap_or("unknown processor"),
            machine.server.date
        )?;
        let headings = ["median (min to max)", "alone", "beside the slow one", "beside / alone"];
        let mut rows = vec![headings.map(str::to_owned).to_vec()];
        for (line, decimals) in &LINES {
            let of = |summary: &Summary, decimals| {
                summary.get(line.name).map_or_else(|| "-".to_owned(), |spread| cell(spread, decimals))
            };
            rows.push(vec![
                line.title.to_owned(),
                of(&self.alone, *decimals),
                of(&self.beside_slow, *decimals),
                of(&self.ratios, RATIO_DECIMALS),
            ]);
        }
        write_rows(formatter, &rows)?;
        let Some(ratio) = self.ratios.get(P99) else { return Ok(()) };
        let verdict = if ratio.median <= P99_RATIO_MAX { "met" } else { "missed" };
        writeln!(formatter, "\np99 beside / alone: {:.2}; asked: at most {P99_RATIO_MAX}: {verdict}", ratio.median)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde_json::Value;

    use super::super::Latencies;
    use super::*;
    use crate::cli::{Cli, Command};
    use crate::driver::Turn;
    use crate::machine::Server;

    fn turn(p99_us: u32, slow_statements: u64) -> LookupsTurn {
        LookupsTurn {
            turn: Turn {
                seconds: 2.0,
                queries: 300_000,
                user_s: 0.1,
                system_s: 0.2,
                allocations: None,
                socket_calls: None,
            },
            latencies: Latencies {
                lookups: 300_000,
                p50_us: 1_000,
                p99_us,
                p999_us: 9_000,
                longest_us: 2_000_000,
                held_up: 1,
            },
            slow_statements,
        }
    }

    /// The report of rounds with these 99th percentiles, alone and beside the slow statement.
    fn with_report(p99s_us: &[(u32, u32)], look: impl FnOnce(&Report<'_>)) {
        let arguments = ["cenote-bench", "head-of-line", "--url", "postgres://secret@host"];
        let Command::HeadOfLine(settings) = Cli::parse_from(arguments).command else {
            panic!("the words ask for head-of-line");
        };
        let round = |&(alone, beside): &(u32, u32)| Round { alone: turn(alone, 0), beside_slow: turn(beside, 3) };
        let server = Server { version: "PostgreSQL 18.6".to_owned(), date: "2026-01-31".to_owned() };
        let comparison = Comparison {
            settings: &settings,
            machine: Machine::describe(server),
            rounds: p99s_us.iter().map(round).collect(),
        };
        look(&Report::of(&comparison));
    }

    #[test]
    fn the_ratio_is_formed_in_each_round_and_its_median_is_judged() {
        with_report(&[(1_000, 1_400), (2_000, 2_200), (4_000, 6_400)], |report| {
            let ratio = report.ratios.get(P99).expect("it is there");
            assert_eq!((ratio.min, ratio.median, ratio.max), (1.1, 1.4, 1.6));
            let table = report.to_string();
            for text in ["255 callers and the slow one", "1.40 (1.10 to 1.60)", "2.20 (1.40 to 6.40)", "1.5: met"] {
                assert!(table.contains(text), "{text} is missing in\n{table}");
            }
        });
        with_report(&[(1_000, 1_501)], |report| assert!(report.to_string().contains("1.5: missed"), "{report}"));
    }

    #[test]
    fn the_json_keeps_every_round_and_not_the_url() {
        with_report(&[(1_000, 1_000); 5], |report| {
            let json = serde_json::to_value(report).expect("the report has only text keys");
            for pointer in ["/alone/p99_ms/median", "/beside_slow/longest_ms/max", "/ratios/p50_ms/min"] {
                assert!(json.pointer(pointer).is_some_and(Value::is_f64), "{pointer} is missing in {json}");
            }
            assert!(json.pointer("/ratios/slow_statements").is_none(), "a ratio to nothing: {json}");
            assert_eq!(json.pointer("/rounds").and_then(Value::as_array).map(Vec::len), Some(5));
            assert_eq!(json.pointer("/rounds/4/beside_slow/latencies/p99_us").and_then(Value::as_u64), Some(1_000));
            assert!(!json.to_string().contains("secret"), "{json}");
        });
    }
}
