//! `auth_plugins`: by which of the servers' plugins the user may be authenticated.
//!
//! It is the server that chooses, and one that is not what it claims to be would choose the weakest. The dialogues
//! themselves are not here.

use std::fmt;

use cenote_pool::settings::SettingsError;

/// One of the servers' plugins that this driver speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AuthPlugin {
    /// `caching_sha2_password`, MySQL's default.
    CachingSha2Password,
    /// `sha256_password`, its forerunner without a cache.
    Sha256Password,
    /// `mysql_native_password`: SHA-1; MariaDB's default, and gone in MySQL 9.
    NativePassword,
    /// `mysql_clear_password`: the password in clear, for servers that ask somebody else about it (LDAP, PAM). On top
    /// of being in this list it must be allowed by `allow_cleartext_password`.
    ClearPassword,
}

const ALL: [AuthPlugin; 4] = [
    AuthPlugin::CachingSha2Password,
    AuthPlugin::Sha256Password,
    AuthPlugin::NativePassword,
    AuthPlugin::ClearPassword,
];

impl AuthPlugin {
    /// As the servers spell it.
    pub fn name(self) -> &'static str {
        match self {
            AuthPlugin::CachingSha2Password => "caching_sha2_password",
            AuthPlugin::Sha256Password => "sha256_password",
            AuthPlugin::NativePassword => "mysql_native_password",
            AuthPlugin::ClearPassword => "mysql_clear_password",
        }
    }

    /// The plugin of this name, if it is spoken here.
    pub(crate) fn of_name(name: &[u8]) -> Option<AuthPlugin> {
        ALL.into_iter().find(|plugin| plugin.name().as_bytes() == name)
    }

    fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// A set of plugins; all of them unless something was said.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct AuthPlugins(u8);

impl AuthPlugins {
    pub(crate) fn contains(self, plugin: AuthPlugin) -> bool {
        self.0 & plugin.bit() != 0
    }

    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Reads a list, separated by commas.
    pub(super) fn read(text: &str) -> Result<AuthPlugins, SettingsError> {
        let plugins = text.split(',').map(|name| AuthPlugin::of_name(name.trim().as_bytes()));
        plugins.collect::<Option<AuthPlugins>>().ok_or_else(|| {
            SettingsError::of(
                "auth_plugins",
                "lists an unknown plugin; known are caching_sha2_password, sha256_password, mysql_native_password, \
                 mysql_clear_password",
            )
        })
    }
}

impl Default for AuthPlugins {
    fn default() -> AuthPlugins {
        ALL.into_iter().collect()
    }
}

impl FromIterator<AuthPlugin> for AuthPlugins {
    fn from_iter<I: IntoIterator<Item = AuthPlugin>>(plugins: I) -> AuthPlugins {
        AuthPlugins(plugins.into_iter().fold(0, |bits, plugin| bits | plugin.bit()))
    }
}

impl fmt::Debug for AuthPlugins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(ALL.iter().filter(|plugin| self.contains(**plugin))).finish()
    }
}
