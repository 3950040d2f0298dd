//! Each caller gets its own answer or its own error, whatever the others do on the same connections of MySQL and MariaDB.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use cenote_mysql::{Error, ErrorCode, Pool};
use cenote_tests::mysql::{Admin, OwnDatabase, Server, open};
use cenote_tests::{Dropped, drop_after_polls, must_end, on_each_server, wait_until};
use fastrand::Rng;
use futures_util::future::join_all;
use tokio::task::JoinSet;

on_each_server!(
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    every_caller_gets_its_own_answer_on_a_runtime_of_two_threads
);
on_each_server!(
    every_caller_gets_its_own_answer_on_two_threads_that_share_a_pool,
    an_error_is_its_own_callers_alone,
    large_abandoned_results_leave_the_connection_in_step,
);

const CALLERS: usize = 256;
const QUERIES_EACH: usize = 150;
const CONNECTIONS: usize = 8;
const ANSWER_BYTES_MAX: i64 = 200_000;

/// What the queries of all callers came to.
#[derive(Debug, Default)]
struct Tally {
    answered: AtomicUsize,
    failed: AtomicUsize,
    dropped: AtomicUsize,
}

const ANSWER: &str = "select concat(?, repeat('x', ?))";

/// Ways to fail, each with a code of its own. One is there already; one is raised with the caller's words; one is found
/// out while it runs; one does not come to run, and has a text that nobody else has.
#[derive(Clone, Copy, Debug)]
enum Failing {
    Duplicate,
    Raised,
    OutOfRange,
    NotPrepared,
}

const FAILING: [Failing; 4] = [Failing::Duplicate, Failing::Raised, Failing::OutOfRange, Failing::NotPrepared];

/// `ER_SIGNAL_EXCEPTION`: what SIGNAL says when nobody handles it.
const SIGNALLED: u16 = 1644;

async fn database(server: Server) -> OwnDatabase {
    let database = OwnDatabase::create(server, "own_answer").await;
    let admin = database.admin().await;
    admin.run("create table token (id int primary key, name varchar(100))").await;
    admin.run("insert into token values (1, 'the only one')").await;
    let body = "begin signal sqlstate '45000' set message_text = token; return 1; end";
    admin.run(&format!("create function refuse(token varchar(100)) returns int deterministic {body}")).await;
    database
}

/// Mostly a short answer, now and then a long one: all of them together stay below some hundred megabytes.
fn answer_bytes(random: &mut Rng) -> i64 {
    match random.u32(..1_000) {
        0..2 => random.i64(0..ANSWER_BYTES_MAX),
        2..100 => random.i64(0..4_000),
        _ => random.i64(0..100),
    }
}

