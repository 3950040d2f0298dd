//! Stored procedures on leases, on MySQL and MariaDB: all of their results, in both protocols, and what stops them.

use std::time::Duration;

use cenote_mysql::{ErrorCode, Lease, Pool, ResultSet};
use cenote_tests::mysql::{Admin, OwnDatabase, Server, open, settings};
use cenote_tests::{Direction, Proxy, drop_after_polls, must_end, on_each_server, wait_until};
use futures_util::future::join_all;

on_each_server!(
    a_call_returns_all_its_results_in_both_protocols,
    out_parameters_come_as_a_result_or_as_user_variables,
    a_call_that_fails_in_its_middle_is_an_error_and_the_lease_goes_on,
    one_result_with_rows_is_read_as_a_query_and_more_are_not,
    calls_stay_in_step_with_what_is_asked_beside_them,
    a_canceller_stops_what_runs_and_nothing_that_comes_later,
    many_who_stop_the_same_statement_share_one_request,
    a_cancel_may_be_dropped_at_any_poll,
    what_still_runs_when_its_lease_is_dropped_is_stopped,
    a_timeout_in_a_transaction_stops_the_statement,
);

async fn procedures(server: Server, test: &str) -> (OwnDatabase, Pool) {
    let database = OwnDatabase::create(server, test).await;
    let pool = open(database.settings().pool_size(3));
    for sql in [
        "create table item (id int primary key)",
        "create procedure three(n int) begin \
         select n as a, 'one' as b; insert into item values (n); select id from item where 1 = 0; \
         select n + 1 as c union all select n + 2; end",
        "create procedure out_of(n int, out doubled int, inout changed varchar(20)) begin \
         select n; set doubled = n * 2, changed = concat(changed, '!'); end",
        "create procedure fails(n int) begin select n; insert into item values (n); insert into item values (n); \
         select 'never'; end",
        "create procedure quiet(n int) insert into item values (n), (n + 1)",
    ] {
        pool.execute(sql, &[]).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    (database, pool)
}

/// The numbers in the first column of each result; `None` of one without rows.
fn numbers(results: &[ResultSet]) -> Vec<Option<Vec<i64>>> {
    let numbers = |result: &ResultSet| {
        result.columns()?;
        Some(result.rows().iter().map(|row| row.get(0).unwrap()).collect())
    };
    results.iter().map(numbers).collect()
}

async fn a_call_returns_all_its_results_in_both_protocols(server: Server) {
    let (_database, pool) = procedures(server, "three").await;
    let lease = pool.lease().await.unwrap();
    let expected = |n| vec![Some(vec![n]), Some(vec![]), Some(vec![n + 1, n + 2]), None];
    for n in [10, 20] {
        let results = lease.call("call three(?)", &[&n]).await.unwrap();
        assert_eq!(numbers(&results), expected(n));
        assert_eq!(results[0].rows()[0].get::<_, &str>("b").unwrap(), "one");
        assert_eq!(results[1].columns().unwrap()[0].name(), "id");
        assert!(results.iter().all(|result| !result.is_out_parameters()));
    }
    assert_eq!(numbers(&lease.call_text("call three(30)").await.unwrap()), expected(30));
    // In a transaction as well.
    drop(lease);
    let tx = pool.begin().await.unwrap();
    assert_eq!(numbers(&tx.call("call three(?)", &[&40]).await.unwrap()), expected(40));
    tx.rollback().await.unwrap();
    let ids = pool.query_as::<(i64,)>("select id from item order by id", &[]).await.unwrap();
    assert_eq!(ids, [(10,), (20,), (30,)]);
    // Nothing of it on a shared connection.
    let error = pool.execute("call three(?)", &[&50]).await.unwrap_err();
    assert!(error.is_caller() && error.to_string().contains("`pool.lease()`"), "{error}");
    assert_eq!((pool.stats().quarantines, pool.stats().leases_closed), (0, 0));
}

async fn out_parameters_come_as_a_result_or_as_user_variables(server: Server) {
    let (_database, pool) = procedures(server, "out_of").await;
    let lease = pool.lease().await.unwrap();
    for _ in 0..2 {
        let results = lease.call("call out_of(?, ?, ?)", &[&21, &None::<i64>, &"changed"]).await.unwrap();
        let out: Vec<_> = results.iter().filter(|result| result.is_out_parameters()).collect();
        let [out] = out[..] else { panic!("{results:?}") };
        assert_eq!(out.rows()[0].get::<_, i64>(0).unwrap(), 42);
        assert_eq!(out.rows()[0].get_bytes(1).unwrap(), Some(&b"changed!"[..]));
        assert_eq!(results[0].rows()[0].get::<_, i64>(0).unwrap(), 21);
    }
    lease.execute("set @changed = ?", &[&"text"]).await.unwrap();
    let results = lease.call_text("call out_of(4, @doubled, @changed)").await.unwrap();
    assert_eq!(numbers(&results), [Some(vec![4]), None]);
    let row = lease.query_one("select @doubled, @changed", &[]).await.unwrap();
    assert_eq!(row.get::<_, i64>(0).unwrap(), 8);
    assert_eq!(row.get_bytes(1).unwrap(), Some(&b"text!"[..]));
    drop(lease);
    wait_until("it is back", async || pool.stats().leases.is_empty()).await;
    let lease = pool.lease().await.unwrap();
    let left = lease.query_one("select @doubled is null", &[]).await.unwrap();
    assert_eq!(left.get::<_, i64>(0).unwrap(), 1, "and nothing of it is left for the next");
}

async fn a_call_that_fails_in_its_middle_is_an_error_and_the_lease_goes_on(server: Server) {
    let (_database, pool) = procedures(server, "fails").await;
    let lease = pool.lease().await.unwrap();
    for n in [1, 2] {
        let error = lease.call("call fails(?)", &[&n]).await.unwrap_err();
        assert_eq!(error.code(), Some(ErrorCode::DUPLICATE_ENTRY), "{error}");
    }
    let error = lease.call_text("call fails(3)").await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::DUPLICATE_ENTRY), "{error}");
    let error = lease.query("call fails(?)", &[&4]).await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::DUPLICATE_ENTRY), "{error}");
    let error = lease.execute("call fails(?)", &[&5]).await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::DUPLICATE_ENTRY), "{error}");
    assert_eq!(lease.query("select id from item", &[]).await.unwrap().len(), 5, "what it did before stays");
    let tx = pool.begin().await.unwrap();
    tx.call("call fails(?)", &[&6]).await.unwrap_err();
    tx.execute("insert into item values (7)", &[]).await.expect("it is still open");
    tx.rollback().await.unwrap();
    assert_eq!(lease.query("select id from item", &[]).await.unwrap().len(), 5);
}

