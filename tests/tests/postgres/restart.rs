//! A server that goes away and comes back, and one that has no room, under many callers: each call ends, with its answer or
//! with an error that says what happened; nothing that was confirmed is lost, nothing happens twice; and when the server
//! is there again, so is everyone's service.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use cenote_postgres::{Error, Pool, SqlState};
use cenote_tests::{Admin, PrivateServer, must_end, open, settings, settings_at, unique_name, wait_until};
use tokio_postgres::NoTls;

const CALLERS: usize = 256;
const POOL_SIZE: usize = 8;

/// What became of one insert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Insert {
    Done,
    /// No byte of it has left.
    NotSent,
    /// There is no answer.
    Unknown,
}

/// What all callers share.
#[derive(Default)]
struct Calls {
    over: AtomicBool,
    next_key: AtomicI64,
    /// For each caller, answers since this was last emptied.
    served: Vec<AtomicUsize>,
    errors: std::sync::Mutex<Vec<Error>>,
}

impl Calls {
    fn all_served(&self) -> bool {
        self.served.iter().all(|answers| answers.load(Ordering::SeqCst) >= 2)
    }

    fn note(&self, error: Error) {
        self.errors.lock().expect("no panic").push(error);
    }
}

/// One caller: reads and inserts until it is told that it is over. What became of its inserts, by key.
async fn call(pool: Pool, calls: Arc<Calls>, caller: usize) -> HashMap<i64, Insert> {
    let mut inserts = HashMap::new();
    while !calls.over.load(Ordering::SeqCst) {
        let key = calls.next_key.fetch_add(1, Ordering::SeqCst);
        match must_end("a select", pool.query_one("select $1::int8", &[&key])).await {
            Ok(row) => assert_eq!(row.get::<_, i64>(0).unwrap(), key, "its own answer"),
            Err(error) => calls.note(error),
        }
        let inserted = must_end("an insert", pool.execute("insert into arrivals values ($1)", &[&key])).await;
        let insert = match &inserted {
            Ok(count) => {
                assert_eq!(*count, 1);
                calls.served[caller].fetch_add(1, Ordering::SeqCst);
                Insert::Done
            }
            Err(error) if error.was_sent() == Some(false) => Insert::NotSent,
            Err(_) => Insert::Unknown,
        };
        inserts.insert(key, insert);
        if let Err(error) = inserted {
            calls.note(error);
            // As a program would, and so that the errors can be counted.
            tokio::task::yield_now().await;
        }
    }
    inserts
}

