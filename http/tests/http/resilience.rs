//! What one client or one handler does wrong costs nobody else anything.

use std::rc::Rc;
use std::sync::Arc;

use cenote_http::{Handler, Request, Response};
use tokio::sync::Semaphore;

use crate::client::{Client, Served, builder, serve};

/// Panics where the path says so.
struct Panicking {
    gate: Arc<Semaphore>,
}

impl Handler for Panicking {
    fn call(self: Rc<Self>, request: Request) -> impl Future<Output = Response> + 'static {
        if request.path() == "/before" {
            panic!("before there is a future");
        }
        async move {
            match request.path() {
                "/at-once" => panic!("at the first poll"),
                "/later" => {
                    tokio::task::yield_now().await;
                    panic!("at a later poll");
                }
                "/wait" => {
                    let _ = self.gate.acquire().await;
                    Response::text("waited")
                }
                _ => Response::text("fine"),
            }
        }
    }
}

#[test]
fn a_panic_is_a_500_and_costs_one_connection() {
    let gate = Arc::new(Semaphore::new(0));
    let handlers_gate = Arc::clone(&gate);
    let server = builder().bind().unwrap();
    let running = server.start(move |_| Panicking { gate: Arc::clone(&handlers_gate) });
    let served = Served::new(running.unwrap());

    let mut waiting = served.connect();
    waiting.get("/wait");
    let mut idle = served.connect();
    idle.get("/x");
    assert_eq!(idle.answer().body, "fine");

    for path in ["/before", "/at-once", "/later"] {
        let mut client = served.connect();
        client.get(path);
        let answer = client.answer();
        assert_eq!((answer.status, answer.closes()), (500, true), "{path}");
        assert_eq!(answer.body, r#"{"error":"internal error"}"#);
        client.assert_closed();

        let mut client = served.connect();
        client.post(path, "a body that nobody reads");
        assert_eq!(client.answer().status, 500, "{path} with a body");
        client.assert_closed();
    }
    assert_eq!(served.stats().handler_panics, 6);

    idle.get("/x");
    assert_eq!(idle.answer().body, "fine", "on the same thread");
    gate.close();
    assert_eq!(waiting.answer().body, "waited", "on the same thread");
}

#[test]
fn a_factory_that_panics_ends_the_server_with_its_message() {
    let server = builder().threads(2).bind().unwrap();
    let address = server.address();
    let started = server.start(|thread| {
        assert_ne!(thread, 1, "thread 1 cannot be");
        async |_: Request| Response::empty()
    });
    let error = started.expect_err("half a server").to_string();
    assert!(error.contains("thread 1 cannot be"), "{error}");
    let refused = std::net::TcpStream::connect(address).expect_err("nobody listens");
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
}

#[test]
fn clients_that_vanish_leave_nothing_behind() {
    let gate = Arc::new(Semaphore::new(0));
    let handlers_gate = Arc::clone(&gate);
    let served = serve(builder(), move |request: Request| {
        let gate = Arc::clone(&handlers_gate);
        async move {
            if request.path() == "/wait" {
                let _ = gate.acquire().await;
            }
            Response::text("x".repeat(100_000))
        }
    });
    for text in [
        "",
        "GET / HT",
        "GET / HTTP/1.1\r\nhost: x\r\n\r\n",
        "GET /wait HTTP/1.1\r\nhost: x\r\n\r\n",
        "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n12345",
        "POST /wait HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n5\r\n12",
    ] {
        for _ in 0..10 {
            let mut client = served.connect();
            client.send(text);
        }
    }
    served.wait_for("all to be accepted", |stats| stats.connections_accepted == 60);
    gate.close();
    served.wait_for("all to be gone", |stats| stats.connections_open == 0);
    let mut client = served.connect();
    client.get("/");
    assert_eq!(client.answer().body.len(), 100_000);
}

#[test]
fn a_body_taken_elsewhere_can_be_read_after_the_answer_was_made() {
    let (sender, receiver) = std::sync::mpsc::channel();
    let served = serve(builder(), move |request: Request| {
        let sender = sender.clone();
        async move {
            tokio::task::spawn_local(async move {
                tokio::task::yield_now().await;
                let read = request.body.read().await;
                sender.send(read.map(|body| body.len())).expect("the test waits");
            });
            Response::text("early")
        }
    });
    let mut client = served.connect();
    client.post("/", "0123456789");
    assert_eq!(client.answer().body, "early");
    assert_eq!(receiver.recv().expect("the task ends"), Ok(10));
    client.post("/", "01234");
    assert_eq!(client.answer().body, "early");
    assert_eq!(receiver.recv().expect("the task ends"), Ok(5));
}

#[test]
fn two_servers_do_not_get_one_port_unless_both_want_to() {
    let first = serve(builder(), async |_: Request| Response::text("first"));
    let again = builder().address(first.address()).bind();
    let error = again.expect_err("the port is taken");
    assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse, "{error}");
    assert_eq!(
        builder().threads(2).address(first.address()).bind().expect_err("taken").kind(),
        std::io::ErrorKind::AddrInUse
    );
    let mut client = Client::connect(first.address());
    client.get("/");
    assert_eq!(client.answer().body, "first");
}
