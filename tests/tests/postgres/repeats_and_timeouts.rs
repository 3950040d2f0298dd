//! What a caller says of one statement: that it may run twice, or how long he waits for it.

use std::time::Duration;

use cenote_postgres::{Pool, SqlState};
use cenote_tests::{Admin, must_end, open, settings, wait_until};

const BLOCKED: &str = "select pg_advisory_xact_lock($1)";

/// A lock that somebody else holds.
async fn held_lock() -> (Admin, i64) {
    let (holder, lock) = (Admin::connect().await, i64::from(fastrand::u32(..)));
    holder.run(&format!("select pg_advisory_lock({lock})")).await;
    (holder, lock)
}

async fn is_blocked(admin: &Admin, pool: &Pool) -> bool {
    admin.backends(pool).await.iter().any(|backend| backend.wait_event_type.as_deref() == Some("Lock"))
}

/// A statement that may run twice survives the loss of its connection; one that may not is told that it was sent, and is
/// sent once.
#[tokio::test]
async fn what_may_run_twice_is_sent_again_and_nothing_else() {
    let (holder, lock) = held_lock().await;
    let admin = Admin::connect().await;
    for idempotent in [false, true] {
        let pool = open(settings("repeats").pool_size(2));
        let asked = tokio::spawn({
            let pool = pool.clone();
            async move {
                let parameters: [&(dyn cenote_postgres::types::ToSql + Sync); 1] = [&lock];
                let query = pool.query(BLOCKED, &parameters);
                if idempotent { query.idempotent().await } else { query.await }
            }
        });
        wait_until("the statement runs", async || is_blocked(&admin, &pool).await).await;
        admin.terminate(&pool).await;
        if idempotent {
            wait_until("it runs again", async || is_blocked(&admin, &pool).await).await;
            holder.run(&format!("select pg_advisory_unlock({lock})")).await;
            must_end("the second run", asked).await.unwrap().expect("it was sent again");
        } else {
            let error = must_end("the first run", asked).await.unwrap().unwrap_err();
            assert_eq!((error.is_network(), error.was_sent()), (true, Some(true)), "{error}");
        }
        assert_eq!(pool.stats().repeats, u64::from(idempotent));
    }
}

/// On a pool a deadline gives control back and leaves the connection to others; the server has its own limit.
#[tokio::test]
async fn a_deadline_on_a_pool_abandons_the_statement_alone() {
    let (holder, lock) = held_lock().await;
    let admin = Admin::connect().await;
    let pool = open(settings("deadline").pool_size(1));
    let error = pool.query(BLOCKED, &[&lock]).timeout(Duration::from_millis(100)).await.unwrap_err();
    assert_eq!((error.is_timeout(), error.was_sent()), (true, Some(true)), "{error}");
    assert!(is_blocked(&admin, &pool).await, "nobody stops it");
    let next = pool.query_one("select 7", &[]);
    let unlock = format!("select pg_advisory_unlock({lock})");
    let holding = holder.run(&unlock);
    let (next, ()) = must_end("who comes behind it", async { tokio::join!(next, holding) }).await;
    assert_eq!(next.unwrap().get::<_, i32>(0).unwrap(), 7, "his own answer");
    assert_eq!((pool.stats().overdue, pool.stats().connects), (1, 1));
}

/// In a lease the server is asked to stop it, and the lease goes on.
#[tokio::test]
async fn a_deadline_in_a_transaction_stops_the_statement() {
    let (_holder, lock) = held_lock().await;
    let pool = open(settings("deadline_tx").pool_size(2));
    let mut tx = pool.begin().await.unwrap();
    let savepoint = tx.savepoint().await.unwrap();
    let error = savepoint.query(BLOCKED, &[&lock]).timeout(Duration::from_millis(100)).await.unwrap_err();
    assert!(error.is_timeout(), "{error}");
    must_end("a rollback behind what was stopped", savepoint.rollback()).await.unwrap();
    let row = must_end("the next statement", tx.query_one("select 7", &[])).await.unwrap();
    assert_eq!(row.get::<_, i32>(0).unwrap(), 7);
    tx.commit().await.unwrap();
    assert_eq!((pool.stats().overdue, pool.stats().cancels), (1, 1));
}

/// The server's own limit is an error of the server, as ever.
#[tokio::test]
async fn the_servers_own_limit_is_told_by_its_code() {
    let pool = open(settings("server_limit").pool_size(1).options("-c statement_timeout=50ms".to_owned()));
    let error = must_end("the server's limit", pool.query("select pg_sleep(600)", &[])).await.unwrap_err();
    assert_eq!(error.code(), Some(SqlState::QUERY_CANCELED));
}
