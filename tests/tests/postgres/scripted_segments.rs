//! However the network cuts a conversation, it means the same.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use cenote_postgres::{Error, Pool};
use cenote_tests::must_end;
use cenote_tests::scripted::{Request, Server, Session, answer, answers, message};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// A good answer, with what may come at any time before each of its messages.
fn answer_with_asides(requests: &[Request]) -> Vec<u8> {
    let asides = [
        message::notice("in the middle"),
        message::parameter_status("TimeZone", "UTC"),
        message::notification("channel", "payload"),
    ]
    .concat();
    answers(requests).into_iter().flat_map(|answer| [asides.clone(), answer]).collect::<Vec<_>>().concat()
}

async fn echo(pool: &Pool, sql: &str, value: i32) -> Result<i32, Error> {
    pool.query_one(sql, &[&value]).await?.get(0)
}

/// A server that sends each reply in two parts, the second one not before it is told to.
struct Cut {
    server: Server,
    /// How many units of work a reply answers.
    units: Arc<AtomicUsize>,
    /// Where replies are cut.
    at: Arc<AtomicUsize>,
    /// The length of each reply whose first part was sent.
    lengths: UnboundedReceiver<usize>,
    go_on: mpsc::Sender<()>,
    replied_bytes: u64,
}

impl Cut {
    fn new() -> Cut {
        let [units, at] = [1, 0].map(|number| Arc::new(AtomicUsize::new(number)));
        let (go_on, told) = mpsc::channel();
        let (tell, lengths) = unbounded_channel();
        let told = Mutex::new(told);
        let script = {
            let (units, at) = (Arc::clone(&units), Arc::clone(&at));
            move |session: &mut Session| {
                let told = told.lock().expect("one connection, which does not panic");
                loop {
                    let mut reply = answer_with_asides(&session.requests()?);
                    for _ in 1..units.load(Ordering::SeqCst) {
                        reply.extend(answer_with_asides(&session.requests()?));
                    }
                    let (first, second) = reply.split_at(at.load(Ordering::SeqCst).min(reply.len()));
                    session.send(first)?;
                    tell.send(reply.len()).map_err(io::Error::other)?;
                    told.recv().map_err(io::Error::other)?;
                    session.send(second)?;
                }
            }
        };
        Cut { server: Server::start(script), units, at, lengths, go_on, replied_bytes: 0 }
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
async fn a_first_use_cut_at_each_position_gives_the_same() {
    let mut cut = Cut::new();
    let pool = cut.server.pool("pool_size=1");
    let mut length = usize::MAX;
    for at in 0.. {
        if at > length {
            break;
        }
        cut.at.store(at, Ordering::SeqCst);
        // A text of its own is learned in a reply of its own.
        let sql = format!("select $1 /* {at} */");
        let (echoed, longest) =
            must_end(&format!("cut at {at}"), async { tokio::join!(echo(&pool, &sql, at as i32), cut.pace(&pool, 2)) })
                .await;
        assert_eq!(echoed.unwrap_or_else(|error| panic!("cut at {at}: {error}")), at as i32, "cut at {at}");
        length = longest;
    }
    assert!(length > 300, "there was something to cut: {length} bytes");
    assert_eq!(cut.server.accepted(), 1);
}

#[tokio::test]
async fn pipelined_replies_cut_at_each_position_give_the_same() {
    let mut cut = Cut::new();
    let pool = cut.server.pool("pool_size=1");
    let sql = "select $1";
    let (first, _) = must_end("the first use", async { tokio::join!(echo(&pool, sql, 1), cut.pace(&pool, 2)) }).await;
    assert_eq!(first.unwrap(), 1);
    cut.units.store(3, Ordering::SeqCst);
    let mut length = usize::MAX;
    for at in 0.. {
        if at > length {
            break;
        }
        cut.at.store(at, Ordering::SeqCst);
        let value = 3 * at as i32;
        let (a, b, c, longest) = must_end(&format!("cut at {at}"), async {
            tokio::join!(
                echo(&pool, sql, value),
                echo(&pool, sql, value + 1),
                echo(&pool, sql, value + 2),
                cut.pace(&pool, 1)
            )
        })
        .await;
        let echoed = [a, b, c].map(|echoed| echoed.unwrap_or_else(|error| panic!("cut at {at}: {error}")));
        assert_eq!(echoed, [value, value + 1, value + 2], "cut at {at}");
        length = longest;
    }
    assert!(length > 600, "there was something to cut: {length} bytes");
    assert_eq!(cut.server.accepted(), 1);
}

/// Its first part is read while nobody asks; the second comes before the next reply, which is somebody's.
#[tokio::test]
async fn what_nobody_asked_for_may_be_cut_by_a_query() {
    for aside in [
        message::notice("nobody asked"),
        message::parameter_status("TimeZone", "UTC"),
        message::notification("channel", "payload"),
    ] {
        let [at, sent] = [0, 0].map(|number| Arc::new(AtomicUsize::new(number)));
        let length = aside.len();
        let server = {
            let (at, sent) = (Arc::clone(&at), Arc::clone(&sent));
            Server::start(move |session| {
                let mut rest: Vec<u8> = Vec::new();
                loop {
                    let mut bytes = std::mem::take(&mut rest);
                    bytes.extend(answer(&session.requests()?));
                    let (first, second) = aside.split_at(at.load(Ordering::SeqCst));
                    bytes.extend_from_slice(first);
                    rest.extend_from_slice(second);
                    sent.fetch_add(bytes.len(), Ordering::SeqCst);
                    session.send(&bytes)?;
                }
            })
        };
        let pool = server.pool("pool_size=1");
        for cut in 0..=length {
            at.store(cut, Ordering::SeqCst);
            for value in 0..2 {
                let echoed = must_end("a query behind an aside", echo(&pool, "select $1", value)).await;
                assert_eq!(echoed.unwrap_or_else(|error| panic!("cut at {cut}: {error}")), value, "cut at {cut}");
                while pool.stats().bytes_read < sent.load(Ordering::SeqCst) as u64 {
                    tokio::task::yield_now().await;
                }
            }
        }
        assert_eq!((server.accepted(), pool.stats().connections_lost), (1, 0));
    }
}

/// Runs so many queries at once; each must get its own value back.
async fn many(pool: &Pool, values: std::ops::Range<i32>) {
    let queries: Vec<_> = values
        .map(|value| {
            let pool = pool.clone();
            tokio::spawn(async move { (value, echo(&pool, "select $1", value).await) })
        })
        .collect();
    for query in queries {
        let (value, echoed) = must_end("a query among many", query).await.expect("no panic");
        assert_eq!(echoed.unwrap_or_else(|error| panic!("{value}: {error}")), value);
    }
}

#[tokio::test]
async fn replies_may_come_byte_by_byte() {
    let server = Server::start(|session| {
        loop {
            for byte in answer_with_asides(&session.requests()?) {
                session.send(&[byte])?;
            }
        }
    });
    let pool = server.pool("pool_size=1");
    many(&pool, 0..50).await;
    assert_eq!(server.accepted(), 1);
}

#[tokio::test]
async fn many_replies_may_come_in_one_segment() {
    let server = Server::start(|session| {
        let description = answer(&session.requests()?);
        session.send(&description)?;
        for count in [100, 1, 99] {
            let mut replies = Vec::new();
            for _ in 0..count {
                replies.extend(answer_with_asides(&session.requests()?));
            }
            session.send(&replies)?;
        }
        session.wait_for_close()
    });
    let pool = server.pool("pool_size=1");
    many(&pool, 0..100).await;
    many(&pool, 100..200).await;
    assert_eq!(server.accepted(), 1);
    let stats = pool.stats();
    assert!(stats.reads < 100, "one read takes many replies, not {} reads for 201", stats.reads);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replies_in_random_pieces_with_pauses_reach_their_callers() {
    let server = Server::start(|session| {
        loop {
            let reply = answer_with_asides(&session.requests()?);
            let mut rest = &reply[..];
            while !rest.is_empty() {
                let (piece, behind) = rest.split_at(fastrand::usize(1..=rest.len()));
                session.send(piece)?;
                rest = behind;
                if fastrand::u8(..) < 16 {
                    // Not waited for: it is the server that is slow.
                    thread::sleep(Duration::from_micros(fastrand::u64(..3_000)));
                }
            }
        }
    });
    let pool = server.pool("pool_size=4");
    for round in 0..5 {
        many(&pool, round * 100..(round + 1) * 100).await;
    }
    assert!(server.accepted() <= 4, "{} connections", server.accepted());
}
