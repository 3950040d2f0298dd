//! Connections to MySQL and MariaDB that die, and statements that are ended, with others in flight: every caller hears
//! of it, and nothing runs twice.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use cenote_mysql::{Error, ErrorCode, Executed, Pool};
use cenote_tests::mysql::{Admin, OwnDatabase, Server, open, settings, settings_at};
use cenote_tests::{Direction, PrivateServer, Proxy, must_end, on_each_server, wait_until};
use futures_util::future::join_all;
use tokio::task::JoinSet;

on_each_server!(
    a_killed_connection_loses_what_is_in_flight_and_nothing_twice,
    one_connection_of_eight_is_killed_under_load,
    a_reset_connection_runs_nothing_twice,
    what_was_never_written_moves_to_another_connection,
    idle_connections_that_die_are_not_the_next_callers_error,
    an_idle_connection_that_the_server_closes_is_not_the_next_callers_error,
    a_killed_statement_leaves_its_neighbours_alone,
    an_error_in_the_middle_of_a_result_is_the_callers_alone,
    a_statement_past_its_time_leaves_its_neighbours_alone,
    updates_in_a_deadlock_are_told,
);

const IN_FLIGHT: i32 = 100;
const INSERT: &str = "insert into arrival (caller) values (?)";

/// A table without a key, so that an insert that ran twice shows.
async fn database(server: Server, test: &str) -> (OwnDatabase, Admin) {
    let database = OwnDatabase::create(server, test).await;
    let admin = database.admin().await;
    admin.run("create table arrival (caller bigint, filler text)").await;
    (database, admin)
}

/// How often each caller's insert is in the table.
async fn arrivals(admin: &Admin) -> HashMap<i64, i64> {
    let rows: Vec<(i64, i64)> = admin.rows_as("select caller, count(*) from arrival group by caller", ()).await;
    rows.into_iter().collect()
}

/// Nothing ran twice; what was said to have run did, and what was said not to have been sent did not.
fn check(outcomes: &[(i64, Result<Executed, Error>)], arrivals: &HashMap<i64, i64>) {
    for (caller, outcome) in outcomes {
        let arrived = arrivals.get(caller).copied().unwrap_or(0);
        match outcome {
            Ok(executed) => {
                assert_eq!((executed.affected_rows(), arrived), (1, 1), "caller {caller} was told that it ran");
            }
            Err(error) if error.was_sent() == Some(false) => {
                assert_eq!(arrived, 0, "caller {caller} was told that it was not sent: {error}");
            }
            // The one that ran when its connection was killed was answered.
            Err(error) if error.is_server() => {
                let killed = [ErrorCode::QUERY_INTERRUPTED, ErrorCode::CONNECTION_KILLED];
                assert!(error.code().is_some_and(|code| killed.contains(&code)), "caller {caller}: {error}");
                assert_eq!(arrived, 0, "caller {caller} was told that it was ended: {error}");
            }
            Err(error) => {
                assert!(error.is_network(), "caller {caller}: {error}");
                assert!(arrived <= 1, "caller {caller}'s insert ran {arrived} times");
            }
        }
    }
}

type Callers = JoinSet<(i64, Result<Executed, Error>)>;

/// Puts inserts in flight on the pool's one connection, behind a lock that lasts until the administrator who is
/// returned gives it up. All of them have been written.
async fn in_flight(database: &OwnDatabase, pool: &Pool, admin: &Admin) -> (Admin, Callers) {
    pool.execute(INSERT, &[&-1]).await.unwrap();
    let holder = database.admin().await;
    holder.run("lock tables arrival write").await;
    let mut callers = JoinSet::new();
    for caller in 0..i64::from(IN_FLIGHT) {
        let pool = pool.clone();
        callers.spawn(async move { (caller, pool.execute(INSERT, &[&caller]).await) });
    }
    wait_until("the first insert waits for the lock and all others behind it", async || {
        let blocked = admin.sessions(pool).await.iter().any(|session| session.state.contains("lock"));
        blocked && pool.stats().in_flight() == IN_FLIGHT as usize
    })
    .await;
    (holder, callers)
}

async fn all_ended(callers: Callers) -> Vec<(i64, Result<Executed, Error>)> {
    let outcomes = must_end("callers whose connection has died", callers.join_all()).await;
    assert_eq!(outcomes.len(), IN_FLIGHT as usize);
    outcomes
}

