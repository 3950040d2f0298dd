//! Bodies of requests: read, not read, too large, too slow, broken off.

use std::time::Duration;

use cenote_http::{Request, Response};

use crate::client::{Served, builder, serve};

const BODY_BYTES_MAX: usize = 100_000;

/// Answers with the number of bytes in the body, or does not look at it.
fn served() -> Served {
    let builder = builder().body_bytes_max(BODY_BYTES_MAX);
    serve(builder, async |request: Request| {
        if request.path() == "/ignore" {
            return Response::text("ignored");
        }
        match request.body.read().await {
            Ok(body) => Response::text(body.len().to_string()),
            Err(error) => error.into(),
        }
    })
}

fn chunked(target: &str, chunks: &[usize]) -> String {
    let mut text = format!("POST {target} HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n");
    for bytes in chunks {
        text += &format!("{bytes:x}\r\n{}\r\n", "x".repeat(*bytes));
    }
    text + "0\r\n\r\n"
}

#[test]
fn bodies_up_to_the_limit_are_read() {
    let served = served();
    let mut client = served.connect();
    for bytes in [0, 1, 1_000, 65_536, BODY_BYTES_MAX] {
        client.post("/", &"x".repeat(bytes));
        assert_eq!(client.answer().body, bytes.to_string());
    }
    for chunks in [&[][..], &[1], &[10, 20, 30], &[50_000, 50_000], &[1; 2_000]] {
        client.send(chunked("/", chunks));
        assert_eq!(client.answer().body, chunks.iter().sum::<usize>().to_string());
    }
    assert_eq!(served.stats().connections_accepted, 1, "all on one connection");
}

