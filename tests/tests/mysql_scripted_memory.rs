//! Whatever a MySQL server sends, the memory it takes is bounded by the settings. Each test looks at the memory of its own
//! process, so the bounds leave room for what other tests do beside it.

use std::io;

use cenote_mysql::Pool;
use cenote_tests::mysql::scripted::{Request, Server, Session, echo_column, packet};
use cenote_tests::{must_end, wait_until};

/// What a reply may take in these tests.
const REPLY_BYTES_MAX: usize = 1 << 20;

/// What the process may grow by: far less than the server sends, far more than the bound.
const GROWTH_BYTES_MAX: u64 = 48 << 20;

/// What the server sends.
const FLOOD_BYTES: usize = 128 << 20;

/// The most that one packet can carry.
const PAYLOAD_BYTES_MAX: usize = 0xFF_FFFF;

/// The most memory this process has ever used.
fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux tells");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("and tells this");
    let kilobytes: u64 = peak.trim().trim_end_matches(" kB").parse().expect("in kB");
    kilobytes * 1024
}

/// Sends packets with this payload, so many that it comes to [`FLOOD_BYTES`], or `packets_max`. The last one's number.
fn flood(session: &mut Session, mut number: u8, payload: &[u8], packets_max: usize) -> io::Result<u8> {
    let mut sent_bytes = 0;
    let mut packets = 0;
    while sent_bytes < FLOOD_BYTES && packets < packets_max {
        // Some at a time: a system call for each packet would take its time.
        let mut pieces = Vec::new();
        while pieces.len() < 64 << 10 && packets < packets_max {
            number = number.wrapping_add(1);
            pieces.extend(packet::packet(number, payload));
            packets += 1;
        }
        session.send(&pieces)?;
        sent_bytes += pieces.len();
    }
    Ok(number)
}

/// Sends a payload that does not end yet: packets as full as can be, [`FLOOD_BYTES`] of them. The last one's number.
fn flood_payload(session: &mut Session, mut number: u8, byte: u8) -> io::Result<u8> {
    let part = vec![byte; 64 << 10];
    for _ in 0..FLOOD_BYTES.div_ceil(PAYLOAD_BYTES_MAX) {
        number = number.wrapping_add(1);
        session.send(&packet::lying(number, PAYLOAD_BYTES_MAX as u32, b""))?;
        let mut left = PAYLOAD_BYTES_MAX;
        while left > 0 {
            let sent = left.min(part.len());
            session.send(&part[..sent])?;
            left -= sent;
        }
    }
    Ok(number)
}

/// A server that answers the first statement it runs by `script`, and all others well.
fn flooding(script: fn(&mut Session) -> io::Result<()>) -> Server {
    Server::start(move |session| {
        let mut floods = session.number == 0;
        loop {
            let request = session.request()?;
            if floods && matches!(request, Request::Execute { .. }) {
                floods = false;
                script(session)?;
            } else {
                let answer = session.answer(&request);
                session.send(&answer)?;
            }
        }
    })
}

fn pool_of(server: &Server) -> Pool {
    server.pool(&format!("pool_size=1&reply_bytes_max={REPLY_BYTES_MAX}"))
}

async fn assert_too_large_and_bounded(name: &str, server: &Server) {
    let pool = pool_of(server);
    let before = peak_bytes();
    let error = must_end(name, pool.query("select ?", &[&7])).await.expect_err(name);
    assert!(error.is_caller(), "{name}: {error}");
    assert!(error.to_string().contains("larger than 1048576 bytes"), "{name}: {error}");
    let next = must_end(name, pool.query_one("select ? -- again", &[&8])).await.expect("the stream is in step");
    assert_eq!(next.get::<_, i32>(0).unwrap(), 8, "{name}");
    assert_eq!((server.accepted(), pool.stats().replies_too_large), (1, 1), "{name}");
    let grown = peak_bytes() - before;
    assert!(grown < GROWTH_BYTES_MAX, "{name}: {grown} bytes more");
}

fn begin(session: &mut Session) -> io::Result<()> {
    session.send(&packet::packets(&[packet::column_count(1), echo_column()]))
}

#[tokio::test]
async fn one_endless_row() {
    let server = flooding(|session| {
        begin(session)?;
        let number = flood_payload(session, 2, 0)?;
        session.send(&[packet::next(number, b""), packet::next(number.wrapping_add(1), &packet::end())].concat())
    });
    assert_too_large_and_bounded("one row of 128 MiB", &server).await;
}

#[tokio::test]
async fn endless_rows() {
    let server = flooding(|session| {
        begin(session)?;
        let number = flood(session, 2, &packet::binary_row(&[Some(&[0; 4])]), usize::MAX)?;
        session.send(&packet::next(number, &packet::end()))
    });
    assert_too_large_and_bounded("rows of 128 MiB", &server).await;
}

#[tokio::test]
async fn as_many_columns_as_there_can_be() {
    let server = flooding(|session| {
        session.send(&packet::packet(1, &packet::column_count(65_535)))?;
        let column = packet::column(&"c".repeat(2_000), packet::LONG);
        let number = flood(session, 1, &column, 65_535)?;
        session.send(&packet::next(number, &packet::end()))
    });
    assert_too_large_and_bounded("65,535 columns with long names", &server).await;
}

#[tokio::test]
async fn an_endless_error() {
    let server = flooding(|session| {
        // Its first byte says that it is one.
        let number = flood_payload(session, 0, 0xFF)?;
        session.send(&packet::next(number, b""))
    });
    assert_too_large_and_bounded("an error of 128 MiB", &server).await;
}

/// The caller is told when the bound is reached: whether there will ever be an end is up to the server.
#[tokio::test]
async fn a_reply_that_never_ends_is_told_when_it_is_too_large() {
    let server = flooding(|session| {
        begin(session)?;
        session.send(&packet::lying(3, PAYLOAD_BYTES_MAX as u32, &vec![0; 4 * REPLY_BYTES_MAX]))?;
        session.wait_for_close()
    });
    let pool = pool_of(&server);
    let error = must_end("a reply without end", pool.query("select ?", &[&7])).await.expect_err("too large");
    assert!(error.is_caller() && error.to_string().contains("larger than 1048576 bytes"), "{error}");
}

/// A server that says good-bye for ever, and never goes; and one whose good-bye is longer than any line.
#[tokio::test]
async fn endless_farewells() {
    for (text_bytes, in_flight) in [(1_000, true), (1_000, false), (10_000, true), (10_000, false)] {
        let farewell = packet::packet(0, &packet::error(1053, "08S01", &"f".repeat(text_bytes)));
        let server = Server::start(move |session| {
            if session.number > 0 {
                return session.serve();
            }
            for number in 0.. {
                let request = session.request()?;
                if number == 3 && in_flight {
                    break;
                }
                let answer = session.answer(&request);
                session.send(&answer)?;
                if number == 3 {
                    break;
                }
            }
            let pieces = farewell.repeat((1 << 20) / farewell.len());
            for _ in 0..FLOOD_BYTES.div_ceil(pieces.len()) {
                session.send(&pieces)?;
            }
            Ok(())
        });
        let pool = pool_of(&server);
        let before = peak_bytes();
        let result = must_end("endless farewells", pool.query("select ?", &[&7])).await;
        assert_eq!(result.is_err(), in_flight);
        wait_until("the connection ends", async || pool.stats().lanes.is_empty()).await;
        let grown = peak_bytes() - before;
        assert!(grown < GROWTH_BYTES_MAX, "{text_bytes} bytes, in flight: {in_flight}: {grown} bytes more");
    }
}
