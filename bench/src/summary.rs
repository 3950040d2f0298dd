//! From recorded turns to figures: per query, then minimum, median and maximum, then ratios.
//!
//! Ratios are formed round by round, each contender against its neighbour of the same round, and only then summed up:
//! what else the machine was doing then has met both. No rounding happens here.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::driver::{ContenderName, Round, Turn};

/// What is reported of each contender, in this order.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Metric {
    QueriesPerS,
    UserUsPerQuery,
    SystemUsPerQuery,
    CpuUsPerQuery,
    AllocationsPerQuery,
    WritesPerQuery,
    ReadsPerQuery,
}

/// One turn's figures, by metric.
pub(crate) type Figures = BTreeMap<Metric, f64>;

/// Several rounds' figures, by metric.
pub(crate) type Summary = BTreeMap<Metric, Spread>;

/// The same figure over several rounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Spread {
    pub(crate) min: f64,
    pub(crate) median: f64,
    pub(crate) max: f64,
}

impl Spread {
    /// `None` when there is no value.
    pub(crate) fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        let upper = *sorted.get(middle)?;
        let median = if sorted.len().is_multiple_of(2) {
            f64::midpoint(*sorted.get(middle.checked_sub(1)?)?, upper)
        } else {
            upper
        };
        Some(Self { min: *sorted.first()?, median, max: *sorted.last()? })
    }
}

/// One turn's figures. What was not counted is missing.
pub(crate) fn figures(turn: &Turn) -> Figures {
    let queries = turn.queries as f64;
    let us_per_query = |seconds: f64| seconds * 1_000_000.0 / queries;
    let mut figures = Figures::from([
        (Metric::QueriesPerS, queries / turn.seconds),
        (Metric::UserUsPerQuery, us_per_query(turn.user_s)),
        (Metric::SystemUsPerQuery, us_per_query(turn.system_s)),
        (Metric::CpuUsPerQuery, us_per_query(turn.user_s + turn.system_s)),
    ]);
    if let Some(allocations) = turn.allocations {
        figures.insert(Metric::AllocationsPerQuery, allocations as f64 / queries);
    }
    if let Some(calls) = turn.socket_calls {
        figures.insert(Metric::WritesPerQuery, calls.writes as f64 / queries);
        figures.insert(Metric::ReadsPerQuery, calls.reads as f64 / queries);
    }
    figures
}

/// One round's figures of a contender, with the allocations of the turn in which they were counted.
fn round_figures(round: &Round, contender: ContenderName) -> Option<Figures> {
    let mut round_figures = figures(round.turns.get(&contender)?);
    let counted = round.counted.get(&contender).map(figures);
    if let Some(allocations) = counted.and_then(|mut counted| counted.remove(&Metric::AllocationsPerQuery)) {
        round_figures.insert(Metric::AllocationsPerQuery, allocations);
    }
    Some(round_figures)
}

/// What one contender did over all rounds.
pub(crate) fn summary(rounds: &[Round], contender: ContenderName) -> Summary {
    spread_by_metric(rounds.iter().filter_map(|round| round_figures(round, contender)))
}

/// How one contender stands to another: its figure divided by the other's, in each round.
///
/// A round in which the other's figure is zero (user time too short for the kernel to notice) has no ratio.
pub(crate) fn ratio(rounds: &[Round], contender: ContenderName, other: ContenderName) -> Summary {
    spread_by_metric(rounds.iter().filter_map(|round| {
        let divisors = round_figures(round, other)?;
        let mut ratios = round_figures(round, contender)?;
        ratios.retain(|metric, value| {
            divisors.get(metric).is_some_and(|divisor| {
                *value /= divisor;
                value.is_finite()
            })
        });
        Some(ratios)
    }))
}

