//! A Postgres driver that pipelines many callers' queries down each connection of one small pool, which the whole
//! process shares.
//!
//! ```no_run
//! use cenote_postgres::{Error, Pool};
//!
//! # async fn example() -> Result<(), Error> {
//! let pool = Pool::open("postgres://app@localhost/shop?pool_size=8")?; // no I/O yet
//! let row = pool.query_one("select id, name from item where id = $1", &[&42]).await?;
//! let name: &str = row.get("name")?;
//! let changed = pool.execute("update item set stock = stock - 1 where id = $1", &[&42]).await?;
//! # let _ = (name, changed);
//! # Ok(())
//! # }
//! ```
//!
//! ```text
//!  query(sql, params) ─> statement (learned once) ─> Bind/Execute/Sync ─┐
//!                                                                       v
//!                                                   cenote-pool: lanes, one write per turn
//!                                                                       │
//!  Row: a view, decoded where it is read  <── reply bytes, as they came ┘
//! ```
//!
//! Names follow tokio-postgres and values are those of `postgres-types`. Each statement travels with a Sync of its
//! own, so that an error is its caller's alone; [`Pool::batch`] puts several statements of one caller under one Sync,
//! which makes them one transaction.
//!
//! A connection is shared, so what would change its session (`BEGIN`, `SET`, temporary tables, ...) is refused on a [`Pool`]
//! with an error that names what to use: [`Pool::begin`] for a [`Transaction`], [`Pool::lease`] for a connection of one's
//! own. Not there yet: `COPY`, `LISTEN`, streams.

mod ask;
mod auth;
mod batch;
mod error;
mod firewall;
mod from_row;
mod language;
mod lease;
mod leaving;
mod login;
mod own_session;
mod pool;
mod query;
mod raw_result;
mod reply;
mod row;
mod server_error;
mod settings;
mod statement;
mod transaction;
mod type_catalogue;
mod verbs;
mod wire;

pub use ask::{Query, TimedQuery};
pub use batch::{Batch, BatchResult};
pub use cenote_pool::{LaneStats, LeaseStats, PoolStats, TlsVersion};
pub use error::Error;
pub use from_row::FromRow;
pub use lease::{Canceller, Lease};
pub use pool::{IntoSettings, Pool};
pub use raw_result::RawResult;
pub use row::{Column, Row, RowIndex};
pub use server_error::{Notice, ServerError, Severity, SqlState};
pub use settings::{
    AuthMethod, ChannelBinding, Host, Password, Settings, SettingsBuilder, SettingsError, SslMode, SslNegotiation,
    SslRootCert,
};

pub use transaction::{IsolationLevel, Transaction, TransactionOptions};

/// The values: traits and types of the `postgres-types` crate.
pub use postgres_types as types;
