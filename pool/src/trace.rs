//! What a pool tells of itself with the feature `tracing`: events under the target `cenote`, and a span for each query.
//! Without the feature all of it is empty.
//!
//! | event | level | fields |
//! |---|---|---|
//! | `connected` | info | `lane`, `address` |
//! | `connect failed` | warn | `error` |
//! | `connection lost` | warn | `lane`, `in_flight`, `cause` |
//! | `quarantined` | warn | `lane` |
//! | `sent again` | info | `lane`: of which connection the statement was lost; `sent`: whether it may run twice |
//! | `leased`, `lease returned` | debug | `lane`, `taken_at`; `held_ms` |
//! | `lease restored` | debug | `lane` |
//! | `lease closed` | warn | `lane` |
//! | `lease held long` | warn | `lane`, `taken_at`, `thread`, `held_ms` |
//!
//! The span `query` (debug) has the text of the statement, the rows, the time, and of an error of the server its code. The
//! values of parameters are never told, nor passwords.

#![cfg_attr(not(feature = "tracing"), expect(unused_variables, reason = "nothing is told without the feature"))]

use std::fmt::Display;
use std::time::Duration;

use crate::error::ConnectFailure;
use crate::language::Address;

/// One query, from its call to its result.
#[derive(Clone, Debug)]
pub struct QuerySpan {
    #[cfg(feature = "tracing")]
    span: tracing::Span,
    #[cfg(feature = "tracing")]
    began: std::time::Instant,
}

/// While it lasts, what is told belongs to the query.
#[derive(Debug)]
pub struct Entered<'a> {
    #[cfg(feature = "tracing")]
    _entered: tracing::span::Entered<'a>,
    #[cfg(not(feature = "tracing"))]
    _span: std::marker::PhantomData<&'a QuerySpan>,
}

impl QuerySpan {
    /// A query to a database of this kind.
    #[inline]
    pub fn new(system: &'static str, sql: &str) -> QuerySpan {
        QuerySpan {
            #[cfg(feature = "tracing")]
            span: tracing::debug_span!(
                target: "cenote",
                "query",
                db.system = system,
                db.statement = sql,
                rows = tracing::field::Empty,
                took_us = tracing::field::Empty,
                error = tracing::field::Empty,
            ),
            #[cfg(feature = "tracing")]
            began: std::time::Instant::now(),
        }
    }

    /// What happens from here on is part of it.
    #[inline]
    pub fn enter(&self) -> Entered<'_> {
        Entered {
            #[cfg(feature = "tracing")]
            _entered: self.span.enter(),
            #[cfg(not(feature = "tracing"))]
            _span: std::marker::PhantomData,
        }
    }

    /// It is over. `words` are what may be told of its error: a server's own message may hold the values of parameters.
    #[inline]
    pub fn end<T, E, W: Display>(&self, result: &Result<T, E>, words: impl FnOnce(&E) -> W) {
        #[cfg(feature = "tracing")]
        {
            self.span.record("took_us", self.began.elapsed().as_micros() as u64);
            if let Err(error) = result {
                self.span.record("error", tracing::field::display(words(error)));
            }
        }
    }
}

/// The query that is being read has so many rows, or has changed so many.
#[inline]
pub fn rows(count: u64) {
    #[cfg(feature = "tracing")]
    tracing::Span::current().record("rows", count);
}

pub(crate) fn connected(lane: u64, address: Option<&Address>) {
    #[cfg(feature = "tracing")]
    tracing::info!(target: "cenote", lane, address = address.map(tracing::field::display), "connected");
}

pub(crate) fn connect_failed(failure: &ConnectFailure) {
    #[cfg(feature = "tracing")]
    tracing::warn!(target: "cenote", error = %failure, "connect failed");
}

pub(crate) fn connection_lost(lane: u64, in_flight: usize, cause: &dyn Display) {
    #[cfg(feature = "tracing")]
    tracing::warn!(target: "cenote", lane, in_flight, %cause, "connection lost");
}

pub(crate) fn quarantined(lane: u64) {
    #[cfg(feature = "tracing")]
    tracing::warn!(target: "cenote", lane, "quarantined");
}

pub(crate) fn sent_again(lane: u64, sent: bool) {
    #[cfg(feature = "tracing")]
    tracing::info!(target: "cenote", lane, sent, "sent again");
}

pub(crate) fn leased(lane: u64, taken_at: &dyn Display) {
    #[cfg(feature = "tracing")]
    tracing::debug!(target: "cenote", lane, %taken_at, "leased");
}

pub(crate) fn lease_returned(lane: u64, taken_at: &dyn Display, held: Duration) {
    #[cfg(feature = "tracing")]
    tracing::debug!(target: "cenote", lane, %taken_at, held_ms = held.as_millis() as u64, "lease returned");
}

pub(crate) fn lease_restored(lane: u64) {
    #[cfg(feature = "tracing")]
    tracing::debug!(target: "cenote", lane, "lease restored");
}

pub(crate) fn lease_closed(lane: u64) {
    #[cfg(feature = "tracing")]
    tracing::warn!(target: "cenote", lane, "lease closed");
}

pub(crate) fn lease_held_long(lane: u64, taken_at: &dyn Display, thread: &str, held: Duration) {
    #[cfg(feature = "tracing")]
    tracing::warn!(target: "cenote", lane, %taken_at, thread, held_ms = held.as_millis() as u64, "lease held long");
}
