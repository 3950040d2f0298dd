//! One pool for the whole process: a connection at home on one thread serves callers of any other, with a runtime or
//! without, and the end of its thread is the end of no caller.

use std::sync::Arc;
use std::thread::JoinHandle;

use cenote_postgres::Pool;
use cenote_tests::{
    Admin, Direction, Proxy, block_on_without_runtime, must_end, open, postgres_url, settings, wait_until,
};
use futures_util::future::join_all;
use tokio::sync::oneshot;

/// A thread with a runtime of its own, on which the pool's first connections were made.
struct Home {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Home {
    /// Returns when as many callers as `callers` were served there at once.
    async fn of(pool: &Pool, callers: usize) -> Home {
        let (stop, stopped) = oneshot::channel();
        let (ready, is_ready) = oneshot::channel();
        let pool = pool.clone();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                for answer in join_all((0..callers).map(|_| pool.query_one("select 1", &[]))).await {
                    answer.unwrap();
                }
                ready.send(()).unwrap();
                // Told, or dropped.
                let _ = stopped.await;
            });
        });
        is_ready.await.expect("the thread served its own callers");
        Home { stop: Some(stop), thread: Some(thread) }
    }

    /// Ends the runtime and the thread.
    async fn end(mut self) {
        self.stop = None;
        let thread = self.thread.take().expect("it ends once");
        tokio::task::spawn_blocking(|| thread.join()).await.unwrap().unwrap();
    }
}

async fn pid(pool: &Pool) -> i32 {
    pool.query_one("select pg_backend_pid()", &[]).await.unwrap().get(0).unwrap()
}

#[tokio::test]
async fn a_connection_of_one_thread_serves_all_others() {
    let pool = open(settings("one_home").pool_size(1));
    let home = Home::of(&pool, 1).await;
    let here = pid(&pool).await;
    let without_runtime = std::thread::spawn({
        let pool = pool.clone();
        move || {
            block_on_without_runtime(async {
                for number in 0..200 {
                    let row = pool.query_one("select $1::int4", &[&number]).await.unwrap();
                    assert_eq!(row.get::<_, i32>(0).unwrap(), number);
                }
                pid(&pool).await
            })
        }
    });
    let there = tokio::task::spawn_blocking(|| without_runtime.join()).await.unwrap().unwrap();
    assert_eq!(here, there);
    assert_eq!(pool.stats().connects, 1);
    home.end().await;
}

