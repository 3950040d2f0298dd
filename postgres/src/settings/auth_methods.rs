//! `require_auth`: by which methods the server may have the user prove who they are.
//!
//! Without it the server alone decides, and one that is not what it claims to be may ask for the
//! password in clear. The dialogue itself is not here.

use std::fmt;

use cenote_pool::settings::SettingsError;

/// A way in which the server can have a user authenticated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AuthMethod {
    /// None at all: the server trusts the connection (or knows the user by other means).
    None,
    /// The password in clear.
    Password,
    /// The password hashed with MD5.
    Md5,
    /// SCRAM-SHA-256, by which the server proves itself, too.
    ScramSha256,
}

const ALL: [AuthMethod; 4] = [AuthMethod::None, AuthMethod::Password, AuthMethod::Md5, AuthMethod::ScramSha256];

impl AuthMethod {
    /// As `require_auth` spells it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            AuthMethod::None => "none",
            AuthMethod::Password => "password",
            AuthMethod::Md5 => "md5",
            AuthMethod::ScramSha256 => "scram-sha-256",
        }
    }

    fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// Methods libpq knows and this driver does not speak. In a list they do no harm: they never happen.
const SPOKEN_ELSEWHERE: [&str; 3] = ["gss", "sspi", "oauth"];

/// A set of methods; all of them unless something was said.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct AuthMethods(u8);

impl AuthMethods {
    const NONE: AuthMethods = AuthMethods(0);

    pub(crate) fn contains(self, method: AuthMethod) -> bool {
        self.0 & method.bit() != 0
    }

    fn without(self, method: AuthMethod) -> AuthMethods {
        AuthMethods(self.0 & !method.bit())
    }

    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Reads libpq's list: the allowed methods, or with `!` before each the forbidden ones.
    pub(super) fn read(text: &str) -> Result<AuthMethods, SettingsError> {
        let mut allowed = AuthMethods::NONE;
        let mut forbidden = AuthMethods::NONE;
        let (mut allowed_seen, mut forbidden_seen) = (false, false);
        for element in text.split(',').map(str::trim) {
            let (name, set, seen) = match element.strip_prefix('!') {
                Some(name) => (name, &mut forbidden, &mut forbidden_seen),
                None => (element, &mut allowed, &mut allowed_seen),
            };
            *seen = true;
            match ALL.iter().find(|method| method.name() == name) {
                Some(method) => set.0 |= method.bit(),
                None if SPOKEN_ELSEWHERE.contains(&name) => {}
                None => {
                    return Err(SettingsError::of(
                        "require_auth",
                        "lists an unknown method; known are password, md5, scram-sha-256, gss, sspi, oauth, none",
                    ));
                }
            }
        }
        if allowed_seen && forbidden_seen {
            return Err(SettingsError::of(
                "require_auth",
                "must either list allowed methods, or forbidden ones with `!` before each",
            ));
        }
        if allowed_seen {
            return Ok(allowed);
        }
        let rest = |set: AuthMethods, method: &AuthMethod| match forbidden.contains(*method) {
            true => set.without(*method),
            false => set,
        };
        Ok(ALL.iter().fold(AuthMethods::default(), rest))
    }
}

impl Default for AuthMethods {
    fn default() -> AuthMethods {
        ALL.into_iter().collect()
    }
}

impl FromIterator<AuthMethod> for AuthMethods {
    fn from_iter<I: IntoIterator<Item = AuthMethod>>(methods: I) -> AuthMethods {
        let bits = methods.into_iter().fold(0, |bits, method| bits | method.bit());
        AuthMethods(bits)
    }
}

impl fmt::Debug for AuthMethods {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let allowed = ALL.iter().filter(|method| self.contains(**method));
        f.debug_set().entries(allowed).finish()
    }
}
