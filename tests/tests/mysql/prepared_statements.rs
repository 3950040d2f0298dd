//! Statements of MySQL and MariaDB are prepared once on each connection, under the server's own names, within limits; and
//! what failed to be is forgotten.

use std::sync::Arc;
use std::time::Duration;

use cenote_mysql::{Error, ErrorCode, Pool};
use cenote_tests::mysql::{Admin, OwnDatabase, Server, open, settings, settings_at};
use cenote_tests::{Direction, Dropped, PrivateServer, Proxy, drop_after_polls, must_end, on_each_server, wait_until};
use futures_util::future::join_all;
use tokio::task::JoinSet;

on_each_server!(
    first_users_at_once_prepare_a_statement_once_per_connection,
    a_first_use_pauses_nobody,
    a_failed_preparation_wakes_everyone_and_is_not_kept,
    statements_that_cannot_be_prepared_leave_nothing_behind,
    few_statements_are_kept_whatever_comes,
    a_server_without_room_for_statements_is_served,
    more_statements_at_once_than_are_kept_all_run,
    callers_dropped_while_they_prepare_leak_nothing,
    first_users_go_on_when_the_first_of_them_vanishes,
    who_waits_for_a_preparation_survives_the_one_who_prepares,
    who_waits_for_a_preparation_moves_when_the_connection_dies,
    who_waits_for_a_preparation_is_told_of_the_close,
);

/// Nothing waits for this to pass.
const AMPLE: Duration = Duration::from_secs(3_600);

/// As many connections as the pool may have.
async fn fill(pool: &Pool) {
    let connections = pool.stats().connections_max;
    for _ in 0..1_000 {
        if pool.stats().lanes.len() == connections {
            return;
        }
        for answer in join_all((0..connections * 32).map(|_| pool.query_one("select 'fill'", &[]))).await {
            answer.unwrap();
        }
    }
    panic!("the pool does not grow: {:?}", pool.stats());
}

async fn first_users_at_once_prepare_a_statement_once_per_connection(server: Server) {
    const SQL: &str = "select ? as everybody_at_once";
    let proxy = Proxy::start(&server.url());
    proxy.count(Direction::ToServer, SQL.as_bytes());
    let pool = open(proxy.through(settings(server, "at_once")).pool_size(4));
    fill(&pool).await;
    for round in 0..50 {
        let answers = join_all((0..100).map(|number: i32| {
            let pool = &pool;
            async move { pool.query_one(SQL, &[&number]).await }
        }));
        for (number, answer) in (0..).zip(must_end("first users", answers).await) {
            assert_eq!(answer.unwrap().get::<_, i32>(0).unwrap(), number, "round {round}");
        }
    }
    assert_eq!(pool.stats().connects, 4);
    let sent = proxy.counted(Direction::ToServer, SQL.as_bytes());
    assert!((1..=4).contains(&sent), "its text went to four connections {sent} times");
}

/// A first use takes two trips; those who come behind it do not wait for the second.
async fn a_first_use_pauses_nobody(server: Server) {
    const NEIGHBOURS: usize = 20;
    const KNOWN: &str = "select 'known'";
    let pool = open(settings(server, "first_use").pool_size(1));
    pool.query_one(KNOWN, &[]).await.unwrap();
    for round in 0..20 {
        let order = Arc::new(std::sync::Mutex::new(Vec::new()));
        let mut callers = JoinSet::new();
        // Tasks of their own: they run on in the order in which their answers come.
        let call = |sql: String, name: &'static str| {
            let (pool, order) = (pool.clone(), Arc::clone(&order));
            async move {
                pool.query_one(&sql, &[]).await.unwrap();
                order.lock().unwrap().push(name);
            }
        };
        callers.spawn(call(format!("select {round}, 'new'"), "first use"));
        for _ in 0..NEIGHBOURS {
            callers.spawn(call(KNOWN.to_owned(), "known"));
        }
        callers.join_all().await;
        let order = order.lock().unwrap();
        assert_eq!(order.last(), Some(&"first use"), "all others were served between its two trips: {order:?}");
    }
}