async fn a_killed_connection_loses_what_is_in_flight_and_nothing_twice(server: Server) {
    let (database, admin) = database(server, "killed").await;
    let pool = open(database.settings().pool_size(1));
    let (holder, callers) = in_flight(&database, &pool, &admin).await;
    assert_eq!(admin.terminate(&pool).await, 1);
    let outcomes = all_ended(callers).await;
    holder.run("unlock tables").await;
    let mut answered = 0;
    for (caller, outcome) in &outcomes {
        let error = outcome.as_ref().expect_err("its session was killed");
        if error.is_server() {
            answered += 1;
        } else {
            // All had left in one write.
            assert!(error.is_network() && error.was_sent() == Some(true), "caller {caller}: {error}");
        }
    }
    assert!(answered <= 1, "{answered} ran at the same time");
    check(&outcomes, &arrivals(&admin).await);
    assert_eq!((pool.stats().in_flight(), pool.stats().connections_lost), (0, 1));
    pool.execute(INSERT, &[&-2]).await.expect("the pool goes on with a new connection");
}

async fn one_connection_of_eight_is_killed_under_load(server: Server) {
    const CONNECTIONS: usize = 8;
    const KILLS: usize = 6;
    let (database, admin) = database(server, "one_of_eight").await;
    let pool = open(database.settings().pool_size(CONNECTIONS));
    let (over, next) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicI64::new(0)));
    let mut callers = JoinSet::new();
    for _ in 0..128 {
        let (pool, over, next) = (pool.clone(), Arc::clone(&over), Arc::clone(&next));
        callers.spawn(async move {
            let mut outcomes = Vec::new();
            while !over.load(Ordering::SeqCst) {
                let key = next.fetch_add(1, Ordering::SeqCst);
                outcomes.push((key, pool.execute(INSERT, &[&key]).await));
            }
            outcomes
        });
    }
    for _ in 0..KILLS {
        let before = next.load(Ordering::SeqCst);
        wait_until("all connections are there and callers are served", async || {
            pool.stats().lanes.len() == CONNECTIONS && next.load(Ordering::SeqCst) > before + 200
        })
        .await;
        let sessions = admin.sessions(&pool).await;
        let lost = pool.stats().connections_lost;
        if let Some(session) = sessions.get(fastrand::usize(..sessions.len().max(1))) {
            admin.kill(session.id).await;
            wait_until("the pool has seen it", async || pool.stats().connections_lost > lost).await;
        }
    }
    over.store(true, Ordering::SeqCst);
    let outcomes: Vec<_> = must_end("callers", callers.join_all()).await.into_iter().flatten().collect();
    check(&outcomes, &arrivals(&admin).await);
    let stats = pool.stats();
    assert_eq!(stats.connections_lost, KILLS as u64, "{stats:?}");
    let lost: Vec<_> = outcomes.iter().filter(|(_, outcome)| outcome.as_ref().is_err_and(Error::is_network)).collect();
    assert!(lost.iter().all(|(_, outcome)| outcome.as_ref().is_err_and(|error| error.was_sent() == Some(true))));
    assert_eq!(lost.len() as u64, stats.lost_after_sent, "nobody else was told of it");
    assert!(lost.len() <= KILLS * 128, "{} lost", lost.len());
    let failed = outcomes.iter().filter(|(_, outcome)| outcome.is_err()).count();
    assert!(failed <= lost.len() + KILLS, "besides those only what ran at that moment: {failed} failed");
}

async fn a_reset_connection_runs_nothing_twice(server: Server) {
    let (database, admin) = database(server, "reset").await;
    let proxy = Proxy::start(&server.url());
    let pool = open(proxy.through(database.settings()).pool_size(1));
    let (holder, callers) = in_flight(&database, &pool, &admin).await;
    let before = admin.sessions(&pool).await;
    proxy.reset();
    let outcomes = all_ended(callers).await;
    // The server has received the inserts and does not know yet that nobody waits for them: it may run them.
    holder.run("unlock tables").await;
    wait_until("the server has noticed", async || {
        let now = admin.sessions(&pool).await;
        before.iter().all(|old| now.iter().all(|new| new.id != old.id))
    })
    .await;
    for (caller, outcome) in &outcomes {
        let error = outcome.as_ref().expect_err("its connection was reset");
        assert!(error.is_network() && error.was_sent() == Some(true), "caller {caller}: {error}");
        assert_eq!(error.code(), None, "the server has said nothing: {error}");
    }
    check(&outcomes, &arrivals(&admin).await);
    assert_eq!(pool.stats().in_flight(), 0);
    pool.execute(INSERT, &[&-2]).await.expect("the pool goes on with a new connection");
}

