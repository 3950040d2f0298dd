//! Statements and answers at the edges of what the protocol, the server and the pool take, between small ones.

use std::time::Duration;

use cenote_mysql::{Error, Pool};
use cenote_tests::mysql::{Admin, Server, open, settings, settings_at};
use cenote_tests::{PrivateServer, must_end, on_each_server, wait_until};
use futures_util::future::join_all;

on_each_server!(
    values_at_the_edges_of_a_packet_come_back_whole,
    statements_at_the_servers_limit,
    answers_of_many_packets_follow_each_other,
    answers_too_large_leave_the_connection_in_step,
    large_statements_with_large_answers_finish,
    large_statements_with_large_answers_finish_all_in_flight,
);

/// No caller of these tests is to fail because a debug build is slow.
const PATIENCE: Duration = Duration::from_secs(3_600);

/// A packet's payload is shorter than this; one with as many bytes goes on in the next packet.
const PACKET_PAYLOAD_BYTES_MAX: usize = (1 << 24) - 1;

/// Of an EXECUTE with one text: all but the text and its length.
const EXECUTE_BYTES: usize = 10 + 1 + 1 + 2;

/// Of a binary row: its first byte and which columns are NULL.
const ROW_BYTES: usize = 2;

/// The length of a text takes four bytes, or nine from 16 MiB on.
const LENGTH_BYTES: [usize; 2] = [4, 9];

async fn neighbours_are_well(pool: &Pool) -> Result<(), Error> {
    for answer in join_all((0..20).map(|number: i32| async move {
        assert_eq!(pool.query_one("select ?", &[&number]).await?.get::<_, i32>(0)?, number);
        Ok::<(), Error>(())
    }))
    .await
    {
        answer?;
    }
    Ok(())
}

/// vertx 283, bun 24844, reactphp 47: the empty packet behind a full one is forgotten, or taken for an answer of its own.
async fn values_at_the_edges_of_a_packet_come_back_whole(server: Server) {
    let private = PrivateServer::mysql(server, "edges").await;
    Admin::connect_to(private.admin_url()).await.run("set global max_allowed_packet = 67108864").await;
    let settings = settings_at(private.url(), "edges").pool_size(1).reply_bytes_max(128 << 20);
    let pool = open(settings.acquire_timeout(PATIENCE).unsent_bytes_max(64 << 20));
    let mut sizes = Vec::new();
    for payload in [
        PACKET_PAYLOAD_BYTES_MAX - 1,
        PACKET_PAYLOAD_BYTES_MAX,
        PACKET_PAYLOAD_BYTES_MAX + 1,
        2 * PACKET_PAYLOAD_BYTES_MAX,
    ] {
        sizes.push(payload);
        for length in LENGTH_BYTES {
            sizes.extend([EXECUTE_BYTES, ROW_BYTES].map(|front| payload - front - length));
        }
    }
    sizes.sort_unstable();
    sizes.dedup();
    let longest: String = ('a'..='z').cycle().take(sizes[sizes.len() - 1]).collect();
    for bytes in sizes {
        let text = &longest[..bytes];
        let large = async {
            let row = pool.query_one("select ?", &[&text]).await?;
            assert!(row.get::<_, &str>(0)? == text, "{bytes} bytes came back changed");
            Ok::<(), Error>(())
        };
        let all = async { tokio::join!(biased; neighbours_are_well(&pool), large, neighbours_are_well(&pool)) };
        let (before, large, behind) = must_end("a large value between small ones", all).await;
        [before, large, behind]
            .into_iter()
            .for_each(|outcome| outcome.unwrap_or_else(|error| panic!("{bytes}: {error}")));
    }
    // A text so long is prepared, too: that is a command of several packets with another sort of answer.
    let sql = format!("select length('{}'), ?", &longest[..PACKET_PAYLOAD_BYTES_MAX]);
    let prepared = async { pool.query_one(&sql, &[&7]).await };
    let (row, neighbours) = must_end("a long text", async { tokio::join!(prepared, neighbours_are_well(&pool)) }).await;
    neighbours.unwrap();
    assert_eq!(row.unwrap().get::<_, u64>(0).unwrap(), PACKET_PAYLOAD_BYTES_MAX as u64);
    // As text, where a row begins with the length: 0xFE, like the end of the rows.
    for bytes in [1 << 24, (1 << 24) - 10, (1 << 24) + 1] {
        let sql = format!("select repeat('x', {bytes}), 'behind' union all select 'short', 'row'");
        let (rows, neighbours) = must_end("a row that looks like an end", async {
            tokio::join!(biased; pool.query_text(&sql), neighbours_are_well(&pool))
        })
        .await;
        neighbours.unwrap();
        let rows = rows.unwrap();
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[0].get::<_, &str>(0).unwrap().len(), bytes);
        assert_eq!(rows[0].get::<_, &str>(1).unwrap(), "behind");
        assert_eq!(rows[1].get::<_, &str>(0).unwrap(), "short");
    }
    assert_eq!((pool.stats().connects, pool.stats().in_flight()), (1, 0));
}