#[test]
fn callers_without_any_runtime_are_served() {
    let pool = open(settings("no_runtime_at_all").pool_size(2));
    let threads: Vec<_> = (0..8)
        .map(|thread| {
            let pool = pool.clone();
            std::thread::spawn(move || {
                block_on_without_runtime(async {
                    for number in 0..100 {
                        let token = thread * 1_000 + number;
                        let row = pool.query_one("select $1::int4", &[&token]).await.unwrap();
                        assert_eq!(row.get::<_, i32>(0).unwrap(), token);
                    }
                });
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("each got its own answers");
    }
    let stats = pool.stats();
    assert!(stats.connections() <= 2 && stats.in_flight() == 0, "{stats:?}");
}

#[tokio::test]
async fn the_end_of_a_connections_thread_is_the_end_of_no_statement() {
    let admin = Admin::connect().await;
    let holder = Admin::connect().await;
    let lock = i64::from(fastrand::u32(..));
    holder.run(&format!("select pg_advisory_lock({lock})")).await;
    let pool = open(settings("home_ends").pool_size(1));
    let home = Home::of(&pool, 1).await;
    let old = pid(&pool).await;
    let blocked = tokio::spawn({
        let pool = pool.clone();
        async move { pool.query_one("select pg_advisory_xact_lock($1)", &[&lock]).await }
    });
    wait_until("the statement waits for its lock", async || {
        admin.backends(&pool).await.iter().any(|backend| backend.wait_event_type.as_deref() == Some("Lock"))
    })
    .await;
    home.end().await;
    // The library's own thread goes on where the ended one stopped: the connection is the same, and so is the statement.
    holder.run(&format!("select pg_advisory_unlock({lock})")).await;
    must_end("a statement whose thread has ended", blocked).await.unwrap().expect("its answer comes all the same");
    assert_eq!(must_end("the next caller", pid(&pool)).await, old);
    let stats = pool.stats();
    assert_eq!((stats.connects, stats.connections()), (1, 1), "{stats:?}");
}

/// Threads come and go while others go on: nobody loses a statement, and the budget of connections is whole afterwards.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn threads_that_come_and_go_cost_no_connection() {
    const CONNECTIONS: usize = 3;
    let pool = open(settings("come_and_go").pool_size(CONNECTIONS));
    let done = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let staying = tokio::spawn({
        let (pool, done) = (pool.clone(), Arc::clone(&done));
        async move {
            let mut answered = 0;
            while !done.load(std::sync::atomic::Ordering::SeqCst) {
                for outcome in join_all((0..16).map(|_| pool.query_one("select 1", &[]))).await {
                    outcome.expect("a thread that ends takes nobody's answer with it");
                    answered += 1;
                }
            }
            answered
        }
    });
    for _ in 0..20 {
        let home = Home::of(&pool, 16).await;
        must_end("a thread's end", home.end()).await;
        assert!(pool.stats().lanes.len() <= CONNECTIONS);
    }
    done.store(true, std::sync::atomic::Ordering::SeqCst);
    let answered = must_end("callers who stay", staying).await.unwrap();
    assert!(answered > 0);
    for answer in must_end("callers afterwards", join_all((0..200).map(|_| pool.query_one("select 1", &[])))).await {
        answer.expect("the pool is whole");
    }
    wait_until("nothing is left", async || pool.stats().in_flight() == 0 && pool.stats().connecting == 0).await;
    assert!((1..=CONNECTIONS).contains(&pool.stats().connections()), "{:?}", pool.stats());
}

/// Connecting is a task of the runtime it was begun on. When that ends, whoever else waits is served all the same.
#[tokio::test]
async fn a_thread_that_ends_while_it_connects_leaves_nobody_waiting() {
    let proxy = Proxy::start(&postgres_url());
    proxy.stall(Direction::ToClient);
    let pool = open(proxy.through(settings("ends_connecting")).pool_size(1));
    let connecting = std::thread::spawn({
        let pool = pool.clone();
        move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let mut query = std::pin::pin!(pool.query_one("select 1", &[]));
                loop {
                    tokio::select! {
                        biased;
                        _ = &mut query => panic!("an answer through a stalled proxy"),
                        () = tokio::task::yield_now() => {}
                    }
                    if proxy.bytes(Direction::ToServer) > 0 {
                        return proxy;
                    }
                }
            })
        }
    });
    let waiting = tokio::spawn({
        let pool = pool.clone();
        async move { pool.query_one("select 1", &[]).await }
    });
    let proxy = tokio::task::spawn_blocking(|| connecting.join()).await.unwrap().unwrap();
    proxy.resume(Direction::ToClient);
    must_end("a caller whose connection was begun elsewhere", waiting).await.unwrap().expect("he is served");
    assert_eq!(pool.stats().connections(), 1);
}

/// A thread that comes later gets its share of the connections, warm as they are, and nobody loses a statement by it.
#[tokio::test]
async fn a_thread_takes_its_share_of_warm_connections_over() {
    const CONNECTIONS: usize = 4;
    let pool = open(settings("share").pool_size(CONNECTIONS));
    for _ in 0..1_000 {
        if pool.stats().lanes.len() == CONNECTIONS {
            break;
        }
        for answer in join_all((0..64).map(|_| pool.query_one("select 1", &[]))).await {
            answer.unwrap();
        }
    }
    assert_eq!(pool.stats().lanes.len(), CONNECTIONS, "{:?}", pool.stats());
    let admin = Admin::connect().await;
    let sessions = async || admin.backends(&pool).await.iter().map(|backend| backend.pid).collect::<Vec<_>>();
    let before = sessions().await;
    let done = std::cell::Cell::new(false);
    let here = async {
        let mut rounds = 0;
        while !done.get() {
            for answer in join_all((0..16).map(|_| pool.query_one("select 1", &[]))).await {
                answer.expect("no statement is lost to a move");
            }
            rounds += 1;
        }
        rounds
    };
    let elsewhere = async {
        for _ in 0..100 {
            let home = Home::of(&pool, 64).await;
            let moved = pool.stats().lanes.iter().any(|lane| lane.lane > CONNECTIONS as u64);
            if moved {
                assert_eq!(sessions().await, before, "moved, not made: {:?}", pool.stats());
                assert_eq!(pool.stats().connects, CONNECTIONS as u64, "moved, not made: {:?}", pool.stats());
                done.set(true);
                return home;
            }
            home.end().await;
        }
        panic!("no connection moved: {:?}", pool.stats());
    };
    let (rounds, home) = must_end("two threads", async { tokio::join!(here, elsewhere) }).await;
    assert!(rounds > 0);
    home.end().await;
}
