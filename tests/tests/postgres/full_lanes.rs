//! Connections with as much in flight as they may have: callers wait in turn, and nobody waits for ever.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use cenote_postgres::{Error, Pool, Row};
use cenote_tests::{Admin, must_end, open, settings, wait_until};
use futures_util::future::join_all;
use tokio::task::{JoinHandle, JoinSet};

/// A pooler that cannot pipeline needs one at a time (postgres.js 970).
#[tokio::test]
async fn one_statement_at_a_time_serves_any_number_of_callers() {
    for (callers, connections) in [(5, 1), (50, 1), (50, 3)] {
        let pool = open(settings("one_at_a_time").pool_size(connections).max_pipeline(1));
        let most = AtomicUsize::new(0);
        let all_done = AtomicBool::new(false);
        let watching = async {
            while !all_done.load(Ordering::SeqCst) {
                let stats = pool.stats();
                most.fetch_max(stats.lanes.iter().map(|lane| lane.in_flight).max().unwrap_or(0), Ordering::SeqCst);
                tokio::task::yield_now().await;
            }
        };
        let calling = async {
            let answers = join_all((0..callers).map(|number| {
                let pool = &pool;
                async move { pool.query_one("select $1::int4", &[&number]).await }
            }));
            let answers = must_end("callers who take turns", answers).await;
            all_done.store(true, Ordering::SeqCst);
            answers
        };
        let (answers, ()) = tokio::join!(calling, watching);
        for (number, answer) in (0..).zip(answers) {
            assert_eq!(answer.unwrap().get::<_, i32>(0).unwrap(), number);
        }
        assert_eq!(most.load(Ordering::SeqCst), 1, "one statement in flight per connection, with {callers} callers");
        let stats = pool.stats();
        assert_eq!((stats.in_flight(), stats.waiting), (0, 0), "{stats:?}");
        assert!(stats.connections() <= connections, "{stats:?}");
    }
}

/// As many connections as the pool may have.
async fn fill(pool: &Pool) {
    let connections = pool.stats().connections_max;
    for _ in 0..1_000 {
        if pool.stats().lanes.len() == connections {
            return;
        }
        for answer in join_all((0..connections * 16).map(|_| pool.query_one("select 1", &[]))).await {
            answer.unwrap();
        }
    }
    panic!("the pool does not grow: {:?}", pool.stats());
}

/// A statement that lasts until it is let go.
struct Slow {
    holder: Admin,
    lock: i64,
    statement: JoinHandle<Result<Row, Error>>,
}

impl Slow {
    /// Begins one, and returns when it has run for so long that it is clear which connection is the slow one.
    async fn begin(pool: &Pool) -> Slow {
        const CLEARLY_SLOW_US: u64 = 500_000;
        let (holder, lock) = (Admin::connect().await, i64::from(fastrand::u32(..)));
        holder.run(&format!("select pg_advisory_lock({lock})")).await;
        let statement = tokio::spawn({
            let pool = pool.clone();
            async move { pool.query_one("select pg_advisory_xact_lock($1)", &[&lock]).await }
        });
        let runs = async || pool.stats().lanes.iter().any(|lane| lane.oldest_age_us >= CLEARLY_SLOW_US);
        wait_until("the slow statement runs", runs).await;
        Slow { holder, lock, statement }
    }

    async fn end(self) {
        assert!(!self.statement.is_finished(), "it was slow all the time");
        self.holder.run(&format!("select pg_advisory_unlock({})", self.lock)).await;
        self.statement.await.unwrap().expect("the slow one is answered, too");
    }
}

/// A slow statement keeps its own connection busy and nobody else waiting (postgres.js 747).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_slow_statement_holds_up_nobody_who_could_go_elsewhere() {
    const CALLERS: usize = 256;
    const QUERIES_EACH: usize = 20;
    let pool = open(settings("slow_one").pool_size(8));
    fill(&pool).await;
    let slow = Slow::begin(&pool).await;
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        let pool = pool.clone();
        callers.spawn(async move {
            for number in 0..QUERIES_EACH {
                let token = (caller * QUERIES_EACH + number) as i64;
                let row = pool.query_one("select $1::int8", &[&token]).await.unwrap();
                assert_eq!(row.get::<_, i64>(0).unwrap(), token);
            }
        });
    }
    must_end("a fast statement behind the slow one", callers.join_all()).await;
    slow.end().await;
}

