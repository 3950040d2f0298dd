//! Whoever waits is woken where his waker may do as it likes: it is code of a foreign executor, which may poll at once what
//! it wakes, or look at the pool.

mod toy;

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use cenote_pool::{Failure, Pool};

use toy::{PATIENCE, Toy, ask, lease, must_end, pool_of};

type Waiting<T> = Pin<Box<dyn Future<Output = Result<T, Failure>> + Send>>;

/// Looks at the pool in `wake`, and begins what waits for it.
struct Nosy {
    pool: Pool<Toy>,
    woken: AtomicUsize,
    began: Mutex<HashMap<usize, Waiting<()>>>,
}

impl Nosy {
    fn at(pool: &Pool<Toy>) -> Arc<Nosy> {
        Arc::new(Nosy { pool: pool.clone(), woken: AtomicUsize::new(0), began: Mutex::default() })
    }

    fn woken(&self) -> usize {
        self.woken.load(Ordering::SeqCst)
    }
}

impl Wake for Nosy {
    fn wake(self: Arc<Self>) {
        self.woken.fetch_add(1, Ordering::SeqCst);
        drop(self.pool.stats());
        let (leased, asked) = (lease(&self.pool), ask(self.pool.clone()));
        let both: [Waiting<()>; 2] =
            [Box::pin(async { leased.await.map(drop) }), Box::pin(async { asked.await.map(drop) })];
        for (place, mut one) in both.into_iter().enumerate() {
            // What is ready has been given back already. What is not goes in a later wake.
            if one.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
                let old = self.began.lock().expect("no panic").insert(place, one);
                drop(old);
            }
        }
    }
}

/// Runs it on a thread of its own, or a deadlock would be a test that hangs. So would a panic: what it drops needs the lock.
fn must_return<T: Send + 'static>(what: &str, call: impl FnOnce() -> T + Send + 'static) -> T {
    let (tell, told) = mpsc::channel();
    thread::spawn(move || tell.send(call()));
    told.recv_timeout(PATIENCE).unwrap_or_else(|_| {
        eprintln!("{what} does not return");
        std::process::abort()
    })
}

fn poll_once<T>(future: &mut Waiting<T>, nosy: &Arc<Nosy>) -> Poll<Result<T, Failure>> {
    future.as_mut().poll(&mut Context::from_waker(&Waker::from(Arc::clone(nosy))))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_given_a_lease_may_call_the_pool_in_his_waker() {
    let pool = pool_of(1, 1, |mut server| server.serve());
    let nosy = Nosy::at(&pool);
    let hog = must_end("a lease", lease(&pool)).await.expect("a lease");
    let mut first: Waiting<_> = Box::pin(lease(&pool));
    let mut second: Waiting<_> = Box::pin(lease(&pool));
    assert!(poll_once(&mut first, &nosy).is_pending() && poll_once(&mut second, &nosy).is_pending());
    let before = nosy.woken();
    must_return("giving a lease back", move || drop(hog));
    assert!(nosy.woken() > before, "the next was not woken");
    let Poll::Ready(leased) = poll_once(&mut first, &nosy) else { panic!("the first has the lease") };
    must_return("leaving the queue", move || drop(second));
    drop(leased);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_told_of_the_close_may_call_the_pool_in_his_waker() {
    let pool = pool_of(1, 1, |mut server| server.serve());
    let nosy = Nosy::at(&pool);
    let hog = must_end("a lease", lease(&pool)).await.expect("a lease");
    let mut leased: Waiting<_> = Box::pin(lease(&pool));
    let mut asked: Waiting<_> = Box::pin(ask(pool.clone()));
    assert!(poll_once(&mut leased, &nosy).is_pending() && poll_once(&mut asked, &nosy).is_pending());
    let before = nosy.woken();
    let closing = pool.clone();
    let closed = must_return("closing the pool", move || {
        let mut closing = Box::pin(async move { closing.close(Duration::ZERO).await });
        let _ = closing.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        closing
    });
    assert!(nosy.woken() >= before + 2, "not both were told");
    assert!(matches!(poll_once(&mut leased, &nosy), Poll::Ready(Err(Failure::Closed))));
    assert!(matches!(poll_once(&mut asked, &nosy), Poll::Ready(Err(Failure::Closed))));
    drop(hog);
    must_end("closing", closed).await;
}

/// Room on a shared connection is granted to whoever waits for it in the same way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_granted_room_may_call_the_pool_in_his_waker() {
    let pool = pool_of(1, 1, |mut server| server.serve());
    let nosy = Nosy::at(&pool);
    let hog = must_end("a lease", lease(&pool)).await.expect("a lease");
    let mut asked: Waiting<_> = Box::pin(ask(pool.clone()));
    assert!(poll_once(&mut asked, &nosy).is_pending(), "there is no room");
    let before = nosy.woken();
    must_return("giving a lease back", move || drop(hog));
    assert!(nosy.woken() > before, "there is room, and nobody was told");
    must_return("dropping what waits", {
        let nosy = Arc::clone(&nosy);
        move || drop(std::mem::take(&mut *nosy.began.lock().expect("no panic")))
    });
    must_end("who was granted room", asked).await.expect("an answer");
}
