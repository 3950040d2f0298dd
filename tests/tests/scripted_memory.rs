//! Whatever a server sends, the memory it takes is bounded by the settings. Each test looks at the memory of its own
//! process, so the bounds leave room for what other tests do beside it.

use cenote_postgres::Pool;
use cenote_tests::must_end;
use cenote_tests::scripted::{Request, Server, Session, answer, message};

/// What a reply may take in these tests.
const REPLY_BYTES_MAX: usize = 1 << 20;

/// What the process may grow by: far less than the server sends, far more than the bound.
const GROWTH_BYTES_MAX: u64 = 48 << 20;

/// What the server sends.
const FLOOD_BYTES: usize = 128 << 20;

/// The most memory this process has ever used.
fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux tells");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("and tells this");
    let kilobytes: u64 = peak.trim().trim_end_matches(" kB").parse().expect("in kB");
    kilobytes * 1024
}

/// Sends `piece` so often that it comes to [`FLOOD_BYTES`].
fn flood(session: &mut Session, piece: &[u8]) -> std::io::Result<()> {
    // Some at a time: a system call for each message would take its time.
    let pieces = piece.repeat((1_usize << 20).div_ceil(piece.len()));
    for _ in 0..FLOOD_BYTES.div_ceil(pieces.len()) {
        session.send(&pieces)?;
    }
    Ok(())
}

/// A server that answers the first statement it runs with `begin`, a flood of `piece` and `end`.
fn flooding(begin: Vec<u8>, piece: Vec<u8>, end: Vec<u8>) -> Server {
    Server::start(move |session| {
        let mut floods = session.number == 0;
        loop {
            let requests = session.requests()?;
            if floods && requests.contains(&Request::Execute) {
                floods = false;
                session.send(&begin)?;
                flood(session, &piece)?;
                session.send(&end)?;
            } else {
                session.send(&answer(&requests))?;
            }
        }
    })
}

fn pool_of(server: &Server) -> Pool {
    server.pool(&format!("pool_size=1&reply_bytes_max={REPLY_BYTES_MAX}"))
}

fn end() -> Vec<u8> {
    [message::command_complete("SELECT 1"), message::ready(b'I')].concat()
}

async fn assert_too_large_and_bounded(name: &str, server: &Server) {
    let pool = pool_of(server);
    let before = peak_bytes();
    let error = must_end(name, pool.query("select $1", &[&7])).await.expect_err(name);
    assert!(error.is_caller(), "{name}: {error}");
    assert!(error.to_string().contains("larger than 1048576 bytes"), "{name}: {error}");
    let next = must_end(name, pool.query_one("select $1", &[&8])).await.expect("the stream is in step");
    assert_eq!(next.get::<_, i32>(0).unwrap(), 8, "{name}");
    assert_eq!((server.accepted(), pool.stats().replies_too_large), (1, 1), "{name}");
    let grown = peak_bytes() - before;
    assert!(grown < GROWTH_BYTES_MAX, "{name}: {grown} bytes more");
}

#[tokio::test]
async fn one_endless_row() {
    let begin = [message::bind_complete(), message::lying(b'D', FLOOD_BYTES as u32 + 4, b"")].concat();
    let server = flooding(begin, vec![0; 1 << 20], end());
    assert_too_large_and_bounded("one row of 128 MiB", &server).await;
}

#[tokio::test]
async fn endless_rows() {
    let row = message::data_row(&[Some(&[0; 4])]);
    let server = flooding(message::bind_complete(), row, end());
    assert_too_large_and_bounded("rows of 128 MiB", &server).await;
}

#[tokio::test]
async fn endless_notices_in_a_reply() {
    let server = flooding(message::bind_complete(), message::notice(&"n".repeat(10_000)), end());
    assert_too_large_and_bounded("notices of 128 MiB", &server).await;
}

#[tokio::test]
async fn endless_errors_in_a_reply() {
    let error = message::error("ERROR", "XX000", &"e".repeat(10_000));
    let server = flooding(message::bind_complete(), error, end());
    assert_too_large_and_bounded("errors of 128 MiB", &server).await;
}

/// The caller is told when the bound is reached: whether there will ever be an end is up to the server.
#[tokio::test]
async fn a_reply_that_never_ends_is_told_when_it_is_too_large() {
    let server = Server::start(|session| {
        if session.number > 0 {
            return session.serve();
        }
        let description = answer(&session.requests()?);
        session.send(&description)?;
        session.requests()?;
        session.send(&[message::bind_complete(), message::lying(b'D', 1 << 29, b"")].concat())?;
        session.send(&vec![0; 4 * REPLY_BYTES_MAX])?;
        session.wait_for_close()
    });
    let pool = pool_of(&server);
    let error = must_end("a reply without end", pool.query("select $1", &[&7])).await.expect_err("too large");
    assert!(error.is_caller() && error.to_string().contains("larger than 1048576 bytes"), "{error}");
}

/// A server that says good-bye for ever, and never goes.
#[tokio::test]
async fn endless_farewells() {
    for in_flight in [true, false] {
        let farewell = message::error("FATAL", "57P01", &"f".repeat(10_000));
        let server = Server::start(move |session| {
            if session.number > 0 {
                return session.serve();
            }
            for _ in 0..2 {
                let requests = session.requests()?;
                if !(in_flight && requests.contains(&Request::Execute)) {
                    session.send(&answer(&requests))?;
                }
            }
            flood(session, &farewell)
        });
        let pool = pool_of(&server);
        let before = peak_bytes();
        let result = must_end("endless farewells", pool.query("select $1", &[&7])).await;
        assert_eq!(result.is_err(), in_flight);
        let ended = || async { pool.stats().lanes.is_empty() };
        cenote_tests::wait_until("the connection ends", ended).await;
        let grown = peak_bytes() - before;
        assert!(grown < GROWTH_BYTES_MAX, "in flight: {in_flight}: {grown} bytes more");
    }
}
