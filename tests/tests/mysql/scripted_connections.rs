//! What a scripted MySQL server does to a connection that many share: demands for files, words that nobody asked for,
//! preparations that lie, rows of any size. Whoever is hit hears it, and nobody gets another's answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cenote_mysql::Pool;
use cenote_tests::mysql::scripted::{Request, Server, echo, echo_column, packet};
use cenote_tests::{Dropped, drop_after_polls, must_end, wait_until};
use futures_util::future::join_all;

/// The pool serves again.
async fn assert_serves(name: &str, pool: &Pool) {
    let next = must_end(&format!("the query after {name}"), pool.query_one("select ?", &[&8])).await;
    let next = next.unwrap_or_else(|error| panic!("the query after {name}: {error}"));
    assert_eq!(next.get::<_, i32>(0).unwrap(), 8, "the query after {name}");
    assert_eq!(pool.stats().in_flight(), 0, "in flight after {name}");
}

/// Whoever shares the connection with a rogue's victim hears it as well, and nobody waits.
#[tokio::test]
async fn neighbours_of_a_demand_for_a_file_fail_cleanly() {
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let server = Server::start(move |session| {
        if session.number > 0 {
            return session.serve();
        }
        for _ in 0..3 {
            let request = session.request()?;
            let answer = session.answer(&request);
            session.send(&answer)?;
        }
        for _ in 0..8 {
            session.request()?;
        }
        session.send(&[packet::packets(&[packet::local_infile("/etc/passwd")]), echo(0)].concat())?;
        tell.send(session.rest()).expect("the test waits for it");
        Ok(())
    });
    let pool = server.pool("pool_size=1");
    let asked = join_all((0..8).map(|_| pool.query_one("select ?", &[&7])));
    for outcome in must_end("eight callers of a rogue", asked).await {
        let error = outcome.expect_err("the connection is closed");
        assert!(error.is_network() && error.is_peer() && error.was_sent() == Some(true), "{error}");
        assert!(error.to_string().contains("asks for a file"), "{error}");
    }
    let rest = must_end("the rogue's connection", told.recv()).await;
    assert_eq!(rest.as_deref(), Some(&b""[..]), "something was said to a server that asks for files");
    assert_serves("a demand for a file", &pool).await;
}

/// The server says something while nobody waits for anything.
#[tokio::test]
async fn what_nobody_asked_for_ends_the_connection() {
    let farewell = packet::packet(0, &packet::error(4031, "HY000", "The client was disconnected by the server"));
    for (name, unasked) in [
        ("an answer", packet::packets(&[packet::ok(0, 0)])),
        ("a result", echo(9)),
        ("a farewell", farewell),
        ("an empty packet", packet::packet(1, b"")),
        ("a demand for a file", packet::packets(&[packet::local_infile("/etc/passwd")])),
    ] {
        let server = Server::start(move |session| {
            if session.number > 0 {
                return session.serve();
            }
            for number in 0.. {
                let request = session.request()?;
                let mut answer = session.answer(&request);
                // Behind the answer to the execution.
                if number == 3 {
                    answer.extend_from_slice(&unasked);
                }
                session.send(&answer)?;
            }
            Ok(())
        });
        let pool = server.pool("pool_size=1");
        let row =
            must_end(name, pool.query_one("select ?", &[&7])).await.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(row.get::<_, i32>(0).unwrap(), 7, "{name}");
        wait_until("the connection is closed", async || pool.stats().connections_lost == 1).await;
        assert_serves(name, &pool).await;
        assert_eq!(server.accepted(), 2, "{name}");
    }
}

