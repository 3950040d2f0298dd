//! A stop, which loses nothing that was begun.

use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use cenote_http::{Builder, Handler, Request, Response};
use tokio::sync::Semaphore;

use crate::client::{Client, Served, builder, serve};

/// Longer than any test.
const HOUR: Duration = Duration::from_secs(3600);

/// A server whose requests to `/wait` are answered once the gate lets them.
fn gated(builder: Builder) -> (Served, Arc<Semaphore>) {
    let gate = Arc::new(Semaphore::new(0));
    let handler_gate = Arc::clone(&gate);
    let served = serve(builder, move |request: Request| {
        let gate = Arc::clone(&handler_gate);
        async move {
            if request.path() == "/wait" {
                let _ = gate.acquire().await;
            }
            match request.body.read().await {
                Ok(body) => Response::text(format!("done {}", body.len())),
                Err(error) => error.into(),
            }
        }
    });
    (served, gate)
}

#[test]
fn requests_in_flight_are_answered_and_later_connects_refused() {
    let (served, gate) = gated(builder().threads(2));
    let mut clients: Vec<Client> = (0..50).map(|_| served.connect()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        match number % 2 {
            0 => client.get("/wait"),
            _ => client.post("/wait", "body"),
        }
    }
    served.wait_for("all requests to be in flight", |stats| stats.requests == 50);
    let stats = served.running().stats();
    served.running().stop().stop();
    served.wait_until_refused();
    assert!(stats.snapshot().connections_open >= 50, "somebody was cut");

    gate.close();
    for (number, client) in clients.iter_mut().enumerate() {
        let answer = client.answer();
        assert_eq!(answer.body, ["done 0", "done 4"][number % 2]);
        assert!(answer.closes(), "client {number}: {answer:?}");
        client.assert_closed();
    }
    served.join().unwrap();
    let stats = stats.snapshot();
    assert_eq!((stats.connections_open, stats.connections_cut), (0, 0));
    assert_eq!(stats.responses_by_class, [0, 50, 0, 0, 0]);
}

#[test]
fn pipelined_requests_that_were_read_are_answered() {
    let (served, gate) = gated(builder());
    let mut client = served.connect();
    let rest = "GET /x HTTP/1.1\r\nhost: x\r\n\r\n".repeat(15);
    client.send(format!("GET /wait HTTP/1.1\r\nhost: x\r\n\r\n{rest}"));
    served.wait_for("the first to be in flight", |stats| stats.requests == 1);
    served.running().stop().stop();
    served.wait_until_refused();
    gate.close();
    for number in 0..16 {
        assert_eq!(client.answer().body, "done 0", "answer {number}");
    }
    client.assert_closed();
    served.join().unwrap();
}

#[test]
fn idle_connections_are_closed_and_hold_nothing_up() {
    let (served, _gate) = gated(builder().stop_deadline(HOUR).keep_alive_timeout(HOUR));
    let mut clients: Vec<Client> = (0..10).map(|_| served.connect()).collect();
    for client in &mut clients {
        client.get("/x");
        assert_eq!(client.answer().body, "done 0");
    }
    let silent = served.connect();
    served.wait_for("all connections", |stats| stats.connections_open == 11);
    served.running().stop().stop();
    for client in &mut clients {
        client.assert_closed();
    }
    served.join().unwrap();
    drop(silent);
}

#[test]
fn connections_in_the_queue_are_served() {
    let (sender, receiver) = mpsc::channel::<()>();
    let receiver = Arc::new(Mutex::new(receiver));
    let served = serve(builder(), move |request: Request| {
        let receiver = Arc::clone(&receiver);
        async move {
            if request.path() == "/block" {
                // Blocks the thread, so that nobody is accepted meanwhile.
                let _ = receiver.lock().map(|receiver| receiver.recv());
            }
            Response::text(request.path().to_owned())
        }
    });
    let mut blocking = served.connect();
    blocking.get("/block");
    served.wait_for("the thread to be blocked", |stats| stats.requests == 1);
    let mut clients: Vec<Client> = (0..20).map(|_| served.connect()).collect();
    for client in &mut clients {
        client.get("/queued");
    }
    served.running().stop().stop();
    assert_eq!(served.stats().connections_accepted, 1, "the others are in the queue");
    sender.send(()).expect("the handler waits");

    assert_eq!(blocking.answer().body, "/block");
    for client in &mut clients {
        let answer = client.answer();
        assert_eq!((answer.body.as_str(), answer.closes()), ("/queued", true));
        client.assert_closed();
    }
    served.join().unwrap();
}

