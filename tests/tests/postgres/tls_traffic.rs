//! What is true of connections without TLS is true of those with it: own answers, few system calls, large values, moves
//! between threads, and losses that are told as they are.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use cenote_postgres::{Pool, SettingsBuilder, SqlState, SslMode, TlsVersion};
use cenote_tests::{
    Admin, Direction, OwnSchema, PrivateServer, Proxy, must_end, open, postgres_url, settings, settings_at, wait_until,
};
use futures_util::future::join_all;
use tokio::task::JoinSet;

const CALLERS: usize = 256;

/// No caller of these tests is to fail because a debug build is slow.
const PATIENCE: Duration = Duration::from_secs(3_600);

fn encrypted(test: &str) -> SettingsBuilder {
    settings(test).ssl_mode(SslMode::Require).acquire_timeout(PATIENCE)
}

async fn is_encrypted(pool: &Pool) -> bool {
    let sql = "select ssl from pg_stat_ssl where pid = pg_backend_pid()";
    pool.query_one(sql, &[]).await.unwrap().get(0).unwrap()
}

/// One caller: one query after another, each with a token of its own and an answer of another length.
async fn call(pool: Pool, caller: usize, queries: usize) {
    for number in 0..queries {
        let token = format!("{caller}-{number}-{:x}", fastrand::u64(..));
        // Now and then some records long, and at times just at the end of one.
        let bytes = match fastrand::u32(..100) {
            0 => fastrand::i32(0..100_000),
            1..5 => 16_384 + fastrand::i32(-64..64),
            _ => fastrand::i32(0..200),
        };
        let row = pool.query_one("select $1::text || repeat('x', $2::int)", &[&token, &bytes]).await;
        let row = row.unwrap_or_else(|error| panic!("{token}: {error}"));
        let text: &str = row.get(0).unwrap();
        let rest = text.strip_prefix(&token).unwrap_or_else(|| panic!("{token} got {}", &text[..text.len().min(60)]));
        assert!(rest.len() == bytes as usize && rest.bytes().all(|byte| byte == b'x'), "{token}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_caller_gets_its_own_answer() {
    for version in [TlsVersion::V1_2, TlsVersion::V1_3] {
        let pool = open(encrypted("own").pool_size(4).ssl_max_protocol_version(version));
        let mut callers = JoinSet::new();
        for caller in 0..CALLERS {
            callers.spawn(call(pool.clone(), caller, 100));
        }
        must_end("256 callers", callers.join_all()).await;
        let stats = pool.stats();
        assert_eq!((stats.connections_lost, stats.in_flight(), stats.waiting), (0, 0, 0), "{stats:?}");
        assert!(is_encrypted(&pool).await);
    }
}

#[tokio::test]
async fn a_turn_is_one_write() {
    let pool = open(encrypted("turn").pool_size(1).max_pipeline(CALLERS));
    assert!(is_encrypted(&pool).await);
    pool.query_one("select $1::int", &[&0]).await.unwrap();
    let before = pool.stats();
    let answers = join_all((0..CALLERS as i32).map(|number| {
        let pool = &pool;
        async move { pool.query_one("select $1::int", &[&number]).await.unwrap().get::<_, i32>(0).unwrap() }
    }));
    assert!(must_end("all callers", answers).await.into_iter().eq(0..CALLERS as i32));
    let stats = pool.stats();
    let (writes, turns) = (stats.writes - before.writes, stats.turns - before.turns);
    assert!(
        writes <= turns && writes < CALLERS as u64 / 4,
        "{writes} writes in {turns} turns for {CALLERS} statements"
    );
}

#[tokio::test]
async fn large_values_go_both_ways() {
    const BYTES: usize = 20 << 20;
    let pool = open(encrypted("large").pool_size(1));
    let filler = "y".repeat(BYTES);
    let answers = join_all((0..3).map(|number: i32| {
        let (pool, filler) = (&pool, &filler);
        async move {
            let row = pool.query_one("select $1::int, $2::text", &[&number, filler]).await.unwrap();
            assert_eq!(row.get::<_, i32>(0).unwrap(), number);
            assert!(row.get::<_, &str>(1).unwrap() == filler, "the value came back whole");
        }
    }));
    must_end("large values", answers).await;
    let row = must_end("a large answer", pool.query_one("select repeat('z', $1)", &[&(BYTES as i32)])).await.unwrap();
    assert!(row.get::<_, &str>(0).unwrap().bytes().all(|byte| byte == b'z'));
    assert_eq!(pool.stats().connects, 1);
}

/// With the buffers of both sides full, writes and reads still go on beside each other.
#[tokio::test]
async fn large_statements_with_large_answers_finish() {
    const STATEMENTS: usize = 500;
    let settings = encrypted("full").pool_size(1).max_pipeline(STATEMENTS).unsent_bytes_max(64 << 20);
    let pool = open(settings);
    let filler = "x".repeat(64 * 1024);
    let answers = join_all((0..STATEMENTS).map(|number| {
        let (pool, filler) = (&pool, &filler);
        async move {
            let token = number.to_string();
            let row = pool.query_one("select $1::text, $2::text", &[&token, filler]).await.unwrap();
            assert_eq!(row.get::<_, &str>(0).unwrap(), token);
            assert!(row.get::<_, &str>(1).unwrap() == filler, "statement {number} got its answer whole");
        }
    }));
    must_end("large statements with large answers", answers).await;
    let stats = pool.stats();
    assert!(stats.writes <= stats.turns && stats.reads <= stats.turns, "{stats:?}");
    assert_eq!((stats.connects, stats.in_flight()), (1, 0), "{stats:?}");
}

/// A write that gets stuck in the middle of a record, and one that never gets on.
#[tokio::test]
async fn a_stalled_way_is_taken_up_where_it_was() {
    let proxy = Proxy::start(&postgres_url());
    let settings = proxy.through(encrypted("stall").pool_size(1).max_pipeline(1_000).unsent_bytes_max(64 << 20));
    let pool = open(settings);
    // Known before: who uses a statement first, others wait for.
    pool.query_one("select $1::int, length($2::text)", &[&0, &""]).await.unwrap();
    proxy.stall(Direction::ToServer);
    let filler = "x".repeat(100_000);
    let mut callers = JoinSet::new();
    for number in 0..200_i32 {
        let (pool, filler) = (pool.clone(), filler.clone());
        callers.spawn(async move {
            let row = pool.query_one("select $1::int, length($2::text)", &[&number, &filler]).await.unwrap();
            (row.get::<_, i32>(0).unwrap(), row.get::<_, i32>(1).unwrap()) == (number, 100_000)
        });
    }
    let mut written = 0;
    let stuck = async || {
        let before = std::mem::replace(&mut written, pool.stats().bytes_written);
        pool.stats().in_flight() == 200 && before == written
    };
    wait_until("all are queued and nothing goes out any more", stuck).await;
    proxy.resume(Direction::ToServer);
    assert!(must_end("the callers", callers.join_all()).await.into_iter().all(|own| own));
    assert_eq!(pool.stats().connects, 1);
}

/// What was queued behind a write that got stuck, and what was in it: nothing runs twice, and nothing that is said not to
/// have been sent has run.
#[tokio::test]
async fn what_was_lost_is_told_as_it_is() {
    let schema = OwnSchema::create("tls_lost").await;
    let admin = schema.admin().await;
    admin.run("create table arrival (caller int, filler text); grant all on arrival to cenote").await;
    let proxy = Proxy::start(&postgres_url());
    for round in 0..5 {
        let settings = schema.settings().ssl_mode(SslMode::Require).pool_size(1).max_pipeline(1_000);
        let pool = open(proxy.through(settings.unsent_bytes_max(64 << 20).acquire_timeout(PATIENCE)));
        pool.execute("insert into arrival values ($1, $2)", &[&-1, &""]).await.unwrap();
        proxy.stall(Direction::ToServer);
        let filler = "x".repeat(30_000);
        let mut callers = JoinSet::new();
        for caller in round * 1_000..round * 1_000 + 300 {
            let (pool, filler) = (pool.clone(), filler.clone());
            callers.spawn(async move {
                (caller, pool.execute("insert into arrival values ($1, $2)", &[&caller, &filler]).await)
            });
        }
        let mut written = 0;
        let stuck = async || {
            let before = std::mem::replace(&mut written, pool.stats().bytes_written);
            pool.stats().in_flight() == 300 && before == written
        };
        wait_until("all are queued and nothing goes out any more", stuck).await;
        // Lets through what it holds, and then cuts: somewhere in a record.
        proxy.resume(Direction::ToServer);
        let bytes = proxy.bytes(Direction::ToServer);
        wait_until("some more bytes are through", async || proxy.bytes(Direction::ToServer) > bytes).await;
        proxy.reset();
        let outcomes = must_end("the callers", callers.join_all()).await;
        pool.close(Duration::from_secs(60)).await;
        let sql = "select caller, count(*) from arrival where caller >= $1 group by caller";
        let arrived: HashMap<i32, i64> =
            admin.rows(sql, &[&(round * 1_000)]).await.iter().map(|row| (row.get(0), row.get(1))).collect();
        for (caller, outcome) in outcomes {
            let times = arrived.get(&caller).copied().unwrap_or(0);
            match outcome {
                Ok(count) => assert_eq!((count, times), (1, 1), "caller {caller}"),
                Err(error) if error.was_sent() == Some(false) => assert_eq!(times, 0, "caller {caller}: {error}"),
                Err(error) => assert!(error.is_network() && times <= 1, "caller {caller}, {times} times: {error}"),
            }
        }
    }
}

#[tokio::test]
async fn the_servers_last_words_are_heard() {
    let pool = open(encrypted("words").pool_size(1));
    let admin = Admin::connect().await;
    assert!(is_encrypted(&pool).await);
    let sleeping = tokio::spawn({
        let pool = pool.clone();
        async move { pool.query_one("select pg_sleep(1000)", &[]).await }
    });
    let asleep = async || admin.backends(&pool).await.iter().any(|backend| backend.query.contains("pg_sleep"));
    wait_until("the statement runs", asleep).await;
    assert_eq!(admin.terminate(&pool).await, 1);
    let error = must_end("the statement", sleeping).await.unwrap().expect_err("its connection was ended");
    assert!(error.is_network() && error.code() == Some(SqlState::ADMIN_SHUTDOWN), "{error}");
    assert!(is_encrypted(&pool).await, "the next connection is encrypted as well");
}

/// A connection that rests is kept by its pool and goes wherever it is wanted: its keys go with it.
#[test]
fn a_connection_changes_threads() {
    let settings = encrypted("moves").pool_size(1).build().unwrap();
    let pool = Pool::open(&settings).unwrap();
    let mut pids = Vec::new();
    for _ in 0..4 {
        let settings = settings.clone();
        let thread = std::thread::spawn(move || {
            let pool = Pool::open(settings).unwrap();
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            // The runtime ends with the connection in use.
            runtime.block_on(async {
                assert!(is_encrypted(&pool).await);
                call(pool.clone(), 0, 20).await;
                pool.query_one("select pg_backend_pid()", &[]).await.unwrap().get::<_, i32>(0).unwrap()
            })
        });
        pids.push(thread.join().unwrap());
    }
    assert!(pids.windows(2).all(|pair| pair[0] == pair[1]), "{pids:?}");
    assert_eq!((pool.stats().connects, pool.stats().connections_lost), (1, 0));
}

/// Lanes are handed from thread to thread while both are under load.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn threads_share_a_pool() {
    let settings = encrypted("shared").pool_size(4).build().unwrap();
    let threads: Vec<_> = (0..3)
        .map(|thread| {
            let pool = Pool::open(&settings).unwrap();
            std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                let callers = (0..32).map(|caller| call(pool.clone(), thread * 100 + caller, 100));
                runtime.block_on(must_end("32 callers of a thread", join_all(callers)));
            })
        })
        .collect();
    let joined =
        tokio::task::spawn_blocking(|| threads.into_iter().map(std::thread::JoinHandle::join).collect::<Vec<_>>());
    for result in joined.await.unwrap() {
        result.expect("each got its own answers");
    }
}