/// A text of 2^24 bytes and more has a length of eight bytes, whose first byte is that of an end.
#[tokio::test]
async fn a_row_that_begins_like_an_end_is_a_row() {
    const BYTES_MAX: usize = 0xFF_FFFF;
    for bytes in [BYTES_MAX, BYTES_MAX + 1, (BYTES_MAX + 1) * 2] {
        let server = Server::start(move |session| {
            session.serve_but(|request| {
                let Request::Query { sql } = request else { return None };
                if sql != "select large" {
                    return None;
                }
                let column = packet::column("large", packet::VAR_STRING);
                let mut reply = packet::packets(&[packet::column_count(1), column]);
                let row = packet::text_row(&[Some(&vec![b'x'; bytes])]);
                let mut number = 2;
                for part in row.chunks(BYTES_MAX) {
                    number += 1;
                    reply.extend(packet::packet(number, part));
                }
                if row.len().is_multiple_of(BYTES_MAX) {
                    number += 1;
                    reply.extend(packet::packet(number, b""));
                }
                reply.extend(packet::next(number, &packet::end()));
                Some(reply)
            })
        });
        let pool = server.pool("pool_size=1");
        let (large, small) = must_end("a large row and a small one", async {
            tokio::join!(pool.query_text("select large"), pool.query_text("select @@version"))
        })
        .await;
        let large = large.unwrap_or_else(|error| panic!("{bytes} bytes: {error}"));
        let text: &str = large[0].get(0).unwrap();
        assert!(large.len() == 1 && text.len() == bytes && text.bytes().all(|byte| byte == b'x'), "{bytes} bytes");
        assert_eq!(small.unwrap()[0].get::<_, &str>(0).unwrap(), "8.4.0");
        assert_eq!(pool.stats().connections_lost, 0);
    }
}

#[tokio::test]
async fn preparations_that_lie_are_told() {
    let parameter = packet::column("?", packet::LONG);
    for (count, words) in [(0, "0 parameters, and 1"), (2, "2 parameters, and 1"), (65_535, "65535 parameters, and 1")]
    {
        let mut payloads = vec![packet::prepare_ok(1, 0, count)];
        payloads.extend((0..count).map(|_| parameter.clone()));
        let server = Server::start(move |session| {
            session.serve_but(|request| matches!(request, Request::Prepare { .. }).then(|| packet::packets(&payloads)))
        });
        let pool = server.pool("pool_size=1");
        let error = must_end(words, pool.query("select ?", &[&7])).await.expect_err(words);
        assert!(error.is_caller() && error.to_string().contains(words), "{error}");
        assert_eq!((server.accepted(), pool.stats().connections_lost), (1, 0));
    }
    // Garbage for a parameter's definition is not looked at, nor is what the columns are said to be.
    for definition in [&b"x"[..], b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff", b"\0"] {
        let first = packet::prepare_ok(1, 1, 1);
        let spoiled = packet::packets(&[first, definition.to_vec(), definition.to_vec()]);
        let server = Server::start(move |session| {
            session.serve_but(|request| matches!(request, Request::Prepare { .. }).then(|| spoiled.clone()))
        });
        let pool = server.pool("pool_size=1");
        let row = must_end("garbage in a preparation", pool.query_one("select ?", &[&7])).await.unwrap();
        assert_eq!(row.get::<_, i32>(0).unwrap(), 7);
    }
}

/// Announced are more definitions than come: the next answer is not taken for them.
#[tokio::test]
async fn a_preparation_that_announces_too_much_takes_nobodys_answer() {
    let server = Server::start(|session| {
        let lies = session.number == 0;
        session.serve_but(|request| {
            let spoiled = || packet::packets(&[packet::prepare_ok(1, 3, 1), packet::column("?", packet::LONG)]);
            (lies && matches!(request, Request::Prepare { .. })).then(spoiled)
        })
    });
    let pool = server.pool("pool_size=1");
    let (lied_to, neighbour) = must_end("a preparation that announces too much", async {
        tokio::join!(pool.query_one("select ?", &[&7]), async {
            wait_until("the preparation is sent", async || pool.stats().in_flight() > 0).await;
            pool.query_text("select @@version").await
        })
    })
    .await;
    let error = neighbour.expect_err("the connection is out of step");
    assert!(error.is_network() && error.is_peer() && error.was_sent() == Some(true), "{error}");
    assert!(error.to_string().contains("number 1 where 3 is due"), "{error}");
    // Nothing of it has run, so it is prepared elsewhere.
    assert_eq!(lied_to.unwrap().get::<_, i32>(0).unwrap(), 7);
}

/// Two statements under one name: the server's loss, and nobody else's.
#[tokio::test]
async fn a_name_that_is_used_twice_is_taken_as_it_comes() {
    let server = Server::start(|session| {
        let column = echo_column();
        session.serve_but(|request| match request {
            Request::Prepare { .. } => {
                let first = packet::prepare_ok(7, 1, 1);
                Some(packet::packets(&[first, packet::column("?", packet::LONG), column.clone()]))
            }
            Request::Execute { statement, .. } => {
                assert_eq!(*statement, 7);
                None
            }
            _ => None,
        })
    });
    let pool = server.pool("pool_size=1&statement_cache_size=2");
    for number in 0..6 {
        let sql = format!("select ? /* {number} */");
        let row = must_end("a name used twice", pool.query_one(&sql, &[&number])).await.unwrap();
        assert_eq!(row.get::<_, i32>(0).unwrap(), number);
    }
    assert_eq!(pool.stats().connections_lost, 0);
}

