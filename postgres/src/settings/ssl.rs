//! `Ssl`: everything that is said about TLS, by libpq's names and with libpq's meaning.
//!
//! What of it fits together is checked here. Files are only named: they are read when a connection is made. The
//! encryption itself is `cenote-pool`'s, and how a connection comes to it is the log-in's business.
//!
//! Source: libpq, "SSL Support" and "Parameter Key Words".

use std::path::PathBuf;

use cenote_pool::settings::SettingsError;
use cenote_pool::{TlsIdentity, TlsRoots, TlsSettings, TlsVerification, TlsVersion};

use super::ssl_mode::SslMode;

/// The protocol's name in TLS (ALPN): no other server that shares a certificate can be put in the place of this one.
pub(crate) const APPLICATION_PROTOCOL: &[u8] = b"postgresql";

/// How a connection comes to TLS (libpq's `sslnegotiation`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum SslNegotiation {
    /// The server is asked first, in clear: every server knows that.
    #[default]
    Postgres,
    /// TLS begins with the first byte, which saves a trip: Postgres 17 and later. Only with
    /// [`SslMode::Require`] or stronger.
    Direct,
}

/// Whose signature makes a server's certificate good (libpq's `sslrootcert`).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SslRootCert {
    /// The authorities that the system trusts. Only with [`SslMode::VerifyFull`], which it implies: from one of those
    /// anybody can have a certificate for a host of his own.
    System,
    /// The authorities in this file (PEM).
    File(PathBuf),
}

/// Whether the password is bound to the server's certificate (libpq's `channel_binding`). Then nobody in between can
/// pass the log-in on, not even with a certificate that is trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ChannelBinding {
    /// Never.
    Disable,
    /// Where there is TLS and the server offers it.
    #[default]
    Prefer,
    /// Always: what cannot be bound is refused, and so is every method but SCRAM.
    Require,
}

/// What is said about TLS.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Ssl {
    /// `None`: not said.
    pub(crate) mode: Option<SslMode>,
    pub(crate) negotiation: SslNegotiation,
    pub(crate) root_cert: Option<SslRootCert>,
    pub(crate) cert: Option<PathBuf>,
    pub(crate) key: Option<PathBuf>,
    pub(crate) sends_server_name: bool,
    pub(crate) version_min: TlsVersion,
    pub(crate) version_max: TlsVersion,
    pub(crate) channel_binding: ChannelBinding,
}

impl Default for Ssl {
    fn default() -> Ssl {
        Ssl {
            mode: None,
            negotiation: SslNegotiation::default(),
            root_cert: None,
            cert: None,
            key: None,
            sends_server_name: true,
            version_min: TlsVersion::V1_2,
            version_max: TlsVersion::V1_3,
            channel_binding: ChannelBinding::default(),
        }
    }
}

impl Ssl {
    /// The mode that holds.
    pub(crate) fn mode(&self) -> SslMode {
        let implied = match self.root_cert {
            Some(SslRootCert::System) => SslMode::VerifyFull,
            _ => SslMode::Prefer,
        };
        self.mode.unwrap_or(implied)
    }

