//! The means of MySQL's tests, tested: what they say must be true before anything is judged by them. Another driver
//! stands for ours.

use cenote_tests::mysql::scripted::{self, Request, packet};
use cenote_tests::mysql::{Admin, OwnDatabase, OwnUser, Server, open, settings};
use cenote_tests::{Direction, PrivateServer, Proxy, on_each_server, unique_name, wait_until};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts, OptsBuilder};

on_each_server!(
    sessions_are_told_by_their_program_name,
    a_pool_of_a_test_is_told_from_all_others,
    a_killed_statement_leaves_its_session,
    the_status_is_read,
    a_database_is_gone_when_it_is_dropped,
    a_user_is_gone_when_it_is_dropped,
    every_kind_of_user_is_there,
    a_proxy_counts_and_resets,
    a_private_server_stops_and_starts,
);

fn options(url: &str) -> OptsBuilder {
    OptsBuilder::from_opts(Opts::from_url(url).expect("the address of the server")).prefer_socket(false)
}

async fn connect(options: OptsBuilder) -> Conn {
    Conn::new(options).await.unwrap()
}

/// A connection with a program name, which this driver does not let one choose by an option of its own.
async fn connect_named(server: Server, program_name: &str) -> Conn {
    let attributes = [("program_name".to_owned(), program_name.to_owned())];
    connect(options(&server.url()).connect_attributes(attributes.into())).await
}

async fn sessions_are_told_by_their_program_name(server: Server) {
    let admin = Admin::connect(server).await;
    let (name, other_name) = (unique_name("harness"), unique_name("harness"));
    let mut one = connect_named(server, &name).await;
    let mut other = connect_named(server, &other_name).await;
    for (connection, name) in [(&one, &name), (&other, &other_name)] {
        let sessions = admin.sessions_named(name).await;
        let ids: Vec<u64> = sessions.iter().map(|session| session.id).collect();
        assert_eq!(ids, [u64::from(connection.id())]);
        assert_eq!(sessions[0].user, "cenote");
    }
    assert_eq!(admin.terminate_named(&name).await, 1);
    assert!(one.ping().await.is_err());
    other.ping().await.expect("the other has kept its session");
    drop(other);
    admin.wait_for_no_session_named(&other_name).await;
}

async fn a_pool_of_a_test_is_told_from_all_others(server: Server) {
    let admin = Admin::connect(server).await;
    let (one, other) = (open(settings(server, "harness").pool_size(1)), open(settings(server, "harness").pool_size(1)));
    for pool in [&one, &other] {
        let row = pool.query_one("select connection_id()", &[]).await.unwrap();
        let id: u64 = row.get(0).unwrap();
        assert_eq!(admin.sessions(pool).await.iter().map(|session| session.id).collect::<Vec<_>>(), [id]);
    }
    assert_eq!(admin.terminate(&one).await, 1);
    assert_eq!(admin.sessions(&other).await.len(), 1, "the other pool has kept its session");
    drop(other);
    admin.wait_for_no_session(&one).await;
}

async fn a_killed_statement_leaves_its_session(server: Server) {
    let admin = Admin::connect(server).await;
    let name = unique_name("harness");
    let mut connection = connect_named(server, &name).await;
    let id = u64::from(connection.id());
    let kill = async {
        let sleeps = async || admin.sessions_named(&name).await.iter().any(|session| session.query.is_some());
        wait_until("the statement runs", sleeps).await;
        assert!(admin.kill_query(id).await);
    };
    // What it returns differs; that it returns is what counts: nobody waits for so long.
    let (_, ()) = tokio::join!(connection.query_drop("select sleep(3600)"), kill);
    connection.ping().await.expect("the session goes on");
    assert!(admin.kill(id).await);
    admin.wait_for_no_session_named(&name).await;
    assert!(!admin.kill(id).await, "it is gone");
}

async fn the_status_is_read(server: Server) {
    let admin = Admin::connect(server).await;
    assert!(admin.status("Threads_connected").await >= 1);
    let before = admin.status("Com_stmt_prepare").await;
    admin.number("select 1", ()).await;
    assert!(admin.status("Com_stmt_prepare").await > before);
    if server == Server::Mysql {
        assert!(admin.public_key().await.starts_with("-----BEGIN PUBLIC KEY-----"));
    }
}

async fn a_database_is_gone_when_it_is_dropped(server: Server) {
    let admin = Admin::connect(server).await;
    let database = OwnDatabase::create(server, "harness").await;
    let name = database.name().to_owned();
    let settings = database.settings().build().unwrap();
    assert_eq!(settings.database(), Some(name.as_str()));
    let mut user = connect(options(&server.url()).db_name(Some(&name))).await;
    user.query_drop("create table t (a int)").await.unwrap();
    user.query_drop("insert into t values (1)").await.unwrap();
    assert_eq!(database.admin().await.number("select count(*) from t", ()).await, 1);
    let count = "select count(*) from information_schema.schemata where schema_name = ?";
    let grants = "select count(*) from mysql.db where db = ?";
    assert_eq!(admin.number(count, (&name,)).await, 1);
    assert_eq!(admin.number(grants, (&name,)).await, 1);
    drop(database);
    assert_eq!(admin.number(count, (&name,)).await, 0);
    assert_eq!(admin.number(grants, (&name,)).await, 0);
}

