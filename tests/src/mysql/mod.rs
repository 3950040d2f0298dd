//! The same means for MySQL and MariaDB: under the same names, in a module of their own.
//!
//! A test of both is written once, for a [`Server`], and runs on each ([`on_each_server`](crate::on_each_server)).

mod admin;
mod own_database;
mod own_pool;
mod own_user;
pub mod scripted;
mod server;

pub use admin::{Admin, Session};
pub use own_database::OwnDatabase;
pub use own_pool::{open, settings, settings_at};
pub use own_user::OwnUser;
pub use server::Server;
