//! Servers that do odd things with a connection: that close it at any moment, never answer, say what nobody asked for, or
//! leave a transaction open. Each caller gets an error that says so, and whoever can be served is.

use std::io;
use std::sync::{Mutex, mpsc};
use std::time::Instant;

use cenote_postgres::{Error, Pool, SqlState};
use cenote_tests::scripted::{Request, Server, Session, answer, answer_but, greeting, message};
use cenote_tests::{must_end, wait_until};

async fn echo(pool: &Pool, value: i32) -> Result<i32, Error> {
    pool.query_one("select $1", &[&value]).await?.get(0)
}

/// The pool serves again.
async fn assert_serves(pool: &Pool, name: &str) {
    let echoed = must_end(&format!("the query after {name}"), echo(pool, 4)).await;
    assert_eq!(echoed.unwrap_or_else(|error| panic!("the query after {name}: {error}")), 4);
    assert_eq!(pool.stats().in_flight(), 0, "in flight after {name}");
}

#[tokio::test]
async fn a_log_in_that_never_comes_to_be_is_told_when_the_patience_is_over() {
    type Script = fn(&mut Session) -> io::Result<()>;
    let cases: [(&str, Script, &str); 9] = [
        ("closed right after accepting", |_| Ok(()), "closed|reset"),
        ("closed after the start-up message", Session::start_up, "closed"),
        (
            "closed in the middle of a message",
            |session| {
                session.start_up()?;
                session.send(&greeting()[..12])
            },
            "closed",
        ),
        (
            "closed before ReadyForQuery",
            |session| {
                session.start_up()?;
                session.send(&greeting()[..greeting().len() - message::ready(b'I').len()])
            },
            "closed",
        ),
        (
            "no answer at all",
            |session| {
                session.start_up()?;
                session.wait_for_close()
            },
            "no answer within 0.1 s",
        ),
        (
            "half an answer",
            |session| {
                session.start_up()?;
                session.send(&greeting()[..20])?;
                session.wait_for_close()
            },
            "no answer within 0.1 s",
        ),
        (
            "an HTTP server",
            |session| {
                session.start_up()?;
                session.send(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")?;
                session.wait_for_close()
            },
            "is this a Postgres server?",
        ),
        (
            "a log-in without end",
            |session| {
                session.start_up()?;
                session.send(&message::authentication_ok())?;
                loop {
                    session.send(&message::parameter_status("TimeZone", "UTC"))?;
                }
            },
            "does not come to an end",
        ),
        (
            "too many connections",
            |session| {
                session.start_up()?;
                session.send(&message::error("FATAL", "53300", "sorry, too many clients already"))
            },
            "sorry, too many clients already",
        ),
    ];
    for (name, script, words) in cases {
        let server = Server::start_raw(script);
        let pool = server.pool("pool_size=4&connect_timeout=100ms&acquire_timeout=500ms");
        let callers = (0..10).map(|value| {
            let pool = pool.clone();
            tokio::spawn(async move { echo(&pool, value).await })
        });
        for caller in callers.collect::<Vec<_>>() {
            let error = must_end(name, caller).await.expect("no panic").expect_err(name);
            assert!(error.is_timeout() && error.was_sent() == Some(false), "{name}: {error}");
            let text = error.to_string();
            assert!(text.contains("last connect error"), "{name}: {text}");
            assert!(words.split('|').any(|words| text.contains(words)), "{name}: {text}");
        }
        // Pauses of at least 25, 50, 100, 200 and 250 ms between them: no storm.
        assert!((2..=8).contains(&server.accepted()), "{name}: {} connections in half a second", server.accepted());
        assert_eq!(pool.stats().connects, 0, "{name}");
    }
}

#[tokio::test]
async fn a_wrong_password_fails_everyone_who_waits_at_once() {
    let server = Server::start_raw(|session| {
        session.start_up()?;
        session.send(&message::error("FATAL", "28P01", "password authentication failed for user \"tester\""))
    });
    let pool = server.pool("acquire_timeout=1h");
    let callers = (0..10).map(|value| {
        let pool = pool.clone();
        tokio::spawn(async move { echo(&pool, value).await })
    });
    for caller in callers.collect::<Vec<_>>() {
        let error = must_end("a wrong password", caller).await.expect("no panic").expect_err("a wrong password");
        assert!(error.is_server() && error.code() == Some(SqlState::INVALID_PASSWORD), "{error}");
        assert!(error.to_string().contains("password authentication failed"), "{error}");
    }
    assert_eq!(server.accepted(), 1);
}

#[tokio::test]
async fn a_server_that_refuses_at_first_is_tried_again() {
    let server = Server::start_raw(|session| match session.number {
        0 => Ok(()),
        1 => {
            session.start_up()?;
            session.send(&message::error("FATAL", "57P03", "the database system is starting up"))
        }
        _ => {
            session.log_in()?;
            session.serve()
        }
    });
    let pool = server.pool("pool_size=2");
    assert_eq!(must_end("a query at a server that starts", echo(&pool, 3)).await.unwrap(), 3);
    assert_eq!((pool.stats().connect_failures, pool.stats().connects), (2, 1));
}

/// All of one turn, which follow each other onto one connection, and whose answers come together.
#[tokio::test]
async fn callers_who_come_together_have_another_connection_opened() {
    let server = Server::start(Session::serve);
    let pool = server.pool("pool_size=2");
    let opened = || async {
        many(&pool, 20).await.into_iter().for_each(|result| assert!(result.is_ok(), "{result:?}"));
        pool.stats().lanes.len() == 2
    };
    wait_until("there are two connections for twenty callers", opened).await;
    assert_eq!(server.accepted(), 2);
}

/// A pooler before a server that is down may do this to everyone, and all its callers come back at once.
#[tokio::test]
async fn a_server_that_closes_each_connection_after_the_log_in_is_not_stormed() {
    let server = Server::start(|_| Ok(()));
    let pool = server.pool("pool_size=4&acquire_timeout=500ms");
    let began = Instant::now();
    for _ in 0..4 {
        for result in many(&pool, 10).await {
            let error = result.expect_err("nothing is ever answered");
            assert!(error.is_network() || error.is_timeout(), "{error}");
        }
    }
    // The pauses come to 175 ms for the first four, and then to four in a second; two more may be under way.
    let bound = 6 + began.elapsed().as_millis() as usize / 250;
    assert!(server.accepted() <= bound, "a storm: {} connections in {:?}", server.accepted(), began.elapsed());
}

#[tokio::test]
async fn a_connection_that_ends_within_a_reply_is_told_to_its_caller() {
    let whole = || [message::bind_complete(), message::data_row(&[Some(&[0; 4])])].concat();
    let ready = || [message::command_complete("SELECT 1"), message::ready(b'I')].concat();
    let cases = [
        ("no byte of a reply", Vec::new()),
        ("a whole message", whole()),
        ("half a header", [whole(), ready()[..3].to_vec()].concat()),
        ("half a message", [whole(), ready()[..8].to_vec()].concat()),
        ("all but the last byte", [whole(), ready()[..ready().len() - 1].to_vec()].concat()),
    ];
    for (name, reply) in cases {
        let server = Server::start(move |session| {
            if session.number > 0 {
                return session.serve();
            }
            let description = answer(&session.requests()?);
            session.send(&description)?;
            session.requests()?;
            session.send(&reply)
        });
        let pool = server.pool("pool_size=1");
        let error = must_end(name, echo(&pool, 3)).await.expect_err(name);
        assert!(error.is_network() && error.was_sent() == Some(true), "{name}: {error}");
        assert!(error.to_string().contains("the statement may have run: the server closed"), "{name}: {error}");
        assert_serves(&pool, name).await;
        assert_eq!(server.accepted(), 2, "{name}");
    }
}

/// Runs so many queries at once and returns their results in order.
async fn many(pool: &Pool, count: i32) -> Vec<Result<i32, Error>> {
    let queries = (0..count).map(|value| {
        let pool = pool.clone();
        tokio::spawn(async move { echo(&pool, value).await })
    });
    let mut results = Vec::new();
    for query in queries.collect::<Vec<_>>() {
        results.push(must_end("one query of many", query).await.expect("no panic"));
    }
    results
}

#[tokio::test]
async fn the_servers_last_words_reach_everyone_in_flight() {
    let server = Server::start(|session| {
        if session.number > 0 {
            return session.serve();
        }
        let description = answer(&session.requests()?);
        session.send(&description)?;
        let first = answer(&session.requests()?);
        for _ in 1..10 {
            session.requests()?;
        }
        session.send(&first)?;
        // With a bit of the second reply before it.
        session.send(&message::bind_complete())?;
        session.send(&message::error("FATAL", "57P01", "terminating connection due to administrator command"))
    });
    let pool = server.pool("pool_size=1");
    let results = many(&pool, 10).await;
    assert_eq!(*results[0].as_ref().unwrap(), 0, "what was answered is answered");
    for result in &results[1..] {
        let error = result.as_ref().unwrap_err();
        assert!(error.is_network() && error.was_sent() == Some(true), "{error}");
        assert_eq!(error.code(), Some(SqlState::ADMIN_SHUTDOWN), "{error}");
        assert!(error.to_string().contains("terminating connection due to administrator command"), "{error}");
    }
    assert_serves(&pool, "a shutdown").await;
}

#[tokio::test]
async fn what_comes_while_nobody_asks_is_nobodys_error() {
    let row = message::data_row(&[None]);
    let cases = [
        ("a shutdown", message::error("FATAL", "57P01", "terminating connection"), true, false),
        ("a ReadyForQuery", message::ready(b'I'), false, false),
        ("a whole reply", answer(&[Request::Execute, Request::Sync]), false, false),
        ("a row", row, false, false),
        ("an unknown message", message::message(b'?', b"what"), false, false),
        ("half a message and the end", message::ready(b'I')[..3].to_vec(), true, false),
        ("nothing but the end", Vec::new(), true, false),
        ("an error that is not fatal", message::error("ERROR", "XX000", "what?"), false, true),
        ("a notice", message::notice("hello"), false, true),
        ("a notification", message::notification("channel", "payload"), false, true),
        ("a parameter", message::parameter_status("in_hot_standby", "on"), false, true),
    ];
    for (name, said, then_closes, stays) in cases {
        let server = Server::start(move |session| {
            if session.number > 0 {
                return session.serve();
            }
            for _ in 0..2 {
                let reply = answer(&session.requests()?);
                session.send(&reply)?;
            }
            session.send(&said)?;
            if then_closes { Ok(()) } else { session.serve() }
        });
        let pool = server.pool("pool_size=1");
        assert_eq!(must_end(name, echo(&pool, 3)).await.unwrap(), 3, "{name}");
        if !stays {
            wait_until(&format!("{name} ends the connection"), || async { pool.stats().lanes.is_empty() }).await;
        }
        for _ in 0..3 {
            assert_serves(&pool, name).await;
        }
        assert_eq!(server.accepted(), if stays { 1 } else { 2 }, "{name}");
        assert_eq!(pool.stats().lost_after_sent, 0, "{name}");
    }
}

#[tokio::test]
async fn a_flood_while_nobody_asks_is_read_and_forgotten() {
    let flood = [
        message::notice(&"n".repeat(1_000)),
        message::parameter_status("TimeZone", "UTC"),
        message::notification("channel", &"p".repeat(7_999)),
        message::error("ERROR", "XX000", "nobody asked"),
    ];
    let flood_bytes = 1_000 * flood.concat().len() as u64;
    let server = Server::start(move |session| {
        for _ in 0..2 {
            let reply = answer(&session.requests()?);
            session.send(&reply)?;
        }
        session.send(&flood.concat().repeat(1_000))?;
        session.serve()
    });
    let pool = server.pool("pool_size=1&reply_bytes_max=1kB");
    must_end("the first query", echo(&pool, 3)).await.unwrap();
    wait_until("the flood is read", || async { pool.stats().bytes_read >= flood_bytes }).await;
    assert_serves(&pool, "a flood").await;
    assert_eq!(server.accepted(), 1);
}

#[tokio::test]
async fn a_statement_that_leaves_a_transaction_open_is_told_and_its_neighbours_are_not_in_it() {
    let refused = message::error("ERROR", "22012", "division by zero");
    for status in [b'T', b'E'] {
        for failed in [false, true] {
            let refused = failed.then(|| refused.clone());
            let server = Server::start(move |session| {
                if session.number > 0 {
                    return session.serve();
                }
                let description = answer(&session.requests()?);
                session.send(&description)?;
                let offender = session.requests()?;
                let neighbours = [session.requests()?, session.requests()?];
                let mut reply = answer_but(&offender, |request| match request {
                    Request::Execute => refused.clone(),
                    Request::Sync => Some(message::ready(status)),
                    _ => None,
                });
                // A server goes on with the neighbours before it sees that the connection is closed.
                reply.extend(neighbours.iter().flat_map(|requests| answer(requests)));
                session.send(&reply)?;
                session.wait_for_close()
            });
            let pool = server.pool("pool_size=1");
            let name = format!("state {:?}, failed: {failed}", status as char);
            let results = many(&pool, 3).await;
            let offender = results[0].as_ref().expect_err(&name);
            if failed {
                assert!(
                    offender.is_server() && offender.to_string().contains("division by zero"),
                    "{name}: {offender}"
                );
            } else {
                assert!(offender.is_caller() && offender.to_string().contains("transaction"), "{name}: {offender}");
            }
            for neighbour in &results[1..] {
                let error = neighbour.as_ref().expect_err(&name);
                assert!(error.is_network() && error.was_sent() == Some(true), "{name}: {error}");
                assert!(error.to_string().contains("neighbour's statement left a transaction open"), "{name}: {error}");
            }
            assert_serves(&pool, &name).await;
            assert_eq!((pool.stats().quarantines, server.accepted()), (1, 2), "{name}");
        }
    }
}

#[tokio::test]
async fn neighbours_that_were_not_sent_yet_are_moved_to_another_connection() {
    const BYTEA: u32 = 17;
    // More than the kernel keeps for a server that does not read.
    const LARGE_BYTES: usize = 64 << 20;
    let (go_on, told) = mpsc::channel();
    let told = Mutex::new(told);
    let server = Server::start(move |session| {
        let describe = |request: &Request| match request {
            Request::Describe { .. } => {
                Some([message::parameter_description(&[BYTEA]), message::row_description(&[("echo", BYTEA)])].concat())
            }
            _ => None,
        };
        if session.number > 0 {
            return session.serve_but(describe);
        }
        let description = answer_but(&session.requests()?, describe);
        session.send(&description)?;
        let offender = session.requests()?;
        told.lock().expect("no panic").recv().map_err(io::Error::other)?;
        session.send(&answer_but(&offender, |request| (*request == Request::Sync).then(|| message::ready(b'T'))))?;
        // Kept open: an end of our own would be the client's reason to give up.
        told.lock().expect("no panic").recv().map_err(io::Error::other)
    });
    let pool = server.pool("pool_size=1");
    let ask = |value: Vec<u8>| {
        let pool = pool.clone();
        tokio::spawn(async move { pool.query_one("select $1", &[&value]).await?.get::<_, Vec<u8>>(0) })
    };
    let in_flight = async |count: usize| {
        let reached = || async { pool.stats().in_flight() == count };
        wait_until(&format!("{count} statements in flight"), reached).await;
    };
    let offender = ask(b"offender".to_vec());
    in_flight(1).await;
    wait_until("the offender is sent", || async { pool.stats().writes >= 2 }).await;
    let large = ask(vec![b'x'; LARGE_BYTES]);
    wait_until("the large statement is on its way", || async { pool.stats().bytes_written > 1 << 20 }).await;
    let small: Vec<_> = (0..10_u8).map(|value| ask(vec![value])).collect();
    in_flight(12).await;
    go_on.send(()).expect("the server waits for it");

    let error = must_end("the offender", offender).await.unwrap().expect_err("the offender");
    assert!(error.is_caller(), "{error}");
    let error = must_end("the large statement", large).await.unwrap().expect_err("it was sent in part");
    assert!(error.is_network() && error.was_sent() == Some(true), "{error}");
    for (value, small) in small.into_iter().enumerate() {
        let echoed = must_end("a small statement", small).await.unwrap();
        assert_eq!(echoed.expect("it was not sent, so it was moved"), [value as u8]);
    }
    let stats = pool.stats();
    assert_eq!((stats.resubmits, stats.lost_after_sent, stats.quarantines, stats.in_flight()), (10, 1, 1, 0));
    assert_eq!(server.accepted(), 2);
}
