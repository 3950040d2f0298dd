//! Each caller gets its own answer or its own error, whatever the others do on the same connections.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

use cenote_postgres::{Error, Pool, SqlState};
use cenote_tests::{Admin, Dropped, OwnSchema, drop_after_polls, must_end, open, wait_until};
use fastrand::Rng;
use futures_util::future::join_all;
use tokio::task::JoinSet;

const CALLERS: usize = 256;
const QUERIES_EACH: usize = 1_000;
const CONNECTIONS: usize = 8;
const ANSWER_BYTES_MAX: i32 = 200_000;

/// What the queries of all callers came to.
#[derive(Debug, Default)]
struct Tally {
    answered: AtomicUsize,
    failed: AtomicUsize,
    dropped: AtomicUsize,
}

const ANSWER: &str = "select $1::text || repeat('x', $2::int)";
const NOT_A_NUMBER: &str = "select $1::text::int";
const DUPLICATE: &str = "insert into token select unnest(array[$1::text, $1::text])";
const RAISED: &str = "select refuse($1)";
const BY_ZERO: &str = "select $1::text, 1 / $2::int";

async fn schema() -> OwnSchema {
    let schema = OwnSchema::create("own_answer").await;
    let admin = schema.admin().await;
    admin.run("create table token (name text primary key); grant all on token to cenote").await;
    admin
        .run("create function refuse(token text) returns int language plpgsql as $$ begin raise '%', token using errcode = 'check_violation'; end $$")
        .await;
    schema
}

/// Mostly a short answer, now and then a long one: all of them together stay below some hundred megabytes.
fn answer_bytes(random: &mut Rng) -> i32 {
    match random.u32(..1_000) {
        0..2 => random.i32(0..ANSWER_BYTES_MAX),
        2..100 => random.i32(0..4_000),
        _ => random.i32(0..100),
    }
}

/// One caller: one statement after another, each with a token of its own.
async fn call(pool: &Pool, caller: usize, random: &mut Rng, tally: &Tally) {
    for number in 0..QUERIES_EACH {
        let token = format!("{caller}-{number}-{:x}", random.u64(..));
        let fails = number % 7 == 6;
        let outcome = if fails {
            let failing = random.usize(..4);
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

async fn answered(pool: &Pool, token: &str, bytes: i32) {
    let row = pool.query_one(ANSWER, &[&token, &bytes]).await.unwrap_or_else(|error| panic!("{token}: {error}"));
    let text: &str = row.get(0).unwrap();
    let rest = text.strip_prefix(token).unwrap_or_else(|| panic!("{token} got {}", &text[..text.len().min(60)]));
    assert_eq!(rest.len(), bytes as usize, "{token}");
    // Compared as a whole: byte by byte takes a debug build too long.
    assert!(*rest == LONGEST[..rest.len()], "{token}");
}

async fn refused(pool: &Pool, failing: usize, token: &str) {
    let (sql, code) = [
        (NOT_A_NUMBER, SqlState::INVALID_TEXT_REPRESENTATION),
        (DUPLICATE, SqlState::UNIQUE_VIOLATION),
        (RAISED, SqlState::CHECK_VIOLATION),
        (BY_ZERO, SqlState::DIVISION_BY_ZERO),
    ][failing];
    let result = match sql {
        BY_ZERO => pool.query(sql, &[&token, &0]).await,
        DUPLICATE => pool.execute(sql, &[&token]).await.map(|_| Vec::new()),
        _ => pool.query(sql, &[&token]).await,
    };
    let error = result.err().unwrap_or_else(|| panic!("{token}: {sql} went through"));
    assert_eq!(error.code(), Some(code), "{token}: {error}");
    // All but one repeat what they were given: it is the caller's own.
    assert!(sql == BY_ZERO || error.to_string().contains(token), "{token} got {error}");
}

/// Looks on until told to stop: at no moment are there more connections than the pool may have.
async fn watch(pool: Pool, stop: Arc<AtomicBool>) {
    let admin = Admin::connect().await;
    while !stop.load(Ordering::SeqCst) {
        let stats = pool.stats();
        assert!(stats.lanes.len() <= CONNECTIONS, "{stats:?}");
        let backends = admin.backends(&pool).await.len();
        assert!(backends <= CONNECTIONS, "the server has {backends} sessions of the pool");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
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
    assert_eq!(row.get::<_, i64>(0).unwrap(), 0, "no duplicate came through");
}

fn seed() -> u64 {
    let seed = fastrand::u64(..);
    eprintln!("seed {seed}");
    seed
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_caller_gets_its_own_answer_on_a_runtime_of_two_threads() {
    let schema = schema().await;
    let pool = open(schema.settings().pool_size(CONNECTIONS));
    let (seed, tally, stop) = (seed(), Arc::new(Tally::default()), Arc::new(AtomicBool::new(false)));
    let watching = tokio::spawn(watch(pool.clone(), Arc::clone(&stop)));
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

#[tokio::test]
async fn every_caller_gets_its_own_answer_on_two_threads_that_share_a_pool() {
    let schema = schema().await;
    let settings = schema.settings().pool_size(CONNECTIONS).build().unwrap();
    let (seed, tally, stop) = (seed(), Arc::new(Tally::default()), Arc::new(AtomicBool::new(false)));
    let pool = Pool::open(&settings).unwrap();
    let watching = tokio::spawn(watch(pool.clone(), Arc::clone(&stop)));
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

/// The tracker of a well-known benchmark tells how a shared Sync made neighbours of a failing statement fail (TFB 7019).
#[tokio::test]
async fn an_error_is_its_own_callers_alone() {
    let schema = OwnSchema::create("own_error").await;
    let pool = open(schema.settings().pool_size(1));
    pool.execute("create table item (id int primary key)", &[]).await.unwrap();
    pool.execute("insert into item values (0)", &[]).await.unwrap();
    let outcomes: Vec<Result<i32, Error>> = join_all((0..200).map(|caller: i32| {
        let pool = &pool;
        async move {
            match caller % 6 {
                0 => pool.execute("insert into item values ($1)", &[&0]).await.map(|_| -1),
                3 => pool.query_one("select $1 / 0", &[&caller]).await.map(|_| -1),
                1 => pool.execute("insert into item values ($1)", &[&caller]).await.map(|_| caller),
                _ => pool.query_one("select $1 + 0", &[&caller]).await.map(|row| row.get(0).unwrap()),
            }
        }
    }))
    .await;
    for (caller, outcome) in (0..).zip(outcomes) {
        let expected = match caller % 6 {
            0 => Err(Some(SqlState::UNIQUE_VIOLATION)),
            3 => Err(Some(SqlState::DIVISION_BY_ZERO)),
            _ => Ok(caller),
        };
        assert_eq!(outcome.map_err(|error| error.code()), expected, "caller {caller}");
    }
    let stats = pool.stats();
    assert_eq!((stats.in_flight(), stats.connects), (0, 1), "{stats:?}");
    let kept: Vec<(i32,)> = pool.query_as("select id from item where id > 0 order by id", &[]).await.unwrap();
    assert!(kept.into_iter().map(|(id,)| id).eq((0..200).filter(|caller| caller % 6 == 1)));
}