/// bun 40634 and 33189: who waited for a preparation that failed waited for ever, or the failure was kept.
async fn a_failed_preparation_wakes_everyone_and_is_not_kept(server: Server) {
    const SQL: &str = "select id from late where id = ?";
    let database = OwnDatabase::create(server, "failed").await;
    let pool = open(database.settings().pool_size(2));
    for round in 0..3 {
        let failing = join_all((0..50).map(|number: i32| {
            let pool = &pool;
            async move { pool.query(SQL, &[&number]).await }
        }));
        for outcome in must_end("first users of a table that is not there", failing).await {
            let error = outcome.expect_err("there is no such table");
            assert_eq!(error.code(), Some(ErrorCode::UNKNOWN_TABLE), "round {round}: {error}");
        }
        pool.execute("create table late (id int primary key)", &[]).await.unwrap();
        pool.execute("insert into late values (7)", &[]).await.unwrap();
        let row = pool.query_one(SQL, &[&7]).await.expect("now there is");
        assert_eq!(row.get::<_, i32>(0).unwrap(), 7);
        pool.execute("drop table late", &[]).await.unwrap();
    }
    assert_eq!(pool.stats().connections_lost, 0);
}

async fn statements_that_cannot_be_prepared_leave_nothing_behind(server: Server) {
    let pool = open(settings(server, "unprepared").pool_size(2).statement_cache_size(16));
    let outcomes = join_all((0..1_000).map(|number: i32| {
        let pool = &pool;
        async move {
            for sql in [format!("select {number} fro m"), format!("select * from nowhere_{number}")] {
                let error = pool.query(&sql, &[]).await.expect_err("it cannot be prepared");
                assert!(error.is_server(), "{sql}: {error}");
            }
            pool.query_one("select ?", &[&number]).await.unwrap().get::<_, i32>(0).unwrap()
        }
    }));
    let outcomes = must_end("statements that cannot be prepared", outcomes).await;
    assert!(outcomes.into_iter().eq(0..1_000));
    let stats = pool.stats();
    assert_eq!((stats.in_flight(), stats.waiting, stats.connections_lost), (0, 0, 0), "{stats:?}");
    assert!(stats.lanes.iter().all(|lane| lane.prepared <= 1), "{stats:?}");
}

/// Several drivers have left statements at the server, until it had no room for any (vertx 314, mysql2 1745).
async fn few_statements_are_kept_whatever_comes(server: Server) {
    const CONNECTIONS: usize = 4;
    const KEPT: usize = 16;
    const STATEMENTS: usize = 4_000;
    let private = PrivateServer::mysql(server, "leak").await;
    let admin = Admin::connect_to(private.admin_url()).await;
    let pool = open(settings_at(private.url(), "leak").pool_size(CONNECTIONS).statement_cache_size(KEPT));
    fill(&pool).await;
    let mut most = 0;
    for hundred in 0..STATEMENTS / 100 {
        let answers = join_all((0..100).map(|number| {
            let (pool, token) = (&pool, hundred * 100 + number);
            async move { pool.query_one(&format!("select {token}, 'of its own'"), &[]).await?.get::<_, u64>(0) }
        }));
        for (number, answer) in must_end("many statements", answers).await.into_iter().enumerate() {
            assert_eq!(answer.unwrap(), (hundred * 100 + number) as u64);
        }
        most = most.max(admin.status("Prepared_stmt_count").await);
    }
    // Of a hundred at once each is kept until it has run.
    let bound = (CONNECTIONS * KEPT + 100) as i64;
    assert!(most <= bound, "{most} at most, {bound} allowed");
    let (kept, stats) = (admin.status("Prepared_stmt_count").await, pool.stats());
    let known: usize = stats.lanes.iter().map(|lane| lane.prepared).sum();
    assert_eq!(known as i64, kept, "both sides agree: {stats:?}");
    assert_eq!((stats.connects, stats.connections_lost), (CONNECTIONS as u64, 0), "{stats:?}");
    must_end("the close", pool.close(AMPLE)).await;
    wait_until("no statement is left", async || admin.status("Prepared_stmt_count").await == 0).await;
}

/// 1461: with less room than the pool would like, statements are given up for new ones.
async fn a_server_without_room_for_statements_is_served(server: Server) {
    let private = PrivateServer::mysql(server, "no-room").await;
    let admin = Admin::connect_to(private.admin_url()).await;
    admin.run("set global max_prepared_stmt_count = 16").await;
    let pool = open(settings_at(private.url(), "no_room").pool_size(2));
    for round in 0..3 {
        for number in 0..100 {
            let row = pool.query_one(&format!("select {number}, ?"), &[&round]).await;
            let row = row.unwrap_or_else(|error| panic!("statement {number}: {error}"));
            assert_eq!((row.get::<_, i32>(0).unwrap(), row.get::<_, i32>(1).unwrap()), (number, round));
        }
    }
    let before = pool.stats();
    assert_eq!((before.connections_lost, before.in_flight()), (0, 0), "{before:?}");
    // There is none at all for the pool: each caller is told.
    admin.run("set global max_prepared_stmt_count = 0").await;
    let failing = must_end("a statement there is no room for", pool.query_one("select 'no room'", &[])).await;
    let error = failing.expect_err("there is no room");
    assert_eq!(error.code(), Some(ErrorCode::TOO_MANY_PREPARED_STATEMENTS), "{error}");
    assert!(error.to_string().contains("max_prepared_stmt_count"), "{error}");
    pool.query_text("select 1").await.expect("a text needs no room");
    admin.run("set global max_prepared_stmt_count = 16").await;
    let answers = join_all((0..100).map(|number: i32| {
        let pool = &pool;
        async move { pool.query_one("select 'shared', ?", &[&number]).await?.get::<_, i32>(1) }
    }));
    for (number, answer) in (0..).zip(must_end("there is room again", answers).await) {
        assert_eq!(answer.unwrap(), number);
    }
}