async fn one_result_with_rows_is_read_as_a_query_and_more_are_not(server: Server) {
    let (_database, pool) = procedures(server, "as_query").await;
    pool.execute("create procedure one(n int) select n, n * n", &[]).await.unwrap();
    let lease = pool.lease().await.unwrap();
    assert_eq!(lease.query_as::<(i64, i64)>("call one(?)", &[&3]).await.unwrap(), [(3, 9)]);
    assert_eq!(lease.query_one("call one(?)", &[&4]).await.unwrap().get::<_, i64>(1).unwrap(), 16);
    assert_eq!(lease.query_text("call one(5)").await.unwrap()[0].get::<_, i64>(1).unwrap(), 25);
    assert_eq!(lease.execute("call quiet(?)", &[&100]).await.unwrap().affected_rows(), 2);
    assert!(lease.query("call quiet(?)", &[&200]).await.unwrap().is_empty());
    lease.execute("call three(?)", &[&10]).await.expect("who wants no rows wants none of them");
    for outcome in [lease.query("call three(?)", &[&20]).await, lease.query_text("call three(30)").await] {
        let error = outcome.unwrap_err();
        assert!(error.is_caller() && error.to_string().contains("`call`"), "{error}");
    }
    let ids = lease.query("select id from item where id < 100", &[]).await.unwrap();
    assert_eq!(ids.len(), 3, "all of them have run");
}

