//! Telling a server to stop, from any thread.

use std::sync::Arc;

use tokio::sync::watch;

/// What the threads are told; it only ever rises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Order {
    Serve,
    /// Finish what is in flight.
    Stop,
    /// End at once.
    Cut,
}

/// Stops a server, from any thread; clones stop the same one.
///
/// ```text
///   stop()       connections still waiting to be accepted are accepted, then the port is closed;
///                what is in flight is answered, with `connection: close`;
///                idle connections are closed
///   deadline     what is still open is cut
///   stop_now()   the same at once
/// ```
///
/// [`Server::run`](crate::Server::run) returns when this is done.
#[derive(Debug, Clone)]
pub struct Stop {
    order: Arc<watch::Sender<Order>>,
}

impl Stop {
    pub(crate) fn new() -> Stop {
        Stop { order: Arc::new(watch::Sender::new(Order::Serve)) }
    }

    /// Asks the server to finish what is in flight and end, and returns at once. Asking again changes nothing.
    pub fn stop(&self) {
        self.raise(Order::Stop);
    }

    /// Asks the server to end without waiting for what is in flight, and returns at once.
    pub fn stop_now(&self) {
        self.raise(Order::Cut);
    }

    /// Whether the server was asked to stop, in either way.
    pub fn is_stopping(&self) -> bool {
        *self.order.borrow() >= Order::Stop
    }

    pub(crate) fn listen(&self) -> Orders {
        Orders(self.order.subscribe())
    }

    fn raise(&self, to: Order) {
        self.order.send_if_modified(|order| {
            let rises = *order < to;
            if rises {
                *order = to;
            }
            rises
        });
    }
}

/// One listener to the orders.
#[derive(Debug)]
pub(crate) struct Orders(watch::Receiver<Order>);

impl Orders {
    /// Waits until at least `order` is given. A server that nobody can give orders to any more stops.
    pub(crate) async fn at_least(&mut self, order: Order) {
        let _ = self.0.wait_for(|given| *given >= order).await;
    }
}
