//! However the network cuts what a MySQL server says it means the same; where it is cut off, or turned into noise, it is an
//! error and no more.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use cenote_mysql::{Error, Pool};
use cenote_tests::mysql::scripted::{Request, Server, Session, echo, echo_column, packet};
use cenote_tests::{must_end, wait_until};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

async fn ask(pool: &Pool, sql: &str, value: i32) -> Result<i32, Error> {
    pool.query_one(sql, &[&value]).await?.get(0)
}

/// Which reply a server spoils.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    /// The one to a preparation.
    Preparing,
    /// The one with rows.
    Running,
}

use Moment::{Preparing, Running};

/// A server that sends each reply in two parts, the second one not before it is told to.
struct Cut {
    server: Server,
    /// How many statements a reply answers.
    statements: Arc<AtomicUsize>,
    /// Where replies are cut.
    at: Arc<AtomicUsize>,
    /// The length of each reply whose first part was sent.
    lengths: UnboundedReceiver<usize>,
    go_on: mpsc::Sender<()>,
    replied_bytes: u64,
}

impl Cut {
    fn new() -> Cut {
        let [statements, at] = [1, 0].map(|number| Arc::new(AtomicUsize::new(number)));
        let (go_on, told) = mpsc::channel();
        let (tell, lengths) = unbounded_channel();
        let told = Mutex::new(told);
        let script = {
            let (statements, at) = (Arc::clone(&statements), Arc::clone(&at));
            move |session: &mut Session| {
                let told = told.lock().expect("one connection, which does not panic");
                // What is set and asked at the log-in.
                for _ in 0..2 {
                    let request = session.request()?;
                    let answer = session.answer(&request);
                    session.send(&answer)?;
                }
                loop {
                    let mut reply = Vec::new();
                    let mut answered = 0;
                    // Looked up when a command is there: then it has been said.
                    while answered == 0 || answered < statements.load(Ordering::SeqCst) {
                        let request = session.request()?;
                        reply.extend(session.answer(&request));
                        answered += 1;
                    }
                    let (first, second) = reply.split_at(at.load(Ordering::SeqCst).min(reply.len()));
                    session.send(first)?;
                    tell.send(reply.len()).map_err(io::Error::other)?;
                    told.recv().map_err(io::Error::other)?;
                    session.send(second)?;
                }
            }
        };
        Cut { server: Server::start(script), statements, at, lengths, go_on, replied_bytes: 0 }
    }

    /// Has the second part of so many replies sent, each when its first part was read. The length of the longest.
    async fn pace(&mut self, pool: &Pool, replies: usize) -> usize {
        let mut longest = 0;
        for _ in 0..replies {
            let length = self.lengths.recv().await.expect("the server replies");
            let first = self.at.load(Ordering::SeqCst).min(length) as u64;
            while pool.stats().bytes_read < self.replied_bytes + first {
                tokio::task::yield_now().await;
            }
            self.go_on.send(()).expect("the server waits for it");
            self.replied_bytes += length as u64;
            longest = longest.max(length);
        }
        longest
    }
}

#[tokio::test]
async fn replies_cut_at_each_position_are_what_they_are_whole() {
    let mut cut = Cut::new();
    let pool = cut.server.pool("pool_size=1&statement_cache_size=1000");
    let mut length = usize::MAX;
    for at in 0.. {
        if at > length {
            break;
        }
        cut.at.store(at, Ordering::SeqCst);
        // A text of its own is prepared by a command of its own.
        let sql = format!("select ? /* {at} */");
        let (echoed, longest) =
            must_end(&format!("cut at {at}"), async { tokio::join!(ask(&pool, &sql, at as i32), cut.pace(&pool, 2)) })
                .await;
        assert_eq!(echoed.unwrap_or_else(|error| panic!("cut at {at}: {error}")), at as i32, "cut at {at}");
        length = longest;
    }
    assert!(length > 60, "there was something to cut: {length} bytes");
    assert_eq!(cut.server.accepted(), 1);
}

