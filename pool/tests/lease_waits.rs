//! Who waits for a lease gets one, whatever goes on beside him.

mod toy;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use cenote_pool::Pool;

use toy::{Server, Toy, ask, lease, must_end, pool_of};

/// Answers slowly enough that a connection which several callers use always has something to do.
fn answer_slowly(server: &mut Server) {
    while server.take(1) {
        thread::sleep(Duration::from_millis(1));
        server.give(1);
    }
}

async fn until(what: &str, condition: impl Fn() -> bool) {
    let condition = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    must_end(what, condition).await;
}

/// Callers that always have something in flight.
struct Crowd {
    over: Arc<AtomicBool>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Crowd {
    fn of(callers: usize, pool: &Pool<Toy>) -> Crowd {
        let over = Arc::new(AtomicBool::new(false));
        let caller = |_| {
            let (pool, over) = (pool.clone(), Arc::clone(&over));
            tokio::spawn(async move {
                while !over.load(Ordering::SeqCst) {
                    ask(pool.clone()).await.expect("an answer");
                }
            })
        };
        let tasks = (0..callers).map(caller).collect();
        Crowd { over, tasks }
    }

    async fn leave(self) {
        self.over.store(true, Ordering::SeqCst);
        for task in self.tasks {
            must_end("one of the crowd", task).await.expect("no panic");
        }
    }
}

/// What is under way is a single prober that fails and fails.
#[tokio::test]
async fn a_lease_is_had_of_a_server_that_has_room_for_no_more_connections() {
    let pool = pool_of(2, 1, |mut server| answer_slowly(&mut server));
    let crowd = Crowd::of(4, &pool);
    until("the server has turned connections away", || pool.stats().connect_failures >= 3).await;
    for _ in 0..3 {
        drop(must_end("a lease beside a prober", lease(&pool)).await.expect("a lease"));
    }
    crowd.leave().await;
    let stats = pool.stats();
    assert_eq!((stats.lanes.len(), stats.leases.len(), stats.waiting_for_lease), (1, 0, 0), "{stats:?}");
}

/// Three connections do something slow. One of them is to become a lease; then another becomes quick.
#[tokio::test]
async fn a_lease_does_not_wait_for_one_slow_statement_where_others_are_quick() {
    let (quick, over) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let server = {
        let (quick, over) = (Arc::clone(&quick), Arc::clone(&over));
        move |mut server: Server| {
            assert!(server.take(1));
            // The one that is to become a lease takes nothing more.
            while !(over.load(Ordering::SeqCst) || quick.load(Ordering::SeqCst) && server.has_input()) {
                thread::sleep(Duration::from_millis(1));
            }
            server.give(1);
            answer_slowly(&mut server);
        }
    };
    let pool = pool_of(3, 3, server);
    let mut slow = Vec::new();
    for number in 1..=3 {
        slow.push(tokio::spawn(ask(pool.clone())));
        until("it stalls a connection of its own", || {
            let stats = pool.stats();
            stats.lanes.iter().filter(|lane| lane.in_flight == 1 && lane.oldest_age_us > 20_000).count() == number
        })
        .await;
    }
    let waiting = tokio::spawn(lease(&pool));
    until("somebody waits for a lease", || pool.stats().waiting_for_lease == 1).await;
    let crowd = Crowd::of(8, &pool);
    until("the crowd is behind the slow statements", || pool.stats().in_flight() == 11).await;
    quick.store(true, Ordering::SeqCst);
    let leased = must_end("a lease beside a slow statement", waiting).await.expect("no panic").expect("a lease");
    over.store(true, Ordering::SeqCst);
    drop(leased);
    for one in slow {
        must_end("a slow statement", one).await.expect("no panic").expect("an answer");
    }
    crowd.leave().await;
    until("all connections are lanes again", || pool.stats().lanes.len() == 3).await;
}
