//! MySQL and MariaDB by way of a bad network: replies torn anywhere, connections cut in the middle of a message or silent, bits
//! flipped. Each caller gets his own answer or an error, each call ends once, and the pool serves on.
//!
//! The cases of `postgres/chaos`, on the other servers.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;

use cenote_mysql::{ErrorCode, Pool, Row};
use cenote_tests::mysql::{Admin, OwnDatabase, Server, open, settings};
use cenote_tests::{
    Chaos, Direction, Mischief, Proxy, chaos_seed, drop_after_polls, must_end, on_each_server, wait_until,
};
use fastrand::Rng;
use futures_util::future::join_all;
use tokio::task::JoinSet;

on_each_server!(
    a_caller_who_vanishes_within_a_torn_row_takes_nobodys_row_with_him,
    a_hundred_statements_arrive_before_the_first_answer,
    a_silent_connection_is_left_for_others,
);
on_each_server!(
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    messages_in_tiny_pieces_mean_the_same
);
on_each_server!(
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    a_connection_cut_anywhere_ends_each_call_once
);
on_each_server!(
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    flipped_bits_give_nobody_anothers_row
);

/// More patience than any of this takes: a call ends for another reason.
const AMPLE: Duration = Duration::from_secs(600);

/// The number comes back in three shapes: a row in which they do not agree was corrupted, one in which they do is the
/// answer to whoever sent that number.
const TAGGED: &str = "select id, cast(id as char), concat(repeat('x', 30), id) from (select ? as id) as tag";

/// Numbers of seven digits, so that all answers have one length.
const FIRST_TAG: i64 = 1_000_000;

/// Whose answer a row is; `None` when it says different things.
fn owner(row: &Row) -> Option<i64> {
    let tag: i64 = row.get(0).ok()?;
    let (text, filled): (&str, &str) = (row.get(1).ok()?, row.get(2).ok()?);
    (text == tag.to_string() && filled.strip_prefix(&"x".repeat(30))? == text).then_some(tag)
}

/// A table without a key, so that an insert that ran twice shows.
async fn database(server: Server, test: &str) -> (OwnDatabase, Admin) {
    let database = OwnDatabase::create(server, test).await;
    let admin = database.admin().await;
    admin.run("create table arrival (number bigint)").await;
    (database, admin)
}

async fn assert_own(pool: &Pool, tag: i64) {
    let row = pool.query_one(TAGGED, &[&tag]).await.unwrap_or_else(|error| panic!("{tag}: {error}"));
    assert_eq!(owner(&row), Some(tag), "its own row");
}

/// A reply is read up to some byte when its caller vanishes: the next ones get theirs (sqlx 563, asyncmy 103).
async fn a_caller_who_vanishes_within_a_torn_row_takes_nobodys_row_with_him(server: Server) {
    const ROUNDS: usize = 60;
    const LARGE_BYTES: i32 = 20_000;
    let seed = chaos_seed();
    let torn = Mischief {
        piece_bytes_max: 400,
        pause_every_bytes: 8_000,
        pause_max: Duration::from_millis(1),
        ..Mischief::default()
    };
    let chaos = Chaos::new(seed).on(Direction::ToClient, torn);
    let proxy = Proxy::spoiled(&server.url(), &chaos);
    let pool = open(proxy.through(settings(server, "torn")).pool_size(1));
    assert_own(&pool, 0).await;
    let mut random = Rng::with_seed(seed);
    let mut vanished = 0;
    for round in 0..ROUNDS {
        let before = proxy.bytes(Direction::ToClient);
        let until = before + random.u64(1..LARGE_BYTES as u64 + 100);
        // Others are behind it on the same connection, some of which fail.
        let neighbours = join_all((0..10).map(|number| {
            let (pool, tag) = (&pool, (round * 10 + number) as i64);
            async move {
                if number == 4 {
                    let error =
                        pool.query_one("select exp(? + 1000000)", &[&tag]).await.expect_err("nobody can do that");
                    assert_eq!(error.code(), Some(ErrorCode::RESULT_OUT_OF_RANGE), "{error}");
                } else {
                    assert_own(pool, tag).await;
                }
            }
        }));
        let vanishing = async {
            let large = pool.query_one("select repeat('y', ?)", &[&LARGE_BYTES]);
            let half_read =
                wait_until("a part of the row has passed", async || proxy.bytes(Direction::ToClient) >= until);
            tokio::select! {
                row = large => assert_eq!(row.unwrap().get::<_, &str>(0).unwrap().len(), LARGE_BYTES as usize),
                () = half_read => vanished += 1,
            }
        };
        must_end("neighbours of one who vanishes", async { tokio::join!(biased; vanishing, neighbours) }).await;
    }
    wait_until("what was abandoned has been read", async || pool.stats().in_flight() == 0).await;
    assert!(vanished > 0, "somebody vanished within his row");
    assert!(chaos.pieces() > 1_000, "{} pieces", chaos.pieces());
    assert_eq!((pool.stats().connects, pool.stats().connections_lost), (1, 0), "{:?}", pool.stats());
}

