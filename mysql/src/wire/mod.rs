//! The bytes of the client/server protocol: packets, commands, replies. No socket, no clock, no tokio.

pub(crate) mod cursor;
pub(crate) mod packet;
pub(crate) mod status;
