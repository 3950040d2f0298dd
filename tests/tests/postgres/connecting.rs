//! Servers that cannot be reached or do not let us in: everyone who waits is told, in the server's own words.

use std::time::Duration;

use cenote_postgres::{Error, Host, Pool, SettingsBuilder, SqlState};
use cenote_tests::{Admin, ClosedPort, Proxy, must_end, open, postgres_url, settings, unique_name, wait_until};
use futures_util::future::join_all;

/// Nothing waits for this to pass.
const AMPLE: Duration = Duration::from_secs(3_600);

/// A password that would show if it were shown.
const PASSWORD: &str = "s3cr3t-that-nobody-may-see";

/// What fifty callers are told who wait at the same time, without a limit to their patience.
async fn fifty_errors(settings: SettingsBuilder) -> (Pool, Vec<Error>) {
    let pool = open(settings.acquire_timeout(AMPLE));
    let outcomes = join_all((0..50).map(|_| pool.query_one("select 1", &[])));
    let outcomes = must_end("callers whom the server does not let in", outcomes).await;
    (pool, outcomes.into_iter().map(|outcome| outcome.expect_err("there is no way in")).collect())
}

/// Of one pool: all were told the same, by few attempts.
fn check(pool: &Pool, errors: &[Error], code: SqlState, words: &str) {
    for error in errors {
        assert!(error.is_server() && !error.is_timeout() && !error.is_network(), "{error}");
        assert_eq!(error.code(), Some(code), "{error}");
        assert_eq!(error.was_sent(), Some(false), "{error}");
        for shown in [format!("{error}"), format!("{error:?}"), format!("{error:#?}")] {
            assert!(shown.contains(words), "{words:?} is not in: {shown}");
            assert!(!shown.contains(PASSWORD), "{shown}");
        }
    }
    let stats = pool.stats();
    assert!((1..=2).contains(&stats.connect_failures), "one server was asked once or twice: {stats:?}");
    assert_eq!((stats.connects, stats.connections(), stats.waiting), (0, 0, 0), "{stats:?}");
}

#[tokio::test]
async fn a_wrong_password_fails_all_who_wait_at_once() {
    let (pool, errors) = fifty_errors(settings("wrong_password").password(PASSWORD)).await;
    check(&pool, &errors, SqlState::INVALID_PASSWORD, "password authentication failed for user");
    let shown = format!("{pool:?} {:?}", pool.settings());
    assert!(!shown.contains(PASSWORD), "{shown}");
}

#[tokio::test]
async fn an_unknown_database_fails_all_who_wait_at_once() {
    let (pool, errors) = fifty_errors(settings("unknown_database").dbname("there_is_no_such")).await;
    check(&pool, &errors, SqlState::INVALID_CATALOG_NAME, "database \"there_is_no_such\" does not exist");
}

#[tokio::test]
async fn an_unknown_setting_of_the_session_fails_all_who_wait_at_once() {
    let (_, errors) = fifty_errors(settings("unknown_setting").options("-c there.is_no=such -c nor_this=one")).await;
    assert!(errors.iter().all(|error| error.is_server()), "{errors:?}");
    assert!(errors[0].to_string().contains("nor_this"), "{}", errors[0]);
}

/// The pool of a wrong password is no lost cause: the password may be changed at the server.
#[tokio::test]
async fn a_password_that_becomes_right_is_tried_again() {
    let admin = Admin::connect().await;
    let role = unique_name("role");
    admin.run(&format!("create role {role} login password 'another'")).await;
    let pool = open(settings("becomes_right").user(&role).password(PASSWORD));
    let error = pool.query_one("select 1", &[]).await.expect_err("a wrong password");
    assert_eq!(error.code(), Some(SqlState::INVALID_PASSWORD), "{error}");
    admin.run(&format!("alter role {role} password '{PASSWORD}'")).await;
    wait_until("the pool lets its callers in", async || pool.query_one("select 1", &[]).await.is_ok()).await;
    pool.close(AMPLE).await;
    admin.wait_for_no_backend(&pool).await;
    admin.run(&format!("drop role {role}")).await;
}

#[tokio::test]
async fn a_server_that_is_down_is_named_with_the_last_connect_error() {
    let port = ClosedPort::take();
    let settings =
        settings("down").hosts([]).host("127.0.0.1", port.number()).acquire_timeout(Duration::from_millis(300));
    let pool = open(settings);
    let outcomes = join_all((0..50).map(|_| pool.query_one("select 1", &[])));
    for outcome in must_end("callers of a server that is down", outcomes).await {
        let error = outcome.expect_err("nobody is there");
        assert!(error.is_timeout() && error.was_sent() == Some(false), "{error}");
        let words = error.to_string().to_lowercase();
        for part in ["acquire timed out", "last connect error", "refused", &format!("127.0.0.1:{}", port.number())] {
            assert!(words.contains(part), "{part:?} is not in: {words}");
        }
    }
    let stats = pool.stats();
    assert!(stats.connect_failures >= 2, "it was tried again: {stats:?}");
    assert!(stats.connect_failures < 50, "not once for each caller: {stats:?}");
}

/// While the server is down one connect at a time finds out when it is back.
#[tokio::test]
async fn callers_are_served_as_soon_as_the_server_is_there() {
    let port = ClosedPort::take();
    let pool = open(settings("comes_up").hosts([]).host("127.0.0.1", port.number()).acquire_timeout(AMPLE));
    let waiting = join_all((0..50).map(|number| {
        let pool = &pool;
        async move { pool.query_one("select $1::int4", &[&number]).await }
    }));
    let coming_up = async {
        let failed = async || pool.stats().connect_failures >= 3;
        wait_until("it was tried in vain", failed).await;
        Proxy::start_on(port.number(), &postgres_url())
    };
    let (answers, _proxy) =
        must_end("callers of a server that comes up", async { tokio::join!(waiting, coming_up) }).await;
    for (number, answer) in (0..).zip(answers) {
        assert_eq!(answer.unwrap().get::<_, i32>(0).unwrap(), number);
    }
}

#[tokio::test]
async fn of_several_hosts_the_first_that_lets_us_in_is_taken() {
    let closed = ClosedPort::take();
    let dead = Host::Tcp { name: "127.0.0.1".to_owned(), address: None, port: closed.number() };
    let settings = settings("several").build().unwrap();
    let hosts = [dead].into_iter().chain(settings.hosts().iter().cloned());
    let pool = open(settings.to_builder().hosts(hosts));
    pool.query_one("select 1", &[]).await.expect("the second host is well");
    assert_eq!(pool.stats().connect_failures, 0, "it is one attempt");
}

#[tokio::test]
async fn a_server_without_a_free_place_says_so() {
    let admin = Admin::connect().await;
    let role = unique_name("limited");
    admin.run(&format!("create role {role} login password '{PASSWORD}' connection limit 0")).await;
    let pool = open(settings("no_place").user(&role).password(PASSWORD).acquire_timeout(Duration::from_millis(300)));
    let error = must_end("a caller", pool.query_one("select 1", &[])).await.expect_err("there is no place");
    assert!(error.to_string().contains("too many connections for role"), "{error}");
    assert!(!format!("{error} {error:?}").contains(PASSWORD));
    admin.run(&format!("alter role {role} connection limit 1")).await;
    wait_until("the pool lets its callers in", async || pool.query_one("select 1", &[]).await.is_ok()).await;
    pool.close(AMPLE).await;
    admin.wait_for_no_backend(&pool).await;
    admin.run(&format!("drop role {role}")).await;
}
