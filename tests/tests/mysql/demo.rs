//! The demo's MySQL routes over real HTTP, on MySQL and on MariaDB, with Postgres beside it and without.

use std::collections::BTreeSet;

use cenote_demo::{Running, Settings};
use cenote_tests::demo_client::ask;
use cenote_tests::mysql::{Admin, Server};
use cenote_tests::{on_each_server, postgres_url};
use serde_json::Value;

fn start(mysql_url: Option<String>, postgres_url: Option<String>) -> Running {
    cenote_demo::start(Settings { mysql_url, postgres_url, ..Settings::for_tests() }).unwrap()
}

/// Whether the table has this row, by another driver.
async fn assert_in_table(admin: &Admin, world: &Value) {
    let (id, number) = (&world["id"], &world["randomNumber"]);
    let sql = format!("select count(*) from cenote.world where id = {id} and randomnumber = {number}");
    let rows = admin.number(&sql, ()).await;
    assert_eq!(rows, 1, "{world}");
}

on_each_server!(rows_are_those_of_the_table, a_demo_without_postgres_says_so);

async fn rows_are_those_of_the_table(server: Server) {
    let (demo, admin) = (start(Some(server.url()), Some(postgres_url())), Admin::connect(server).await);
    assert_eq!(demo.database_names(), ["Postgres", "MySQL"]);
    let mut ids = BTreeSet::new();
    for _ in 0..20 {
        let answer = ask(demo.address(), "/mysql/db").await;
        assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")), "{}", answer.body);
        assert_eq!(answer.body.as_object().map(|world| world.len()), Some(2), "{}", answer.body);
        assert_in_table(&admin, &answer.body).await;
        ids.insert(answer.body["id"].as_i64());
    }
    assert!(ids.len() > 10, "ids are drawn at random: {ids:?}");
    for (target, rows) in [("/mysql/queries", 1), ("/mysql/queries?n=20", 20), ("/mysql/queries?n=501", 500)] {
        let answer = ask(demo.address(), target).await;
        let worlds = answer.body.as_array().unwrap_or_else(|| panic!("{target}: {}", answer.body));
        assert_eq!((answer.status, worlds.len()), (200, rows), "{target}");
        assert_in_table(&admin, &worlds[rows - 1]).await;
    }
    assert_eq!(ask(demo.address(), "/db").await.status, 200, "Postgres beside it");
    let metrics = ask(demo.address(), "/metrics").await.body;
    let page = metrics.as_str().unwrap_or_default();
    let value = |name: &str, pool: &str| {
        let start = format!("cenote_pool_{name}{{pool=\"{pool}\"}} ");
        let value = page.lines().find_map(|line| line.strip_prefix(&start)?.parse::<f64>().ok());
        value.unwrap_or_else(|| panic!("no number for {start}in {page}"))
    };
    for pool in ["postgres", "mysql"] {
        for counted in ["replies_total", "turns_total", "lanes", "prepared"] {
            assert!(value(counted, pool) > 0.0, "{counted} of {pool}: {page}");
        }
        // The demo takes no leases, and nothing is slow in it.
        for none in ["leases", "waiting_for_lease", "leases_taken_total", "cancels_total", "overdue_total"] {
            assert_eq!(value(none, pool), 0.0, "{none} of {pool}: {page}");
        }
        assert!(value("oldest_statement_age_seconds", pool) >= 0.0);
    }
}

async fn a_demo_without_postgres_says_so(server: Server) {
    let demo = start(Some(server.url()), None);
    assert_eq!(demo.database_names(), ["MySQL"]);
    assert_eq!(ask(demo.address(), "/mysql/db").await.status, 200);
    let answer = ask(demo.address(), "/db").await;
    assert_eq!(answer.status, 503);
    assert!(answer.body["error"].as_str().is_some_and(|error| error.contains("POSTGRES_URL")), "{}", answer.body);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_demo_without_mysql_says_so() {
    let demo = start(None, Some(postgres_url()));
    assert_eq!(demo.database_names(), ["Postgres"]);
    assert_eq!(ask(demo.address(), "/db").await.status, 200);
    for target in ["/mysql/db", "/mysql/queries?n=2"] {
        let answer = ask(demo.address(), target).await;
        assert_eq!(answer.status, 503);
        assert!(answer.body["error"].as_str().is_some_and(|error| error.contains("MYSQL_URL")), "{}", answer.body);
    }
}