/// asyncmy 103, mysql2: packets out of order.
async fn calls_stay_in_step_with_what_is_asked_beside_them(server: Server) {
    let (_database, pool) = procedures(server, "in_step").await;
    let lease = pool.lease().await.unwrap();
    for round in 0..20_i64 {
        let n = round * 10;
        let (before, results, text, after) = must_end("calls among queries", async {
            tokio::join!(
                async { lease.query_one("select ?", &[&n]).await },
                async { lease.call("call three(?)", &[&n]).await },
                lease.call_text("call out_of(1, @a, @b)"),
                async { lease.query_one("select ?", &[&(n + 5)]).await },
            )
        })
        .await;
        assert_eq!(before.unwrap().get::<_, i64>(0).unwrap(), n);
        assert_eq!(numbers(&results.unwrap()), [Some(vec![n]), Some(vec![]), Some(vec![n + 1, n + 2]), None]);
        assert_eq!(text.unwrap().len(), 2);
        assert_eq!(after.unwrap().get::<_, i64>(0).unwrap(), n + 5);
    }
    assert_eq!(pool.stats().connections_lost, 0);
}

async fn is_sleeping(admin: &Admin, pool: &Pool) -> bool {
    admin.sessions(pool).await.iter().any(|session| session.state.contains("sleep"))
}

/// MySQL bug 45679, MySqlConnector 248.
async fn a_canceller_stops_what_runs_and_nothing_that_comes_later(server: Server) {
    let (_database, pool) = procedures(server, "canceller").await;
    let admin = Admin::connect(server).await;
    pool.execute("insert into item values (1)", &[]).await.unwrap();
    let slow = "create procedure slow() begin select sleep(3600) from item; insert into item values (99); end";
    pool.execute(slow, &[]).await.unwrap();
    for in_transaction in [false, true] {
        let mut lease = pool.lease().await.unwrap();
        let canceller = lease.canceller();
        assert!(!canceller.cancel().await.unwrap(), "nothing runs");
        let outcome = if in_transaction {
            let tx = lease.begin();
            let slow = async { tx.call("call slow()", &[]).await };
            let (slow, stopped) = must_end("a call that is stopped", async {
                tokio::join!(slow, async {
                    wait_until("it runs", async || is_sleeping(&admin, &pool).await).await;
                    canceller.cancel().await
                })
            })
            .await;
            assert!(stopped.unwrap());
            tx.execute("insert into item values (98)", &[]).await.expect("the transaction goes on");
            tx.rollback().await.unwrap();
            slow
        } else {
            let (slow, stopped) = must_end("a call that is stopped", async {
                tokio::join!(async { lease.call("call slow()", &[]).await }, async {
                    wait_until("it runs", async || is_sleeping(&admin, &pool).await).await;
                    canceller.cancel().await
                })
            })
            .await;
            assert!(stopped.unwrap());
            slow
        };
        let error = outcome.unwrap_err();
        assert_eq!(error.code(), Some(ErrorCode::QUERY_INTERRUPTED), "{error}");
        for number in 0..10_i64 {
            let row = lease.query_one("select ?", &[&number]).await.expect("what comes later is not stopped");
            assert_eq!(row.get::<_, i64>(0).unwrap(), number);
        }
        drop(lease);
        wait_until("it is back", async || pool.stats().leases.is_empty()).await;
        assert!(!canceller.cancel().await.unwrap(), "it is not his any more");
    }
    assert_eq!(pool.query("select id from item", &[]).await.unwrap().len(), 1);
    assert_eq!(pool.stats().connections_lost, 0);
}

/// The lease's slow statement, stopped by `stop` once it runs.
async fn stopped_by(pool: &Pool, admin: &Admin, lease: &Lease, stop: impl Future<Output = ()>) {
    let stop = async {
        wait_until("it runs", async || is_sleeping(admin, pool).await).await;
        stop.await;
    };
    // Either an error or a sleep that was cut short, as the server likes.
    let slow = async { drop(lease.query("select sleep(3600)", &[]).await) };
    must_end("a statement that is stopped", async { tokio::join!(slow, stop) }).await;
    let row = lease.query_one("select 7", &[]).await.expect("what comes later is not stopped");
    assert_eq!(row.get::<_, i64>(0).unwrap(), 7);
}

