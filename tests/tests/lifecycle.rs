//! How connections come to be and how they end: names that move or that nobody answers for, hosts that are down, servers
//! that are left, and connections that are old or idle.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use cenote_pool::Resolver;
use cenote_postgres::{Host, Pool};
use cenote_tests::{ClosedPort, Direction, Proxy, must_end, open, postgres_url, settings, wait_until};
use futures_util::future::join_all;

/// Nothing waits for this to pass.
const AMPLE: Duration = Duration::from_secs(3_600);

/// What nobody but a test's own resolver knows.
const NAME: &str = "database.invalid";

/// Looks names up as `answer` says, which is told how often it was asked before. `None`: there is no answer, ever.
fn resolver(answer: impl Fn(usize) -> Option<Vec<u16>> + Send + Sync + 'static) -> (Resolver, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let resolver: Resolver = Arc::new(move |host: &str, _| {
        assert_eq!(host, NAME);
        let ports = answer(count.fetch_add(1, Ordering::SeqCst));
        Box::pin(async move {
            let Some(ports) = ports else { return std::future::pending().await };
            io::Result::Ok(ports.into_iter().map(|port| SocketAddr::from(([127, 0, 0, 1], port))).collect())
        })
    });
    (resolver, asked)
}

fn host(name: &str, port: u16) -> Host {
    Host::Tcp { name: name.to_owned(), address: None, port }
}

async fn works(pool: &Pool) {
    let row = must_end("a query", pool.query_one("select $1::int4", &[&7])).await.expect("the pool works");
    assert_eq!(row.get::<_, i32>(0).unwrap(), 7);
}

#[tokio::test]
async fn a_look_up_that_is_never_answered_ends_and_the_next_attempt_looks_up_anew() {
    let proxy = Proxy::start(&postgres_url());
    let port = proxy.port();
    let (resolver, asked) = resolver(move |before| (before >= 2).then(|| vec![port]));
    let settings = settings("fresh_look_up").hosts([host(NAME, 1)]).connect_timeout(Duration::from_millis(50));
    let pool = open(settings.acquire_timeout(AMPLE));
    pool.set_resolver(resolver);
    works(&pool).await;
    assert_eq!((asked.load(Ordering::SeqCst), pool.stats().connect_failures), (3, 2));
}

#[tokio::test]
async fn who_waits_for_a_name_server_is_told_so() {
    let (resolver, asked) = resolver(|_| None);
    let settings = settings("no_look_up").hosts([host(NAME, 1)]).connect_timeout(Duration::from_millis(50));
    let pool = open(settings.acquire_timeout(Duration::from_millis(500)));
    pool.set_resolver(resolver);
    let error = must_end("a caller", pool.query_one("select 1", &[])).await.expect_err("nobody answers");
    let words = error.to_string();
    assert!(error.is_timeout() && words.contains("DNS") && words.contains(NAME), "{words}");
    assert!(asked.load(Ordering::SeqCst) >= 2, "it was asked again");
}

#[tokio::test]
async fn a_host_without_an_answer_to_its_name_does_not_keep_from_the_next() {
    let proxy = Proxy::start(&postgres_url());
    let (resolver, _) = resolver(|_| None);
    let hosts = [host(NAME, 1), host("127.0.0.1", proxy.port())];
    let pool = open(settings("next_host").hosts(hosts).connect_timeout(Duration::from_millis(500)));
    pool.set_resolver(resolver);
    works(&pool).await;
    assert_eq!(pool.stats().connect_failures, 0, "it is one attempt");
}

/// Every address of a name has its own time, and none of them makes the next wait for a pause.
#[tokio::test]
async fn all_addresses_of_a_name_are_tried_in_one_attempt() {
    let (closed, silent, proxy) = (ClosedPort::take(), Proxy::start(&postgres_url()), Proxy::start(&postgres_url()));
    silent.stall(Direction::ToClient);
    let ports = vec![closed.number(), silent.port(), proxy.port()];
    let (resolver, asked) = resolver(move |_| Some(ports.clone()));
    let settings = settings("all_addresses").hosts([host(NAME, 1)]).pool_size(1);
    let pool = open(settings.connect_timeout(Duration::from_millis(500)));
    pool.set_resolver(resolver);
    works(&pool).await;
    assert_eq!((silent.accepted(), proxy.accepted()), (1, 1));
    assert_eq!((asked.load(Ordering::SeqCst), pool.stats().connect_failures), (1, 0));
    silent.resume(Direction::ToClient);
    wait_until("the silent address was given up", async || silent.open() == 0).await;
}

#[tokio::test]
async fn an_attempt_that_failed_names_every_address_and_its_reason() {
    let (first, second, silent) = (ClosedPort::take(), ClosedPort::take(), Proxy::start(&postgres_url()));
    silent.stall(Direction::ToClient);
    let ports = [first.number(), silent.port()];
    let (resolver, _) = resolver(move |_| Some(ports.to_vec()));
    let hosts = [host(NAME, 1), host("127.0.0.1", second.number())];
    let settings = settings("every_address").hosts(hosts).connect_timeout(Duration::from_millis(100));
    let pool = open(settings.acquire_timeout(Duration::from_millis(1_000)));
    pool.set_resolver(resolver);
    let error = must_end("a caller", pool.query_one("select 1", &[])).await.expect_err("nobody is there");
    let words = error.to_string();
    for part in [
        format!("{NAME}:1 at 127.0.0.1:{}: ", first.number()),
        format!("{NAME}:1 at 127.0.0.1:{}: no answer within 0.1 s", silent.port()),
        format!("127.0.0.1:{}: ", second.number()),
    ] {
        assert!(words.contains(&part), "{part:?} is not in: {words}");
    }
    assert_eq!(words.to_lowercase().matches("refused").count(), 2, "{words}");
}

/// Places that attempts have taken and not given back would leave the pool without any.
#[tokio::test]
async fn attempts_that_fail_take_no_place_for_good() {
    let port = ClosedPort::take();
    let pool = open(settings("places").hosts([host("127.0.0.1", port.number())]).pool_size(1).acquire_timeout(AMPLE));
    let waiting = join_all((0..50).map(|_| works(&pool)));
    let coming_up = async {
        wait_until("it was tried in vain", async || pool.stats().connect_failures >= 3).await;
        assert!(pool.stats().connections() <= 1);
        Proxy::start_on(port.number(), &postgres_url())
    };
    let (_, proxy) = must_end("callers of a server that comes up", async { tokio::join!(waiting, coming_up) }).await;
    assert_eq!((proxy.accepted(), pool.stats().lanes.len()), (1, 1));
}
