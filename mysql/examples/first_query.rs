//! Asks the table that `scripts/servers` makes: `eval "$(scripts/servers env)"`, then `cargo run -p cenote-mysql --example first_query`.

use cenote_mysql::{Error, Pool};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let url = std::env::var("MYSQL_URL").unwrap_or_else(|_| "mysql://cenote@localhost/cenote".to_owned());
    let pool = Pool::open(&url)?;

    let row = pool.query_one("select id, randomnumber from world where id = ?", &[&42]).await?;
    let (id, number): (i32, i32) = (row.get("id")?, row.get("randomnumber")?);
    println!("world {id} has the number {number}");

    let executed = pool.execute("update world set randomnumber = ? where id = ?", &[&number, &id]).await?;
    println!("{} rows changed, {:?} was drawn", executed.affected_rows(), executed.last_insert_id());
    Ok(())
}
