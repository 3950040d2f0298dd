//! The bytes of the client/server protocol: packets, commands, replies. No socket, no clock, no tokio.

pub(crate) mod binary_row;
pub(crate) mod column;
pub(crate) mod column_type;
pub(crate) mod cursor;
pub(crate) mod framer;
pub(crate) mod frontend;
pub(crate) mod handshake;
pub(crate) mod packet;
pub(crate) mod status;
pub(crate) mod text_row;
