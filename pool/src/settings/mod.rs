//! Reading settings from text, for drivers.
//!
//! ```text
//! URL ------------.
//! variables ------+--> Assignments (named texts) --> the driver's builder (typed) --> its settings (checked)
//! its other forms-'                                          ^
//! builder calls ---------------------------------------------'
//! ```
//!
//! Here is what means the same whatever the server is: how values, hosts and URLs are written, a pool's limits, which
//! unknown name is a slip of which known one, and errors that give no password away. It knows no driver's names: those
//! come in by [`Parameters`]. It resolves no host, opens no socket or file, and looks at no environment but through the
//! [`Lookup`] that is passed in.

mod assignments;
mod checks;
mod environment;
mod error;
mod host;
mod limits;
mod names;
mod password;
mod url;
mod value;

pub use assignments::{Assignments, Parameters};
pub use checks::{checked_password, checked_text, system_user};
pub use environment::{Lookup, variable};
pub use error::SettingsError;
pub use host::{
    HOST_NAME_DEFAULT, check_host_count, check_host_name, check_port, check_socket_path, read_ports, split_list,
};
pub use limits::Limits;
pub use names::{NAME_BYTES_MAX, Names};
pub use password::Password;
pub use url::{after_scheme, read_url};
pub use value::{read_bytes, read_count, read_duration, read_switch};
