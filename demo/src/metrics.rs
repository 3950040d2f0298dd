//! `GET /metrics`: the counters in Prometheus' text format.

use std::fmt::{Display, Write};

use cenote_http::{HeaderValue, Response, StatsHandle, header};
use cenote_postgres::PoolStats;

use crate::databases::Databases;

/// Version 0.0.4 of the text format.
const CONTENT_TYPE: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");

const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

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
    let mut gauge = |name: &str, help: &str, value: fn(&PoolStats) -> usize| {
        page.gauges(name, help, "pool", pools.iter().map(|(pool, stats)| (*pool, value(stats))));
    };
    gauge("cenote_pool_connections_max", "The bound on connections.", |stats| stats.connections_max);
    gauge("cenote_pool_lanes", "Connections that serve.", |stats| stats.lanes.len());
    gauge("cenote_pool_connecting", "Connections in the making.", |stats| stats.connecting);
    gauge("cenote_pool_in_flight", "Statements in flight.", PoolStats::in_flight);
    gauge("cenote_pool_waiting", "Callers that wait for room on a connection.", |stats| stats.waiting);
    let mut counter = |name: &str, help: &str, value: fn(&PoolStats) -> u64| {
        page.counters(name, help, "pool", pools.iter().map(|(pool, stats)| (*pool, value(stats))));
    };
    counter("cenote_pool_replies_total", "Replies received.", |stats| stats.replies);
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
    counter("cenote_pool_waits_total", "Callers that had to wait for room.", |stats| stats.waits);
    counter("cenote_pool_acquire_timeouts_total", "Callers that gave up waiting.", |stats| stats.acquire_timeouts);
    counter("cenote_pool_lost_after_sent_total", "Statements lost after they were sent.", |stats| {
        stats.lost_after_sent
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
