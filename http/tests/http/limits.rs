//! Heads too large, malformed or slow, connections idle, stuck or too many.

use std::time::Duration;

use cenote_http::{Request, Response, Server};

use crate::client::{Client, builder, serve};

const SHORT: Duration = Duration::from_millis(100);

async fn path(request: Request) -> Response {
    Response::text(request.path().to_owned())
}

/// A request whose head has exactly so many bytes.
fn head_of(bytes: usize) -> String {
    let start = "GET /x HTTP/1.1\r\nhost: x\r\nfiller: ";
    let filler = "f".repeat(bytes - start.len() - "\r\n\r\n".len());
    format!("{start}{filler}\r\n\r\n")
}

#[test]
fn a_head_too_large_is_431_and_one_at_the_limit_is_not() {
    for limit in [1_000, 16 * 1024, 100_000] {
        let served = serve(builder().head_bytes_max(limit), path);
        let mut client = served.connect();
        client.send(head_of(limit));
        assert_eq!(client.answer().body, "/x", "{limit} bytes");
        client.send(head_of(limit + 1));
        let answer = client.answer();
        assert_eq!((answer.status, answer.closes()), (431, true), "{limit} + 1 bytes");
        client.assert_closed();
        served.wait_for("both to be counted", |stats| {
            (stats.requests, stats.requests_malformed) == (1, 1) && stats.responses_by_class == [0, 1, 0, 1, 0]
        });
    }
}

#[test]
fn a_head_without_end_is_431_and_the_client_can_read_it() {
    let served = serve(builder(), path);
    let mut client = served.connect();
    // More than the sockets' buffers hold.
    client.send(format!("GET /x HTTP/1.1\r\nfiller: {}", "f".repeat(20_000_000)));
    assert_eq!(client.answer().status, 431);
    client.assert_closed();
}

