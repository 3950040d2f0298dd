//! The means of the tests, tested: what they say must be true before anything is judged by them.

use cenote_tests::{Admin, Direction, OwnSchema, PrivateServer, Proxy, open, postgres_url, settings, wait_until};

#[tokio::test]
async fn a_pool_of_a_test_is_told_from_all_others() {
    let admin = Admin::connect().await;
    let (one, other) = (open(settings("harness").pool_size(1)), open(settings("harness").pool_size(1)));
    let mut pids = Vec::new();
    for pool in [&one, &other] {
        let row = pool.query_one("select pg_backend_pid()", &[]).await.unwrap();
        let pid: i32 = row.get(0).unwrap();
        assert_eq!(admin.backends(pool).await.iter().map(|backend| backend.pid).collect::<Vec<_>>(), [pid]);
        pids.push(pid);
    }
    assert_eq!(admin.terminate(&one).await, 1);
    assert_eq!(admin.backends(&other).await.len(), 1, "the other pool has kept its session");
}

#[tokio::test]
async fn a_schema_is_gone_when_it_is_dropped() {
    let admin = Admin::connect().await;
    let schema = OwnSchema::create("harness").await;
    let name = schema.name().to_owned();
    let pool = open(schema.settings());
    pool.execute("create table t (a int)", &[]).await.unwrap();
    pool.execute("insert into t values (1)", &[]).await.unwrap();
    let count = "select count(*) from pg_namespace where nspname = $1";
    assert_eq!(schema.admin().await.number("select count(*) from t", &[]).await, 1);
    assert_eq!(admin.number(count, &[&name]).await, 1);
    drop(schema);
    assert_eq!(admin.number(count, &[&name]).await, 0);
}

#[tokio::test]
async fn a_proxy_stalls_replaces_and_resets() {
    let proxy = Proxy::start(&postgres_url());
    let pool = open(proxy.through(settings("harness")).pool_size(1));
    let text = async || pool.query_one("select 'before'::text", &[]).await.map(|row| row.get::<_, String>(0).unwrap());
    assert_eq!(text().await.unwrap(), "before");
    assert!(proxy.bytes(Direction::ToServer) > 0 && proxy.bytes(Direction::ToClient) > 0);

    proxy.replace(Direction::ToClient, b"before", b"behind");
    assert_eq!(text().await.unwrap(), "behind");

    proxy.stall(Direction::ToClient);
    let sent = proxy.bytes(Direction::ToServer);
    let mut stalled = Box::pin(text());
    let both = async {
        tokio::select! {
            biased;
            _ = &mut stalled => panic!("an answer came through a stalled proxy"),
            () = wait_until("the query has reached the server", async || proxy.bytes(Direction::ToServer) > sent) => {}
        }
    };
    both.await;
    proxy.resume(Direction::ToClient);
    assert_eq!(stalled.await.unwrap(), "behind");

    assert_eq!((proxy.accepted(), proxy.open()), (1, 1));
    proxy.reset();
    wait_until("the connection was cut", async || proxy.open() == 0).await;
    wait_until("the pool has noticed", async || pool.stats().connections_lost == 1).await;
}

#[tokio::test]
async fn a_private_server_stops_and_starts() {
    let server = PrivateServer::postgres("harness").await;
    let version = "select current_setting('server_version_num')::int8";
    let admin = Admin::connect_to(server.admin_url()).await;
    assert!(admin.number(version, &[]).await >= 180_000);
    server.stop().await;
    assert!(tokio_postgres::connect(server.url(), tokio_postgres::NoTls).await.is_err());
    server.start().await;
    server.kill().await;
    server.start().await;
    let admin = Admin::connect_to(server.admin_url()).await;
    assert!(admin.number(version, &[]).await >= 180_000);
}
