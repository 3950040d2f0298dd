//! `SslMode`: libpq's six answers to "encrypted or not". The encryption itself is not here.

use cenote_pool::settings::SettingsError;

/// Whether the connection is encrypted, and what is checked, as libpq's `sslmode` says it.
///
/// | mode | encrypted | the certificate |
/// |---|---|---|
/// | `disable` | never | |
/// | `allow` | if the server refuses the log-in without | is not looked at |
/// | `prefer` | if the server can; without if it refuses the encrypted log-in | is not looked at |
/// | `require` | always | is checked as with `verify-ca` if `sslrootcert` names an authority, else not |
/// | `verify-ca` | always | is signed by an authority in `sslrootcert` |
/// | `verify-full` | always | is signed by an authority in `sslrootcert`, or one the system trusts, and names the host |
///
/// Only `verify-ca` and `verify-full` keep out somebody between the two ends; with `allow` and `prefer` he can have
/// plaintext. With the last three it is never used. A Unix socket does not leave the machine and is never encrypted,
/// whatever the mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SslMode {
    /// Never encrypted.
    Disable,
    /// Encrypted if the server insists.
    Allow,
    /// Encrypted if the server can. The default.
    Prefer,
    /// Encrypted, whoever the server is.
    Require,
    /// Encrypted, and the certificate is signed by a known authority.
    VerifyCa,
    /// As `VerifyCa`, and the certificate names the host.
    VerifyFull,
}

impl SslMode {
    pub(super) fn read(text: &str) -> Result<SslMode, SettingsError> {
        Ok(match text {
            "disable" => SslMode::Disable,
            "allow" => SslMode::Allow,
            "prefer" => SslMode::Prefer,
            "require" => SslMode::Require,
            "verify-ca" => SslMode::VerifyCa,
            "verify-full" => SslMode::VerifyFull,
            _ => {
                return Err(SettingsError::of(
                    "sslmode",
                    "must be one of disable, allow, prefer, require, verify-ca, verify-full",
                ));
            }
        })
    }

    /// As `sslmode` spells it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            SslMode::Disable => "disable",
            SslMode::Allow => "allow",
            SslMode::Prefer => "prefer",
            SslMode::Require => "require",
            SslMode::VerifyCa => "verify-ca",
            SslMode::VerifyFull => "verify-full",
        }
    }
}
