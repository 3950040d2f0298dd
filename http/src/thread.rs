//! What the connections of one thread share: its clock, its counters, its limits, and the list of them.
//!
//! ```text
//!   worker ── tick, stage ──>  Thread  <── phase, waker ── Link (one per connection)
//! ```
//!
//! One timer per thread sweeps the list for connections whose time is up. So a request sets no timer; it only
//! notes the tick it began at. Does no I/O.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use slab::Slab;
use tokio::sync::Notify;

use crate::link::{Link, Phase};
use crate::settings::Limits;
use crate::stats::Counters;

/// How far a stop has come; it only ever rises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    Serving,
    /// Answers say `connection: close`.
    Stopping,
    /// Connections that wait for a further request are closed.
    ClosingIdle,
    /// Those that have not made their first are closed too.
    ClosingFresh,
}

pub(crate) struct Thread {
    pub(crate) counters: Arc<Counters>,
    pub(crate) limits: Limits,
    /// Told when a connection was opened on a thread that had none.
    pub(crate) opened: Notify,
    /// Told when a connection was closed.
    pub(crate) closed: Notify,
    tick: Cell<u32>,
    stage: Cell<Stage>,
    links: RefCell<Slab<Rc<Link>>>,
}

impl Thread {
    pub(crate) fn new(limits: Limits, counters: Arc<Counters>) -> Thread {
        Thread {
            counters,
            limits,
            opened: Notify::new(),
            closed: Notify::new(),
            tick: Cell::new(0),
            stage: Cell::new(Stage::Serving),
            links: RefCell::new(Slab::new()),
        }
    }

    #[inline]
    pub(crate) fn now(&self) -> u32 {
        self.tick.get()
    }

    #[inline]
    pub(crate) fn stage(&self) -> Stage {
        self.stage.get()
    }

    pub(crate) fn connections(&self) -> usize {
        self.links.borrow().len()
    }

    /// Lists a connection for as long as the returned value lives.
    pub(crate) fn register(link: Rc<Link>) -> Registration {
        let thread = Rc::clone(link.thread());
        thread.counters.connections_accepted.add(1);
        let key = thread.links.borrow_mut().insert(link);
        if thread.connections() == 1 {
            thread.opened.notify_one();
        }
        Registration { thread, key }
    }

    /// Advances the clock by a tick and wakes the connections whose time is up.
    pub(crate) fn sweep(&self) {
        self.tick.set(self.tick.get().wrapping_add(1));
        for (_, link) in self.links.borrow().iter() {
            link.expire();
        }
    }

    /// Enters the next stage of a stop and wakes the connections, which look at it.
    pub(crate) fn enter(&self, stage: Stage) {
        self.stage.set(stage);
        for (_, link) in self.links.borrow().iter() {
            if matches!(link.phase(), Phase::Idle | Phase::Fresh) {
                link.wake();
            }
        }
    }
}

/// A place in the list of connections, given back when dropped: at the end of a connection, in whatever way
/// it came.
pub(crate) struct Registration {
    thread: Rc<Thread>,
    key: usize,
}

impl Drop for Registration {
    fn drop(&mut self) {
        // The list is borrowed only inside this module, never across a wake that could come back here.
        let link = self.thread.links.borrow_mut().try_remove(self.key);
        drop(link);
        self.thread.counters.connections_closed.add(1);
        self.thread.closed.notify_one();
    }
}
