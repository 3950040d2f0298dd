//! What does not pipeline, whether it says so or not: it is found out at the log-in, or soon after, and remembered; from
//! there on each command waits for the answer to the one before, and all is well.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use cenote_mysql::{Error, Pool};
use cenote_tests::mysql::scripted::{Request, Server, Session};
use cenote_tests::{drop_after_polls, must_end, wait_until};
use futures_util::future::join_all;

async fn echo(pool: &Pool, value: i32) -> Result<i32, Error> {
    pool.query_one("select ?", &[&value]).await?.get(0)
}

/// So many at once.
async fn many(pool: &Pool, count: i32) -> Vec<Result<i32, Error>> {
    must_end("many at once", join_all((0..count).map(|value| echo(pool, value)))).await
}

/// So many at once; each gets its own value.
async fn assert_many(name: &str, pool: &Pool, count: i32) {
    for (echoed, value) in many(pool, count).await.into_iter().zip(0..) {
        assert_eq!(echoed.unwrap_or_else(|error| panic!("{name}, {value}: {error}")), value, "{name}");
    }
}

/// So long a server waits for a command that ought not to come. Whoever keeps to it passes, however long it is.
const TEMPTATION: Duration = Duration::from_millis(2);

/// Takes a command, and whether another came before it was answered.
fn request_and_more(session: &mut Session) -> io::Result<(Request, bool)> {
    let request = session.request()?;
    std::thread::sleep(TEMPTATION);
    let more = session.has_input()?;
    Ok((request, more))
}

fn answer(session: &mut Session, request: &Request) -> io::Result<()> {
    let answer = session.answer(request);
    session.send(&answer)
}

/// Serves one that has to wait for each answer.
fn serve_one_by_one(session: &mut Session) -> io::Result<()> {
    loop {
        let (request, more) = request_and_more(session)?;
        let has_answer = !matches!(request, Request::Quit | Request::Close { .. });
        assert!(!(more && has_answer), "a command came before the answer to {request:?}");
        answer(session, &request)?;
    }
}

/// What becomes of a client that does not wait.
#[derive(Clone, Copy, Debug)]
enum Conduct {
    /// It is thrown out, as by ProxySQL.
    ThrowsOut,
    /// One answer comes, and then never another, as from Aurora 2.
    Swallows,
    /// No answer comes at all.
    Stalls,
}

/// A server of this conduct; it counts who does not wait.
fn impatient(conduct: Conduct) -> (Server, Arc<AtomicUsize>) {
    let probed = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&probed);
    let server = Server::start(move |session| {
        let (request, more) = request_and_more(session)?;
        if !more {
            answer(session, &request)?;
            return serve_one_by_one(session);
        }
        counted.fetch_add(1, Ordering::SeqCst);
        match conduct {
            Conduct::ThrowsOut => return Ok(()),
            Conduct::Swallows => answer(session, &request)?,
            Conduct::Stalls => {}
        }
        session.wait_for_close()
    });
    (server, probed)
}

#[tokio::test]
async fn what_does_not_pipeline_is_found_out_at_the_log_in() {
    for (conduct, settings) in [
        // Nobody waits for as long as a connect may take.
        (Conduct::ThrowsOut, "connect_timeout=1h"),
        (Conduct::Swallows, "connect_timeout=1h"),
        // Here half of it is waited for: a busy server may take its time for the first answer.
        (Conduct::Stalls, "connect_timeout=1s"),
    ] {
        let name = format!("{conduct:?}");
        let (server, probed) = impatient(conduct);
        let pool = server.pool(&format!("pool_size=1&acquire_timeout=1h&{settings}"));
        assert_many(&name, &pool, 30).await;
        assert_eq!((server.accepted(), probed.load(Ordering::SeqCst)), (2, 1), "{name}: one log-in more");
        let stats = pool.stats();
        assert_eq!((stats.connects, stats.connect_failures, stats.connections_lost), (1, 0, 0), "{name}: {stats:?}");
    }
}

#[tokio::test]
async fn what_was_found_out_is_remembered() {
    let (server, probed) = impatient(Conduct::ThrowsOut);
    let pool = server.pool("pool_size=4&acquire_timeout=1h");
    assert_many("the first connection", &pool, 1).await;
    assert_eq!(probed.load(Ordering::SeqCst), 1);
    let grown = async || {
        assert_many("more connections", &pool, 40).await;
        pool.stats().lanes.len() == 4
    };
    wait_until("there are four connections", grown).await;
    assert_eq!((server.accepted(), probed.load(Ordering::SeqCst)), (5, 1), "nobody asked again");
}

/// The two commands at the log-in are let pass, and with several in flight later the connection is ended: three times, and
/// then it is believed.
#[tokio::test]
async fn connections_that_keep_dying_with_several_commands_in_flight_are_an_answer() {
    let died = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&died);
    let server = Server::start(move |session| {
        if session.number >= 3 {
            return serve_one_by_one(session);
        }
        for _ in 0..2 {
            let request = session.request()?;
            answer(session, &request)?;
        }
        loop {
            let (request, more) = request_and_more(session)?;
            if more {
                counted.fetch_add(1, Ordering::SeqCst);
                return Ok(());
            }
            answer(session, &request)?;
        }
    });
    let pool = server.pool("pool_size=1&acquire_timeout=1h");
    let mut failed_rounds = 0;
    loop {
        let outcomes = many(&pool, 8).await;
        let errors: Vec<Error> = outcomes.into_iter().filter_map(Result::err).collect();
        if errors.is_empty() {
            break;
        }
        failed_rounds += 1;
        for error in errors {
            assert!(error.is_network() && error.was_sent() == Some(true), "{error}");
        }
        assert!(failed_rounds <= 3, "it is never believed");
    }
    assert_eq!((failed_rounds, died.load(Ordering::SeqCst), server.accepted()), (3, 3, 4));
    assert_many("one by one", &pool, 30).await;
    assert_eq!(server.accepted(), 4);
}

