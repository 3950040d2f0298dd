//! A MySQL and MariaDB driver that pipelines many callers' queries down each connection of one small pool, which the
//! whole process shares.

mod ask;
mod auth;
mod error;
mod firewall;
mod from_row;
mod language;
mod login;
mod pipelining;
mod pool;
mod query;
mod reply;
mod row;
mod server_error;
mod settings;
mod statement;
pub mod value;
mod wire;

pub use cenote_pool::{LaneStats, PoolStats};
pub use error::Error;
pub use from_row::FromRow;
pub use pool::{IntoSettings, Pool};
pub use query::Executed;
pub use row::{Row, RowIndex};
pub use server_error::{ErrorCode, ServerError};
pub use settings::{
    AuthPlugin, Host, Password, Pipelining, Settings, SettingsBuilder, SettingsError, SslMode, SslRoots,
};
pub use wire::column::Column;
pub use wire::column_type::ColumnType;