/// However often one asks, there is one connection more, and not a hundred.
async fn many_who_stop_the_same_statement_share_one_request(server: Server) {
    let (admin, proxy) = (Admin::connect(server).await, Proxy::start(&server.url()));
    // Of one connection, so that a request needs another.
    let pool = open(proxy.through(settings(server, "cancel_many").pool_size(1)));
    let lease = pool.lease().await.unwrap();
    let canceller = lease.canceller();
    let stop = async {
        proxy.stall(Direction::ToServer);
        let all = join_all((0..100).map(|_| canceller.cancel()));
        let begun = async {
            wait_until("the request is on its way", async || proxy.accepted() > 1).await;
            proxy.resume(Direction::ToServer);
        };
        let (all, ()) = tokio::join!(biased; all, begun);
        for told in all {
            assert!(told.expect("the server was told"));
        }
    };
    stopped_by(&pool, &admin, &lease, stop).await;
    assert_eq!((pool.stats().cancels, proxy.accepted()), (1, 2));
    // The next is a request of its own.
    stopped_by(&pool, &admin, &lease, async { assert!(canceller.cancel().await.unwrap()) }).await;
    assert_eq!((pool.stats().cancels, proxy.accepted()), (2, 3));
}

async fn a_cancel_may_be_dropped_at_any_poll(server: Server) {
    let admin = Admin::connect(server).await;
    let pool = open(settings(server, "cancel_polls").pool_size(2));
    let lease = pool.lease().await.unwrap();
    let canceller = lease.canceller();
    for polls in 0..=12 {
        let stop = async {
            drop(drop_after_polls(polls, canceller.cancel()).await);
            if polls == 0 {
                assert_eq!(pool.stats().cancels, 0, "it was never polled");
                assert!(canceller.cancel().await.unwrap());
            }
        };
        stopped_by(&pool, &admin, &lease, stop).await;
        assert_eq!(pool.stats().cancels, polls as u64 + 1, "after {polls} polls");
    }
    drop(lease);
    wait_until("it is back", async || pool.stats().leases.is_empty()).await;
    assert_eq!((pool.stats().connections_lost, pool.stats().leases_closed), (0, 0));
}

/// go 1.9.3: and nobody has to come for that.
async fn what_still_runs_when_its_lease_is_dropped_is_stopped(server: Server) {
    let (database, pool) = procedures(server, "still_runs").await;
    let admin = database.admin().await;
    for round in 0..3 {
        let running = tokio::spawn({
            let pool = pool.clone();
            async move {
                let tx = pool.begin().await?;
                tx.execute("insert into item values (1)", &[]).await?;
                tx.query("select sleep(3600) from item", &[]).await?;
                tx.commit().await
            }
        });
        wait_until("it runs", async || is_sleeping(&admin, &pool).await).await;
        running.abort();
        wait_until("it is stopped", async || !is_sleeping(&admin, &pool).await).await;
        must_end("a row that nobody has", admin.run("insert into item values (1)")).await;
        admin.run("delete from item").await;
        wait_until("it is back, or gone", async || pool.stats().leases.is_empty()).await;
        for number in 0..20_i64 {
            let row = pool.query_one("select ?", &[&number]).await.expect("nobody else is stopped");
            assert_eq!(row.get::<_, i64>(0).unwrap(), number, "round {round}");
        }
    }
}

async fn a_timeout_in_a_transaction_stops_the_statement(server: Server) {
    let (_database, pool) = procedures(server, "timeout").await;
    let mut tx = pool.begin().await.unwrap();
    let savepoint = tx.savepoint().await.unwrap();
    let slow = savepoint.query("select sleep(3600)", &[]).timeout(Duration::from_millis(100));
    let error = slow.await.unwrap_err();
    assert!(error.is_timeout(), "{error}");
    must_end("a rollback behind what was stopped", savepoint.rollback()).await.unwrap();
    let row = must_end("the next statement", tx.query_one("select 7", &[])).await.unwrap();
    assert_eq!(row.get::<_, i64>(0).unwrap(), 7);
    tx.commit().await.unwrap();
    assert_eq!((pool.stats().overdue, pool.stats().cancels), (1, 1));
}
