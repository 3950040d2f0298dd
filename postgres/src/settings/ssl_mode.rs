//! `SslMode`: libpq's six answers to "encrypted or not". The encryption itself is not here.

use super::error::SettingsError;

/// Whether the connection is encrypted, and what is checked, as libpq's `sslmode` says it.
///
/// **TLS comes with a later version.** Until then [`Require`](SslMode::Require),
/// [`VerifyCa`](SslMode::VerifyCa) and [`VerifyFull`](SslMode::VerifyFull) are refused when settings are read:
/// plaintext is never used in their place. [`Allow`](SslMode::Allow) and [`Prefer`](SslMode::Prefer), which
/// put up with plaintext by definition, get plaintext. Saying nothing means [`Disable`](SslMode::Disable) for
/// now; libpq's default is `prefer`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SslMode {
    /// Never encrypted.
    Disable,
    /// Encrypted if the server insists.
    Allow,
    /// Encrypted if the server can.
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

    pub(super) fn check(self) -> Result<(), SettingsError> {
        match self {
            SslMode::Disable | SslMode::Allow | SslMode::Prefer => Ok(()),
            SslMode::Require | SslMode::VerifyCa | SslMode::VerifyFull => Err(SettingsError::needs_tls("sslmode")),
        }
    }
}
