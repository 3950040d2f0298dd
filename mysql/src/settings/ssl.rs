//! What is asked of TLS: `SslMode`, `SslRoots`, and whether they go together. The encryption itself is not here, and no
//! file is read.

use std::path::PathBuf;

use cenote_pool::settings::SettingsError;
use cenote_pool::{TlsIdentity, TlsRoots, TlsSettings, TlsVerification};

use super::host::Host;

/// Whether the connection is encrypted, and what is checked, as the official clients' `--ssl-mode` says it.
///
/// What is asked for is never quietly lowered: only [`Preferred`](SslMode::Preferred), which puts up with plaintext by
/// definition, gets plaintext from a server that has no TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SslMode {
    /// Never encrypted.
    Disabled,
    /// Encrypted if the server can; not over a Unix socket, which nobody can listen in on.
    ///
    /// Somebody between client and server can make it plaintext.
    Preferred,
    /// Encrypted, whoever the server is.
    Required,
    /// Encrypted, and the certificate is signed by a known authority.
    VerifyCa,
    /// As `VerifyCa`, and the certificate names the host.
    VerifyIdentity,
}

impl SslMode {
    /// Reads `verify-ca` as well as the official clients' `VERIFY_CA`.
    pub(super) fn read(text: &str) -> Result<SslMode, SettingsError> {
        match text.to_ascii_lowercase().replace('_', "-").as_str() {
            "disabled" => Ok(SslMode::Disabled),
            "preferred" => Ok(SslMode::Preferred),
            "required" => Ok(SslMode::Required),
            "verify-ca" => Ok(SslMode::VerifyCa),
            "verify-identity" => Ok(SslMode::VerifyIdentity),
            _ => Err(SettingsError::of(
                "ssl_mode",
                "must be one of disabled, preferred, required, verify-ca, verify-identity",
            )),
        }
    }
}

/// Who may have signed the server's certificate.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SslRoots {
    /// Whom the system trusts.
    System,
    /// Whoever is in this PEM file.
    File(PathBuf),
}

impl SslRoots {
    /// Reads `system`, or else a path.
    pub(super) fn read(text: &str) -> SslRoots {
        match text {
            "system" => SslRoots::System,
            path => SslRoots::File(PathBuf::from(path)),
        }
    }
}

/// All that is asked of TLS.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct Ssl<M> {
    /// Not said, in a builder.
    pub(super) mode: M,
    pub(super) ca: Option<SslRoots>,
    pub(super) cert: Option<PathBuf>,
    pub(super) key: Option<PathBuf>,
}

impl Ssl<Option<SslMode>> {
    /// Fills in the mode, and refuses what would promise something that is not kept.
    pub(super) fn check(self, hosts: &[Host]) -> Result<Ssl<SslMode>, SettingsError> {
        // Roots without a mode ask for their use. For a name that anybody can get a certificate for, "signed by one
        // whom the system trusts" says nothing without the name.
        let mode = self.mode.unwrap_or(match self.ca {
            None => SslMode::Preferred,
            Some(SslRoots::File(_)) => SslMode::VerifyCa,
            Some(SslRoots::System) => SslMode::VerifyIdentity,
        });
        let refuse = |parameter, words: &str| Err(SettingsError::of(parameter, words));
        match self.ca {
            Some(SslRoots::System) if mode < SslMode::VerifyIdentity => {
                return refuse("ssl_ca", "is `system`, which is only safe with ssl_mode=verify-identity");
            }
            Some(_) if mode < SslMode::VerifyCa => {
                return refuse("ssl_ca", "has no effect unless ssl_mode is verify-ca or verify-identity");
            }
            None if mode == SslMode::VerifyCa => {
                return refuse("ssl_mode", "is verify-ca, which needs `ssl_ca`: a PEM file with the authority");
            }
            _ => {}
        }
        if self.cert.is_some() != self.key.is_some() {
            return refuse("ssl_cert", "and `ssl_key` go together: one is missing");
        }
        if self.cert.is_some() && mode == SslMode::Disabled {
            return refuse("ssl_cert", "has no effect with ssl_mode=disabled");
        }
        if mode == SslMode::VerifyIdentity && hosts.iter().any(|host| matches!(host, Host::Unix { .. })) {
            return refuse("ssl_mode", "is verify-identity, but over a Unix socket there is no host to be named");
        }
        Ok(Ssl { mode, ca: self.ca, cert: self.cert, key: self.key })
    }
}

impl Ssl<SslMode> {
    /// How TLS is done where it is.
    pub(super) fn tls(&self) -> TlsSettings {
        let verification = match self.mode {
            SslMode::Disabled | SslMode::Preferred | SslMode::Required => TlsVerification::None,
            SslMode::VerifyCa => TlsVerification::Chain,
            SslMode::VerifyIdentity => TlsVerification::ChainAndName,
        };
        let roots = match &self.ca {
            Some(SslRoots::File(path)) => TlsRoots::File(path.clone()),
            Some(SslRoots::System) | None => TlsRoots::System,
        };
        let identity = self.cert.clone().zip(self.key.clone());
        let identity = identity.map(|(certificate, key)| TlsIdentity { certificate, key });
        TlsSettings { verification, roots, identity, ..TlsSettings::default() }
    }
}
