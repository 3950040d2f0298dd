//! Replies are collected while the server has a long backlog, so that a thread is woken for several at once. None may
//! stand still for that: not behind a slow statement, and not when the load ends.

use cenote_postgres::Pool;
use cenote_tests::{OwnSchema, must_end, open};
use tokio::task::JoinSet;

async fn look_up(pool: Pool, number: i32) {
    let row = pool.query_one("select $1::int4", &[&number]).await.expect("an answer");
    assert_eq!(row.get::<_, i32>(0).unwrap(), number);
}

/// So many look-ups, asked in one turn.
fn ask(pool: &Pool, count: i32) -> JoinSet<()> {
    (0..count).map(|number| look_up(pool.clone(), number)).collect()
}

async fn all_end(what: &str, mut callers: JoinSet<()>) {
    while let Some(ended) = must_end(what, callers.join_next()).await {
        ended.expect("no caller panics");
    }
}

/// By then the pool knows how far the server is, how fast, and how long its replies are.
async fn warm_up(pool: &Pool) {
    for _ in 0..20 {
        all_end("the first look-ups", ask(pool, 48)).await;
    }
}

#[tokio::test(flavor = "current_thread")]
async fn what_was_answered_before_a_slow_statement_is_told() {
    let schema = OwnSchema::create("collected").await;
    let pool = open(schema.settings().pool_size(1));
    pool.execute("create table held (id int primary key)", &[]).await.unwrap();
    pool.execute("insert into held values (1)", &[]).await.unwrap();
    let lock = "select id from held for update";
    pool.query_one(lock, &[]).await.unwrap();
    warm_up(&pool).await;
    for _ in 0..10 {
        let holder = schema.admin().await;
        holder.run("begin; select * from held for update").await;
        let before = ask(&pool, 10);
        let slow = tokio::spawn({
            let pool = pool.clone();
            async move { pool.query_one(lock, &[]).await }
        });
        let behind = ask(&pool, 40);
        // The server answers these and then waits for the row: so little may never fill what is collected.
        all_end("look-ups before a statement that waits for a lock", before).await;
        holder.run("rollback").await;
        must_end("the statement that waited for the lock", slow).await.unwrap().expect("the row");
        all_end("look-ups behind it", behind).await;
    }
}

#[tokio::test(flavor = "current_thread")]
async fn nothing_stands_still_when_the_load_ends() {
    let schema = OwnSchema::create("collected").await;
    let pool = open(schema.settings().pool_size(2));
    warm_up(&pool).await;
    // Every depth at which the last replies could be too few.
    for count in 1..=130 {
        all_end("the last look-ups", ask(&pool, count)).await;
    }
}
