//! The example of the README: `cargo run -p cenote-postgres --example first_query`, with `POSTGRES_URL` set.

use cenote_postgres::{Error, Pool};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let url = std::env::var("POSTGRES_URL").unwrap_or_else(|_| "postgres://cenote@localhost/cenote".to_owned());
    let pool = Pool::open(&url)?; // no I/O yet; equal settings give the same pool, whoever opens it

    let row = pool.query_one("select id, randomnumber from world where id = $1", &[&42]).await?;
    let (id, number): (i32, i32) = (row.get("id")?, row.get("randomnumber")?);
    println!("world {id} has the number {number}");

    let worlds: Vec<(i32, i32)> = pool.query_as("select * from world where id <= $1 order by id", &[&3]).await?;
    println!("{worlds:?}");

    // Several statements in one round trip and one transaction: all of them happen, or none.
    let swap = "update world set randomnumber = $1 where id = $2";
    let results =
        pool.batch().add(swap, &[&worlds[1].1, &worlds[0].0]).add(swap, &[&worlds[0].1, &worlds[1].0]).run().await?;
    println!("{} and {} rows changed", results[0].rows_affected(), results[1].rows_affected());
    Ok(())
}