#[test]
fn a_request_whose_head_has_begun_to_arrive_is_answered() {
    let (served, _gate) = gated(builder());
    let mut used = served.connect();
    used.get("/x");
    assert_eq!(used.answer().body, "done 0");
    let mut fresh = served.connect();
    let before = served.stats().bytes_received;
    for client in [&mut used, &mut fresh] {
        client.send("GET /x HTTP/1.1\r\nho");
    }
    served.wait_for("half the heads", |stats| stats.bytes_received == before + 2 * 19);
    served.running().stop().stop();
    served.wait_until_refused();
    for client in [&mut used, &mut fresh] {
        client.send("st: x\r\n\r\n");
        let answer = client.answer();
        assert_eq!((answer.body.as_str(), answer.closes()), ("done 0", true));
        client.assert_closed();
    }
    served.join().unwrap();
}

#[test]
fn the_deadline_cuts_what_does_not_end() {
    let (served, _gate) = gated(builder().stop_deadline(Duration::from_millis(50)));
    let mut client = served.connect();
    client.get("/wait");
    served.wait_for("the request", |stats| stats.requests == 1);
    let stats = served.running().stats();
    served.running().stop().stop();
    served.join().unwrap();
    client.assert_closed();
    assert_eq!(stats.snapshot().connections_cut, 1);
    assert_eq!(stats.snapshot().connections_open, 0);
}

#[test]
fn stop_now_cuts_at_once() {
    let (served, _gate) = gated(builder().stop_deadline(HOUR));
    let mut client = served.connect();
    client.get("/wait");
    served.wait_for("the request", |stats| stats.requests == 1);
    let stop = served.running().stop();
    stop.stop();
    served.wait_until_refused();
    assert!(stop.is_stopping());
    stop.stop_now();
    served.join().unwrap();
    client.assert_closed();
}

#[test]
fn a_server_that_is_dropped_stops() {
    let (served, _gate) = gated(builder());
    let address = served.address();
    let mut client = served.connect();
    client.get("/x");
    assert_eq!(client.answer().body, "done 0");
    let server = builder().bind().unwrap();
    let other = server.start(|_| async |_: Request| Response::empty()).unwrap();
    let mut others = Client::connect(other.address());
    others.get("/");
    assert_eq!(others.answer().status, 200);
    drop(other);
    others.assert_closed();
    assert_eq!(served.address(), address, "the other one goes on");
    client.get("/x");
    assert_eq!(client.answer().body, "done 0");
}

/// Tells when its thread has stopped, from a task of that thread.
struct Farewell(Arc<AtomicUsize>);

impl Handler for Farewell {
    async fn call(self: Rc<Self>, _: Request) -> Response {
        Response::empty()
    }

    async fn stopped(self: Rc<Self>) {
        let count = Arc::clone(&self.0);
        let task = tokio::spawn(async move {
            tokio::task::yield_now().await;
            count.fetch_add(1, Ordering::Relaxed)
        });
        task.await.expect("the loop still runs tasks");
    }
}

#[test]
fn each_handler_is_told_when_its_thread_has_stopped() {
    let count = Arc::new(AtomicUsize::new(0));
    let handlers_count = Arc::clone(&count);
    let server = builder().threads(3).bind().unwrap();
    let stop = server.stop();
    stop.stop();
    server.run(move |_| Farewell(Arc::clone(&handlers_count))).unwrap();
    assert_eq!(count.load(Ordering::Relaxed), 3);
}