    /// Sets a parameter of TLS by its name; false if that is none.
    pub(super) fn set(&mut self, name: &str, value: &str) -> Result<bool, SettingsError> {
        let wrong = |words: &str| Err(SettingsError::of(name, words));
        match name {
            "sslmode" => self.mode = Some(SslMode::read(value)?),
            "ssl" => {
                self.mode = Some(match value {
                    // At least: it takes nothing back.
                    "true" => self.mode.map_or(SslMode::Require, |mode| mode.max(SslMode::Require)),
                    "false" => SslMode::Disable,
                    _ => return wrong("must be true or false; better say it with `sslmode`"),
                });
            }
            "sslnegotiation" => {
                self.negotiation = match value {
                    "postgres" => SslNegotiation::Postgres,
                    "direct" => SslNegotiation::Direct,
                    _ => return wrong("must be one of postgres, direct"),
                };
            }
            "sslrootcert" => {
                self.root_cert = Some(match value {
                    "system" => SslRootCert::System,
                    path => SslRootCert::File(PathBuf::from(path)),
                });
            }
            "sslcert" => self.cert = Some(PathBuf::from(value)),
            "sslkey" => self.key = Some(PathBuf::from(value)),
            "sslsni" => {
                self.sends_server_name = match value {
                    "1" => true,
                    "0" => false,
                    _ => return wrong("must be 0 or 1"),
                };
            }
            "ssl_min_protocol_version" => {
                self.version_min = match value.to_ascii_lowercase().as_str() {
                    "tlsv1" | "tlsv1.1" | "tlsv1.2" => TlsVersion::V1_2,
                    "tlsv1.3" => TlsVersion::V1_3,
                    _ => return wrong("must be TLSv1.2 or TLSv1.3; TLSv1 and TLSv1.1 allow those, too"),
                };
            }
            "ssl_max_protocol_version" => {
                self.version_max = match value.to_ascii_lowercase().as_str() {
                    "tlsv1.2" => TlsVersion::V1_2,
                    "tlsv1.3" => TlsVersion::V1_3,
                    _ => return wrong("must be TLSv1.2 or TLSv1.3: nothing older is spoken"),
                };
            }
            "channel_binding" => {
                self.channel_binding = match value {
                    "disable" => ChannelBinding::Disable,
                    "prefer" => ChannelBinding::Prefer,
                    "require" => ChannelBinding::Require,
                    _ => return wrong("must be one of disable, prefer, require"),
                };
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Refuses what does not fit together. An empty path is one that was not said.
    pub(super) fn checked(mut self) -> Result<Ssl, SettingsError> {
        let empty = |path: &mut PathBuf| path.as_os_str().is_empty();
        self.cert.take_if(empty);
        self.key.take_if(empty);
        self.root_cert.take_if(|root| matches!(root, SslRootCert::File(path) if path.as_os_str().is_empty()));
        let root_file = match &self.root_cert {
            Some(SslRootCert::File(path)) => Some(path),
            _ => None,
        };
        for (name, path) in [("sslrootcert", root_file), ("sslcert", self.cert.as_ref()), ("sslkey", self.key.as_ref())]
        {
            if path.is_some_and(|path| path.as_os_str().as_encoded_bytes().contains(&0)) {
                return Err(SettingsError::of(name, "holds a NUL byte"));
            }
        }
        let mode = self.mode();
        if self.root_cert == Some(SslRootCert::System) && mode != SslMode::VerifyFull {
            return Err(SettingsError::of(
                "sslmode",
                "must be verify-full with sslrootcert=system: from an authority that the system trusts anybody can have \
                 a certificate",
            ));
        }
        if mode == SslMode::VerifyCa && self.root_cert.is_none() {
            return Err(SettingsError::of(
                "sslmode",
                "asks for a known authority, so `sslrootcert` must name its file",
            ));
        }
        if self.negotiation == SslNegotiation::Direct && mode < SslMode::Require {
            return Err(SettingsError::of(
                "sslnegotiation",
                "begins with TLS, so `sslmode` must be require, verify-ca or verify-full",
            ));
        }
        if self.channel_binding == ChannelBinding::Require && mode == SslMode::Disable {
            return Err(SettingsError::of("channel_binding", "binds to TLS, which sslmode=disable rules out"));
        }
        match (&self.cert, &self.key) {
            (Some(_), None) => return Err(SettingsError::of("sslcert", "needs `sslkey` beside it")),
            (None, Some(_)) => return Err(SettingsError::of("sslkey", "needs `sslcert` beside it")),
            _ => {}
        }
        if self.version_min > self.version_max {
            return Err(SettingsError::of("ssl_min_protocol_version", "is newer than `ssl_max_protocol_version`"));
        }
        self.mode = Some(mode);
        Ok(self)
    }

    /// How TLS is done where it is done.
    pub(crate) fn tls(&self) -> TlsSettings {
        let verification = match (self.mode(), &self.root_cert) {
            (SslMode::VerifyFull, _) => TlsVerification::ChainAndName,
            // Who names an authority wants it asked, says libpq.
            (SslMode::VerifyCa, _) | (SslMode::Require, Some(_)) => TlsVerification::Chain,
            _ => TlsVerification::None,
        };
        let identity = self.cert.clone().zip(self.key.clone());
        TlsSettings {
            verification,
            roots: match &self.root_cert {
                Some(SslRootCert::File(path)) => TlsRoots::File(path.clone()),
                Some(SslRootCert::System) | None => TlsRoots::System,
            },
            identity: identity.map(|(certificate, key)| TlsIdentity { certificate, key }),
            application_protocols: vec![APPLICATION_PROTOCOL.to_vec()],
            sends_server_name: self.sends_server_name,
            version_min: self.version_min,
            version_max: self.version_max,
        }
    }
}
