//! The printed result: a table for people, one JSON object for programs.
//!
//! Both show the same figures. The JSON keeps every round as it was recorded, so that a report can be made from it
//! later without running again.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use crate::cli::DriverOptions;
use crate::driver::{Comparison, ContenderName, Round};
use crate::machine::Machine;
use crate::summary::{Metric, Summary, ratio, summary};
use crate::table::{cell, write_rows};

/// What cenote is compared with.
const RATIOS: [(ContenderName, ContenderName, &str); 4] = [
    (ContenderName::Cenote, ContenderName::TokioPostgres, "cenote/tokio-postgres"),
    (ContenderName::Cenote, ContenderName::MysqlAsync, "cenote/mysql-async"),
    (ContenderName::Cenote, ContenderName::Floor, "cenote/floor"),
    (ContenderName::CenoteAbi, ContenderName::Cenote, "cenote-abi/cenote"),
];

/// The tables' lines: what is shown, and with how many decimal places.
const LINES: [(&str, Metric, usize); 7] = [
    ("queries/s", Metric::QueriesPerS, 0),
    ("CPU us/query", Metric::CpuUsPerQuery, 2),
    ("  user", Metric::UserUsPerQuery, 2),
    ("  system", Metric::SystemUsPerQuery, 2),
    ("allocations/query", Metric::AllocationsPerQuery, 2),
    ("writes/query", Metric::WritesPerQuery, 3),
    ("reads/query", Metric::ReadsPerQuery, 3),
];

/// Ratios are small numbers on every line.
const RATIO_DECIMALS: usize = 2;

#[derive(Serialize)]
pub(crate) struct Report<'run> {
    contenders: BTreeMap<ContenderName, Summary>,
    ratios: BTreeMap<&'static str, Summary>,
    settings: &'run DriverOptions,
    machine: &'run Machine,
    rounds: &'run [Round],
}

impl<'run> Report<'run> {
    pub(crate) fn of(comparison: &'run Comparison<'_>) -> Self {
        let rounds = comparison.rounds.as_slice();
        Self {
            contenders: ContenderName::ALL
                .into_iter()
                .map(|name| (name, summary(rounds, name)))
                .filter(|(_, summary)| !summary.is_empty())
                .collect(),
            ratios: RATIOS
                .into_iter()
                .map(|(contender, other, label)| (label, ratio(rounds, contender, other)))
                .filter(|(_, ratios)| !ratios.is_empty())
                .collect(),
            settings: comparison.settings,
            machine: &comparison.machine,
            rounds,
        }
    }
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let settings = self.settings;
        writeln!(
            formatter,
            "One-row lookups by id: {} callers, {} connections, client threads: {}; {} rounds of {} s",
            settings.load.callers,
            settings.load.connections,
            settings.load.threads,
            settings.rounds,
            settings.load.seconds
        )?;
        let machine = self.machine;
        writeln!(
            formatter,
            "{}; {} x {}; {}\n",
            machine.server.version,
            machine.cores.unwrap_or_default(),
            machine.processor.as_deref().unwrap_or("unknown processor"),
            machine.server.date
        )?;
        let contenders = self.contenders.iter();
        let columns = contenders.map(|(name, summary)| (name.as_str(), summary));
        write_table(formatter, columns, |decimals| decimals)?;
        if self.ratios.is_empty() {
            return Ok(());
        }
        writeln!(formatter)?;
        let columns = self.ratios.iter().map(|(label, ratios)| (*label, ratios));
        write_table(formatter, columns, |_| RATIO_DECIMALS)
    }
}

/// One column for each summary, one line for each metric that any of them has.
fn write_table<'run>(
    formatter: &mut fmt::Formatter<'_>,
    columns: impl Iterator<Item = (&'run str, &'run Summary)>,
    decimals: impl Fn(usize) -> usize,
) -> fmt::Result {
    let (labels, summaries): (Vec<_>, Vec<_>) = columns.unzip();
    let mut heading = vec!["median (min to max)".to_owned()];
    heading.extend(labels.into_iter().map(str::to_owned));
    let mut rows = vec![heading];
    for (title, metric, metric_decimals) in LINES {
        if !summaries.iter().any(|summary| summary.contains_key(&metric)) {
            continue;
        }
        let mut row = vec![title.to_owned()];
        row.extend(summaries.iter().map(|summary| {
            summary.get(&metric).map_or_else(|| "-".to_owned(), |spread| cell(spread, decimals(metric_decimals)))
        }));
        rows.push(row);
    }
    write_rows(formatter, &rows)
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde_json::Value;

    use super::*;
    use crate::cli::{Cli, Command};
    use crate::driver::Turn;
    use crate::machine::Server;

    fn with_report(look: impl FnOnce(&Report<'_>)) {
        let arguments = ["cenote-bench", "driver", "--url", "postgres://secret@host"];
        let Command::Driver(settings) = Cli::parse_from(arguments).command else {
            panic!("the words ask for the driver");
        };
        let turn =
            |queries| Turn { seconds: 1.0, queries, user_s: 0.1, system_s: 0.2, allocations: None, socket_calls: None };
        let rounds = (1..=5)
            .map(|round| Round {
                order: settings.load.database().contenders().to_vec(),
                turns: [
                    (ContenderName::Cenote, turn(200_000 + round)),
                    (ContenderName::TokioPostgres, turn(100_000)),
                    (ContenderName::Floor, turn(250_000)),
                ]
                .into(),
                counted: BTreeMap::new(),
            })
            .collect();
        let comparison = Comparison {
            settings: &settings,
            machine: Machine::describe(Server { version: "PostgreSQL 18.6".to_owned(), date: "2026-01-31".to_owned() }),
            rounds,
        };
        look(&Report::of(&comparison));
    }

    #[test]
    fn the_json_has_the_promised_shape() {
        with_report(|report| {
            let json = serde_json::to_value(report).expect("the report has only text keys");
            let queries = json.pointer("/contenders/cenote/queries_per_s");
            let median = queries.and_then(|spread| spread.get("median"));
            assert_eq!(median.and_then(Value::as_f64), Some(200_003.0));
            for inner in [
                "/contenders/tokio-postgres",
                "/contenders/floor",
                "/ratios/cenote~1tokio-postgres",
                "/ratios/cenote~1floor",
            ] {
                for metric in ["queries_per_s", "user_us_per_query", "system_us_per_query", "cpu_us_per_query"] {
                    for key in ["min", "median", "max"] {
                        let pointer = format!("{inner}/{metric}/{key}");
                        assert!(json.pointer(&pointer).is_some_and(Value::is_f64), "{pointer} is missing in {json}");
                    }
                }
            }
            assert_eq!(json.pointer("/rounds").and_then(Value::as_array).map(Vec::len), Some(5));
        });
    }

    #[test]
    fn the_url_is_not_recorded() {
        with_report(|report| {
            let json = serde_json::to_string(report).expect("the report has only text keys");
            assert!(!json.contains("secret"), "{json}");
            assert!(!report.to_string().contains("secret"));
        });
    }

    #[test]
    fn the_table_names_every_contender_and_leaves_out_what_nobody_counted() {
        with_report(|report| {
            let table = report.to_string();
            for text in ["tokio-postgres", "cenote/floor", "200,003 (200,001 to 200,005)", "PostgreSQL 18.6"] {
                assert!(table.contains(text), "{text} is missing in\n{table}");
            }
            assert!(!table.contains("writes/query"), "nobody counted\n{table}");
        });
    }
}
