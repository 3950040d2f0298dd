//! One text of SQL that means other tables, and other types, in one session than in another.

use cenote_postgres::Pool;
use cenote_tests::{OwnSchema, open};

const DELETE: &str = "delete from shadowed where a = $1";

async fn pool_with_table(test: &str) -> (OwnSchema, Pool) {
    let schema = OwnSchema::create(test).await;
    let pool = open(schema.settings().pool_size(2));
    pool.execute("create table shadowed(a bigint)", &[]).await.unwrap();
    (schema, pool)
}

/// What a lease makes known of a text is no reason to refuse the pool's values, nor the other way round.
#[tokio::test]
async fn a_temporary_table_of_other_types_spoils_nobodys_text() {
    let (_schema, pool) = pool_with_table("shadowed").await;
    for _ in 0..2 {
        let lease = pool.lease().await.unwrap();
        lease.execute("create temp table shadowed(a text)", &[]).await.unwrap();
        assert_eq!(lease.execute(DELETE, &[&"x"]).await.expect("the lease's own table"), 0);
        drop(lease);
        for _ in 0..3 {
            assert_eq!(pool.execute(DELETE, &[&99_i64]).await.expect("the pool's table"), 0);
        }
    }
}

/// A schema for each tenant: the same text, another table, in transactions that follow each other on one connection.
#[tokio::test]
async fn a_search_path_of_a_transactions_own_is_followed() {
    let (schema, pool) = pool_with_table("tenants").await;
    let other = OwnSchema::create("tenants_other").await;
    other.admin().await.run("create table shadowed(a text, b int)").await;
    schema.admin().await.run(&format!("grant all on all tables in schema {} to cenote", other.name())).await;
    for _ in 0..3 {
        for (name, columns) in [(schema.name(), 1), (other.name(), 2)] {
            let tx = pool.begin().await.unwrap();
            tx.execute(&format!("set local search_path to {name}"), &[]).await.unwrap();
            tx.execute("insert into shadowed default values", &[]).await.unwrap();
            let rows = tx.query("select * from shadowed limit 1", &[]).await.expect("the tenant's own table");
            assert_eq!(rows[0].columns().len(), columns);
            tx.rollback().await.unwrap();
        }
    }
}