/// Both ways in pieces of some bytes, from the log-in on, while callers vanish at any moment.
async fn messages_in_tiny_pieces_mean_the_same(server: Server) {
    const CALLERS: i64 = 32;
    let seed = chaos_seed();
    let tiny = Mischief {
        piece_bytes_max: 9,
        pause_every_bytes: 4_000,
        pause_max: Duration::from_millis(1),
        ..Mischief::default()
    };
    let chaos = Chaos::new(seed).on(Direction::ToClient, tiny).on(Direction::ToServer, tiny);
    let proxy = Proxy::spoiled(&server.url(), &chaos);
    let pool = open(proxy.through(settings(server, "tiny")).pool_size(2).acquire_timeout(AMPLE));
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        let pool = pool.clone();
        callers.spawn(async move {
            let mut random = Rng::with_seed(seed.wrapping_add(caller as u64));
            for number in 0..50 {
                let call = assert_own(&pool, number * CALLERS + caller);
                if random.u32(..5) == 0 {
                    drop_after_polls(random.usize(..20), call).await;
                } else {
                    call.await;
                }
            }
        });
    }
    must_end("callers whose messages are in tiny pieces", callers.join_all()).await;
    wait_until("what was abandoned has been read", async || pool.stats().in_flight() == 0).await;
    assert!(chaos.pauses() > 0);
    assert_eq!(pool.stats().connections_lost, 0, "{:?}", pool.stats());
}

/// Statements do not wait for each other's answers: all have run before the first is answered.
async fn a_hundred_statements_arrive_before_the_first_answer(server: Server) {
    const CALLERS: i64 = 100;
    let (database, admin) = database(server, "trip").await;
    let proxy = Proxy::start(&server.url());
    let pool = open(proxy.through(database.settings()).pool_size(1));
    let insert = async |caller: i64| pool.execute("insert into arrival values (?)", &[&caller]).await;
    assert_eq!(insert(-1).await.unwrap().affected_rows(), 1);
    proxy.stall(Direction::ToClient);
    let callers = join_all((0..CALLERS).map(insert));
    let looking = async {
        wait_until("all statements have run", async || {
            admin.number("select count(*) from arrival where number >= 0", ()).await == CALLERS
        })
        .await;
        assert_eq!(pool.stats().in_flight() as i64, CALLERS, "nothing was answered");
        proxy.resume(Direction::ToClient);
    };
    let (outcomes, ()) = must_end("a pipeline of inserts", async { tokio::join!(callers, looking) }).await;
    assert!(outcomes.into_iter().all(|outcome| outcome.is_ok_and(|executed| executed.affected_rows() == 1)));
    assert_eq!(pool.stats().connects, 1);
}