#[tokio::test]
async fn pipelined_replies_cut_at_each_position_give_the_same() {
    let mut cut = Cut::new();
    let pool = cut.server.pool("pool_size=1");
    let sql = "select ?";
    let (first, _) = must_end("the first use", async { tokio::join!(ask(&pool, sql, 1), cut.pace(&pool, 2)) }).await;
    assert_eq!(first.unwrap(), 1);
    cut.statements.store(3, Ordering::SeqCst);
    let mut length = usize::MAX;
    for at in 0.. {
        if at > length {
            break;
        }
        cut.at.store(at, Ordering::SeqCst);
        let value = 3 * at as i32;
        let (a, b, c, longest) = must_end(&format!("cut at {at}"), async {
            let (one, two, three) = (value, value + 1, value + 2);
            tokio::join!(ask(&pool, sql, one), ask(&pool, sql, two), ask(&pool, sql, three), cut.pace(&pool, 1))
        })
        .await;
        let echoed = [a, b, c].map(|echoed| echoed.unwrap_or_else(|error| panic!("cut at {at}: {error}")));
        assert_eq!(echoed, [value, value + 1, value + 2], "cut at {at}");
        length = longest;
    }
    assert!(length > 150, "there was something to cut: {length} bytes");
    assert_eq!(cut.server.accepted(), 1);
}

fn prepared() -> Vec<u8> {
    packet::packets(&[packet::prepare_ok(1, 1, 1), packet::column("?", packet::LONG), echo_column()])
}

#[tokio::test]
async fn a_reply_cut_off_anywhere_is_told_to_whom_it_matters() {
    for (moment, whole) in [(Preparing, prepared()), (Running, echo(7))] {
        for cut in 0..whole.len() {
            let name = format!("{moment:?}, cut at {cut}");
            let part = whole[..cut].to_vec();
            let server = Server::start(move |session| {
                if session.number > 0 {
                    return session.serve();
                }
                for _ in 0..if moment == Preparing { 2 } else { 3 } {
                    let request = session.request()?;
                    let answer = session.answer(&request);
                    session.send(&answer)?;
                }
                session.request()?;
                session.send(&part)
            });
            let pool = server.pool("pool_size=1");
            match (moment, must_end(&name, pool.query_one("select ?", &[&7])).await) {
                // Nothing has run, so it is prepared elsewhere.
                (Preparing, outcome) => {
                    let row = outcome.unwrap_or_else(|error| panic!("{name}: {error}"));
                    assert_eq!(row.get::<_, i32>(0).unwrap(), 7, "{name}");
                }
                (Running, outcome) => {
                    let error = outcome.expect_err(&name);
                    assert!(error.is_network() && error.was_sent() == Some(true), "{name}: {error}");
                }
            }
            assert_serves(&name, &pool).await;
            assert_eq!(server.accepted(), 2, "{name}");
        }
    }
}

/// The pool serves again, if not at once: a connection that is about to be closed may still be taken for a good one.
async fn assert_serves(name: &str, pool: &Pool) {
    // Another text: of the first one the server may have said that it has other parameters.
    let serves = async || match pool.query_one("select ? -- again", &[&8]).await {
        Ok(row) => row.get::<_, i32>(0).unwrap() == 8,
        Err(error) => {
            assert!(error.is_network(), "the query after {name}: {error}");
            false
        }
    };
    must_end(&format!("the query after {name}"), wait_until(name, serves)).await;
    assert_eq!(pool.stats().in_flight(), 0, "in flight after {name}");
}

/// Whatever comes: an error, or an answer that happens to be one, and then the next query.
#[tokio::test]
async fn noise_is_an_error_and_no_more() {
    for seed in 0..300 {
        let mut random = fastrand::Rng::with_seed(seed);
        let moment = if random.bool() { Preparing } else { Running };
        let mut noise = if moment == Preparing { prepared() } else { echo(7) };
        for _ in 0..random.usize(1..4) {
            match random.u8(0..4) {
                0 => noise.truncate(random.usize(0..=noise.len())),
                1 => noise.extend((0..random.usize(0..40)).map(|_| random.u8(..))),
                _ if noise.is_empty() => {}
                _ => {
                    let at = random.usize(0..noise.len());
                    noise[at] = random.u8(..);
                }
            }
        }
        let name = format!("noise of seed {seed}, {moment:?}: {}", noise.escape_ascii());
        let server = Server::start(move |session: &mut Session| {
            let mut spoils = session.number == 0;
            loop {
                let request = session.request()?;
                let hit = match request {
                    Request::Prepare { .. } => moment == Preparing,
                    Request::Execute { .. } => moment == Running,
                    _ => false,
                };
                if spoils && hit {
                    session.send(&noise)?;
                    // Whoever waits for more waits in vain.
                    return Ok(());
                }
                spoils &= !hit;
                let answer = session.answer(&request);
                session.send(&answer)?;
            }
        });
        let pool = server.pool("pool_size=1");
        match must_end(&name, pool.query_one("select ?", &[&7])).await {
            Ok(row) => drop(row.get::<_, i32>(0)),
            Err(error) => assert!(!error.is_timeout() && !error.is_closed(), "{name}: {error}"),
        }
        assert_serves(&name, &pool).await;
    }
}
