//! The machine with a language of one byte and a server that takes its time: what is held, collected or forgotten
//! meanwhile, and a server that says more than it was asked.

mod toy;

use std::future::{Future, poll_fn};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::channel;
use std::task::Poll;
use std::thread;
use std::time::Duration;

use cenote_pool::{Pace, Pool, PoolLimits, Preparation, StatementId};

use toy::{COMMAND_BYTES, FORGET, PREPARE, Server, Toy, ask, ask_prepared, must_end};

/// A pool with one connection, to a server that does `script` with the first and serves those after it.
fn pool(in_flight_max: Option<usize>, script: impl FnOnce(Server) + Send + 'static) -> Pool<Toy> {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    thread::spawn(move || {
        let mut script = Some(script);
        let mut connection = b'0';
        while let Ok((stream, _)) = listener.accept() {
            connection += 1;
            let mut server = Server::log_in(stream, connection);
            match script.take() {
                Some(script) => script(server),
                None => server.serve(),
            }
        }
    });
    let limits = PoolLimits { connections_max: 1, ..PoolLimits::default() };
    Pool::new(Toy::at(port, in_flight_max), limits)
}

/// While a statement waits to share a write, nobody owes it a reply.
#[tokio::test]
async fn a_reply_too_many_answers_no_statement_that_was_not_sent() {
    let (at_work, mut is_at_work) = tokio::sync::mpsc::unbounded_channel();
    let (go, may_go) = channel();
    let pool = pool(None, move |mut server| {
        for _ in 0..10 {
            assert!(server.take(1));
            server.give_slowly(1, Duration::from_millis(5));
        }
        assert!(server.take(8));
        at_work.send(()).expect("the test waits");
        may_go.recv().expect("the test goes on");
        // The ninth waits to share a write, and here is its answer.
        at_work.send(()).expect("the test waits");
        assert!(!server.has_input(), "the ninth has been sent");
        server.give(9);
        server.serve();
    });
    for _ in 0..10 {
        must_end("a first statement", ask(pool.clone())).await.expect("an answer");
    }
    let eight: Vec<_> = (0..8).map(|_| tokio::spawn(ask(pool.clone()))).collect();
    must_end("the server's work", is_at_work.recv()).await;
    let ninth = tokio::spawn(ask(pool.clone()));
    while pool.stats().in_flight() < 9 {
        tokio::task::yield_now().await;
    }
    go.send(()).expect("the server waits");
    must_end("the server's look", is_at_work.recv()).await;
    for one in eight {
        must_end("one of eight", one).await.expect("no panic").expect("an answer");
    }
    let answered = must_end("the ninth", ninth).await.expect("no panic").expect("an answer");
    assert_eq!(answered.reply[1], b'2', "it was not sent on the first connection, and cannot have been answered there");
    must_end("the next", ask(pool.clone())).await.expect("an answer");
    assert_eq!(pool.stats().connections_lost, 1, "the reply too many ended its connection");
}

/// The runtime is not told of so little while replies are collected; the driver, who looks by himself, sees it.
#[tokio::test]
async fn an_aside_while_replies_are_collected_stops_nobody() {
    let pool = pool(None, |mut server| {
        for _ in 0..10 {
            assert!(server.take(16));
            server.give_slowly(16, Duration::from_micros(500));
        }
        assert!(server.take(16));
        server.give_slowly(1, Duration::from_millis(3));
        server.give(15);
        // When all of that has been read.
        thread::sleep(Duration::from_millis(20));
        server.0.write_all(b"nnnn").expect("the client is there");
        server.serve();
    });
    let work = tokio::spawn({
        let pool = pool.clone();
        async move {
            for _ in 0..11 {
                let mut all: Vec<_> = (0..16).map(|_| Box::pin(ask(pool.clone()))).collect();
                poll_fn(|cx| {
                    all.retain_mut(|one| one.as_mut().poll(cx).is_pending());
                    if all.is_empty() { Poll::Ready(()) } else { Poll::Pending }
                })
                .await;
            }
            // The thread is busy with something else, so long that the connection is looked at before it is used.
            thread::sleep(Duration::from_millis(80));
            ask(pool).await
        }
    });
    must_end("the statement behind it", work).await.expect("no panic").expect("an answer");
}

/// A server that cannot pipeline is told nothing while it works, not even what it does not answer.
#[tokio::test]
async fn nothing_is_forgotten_behind_a_statement_that_must_be_alone() {
    let (at_work, mut is_at_work) = tokio::sync::mpsc::unbounded_channel();
    let (go, may_go) = channel();
    let pool = pool(Some(1), move |mut server| {
        // Two preparations and two statements, then the one that takes its time.
        for _ in 0..4 {
            assert!(server.take(1));
            server.give(1);
        }
        assert!(server.take(1));
        at_work.send(false).expect("the test waits");
        may_go.recv().expect("the test goes on");
        let early = server.has_input();
        at_work.send(early).expect("the test waits");
        server.give(1);
        // What is to be forgotten is forgotten with the next preparation.
        let mut commands = [0; 3 * COMMAND_BYTES];
        server.0.read_exact(&mut commands).expect("the next preparation");
        at_work.send(commands != [*FORGET, *FORGET, *PREPARE].concat()[..]).expect("the test waits");
        server.give(1);
        server.serve();
    });
    let prepared = |id| Preparation {
        id: Some(StatementId(id)),
        bytes: PREPARE[..].into(),
        describe_at: COMMAND_BYTES,
        pace: Pace::default(),
    };
    for id in [1, 2] {
        must_end("a first use", ask_prepared(pool.clone(), &[&prepared(id)])).await.expect("an answer");
    }
    let slow = tokio::spawn(ask(pool.clone()));
    must_end("the slow statement's way", is_at_work.recv()).await;
    pool.forget_half_of_prepared();
    // Often enough for a driver that was woken to write.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    go.send(()).expect("the server waits");
    let early = must_end("the server's look", is_at_work.recv()).await;
    assert_eq!(early, Some(false), "a command came while another was at work");
    must_end("the slow statement", slow).await.expect("no panic").expect("an answer");
    must_end("the next statement", ask_prepared(pool.clone(), &[&prepared(3)])).await.expect("an answer");
    let wrong = must_end("what came with it", is_at_work.recv()).await;
    assert_eq!(wrong, Some(false), "the next preparation closes what is too many");
}
