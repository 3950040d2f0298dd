//! `Password`: the one place where a password is kept, and which shows it to nobody.

use std::fmt;
use std::sync::Arc;

/// A password. Neither `Debug` nor `Display` shows it, nor how long it is.
///
/// It is bytes rather than text because servers compare or hash bytes: what a client of another encoding has set stays
/// usable.
///
/// ```
/// # use cenote_pool::settings::Password;
/// let password = Password::new("secret");
/// assert_eq!(format!("{password} {password:?}"), "(hidden) Password(hidden)");
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Password(Arc<[u8]>);

impl Password {
    /// Keeps a password.
    pub fn new(password: impl AsRef<[u8]>) -> Password {
        Password(Arc::from(password.as_ref()))
    }

    /// What is kept. For a driver's log-in alone, and so left out of the documentation.
    #[doc(hidden)]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl From<&str> for Password {
    fn from(password: &str) -> Password {
        Password::new(password)
    }
}

impl From<String> for Password {
    fn from(password: String) -> Password {
        Password::new(password)
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(hidden)")
    }
}

impl fmt::Display for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(hidden)")
    }
}