async fn statements_at_the_servers_limit(server: Server) {
    const LIMIT: usize = 1 << 20;
    let private = PrivateServer::mysql(server, "limit").await;
    Admin::connect_to(private.admin_url()).await.run(&format!("set global max_allowed_packet = {LIMIT}")).await;
    let pool = open(settings_at(private.url(), "limit").pool_size(1).unsent_bytes_max(8 << 20));
    pool.query_one("select length(?)", &[&""]).await.unwrap();
    for past in [-1_isize, 0, 1, 1_000] {
        let fits = past < 0;
        let text = "x".repeat(LIMIT.strict_add_signed(past) - EXECUTE_BYTES - LENGTH_BYTES[0]);
        let sql =
            format!("select length('{}')", "x".repeat(LIMIT.strict_add_signed(past) - 1 - "select length('')".len()));
        let all = async {
            tokio::join!(
                biased;
                neighbours_are_well(&pool),
                async { pool.query_one("select length(?)", &[&text]).await },
                pool.query_text(&sql),
                pool.query_one(&sql, &[]),
                neighbours_are_well(&pool)
            )
        };
        let (before, value, as_text, prepared, behind) = must_end("statements at the limit", all).await;
        before.unwrap();
        behind.unwrap();
        for (what, error) in [("a value", value.err()), ("a text", as_text.err()), ("a prepared text", prepared.err())]
        {
            match error {
                None => assert!(fits, "{what} of {past} past the limit went through"),
                Some(error) => {
                    assert!(!fits && error.is_caller(), "{what} of {past} past the limit: {error}");
                    assert!(error.to_string().contains("max_allowed_packet"), "{error}");
                }
            }
        }
    }
    assert_eq!((pool.stats().connects, pool.stats().connections_lost), (1, 0));
}

/// Packets are numbered by one byte, which begins anew within an answer of so many.
async fn answers_of_many_packets_follow_each_other(server: Server) {
    let pool = open(settings(server, "many_packets").pool_size(1));
    let answers = join_all((0..100).map(|number: i32| {
        let pool = &pool;
        async move {
            let rows =
                pool.query("select id, ? from world where id <= ? order by id", &[&number, &(1_000 + number)]).await?;
            assert_eq!(rows.len(), 1_000 + number as usize);
            for (id, row) in (1..).zip(&rows) {
                assert_eq!((row.get::<_, i32>(0)?, row.get::<_, i32>(1)?), (id, number));
            }
            Ok::<(), Error>(())
        }
    }));
    for (number, answer) in must_end("answers of many packets", answers).await.into_iter().enumerate() {
        answer.unwrap_or_else(|error| panic!("{number}: {error}"));
    }
    // The numbers that end an answer, one by one.
    for rows in 245..260 {
        let found = pool.query("select id from world where id <= ?", &[&rows]).await.unwrap();
        assert_eq!(found.len(), rows as usize);
    }
    assert_eq!(pool.stats().connects, 1);
}

async fn answers_too_large_leave_the_connection_in_step(server: Server) {
    const MAX: usize = 100_000;
    let pool = open(settings(server, "too_large").pool_size(1).reply_bytes_max(MAX));
    for sql in ["select repeat('x', ?)", "select id, randomnumber, 'and more' from world where id < ? / 20"] {
        let answers = join_all((0..30).map(|number: i32| {
            let pool = &pool;
            async move {
                match number % 3 {
                    0 => pool.query(sql, &[&200_000]).await.map(|rows| rows.len()),
                    1 => pool.query(sql, &[&100]).await.map(|rows| rows.len()),
                    _ => neighbours_are_well(pool).await.map(|()| 0),
                }
            }
        }));
        for (number, answer) in must_end("answers too large", answers).await.into_iter().enumerate() {
            match answer {
                Ok(_) => assert!(number % 3 != 0, "{number} went through"),
                Err(error) => {
                    assert!(number % 3 == 0 && error.is_caller(), "{number}: {error}");
                    assert_eq!(error.was_sent(), Some(true), "{error}");
                    assert!(error.to_string().contains(&MAX.to_string()), "it says the limit: {error}");
                }
            }
        }
    }
    let stats = pool.stats();
    assert_eq!((stats.connects, stats.replies_too_large, stats.in_flight()), (1, 20, 0), "{stats:?}");
}

/// Of what is queued at once: more than the kernel holds for both sides of a connection together.
const UNSENT_BYTES: usize = 64 << 20;

const STATEMENTS: usize = 1_000;

async fn large_statements_with_large_answers_finish(server: Server) {
    large_statements_finish(open(settings(server, "large").pool_size(1).acquire_timeout(PATIENCE))).await;
}

/// With far more in flight than the usual limits let through, so that each side has its buffers full for certain.
async fn large_statements_with_large_answers_finish_all_in_flight(server: Server) {
    let settings = settings(server, "all_large").pool_size(1).max_pipeline(STATEMENTS).unsent_bytes_max(UNSENT_BYTES);
    large_statements_finish(open(settings.acquire_timeout(PATIENCE))).await;
}

async fn large_statements_finish(pool: Pool) {
    let filler = "x".repeat(64 * 1024);
    let answers = join_all((0..STATEMENTS).map(|number| {
        let (pool, filler) = (&pool, &filler);
        async move {
            let token = number.to_string();
            let row = pool.query_one("select ?, ?", &[&token, filler]).await?;
            assert_eq!(row.get::<_, &str>(0)?, token);
            assert!(row.get::<_, &str>(1)? == filler, "statement {number} got its answer whole");
            Ok::<(), Error>(())
        }
    }));
    for (number, answer) in must_end("large statements with large answers", answers).await.into_iter().enumerate() {
        answer.unwrap_or_else(|error| panic!("statement {number}: {error}"));
    }
    wait_until("nothing is in flight", async || pool.stats().in_flight() == 0).await;
    let stats = pool.stats();
    assert_eq!((stats.connects, stats.waiting), (1, 0), "{stats:?}");
    let bytes = (STATEMENTS * filler.len()) as u64;
    assert!(stats.bytes_written > bytes && stats.bytes_read > bytes, "{stats:?}");
    assert!(stats.writes <= stats.turns && stats.reads <= stats.turns, "{stats:?}");
}
