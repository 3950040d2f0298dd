//! A server's connections, as one future on its context's runtime.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use cenote_http::{Body, Handler, Request, Response, Server};
use slab::Slab;

use super::exchange::Exchange;

/// A future that is polled by whoever drives its runtime, now this thread and now that.
struct Moved<F>(F);

// SAFETY: a current-thread runtime is driven by one thread at a time (`Drive`: it hands itself over under a lock, so what the
// last one did is seen by the next), and it alone polls and drops its tasks. What is in the future is `Rc` and `Cell` of
// connections, which leave it in no way: the handler gives the host copies, and takes answers through a lock. Nothing in
// there belongs to a thread: hyper's and tokio's thread-locals are looked up anew at each use.
unsafe impl<F> Send for Moved<F> {}

impl<F: Future> Future for Moved<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: the field is never moved out of, and moves only with the whole, which is pinned.
        unsafe { self.map_unchecked_mut(|moved| &mut moved.0) }.poll(cx)
    }
}

/// Serves until the server is stopped.
pub(super) fn serve(server: Server, exchange: Arc<Exchange>) -> impl Future<Output = ()> + Send {
    // Made before it is called `Send`, and run as one.
    let world = async move {
        /// Tells the host that the server has ended, however it did.
        struct Ending(Arc<Exchange>, Option<io::Error>);
        impl Drop for Ending {
            fn drop(&mut self) {
                self.0.ended(self.1.take());
            }
        }
        let mut ending = Ending(Arc::clone(&exchange), Some(io::Error::other("it panicked, or its context has ended")));
        let bridge = Rc::new(Bridge { exchange: Arc::clone(&exchange), waiting: RefCell::default() });
        let pumped = Rc::clone(&bridge);
        let pump = poll_fn(move |cx| {
            pumped.pump(cx);
            Poll::<()>::Pending
        });
        let served = tokio::select! {
            biased;
            () = pump => Ok(()),
            served = server.serve_here(Calls(bridge)) => served,
        };
        ending.1 = served.err();
    };
    Moved(world)
}

/// Requests that wait for their answers, by place; a handle says which use of the place it is.
struct Bridge {
    exchange: Arc<Exchange>,
    waiting: RefCell<Waiting>,
}

#[derive(Default)]
struct Waiting {
    places: Slab<Place>,
    uses: u32,
}

struct Place {
    used: u32,
    answer: Option<Response>,
    waker: Option<Waker>,
}

struct Calls(Rc<Bridge>);

impl Handler for Calls {
    async fn call(self: Rc<Self>, request: Request) -> Response {
        let Request { head, body, .. } = request;
        let body = match read(body).await {
            Ok(body) => body,
            Err(refusal) => return refusal,
        };
        let ticket = self.0.begin();
        self.0.exchange.request(ticket.handle(), &head, &body);
        drop((head, body));
        poll_fn(|cx| ticket.poll(cx)).await
    }
}

async fn read(body: Body) -> Result<cenote_http::Bytes, Response> {
    if body.is_empty() {
        return Ok(cenote_http::Bytes::new());
    }
    Ok(body.read().await?)
}

/// One request that waits.
struct Ticket {
    bridge: Rc<Bridge>,
    place: usize,
    used: u32,
}

impl Bridge {
    fn begin(self: &Rc<Bridge>) -> Ticket {
        let mut waiting = self.waiting.borrow_mut();
        // Never 0: so no handle is.
        waiting.uses = waiting.uses.wrapping_add(1).max(1);
        let used = waiting.uses;
        let place = waiting.places.insert(Place { used, answer: None, waker: None });
        Ticket { bridge: Rc::clone(self), place, used }
    }

    /// Hands out the answers that were given.
    fn pump(&self, cx: &Context<'_>) {
        self.exchange.waker().register(cx.waker());
        for (request, response) in self.exchange.take_answers() {
            let (place, used) = (request as u32 as usize, (request >> 32) as u32);
            let mut waiting = self.waiting.borrow_mut();
            let found = waiting.places.get_mut(place).filter(|place| place.used == used && place.answer.is_none());
            // One whose client is gone, or that is answered twice, has no place.
            let Some(place) = found else { continue };
            place.answer = Some(response);
            let waker = place.waker.take();
            drop(waiting);
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }
}

impl Ticket {
    fn handle(&self) -> u64 {
        (u64::from(self.used) << 32) | self.place as u64
    }

    fn poll(&self, cx: &Context<'_>) -> Poll<Response> {
        let mut waiting = self.bridge.waiting.borrow_mut();
        let Some(place) = waiting.places.get_mut(self.place) else { return Poll::Pending };
        match place.answer.take() {
            Some(response) => Poll::Ready(response),
            None => {
                place.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let place = self.bridge.waiting.borrow_mut().places.try_remove(self.place);
        drop(place);
    }
}
