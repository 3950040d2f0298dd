//! How connections come to be and how they end: names that move or that nobody answers for, hosts that are down, servers
//! that are left, and connections that are old or idle.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use cenote_pool::Resolver;
use cenote_postgres::{Host, Lease, Pool, SqlState, TransactionOptions};
use cenote_tests::scripted::Server;
use cenote_tests::{
    Admin, ClosedPort, Direction, Proxy, must_end, open, postgres_url, settings, unique_name, wait_until,
};
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

/// Works the pool until it has all its connections.
async fn fill(pool: &Pool) {
    let size = pool.settings().pool_size();
    let full = AtomicBool::new(false);
    let callers = join_all((0..size * 8).map(|_| async {
        while !full.load(Ordering::SeqCst) {
            pool.execute("select pg_sleep(0.002)", &[]).await.expect("the pool works");
            full.fetch_or(pool.stats().lanes.len() == size, Ordering::SeqCst);
        }
    }));
    must_end("callers who fill the pool", callers).await;
}

#[tokio::test]
async fn a_pool_at_rest_keeps_one_connection() {
    let admin = Admin::connect().await;
    let pool = open(settings("rest").pool_size(4).idle_timeout(Duration::from_millis(200)));
    fill(&pool).await;
    let rested = async || pool.stats().lanes.len() == 1 && admin.backends(&pool).await.len() == 1;
    wait_until("idle connections were closed", rested).await;
    let stats = pool.stats();
    assert_eq!((stats.connections_retired, stats.connections_lost), (stats.connects - 1, 0), "{stats:?}");
    // Longer than any of the others was let live.
    let (kept, connects) = (stats.lanes[0].lane, stats.connects);
    tokio::time::sleep(Duration::from_secs(1)).await;
    works(&pool).await;
    assert_eq!((pool.stats().lanes[0].lane, pool.stats().connects), (kept, connects), "the last one stays");
    fill(&pool).await;
}

/// Connections that were made together are replaced one after another, under load, and nobody notices.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_are_old_are_retired_one_at_a_time() {
    const SIZE: usize = 4;
    let pool = open(settings("old").pool_size(SIZE).max_lifetime(Duration::from_millis(400)));
    fill(&pool).await;
    let over = Arc::new(AtomicBool::new(false));
    let callers: Vec<_> = (0..32_i32)
        .map(|number| {
            let (pool, over) = (pool.clone(), Arc::clone(&over));
            tokio::spawn(async move {
                while !over.load(Ordering::SeqCst) {
                    let row = pool.query_one("select $1::int4, pg_sleep(0.001)", &[&number]).await;
                    let row = row.expect("a connection that retires finishes what it has begun");
                    assert_eq!(row.get::<_, i32>(0).unwrap(), number);
                }
            })
        })
        .collect();
    let mut known: Vec<u64> = Vec::new();
    let replaced = async || {
        let stats = pool.stats();
        assert!(stats.connections() <= SIZE, "{stats:?}");
        known.extend(stats.lanes.iter().map(|lane| lane.lane));
        known.sort_unstable();
        known.dedup();
        stats.connections_retired as usize >= 3 * SIZE
    };
    wait_until("connections were replaced three times over", replaced).await;
    over.store(true, Ordering::SeqCst);
    for caller in callers {
        must_end("a caller", caller).await.expect("its answers were right");
    }
    let stats = pool.stats();
    assert_eq!((stats.connections_lost, stats.lost_after_sent, stats.acquire_timeouts), (0, 0, 0), "{stats:?}");
    assert!(known.len() > 2 * SIZE, "{known:?}");
}