#[tokio::test]
async fn a_server_that_is_killed_and_comes_back_is_used_again() {
    let server = PrivateServer::postgres("tls-kill").await;
    let pool =
        open(settings_at(server.url(), "kill").ssl_mode(SslMode::Require).acquire_timeout(PATIENCE).pool_size(2));
    let calls = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let mut callers = JoinSet::new();
    for caller in 0..32_i64 {
        let (pool, calls) = (pool.clone(), Arc::clone(&calls));
        callers.spawn(async move {
            while calls.load(std::sync::atomic::Ordering::SeqCst) {
                match must_end("a call", pool.query_one("select $1::int8", &[&caller])).await {
                    Ok(row) => assert_eq!(row.get::<_, i64>(0).unwrap(), caller),
                    Err(error) => {
                        assert!(error.is_network() || error.code().is_some(), "{error}");
                        tokio::task::yield_now().await;
                    }
                }
            }
        });
    }
    for clean in [false, true] {
        let before = pool.stats().replies;
        wait_until("there is traffic", async || pool.stats().replies > before + 1_000).await;
        // In the middle of something, however quick the server is with the others.
        let slow = tokio::spawn({
            let pool = pool.clone();
            async move { pool.query_one("select pg_sleep(3600)::text", &[]).await }
        });
        let is_at_work = async || pool.stats().lanes.iter().any(|lane| lane.oldest_age_us > 200_000);
        wait_until("the server is at work on it", is_at_work).await;
        if clean {
            server.stop().await
        } else {
            server.kill().await
        }
        let error = must_end("the slow call", slow).await.expect("no panic").expect_err("its server is gone");
        assert!(error.is_network() || error.code().is_some(), "{error}");
        server.start().await;
        wait_until("the callers are served again", async || is_served(&pool).await).await;
    }
    calls.store(false, std::sync::atomic::Ordering::SeqCst);
    must_end("the callers", callers.join_all()).await;
    assert!(is_encrypted(&pool).await);
}

async fn is_served(pool: &Pool) -> bool {
    pool.query_one("select 1", &[]).await.is_ok()
}