/// Some of the statements are written when the connection dies, some are not: those are sent elsewhere, unseen, prepared
/// anew.
async fn what_was_never_written_moves_to_another_connection(server: Server) {
    const CALLERS: i64 = 300;
    const INSERT: &str = "insert into arrival values (?, ?)";
    let (database, admin) = database(server, "moves").await;
    let proxy = Proxy::start(&server.url());
    let settings = proxy.through(database.settings()).pool_size(1).max_pipeline(2 * CALLERS as usize);
    let pool = open(settings.unsent_bytes_max(64 << 20));
    pool.execute(INSERT, &[&-1, &"first"]).await.unwrap();
    // Together more than the kernel holds for a connection.
    let filler = "x".repeat(60 * 1024);
    proxy.stall(Direction::ToServer);
    let before = pool.stats();
    let callers = join_all((0..CALLERS).map(|caller| {
        let (pool, filler) = (&pool, &filler);
        async move { (caller, pool.execute(INSERT, &[&caller, filler]).await) }
    }));
    let cutting = async {
        let queued = async || pool.stats().in_flight() == CALLERS as usize;
        wait_until("all statements are queued", queued).await;
        let mut written = 0;
        wait_until("the kernel takes no more", async || {
            let earlier = std::mem::replace(&mut written, pool.stats().bytes_written);
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            earlier == pool.stats().bytes_written
        })
        .await;
        let after = pool.stats();
        assert!(after.bytes_written > before.bytes_written, "some are written");
        assert!(after.bytes_written - before.bytes_written < CALLERS as u64 * filler.len() as u64, "some are not");
        proxy.reset();
        wait_until("the pool has seen the cut", async || pool.stats().connections_lost == 1).await;
        proxy.resume(Direction::ToServer);
    };
    let (outcomes, ()) = must_end("statements that were to move", async { tokio::join!(callers, cutting) }).await;
    check(&outcomes, &arrivals(&admin).await);
    let (moved, lost): (Vec<_>, Vec<_>) = outcomes.iter().partition(|(_, outcome)| outcome.is_ok());
    let stats = pool.stats();
    assert!(!moved.is_empty() && !lost.is_empty(), "{} moved, {} lost", moved.len(), lost.len());
    assert_eq!((moved.len() as u64, lost.len() as u64), (stats.resubmits, stats.lost_after_sent), "{stats:?}");
    assert!(lost.iter().all(|(_, outcome)| outcome.as_ref().is_err_and(|error| error.was_sent() == Some(true))));
}

async fn idle_connections_that_die_are_not_the_next_callers_error(server: Server) {
    let admin = Admin::connect(server).await;
    let pool = open(settings(server, "idle_dies").pool_size(4));
    for round in 1..=10 {
        // As many at once as make the pool open more than one connection.
        for answer in join_all((0..64).map(|_| pool.query_one("select 1", &[]))).await {
            answer.expect("it begins with sessions that are well");
        }
        wait_until("no connection is being made", async || pool.stats().connecting == 0).await;
        let lost_before = pool.stats().connections_lost;
        let ended = admin.terminate(&pool).await as u64;
        assert!(ended > 0, "round {round}");
        wait_until("the pool has seen that its idle connections ended", async || {
            pool.stats().connections_lost == lost_before + ended
        })
        .await;
        assert_eq!(pool.stats().connections(), 0, "round {round}");
        let row = pool.query_one("select 2", &[]).await.expect("the next caller gets a new connection");
        assert_eq!(row.get::<_, i32>(0).unwrap(), 2);
    }
    assert_eq!(pool.stats().lost_after_sent, 0);
}

/// `wait_timeout`: MySQL says 4031 before it closes, MariaDB closes.
async fn an_idle_connection_that_the_server_closes_is_not_the_next_callers_error(server: Server) {
    let private = PrivateServer::mysql(server, "wait-timeout").await;
    Admin::connect_to(private.admin_url()).await.run("set global wait_timeout = 1").await;
    let pool = open(settings_at(private.url(), "wait_timeout").pool_size(1));
    for round in 1..=3 {
        let row = pool.query_one("select ?", &[&round]).await.expect("a session that is well");
        assert_eq!(row.get::<_, i32>(0).unwrap(), round);
        let ended = async || pool.stats().connections_lost == round as u64;
        wait_until("the server has ended the idle session", ended).await;
    }
    assert_eq!((pool.stats().lost_after_sent, pool.stats().connect_failures), (0, 0));
}

async fn neighbours_are_well(pool: &Pool) {
    for answer in join_all((0..20).map(|number: i32| async move {
        let row = pool.query_one("select ?", &[&number]).await?;
        assert_eq!(row.get::<_, i32>(0)?, number);
        Ok::<(), Error>(())
    }))
    .await
    {
        answer.unwrap();
    }
}

