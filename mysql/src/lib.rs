//! A MySQL and MariaDB driver that pipelines many callers' queries down each connection of one small pool, which the
//! whole process shares.
//!
//! ```no_run
//! use cenote_mysql::{Error, Pool};
//!
//! # async fn example() -> Result<(), Error> {
//! let pool = Pool::open("mysql://app@localhost/shop?pool_size=8")?; // no I/O yet
//! let row = pool.query_one("select id, name from item where id = ?", &[&42]).await?;
//! let name: &str = row.get("name")?;
//! let executed = pool.execute("update item set stock = stock - 1 where id = ?", &[&42]).await?;
//! # let _ = (name, executed.affected_rows());
//! # Ok(())
//! # }
//! ```
//!
//! ```text
//!  query(sql, params) ─> statement (learned once; prepared once on each connection) ─> EXECUTE ─┐
//!                                                                                               v
//!                                                           cenote-pool: lanes, one write per turn
//!                                                                                               │
//!  Row: a view, decoded where it is read  <── reply bytes, as they came <───────────────────────┘
//! ```
//!
//! The verbs are those of `cenote-postgres`; values are in [`value`]. Each command has its own answer, so an error is its
//! caller's alone.
//!
//! A connection is shared, so what would change its session (`BEGIN`, `SET`, `USE`, user variables, `GET_LOCK`, ...) is
//! refused on a [`Pool`] with an error that names what to use: [`Pool::begin`] for a [`Transaction`], [`Pool::lease`] for a
//! connection of one's own, which is also where stored procedures are called. Not there yet: streams, compression. Never
//! there: LOCAL INFILE, which lets a server ask for any file.

mod ask;
mod auth;
mod call;
mod error;
mod firewall;
mod from_row;
mod language;
mod lease;
mod leaving;
mod login;
mod pipelining;
mod pool;
mod query;
mod raw_result;
mod reply;
mod row;
mod server_error;
mod settings;
mod statement;
mod transaction;
pub mod value;
mod verbs;
mod wire;

pub use ask::{Query, TimedQuery};
pub use call::ResultSet;
pub use cenote_pool::{LaneStats, LeaseStats, PoolStats};
pub use error::Error;
pub use from_row::FromRow;
pub use lease::{Canceller, Lease};
pub use pool::{IntoSettings, Pool};
pub use query::Executed;
pub use raw_result::RawResult;
pub use row::{Row, RowIndex};
pub use server_error::{ErrorCode, ServerError};
pub use settings::{
    AuthPlugin, Host, Password, Pipelining, Settings, SettingsBuilder, SettingsError, SslMode, SslRoots,
};
pub use transaction::{IsolationLevel, Transaction, TransactionOptions};
pub use wire::column::Column;
pub use wire::column_type::ColumnType;
