//! The demo's database routes over real HTTP: what they answer is what the table says, and a database that goes away
//! and comes back is a pause.

use cenote_demo::{Running, Settings};
use cenote_tests::demo_client::{ask, ask_pipelined};
use cenote_tests::{Admin, ClosedPort, PrivateServer, must_end, postgres_url, wait_until};
use futures_util::future::join_all;
use serde_json::Value;
use tokio::net::TcpStream;

fn start(url: &str) -> Running {
    cenote_demo::start(Settings { postgres_url: Some(url.to_owned()), ..Settings::for_tests() }).unwrap()
}

/// The number that the table has for this row, by another driver.
async fn number_in_table(admin: &Admin, world: &Value) -> i32 {
    let id = world["id"].as_i64().unwrap_or_else(|| panic!("no id in {world}"));
    let number = admin.number(&format!("select randomnumber::int8 from world where id = {id}"), &[]).await;
    i32::try_from(number).expect("an int4")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_are_those_of_the_table() {
    let (demo, admin) = (start(&postgres_url()), Admin::connect().await);
    let mut ids = std::collections::BTreeSet::new();
    for _ in 0..20 {
        let answer = ask(demo.address(), "/db").await;
        assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")));
        assert_eq!(answer.body.as_object().map(|world| world.len()), Some(2), "{}", answer.body);
        assert_eq!(answer.body["randomNumber"], number_in_table(&admin, &answer.body).await);
        ids.insert(answer.body["id"].as_i64());
    }
    assert!(ids.len() > 10, "ids are drawn at random: {ids:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_number_of_rows_is_what_was_asked_for_within_bounds() {
    let (demo, admin) = (start(&postgres_url()), Admin::connect().await);
    for (target, rows) in [
        ("/queries", 1),
        ("/queries?n=", 1),
        ("/queries?n=x", 1),
        ("/queries?n=0", 1),
        ("/queries?n=-3", 1),
        ("/queries?n=1", 1),
        ("/queries?n=20", 20),
        ("/queries?n=500", 500),
        ("/queries?n=501", 500),
        ("/queries?n=99999999999999999999999", 500),
    ] {
        let answer = ask(demo.address(), target).await;
        assert_eq!(answer.status, 200, "{target}");
        let worlds = answer.body.as_array().unwrap_or_else(|| panic!("{target}: {}", answer.body));
        assert_eq!(worlds.len(), rows, "{target}");
        for world in worlds.iter().take(3) {
            assert_eq!(world["randomNumber"], number_in_table(&admin, world).await, "{target}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pipelined_requests_are_answered_in_order() {
    let demo = start(&postgres_url());
    // Each asks for another number of rows, so that the answers tell their requests.
    let targets: Vec<String> = (1..=16).rev().map(|rows| format!("/queries?n={rows}")).collect();
    for _ in 0..5 {
        let answers = ask_pipelined(demo.address(), &targets).await;
        let rows: Vec<usize> = answers.iter().map(|answer| answer.body.as_array().map_or(0, Vec::len)).collect();
        assert_eq!(rows, (1..=16).rev().collect::<Vec<_>>());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_is_down_is_503_and_back_by_itself_when_it_is_up() {
    let server = PrivateServer::postgres("demo").await;
    // A short wait for a connection: the test waits for what is said, not for how long it takes.
    let demo = start(&format!("{}?acquire_timeout=200ms", server.url()));
    assert_eq!(ask(demo.address(), "/db").await.status, 200);
    server.kill().await;
    let down = join_all((0..8).map(|_| ask(demo.address(), "/db"))).await;
    for answer in &down {
        assert_eq!(answer.status, 503, "{}", answer.body);
        assert!(answer.body["error"].as_str().is_some_and(|error| !error.is_empty()), "{}", answer.body);
        assert!(answer.header("retry-after").is_some_and(|seconds| seconds.parse::<u32>().is_ok()), "{}", answer.head);
    }
    assert_eq!(ask(demo.address(), "/json").await.status, 200, "what needs no database goes on");
    server.start().await;
    wait_until("the demo reads the table again", async || ask(demo.address(), "/db").await.status == 200).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_never_was_there_is_503_and_says_where_it_was_looked_for() {
    let port = ClosedPort::take();
    let address = format!("127.0.0.1:{}", port.number());
    let demo = start(&format!("postgres://nobody:secret@{address}/shop?acquire_timeout=200ms"));
    let answer = ask(demo.address(), "/db").await;
    let error = answer.body["error"].as_str().unwrap_or_default();
    assert_eq!(answer.status, 503);
    assert!(error.contains(&address) && !error.contains("secret"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_loses_no_request_that_is_being_answered() {
    let demo = start(&postgres_url());
    let address = demo.address();
    assert_eq!(ask(address, "/db").await.status, 200);
    // Many round trips each, so that they are under way when the stop comes.
    let asked: Vec<_> = (0..32).map(|_| tokio::spawn(async move { ask(address, "/queries?n=500").await })).collect();
    // The first request of this test, and then those that ask how many there were.
    let mut others = 1;
    wait_until("all requests have reached their handlers", async || {
        others += 1;
        let metrics = ask(address, "/metrics").await.body;
        let page = metrics.as_str().unwrap_or_default();
        let line = page.lines().find_map(|line| line.strip_prefix("cenote_http_requests_total "));
        line.and_then(|count| count.parse().ok()).is_some_and(|count: u64| count >= 32 + others)
    })
    .await;
    let stop = demo.stop();
    let stopping = tokio::task::spawn_blocking(move || {
        stop.stop();
        demo.join()
    });
    for asked in asked {
        let answer = asked.await.expect("a request that was taken is answered");
        assert_eq!(answer.body.as_array().map(Vec::len), Some(500));
    }
    must_end("the stop", stopping).await.unwrap().unwrap();
    assert!(TcpStream::connect(address).await.is_err(), "nobody listens any more");
}