async fn a_killed_statement_leaves_its_neighbours_alone(server: Server) {
    // With rows before the end, so that the error comes in the middle of a result.
    const SLOW: &str = "select id, sleep(if(id < 1000, 0, 3600)), repeat('x', 1000) from world where id <= 1001";
    let admin = Admin::connect(server).await;
    let pool = open(settings(server, "killed_statement").pool_size(1));
    for round in 0..3 {
        let killing = async {
            let mut session = None;
            wait_until("the statement sleeps", async || {
                let sessions = admin.sessions(&pool).await;
                session =
                    sessions.into_iter().find(|session| session.state.contains("sleep")).map(|session| session.id);
                session.is_some()
            })
            .await;
            assert!(admin.kill_query(session.unwrap()).await);
        };
        let all = async { tokio::join!(biased; pool.query(SLOW, &[]), neighbours_are_well(&pool), killing) };
        let (outcome, (), ()) = must_end("a killed statement and its neighbours", all).await;
        let error = outcome.expect_err("it was killed");
        assert_eq!(error.code(), Some(ErrorCode::QUERY_INTERRUPTED), "round {round}: {error}");
        assert_eq!(error.was_sent(), None, "it was answered");
    }
    assert_eq!((pool.stats().connects, pool.stats().connections_lost), (1, 0));
}

async fn an_error_in_the_middle_of_a_result_is_the_callers_alone(server: Server) {
    const FAILS: &str = "select id, exp(if(id = ?, 100000, 1)), repeat('x', 1000) from world order by id limit 1000";
    let pool = open(settings(server, "middle").pool_size(1));
    let answers = join_all((1..=60).map(|number: i32| {
        let pool = &pool;
        async move {
            let fails_at = if number % 2 == 0 { number * 16 } else { 0 };
            pool.query(FAILS, &[&fails_at]).await.map(|rows| rows.len())
        }
    }));
    let (answers, ()) =
        must_end("results that end in errors", async { tokio::join!(answers, neighbours_are_well(&pool)) }).await;
    for (number, answer) in (1..).zip(answers) {
        match answer {
            Ok(rows) => assert!(number % 2 == 1 && rows == 1_000, "{number}: {rows} rows"),
            Err(error) => {
                assert!(number % 2 == 0, "{number}: {error}");
                assert_eq!(error.code(), Some(ErrorCode::RESULT_OUT_OF_RANGE), "{number}: {error}");
            }
        }
    }
    assert_eq!((pool.stats().connects, pool.stats().connections_lost), (1, 0));
}

async fn a_statement_past_its_time_leaves_its_neighbours_alone(server: Server) {
    const SLOW: &str = "select count(*) from world a join world b join world c on a.id + b.id + c.id = 5";
    let private = PrivateServer::mysql(server, "past-its-time").await;
    let (variable, code) = match server {
        Server::Mysql => ("max_execution_time = 100", ErrorCode::QUERY_TIMEOUT),
        Server::Mariadb => ("max_statement_time = 0.1", ErrorCode::STATEMENT_TIMEOUT),
    };
    Admin::connect_to(private.admin_url()).await.run(&format!("set global {variable}")).await;
    let pool = open(settings_at(private.url(), "past_its_time").pool_size(1));
    for _ in 0..3 {
        let all = async { tokio::join!(biased; pool.query(SLOW, &[]), neighbours_are_well(&pool)) };
        let (outcome, ()) = must_end("a statement past its time", all).await;
        assert_eq!(outcome.expect_err("it takes for ever").code(), Some(code));
    }
    assert_eq!((pool.stats().connects, pool.stats().connections_lost), (1, 0));
}

/// Two connections update two rows in opposite order, each in one statement: one of them is rolled back, and told.
async fn updates_in_a_deadlock_are_told(server: Server) {
    let database = OwnDatabase::create(server, "deadlock").await;
    let pool = open(database.settings().pool_size(4));
    pool.execute("create table account (id int primary key, balance int)", &[]).await.unwrap();
    pool.execute("insert into account values (1, 0), (2, 0), (3, 0), (4, 0)", &[]).await.unwrap();
    let outcomes = join_all((0..400).map(|number| {
        let pool = &pool;
        async move {
            let sql = match number % 2 {
                0 => "update account set balance = balance + 1 order by id",
                _ => "update account set balance = balance + 1 order by id desc",
            };
            pool.execute(sql, &[]).await
        }
    }));
    let mut done = 0;
    for outcome in must_end("updates in opposite order", outcomes).await {
        match outcome {
            Ok(executed) => {
                assert_eq!(executed.affected_rows(), 4);
                done += 1;
            }
            Err(error) => assert_eq!(error.code(), Some(ErrorCode::DEADLOCK), "{error}"),
        }
    }
    let balances: Vec<(i32,)> = pool.query_as("select balance from account", &[]).await.unwrap();
    assert_eq!(balances, [(done,); 4]);
    assert_eq!(pool.stats().quarantines, 0);
}
