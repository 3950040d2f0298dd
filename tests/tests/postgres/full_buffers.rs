//! Much to write and much to read on one connection, at the same time: with the socket buffers of both sides full, a
//! driver that wrote before it read would wait for a server that does the same (pgjdbc 194, npgsql 3846, psycopg 685).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use cenote_postgres::Pool;
use cenote_tests::{OwnSchema, must_end, open, settings};
use futures_util::future::join_all;

/// No caller of these tests is to fail because a debug build is slow.
const PATIENCE: Duration = Duration::from_secs(3_600);

/// Of what is queued at once: more than the kernel holds for both sides of a connection together.
const UNSENT_BYTES: usize = 64 << 20;

const STATEMENTS: usize = 2_000;

#[tokio::test]
async fn large_statements_with_large_answers_finish() {
    large_statements_finish(open(settings("large").pool_size(1).acquire_timeout(PATIENCE))).await;
}

/// With far more in flight than the usual limits let through, so that each side has its buffers full for certain.
#[tokio::test]
async fn large_statements_with_large_answers_finish_all_in_flight() {
    let settings = settings("all_large").pool_size(1).max_pipeline(STATEMENTS).unsent_bytes_max(UNSENT_BYTES);
    large_statements_finish(open(settings.acquire_timeout(PATIENCE))).await;
}

async fn large_statements_finish(pool: Pool) {
    let filler = "x".repeat(64 * 1024);
    let answers = join_all((0..STATEMENTS).map(|number| {
        let (pool, filler) = (&pool, &filler);
        async move {
            let token = number.to_string();
            let row = pool.query_one("select $1::text, $2::text", &[&token, filler]).await?;
            assert_eq!(row.get::<_, &str>(0)?, token);
            assert!(row.get::<_, &str>(1)? == filler, "statement {number} got its answer whole");
            Ok::<(), cenote_postgres::Error>(())
        }
    }));
    for (number, answer) in must_end("large statements with large answers", answers).await.into_iter().enumerate() {
        answer.unwrap_or_else(|error| panic!("statement {number}: {error}"));
    }
    let stats = pool.stats();
    assert_eq!((stats.connects, stats.in_flight(), stats.waiting), (1, 0, 0), "{stats:?}");
    let bytes = (STATEMENTS * filler.len()) as u64;
    assert!(stats.bytes_written > bytes && stats.bytes_read > bytes, "{stats:?}");
    assert!(stats.writes <= stats.turns && stats.reads <= stats.turns, "{stats:?}");
}

#[tokio::test]
async fn floods_of_notices_finish() {
    const STATEMENTS: usize = 100;
    const NOTICES_EACH: i32 = 1_000;
    const NOTICE_BYTES: i32 = 1_000;
    let schema = OwnSchema::create("notices").await;
    schema
        .admin()
        .await
        .run(
            "create function flood(notices int, bytes int, filler text) returns int language plpgsql as $$ begin \
             for number in 1..notices loop raise notice '%', repeat('x', bytes); end loop; return length(filler); end $$",
        )
        .await;
    let pool = open(schema.settings().pool_size(1).unsent_bytes_max(UNSENT_BYTES).acquire_timeout(PATIENCE));
    let (heard, heard_bytes) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    pool.on_notice({
        let (heard, heard_bytes) = (Arc::clone(&heard), Arc::clone(&heard_bytes));
        move |notice| {
            heard.fetch_add(1, Ordering::SeqCst);
            heard_bytes.fetch_add(notice.message().len(), Ordering::SeqCst);
        }
    });
    // Each statement is large, too, so that writes wait for the server while it waits for us.
    let filler = "y".repeat(256 * 1024);
    let answers = join_all((0..STATEMENTS).map(|_| async {
        let parameters: [&(dyn cenote_postgres::types::ToSql + Sync); 3] = [&NOTICES_EACH, &NOTICE_BYTES, &filler];
        let row = pool.query_one("select flood($1, $2, $3)", &parameters).await?;
        assert_eq!(row.get::<_, i32>(0)?, filler.len() as i32);
        Ok::<(), cenote_postgres::Error>(())
    }));
    for (number, answer) in must_end("floods of notices", answers).await.into_iter().enumerate() {
        answer.unwrap_or_else(|error| panic!("statement {number}: {error}"));
    }
    let expected = STATEMENTS * NOTICES_EACH as usize;
    assert_eq!(heard.load(Ordering::SeqCst), expected);
    assert_eq!(heard_bytes.load(Ordering::SeqCst), expected * NOTICE_BYTES as usize);
    assert_eq!((pool.stats().connects, pool.stats().in_flight()), (1, 0));
}
