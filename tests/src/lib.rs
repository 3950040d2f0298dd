//! What the integration tests need besides the drivers: addresses of the servers, a second and independent way to
//! look at a server, and means to break things on purpose.
//!
//! The tests are in `tests/`. They run beside each other, in one process or in many, so each has its own: a pool
//! with a name that nobody else uses ([`settings`]), tables in its own schema ([`OwnSchema`]), where it has to a
//! server of its own ([`PrivateServer`]). They wait for conditions ([`wait_until`]), never for a time; what ought to
//! end and does not is a failure that says what it was ([`must_end`]), not a test that hangs.
//!
//! The servers are those of `scripts/servers`; nothing here starts the shared ones.

mod admin;
mod certificates;
mod chaos;
mod closed_port;
pub mod demo_client;
mod environment;
pub mod mysql;
mod no_runtime;
mod own_pool;
mod own_schema;
mod polls;
mod private_server;
mod proxy;
pub mod scripted;
pub mod soak;
mod stage;
mod tls_server;
mod wait;

pub use admin::{Admin, Backend};
pub use certificates::{Authority, Certified, OwnFile};
pub use chaos::{Chaos, Mischief, chaos_seed};
pub use closed_port::ClosedPort;
pub use environment::{admin_url, postgres_url, url, url_if_given};
pub use no_runtime::block_on_without_runtime;
pub use own_pool::{open, settings, settings_at, unique_name};
pub use own_schema::OwnSchema;
pub use polls::{Dropped, drop_after_polls};
pub use private_server::PrivateServer;
pub use proxy::{Direction, Proxy, Rerouted};
pub use tls_server::{Conduct, Seen, TlsServer};
pub use wait::{must_end, wait_until};