/// Whoever thinks that his statement is stopped must not be wrong: by way of a lane, and by a connection made for it.
#[tokio::test]
async fn a_refusal_to_stop_a_statement_is_an_error() {
    for pool_size in [1, 2] {
        let killed = Arc::new(AtomicBool::new(false));
        let server = Server::start(move |session| {
            loop {
                let request = session.request()?;
                let answer = match &request {
                    Request::Quit => return Ok(()),
                    Request::Query { sql } if sql.starts_with("KILL") => {
                        killed.store(true, Ordering::SeqCst);
                        packet::packets(&[packet::error(1095, "HY000", "You are not owner of thread 1")])
                    }
                    Request::Query { sql } if sql == "select slow" => {
                        while !killed.load(Ordering::SeqCst) {
                            std::thread::sleep(Duration::from_millis(1));
                        }
                        session.answer(&request)
                    }
                    _ => session.answer(&request),
                };
                session.send(&answer)?;
            }
        });
        let pool = server.pool(&format!("pool_size={pool_size}"));
        let lease = must_end("a lease", pool.lease()).await.unwrap();
        if pool_size > 1 {
            assert_serves("a lease", &pool).await;
        }
        let canceller = lease.canceller();
        let slow = async { lease.query_text("select slow").await };
        let refused = async { canceller.cancel().await.expect_err("it was refused") };
        let both = async { tokio::join!(biased; slow, refused) };
        let (slow, error) = must_end("a statement that is not stopped", both).await;
        slow.expect("it came to its own end");
        assert_eq!(error.code().map(|code| code.number()), Some(1095), "{error}");
        assert!(error.is_server() && error.was_sent().is_none(), "{error}");
        assert!(error.to_string().contains("refuses to stop") && error.to_string().contains("not owner"), "{error}");
        drop(lease);
        wait_until("the lease is back", async || pool.stats().leases.is_empty()).await;
        assert_eq!(pool.stats().leases_closed, 0, "nothing can hit anybody any more");
    }
}

/// An error does not say whether the transaction is still open, so the server is asked; that this is answered behind the
/// rollback, and so when the lease may look restored, is no reason to close the connection.
#[tokio::test]
async fn a_statement_that_fails_while_its_lease_is_restored_closes_nothing() {
    const IN_TRANSACTION: u16 = 0x0003;
    let ok = || packet::packets(&[packet::ok(0, 0)]);
    let server = Server::start(move |session| {
        let mut executions = 0;
        loop {
            let request = session.request()?;
            let answer = match &request {
                Request::Quit => return Ok(()),
                Request::Query { sql } if sql.starts_with("START TRANSACTION") => {
                    packet::packets(&[packet::ok_with(0x00, 0, 0, IN_TRANSACTION, b"")])
                }
                Request::Execute { .. } => {
                    executions += 1;
                    packet::packets(&[packet::ok_with(0x00, 0, 0, IN_TRANSACTION, b"")])
                }
                _ => session.answer(&request),
            };
            if executions < 2 {
                session.send(&answer)?;
                continue;
            }
            executions = 0;
            let rollback = Request::Query { sql: "ROLLBACK".to_owned() };
            assert_eq!(session.request()?, rollback);
            session.send(&packet::packets(&[packet::error(1062, "23000", "Duplicate entry")]))?;
            assert_eq!(session.request()?, Request::Ping);
            session.send(&ok())?;
            assert_eq!(session.request()?, rollback, "it waits until all is answered");
            session.send(&ok())?;
            session.send(&ok())?;
        }
    });
    let pool = server.pool("pool_size=2&acquire_timeout=1h");
    for round in 1..=3 {
        let tx = pool.begin().await.unwrap();
        tx.execute("select ?", &[&1]).await.unwrap();
        assert!(matches!(drop_after_polls(1, tx.execute("select ?", &[&1])).await, Dropped::Pending));
        drop(tx);
        let over = async || pool.stats().leases_restored + pool.stats().leases_closed == round;
        wait_until("the lease is over", over).await;
    }
    let stats = pool.stats();
    assert_eq!((stats.leases_restored, stats.leases_closed, stats.connections_lost), (3, 0, 0), "{stats:?}");
}
