//! Requests in every shape that is allowed, and the order of their answers.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

use cenote_http::{Handler, Request, Response, StatusCode, header};
use tokio::sync::Semaphore;

use crate::client::{Served, builder, serve};

/// Answers with the path.
async fn path(request: Request) -> Response {
    Response::text(request.path().to_owned())
}

#[test]
fn answers_carry_type_length_and_date() {
    let served = serve(builder(), async |request: Request| match request.path() {
        "/text" => Response::text("héllo"),
        "/json" => Response::json("[1]"),
        _ => Response::empty(),
    });
    let mut client = served.connect();

    client.get("/text");
    let text = client.answer();
    assert_eq!((text.status, text.body.as_str()), (200, "héllo"));
    assert_eq!(text.header("content-type"), Some("text/plain; charset=utf-8"));
    assert_eq!(text.header("content-length"), Some("6"));
    let date = text.header("date").expect("a date");
    assert!(date.ends_with(" GMT") && date.len() == 29, "date {date:?}");

    client.get("/json");
    let json = client.answer();
    assert_eq!(json.header("content-type"), Some("application/json"));
    assert_eq!(json.body, "[1]");

    client.get("/empty");
    let empty = client.answer();
    assert_eq!((empty.status, empty.header("content-length")), (200, Some("0")));
    assert_eq!(empty.header("content-type"), None);
}

#[test]
fn a_request_may_come_byte_by_byte() {
    let served = serve(builder(), async |request: Request| {
        let path = request.path().to_owned();
        match request.body.read().await {
            Ok(body) => Response::text(format!("{path} {}", String::from_utf8_lossy(&body))),
            Err(error) => error.into(),
        }
    });
    let mut client = served.connect();
    for _ in 0..2 {
        for byte in b"POST /slow HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\nhello" {
            client.send([*byte]);
        }
        assert_eq!(client.answer().body, "/slow hello");
    }
}

#[test]
fn sixteen_pipelined_requests_are_answered_in_order() {
    let served = serve(builder(), path);
    let mut client = served.connect();
    for round in 0..4 {
        let requests: String =
            (0..16).map(|number| format!("GET /{round}/{number} HTTP/1.1\r\nhost: test\r\n\r\n")).collect();
        client.send(requests);
        for number in 0..16 {
            assert_eq!(client.answer().body, format!("/{round}/{number}"));
        }
    }
}

#[test]
fn pipelined_requests_wait_for_a_slow_one_before_them() {
    let gate = Arc::new(Semaphore::new(0));
    let handler_gate = Arc::clone(&gate);
    let served = serve(builder(), move |request: Request| {
        let gate = Arc::clone(&handler_gate);
        async move {
            if request.path() == "/slow" {
                let _ = gate.acquire().await;
            }
            Response::text(request.path().to_owned())
        }
    });
    let mut client = served.connect();
    client.get("/first");
    client.get("/slow");
    client.get("/last");
    assert_eq!(client.answer().body, "/first", "the first is not held back by the second");
    gate.add_permits(1);
    assert_eq!(client.answer().body, "/slow");
    assert_eq!(client.answer().body, "/last");
}

#[test]
fn an_answer_is_not_held_back_by_the_start_of_the_next_request() {
    let served = serve(builder(), path);
    let mut client = served.connect();
    client.send("GET /one HTTP/1.1\r\nhost: x\r\n\r\nGET /two HTTP/1.1\r\nho");
    assert_eq!(client.answer().body, "/one");
    client.send("st: x\r\n\r\nGET /three HTTP/1.1\r\nhost: x\r\n\r\nGET /fo");
    assert_eq!(client.answer().body, "/two");
    assert_eq!(client.answer().body, "/three");
}

#[test]
fn a_stray_line_end_after_a_body_holds_nothing_back() {
    let served = serve(builder(), path);
    let mut client = served.connect();
    client.send("POST /a HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\nhi\r\n");
    assert_eq!(client.answer().body, "/a");
    client.get("/b");
    assert_eq!(client.answer().body, "/b");
}

#[test]
fn large_answers_reach_a_client_that_reads_late() {
    let body = "0123456789abcdef".repeat(20_000);
    let expected = body.clone();
    let served = serve(builder(), move |_: Request| {
        let body = body.clone();
        async move { Response::text(body) }
    });
    let mut client = served.connect();
    let answers = 40;
    let requests = "GET / HTTP/1.1\r\nhost: x\r\n\r\n".repeat(answers);
    client.send(requests);
    served.wait_for("an answer to be made", |stats| stats.requests > 0);
    for number in 0..answers {
        assert!(client.answer().body == expected, "answer {number} differs");
    }
}

