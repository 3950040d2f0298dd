//! Values go to MySQL and MariaDB and come back the same, in the binary and in the text protocol, or there is an error
//! that says why not.

mod dates;
mod numbers;
mod other_crates;
mod parameters;
mod results;
mod texts;

use std::fmt::Debug;
use std::sync::atomic::{AtomicUsize, Ordering};

use cenote_mysql::value::{FromValue, ToValue};
use cenote_mysql::{Pool, Row};
use cenote_tests::mysql::{Admin, OwnDatabase, Server};

/// A database of the test's own, and a pool of one connection that uses it.
struct Place {
    pool: Pool,
    admin: Admin,
    tables: AtomicUsize,
    // The last to go.
    _database: OwnDatabase,
}

/// Which protocols give a value back as it is.
#[derive(Clone, Copy, PartialEq)]
enum Protocols {
    Both,
    /// The server shortens it as text.
    BinaryAlone,
}

impl Place {
    async fn new(server: Server, test: &str) -> Place {
        let database = OwnDatabase::create(server, test).await;
        let pool = Pool::open(database.settings().pool_size(1).build().expect("the settings")).expect("the pool");
        Place { pool, admin: database.admin().await, tables: AtomicUsize::new(0), _database: database }
    }

    /// A table with a column `v` of this type; its name.
    async fn table(&self, sql_type: &str) -> String {
        let name = format!("t{}", self.tables.fetch_add(1, Ordering::Relaxed));
        self.admin.run(&format!("create table {name} (id int auto_increment primary key, v {sql_type})")).await;
        name
    }

    /// The value of `v` in a row, in the binary and in the text protocol.
    async fn both(&self, table: &str, id: u64) -> [Row; 2] {
        let what = format!("select v from {table} where id = ");
        let binary = self.pool.query_one(&format!("{what}?"), &[&id]).await;
        let text = self.pool.query_text(&format!("{what}{id}")).await;
        let (binary, mut text) = (binary.expect("it is there"), text.expect("it is there"));
        [binary, text.pop().expect("it is there")]
    }

    /// Stores what `sql` makes, by a session that allows anything; gives it back in both protocols.
    async fn made_by(&self, sql_type: &str, sql: &str) -> [Row; 2] {
        let table = self.table(sql_type).await;
        self.admin.run(&format!("set session sql_mode = ''; insert into {table} (v) values ({sql})")).await;
        self.both(&table, 1).await
    }

    /// Stores values of one type and gets them back, and NULL.
    async fn round_trip<T>(&self, sql_type: &str, values: impl IntoIterator<Item = T>)
    where
        T: ToValue + Sync + PartialEq + Debug + for<'a> FromValue<'a>,
    {
        self.round_trip_by(Protocols::Both, sql_type, values).await;
    }

    async fn round_trip_by<T>(&self, protocols: Protocols, sql_type: &str, values: impl IntoIterator<Item = T>)
    where
        T: ToValue + Sync + PartialEq + Debug + for<'a> FromValue<'a>,
    {
        let table = self.table(sql_type).await;
        let insert = format!("insert into {table} (v) values (?)");
        for value in values {
            let stored = self.pool.execute(&insert, &[&value]).await;
            let stored = stored.unwrap_or_else(|error| panic!("{sql_type} {value:?}: {error}"));
            let [binary, text] = self.both(&table, stored.last_insert_id().expect("an id is drawn")).await;
            assert_eq!(read::<T>(&binary), value, "{sql_type}");
            assert_eq!(read::<Option<T>>(&binary).as_ref(), Some(&value), "{sql_type}");
            let as_text = read::<T>(&text);
            assert!(
                protocols == Protocols::BinaryAlone || as_text == value,
                "{sql_type}: {value:?}, as text {as_text:?}"
            );
        }
        let stored = self.pool.execute(&insert, &[&None::<T>]).await;
        let stored = stored.unwrap_or_else(|error| panic!("{sql_type} NULL: {error}"));
        for row in self.both(&table, stored.last_insert_id().expect("an id is drawn")).await {
            assert_eq!(read::<Option<T>>(&row), None, "{sql_type}");
            let error = row.get::<_, T>(0).expect_err("NULL is no value");
            assert!(error.is_caller(), "{sql_type}: {error}");
        }
    }
}

/// The first value of a row.
fn read<'a, T: FromValue<'a>>(row: &'a Row) -> T {
    row.get(0).unwrap_or_else(|error| panic!("{:?}: {error}", row.columns()))
}
