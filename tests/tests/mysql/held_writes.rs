//! Statements wait to share a write while the server has enough to do: nobody waits for ever for that, and a slow
//! statement holds up nobody who could go elsewhere.

use std::sync::{Arc, Mutex};

use cenote_mysql::{Error, Pool};
use cenote_tests::mysql::{Admin, Server, open, settings};
use cenote_tests::{must_end, on_each_server, wait_until};
use futures_util::future::join_all;
use tokio::task::JoinSet;

on_each_server!(
    single_callers_are_served_one_after_another,
    callers_behind_a_slow_statement_are_served_behind_it,
    waves_of_any_size_end,
    statements_larger_than_a_write_end,
    fast_statements_end_before_a_slow_one,
    callers_come_and_go_on_two_threads,
);

const ECHO: &str = "select ?";

async fn echo(pool: &Pool, number: i64) -> Result<(), Error> {
    let row = pool.query_one(ECHO, &[&number]).await?;
    assert_eq!(row.get::<_, i64>(0)?, number);
    Ok(())
}

async fn single_callers_are_served_one_after_another(server: Server) {
    let pool = open(settings(server, "single").pool_size(1));
    for number in 0..2_000 {
        must_end("a single caller", echo(&pool, number)).await.unwrap();
    }
    assert_eq!((pool.stats().in_flight(), pool.stats().connects), (0, 1));
}

/// As long as the first of many takes, nothing comes back that would wake the connection's driver.
async fn callers_behind_a_slow_statement_are_served_behind_it(server: Server) {
    let admin = Admin::connect(server).await;
    let pool = open(settings(server, "behind").pool_size(1));
    echo(&pool, 0).await.unwrap();
    pool.query("select sleep(?)", &[&0]).await.unwrap();
    for few in [1, 3, 4, 5, 6, 20, 100] {
        // Something to measure the server by.
        for answer in join_all((0..200).map(|number| echo(&pool, number))).await {
            answer.unwrap();
        }
        let slow = tokio::spawn({
            let pool = pool.clone();
            async move { pool.query("select sleep(?)", &[&3_600]).await.map(|_| ()) }
        });
        let mut session = 0;
        wait_until("the slow statement runs", async || {
            let sessions = admin.sessions(&pool).await;
            let sleeping = sessions.iter().find(|session| session.state.contains("sleep"));
            session = sleeping.map_or(0, |session| session.id);
            session != 0
        })
        .await;
        // Some while those before them are on their way, some later.
        let mut behind = Vec::new();
        for part in 0..4_i64 {
            for number in 0..few {
                let pool = pool.clone();
                behind.push(tokio::spawn(async move { echo(&pool, part * 1_000 + number).await }));
            }
            tokio::task::yield_now().await;
        }
        admin.kill_query(session).await;
        // Whether it is told that it was ended or that it slept is the server's affair.
        let _ = must_end("the slow statement", slow).await.unwrap();
        for answer in must_end("callers behind a slow statement", join_all(behind)).await {
            answer.unwrap().unwrap();
        }
        must_end("a single caller after all of them", echo(&pool, 7)).await.unwrap();
    }
    assert_eq!((pool.stats().in_flight(), pool.stats().waiting, pool.stats().connects), (0, 0, 1));
}

async fn waves_of_any_size_end(server: Server) {
    let pool = open(settings(server, "waves").pool_size(1));
    for size in (1..40).chain([64, 127, 128, 129, 200, 500]) {
        // Callers who each ask again: the wave thins out towards its end.
        let wave = join_all((0..size).map(|caller: i64| {
            let pool = &pool;
            async move {
                for number in 0..=caller % 7 {
                    echo(pool, caller * 10 + number).await?;
                }
                Ok::<(), Error>(())
            }
        }));
        for answer in must_end("a wave", wave).await {
            answer.unwrap();
        }
        assert_eq!(pool.stats().in_flight(), 0, "a wave of {size}");
    }
}

