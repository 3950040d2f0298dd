//! The drivers alone: many callers, each waiting for one one-row lookup at a time, over few connections.
//!
//! ```text
//! round 1   cenote          tokio-postgres  floor
//! round 2   tokio-postgres  floor           cenote              ...every order once in six rounds
//!             |
//!             +-- one turn: a process that connects, warms up, reads the counters, waits, reads them again, closes;
//!                 then a short one in the twin program, to count allocations
//! ```
//!
//! Each turn has a process of its own and connects anew; the warm-up pays for what is new. So no contender runs on a
//! heap that another has left behind, beside another's idle connections and their server processes, or with CPU time
//! whose split is scaled by another's (see `measure::CpuTime`). An error or a wrong row in any turn ends the whole
//! run: there is no figure for a driver that gave a wrong answer.

mod abi;
pub(crate) mod cenote;
mod contender;
mod floor;
pub(crate) mod mysql;
pub(crate) mod postgres;
pub(crate) mod process;
pub(crate) mod turn;
pub(crate) mod world;

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Context;
use serde::Serialize;

use crate::Allocator;
use crate::cli::{DriverOptions, Load};
use crate::machine::Machine;
use crate::summary::{Metric, figures};
pub(crate) use contender::{ContenderName, Database};
use process::Programs;
pub(crate) use turn::Turn;

/// All that a run recorded.
pub(crate) struct Comparison<'run> {
    pub(crate) settings: &'run DriverOptions,
    pub(crate) machine: Machine,
    pub(crate) rounds: Vec<Round>,
}

/// One turn of every contender.
#[derive(Debug, Serialize)]
pub(crate) struct Round {
    pub(crate) order: Vec<ContenderName>,
    /// All figures but allocations are from these.
    pub(crate) turns: BTreeMap<ContenderName, Turn>,
    /// The turns in which allocations were counted; empty where that cannot be done.
    pub(crate) counted: BTreeMap<ContenderName, Turn>,
}

/// Runs all rounds; says on stderr how far it is.
pub(crate) fn compare(options: &DriverOptions) -> anyhow::Result<Comparison<'_>> {
    options.load.check()?;
    let names = options.contenders()?;
    let (_, server) = world::load(&options.load)?;
    let machine = Machine::describe(server);
    let programs = Programs::find(names.contains(&ContenderName::CenoteAbi))?;
    let mut rounds = Vec::new();
    for number in 0..options.rounds {
        let order = order(&names, number);
        let mut round = Round { order: order.clone(), turns: BTreeMap::new(), counted: BTreeMap::new() };
        for name in order {
            let void = || format!("{} failed, so the run is void", name.as_str());
            let turn = programs.time(name, &options.load).with_context(void)?;
            report_progress(number, options.rounds, name, &turn);
            round.turns.insert(name, turn);
            if let Some(turn) = programs.count(name, &options.load).with_context(void)? {
                round.counted.insert(name, turn);
            }
        }
        rounds.push(round);
    }
    Ok(Comparison { settings: options, machine, rounds })
}

/// One turn in this process, which should have done nothing else before.
pub(crate) fn take_turn(name: ContenderName, load: &Load, allocator: Allocator) -> anyhow::Result<Turn> {
    let (world, _) = world::load(load)?;
    let contender = match load.database() {
        Database::Postgres => postgres::contender(name, load)?,
        Database::Mysql => mysql::contender(name, load)?,
    };
    let mut turn = turn::take(contender, load, &Arc::new(world))?;
    if matches!(allocator, Allocator::System) {
        turn.allocations = None;
    }
    Ok(turn)
}

/// The order of one round. The start moves on by one each round, and once all have started, the direction turns:
/// whatever one contender leaves behind meets each of the others.
fn order(names: &[ContenderName], round: u32) -> Vec<ContenderName> {
    let round = round as usize;
    let mut order = names.to_vec();
    let start = round.checked_rem(order.len()).unwrap_or_default();
    order.rotate_left(start);
    let laps = round.checked_div(order.len()).unwrap_or_default();
    if laps % 2 == 1 {
        order.reverse();
    }
    order
}

fn report_progress(round: u32, rounds: u32, name: ContenderName, turn: &Turn) {
    let figures = figures(turn);
    let figure = |metric| figures.get(&metric).copied().unwrap_or_default();
    eprintln!(
        "round {} of {rounds}: {:<14} {:>9.0} queries/s, {:.2} us CPU per query",
        round + 1,
        name.as_str(),
        figure(Metric::QueriesPerS),
        figure(Metric::CpuUsPerQuery),
    );
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn three_contenders_meet_in_every_order_within_six_rounds() {
        let names = Database::Postgres.contenders();
        let orders: BTreeSet<_> = (0..6).map(|round| order(names, round)).collect();
        assert_eq!(orders.len(), 6, "{orders:?}");
    }

    #[test]
    fn each_round_has_every_contender_once() {
        for round in 0..20 {
            let mut order = order(&ContenderName::ALL, round);
            order.sort();
            assert_eq!(order, ContenderName::ALL, "round {round}");
        }
    }

    #[test]
    fn two_contenders_take_turns_at_going_first() {
        let pair = [ContenderName::TokioPostgres, ContenderName::Floor];
        let firsts: Vec<_> = (0..4).filter_map(|round| order(&pair, round).first().copied()).collect();
        let times_first = |name| firsts.iter().filter(|first| **first == name).count();
        assert_eq!(times_first(ContenderName::Floor), 2, "{firsts:?}");
    }
}
