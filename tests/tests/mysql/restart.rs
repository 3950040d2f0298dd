//! A MySQL or MariaDB server that goes away and comes back under many callers: each call ends, with its answer or with an
//! error that says what happened; nothing that was confirmed is lost, nothing happens twice; and when the server is there
//! again, so is everyone's service.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cenote_mysql::{Error, Pool};
use cenote_tests::mysql::{Admin, Server, open, settings_at};
use cenote_tests::{PrivateServer, must_end, on_each_server, wait_until};

on_each_server!(
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    a_server_is_stopped_and_started_under_256_callers
);
on_each_server!(
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    a_server_is_killed_and_started_under_256_callers
);

const CALLERS: usize = 256;
const POOL_SIZE: usize = 8;

/// What became of one insert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Insert {
    Done,
    /// No byte of it has left, or the server has refused it.
    NotDone,
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
    errors: Mutex<Vec<Error>>,
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
        match must_end("a select", pool.query_one("select ?", &[&key])).await {
            Ok(row) => assert_eq!(row.get::<_, i64>(0).unwrap(), key, "its own answer"),
            Err(error) => calls.note(error),
        }
        let inserted = must_end("an insert", pool.execute("insert into arrivals values (?)", &[&key])).await;
        let insert = match &inserted {
            Ok(executed) => {
                assert_eq!(executed.affected_rows(), 1);
                calls.served[caller].fetch_add(1, Ordering::SeqCst);
                Insert::Done
            }
            Err(error) if error.was_sent() == Some(false) || error.is_server() => Insert::NotDone,
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

/// Looks at the pool over and over, from before the stop until after the start.
async fn watch(pool: Pool, calls: Arc<Calls>) {
    while !calls.over.load(Ordering::SeqCst) {
        let stats = pool.stats();
        assert!(stats.connecting <= 2, "{} connects under way", stats.connecting);
        assert!(stats.connections() <= POOL_SIZE, "{} connections", stats.connections());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Stops the server and starts it again under 256 callers. The errors that they got.
async fn restart(server: &PrivateServer, pool: &Pool, stop: impl AsyncFn(&PrivateServer)) -> Vec<Error> {
    // Without a key, so that what comes twice is seen; and kept with each answer, whatever the settings are.
    let admin = Admin::connect_to(server.admin_url()).await;
    admin.run("create table cenote.arrivals (number bigint not null)").await;
    admin.run("set global innodb_flush_log_at_trx_commit = 2").await;
    let served = (0..CALLERS).map(|_| AtomicUsize::new(0)).collect();
    let calls = Arc::new(Calls { served, ..Calls::default() });
    let callers: Vec<_> =
        (0..CALLERS).map(|caller| tokio::spawn(call(pool.clone(), Arc::clone(&calls), caller))).collect();
    let watcher = tokio::spawn(watch(pool.clone(), Arc::clone(&calls)));
    wait_until("everyone is served before the stop", async || calls.all_served()).await;
    for _ in 0..2 {
        stop(server).await;
        calls.served.iter().for_each(|answers| answers.store(0, Ordering::SeqCst));
        server.start().await;
        Admin::connect_to(server.admin_url()).await.run("set global innodb_flush_log_at_trx_commit = 2").await;
        wait_until("everyone is served again", async || calls.all_served()).await;
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
    let counted = "select number, count(*) from cenote.arrivals group by number";
    let mut arrived: HashMap<i64, i64> = admin.rows_as::<(i64, i64)>(counted, ()).await.into_iter().collect();
    for (key, insert) in inserts {
        match (insert, arrived.remove(&key)) {
            (Insert::Done, Some(1)) | (Insert::NotDone, None) | (Insert::Unknown, None | Some(1)) => {}
            (insert, count) => panic!("key {key}: {insert:?}, and {count:?} of it in the table"),
        }
    }
    assert!(arrived.is_empty(), "nobody sent {arrived:?}");
    std::mem::take(&mut *calls.errors.lock().expect("no panic"))
}

/// Each error of a restart is of a connection that was lost or could not be had, or the server's word that it ends.
fn check(errors: &[Error]) {
    for error in errors {
        let text = error.to_string();
        if error.is_server() {
            let code = error.code().expect("the server has told one").number();
            // Interrupted, killed, shutting down; MySQL says to some that they were offline.
            assert!([1053, 1317, 1927, 3169].contains(&code), "{text}");
        } else {
            assert!(error.is_network() || error.is_timeout() && text.contains("acquire timed out after"), "{text}");
        }
    }
    assert!(errors.iter().any(Error::is_network), "{} errors, none of a connection that was lost", errors.len());
}

/// More patience than a loaded machine's server takes to come back.
const AMPLE: Duration = Duration::from_secs(100);

async fn a_server_is_stopped_and_started_under_256_callers(server: Server) {
    let private = PrivateServer::mysql(server, "restart").await;
    let pool = open(settings_at(private.url(), "restart").pool_size(POOL_SIZE).acquire_timeout(AMPLE));
    let errors = restart(&private, &pool, async |server| server.stop().await).await;
    check(&errors);
}

async fn a_server_is_killed_and_started_under_256_callers(server: Server) {
    let private = PrivateServer::mysql(server, "kill").await;
    // Less patience than the server takes to come back: callers time out, and are served all the same when it is there.
    let settings = settings_at(private.url(), "kill").pool_size(POOL_SIZE);
    let pool = open(settings.acquire_timeout(Duration::from_millis(100)));
    let errors = restart(&private, &pool, async |server| server.kill().await).await;
    check(&errors);
    let told = errors.iter().filter(|error| error.is_timeout() && error.to_string().contains("last connect error"));
    assert!(told.count() > 0, "{} errors, none of a server that is not there", errors.len());
}