#[test]
fn a_client_that_has_closed_its_side_is_answered() {
    let served = serve(builder(), path);
    let mut client = served.connect();
    client.get("/one");
    client.get("/two");
    client.end_sending();
    assert_eq!(client.answer().body, "/one");
    assert_eq!(client.answer().body, "/two");
    client.assert_closed();
}

#[test]
fn head_is_answered_without_the_body() {
    let served = serve(builder(), path);
    let mut client = served.connect();
    client.send("HEAD /seven HTTP/1.1\r\nhost: x\r\n\r\n");
    let answer = client.answer_of("HEAD");
    assert_eq!((answer.status, answer.header("content-length")), (200, Some("6")));
    client.get("/next");
    assert_eq!(client.answer().body, "/next");
}

#[test]
fn connections_close_when_the_client_wants_it() {
    let served = serve(builder(), path);
    for request in ["GET /x HTTP/1.0\r\n\r\n", "GET /x HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"] {
        let mut client = served.connect();
        client.send(request);
        assert_eq!(client.answer().body, "/x", "{request:?}");
        client.assert_closed();
    }
}

#[test]
fn a_handler_may_close_the_connection() {
    let served = serve(builder(), async |_: Request| Response::text("bye").closing());
    let mut client = served.connect();
    client.get("/");
    let answer = client.answer();
    assert!(answer.closes(), "{answer:?}");
    client.assert_closed();
}

#[test]
fn heads_are_read_as_sent() {
    let served = serve(builder(), async |request: Request| {
        let head = &request.head;
        let name = match head.query("name") {
            Ok(name) => name.unwrap_or_default().into_owned(),
            Err(error) => return error.into(),
        };
        let agent = head.header("User-Agent").unwrap_or("nobody");
        let local = head.peer().ip().is_loopback();
        Response::text(format!("{} {} {name} {agent} {local}", head.method(), head.path()))
            .with_status(StatusCode::ACCEPTED)
            .with_header(header::VARY, header::HeaderValue::from_static("user-agent"))
    });
    let mut client = served.connect();
    client.send("PUT /p%20q?a=1&name=J+%26+J HTTP/1.1\r\nhost: x\r\nuser-agent: test/1\r\n\r\n");
    let answer = client.answer();
    assert_eq!(answer.body, "PUT /p%20q J & J test/1 true");
    assert_eq!((answer.status, answer.header("vary")), (202, Some("user-agent")));
    client.get("/?name=%zz");
    let refused = client.answer();
    assert_eq!((refused.status, refused.body.as_str()), (400, r#"{"error":"invalid percent-encoding"}"#));
}

/// A handler with state that cannot leave its thread.
struct PerThread {
    name: Rc<String>,
}

impl Handler for PerThread {
    async fn call(self: Rc<Self>, _: Request) -> Response {
        // Runs on the same thread, though it is not `Send`.
        let name = Rc::clone(&self.name);
        let spawned = tokio::task::spawn_local(async move {
            let here = std::thread::current().name().unwrap_or_default().to_owned();
            assert_eq!(here, *name);
            here
        });
        Response::text(spawned.await.expect("the task ends well"))
    }
}

#[test]
fn each_thread_has_its_own_handler_and_its_share_of_the_connections() {
    let server = builder().threads(2).bind().unwrap();
    let running = server.start(|thread| PerThread { name: Rc::new(format!("cenote-http-{thread}")) });
    let served = Served::new(running.unwrap());
    // The kernel chooses by the client's port: 64 connections all on one thread do not happen.
    let clients = (0..64).map(|_| {
        let mut client = served.connect();
        client.get("/");
        client.answer().body
    });
    let threads: BTreeSet<String> = clients.collect();
    let expected = ["cenote-http-0", "cenote-http-1"].map(String::from);
    assert_eq!(threads, BTreeSet::from(expected));
    assert_eq!(served.stats().connections_accepted, 64);
    assert_eq!(served.stats().threads, 2);
}

#[test]
fn threads_can_be_pinned_and_the_event_interval_set() {
    let served = serve(builder().threads(2).pin_threads(true).event_interval(16), path);
    let mut client = served.connect();
    client.get("/pinned");
    assert_eq!(client.answer().body, "/pinned");
}