#[test]
fn a_body_too_large_by_its_length_is_refused_before_it_comes() {
    let served = served();
    for target in ["/", "/ignore"] {
        let mut client = served.connect();
        let length = BODY_BYTES_MAX + 1;
        client.send(format!("POST {target} HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n"));
        let answer = client.answer();
        assert_eq!(answer.status, 413, "{target}");
        assert_eq!(answer.body, r#"{"error":"body too large"}"#);
        assert!(answer.closes(), "{answer:?}");
        client.assert_closed();
    }
}

#[test]
fn a_chunked_body_too_large_is_refused_when_it_is() {
    let served = served();
    let mut client = served.connect();
    client.send(chunked("/", &[60_000, 60_000]));
    let answer = client.answer();
    assert_eq!((answer.status, answer.closes()), (413, true));
    client.assert_closed();
}

#[test]
fn a_client_that_sends_everything_first_still_gets_the_answer() {
    let served = served();
    // More than the sockets' buffers hold: the client can only read once the server has taken all of it.
    for bytes in [BODY_BYTES_MAX + 1, 20_000_000] {
        let mut client = served.connect();
        client.post("/", &"x".repeat(bytes));
        assert_eq!(client.answer().status, 413, "{bytes} bytes");
        client.assert_closed();

        let mut client = served.connect();
        client.send(chunked("/", &vec![50_000; bytes / 50_000 + 1]));
        assert_eq!(client.answer().status, 413, "{bytes} bytes in chunks");
        client.assert_closed();
    }
}

#[test]
fn a_client_that_waits_to_go_on_is_told_so_or_refused() {
    let served = served();
    let head = |target: &str, length: usize| {
        format!("POST {target} HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: {length}\r\n\r\n")
    };
    let mut client = served.connect();
    client.send(head("/", 5));
    assert_eq!(client.answer().status, 100);
    client.send("hello");
    assert_eq!(client.answer().body, "5");

    client.send(head("/", BODY_BYTES_MAX + 1));
    let refused = client.answer();
    assert_eq!((refused.status, refused.closes()), (413, true), "no 100 before the 413");
    client.assert_closed();

    let mut client = served.connect();
    client.send(head("/ignore", 5));
    let answer = client.answer();
    assert_eq!((answer.body.as_str(), answer.closes()), ("ignored", true), "the body is not asked for");
    client.assert_closed();
}

#[test]
fn a_short_body_that_nobody_reads_keeps_the_connection() {
    let served = served();
    let mut client = served.connect();
    client.post("/ignore", "short");
    assert_eq!(client.answer().body, "ignored");
    // In a packet of its own, after the handler is done.
    client.send("POST /ignore HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\n");
    served.wait_for("the handler to be called", |stats| stats.requests == 2);
    client.send("0123456789");
    let answer = client.answer();
    assert_eq!((answer.body.as_str(), answer.closes()), ("ignored", false));
    client.send(chunked("/ignore", &[10, 10]));
    assert_eq!(client.answer().body, "ignored");
    client.post("/", "read");
    assert_eq!(client.answer().body, "4");
    assert_eq!(served.stats().connections_accepted, 1);
}

#[test]
fn a_long_body_that_nobody_reads_ends_the_connection_after_the_answer() {
    let served = served();
    let long = "x".repeat(90_000);
    let mut client = served.connect();
    client.post("/ignore", &long);
    let answer = client.answer();
    assert_eq!((answer.body.as_str(), answer.closes()), ("ignored", true));
    client.assert_closed();

    let mut client = served.connect();
    client.send(chunked("/ignore", &[10_000; 9]));
    let answer = client.answer();
    assert_eq!((answer.body.as_str(), answer.closes()), ("ignored", true));
    client.assert_closed();
}

#[test]
fn a_body_that_does_not_come_is_answered_with_408() {
    let builder = builder().body_read_timeout(Duration::from_millis(100));
    let served = serve(builder, async |request: Request| match request.path() {
        "/ignore" => Response::text("ignored"),
        _ => match request.body.read().await {
            Ok(_) => Response::empty(),
            Err(error) => {
                assert!(error.is_timeout(), "{error}");
                error.into()
            }
        },
    });
    let mut client = served.connect();
    client.send("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\n12345");
    let answer = client.answer();
    assert_eq!((answer.status, answer.body.as_str()), (408, r#"{"error":"body too slow"}"#));
    assert!(answer.closes());
    client.assert_closed();
    assert_eq!(served.stats().timeouts_body, 1);

    let mut client = served.connect();
    client.send("POST /ignore HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\n12345");
    let answer = client.answer();
    assert_eq!((answer.body.as_str(), answer.closes()), ("ignored", true));
    client.assert_closed();
}

#[test]
fn the_time_for_a_body_is_not_prolonged_by_a_trickle() {
    let builder = builder().body_read_timeout(Duration::from_millis(100));
    let served = serve(builder, async |request: Request| match request.body.read().await {
        Ok(_) => Response::empty(),
        Err(error) => error.into(),
    });
    let mut client = served.connect();
    client.send("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000\r\n\r\n");
    // A byte every now and then, for as long as the server takes them.
    while served.stats().timeouts_body == 0 {
        if client.try_send("x").is_err() {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(client.answer().status, 408);
}

#[test]
fn a_body_that_breaks_off_is_an_error_to_the_handler() {
    let (sender, receiver) = std::sync::mpsc::channel();
    let served = serve(builder(), move |request: Request| {
        let sender = sender.clone();
        async move {
            let read = request.body.read().await;
            sender.send(read.map(|body| body.len())).expect("the test waits");
            Response::empty()
        }
    });
    let mut client = served.connect();
    client.send("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\n12345");
    drop(client);
    let error = receiver.recv().expect("the handler is told").expect_err("half a body");
    assert!(error.is_broken(), "{error}");

    let mut client = served.connect();
    client.send("POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nnonsense\r\n");
    let error = receiver.recv().expect("the handler is told").expect_err("no chunk");
    assert!(error.is_broken(), "{error}");
    client.wait_for_end();
}

#[test]
fn a_body_can_be_read_in_pieces() {
    let served = serve(builder(), async |mut request: Request| {
        let mut pieces = 0;
        let mut bytes = 0;
        loop {
            match request.body.chunk().await {
                Ok(Some(piece)) => {
                    pieces += 1;
                    bytes += piece.len();
                }
                Ok(None) => break,
                Err(error) => return error.into(),
            }
        }
        assert!(request.body.is_empty());
        Response::text(format!("{} {bytes}", pieces > 1))
    });
    let mut client = served.connect();
    client.post("/", &"x".repeat(500_000));
    assert_eq!(client.answer().body, "true 500000");
}