/// The same from the first statement on: the connection that there is at first is the slow one's. Whoever comes next waits
/// for another connection and not for the slow one's end.
#[tokio::test]
async fn a_slow_statement_on_the_only_connection_makes_the_pool_grow() {
    const CALLERS: i64 = 32;
    let pool = open(settings("slow_first").pool_size(8));
    let slow = Slow::begin(&pool).await;
    assert_eq!(pool.stats().connections(), 1, "one caller needs one connection");
    let behind = tokio::spawn({
        let pool = pool.clone();
        async move { pool.query_one("select 1", &[]).await }
    });
    let answer = must_end("a statement beside a slow one on the only connection", behind).await;
    answer.unwrap().expect("it goes to a connection of its own");
    wait_until("there is another connection", async || pool.stats().lanes.len() >= 2).await;
    let fast = join_all((0..CALLERS).map(|token| {
        let pool = pool.clone();
        async move { pool.query_one("select $1::int8", &[&token]).await.map(|row| row.get::<_, i64>(0).unwrap()) }
    }));
    for (token, answer) in (0..).zip(must_end("a fast statement behind the slow one", fast).await) {
        assert_eq!(answer.unwrap(), token);
    }
    slow.end().await;
}

/// Those who come late wait behind those who wait already, for as long as anybody waits: also one who is just served,
/// who would be the first to see that there is room again.
#[tokio::test]
async fn nobody_overtakes_those_who_wait() {
    const WAITERS: usize = 50;
    const LATE: usize = 20;
    let admin = Admin::connect().await;
    let holder = Admin::connect().await;
    let pool = open(settings("no_overtaking").pool_size(1).max_pipeline(1));
    let lock = i64::from(fastrand::u32(..));
    holder.run(&format!("select pg_advisory_lock({lock})")).await;
    // Learned beforehand, so that each of them needs one turn.
    pool.query_one("select 1", &[]).await.unwrap();
    let served = Arc::new(Mutex::new(Vec::new()));
    let serve = |number: usize| {
        let (pool, served) = (pool.clone(), Arc::clone(&served));
        async move {
            pool.query_one("select 1", &[]).await.unwrap();
            served.lock().unwrap().push(number);
        }
    };
    let mut callers = JoinSet::new();
    let late: Vec<_> = (WAITERS..WAITERS + LATE).map(&serve).collect();
    callers.spawn({
        let pool = pool.clone();
        async move {
            pool.query_one("select pg_advisory_xact_lock($1)", &[&lock]).await.unwrap();
            for one in late {
                one.await;
            }
        }
    });
    wait_until("the only place is taken", async || {
        admin.backends(&pool).await.iter().any(|backend| backend.wait_event_type.as_deref() == Some("Lock"))
    })
    .await;
    for number in 0..WAITERS {
        callers.spawn(serve(number));
    }
    wait_until("all others wait", async || pool.stats().waiting == WAITERS).await;
    holder.run(&format!("select pg_advisory_unlock({lock})")).await;
    must_end("waiters in their turn", callers.join_all()).await;
    let served = served.lock().unwrap();
    assert!(served.iter().copied().eq(0..WAITERS + LATE), "first come, first served: {served:?}");
}

/// A lane's turn: what all callers have queued leaves in one write, what has come in is taken by one read.
#[tokio::test]
async fn callers_of_one_turn_share_one_write() {
    const CALLERS: usize = 50;
    let pool = open(settings("one_write").pool_size(1));
    pool.query_one("select $1::int8", &[&0_i64]).await.unwrap();
    for round in 0..20 {
        let before = pool.stats();
        let answers =
            join_all(
                (0..CALLERS as i64).map(|number| {
                    let pool = &pool;
                    async move {
                        pool.query_one("select $1::int8", &[&number]).await.map(|row| row.get::<_, i64>(0).unwrap())
                    }
                }),
            )
            .await;
        for (number, answer) in (0..).zip(answers) {
            assert_eq!(answer.unwrap(), number);
        }
        let after = pool.stats();
        assert_eq!(after.writes - before.writes, 1, "round {round}: {before:?} {after:?}");
        assert_eq!(after.replies - before.replies, CALLERS as u64, "round {round}");
        assert!(after.reads - before.reads <= CALLERS as u64, "round {round}: {before:?} {after:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_has_at_most_one_write_and_one_read() {
    let pool = open(settings("turns").pool_size(4));
    let mut callers = JoinSet::new();
    for caller in 0..128 {
        let pool = pool.clone();
        callers.spawn(async move {
            for number in 0..200_i32 {
                // Some answers need many reads, some statements many writes.
                let (sent, received) = if number % 50 == 0 { (100_000, 100_000) } else { (10, 10) };
                let text = "x".repeat(sent);
                let row =
                    pool.query_one("select length($1::text), repeat('x', $2)", &[&text, &received]).await.unwrap();
                assert_eq!(row.get::<_, i32>(0).unwrap(), sent as i32, "caller {caller}");
                assert_eq!(row.get::<_, &str>(1).unwrap().len(), received as usize, "caller {caller}");
            }
        });
    }
    must_end("callers", callers.join_all()).await;
    let stats = pool.stats();
    assert!(stats.writes > 0 && stats.writes <= stats.turns, "{stats:?}");
    assert!(stats.reads > 0 && stats.reads <= stats.turns, "{stats:?}");
    assert!(stats.replies >= 128 * 200, "{stats:?}");
}
