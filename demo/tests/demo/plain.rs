//! The routes that need no database.

use cenote_demo::{Running, Settings, start};

use crate::client::{Answer, Client};

fn demo() -> (Running, Client) {
    let running = start(Settings::for_tests()).expect("a free port");
    let client = Client::connect(running.address());
    (running, client)
}

fn get(client: &mut Client, target: &str) -> Answer {
    client.get(target);
    client.answer()
}

fn post(client: &mut Client, target: &str, body: &str) -> Answer {
    client.post(target, body);
    client.answer()
}

fn assert_text(answer: &Answer, body: &str) {
    assert_eq!((answer.status, answer.body.as_str()), (200, body), "{answer:?}");
    assert_eq!(answer.header("content-type"), Some("text/plain; charset=utf-8"));
}

fn assert_json(answer: &Answer, status: u16, body: &str) {
    assert_eq!((answer.status, answer.body.as_str()), (status, body), "{answer:?}");
    assert_eq!(answer.header("content-type"), Some("application/json"));
}

#[test]
fn every_route_answers() {
    let (_demo, mut client) = demo();
    for empty in [get(&mut client, "/"), post(&mut client, "/user", ""), post(&mut client, "/user", "{\"a\":1}")] {
        assert_eq!((empty.status, empty.body.as_str()), (200, ""), "{empty:?}");
    }
    assert_text(&get(&mut client, "/user/42"), "42");
    assert_text(&get(&mut client, "/user/a%20%C3%A9%2Fb"), "a é/b");
    assert_json(&get(&mut client, "/json"), 200, r#"{"message":"Hello, World!"}"#);
    assert_json(&get(&mut client, "/users/7?name=J%C3%B6rg+%22x%22"), 200, r#"{"id":"7","name":"Jörg \"x\""}"#);
    assert_json(&get(&mut client, "/users/7"), 200, r#"{"id":"7","name":""}"#);
    for number in 1..=100 {
        let name = format!("item{number:03}");
        assert_text(&get(&mut client, &format!("/r/{name}")), &name);
    }
}

#[test]
fn json_comes_back_as_it_went() {
    let (_demo, mut client) = demo();
    for json in [
        r#"{"z":1,"a":[true,null,"é\n\"",-2.5,18446744073709551615],"m":{"y":{},"b":[]}}"#,
        "[]",
        "\"text\"",
        "0",
        "null",
    ] {
        assert_json(&post(&mut client, "/json", json), 200, json);
    }
    assert_json(&post(&mut client, "/json", " { \"a\" :\n1 } "), 200, r#"{"a":1}"#);
}

#[test]
fn what_is_not_json_is_400() {
    let (_demo, mut client) = demo();
    let deep = "[".repeat(100_000);
    for text in ["", "{", "{\"a\":1}}", "{'a':1}", "[1,]", "nan", "\"\\ud800\"", &deep] {
        let answer = post(&mut client, "/json", text);
        let start: String = text.chars().take(20).collect();
        assert_eq!(answer.status, 400, "{start:?}: {answer:?}");
        assert!(answer.body.starts_with(r#"{"error":"invalid JSON: "#), "{start:?}: {answer:?}");
        serde_json::from_str::<serde_json::Value>(&answer.body).expect("the error is JSON");
    }
    let head = "POST /json HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\n\r\n";
    client.send([head.as_bytes(), b"\"\xff\""].concat());
    assert_eq!(client.answer().status, 400, "not UTF-8");
}

#[test]
fn bad_requests_are_refused_in_short_json() {
    let (_demo, mut client) = demo();
    assert_json(&get(&mut client, "/nothing"), 404, r#"{"error":"not found"}"#);
    assert_json(&get(&mut client, "/r/item000"), 404, r#"{"error":"not found"}"#);
    assert_json(&get(&mut client, "/r/item101"), 404, r#"{"error":"not found"}"#);
    let wrong = post(&mut client, "/users/7", "");
    assert_json(&wrong, 405, r#"{"error":"method not allowed"}"#);
    assert_eq!(wrong.header("allow"), Some("GET, HEAD"));
    assert_eq!(get(&mut client, "/user").header("allow"), Some("POST"));
    assert_json(&get(&mut client, "/users/7?name=%zz"), 400, r#"{"error":"invalid percent-encoding"}"#);
    assert_json(&get(&mut client, "/user/%zz"), 400, r#"{"error":"invalid percent-encoding"}"#);
    let large = "x".repeat(cenote_http::BODY_BYTES_MAX + 1);
    for target in ["/json", "/user"] {
        let (_demo, mut client) = demo();
        assert_json(&post(&mut client, target, &large), 413, r#"{"error":"body too large"}"#);
        client.assert_closed();
    }
    client.send(format!("GET / HTTP/1.1\r\nx: {}\r\n\r\n", "x".repeat(cenote_http::HEAD_BYTES_MAX)));
    assert_eq!(client.answer().status, 431);
    client.assert_closed();
}

#[test]
fn metrics_count_what_was_served() {
    let (_demo, mut client) = demo();
    get(&mut client, "/");
    get(&mut client, "/nothing");
    let page = get(&mut client, "/metrics");
    assert_eq!(page.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    for line in [
        "# TYPE cenote_http_requests_total counter",
        "cenote_http_requests_total 3",
        "cenote_http_responses_total{class=\"2xx\"} 1",
        "cenote_http_responses_total{class=\"4xx\"} 1",
        "cenote_http_connections_open 1",
        "cenote_http_threads 1",
    ] {
        assert!(page.body.lines().any(|known| known == line), "no line {line:?} in\n{}", page.body);
    }
    for line in page.body.lines().filter(|line| !line.starts_with('#')) {
        let (name, value) = line.rsplit_once(' ').expect("a name and a value");
        assert!(name.starts_with("cenote_") && value.parse::<f64>().is_ok(), "{line:?}");
    }
}
