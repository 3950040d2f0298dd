//! A MySQL and MariaDB driver that pipelines many callers' queries down each connection of one small pool, which the
//! whole process shares.

mod server_error;
mod settings;
mod wire;

pub use server_error::{ErrorCode, ServerError};
pub use settings::{
    AuthPlugin, Host, Password, Pipelining, Settings, SettingsBuilder, SettingsError, SslMode, SslRoots,
};