async fn statements_larger_than_a_write_end(server: Server) {
    let pool = open(settings(server, "larger").pool_size(1));
    for round in 0..5 {
        let answers = join_all((0..200).map(|number: usize| {
            let pool = &pool;
            async move {
                // From well below a full write to well above it.
                let text = "x".repeat(number * (100 + round));
                let row = pool.query_one("select ?, ?", &[&(number as u64), &text]).await?;
                assert_eq!(row.get::<_, u64>(0)?, number as u64);
                assert!(row.get::<_, &str>(1)? == text, "statement {number}");
                Ok::<(), Error>(())
            }
        }));
        for answer in must_end("statements larger than a write", answers).await {
            answer.unwrap();
        }
        must_end("a single caller behind them", echo(&pool, 1)).await.unwrap();
    }
    assert_eq!(pool.stats().connects, 1);
}

/// As many connections as the pool may have.
async fn fill(pool: &Pool) {
    let connections = pool.stats().connections_max;
    for _ in 0..1_000 {
        if pool.stats().lanes.len() == connections {
            return;
        }
        for answer in join_all((0..connections as i64 * 32).map(|number| echo(pool, number))).await {
            answer.unwrap();
        }
    }
    panic!("the pool does not grow: {:?}", pool.stats());
}

/// Those who come when it is clear which connection is the slow one all go elsewhere.
async fn fast_statements_end_before_a_slow_one(server: Server) {
    const CLEARLY_SLOW_US: u64 = 500_000;
    const CALLERS: usize = 100;
    const QUERIES_EACH: usize = 50;
    let pool = open(settings(server, "slow_one").pool_size(8));
    let admin = Admin::connect(server).await;
    fill(&pool).await;
    let order = Arc::new(Mutex::new(Vec::new()));
    let slow = tokio::spawn({
        let (pool, order) = (pool.clone(), Arc::clone(&order));
        async move {
            // Ended by the administrator, when the fast ones are done.
            let _ = pool.query("select sleep(3600)", &[]).await;
            order.lock().unwrap().push("slow");
        }
    });
    let runs = async || pool.stats().lanes.iter().any(|lane| lane.oldest_age_us >= CLEARLY_SLOW_US);
    wait_until("the slow statement runs", runs).await;
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        let (pool, order) = (pool.clone(), Arc::clone(&order));
        callers.spawn(async move {
            for number in 0..QUERIES_EACH {
                echo(&pool, (caller * QUERIES_EACH + number) as i64).await.unwrap();
            }
            order.lock().unwrap().push("fast");
        });
    }
    must_end("fast statements beside a slow one", callers.join_all()).await;
    assert!(!slow.is_finished(), "it was slow all the time");
    let sessions = admin.sessions(&pool).await;
    let sleeping = sessions.iter().find(|session| session.state.contains("sleep")).expect("it sleeps");
    admin.kill_query(sleeping.id).await;
    must_end("the slow one", slow).await.unwrap();
    let order = order.lock().unwrap();
    assert_eq!((order.len(), order.last()), (CALLERS + 1, Some(&"slow")));
}

async fn callers_come_and_go_on_two_threads(server: Server) {
    let settings = settings(server, "two_threads").pool_size(2).build().unwrap();
    let threads = [0_i64, 1].map(|thread| {
        let settings = settings.clone();
        std::thread::spawn(move || {
            let pool = Pool::open(settings).unwrap();
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                for round in 0..300 {
                    let size = if round % 10 == 0 { 100 } else { round % 12 };
                    let wave =
                        join_all((0..size).map(|number| echo(&pool, thread * 1_000_000 + round * 1_000 + number)));
                    for answer in must_end("a wave on one of two threads", wave).await {
                        answer.unwrap();
                    }
                }
            });
        })
    });
    let joined = tokio::task::spawn_blocking(|| threads.map(std::thread::JoinHandle::join));
    for result in joined.await.unwrap() {
        result.expect("nobody was stuck");
    }
}