fn spread_by_metric(rounds: impl Iterator<Item = Figures>) -> Summary {
    let mut values = BTreeMap::<Metric, Vec<f64>>::new();
    for (metric, value) in rounds.flatten() {
        values.entry(metric).or_default().push(value);
    }
    values.into_iter().filter_map(|(metric, values)| Some((metric, Spread::of(&values)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::turn::SocketCalls;

    fn turn(queries: u64, user_s: f64, system_s: f64) -> Turn {
        Turn { seconds: 2.0, queries, user_s, system_s, allocations: Some(3 * queries), socket_calls: None }
    }

    fn round(cenote: Turn, floor: Turn) -> Round {
        Round {
            order: vec![ContenderName::Cenote, ContenderName::Floor],
            turns: [(ContenderName::Cenote, cenote), (ContenderName::Floor, floor)].into(),
            counted: BTreeMap::new(),
        }
    }

    fn median(summary: &Summary, metric: Metric) -> f64 {
        summary.get(&metric).expect("the metric is there").median
    }

    #[test]
    fn the_median_is_the_middle_one_or_between_the_middle_two() {
        let odd = Spread::of(&[5.0, 1.0, 3.0]).expect("three values");
        assert_eq!((odd.min, odd.median, odd.max), (1.0, 3.0, 5.0));
        let even = Spread::of(&[4.0, 1.0, 2.0, 10.0]).expect("four values");
        assert_eq!((even.min, even.median, even.max), (1.0, 3.0, 10.0));
        let single = Spread::of(&[7.0]).expect("one value");
        assert_eq!((single.min, single.median, single.max), (7.0, 7.0, 7.0));
    }

    #[test]
    fn no_values_have_no_spread() {
        assert_eq!(Spread::of(&[]), None);
    }

    #[test]
    fn figures_are_per_query_in_microseconds() {
        let figures = figures(&Turn {
            socket_calls: Some(SocketCalls { writes: 50_000, reads: 100_000 }),
            ..turn(1_000_000, 0.5, 1.5)
        });
        let expected = Figures::from([
            (Metric::QueriesPerS, 500_000.0),
            (Metric::UserUsPerQuery, 0.5),
            (Metric::SystemUsPerQuery, 1.5),
            (Metric::CpuUsPerQuery, 2.0),
            (Metric::AllocationsPerQuery, 3.0),
            (Metric::WritesPerQuery, 0.05),
            (Metric::ReadsPerQuery, 0.1),
        ]);
        assert_eq!(figures, expected);
    }

    #[test]
    fn a_ratio_is_formed_in_each_round_not_of_the_medians() {
        let rounds = [
            round(turn(100, 1.0, 1.0), turn(200, 1.0, 1.0)),
            round(turn(300, 1.0, 1.0), turn(300, 1.0, 1.0)),
            round(turn(400, 1.0, 1.0), turn(100, 1.0, 1.0)),
        ];
        let ratios = ratio(&rounds, ContenderName::Cenote, ContenderName::Floor);
        let queries = ratios.get(&Metric::QueriesPerS).expect("both have it");
        // The medians alone (300 and 200) would give 1.5.
        assert_eq!((queries.min, queries.median, queries.max), (0.5, 1.0, 4.0));
    }

    #[test]
    fn a_ratio_needs_the_metric_on_both_sides_and_a_divisor() {
        let mut counted = turn(100, 1.0, 1.0);
        counted.socket_calls = Some(SocketCalls { writes: 10, reads: 10 });
        let rounds = [round(counted, turn(100, 0.0, 1.0))];
        let ratios = ratio(&rounds, ContenderName::Cenote, ContenderName::Floor);
        assert!(!ratios.contains_key(&Metric::WritesPerQuery));
        assert!(!ratios.contains_key(&Metric::UserUsPerQuery));
        assert_eq!(median(&ratios, Metric::CpuUsPerQuery), 2.0);
        let summary = summary(&rounds, ContenderName::Cenote);
        assert_eq!(median(&summary, Metric::WritesPerQuery), 0.1);
    }

    #[test]
    fn a_round_without_a_divisor_leaves_the_ratios_of_the_others() {
        let rounds = [round(turn(100, 3.0, 1.0), turn(100, 0.0, 1.0)), round(turn(100, 3.0, 1.0), turn(100, 2.0, 1.0))];
        let ratios = ratio(&rounds, ContenderName::Cenote, ContenderName::Floor);
        let user = ratios.get(&Metric::UserUsPerQuery).expect("one round has it");
        assert_eq!((user.min, user.median, user.max), (1.5, 1.5, 1.5));
    }

    #[test]
    fn allocations_come_from_the_turn_that_counted_them() {
        let mut round = round(Turn { allocations: None, ..turn(100, 1.0, 1.0) }, turn(100, 1.0, 1.0));
        round.counted.insert(ContenderName::Cenote, Turn { allocations: Some(14), ..turn(7, 9.0, 9.0) });
        let summary = summary(&[round], ContenderName::Cenote);
        assert_eq!(median(&summary, Metric::AllocationsPerQuery), 2.0);
        assert_eq!(median(&summary, Metric::QueriesPerS), 50.0);
    }

    #[test]
    fn a_contender_that_did_not_run_has_no_figures() {
        let rounds = [round(turn(1, 1.0, 1.0), turn(1, 1.0, 1.0))];
        assert!(summary(&rounds, ContenderName::TokioPostgres).is_empty());
        assert!(ratio(&rounds, ContenderName::Cenote, ContenderName::TokioPostgres).is_empty());
    }
}