/// Were statements closed to make room before they ran, so many callers would close each other's for ever.
async fn more_statements_at_once_than_are_kept_all_run(server: Server) {
    for (callers, kept) in [(40, 0), (40, 1), (100, 3), (400, 8)] {
        let settings = settings(server, "at_once").pool_size(1).statement_cache_size(kept);
        let pool = open(settings.max_pipeline(callers * 2).acquire_timeout(AMPLE));
        let answers = join_all((0..callers).map(|caller| {
            let pool = &pool;
            async move {
                for round in 0..10_u64 {
                    let row = pool.query_one(&format!("select {caller}, ?"), &[&round]).await?;
                    assert_eq!(row.get::<_, u64>(0)?, caller as u64);
                    assert_eq!(row.get::<_, u64>(1)?, round);
                }
                Ok::<(), Error>(())
            }
        }));
        for answer in must_end("more statements than are kept", answers).await {
            answer.unwrap_or_else(|error| panic!("{callers} callers, {kept} kept: {error}"));
        }
        let stats = pool.stats();
        assert_eq!((stats.connects, stats.in_flight()), (1, 0), "{stats:?}");
    }
}

async fn callers_dropped_while_they_prepare_leak_nothing(server: Server) {
    const KEPT: usize = 8;
    const STATEMENTS: usize = 3_000;
    let private = PrivateServer::mysql(server, "dropped").await;
    let admin = Admin::connect_to(private.admin_url()).await;
    let pool = open(settings_at(private.url(), "dropped").pool_size(1).statement_cache_size(KEPT));
    let mut dropped = 0;
    for some in (0..STATEMENTS).collect::<Vec<_>>().chunks(100) {
        let outcomes = join_all(some.iter().map(|&number| {
            let pool = &pool;
            async move { drop_after_polls(1 + number % 4, pool.query(&format!("select {number}, ?"), &[&1])).await }
        }));
        dropped += outcomes.await.iter().filter(|outcome| matches!(outcome, Dropped::Pending)).count();
    }
    assert!(dropped > STATEMENTS / 4, "{dropped} were dropped");
    wait_until("what was abandoned has been answered", async || pool.stats().in_flight() == 0).await;
    let most = (KEPT + 128) as i64;
    let kept = admin.status("Prepared_stmt_count").await;
    assert!(kept <= most, "{kept} of {STATEMENTS} statements are still prepared");
    // More, that nobody drops, and what was left behind is gone in the end.
    let mut next = 0;
    wait_until("what nobody came for has been given up", async || {
        next += 1;
        for answer in join_all((0..100).map(|_| async { pool.query_one("select 'all', ?", &[&next]).await })).await {
            answer.unwrap();
        }
        let answers = join_all((0..4).map(|other| {
            let pool = &pool;
            async move { pool.query_one(&format!("select {next}, {other}, 'last'"), &[]).await }
        }));
        answers.await.into_iter().for_each(|answer| drop(answer.unwrap()));
        pool.stats().lanes.iter().all(|lane| lane.prepared <= KEPT)
    })
    .await;
    let (kept, stats) = (admin.status("Prepared_stmt_count").await, pool.stats());
    let known: usize = stats.lanes.iter().map(|lane| lane.prepared).sum();
    assert_eq!(known as i64, kept, "both sides agree: {stats:?}");
    assert_eq!((stats.connections_lost, stats.waiting), (0, 0), "{stats:?}");
    must_end("the close", pool.close(AMPLE)).await;
    wait_until("no statement is left", async || admin.status("Prepared_stmt_count").await == 0).await;
}

