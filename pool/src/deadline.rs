//! A time within which a statement is to be answered.
//!
//! On a lane it gives control back to the caller and no more: the server's own limits (`statement_timeout`,
//! `max_execution_time`) stop the work. On a lease the server is asked to stop it.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::cancel::{Begun, Request, Why};
use crate::error::Failure;
use crate::home;
use crate::language::Language;
use crate::pool::Pool;

/// The end of the time of one statement.
pub struct Deadline {
    limit: Duration,
    /// Made when it is first looked at: the time runs from the first poll.
    sleep: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl fmt::Debug for Deadline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deadline").field("limit", &self.limit).finish_non_exhaustive()
    }
}

impl Deadline {
    /// From the first poll on.
    pub fn new(limit: Duration) -> Deadline {
        Deadline { limit, sleep: None }
    }

    /// Ready when the time is over. A statement of a lease is then stopped.
    pub fn poll<L: Language>(&mut self, cx: &mut Context<'_>, pool: &Pool<L>) -> Poll<Failure> {
        let limit = self.limit;
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(home::sleep(limit)));
        sleep.as_mut().poll(cx).map(|()| {
            pool.inner().counters.overdue.add(1);
            if let Some(pin) = pool.pin()
                && let Some(Begun::New(request)) = Request::begin(pool.inner(), &pin.lane, pin.tenant, Why::Overdue)
                && let Some(runtime) = home::background()
            {
                runtime.spawn(request.send());
            }
            Failure::Overdue { limit }
        })
    }
}