/// Wherever in a message a connection is cut, each call ends once, and nothing runs twice.
async fn a_connection_cut_anywhere_ends_each_call_once(server: Server) {
    const CALLERS: usize = 100;
    const CUTS: u64 = 60;
    let seed = chaos_seed();
    let (database, admin) = database(server, "cut").await;
    let cutting = Mischief { cut_after_bytes: 12_000, piece_bytes_max: 3_000, ..Mischief::default() };
    let chaos = Chaos::new(seed).on(Direction::ToClient, cutting).on(Direction::ToServer, cutting);
    let proxy = Proxy::spoiled(&server.url(), &chaos);
    let pool = open(proxy.through(database.settings()).pool_size(2).acquire_timeout(AMPLE));
    let next_call = std::sync::Arc::new(AtomicI64::new(0));
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        let (pool, next_call, chaos) = (pool.clone(), next_call.clone(), chaos.clone());
        callers.spawn(async move {
            let mut outcomes = Vec::new();
            while chaos.cuts() < CUTS {
                let call = next_call.fetch_add(1, Ordering::SeqCst);
                outcomes.push((call, pool.execute("insert into arrival values (?)", &[&call]).await));
            }
            outcomes
        });
    }
    let outcomes: Vec<_> = must_end("calls on connections that are cut", callers.join_all()).await.concat();
    assert_eq!(outcomes.len() as i64, next_call.load(Ordering::SeqCst), "each call ended");
    let stats = pool.stats();
    assert_eq!((stats.in_flight(), stats.waiting), (0, 0), "{stats:?}");

    pool.close(AMPLE).await;
    // The server may not know yet that nobody waits for what it has received.
    admin.wait_for_no_session(&pool).await;
    let rows: Vec<(i64, i64)> = admin.rows_as("select number, count(*) from arrival group by number", ()).await;
    let arrivals: HashMap<i64, i64> = rows.into_iter().collect();
    let [mut done, mut lost] = [0, 0];
    for (call, outcome) in &outcomes {
        let arrived = arrivals.get(call).copied().unwrap_or(0);
        match outcome {
            Ok(executed) => assert_eq!((executed.affected_rows(), arrived), (1, 1), "call {call} was told that it ran"),
            Err(error) => {
                assert!(error.is_network(), "call {call}: {error}");
                assert!(
                    arrived <= i64::from(error.was_sent() == Some(true)),
                    "call {call} ran {arrived} times: {error}"
                );
            }
        }
        *if outcome.is_ok() { &mut done } else { &mut lost } += 1;
    }
    assert!(done > 0 && lost > 0, "{done} done, {lost} lost");
}

/// A connection that looks alive and says nothing any more, as behind a firewall that has forgotten it: who is on it
/// already stays, nobody else goes there (pgx 2394, rust-oracledb 29, pgbouncer 364).
async fn a_silent_connection_is_left_for_others(server: Server) {
    /// As many as fit on one connection before it is weighed against others by a guess of how long each will take.
    const CALLERS: i64 = 50;
    /// A lookup takes far less.
    const CLEARLY_SILENT_US: u64 = 2_000_000;
    let proxy = Proxy::start(&server.url());
    let pool = open(proxy.through(settings(server, "silent")).pool_size(4));
    // Also a busy machine is known to be quick then: slow statements keep together, here with the one that is stuck.
    for tag in 0..50 {
        assert_own(&pool, tag).await;
    }
    proxy.silence();
    let ask = |tag: i64| {
        let pool = pool.clone();
        async move { pool.query_one(TAGGED, &[&tag]).await }
    };
    let stuck = tokio::spawn(ask(FIRST_TAG));
    let silent = async || pool.stats().lanes.iter().any(|lane| lane.oldest_age_us >= CLEARLY_SILENT_US);
    wait_until("one connection says nothing", silent).await;
    // Another makes the pool grow, whether or not he was put behind the first.
    let second = tokio::spawn(ask(FIRST_TAG + 1));
    let elsewhere = async || pool.stats().lanes.iter().any(|lane| lane.in_flight == 0);
    wait_until("there is another connection", elsewhere).await;
    // One after another: the pool learns how fast it is.
    for tag in 0..200 {
        must_end("a call that could go elsewhere", assert_own(&pool, tag)).await;
    }
    for round in 0..5 {
        let tags = round * CALLERS..(round + 1) * CALLERS;
        let answers = must_end("a call that could go elsewhere", join_all(tags.clone().map(ask))).await;
        for (tag, answer) in tags.zip(answers) {
            assert_eq!(owner(&answer.unwrap()), Some(tag));
        }
    }
    assert!(!stuck.is_finished(), "it said nothing all the time");
    let open: Vec<u64> = pool.stats().lanes.iter().map(|lane| lane.lane).collect();
    proxy.reset();
    let error = must_end("a call on a connection that is reset", stuck).await.unwrap().expect_err("it was lost");
    assert!(error.is_network() && error.was_sent() == Some(true), "{error}");
    let second = must_end("a call behind it or elsewhere", second).await.unwrap();
    match second {
        Ok(row) => assert_eq!(owner(&row), Some(FIRST_TAG + 1)),
        Err(error) => assert!(error.is_network() && error.was_sent() == Some(true), "{error}"),
    }
    // On a busy machine another may have been under way.
    let lost = async || pool.stats().lanes.iter().all(|lane| !open.contains(&lane.lane));
    wait_until("all that were open are lost", lost).await;
    assert_own(&pool, 1).await;
}

