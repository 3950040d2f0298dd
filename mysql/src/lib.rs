//! A MySQL and MariaDB driver that pipelines many callers' queries down each connection of one small pool, which the
//! whole process shares.

mod server_error;
mod wire;
