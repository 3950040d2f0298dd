//! What a server sends does not decide how much memory we take.

use std::pin::pin;

use cenote_tests::{must_end, open, settings};
use futures_util::future::join_all;
use tokio::sync::Mutex;

/// 200 MB, in rows of a thousand bytes.
const MUCH: &str = "select repeat('x', 1000) from generate_series(1, 200000)";
const MUCH_BYTES: u64 = 200_000_000;

/// What may be added at the peak while all of that passes: read buffers and what was held when it was dropped, with
/// room for a debug build's and the allocator's own ways.
const ADDED_BYTES_MAX: u64 = 48 << 20;

/// The peak is the process's: one test at a time.
static ALONE: Mutex<()> = Mutex::const_new(());

/// The most memory this process has ever held.
fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux tells of the process");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("it tells of the peak");
    let kilobytes = line.trim().trim_end_matches("kB").trim();
    1024 * kilobytes.parse::<u64>().expect("a number")
}

/// Neighbours make progress and memory stays bounded when one caller walks away from a large result (sequel_pg 66).
#[tokio::test]
async fn a_large_result_that_nobody_waits_for_is_read_and_dropped() {
    let _alone = ALONE.lock().await;
    let pool = open(settings("nobody_waits").pool_size(1));
    pool.query_one("select $1::int4", &[&0]).await.unwrap();
    let before = pool.stats();
    let peak_before = peak_bytes();
    {
        let mut large = pin!(pool.query(MUCH, &[]));
        // It is dropped when some of it is there.
        while pool.stats().bytes_read - before.bytes_read < 1_000_000 {
            tokio::select! {
                biased;
                outcome = &mut large => panic!("all of it came in a moment: {} rows", outcome.unwrap().len()),
                () = tokio::task::yield_now() => {}
            }
        }
    }
    assert_eq!(pool.stats().in_flight(), 1, "it is dropped while the server still sends");
    let neighbours = join_all((0..100).map(|number| {
        let pool = &pool;
        async move { pool.query_one("select $1::int4", &[&number]).await }
    }));
    for (number, answer) in (0..).zip(must_end("neighbours of a large result", neighbours).await) {
        assert_eq!(answer.unwrap().get::<_, i32>(0).unwrap(), number);
    }
    let after = pool.stats();
    assert!(after.bytes_read - before.bytes_read > MUCH_BYTES, "it was read to its end: {after:?}");
    assert_eq!((after.connects, after.in_flight()), (1, 0), "on the connection there was: {after:?}");
    let added = peak_bytes() - peak_before;
    assert!(added < ADDED_BYTES_MAX, "{added} bytes were added at the peak");
}

#[tokio::test]
async fn a_result_past_its_limit_is_read_and_dropped() {
    let _alone = ALONE.lock().await;
    let pool = open(settings("past_limit").pool_size(1).reply_bytes_max(1 << 20));
    pool.query_one("select $1::int4", &[&0]).await.unwrap();
    let peak_before = peak_bytes();
    let neighbour = async |number: i32| {
        let row = pool.query_one("select $1::int4", &[&number]).await.expect("the connection is intact");
        assert_eq!(row.get::<_, i32>(0).unwrap(), number);
    };
    let many_rows = async {
        let error = pool.query(MUCH, &[]).await.expect_err("200 MB are more than one");
        assert!(error.is_caller() && error.was_sent() == Some(true), "{error}");
        assert!(error.to_string().contains("1048576"), "it says what the limit is: {error}");
    };
    let one_value = async {
        let error = pool.query("select repeat('x', 50000000)", &[]).await.expect_err("50 MB are more than one");
        assert!(error.is_caller(), "{error}");
    };
    let all = async { tokio::join!(biased; neighbour(1), many_rows, neighbour(2), one_value, neighbour(3)) };
    must_end("results past the limit", all).await;
    let row = pool.query_one("select repeat('x', 1000000)", &[]).await.expect("below the limit");
    assert_eq!(row.get::<_, &str>(0).unwrap().len(), 1_000_000);
    let stats = pool.stats();
    assert_eq!((stats.connects, stats.in_flight(), stats.replies_too_large), (1, 0, 2), "{stats:?}");
    let added = peak_bytes() - peak_before;
    assert!(added < ADDED_BYTES_MAX, "{added} bytes were added at the peak");
}