/// What the answer to a statement has that was run before.
async fn answer_bytes(server: Server) -> u64 {
    let pool = open(settings(server, "answer").pool_size(1));
    assert_own(&pool, FIRST_TAG).await;
    let before = pool.stats().bytes_read;
    assert_own(&pool, FIRST_TAG + 1).await;
    pool.stats().bytes_read - before
}

/// Bits flipped on the way to us cost rows, calls and connections; they never give a caller another's row, and nothing
/// panics or is left waiting.
///
/// A length that is flipped moves a border by a power of two. Only where as many bytes are whole answers does it meet
/// another border with the number of a packet that is due, and nobody could tell: so answers have no such size here.
async fn flipped_bits_give_nobody_anothers_row(server: Server) {
    const CALLERS: i64 = 16;
    const FLIPS: u64 = 300;
    let seed = chaos_seed();
    let flipping = Mischief { flip_every_bytes: 6_000, ..Mischief::default() };
    let chaos = Chaos::new(seed).on(Direction::ToClient, flipping);
    let proxy = Proxy::spoiled(&server.url(), &chaos);
    let pool = open(proxy.through(settings(server, "flipped")).pool_size(2).acquire_timeout(AMPLE));
    let answer_bytes = answer_bytes(server).await;
    assert!(!answer_bytes.is_power_of_two(), "{answer_bytes} bytes");
    let ended = std::sync::Arc::new(AtomicUsize::new(0));
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        let (pool, chaos, ended) = (pool.clone(), chaos.clone(), ended.clone());
        callers.spawn(async move {
            let (mut answered, mut corrupted, mut failed) = (0, 0, 0);
            for number in 0.. {
                if chaos.flips() >= FLIPS {
                    break;
                }
                let tag = FIRST_TAG + number * CALLERS + caller;
                match pool.query_one(TAGGED, &[&tag]).await.map(|row| owner(&row)) {
                    Ok(Some(owner)) => {
                        assert_eq!(owner, tag, "another's row");
                        answered += 1;
                    }
                    Ok(None) => corrupted += 1,
                    Err(_) => failed += 1,
                }
                ended.fetch_add(1, Ordering::SeqCst);
            }
            [answered, corrupted, failed]
        });
    }
    let callers = tokio::spawn(callers.join_all());
    // A length that was made larger has us wait for bytes that do not come: nobody but the network can end that.
    must_end("callers who get flipped bits", async {
        while !callers.is_finished() {
            let before = ended.load(Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(200)).await;
            if ended.load(Ordering::SeqCst) == before {
                proxy.reset();
            }
        }
    })
    .await;
    let sums = callers.await.expect("no caller got another's row").into_iter();
    let [answered, corrupted, failed] = sums.fold([0, 0, 0], |sum, one| [0, 1, 2].map(|kind| sum[kind] + one[kind]));
    eprintln!("{answered} answered, {corrupted} corrupted, {failed} failed");
    assert!(answered > 0 && corrupted > 0 && failed > 0, "{answered}, {corrupted}, {failed}");

    chaos.set_calm(true);
    proxy.reset();
    let serves = async || pool.query_one(TAGGED, &[&FIRST_TAG]).await.is_ok_and(|row| owner(&row) == Some(FIRST_TAG));
    wait_until("it serves when the network is well again", serves).await;
    for tag in 0..100 {
        assert_own(&pool, tag).await;
    }
    let stats = pool.stats();
    assert_eq!((stats.in_flight(), stats.waiting), (0, 0), "{stats:?}");
}
