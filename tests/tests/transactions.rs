//! Transactions on connections of their own: all or nothing, whoever vanishes, and nobody else ever in them.

use cenote_postgres::{Error, Pool};
use cenote_tests::{OwnSchema, open, wait_until};

async fn accounts(test: &str) -> (OwnSchema, Pool) {
    let schema = OwnSchema::create(test).await;
    let pool = open(schema.settings().pool_size(4));
    pool.execute("create table account(id int primary key, balance bigint not null)", &[]).await.unwrap();
    pool.execute("insert into account values (1, 100), (2, 100)", &[]).await.unwrap();
    (schema, pool)
}

async fn balance(pool: &Pool, id: i32) -> i64 {
    pool.query_one("select balance from account where id = $1", &[&id]).await.unwrap().get(0).unwrap()
}

#[tokio::test]
async fn what_is_committed_stays_and_what_is_not_does_not() {
    let (_schema, pool) = accounts("commit").await;
    let tx = pool.begin().await.unwrap();
    assert_eq!(tx.execute("update account set balance = balance - 10 where id = $1", &[&1]).await.unwrap(), 1);
    assert_eq!(balance(&pool, 1).await, 100, "nobody else sees it before");
    tx.execute("update account set balance = balance + 10 where id = $1", &[&2]).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!((balance(&pool, 1).await, balance(&pool, 2).await), (90, 110));
    let tx = pool.begin().await.unwrap();
    tx.execute("update account set balance = 0", &[]).await.unwrap();
    tx.rollback().await.unwrap();
    let tx = pool.begin().await.unwrap();
    tx.execute("update account set balance = 0", &[]).await.unwrap();
    drop(tx);
    assert_eq!((balance(&pool, 1).await, balance(&pool, 2).await), (90, 110));
    let _: Result<(), Error> = pool.begin().await.unwrap().commit().await;
    wait_until("all leases are back", async || pool.stats().leases.is_empty()).await;
}