/// The statement is not cut off, and no other connection is ended meanwhile.
#[tokio::test]
async fn an_old_connection_finishes_its_statements() {
    let admin = Admin::connect().await;
    let key = i64::from(fastrand::u32(..));
    admin.rows("select pg_advisory_lock($1)", &[&key]).await;
    let pool = open(settings("finishes").pool_size(2).max_lifetime(Duration::from_millis(200)));
    let stuck = tokio::spawn({
        let (pool, sql) = (pool.clone(), format!("do $$ begin perform pg_advisory_xact_lock({key}); end $$"));
        async move { pool.execute(&sql, &[]).await }
    });
    wait_until("it retires", async || pool.stats().connections_retired == 1).await;
    for _ in 0..20 {
        works(&pool).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let stats = pool.stats();
    assert_eq!((stats.connections_retired, stats.lanes.len()), (1, 2), "one at a time: {stats:?}");
    admin.rows("select pg_advisory_unlock($1)", &[&key]).await;
    must_end("the statement", stuck).await.unwrap().expect("it was finished");
    wait_until("the next one retires", async || pool.stats().connections_retired >= 2).await;
}

#[tokio::test]
async fn without_limits_nothing_ends() {
    let pool = open(settings("for_ever").pool_size(2).max_lifetime(Duration::ZERO).idle_timeout(Duration::ZERO));
    fill(&pool).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!((pool.stats().lanes.len(), pool.stats().connections_retired), (2, 0));
}

/// The other connections are left as well, since a server that goes says the same; but each finishes what it has begun.
#[tokio::test]
async fn a_connection_that_is_terminated_has_the_others_drained_and_nothing_lost() {
    let admin = Admin::connect().await;
    let key = i64::from(fastrand::u32(..));
    let pool = open(settings("terminated").pool_size(4));
    fill(&pool).await;
    admin.rows("select pg_advisory_lock($1)", &[&key]).await;
    let stuck = tokio::spawn({
        let (pool, sql) = (pool.clone(), format!("do $$ begin perform pg_advisory_xact_lock({key}); end $$"));
        async move { pool.execute(&sql, &[]).await }
    });
    let waits = async || admin.backends(&pool).await.iter().any(|one| one.wait_event_type.as_deref() == Some("Lock"));
    wait_until("one statement is stuck", waits).await;
    let before = admin.backends(&pool).await;
    let (waiting, idle): (Vec<_>, Vec<_>) =
        before.iter().partition(|one| one.wait_event_type.as_deref() == Some("Lock"));
    assert_eq!((waiting.len(), idle.len()), (1, 3), "{before:?}");
    admin.rows("select pg_terminate_backend($1)", &[&idle[0].pid]).await;
    let left = async || {
        let now = admin.backends(&pool).await;
        idle.iter().all(|old| now.iter().all(|new| new.pid != old.pid))
    };
    wait_until("the idle ones are left", left).await;
    works(&pool).await;
    let stats = pool.stats();
    assert_eq!((stats.connections_lost, stats.hosts_left), (1, 1), "{stats:?}");
    assert!(admin.backends(&pool).await.iter().any(|one| one.pid == waiting[0].pid), "it finishes what it has begun");
    admin.rows("select pg_advisory_unlock($1)", &[&key]).await;
    must_end("the statement", stuck).await.unwrap().expect("it was finished");
    let gone = async || admin.backends(&pool).await.iter().all(|one| one.pid != waiting[0].pid);
    wait_until("and then it is left, too", gone).await;
    assert_eq!(pool.stats().lost_after_sent, 0);
}

/// A role whose sessions may only read, from when that is said until it is taken back: what it began before stays so.
struct Role {
    admin: Admin,
    name: String,
}

impl Role {
    async fn create() -> Role {
        let (admin, name) = (Admin::connect().await, unique_name("reader"));
        admin.run(&format!("create role {name} login password 'reads' in role cenote")).await;
        admin.run(&format!("create table {name} (n int4); grant all on {name} to {name}")).await;
        Role { admin, name }
    }

    async fn may_write(&self, may: bool) {
        let value = if may { "off" } else { "on" };
        self.admin.run(&format!("alter role {} set default_transaction_read_only = {value}", self.name)).await;
    }

    fn insert(&self) -> String {
        format!("insert into {} values ($1)", self.name)
    }

    async fn end(self, pool: Pool) {
        pool.close(AMPLE).await;
        self.admin.wait_for_no_backend(&pool).await;
        self.admin.run(&format!("drop table {0}; drop role {0}", self.name)).await;
    }
}

/// After a failover: the name stands for another server, and the one that it stood for takes no writes any more.
#[tokio::test]
async fn a_server_that_takes_no_writes_is_left_for_the_one_that_the_name_stands_for_now() {
    let (role, old, new) = (Role::create().await, Proxy::start(&postgres_url()), Proxy::start(&postgres_url()));
    let port = Arc::new(AtomicUsize::new(usize::from(old.port())));
    let (resolver, _) = resolver({
        let port = Arc::clone(&port);
        move |_| Some(vec![port.load(Ordering::SeqCst) as u16])
    });
    role.may_write(false).await;
    let settings = settings("failover").user(&role.name).password("reads").hosts([host(NAME, 1)]).pool_size(3);
    let pool = open(settings);
    pool.set_resolver(resolver);
    fill(&pool).await;
    assert_eq!((old.open(), new.open()), (3, 0));
    role.may_write(true).await;
    port.store(usize::from(new.port()), Ordering::SeqCst);
    works(&pool).await;
    assert_eq!((pool.stats().hosts_left, new.accepted()), (0, 0), "reads are no reason to leave");
    let error = must_end("a write", pool.execute(&role.insert(), &[&1])).await.expect_err("it may only read");
    assert_eq!(error.code(), Some(SqlState::READ_ONLY_SQL_TRANSACTION), "{error}");
    let inserted = must_end("a write", pool.execute(&role.insert(), &[&2])).await.expect("the new server takes it");
    assert_eq!(inserted, 1);
    wait_until("the old server is left", async || old.open() == 0).await;
    assert!(new.open() > 0);
    assert_eq!((pool.stats().hosts_left, pool.stats().connections_lost), (1, 0));
    role.end(pool).await;
}

/// Leaving does not help one who may not write anywhere: his errors must not keep everyone else logging in.
#[tokio::test]
async fn who_may_only_read_does_not_keep_the_pool_connecting() {
    let role = Role::create().await;
    role.may_write(false).await;
    let pool = open(settings("only_reads").user(&role.name).password("reads").pool_size(1));
    works(&pool).await;
    let began = Instant::now();
    for _ in 0..300 {
        let error = must_end("a write", pool.execute(&role.insert(), &[&1])).await.expect_err("it may only read");
        assert_eq!(error.code(), Some(SqlState::READ_ONLY_SQL_TRANSACTION), "{error}");
        works(&pool).await;
    }
    // At once, after a second, after two more, after four more.
    let (stats, bound) = (pool.stats(), 2 + u64::from((began.elapsed().as_secs() + 1).ilog2()));
    assert!((1..=bound).contains(&stats.hosts_left), "{bound}: {stats:?}");
    assert_eq!(stats.connects, stats.hosts_left + 1, "{stats:?}");
    role.end(pool).await;
}

/// While nothing says that the server bears it, it is asked for one connection at a time: a server that comes up is not
/// stormed. The first answer says that it does.
#[tokio::test]
async fn after_an_outage_connections_come_one_at_a_time_until_the_first_answer() {
    let (answers, lets_in) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let server = Server::start_raw({
        let (answers, lets_in) = (Arc::clone(&answers), Arc::clone(&lets_in));
        let wait = |flag: &AtomicBool| {
            while !flag.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        move |session| match session.number {
            0..=2 => Ok(()),
            3 => {
                session.log_in()?;
                wait(&answers);
                session.serve()
            }
            _ => {
                wait(&lets_in);
                session.log_in()?;
                session.serve()
            }
        }
    });
    let pool = server.pool("pool_size=4&max_pipeline=1&acquire_timeout=1h&connect_timeout=1h");
    let over = Arc::new(AtomicBool::new(false));
    let callers: Vec<_> = (0..16_i32)
        .map(|number| {
            let (pool, over) = (pool.clone(), Arc::clone(&over));
            tokio::spawn(async move {
                let sql = format!("select $1::int4 -- {number}");
                while !over.load(Ordering::SeqCst) {
                    let row = pool.query_one(&sql, &[&number]).await.expect("it is served in the end");
                    assert_eq!(row.get::<_, i32>(0).unwrap(), number);
                }
            })
        })
        .collect();
    wait_until("one is there and one is under way", async || server.accepted() == 5).await;
    for _ in 0..20 {
        assert_eq!((server.accepted(), pool.stats().connecting), (5, 1), "{:?}", pool.stats());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    answers.store(true, Ordering::SeqCst);
    wait_until("two are under way", async || server.accepted() == 6).await;
    assert_eq!(pool.stats().connecting, 2);
    lets_in.store(true, Ordering::SeqCst);
    wait_until("all connections are there", async || pool.stats().lanes.len() == 4).await;
    over.store(true, Ordering::SeqCst);
    for caller in callers {
        must_end("a caller", caller).await.expect("its answers were right");
    }
}

/// A lease is its owner's, however old its connection is, and whatever its server has said meanwhile.
#[tokio::test]
async fn a_lease_is_left_alone_until_it_is_back() {
    let admin = Admin::connect().await;
    let pool = open(settings("leased").pool_size(3).max_lifetime(Duration::from_millis(300)));
    let transaction = must_end("a transaction", pool.begin()).await.expect("it begins");
    let row = transaction.query_one("select pg_backend_pid()", &[]).await.expect("it runs");
    let pid: i32 = row.get(0).unwrap();
    works(&pool).await;
    wait_until("another connection retires", async || pool.stats().connections_retired >= 1).await;
    works(&pool).await;
    let other = admin.backends(&pool).await.into_iter().find(|one| one.pid != pid).expect("there is another");
    admin.rows("select pg_terminate_backend($1)", &[&other.pid]).await;
    wait_until("the server is left", async || pool.stats().hosts_left == 1).await;
    let row = transaction.query_one("select pg_backend_pid()", &[]).await.expect("it goes on");
    assert_eq!(row.get::<_, i32>(0).unwrap(), pid);
    must_end("the commit", transaction.commit()).await.expect("it is committed");
    let gone = async || admin.backends(&pool).await.iter().all(|one| one.pid != pid);
    wait_until("its connection is closed when it is back", gone).await;
    assert_eq!((pool.stats().lost_after_sent, pool.stats().leases_closed), (0, 0));
}

/// Who begins a transaction for reading and writes in it learns nothing about the server; who does not, does.
#[tokio::test]
async fn a_transaction_for_reading_is_no_reason_to_leave_a_server() {
    let role = Role::create().await;
    let pool = open(settings("for_reading").user(&role.name).password("reads").pool_size(2));
    let reads = TransactionOptions::new().read_only(true);
    let transaction = pool.begin_with(reads).await.expect("it begins");
    let error = transaction.execute(&role.insert(), &[&1]).await.expect_err("it is for reading");
    assert_eq!(error.code(), Some(SqlState::READ_ONLY_SQL_TRANSACTION), "{error}");
    transaction.rollback().await.expect("it is rolled back");
    assert_eq!(pool.stats().hosts_left, 0);
    pool.close(AMPLE).await;
    role.may_write(false).await;
    let pool = open(settings("for_writing").user(&role.name).password("reads").pool_size(2));
    let transaction = pool.begin().await.expect("it begins");
    let error = transaction.execute(&role.insert(), &[&1]).await.expect_err("it may only read");
    assert_eq!(error.code(), Some(SqlState::READ_ONLY_SQL_TRANSACTION), "{error}");
    transaction.rollback().await.expect("it is rolled back");
    assert_eq!(pool.stats().hosts_left, 1);
    role.end(pool).await;
}

/// The same when it is asked for by hand, in whatever way; and none of these ways outlasts the lease.
#[tokio::test]
async fn what_may_only_read_by_somebodys_own_word_is_no_reason_to_leave_a_server() {
    let role = Role::create().await;
    let pool = open(settings("by_hand").user(&role.name).password("reads").pool_size(1));
    let is_refused = async |lease: &Lease, way: &[&str]| {
        let error = lease.execute(&role.insert(), &[&1]).await.expect_err("it is for reading");
        assert_eq!(error.code(), Some(SqlState::READ_ONLY_SQL_TRANSACTION), "{way:?}: {error}");
    };
    let ways: [&[&str]; 8] = [
        &["begin read only"],
        &["start transaction isolation level serializable, read only"],
        &["begin", "set transaction read only"],
        &["begin", "set local transaction_read_only to on"],
        &["begin", "select set_config('transaction_read_only', 'on', true)"],
        &["set session characteristics as transaction read only"],
        &["set default_transaction_read_only to on"],
        &["begin read only", "commit and chain"],
    ];
    for way in ways {
        let lease = must_end("a lease", pool.lease()).await.expect("there is one");
        for sql in way {
            lease.execute(sql, &[]).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
        }
        is_refused(&lease, way).await;
        drop(lease);
        must_end("a write", pool.execute(&role.insert(), &[&2]))
            .await
            .unwrap_or_else(|error| panic!("{way:?}: {error}"));
        assert_eq!(pool.stats().hosts_left, 0, "{way:?}");
    }
    let transaction = must_end("a transaction", pool.begin()).await.expect("it begins");
    transaction.execute("set transaction read only", &[]).await.expect("it runs");
    let error = transaction.execute(&role.insert(), &[&1]).await.expect_err("it is for reading");
    assert_eq!(error.code(), Some(SqlState::READ_ONLY_SQL_TRANSACTION), "{error}");
    drop(transaction);
    must_end("a write", pool.execute(&role.insert(), &[&2])).await.expect("nothing of it is left");
    assert_eq!((pool.stats().hosts_left, pool.stats().connects, pool.stats().leases_closed), (0, 1, 0));
    role.end(pool).await;
}