/// One who learns a statement for all and vanishes hands that on.
async fn first_users_go_on_when_the_first_of_them_vanishes(server: Server) {
    let pool = open(settings(server, "vanishes").pool_size(1));
    pool.query_one("select 1", &[]).await.unwrap();
    for polls in 0..8 {
        let sql = format!("select ? as vanishes_{polls}");
        let first = drop_after_polls(polls, pool.query_one(&sql, &[&0]));
        let others = join_all((0..50).map(|number: i32| {
            let (pool, sql) = (&pool, &sql);
            async move { pool.query_one(sql, &[&number]).await }
        }));
        let (_, others) = must_end("first users", async { tokio::join!(biased; first, others) }).await;
        for (number, answer) in (0..).zip(others) {
            assert_eq!(answer.unwrap().get::<_, i32>(0).unwrap(), number, "after {polls} polls");
        }
    }
    wait_until("what was abandoned has been answered", async || pool.stats().in_flight() == 0).await;
}

/// Callers who wait on a connection until it has prepared what all of them want: one asks, the others wait for him.
struct Preparing {
    proxy: Proxy,
    pool: Pool,
    first: tokio::task::JoinHandle<Result<i32, Error>>,
    others: Vec<tokio::task::JoinHandle<Result<i32, Error>>>,
}

impl Preparing {
    const SQL: &str = "select ? as wanted_by_all";
    const OTHERS: i32 = 50;

    async fn begin(server: Server, test: &str) -> Preparing {
        let proxy = Proxy::start(&server.url());
        let settings = proxy.through(settings(server, test)).pool_size(1).statement_cache_size(1);
        let pool = open(settings.acquire_timeout(AMPLE));
        // Learned, and then given up for another.
        pool.query_one(Preparing::SQL, &[&0]).await.unwrap();
        pool.query_one("select 'another'", &[]).await.unwrap();
        proxy.stall(Direction::ToClient);
        let call = |number: i32| {
            let pool = pool.clone();
            tokio::spawn(async move { pool.query_one(Preparing::SQL, &[&number]).await?.get(0) })
        };
        let first = call(0);
        wait_until("the first has asked", async || pool.stats().in_flight() == 1).await;
        let others = (1..=Preparing::OTHERS).map(call).collect();
        // They run when this does not; what they wait for cannot be seen from outside.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert_eq!(pool.stats().in_flight(), 1, "nobody else has queued anything");
        Preparing { proxy, pool, first, others }
    }

    async fn all_served(others: Vec<tokio::task::JoinHandle<Result<i32, Error>>>) {
        for (number, answer) in (1..).zip(must_end("who waited for the preparation", join_all(others)).await) {
            assert_eq!(answer.unwrap().unwrap(), number);
        }
    }
}

async fn who_waits_for_a_preparation_survives_the_one_who_prepares(server: Server) {
    let Preparing { proxy, pool, first, others } = Preparing::begin(server, "preparer").await;
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    proxy.resume(Direction::ToClient);
    Preparing::all_served(others).await;
    assert_eq!((pool.stats().connects, pool.stats().in_flight()), (1, 0));
}

async fn who_waits_for_a_preparation_moves_when_the_connection_dies(server: Server) {
    for preparer_stays in [true, false] {
        let Preparing { proxy, pool, first, others } = Preparing::begin(server, "preparation_lost").await;
        if !preparer_stays {
            first.abort();
        }
        proxy.reset();
        wait_until("the pool has seen it", async || pool.stats().connections_lost == 1).await;
        proxy.resume(Direction::ToClient);
        Preparing::all_served(others).await;
        if preparer_stays {
            assert_eq!(first.await.unwrap().expect("a preparation alone is no statement that was sent"), 0);
        }
        let stats = pool.stats();
        assert_eq!((stats.connects, stats.lost_after_sent, stats.in_flight()), (2, 0, 0), "{stats:?}");
    }
}

async fn who_waits_for_a_preparation_is_told_of_the_close(server: Server) {
    let Preparing { proxy, pool, first, others } = Preparing::begin(server, "preparation_closed").await;
    must_end("a close with a deadline", pool.close(Duration::from_millis(50))).await;
    let outcomes = must_end("who waited for the preparation", join_all(others.into_iter().chain([first]))).await;
    for outcome in outcomes {
        let error = outcome.unwrap().expect_err("the pool is closed");
        assert!(error.is_closed() || error.is_network(), "{error}");
        assert_eq!(error.was_sent(), Some(false), "{error}");
    }
    proxy.resume(Direction::ToClient);
    assert_eq!((pool.stats().in_flight(), pool.stats().waiting), (0, 0));
}