/// Looks at the server's sessions and at the pool's connects, over and over, from before the stop until after the start.
async fn watch(pool: Pool, calls: Arc<Calls>, admin_url: String) {
    let name = pool.settings().application_name().expect("it has a name").to_owned();
    while !calls.over.load(Ordering::SeqCst) {
        let stats = pool.stats();
        assert!(stats.connecting <= 2, "{} connects under way", stats.connecting);
        assert!(stats.connections() <= POOL_SIZE, "{} connections", stats.connections());
        let Ok((client, connection)) = tokio_postgres::connect(&admin_url, NoTls).await else {
            tokio::time::sleep(Duration::from_millis(1)).await;
            continue;
        };
        tokio::spawn(connection);
        let sessions = "select count(*) from pg_stat_activity where application_name = $1";
        while let Ok(row) = client.query_one(sessions, &[&name]).await {
            let sessions: i64 = row.get(0);
            assert!(sessions <= POOL_SIZE as i64, "{sessions} sessions at the server");
            let stats = pool.stats();
            assert!(stats.connecting <= 2, "{} connects under way", stats.connecting);
            if calls.over.load(Ordering::SeqCst) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

/// Stops the server and starts it again under 256 callers. The errors that they got.
async fn restart(server: &PrivateServer, pool: &Pool, stop: impl AsyncFn(&PrivateServer)) -> Vec<Error> {
    let admin = Admin::connect_to(server.admin_url()).await;
    // Without a key, so that what comes twice is seen.
    admin.run("create table arrivals (key int8 not null); grant all on arrivals to cenote").await;
    let served = (0..CALLERS).map(|_| AtomicUsize::new(0)).collect();
    let calls = Arc::new(Calls { served, ..Calls::default() });
    let callers: Vec<_> =
        (0..CALLERS).map(|caller| tokio::spawn(call(pool.clone(), Arc::clone(&calls), caller))).collect();
    let watcher = tokio::spawn(watch(pool.clone(), Arc::clone(&calls), server.admin_url().to_owned()));
    wait_until("everyone is served before the stop", || async { calls.all_served() }).await;

    for _ in 0..2 {
        stop(server).await;
        calls.served.iter().for_each(|answers| answers.store(0, Ordering::SeqCst));
        server.start().await;
        wait_until("everyone is served again", || async { calls.all_served() }).await;
    }
    calls.over.store(true, Ordering::SeqCst);
    must_end("the watcher", watcher).await.expect("what it saw was right");
    let mut inserts = HashMap::new();
    for caller in callers {
        inserts.extend(must_end("a caller", caller).await.expect("its answers were right"));
    }
    let stats = pool.stats();
    assert_eq!((stats.in_flight(), stats.waiting), (0, 0), "{stats:?}");

    let admin = Admin::connect_to(server.admin_url()).await;
    let rows = admin.rows("select key, count(*) from arrivals group by key", &[]).await;
    let mut arrived: HashMap<i64, i64> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    for (key, insert) in inserts {
        match (insert, arrived.remove(&key)) {
            (Insert::Done, Some(1)) | (Insert::NotSent, None) | (Insert::Unknown, None | Some(1)) => {}
            (insert, count) => panic!("key {key}: {insert:?}, and {count:?} of it in the table"),
        }
    }
    assert!(arrived.is_empty(), "nobody sent {arrived:?}");
    std::mem::take(&mut *calls.errors.lock().expect("no panic"))
}

/// Each error of a restart is of a connection that was lost or could not be had, and says so.
fn check(errors: &[Error]) {
    for error in errors {
        let text = error.to_string();
        if error.is_network() {
            let words = ["closed", "reset", "terminating connection", "Broken pipe", "shutting down"];
            assert!(words.iter().any(|words| text.contains(words)), "{text}");
        } else {
            // In the first moments after the start there may be a connection, and no room on it for all.
            assert!(error.is_timeout() && text.contains("acquire timed out after"), "{text}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_is_stopped_and_started_under_256_callers() {
    let server = PrivateServer::postgres("restart").await;
    let settings = settings_at(server.url(), "restart").pool_size(POOL_SIZE);
    let pool = open(settings.options("-c synchronous_commit=on"));
    let errors = restart(&server, &pool, async |server| server.stop().await).await;
    check(&errors);
    // Whoever was in flight is told in the server's own words.
    let told = errors.iter().filter(|error| error.code() == Some(SqlState::ADMIN_SHUTDOWN));
    assert!(told.count() > 0, "{} errors, none of a shutdown", errors.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_is_killed_and_started_under_256_callers() {
    let server = PrivateServer::postgres("kill").await;
    // Less patience than the server takes to come back: callers time out, and are served all the same when it is there.
    let settings = settings_at(server.url(), "kill").pool_size(POOL_SIZE).acquire_timeout(Duration::from_millis(100));
    let pool = open(settings.options("-c synchronous_commit=on"));
    let errors = restart(&server, &pool, async |server| server.kill().await).await;
    check(&errors);
    assert!(errors.iter().any(Error::is_network), "{} errors, none of a connection that was lost", errors.len());
    let told = errors.iter().filter(|error| error.is_timeout() && error.to_string().contains("last connect error"));
    assert!(told.count() > 0, "{} errors, none of a server that is not there", errors.len());
}

/// A role that may have three connections at once, of the shared server.
struct Limited {
    admin: Admin,
    role: String,
}

impl Limited {
    const CONNECTIONS: usize = 3;

    async fn create() -> Limited {
        let (admin, role) = (Admin::connect().await, unique_name("limited"));
        let limit = Limited::CONNECTIONS;
        admin
            .run(&format!("create role {role} login password 'limited' connection limit {limit} in role cenote"))
            .await;
        Limited { admin, role }
    }

    fn pool(&self, acquire_timeout: Duration) -> Pool {
        let settings = settings("limited").user(&self.role).password("limited").pool_size(POOL_SIZE);
        open(settings.acquire_timeout(acquire_timeout))
    }

    async fn end(self, pool: Pool) {
        pool.close(Duration::from_secs(60)).await;
        self.admin.wait_for_no_backend(&pool).await;
        self.admin.run(&format!("drop role {}", self.role)).await;
    }
}

/// Runs a round of calls by so many callers; the errors.
async fn round(pool: &Pool, callers: i32) -> Vec<Error> {
    let calls: Vec<_> = (0..callers)
        .map(|number| {
            let pool = pool.clone();
            tokio::spawn(async move { pool.query_one("select $1::int4", &[&number]).await?.get::<_, i32>(0) })
        })
        .collect();
    let mut errors = Vec::new();
    for (number, call) in (0..).zip(calls) {
        match must_end("a call to a server without room", call).await.expect("no panic") {
            Ok(echoed) => assert_eq!(echoed, number),
            Err(error) => errors.push(error),
        }
    }
    errors
}

#[tokio::test]
async fn fewer_connections_than_the_pool_would_have_serve_everyone() {
    let limited = Limited::create().await;
    let pool = limited.pool(Duration::from_secs(60));
    let began = Instant::now();
    let refused_often = || async {
        let errors = round(&pool, 200).await;
        assert!(errors.is_empty(), "{errors:?}");
        let stats = pool.stats();
        stats.lanes.len() == Limited::CONNECTIONS && stats.connect_failures >= 3
    };
    wait_until("the server has refused a fourth connection three times", refused_often).await;
    // 25 ms at least after the first, 50, 100, 200, and then four in a second.
    let (failures, bound) = (pool.stats().connect_failures, 6 + began.elapsed().as_millis() as u64 / 250);
    assert!(failures <= bound, "{failures} attempts in {:?}", began.elapsed());
    assert_eq!(pool.stats().connections_lost, 0);
    limited.end(pool).await;
}

#[tokio::test]
async fn a_server_without_room_is_told_and_tried_until_there_is_some() {
    let limited = Limited::create().await;
    let pool = limited.pool(Duration::from_millis(500));
    let url = cenote_tests::postgres_url();
    let mut config: tokio_postgres::Config = url.parse().expect("an address");
    config.user(&limited.role).password("limited");
    let mut strangers = Vec::new();
    for _ in 0..Limited::CONNECTIONS {
        let (client, connection) = config.connect(NoTls).await.expect("there is room");
        strangers.push((client, tokio::spawn(connection)));
    }
    let began = Instant::now();
    let errors = round(&pool, 50).await;
    assert_eq!(errors.len(), 50, "there was no room for anybody");
    for error in errors {
        let text = error.to_string();
        assert!(error.is_timeout() && error.was_sent() == Some(false), "{text}");
        assert!(text.contains("too many connections for role") && text.contains("53300"), "{text}");
    }
    let (failures, bound) = (pool.stats().connect_failures, 6 + began.elapsed().as_millis() as u64 / 250);
    assert!((1..=bound).contains(&failures), "{failures} attempts in {:?}", began.elapsed());
    for (client, connection) in strangers {
        drop(client);
        connection.await.expect("no panic").expect("closed in order");
    }
    let served = || async { round(&pool, 50).await.is_empty() };
    wait_until("everyone is served when there is room", served).await;
    limited.end(pool).await;
}
