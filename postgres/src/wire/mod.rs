//! The wire: messages to the server, and where its replies end. Bytes only: no socket, no clock.
//!
//! Source: protocol chapters "Message Flow" and "Message Formats", version 3.0.

pub(crate) mod backend;
pub(crate) mod framer;
pub(crate) mod frontend;
