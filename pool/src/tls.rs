//! TLS for both drivers: what a driver asks for, what it learns of the other side, and the encrypted socket.
//!
//! ```text
//! TlsRequest --> config: files are read, rustls is set up --> stream: the handshake, then records over the socket
//!                verifier: who is trusted                       |
//!                certificate: what rustls does not tell         '--> TlsPeer, to the driver
//! ```
//!
//! Whether TLS is used, and what happens where it is refused, is each driver's protocol and not known here. Files are
//! read when a connection is made, so a certificate that was renewed is used from the next connection on. Nothing is
//! installed for the whole process, and no secret gets into an error.
//!
//! The cryptography is `ring`'s: it builds with a C compiler alone, where `aws-lc-rs` wants more of the machine that
//! compiles it, and knows all that servers use but P-521 keys.
//!
//! Not here: revocation lists, session resumption, TLS before 1.2, and names in a certificate's subject (only its
//! alternative names count, RFC 9525).

mod certificate;
mod config;
mod session;
mod stream;
mod verifier;

use std::fmt;
use std::path::PathBuf;

pub(crate) use stream::{ParkedTlsSocket, TlsSocket, start};

/// One connection's wish for TLS.
#[derive(Clone, Debug)]
pub struct TlsRequest {
    /// How.
    pub settings: TlsSettings,
    /// The host's name or address as the user gave it: what the certificate has to name, and for a name what the server
    /// is told in clear (SNI). `None` on a Unix socket.
    pub host: Option<String>,
}

/// How TLS is done.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TlsSettings {
    /// What is checked of the server's certificate.
    pub verification: TlsVerification,
    /// Who may have signed it.
    pub roots: TlsRoots,
    /// Our own certificate, for a server that asks for one.
    pub identity: Option<TlsIdentity>,
    /// Application protocols on offer (ALPN), the preferred one first; with none the extension is not sent.
    pub application_protocols: Vec<Vec<u8>>,
    /// Whether the host's name is sent. An address never is.
    pub sends_server_name: bool,
    /// The oldest version that is spoken.
    pub version_min: TlsVersion,
    /// The newest version that is spoken.
    pub version_max: TlsVersion,
}

impl Default for TlsSettings {
    fn default() -> TlsSettings {
        TlsSettings {
            verification: TlsVerification::ChainAndName,
            roots: TlsRoots::System,
            identity: None,
            application_protocols: Vec::new(),
            sends_server_name: true,
            version_min: TlsVersion::V1_2,
            version_max: TlsVersion::V1_3,
        }
    }
}

/// What is checked of a server's certificate. That the server has its key is checked always.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TlsVerification {
    /// Nothing: whoever is in between can read along by putting himself in the server's place.
    None,
    /// That it is valid now and signed by somebody trusted, for whatever host.
    Chain,
    /// The same, and that it names the host.
    ChainAndName,
}

/// Who may have signed a server's certificate.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TlsRoots {
    /// Whom the system trusts: its store of certificates, or what `SSL_CERT_FILE` and `SSL_CERT_DIR` name.
    System,
    /// The certificates in a PEM file. One that the server itself shows is trusted as it stands.
    File(PathBuf),
}

/// Our own certificate and its key, each in a PEM file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TlsIdentity {
    /// The certificate, and behind it those that lead up to a root, if there are any.
    pub certificate: PathBuf,
    /// Its key, not encrypted.
    pub key: PathBuf,
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TlsVersion {
    /// 1.2
    V1_2,
    /// 1.3
    V1_3,
}

/// The other side of a connection with TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsPeer {
    /// The server's own certificate (DER).
    pub certificate: Vec<u8>,
    /// The application protocol the server chose, if it chose one.
    pub application_protocol: Option<Vec<u8>>,
}

impl TlsPeer {
    /// What binds a password to this server's certificate: `tls-server-end-point` (RFC 5929). `None` for a certificate
    /// whose signature has no hash of its own, as with Ed25519: for those nothing is defined.
    pub fn server_end_point(&self) -> Option<Vec<u8>> {
        certificate::server_end_point(&self.certificate)
    }
}

/// Why TLS did not come about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TlsFailure {
    /// The settings, or a file they name, cannot be used.
    Settings(String),
    /// The server's certificate is not to be trusted.
    Untrusted(String),
    /// The server does not accept our certificate, or misses one.
    Refused(String),
    /// The two sides did not come to terms, or one of them does not speak TLS.
    Broken(String),
    /// Something came behind the server's consent to TLS and before its start: somebody in between may have put it there.
    Injected,
}

impl TlsFailure {
    /// Whether the next attempt would end the same way until somebody changes something.
    pub fn is_lasting(&self) -> bool {
        match self {
            TlsFailure::Settings(_) | TlsFailure::Untrusted(_) | TlsFailure::Refused(_) => true,
            // Not that it is known to last, but nobody should wait before he hears of it.
            TlsFailure::Injected => true,
            TlsFailure::Broken(_) => false,
        }
    }
}

impl fmt::Display for TlsFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TlsFailure::Settings(words) => f.write_str(words),
            TlsFailure::Untrusted(words) => write!(f, "the server's certificate is not trusted: {words}"),
            TlsFailure::Refused(alert) => {
                write!(f, "the server does not accept the client's certificate, or misses one (TLS alert {alert})")
            }
            TlsFailure::Broken(words) => write!(f, "TLS failed: {words}"),
            TlsFailure::Injected => f.write_str(
                "unencrypted bytes came after the server's consent to TLS; somebody may have put them there, so the \
                 connection was closed",
            ),
        }
    }
}

impl std::error::Error for TlsFailure {}