/// One caller: one statement after another, each with a token of its own.
async fn call(pool: &Pool, caller: usize, random: &mut Rng, tally: &Tally) {
    for number in 0..QUERIES_EACH {
        let token = format!("{caller}-{number}-{:x}", random.u64(..));
        let fails = number % 7 == 6;
        let outcome = if fails {
            let failing = FAILING[random.usize(..FAILING.len())];
            maybe_dropped(random, refused(pool, failing, &token)).await
        } else {
            let bytes = answer_bytes(random);
            maybe_dropped(random, answered(pool, &token, bytes)).await
        };
        let counter = match outcome {
            Dropped::Pending => &tally.dropped,
            Dropped::Ready(()) if fails => &tally.failed,
            Dropped::Ready(()) => &tally.answered,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// One in ten is dropped after so many polls.
async fn maybe_dropped<T>(random: &mut Rng, future: impl Future<Output = T>) -> Dropped<T> {
    if random.u32(..10) == 0 { drop_after_polls(random.usize(..8), future).await } else { Dropped::Ready(future.await) }
}

static LONGEST: LazyLock<String> = LazyLock::new(|| "x".repeat(ANSWER_BYTES_MAX as usize));

async fn answered(pool: &Pool, token: &str, bytes: i64) {
    let row = pool.query_one(ANSWER, &[&token, &bytes]).await.unwrap_or_else(|error| panic!("{token}: {error}"));
    let text: &str = row.get(0).unwrap();
    let rest = text.strip_prefix(token).unwrap_or_else(|| panic!("{token} got {}", &text[..text.len().min(60)]));
    assert_eq!(rest.len(), bytes as usize, "{token}");
    // Compared as a whole: byte by byte takes a debug build too long.
    assert!(*rest == LONGEST[..rest.len()], "{token}");
}

async fn refused(pool: &Pool, failing: Failing, token: &str) {
    let result = match failing {
        Failing::Duplicate => pool.execute("insert into token values (1, ?)", &[&token]).await.map(|_| Vec::new()),
        Failing::Raised => pool.query("select refuse(?)", &[&token]).await,
        Failing::OutOfRange => pool.query("select ?, exp(?)", &[&token, &1_000_000.0]).await,
        Failing::NotPrepared => pool.query(&format!("selec '{token}'"), &[]).await,
    };
    let error = result.err().unwrap_or_else(|| panic!("{token}: {failing:?} went through"));
    let code = match failing {
        Failing::Duplicate => ErrorCode::DUPLICATE_ENTRY.number(),
        Failing::Raised => SIGNALLED,
        Failing::OutOfRange => ErrorCode::RESULT_OUT_OF_RANGE.number(),
        Failing::NotPrepared => ErrorCode::SYNTAX_ERROR.number(),
    };
    assert_eq!(error.code().map(ErrorCode::number), Some(code), "{token}: {error}");
    // What repeats what it was given: it is the caller's own.
    let repeats = matches!(failing, Failing::Raised | Failing::NotPrepared);
    assert!(!repeats || error.to_string().contains(token), "{token} got {error}");
}

/// Looks on until told to stop: at no moment are there more connections than the pool may have.
async fn watch(server: Server, pool: Pool, stop: Arc<AtomicBool>) {
    let admin = Admin::connect(server).await;
    while !stop.load(Ordering::SeqCst) {
        let stats = pool.stats();
        assert!(stats.lanes.len() <= CONNECTIONS, "{stats:?}");
        let sessions = admin.sessions(&pool).await.len();
        assert!(sessions <= CONNECTIONS, "the server has {sessions} sessions of the pool");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn nothing_is_left(pool: &Pool, tally: &Tally) {
    let settled = async || pool.stats().in_flight() == 0;
    wait_until("the dropped statements have been answered", settled).await;
    let stats = pool.stats();
    assert_eq!((stats.waiting, stats.connections_lost, stats.quarantines), (0, 0, 0), "{stats:?}");
    assert!(stats.connections() <= CONNECTIONS, "{stats:?}");
    let [answered, failed, dropped] =
        [&tally.answered, &tally.failed, &tally.dropped].map(|counter| counter.load(Ordering::SeqCst));
    assert_eq!(answered + failed + dropped, CALLERS * QUERIES_EACH);
    assert!(answered > 0 && failed > 0 && dropped > 0, "{tally:?}");
    let row = pool.query_one("select count(*) from token", &[]).await.unwrap();
    assert_eq!(row.get::<_, i64>(0).unwrap(), 1, "no duplicate came through");
}

fn seed() -> u64 {
    let seed = fastrand::u64(..);
    eprintln!("seed {seed}");
    seed
}

async fn every_caller_gets_its_own_answer_on_a_runtime_of_two_threads(server: Server) {
    let database = database(server).await;
    let pool = open(database.settings().pool_size(CONNECTIONS));
    let (seed, tally, stop) = (seed(), Arc::new(Tally::default()), Arc::new(AtomicBool::new(false)));
    let watching = tokio::spawn(watch(server, pool.clone(), Arc::clone(&stop)));
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        let (pool, tally) = (pool.clone(), Arc::clone(&tally));
        callers.spawn(async move {
            let mut random = Rng::with_seed(seed.wrapping_add(caller as u64));
            call(&pool, caller, &mut random, &tally).await;
        });
    }
    must_end("256 callers on two threads", callers.join_all()).await;
    stop.store(true, Ordering::SeqCst);
    watching.await.unwrap();
    nothing_is_left(&pool, &tally).await;
}

async fn every_caller_gets_its_own_answer_on_two_threads_that_share_a_pool(server: Server) {
    let database = database(server).await;
    let settings = database.settings().pool_size(CONNECTIONS).build().unwrap();
    let (seed, tally, stop) = (seed(), Arc::new(Tally::default()), Arc::new(AtomicBool::new(false)));
    let pool = Pool::open(&settings).unwrap();
    let watching = tokio::spawn(watch(server, pool.clone(), Arc::clone(&stop)));
    let threads = [0, 1].map(|thread| {
        let (settings, tally) = (settings.clone(), Arc::clone(&tally));
        std::thread::spawn(move || {
            // Equal settings: the same pool, with lanes at home on this thread.
            let pool = Pool::open(settings).unwrap();
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let callers = (thread * CALLERS / 2..(thread + 1) * CALLERS / 2).map(|caller| {
                let (pool, tally) = (&pool, &tally);
                async move {
                    let mut random = Rng::with_seed(seed.wrapping_add(caller as u64));
                    call(pool, caller, &mut random, tally).await;
                }
            });
            runtime.block_on(must_end("128 callers on a thread", join_all(callers)));
        })
    });
    let joined = tokio::task::spawn_blocking(|| threads.map(std::thread::JoinHandle::join));
    for result in joined.await.unwrap() {
        result.expect("no caller got what was not its own");
    }
    stop.store(true, Ordering::SeqCst);
    watching.await.unwrap();
    nothing_is_left(&pool, &tally).await;
}

async fn an_error_is_its_own_callers_alone(server: Server) {
    let database = OwnDatabase::create(server, "own_error").await;
    let pool = open(database.settings().pool_size(1));
    pool.execute("create table item (id int primary key)", &[]).await.unwrap();
    pool.execute("insert into item values (0)", &[]).await.unwrap();
    let outcomes: Vec<Result<i32, Error>> = join_all((0..200).map(|caller: i32| {
        let pool = &pool;
        async move {
            match caller % 6 {
                0 => pool.execute("insert into item values (?)", &[&0]).await.map(|_| -1),
                3 => pool.query_one("select exp(? + 1000000)", &[&caller]).await.map(|_| -1),
                1 => pool.execute("insert into item values (?)", &[&caller]).await.map(|_| caller),
                _ => pool.query_one("select ? + 0", &[&caller]).await.map(|row| row.get(0).unwrap()),
            }
        }
    }))
    .await;
    for (caller, outcome) in (0..).zip(outcomes) {
        let expected = match caller % 6 {
            0 => Err(Some(ErrorCode::DUPLICATE_ENTRY)),
            3 => Err(Some(ErrorCode::RESULT_OUT_OF_RANGE)),
            _ => Ok(caller),
        };
        assert_eq!(outcome.map_err(|error| error.code()), expected, "caller {caller}");
    }
    let stats = pool.stats();
    assert_eq!((stats.in_flight(), stats.connects), (0, 1), "{stats:?}");
    let kept: Vec<(i32,)> = pool.query_as("select id from item where id > 0 order by id", &[]).await.unwrap();
    assert!(kept.into_iter().map(|(id,)| id).eq((0..200).filter(|caller| caller % 6 == 1)));
}

/// Drivers that stop reading in the middle of a result give the next caller its rest (sqlx 563, asyncmy 89 and 103).
async fn large_abandoned_results_leave_the_connection_in_step(server: Server) {
    const MANY: &str = "select a.id, a.randomnumber, b.id from world a join world b on b.id <= 10";
    let pool = open(cenote_tests::mysql::settings(server, "abandoned").pool_size(1));
    pool.query_one("select randomnumber from world where id = ?", &[&1]).await.unwrap();
    for round in 0..10 {
        let large = drop_after_polls(1 + round * 7, pool.query(MANY, &[]));
        let small = join_all((1..=100).map(|id: i32| {
            let pool = &pool;
            async move {
                let row = pool.query_one("select ?, id from world where id = ?", &[&-id, &id]).await?;
                Ok::<(i32, i32), Error>((row.get(0)?, row.get(1)?))
            }
        }));
        let (_, small) = must_end("lookups beside an abandoned result", async { tokio::join!(large, small) }).await;
        for (id, answer) in (1..).zip(small) {
            assert_eq!(answer.unwrap(), (-id, id), "round {round}");
        }
    }
    let rows = pool.query(MANY, &[]).await.unwrap();
    assert_eq!(rows.len(), 100_000);
    wait_until("what was abandoned has been read", async || pool.stats().in_flight() == 0).await;
    assert_eq!((pool.stats().connects, pool.stats().connections_lost), (1, 0));
}
