//! How connections to MySQL and MariaDB come to be and how they end: names that nobody answers for, passwords that are
//! wrong, servers that take no writes any more, and connections that are old or idle.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use cenote_mysql::{ErrorCode, Host, Pool};
use cenote_pool::Resolver;
use cenote_tests::mysql::{Admin, Server, open, settings, settings_at};
use cenote_tests::{ClosedPort, PrivateServer, Proxy, must_end, on_each_server, wait_until};
use futures_util::future::join_all;

on_each_server!(
    #[tokio::test]
    all_addresses_of_a_name_are_tried_by_look_ups_that_end
);
on_each_server!(
    #[tokio::test]
    attempts_that_fail_take_no_place_for_good
);
on_each_server!(
    #[tokio::test]
    a_pool_at_rest_keeps_one_connection
);
on_each_server!(
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    connections_that_are_old_are_retired_one_at_a_time
);
on_each_server!(
    #[tokio::test]
    a_server_that_takes_no_writes_is_left
);

/// Nothing waits for this to pass.
const AMPLE: Duration = Duration::from_secs(3_600);

/// What nobody but a test's own resolver knows.
const NAME: &str = "database.invalid";

fn host(name: &str, port: u16) -> Host {
    Host::Tcp { name: name.to_owned(), port }
}

async fn works(pool: &Pool) {
    let row = must_end("a query", pool.query_one("select ?", &[&7])).await.expect("the pool works");
    assert_eq!(row.get::<_, i64>(0).unwrap(), 7);
}

/// Works the pool until it has all its connections.
async fn fill(pool: &Pool) {
    let size = pool.settings().pool_size();
    let full = AtomicBool::new(false);
    let callers = join_all((0..size * 8).map(|_| async {
        while !full.load(Ordering::SeqCst) {
            pool.query("select sleep(0.002)", &[]).await.expect("the pool works");
            full.fetch_or(pool.stats().lanes.len() == size, Ordering::SeqCst);
        }
    }));
    must_end("callers who fill the pool", callers).await;
}

async fn all_addresses_of_a_name_are_tried_by_look_ups_that_end(server: Server) {
    let (closed, proxy) = (ClosedPort::take(), Proxy::start(&server.url()));
    let asked = Arc::new(AtomicUsize::new(0));
    let ports = [closed.number(), proxy.port()];
    let resolver: Resolver = Arc::new({
        let asked = Arc::clone(&asked);
        move |host: &str, _| {
            assert_eq!(host, NAME);
            let answers = asked.fetch_add(1, Ordering::SeqCst) >= 2;
            Box::pin(async move {
                if !answers {
                    return std::future::pending().await;
                }
                Ok(ports.map(|port| SocketAddr::from(([127, 0, 0, 1], port))).to_vec())
            })
        }
    });
    let settings = settings(server, "look_ups").hosts([host(NAME, 1)]).connect_timeout(Duration::from_millis(500));
    let pool = open(settings.acquire_timeout(AMPLE));
    pool.set_resolver(resolver);
    works(&pool).await;
    assert_eq!((asked.load(Ordering::SeqCst), pool.stats().connect_failures), (3, 2));
}

/// Places that attempts have taken and not given back would leave the pool without any.
async fn attempts_that_fail_take_no_place_for_good(server: Server) {
    let port = ClosedPort::take();
    let settings = settings(server, "places").hosts([host("127.0.0.1", port.number())]).pool_size(1);
    let pool = open(settings.acquire_timeout(AMPLE));
    let waiting = join_all((0..50).map(|_| works(&pool)));
    let coming_up = async {
        wait_until("it was tried in vain", async || pool.stats().connect_failures >= 3).await;
        Proxy::start_on(port.number(), &server.url())
    };
    let (_, proxy) = must_end("callers of a server that comes up", async { tokio::join!(waiting, coming_up) }).await;
    assert_eq!((proxy.accepted(), pool.stats().lanes.len()), (1, 1));
}

async fn a_pool_at_rest_keeps_one_connection(server: Server) {
    let admin = Admin::connect(server).await;
    let pool = open(settings(server, "rest").pool_size(4).idle_timeout(Duration::from_millis(200)));
    fill(&pool).await;
    let rested = async || pool.stats().lanes.len() == 1 && admin.sessions(&pool).await.len() == 1;
    wait_until("idle connections were closed", rested).await;
    let stats = pool.stats();
    assert_eq!((stats.connections_retired, stats.connections_lost), (stats.connects - 1, 0), "{stats:?}");
}

/// What is prepared on them is prepared anew on those that come after.
async fn connections_that_are_old_are_retired_one_at_a_time(server: Server) {
    const SIZE: usize = 4;
    let pool = open(settings(server, "old").pool_size(SIZE).max_lifetime(Duration::from_millis(400)));
    let over = Arc::new(AtomicBool::new(false));
    let callers: Vec<_> = (0..32_i64)
        .map(|number| {
            let (pool, over) = (pool.clone(), Arc::clone(&over));
            tokio::spawn(async move {
                while !over.load(Ordering::SeqCst) {
                    let row = pool.query_one("select ?, sleep(0.001)", &[&number]).await;
                    let row = row.expect("a connection that retires finishes what it has begun");
                    assert_eq!(row.get::<_, i64>(0).unwrap(), number);
                }
            })
        })
        .collect();
    let replaced = async || {
        let stats = pool.stats();
        assert!(stats.connections() <= SIZE, "{stats:?}");
        stats.connections_retired as usize >= 3 * SIZE
    };
    wait_until("connections were replaced three times over", replaced).await;
    over.store(true, Ordering::SeqCst);
    for caller in callers {
        must_end("a caller", caller).await.expect("its answers were right");
    }
    let stats = pool.stats();
    assert_eq!((stats.connections_lost, stats.lost_after_sent, stats.acquire_timeouts), (0, 0, 0), "{stats:?}");
}

async fn a_server_that_takes_no_writes_is_left(server: Server) {
    let private = PrivateServer::mysql(server, "read-only").await;
    let admin = Admin::connect_to(private.admin_url()).await;
    let pool = open(settings_at(private.url(), "read_only").pool_size(3));
    pool.execute("create table item (id int)", &[]).await.expect("it is created");
    fill(&pool).await;
    let before = admin.sessions(&pool).await;
    assert_eq!(before.len(), 3);
    admin.run("set global read_only = 1").await;
    works(&pool).await;
    assert_eq!(pool.stats().hosts_left, 0, "reads are no reason to leave");
    let insert = async |id: i32| must_end("a write", pool.execute("insert into item values (?)", &[&id])).await;
    let error = insert(1).await.expect_err("it may only read");
    assert_eq!(error.code(), Some(ErrorCode::OPTION_PREVENTS_STATEMENT), "{error}");
    let left = async || {
        let now = admin.sessions(&pool).await;
        before.iter().all(|old| now.iter().all(|new| new.id != old.id))
    };
    wait_until("all connections were left", left).await;
    admin.run("set global read_only = 0").await;
    insert(2).await.expect("it may write again");
    assert_eq!((pool.stats().hosts_left, pool.stats().connections_lost), (1, 0));
}
