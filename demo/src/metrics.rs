//! `GET /metrics`: the counters in Prometheus' text format.

use std::fmt::{Display, Write};
use std::time::Duration;

use cenote_http::{HeaderValue, Response, StatsHandle, header};
use cenote_postgres::PoolStats;

use crate::databases::Databases;

/// Version 0.0.4 of the text format.
const CONTENT_TYPE: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");

const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// A lane whose oldest statement has been the oldest for longer counts as stalled. No lookup takes so long, not even behind
/// a full lane of others.
const STALLED_US: u64 = 100_000;

/// A pool's counters, under the name of its database.
type Pools = [(&'static str, PoolStats)];

pub(crate) fn answer(http: &StatsHandle, databases: &Databases) -> Response {
    let mut page = Page::default();
    add_http(&mut page, http);
    let postgres = databases.postgres.as_ref().map(|pool| ("postgres", pool.stats()));
    let mysql = databases.mysql.as_ref().map(|pool| ("mysql", pool.stats()));
    let pools: Vec<_> = postgres.into_iter().chain(mysql).collect();
    if !pools.is_empty() {
        add_pools(&mut page, &pools);
    }
    Response::text(page.text).with_header(header::CONTENT_TYPE, CONTENT_TYPE)
}

fn add_http(page: &mut Page, http: &StatsHandle) {
    let stats = http.snapshot();
    page.gauge("cenote_http_threads", "Event loops.", stats.threads);
    page.gauge("cenote_http_connections_open", "Connections open now.", stats.connections_open);
    page.counter("cenote_http_connections_total", "Connections accepted.", stats.connections_accepted);
    page.counter("cenote_http_requests_total", "Requests that reached a handler.", stats.requests);
    let classes = CLASSES.into_iter().zip(stats.responses_by_class);
    page.counters("cenote_http_responses_total", "Answers by class.", "class", classes);
    page.counter("cenote_http_malformed_total", "Connections that did not speak HTTP.", stats.requests_malformed);
    page.counter("cenote_http_handler_panics_total", "Handlers that panicked.", stats.handler_panics);
    page.counter("cenote_http_accept_errors_total", "Failures to accept.", stats.accept_errors);
    let timeouts = [
        ("head", stats.timeouts_head),
        ("body", stats.timeouts_body),
        ("idle", stats.timeouts_idle),
        ("write", stats.timeouts_write),
    ];
    page.counters("cenote_http_timeouts_total", "Waits given up, by what for.", "kind", timeouts);
    let bytes = [("received", stats.bytes_received), ("sent", stats.bytes_sent)];
    page.counters("cenote_http_bytes_total", "Bytes from and to clients.", "direction", bytes);
}

fn add_pools(page: &mut Page, pools: &Pools) {
    add_pool_gauges(page, pools);
    add_pool_ages(page, pools);
    add_pool_counters(page, pools);
    add_lease_counters(page, pools);
}

fn add_pool_gauges(page: &mut Page, pools: &Pools) {
    let mut gauge = |name: &str, help: &str, value: fn(&PoolStats) -> usize| {
        page.gauges(name, help, "pool", pools.iter().map(|(pool, stats)| (*pool, value(stats))));
    };
    gauge("cenote_pool_connections_max", "The bound on connections.", |stats| stats.connections_max);
    gauge("cenote_pool_lanes", "Connections that all callers share.", |stats| stats.lanes.len());
    gauge("cenote_pool_lanes_stalled", "Of these, with a slow statement at the head.", |stats| {
        stats.lanes.iter().filter(|lane| lane.oldest_age_us > STALLED_US).count()
    });
    gauge("cenote_pool_leases", "Connections that one caller has, or that are on their way back.", |stats| {
        stats.leases.len()
    });
    gauge("cenote_pool_connecting", "Connections in the making.", |stats| stats.connecting);
    gauge("cenote_pool_cancelling", "Requests to stop a statement that are under way.", |stats| stats.cancelling);
    gauge("cenote_pool_in_flight", "Statements in flight on lanes.", PoolStats::in_flight);
    gauge("cenote_pool_prepared", "Statements prepared on lanes, over all of them.", |stats| {
        stats.lanes.iter().map(|lane| lane.prepared).sum()
    });
    gauge("cenote_pool_waiting", "Callers that wait for room on a lane.", |stats| stats.waiting);
    gauge("cenote_pool_waiting_for_lease", "Callers that wait for a lease.", |stats| stats.waiting_for_lease);
}

fn add_pool_ages(page: &mut Page, pools: &Pools) {
    let mut age = |name: &str, help: &str, value_us: fn(&PoolStats) -> Option<u64>| {
        let ages = pools.iter().map(|(pool, stats)| (*pool, seconds(value_us(stats).unwrap_or_default())));
        page.gauges(name, help, "pool", ages);
    };
    age("cenote_pool_oldest_statement_age_seconds", "How long the slowest lane is at one statement.", |stats| {
        stats.lanes.iter().map(|lane| lane.oldest_age_us).max()
    });
    age("cenote_pool_oldest_lease_age_seconds", "How long the oldest lease is held.", |stats| {
        stats.leases.iter().map(|lease| lease.held_us).max()
    });
}

fn seconds(us: u64) -> f64 {
    Duration::from_micros(us).as_secs_f64()
}

fn add_pool_counters(page: &mut Page, pools: &Pools) {
    let mut counter = |name: &str, help: &str, value: fn(&PoolStats) -> u64| {
        page.counters(name, help, "pool", pools.iter().map(|(pool, stats)| (*pool, value(stats))));
    };
    counter("cenote_pool_replies_total", "Replies received.", |stats| stats.replies);
    counter("cenote_pool_turns_total", "Turns in which a lane was written to and read.", |stats| stats.turns);
    counter("cenote_pool_writes_total", "System calls that wrote.", |stats| stats.writes);
    counter("cenote_pool_reads_total", "System calls that read.", |stats| stats.reads);
    counter("cenote_pool_bytes_received_total", "Bytes from the server.", |stats| stats.bytes_read);
    counter("cenote_pool_bytes_sent_total", "Bytes to the server.", |stats| stats.bytes_written);
    counter("cenote_pool_connects_total", "Connections made.", |stats| stats.connects);
    counter("cenote_pool_connect_failures_total", "Connects that failed.", |stats| stats.connect_failures);
    counter("cenote_pool_connections_lost_total", "Connections that ended by themselves.", |stats| {
        stats.connections_lost
    });
    counter("cenote_pool_connections_retired_total", "Connections closed for their age or idleness.", |stats| {
        stats.connections_retired
    });
    counter("cenote_pool_hosts_left_total", "Servers left with all their connections.", |stats| stats.hosts_left);
    counter("cenote_pool_quarantines_total", "Connections closed for an open transaction.", |stats| stats.quarantines);
    counter("cenote_pool_resubmits_total", "Statements moved unsent to another connection.", |stats| stats.resubmits);
    counter("cenote_pool_repeats_total", "Statements that may run twice, and were sent again.", |stats| stats.repeats);
    counter("cenote_pool_waits_total", "Callers that had to wait for room on a lane.", |stats| stats.waits);
    counter("cenote_pool_acquire_timeouts_total", "Callers that gave up waiting.", |stats| stats.acquire_timeouts);
    counter("cenote_pool_overdue_total", "Statements not answered in the time given to them.", |stats| stats.overdue);
    counter("cenote_pool_replies_too_large_total", "Replies dropped for their size.", |stats| stats.replies_too_large);
    counter("cenote_pool_lost_after_sent_total", "Statements lost after they were sent.", |stats| {
        stats.lost_after_sent
    });
}

fn add_lease_counters(page: &mut Page, pools: &Pools) {
    let mut counter = |name: &str, help: &str, value: fn(&PoolStats) -> u64| {
        page.counters(name, help, "pool", pools.iter().map(|(pool, stats)| (*pool, value(stats))));
    };
    counter("cenote_pool_leases_taken_total", "Leases taken.", |stats| stats.leases_taken);
    counter("cenote_pool_lease_waits_total", "Callers that had to wait for a lease.", |stats| stats.lease_waits);
    counter("cenote_pool_leases_restored_total", "Leases rolled back or reset when given back.", |stats| {
        stats.leases_restored
    });
    counter("cenote_pool_leases_closed_total", "Leases closed, for that did not come to an end.", |stats| {
        stats.leases_closed
    });
    counter("cenote_pool_cancels_total", "Times the server was asked to stop a statement of a lease.", |stats| {
        stats.cancels
    });
}

/// A page of metrics in the making.
#[derive(Default)]
struct Page {
    text: String,
}

impl Page {
    fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.describe(name, help, "gauge");
        self.line(format_args!("{name} {value}"));
    }

    fn counter(&mut self, name: &str, help: &str, value: impl Display) {
        self.describe(name, help, "counter");
        self.line(format_args!("{name} {value}"));
    }

    /// One metric in several kinds, told apart by a label.
    fn counters<V: Display>(
        &mut self,
        name: &str,
        help: &str,
        label: &str,
        values: impl IntoIterator<Item = (&'static str, V)>,
    ) {
        self.describe(name, help, "counter");
        self.kinds(name, label, values);
    }

    fn gauges<V: Display>(
        &mut self,
        name: &str,
        help: &str,
        label: &str,
        values: impl IntoIterator<Item = (&'static str, V)>,
    ) {
        self.describe(name, help, "gauge");
        self.kinds(name, label, values);
    }

    fn kinds<V: Display>(&mut self, name: &str, label: &str, values: impl IntoIterator<Item = (&'static str, V)>) {
        for (kind, value) in values {
            self.line(format_args!("{name}{{{label}=\"{kind}\"}} {value}"));
        }
    }

    fn describe(&mut self, name: &str, help: &str, kind: &str) {
        self.line(format_args!("# HELP {name} {help}\n# TYPE {name} {kind}"));
    }

    fn line(&mut self, line: impl Display) {
        // Writing to a string does not fail.
        let _ = writeln!(self.text, "{line}");
    }
}

#[cfg(test)]
mod tests {
    use cenote_postgres::{LaneStats, LeaseStats};

    use super::*;

    const POOLS: [&str; 2] = ["postgres", "mysql"];

    fn page_of(stats: &PoolStats) -> String {
        let mut page = Page::default();
        add_pools(&mut page, &POOLS.map(|pool| (pool, stats.clone())));
        page.text
    }

    fn has_line(page: &str, line: &str) {
        assert!(page.lines().any(|other| other == line), "no line {line} in\n{page}");
    }

    #[test]
    fn each_counter_is_told_under_its_name() {
        // Each with a number of its own, so that none stands for another.
        let mut stats = PoolStats::default();
        let fields: [(&str, &mut u64); 24] = [
            ("replies", &mut stats.replies),
            ("turns", &mut stats.turns),
            ("writes", &mut stats.writes),
            ("reads", &mut stats.reads),
            ("bytes_received", &mut stats.bytes_read),
            ("bytes_sent", &mut stats.bytes_written),
            ("connects", &mut stats.connects),
            ("connect_failures", &mut stats.connect_failures),
            ("connections_lost", &mut stats.connections_lost),
            ("connections_retired", &mut stats.connections_retired),
            ("hosts_left", &mut stats.hosts_left),
            ("quarantines", &mut stats.quarantines),
            ("resubmits", &mut stats.resubmits),
            ("repeats", &mut stats.repeats),
            ("waits", &mut stats.waits),
            ("acquire_timeouts", &mut stats.acquire_timeouts),
            ("overdue", &mut stats.overdue),
            ("replies_too_large", &mut stats.replies_too_large),
            ("lost_after_sent", &mut stats.lost_after_sent),
            ("leases_taken", &mut stats.leases_taken),
            ("lease_waits", &mut stats.lease_waits),
            ("leases_restored", &mut stats.leases_restored),
            ("leases_closed", &mut stats.leases_closed),
            ("cancels", &mut stats.cancels),
        ];
        let mut lines = Vec::new();
        for (number, (name, field)) in (1..).zip(fields) {
            *field = number;
            lines.push(format!("# TYPE cenote_pool_{name}_total counter"));
            lines.extend(POOLS.map(|pool| format!("cenote_pool_{name}_total{{pool=\"{pool}\"}} {number}")));
        }
        let page = page_of(&stats);
        lines.iter().for_each(|line| has_line(&page, line));
        assert_eq!(page.matches("counter\n").count(), 24, "one is not looked at here\n{page}");
    }

    #[test]
    fn a_stalled_lane_and_a_forgotten_lease_are_seen_with_their_age() {
        let mut stats = PoolStats::default();
        let lane = |in_flight, oldest_age_us| {
            let mut lane = LaneStats::default();
            (lane.in_flight, lane.oldest_age_us, lane.prepared) = (in_flight, oldest_age_us, 4);
            lane
        };
        let lease = |held_us| {
            let mut lease = LeaseStats::default();
            lease.held_us = held_us;
            lease
        };
        stats.lanes = vec![lane(3, STALLED_US), lane(1, 2_500_000), lane(0, 0)];
        stats.leases = vec![lease(1_000), lease(61_000_000)];
        (stats.connections_max, stats.connecting, stats.waiting, stats.waiting_for_lease) = (8, 1, 6, 7);
        stats.cancelling = 9;
        let page = page_of(&stats);
        for (name, value) in [
            ("connections_max", "8"),
            ("lanes", "3"),
            ("lanes_stalled", "1"),
            ("leases", "2"),
            ("connecting", "1"),
            ("cancelling", "9"),
            ("in_flight", "4"),
            ("prepared", "12"),
            ("waiting", "6"),
            ("waiting_for_lease", "7"),
            ("oldest_statement_age_seconds", "2.5"),
            ("oldest_lease_age_seconds", "61"),
        ] {
            has_line(&page, &format!("# TYPE cenote_pool_{name} gauge"));
            has_line(&page, &format!("cenote_pool_{name}{{pool=\"mysql\"}} {value}"));
        }
        assert_eq!(page.matches("gauge\n").count(), 12, "one is not looked at here\n{page}");
    }

    #[test]
    fn a_pool_without_connections_has_ages_of_zero() {
        let page = page_of(&PoolStats::default());
        has_line(&page, "cenote_pool_oldest_statement_age_seconds{pool=\"postgres\"} 0");
        has_line(&page, "cenote_pool_oldest_lease_age_seconds{pool=\"postgres\"} 0");
    }
}
