//! `GET /metrics`: the counters in Prometheus' text format.

use std::fmt::{Display, Write};

use cenote_http::{HeaderValue, Response, StatsHandle, header};
use cenote_postgres::{Pool, PoolStats};

/// Version 0.0.4 of the text format.
const CONTENT_TYPE: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");

const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

pub(crate) fn answer(http: &StatsHandle, postgres: Option<&Pool>) -> Response {
    let mut page = Page::default();
    add_http(&mut page, http);
    if let Some(postgres) = postgres {
        add_pool(&mut page, &postgres.stats());
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

fn add_pool(page: &mut Page, stats: &PoolStats) {
    page.gauge("cenote_pool_connections_max", "The bound on connections.", stats.connections_max);
    let connections = [("lane", stats.lanes.len()), ("connecting", stats.connecting)];
    page.gauges("cenote_pool_connections", "Connections by state.", "state", connections);
    page.gauge("cenote_pool_in_flight", "Statements in flight.", stats.in_flight());
    page.gauge("cenote_pool_waiting", "Callers that wait for room on a connection.", stats.waiting);
    page.counter("cenote_pool_replies_total", "Replies received.", stats.replies);
    let calls = [("write", stats.writes), ("read", stats.reads)];
    page.counters("cenote_pool_socket_calls_total", "System calls on sockets.", "call", calls);
    let bytes = [("received", stats.bytes_read), ("sent", stats.bytes_written)];
    page.counters("cenote_pool_bytes_total", "Bytes from and to the server.", "direction", bytes);
    page.counter("cenote_pool_connects_total", "Connections made.", stats.connects);
    page.counter("cenote_pool_connect_failures_total", "Connects that failed.", stats.connect_failures);
    page.counter("cenote_pool_connections_lost_total", "Connections that ended by themselves.", stats.connections_lost);
    page.counter("cenote_pool_quarantines_total", "Connections closed for an open transaction.", stats.quarantines);
    page.counter("cenote_pool_resubmits_total", "Statements moved unsent to another connection.", stats.resubmits);
    page.counter("cenote_pool_waits_total", "Callers that had to wait for room.", stats.waits);
    page.counter("cenote_pool_acquire_timeouts_total", "Callers that gave up waiting.", stats.acquire_timeouts);
    page.counter("cenote_pool_lost_after_sent_total", "Statements lost after they were sent.", stats.lost_after_sent);
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