async fn a_user_is_gone_when_it_is_dropped(server: Server) {
    let user = OwnUser::create(server, "identified by 'it''s äöü'").await;
    let log_in = || options(&server.url()).user(Some(user.name())).pass(Some("it's äöü"));
    let mut connection = connect(log_in()).await;
    let row: Option<i32> = connection.query_first("select count(*) from world").await.unwrap();
    assert_eq!(row, Some(10_000));
    let admin = Admin::connect(server).await;
    let (count, name) = ("select count(*) from mysql.user where user = ?", user.name().to_owned());
    assert_eq!(admin.number(count, (&name,)).await, 1);
    drop(user);
    assert_eq!(admin.number(count, (&name,)).await, 0);
}

async fn every_kind_of_user_is_there(server: Server) {
    let own: &[&str] = match server {
        Server::Mysql => &["SHA256"],
        Server::Mariadb => &["ED25519"],
    };
    let admin = Admin::connect(server).await;
    let there = "select count(*) from mysql.user where user = ?";
    for kind in ["EMPTY", "LONG", "SSL", "X509"].iter().chain(own) {
        let url = server.url_of(kind);
        let settings = settings(server, "harness").build().unwrap();
        assert_eq!(settings.user(), "cenote");
        let named: cenote_mysql::Settings = url.parse().unwrap();
        assert_eq!(admin.number(there, (named.user(),)).await, 1, "{url}");
    }
}

async fn a_proxy_counts_and_resets(server: Server) {
    let proxy = Proxy::start(&server.url());
    let rerouted = options(&server.url()).ip_or_hostname("127.0.0.1").tcp_port(proxy.port());
    let mut connection = connect(rerouted).await;
    proxy.replace(Direction::ToClient, b"before", b"behind");
    let text: Option<String> = connection.query_first("select 'before'").await.unwrap();
    assert_eq!(text.as_deref(), Some("behind"));
    assert_eq!((proxy.accepted(), proxy.open()), (1, 1));
    proxy.reset();
    assert!(connection.ping().await.is_err());
    wait_until("the connection was cut", async || proxy.open() == 0).await;
}

async fn a_private_server_stops_and_starts(server: Server) {
    let private = PrivateServer::mysql(server, "harness").await;
    let rows = "select count(*) from world";
    let admin = Admin::connect_to(private.admin_url()).await;
    assert_eq!(admin.number(rows, ()).await, 10_000);
    private.stop().await;
    assert!(Conn::new(options(private.url())).await.is_err());
    private.start().await;
    private.kill().await;
    private.start().await;
    let admin = Admin::connect_to(private.admin_url()).await;
    assert_eq!(admin.number(rows, ()).await, 10_000);
}

#[tokio::test]
async fn a_scripted_server_is_taken_for_a_real_one() {
    let server = scripted::Server::start(|session| session.serve());
    let mut connection = connect(options(&server.url(""))).await;
    for value in [0, 7, -1, i32::MIN, i32::MAX] {
        let echo: Option<i32> = connection.exec_first("select ?", (value,)).await.unwrap();
        assert_eq!(echo, Some(value));
    }
    let other: Option<i32> = connection.exec_first("select ? -- again", (5,)).await.unwrap();
    assert_eq!(other, Some(5));
    let packet_bytes: Option<(String, String)> =
        connection.query_first("select @@session.max_allowed_packet, @@wait_timeout").await.unwrap();
    assert_eq!(packet_bytes, Some(("67108864".to_owned(), "28800".to_owned())));
    connection.query_drop("set names utf8mb4").await.unwrap();
    connection.ping().await.unwrap();
    connection.disconnect().await.unwrap();
    assert_eq!(server.accepted(), 1);
}

#[tokio::test]
async fn a_scripted_server_has_a_pool() {
    let server = scripted::Server::start(|session| session.serve());
    let pool = server.pool("pool_size=1");
    for value in [0, 7, -1, i32::MIN, i32::MAX] {
        let row = pool.query_one("select ?", &[&value]).await.unwrap();
        assert_eq!(row.get::<_, i32>(0).unwrap(), value);
    }
}

#[tokio::test]
async fn a_script_sees_the_log_in_and_says_anything() {
    for plugin in ["caching_sha2_password", "mysql_native_password"] {
        let server = scripted::Server::start_raw(move |session| {
            let greeting = packet::Greeting { plugin: plugin.to_owned(), ..packet::Greeting::default() };
            let log_in = session.log_in_by(&greeting)?;
            assert_eq!((log_in.user.as_str(), log_in.database.as_deref()), ("tester", Some("scripted")));
            assert_eq!(log_in.plugin.as_deref(), Some(plugin));
            assert_eq!(log_in.auth_response.len(), if plugin.starts_with("caching") { 32 } else { 20 });
            session.serve_but(|request| match request {
                Request::Query { sql } if sql == "fail" => {
                    Some(packet::packets(&[packet::error(1064, "42000", "as the script says")]))
                }
                _ => None,
            })
        });
        let mut connection = connect(options(&server.url(""))).await;
        let error = connection.query_drop("fail").await.unwrap_err();
        assert!(error.to_string().contains("as the script says"), "{error}");
        connection.disconnect().await.unwrap();
    }
}

#[tokio::test]
#[should_panic(expected = "scripts panicked")]
async fn a_script_that_panics_fails_its_test() {
    let server = scripted::Server::start_raw(|_| panic!("on purpose"));
    let _ = Conn::new(options(&server.url(""))).await;
}