#[test]
fn too_many_headers_are_431() {
    let served = serve(builder(), path);
    let mut client = served.connect();
    client.send(format!("GET /x HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(101)));
    assert_eq!(client.answer().status, 431);
    client.assert_closed();
}

#[test]
fn what_is_not_http_is_400() {
    let served = serve(builder(), path);
    for text in [
        "nonsense\r\n\r\n",
        "GET /x\r\n\r\n",
        "GET /x HTTP/3.0\r\n\r\n",
        "G\u{1}T /x HTTP/1.1\r\n\r\n",
        "GET /x HTTP/1.1\r\nno colon\r\n\r\n",
        "GET /x HTTP/1.1\r\nhost : x\r\n\r\n",
        "GET /x HTTP/1.1\r\n: x\r\n\r\n",
        "POST /x HTTP/1.1\r\ncontent-length: many\r\n\r\n",
        "POST /x HTTP/1.1\r\ncontent-length: -1\r\n\r\n",
        "POST /x HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab",
        "POST /x HTTP/1.1\r\ntransfer-encoding: gzip\r\n\r\n",
        "POST /x HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    ] {
        let mut client = served.connect();
        client.send(text);
        let answer = client.answer();
        assert_eq!((answer.status, answer.closes()), (400, true), "{text:?}: {answer:?}");
        client.assert_closed();
    }
    assert_eq!(served.stats().requests, 0, "no handler has seen any of it");
    served.wait_for("all to be counted", |stats| stats.requests_malformed == 12);
}

#[test]
fn what_follows_a_request_and_is_not_http_is_400_after_its_answer() {
    let served = serve(builder(), path);
    let mut client = served.connect();
    client.send("GET /good HTTP/1.1\r\nhost: x\r\n\r\nnonsense\r\n\r\n");
    assert_eq!(client.answer().body, "/good");
    assert_eq!(client.answer().status, 400);
    client.assert_closed();
}

#[test]
fn a_slow_head_is_408() {
    let served = serve(builder().head_read_timeout(SHORT), path);
    let mut client = served.connect();
    client.send("GET /x HTTP/1.1\r\nho");
    let answer = client.answer();
    assert_eq!(answer.status, 408);
    assert_eq!(answer.body, r#"{"error":"request head too slow"}"#);
    assert!(answer.closes() && answer.header("date").is_some(), "{answer:?}");
    client.assert_closed();
    assert_eq!(served.stats().timeouts_head, 1);
}

#[test]
fn a_slow_head_after_another_request_is_408() {
    let served = serve(builder().head_read_timeout(SHORT), path);
    let mut client = served.connect();
    client.get("/first");
    assert_eq!(client.answer().body, "/first");
    client.send("GET /sec");
    assert_eq!(client.answer().status, 408);
    client.assert_closed();
}

#[test]
fn a_trickle_does_not_prolong_the_time_for_a_head() {
    let served = serve(builder().head_read_timeout(SHORT), path);
    let mut client = served.connect();
    client.send("GET /x HTTP/1.1\r\nfiller: ");
    while served.stats().timeouts_head == 0 {
        if client.try_send("f").is_err() {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(client.answer().status, 408);
}

#[test]
fn a_connection_that_says_nothing_is_closed_without_a_word() {
    let served = serve(builder().head_read_timeout(SHORT), path);
    served.connect().assert_closed();
    assert_eq!(served.stats().timeouts_head, 1);
}

#[test]
fn an_idle_connection_is_closed_without_a_word() {
    let served = serve(builder().keep_alive_timeout(SHORT), path);
    let mut client = served.connect();
    client.get("/x");
    assert_eq!(client.answer().body, "/x");
    client.assert_closed();
    assert_eq!(served.stats().timeouts_idle, 1);
}

#[test]
fn a_request_that_takes_long_is_not_idle() {
    let builder = builder().keep_alive_timeout(SHORT).head_read_timeout(SHORT).write_timeout(SHORT);
    let served = serve(builder, async |_: Request| {
        tokio::time::sleep(SHORT * 5).await;
        Response::text("late")
    });
    let mut client = served.connect();
    client.get("/");
    assert_eq!(client.answer().body, "late");
}

#[test]
fn a_client_that_does_not_take_its_answer_is_cut_off() {
    let body = "x".repeat(50_000_000);
    let served = serve(builder().write_timeout(SHORT), move |_: Request| {
        let body = body.clone();
        async move { Response::text(body) }
    });
    let mut client = served.connect();
    client.get("/");
    served.wait_for("the cut", |stats| stats.timeouts_write == 1 && stats.connections_open == 0);
    client.wait_for_end();
}

#[test]
fn a_client_that_does_not_end_what_was_refused_is_cut_off() {
    let served = serve(builder().linger_timeout(SHORT), path);
    let mut client = served.connect();
    client.send("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000000\r\n\r\n");
    assert_eq!(client.answer().status, 413);
    served.wait_for("the cut", |stats| stats.timeouts_write == 1 && stats.connections_open == 0);
}

#[test]
fn more_connections_than_a_thread_takes_wait_for_a_place() {
    let served = serve(builder().connections_per_thread_max(2), path);
    let mut clients: Vec<Client> = (0..4).map(|_| served.connect()).collect();
    for client in &mut clients {
        client.get("/x");
    }
    assert_eq!(clients[0].answer().body, "/x");
    assert_eq!(clients[1].answer().body, "/x");
    assert_eq!(served.stats().connections_accepted, 2, "the others are still in the queue");
    clients.remove(0);
    assert_eq!(clients[1].answer().body, "/x");
    clients.remove(0);
    assert_eq!(clients[1].answer().body, "/x");
    assert_eq!(served.stats().connections_accepted, 4);
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let builder = || Server::builder().address("127.0.0.1:0");
    for (refused, why) in [
        (builder().threads(0), "no thread"),
        (builder().connections_per_thread_max(0), "no connection"),
        (builder().head_bytes_max(10), "no head"),
        (builder().event_interval(0), "no event"),
        (builder().keep_alive_timeout(Duration::ZERO), "no time"),
        (builder().address("not an address"), "no address"),
    ] {
        assert!(refused.bind().is_err(), "{why}");
    }
}