/// A server that is stopped throws everyone out as well. It has not said anything about pipelining as long as nobody gets in
/// without.
#[tokio::test]
async fn a_server_that_ends_while_it_is_asked_is_asked_again() {
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let server = Server::start_raw(move |session| {
        if session.number == 1 {
            return Ok(());
        }
        session.log_in()?;
        let (request, more) = request_and_more(session)?;
        counted.fetch_add(usize::from(more), Ordering::SeqCst);
        if session.number == 0 {
            return Ok(());
        }
        answer(session, &request)?;
        session.serve()
    });
    let pool = server.pool("pool_size=1&acquire_timeout=1h");
    assert_many("a server that is up again", &pool, 20).await;
    assert_eq!((server.accepted(), asked.load(Ordering::SeqCst)), (3, 2));
}

/// A server that answers nothing before so many commands are there.
fn hoarding(commands: usize) -> Server {
    Server::start(move |session| {
        // Two at the log-in and the preparation, which others wait for.
        for _ in 0..3 {
            let request = session.request()?;
            answer(session, &request)?;
        }
        let requests = (0..commands).map(|_| session.request()).collect::<io::Result<Vec<_>>>()?;
        for request in &requests {
            answer(session, request)?;
        }
        session.serve()
    })
}

#[tokio::test]
async fn commands_are_in_flight_together_where_that_is_not_ruled_out() {
    for settings in ["pipeline=auto", "pipeline=on", ""] {
        let server = hoarding(20);
        let pool = server.pool(&format!("pool_size=1&{settings}"));
        assert_many(settings, &pool, 20).await;
        assert_eq!(server.accepted(), 1, "{settings}");
    }
}

#[tokio::test]
async fn without_pipelining_there_is_never_more_than_one_command_in_flight() {
    let server = Server::start(serve_one_by_one);
    let pool = server.pool("pool_size=2&pipeline=off&max_pipeline=64");
    for _ in 0..3 {
        assert_many("pipeline=off", &pool, 40).await;
    }
    // Statements with other texts, each of which has to be prepared.
    let texts: Vec<String> = (0..40).map(|number| format!("select ? /* {number} */")).collect();
    let asked = join_all(texts.iter().map(async |sql| pool.query_one(sql, &[&7]).await?.get::<_, i32>(0)));
    for outcome in must_end("other texts", asked).await {
        assert_eq!(outcome.unwrap(), 7);
    }
    // All scripts have to have ended for their panics to be seen.
    pool.close(Duration::from_secs(10)).await;
    assert_eq!(pool.stats().connections_lost, 0);
}

/// Those who wait for what he was to learn learn it themselves; where one command at a time is in flight as well.
#[tokio::test]
async fn who_vanishes_with_the_first_use_of_a_text_keeps_nobody_waiting() {
    for settings in ["pool_size=1&pipeline=off", "pool_size=2&pipeline=off", "pool_size=1&pipeline=on"] {
        let server = Server::start(move |session| match settings.contains("off") {
            true => serve_one_by_one(session),
            false => session.serve(),
        });
        let pool = server.pool(&format!("{settings}&acquire_timeout=1h"));
        assert_many(settings, &pool, 1).await;
        let mut vanished = 0;
        for polls in 1..16 {
            // Alone, and behind others for whom there is room before him.
            for ahead in [0, 3] {
                let sql: Arc<str> = format!("select ? /* {polls}, {ahead} */").into();
                let ask = |sql: Arc<str>, value: i32| {
                    let pool = pool.clone();
                    async move { pool.query_one(&sql, &[&value]).await?.get::<_, i32>(0) }
                };
                let ahead: Vec<_> = (0..ahead).map(|value| tokio::spawn(ask("select ?".into(), value))).collect();
                if !ahead.is_empty() {
                    tokio::task::yield_now().await;
                }
                let others: Vec<_> = (0..4).map(|value| tokio::spawn(ask(Arc::clone(&sql), value))).collect();
                vanished += u32::from(drop_after_polls(polls, ask(sql, 7)).await.ready().is_none());
                let ahead = must_end("those ahead", join_all(ahead)).await;
                ahead.into_iter().for_each(|asked| assert!(asked.unwrap().is_ok()));
                let others = must_end("those who wait for the same text", join_all(others)).await;
                for (other, value) in others.into_iter().zip(0..) {
                    assert_eq!(other.unwrap().unwrap(), value, "{settings}, after {polls} polls");
                }
            }
        }
        assert!(vanished > 3, "{settings}: {vanished}");
        let stats = pool.stats();
        assert_eq!((stats.in_flight(), stats.waiting, stats.connections_lost), (0, 0, 0), "{settings}: {stats:?}");
    }
}

/// Whoever says so wants no questions asked: what does not bear it is not worked around.
#[tokio::test]
async fn pipelining_that_is_demanded_is_not_asked_for() {
    let (server, probed) = impatient(Conduct::ThrowsOut);
    let pool = server.pool("pool_size=1&pipeline=on&acquire_timeout=1s");
    let error = must_end("pipeline=on", echo(&pool, 1)).await.expect_err("it is thrown out");
    assert!(error.is_timeout() && error.to_string().contains("closed the connection"), "{error}");
    assert_eq!(probed.load(Ordering::SeqCst), server.accepted());
}
