//! Who is trusted: the check of a server's certificate, as strict as the settings say.
//!
//! Whatever they say, the server has to prove that it has the key of the certificate it shows: else even a binding of
//! the password to that certificate would be worth nothing. No revocation list is looked at.

use std::fmt::Write;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

use super::{TlsVerification, certificate};

/// How many of a certificate's names an error lists.
const NAMES_SHOWN_MAX: usize = 5;

#[derive(Debug)]
pub(super) struct Verifier {
    pub(super) verification: TlsVerification,
    pub(super) roots: RootCertStore,
    /// Trusted as they stand when a server shows one: a self-signed certificate is its own root, and mostly says that it
    /// is an authority, which no path to a root may end in.
    pub(super) pinned: Vec<CertificateDer<'static>>,
    pub(super) algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if self.verification == TlsVerification::None {
            return Ok(ServerCertVerified::assertion());
        }
        let parsed = ParsedCertificate::try_from(end_entity)?;
        if self.pinned.iter().any(|pinned| pinned == end_entity) {
            check_validity(end_entity, now)?;
        } else {
            let algorithms = self.algorithms.all;
            verify_server_cert_signed_by_trust_anchor(&parsed, &self.roots, intermediates, now, algorithms)?;
        }
        if self.verification == TlsVerification::ChainAndName {
            verify_server_name(&parsed, server_name)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

fn check_validity(certificate: &[u8], now: UnixTime) -> Result<(), Error> {
    let validity = certificate::validity(certificate).ok_or(CertificateError::BadEncoding)?;
    let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    if now < *validity.start() {
        return Err(CertificateError::NotValidYet.into());
    }
    if now > *validity.end() {
        return Err(CertificateError::Expired.into());
    }
    Ok(())
}

/// Why a certificate is not trusted, for a person.
pub(super) fn words(error: &CertificateError) -> String {
    match error {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "it has expired".to_owned(),
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "it is not valid yet; is this machine's clock right?".to_owned()
        }
        CertificateError::UnknownIssuer => {
            "it is signed by nobody who is trusted; name the authority's certificate in the settings".to_owned()
        }
        CertificateError::NotValidForName => "it does not name the host".to_owned(),
        CertificateError::NotValidForNameContext { expected, presented } => {
            let mut words = format!("it does not name the host \"{}\"", expected.to_str());
            if presented.is_empty() {
                words.push_str(", nor any other in its alternative names, which alone count");
                return words;
            }
            words.push_str(", but ");
            for (index, name) in presented.iter().take(NAMES_SHOWN_MAX).enumerate() {
                let separator = if index == 0 { "" } else { ", " };
                // Writing to a string does not fail.
                let _ = write!(words, "{separator}{}", bare(name).escape_debug());
            }
            if presented.len() > NAMES_SHOWN_MAX {
                words.push_str(", ...");
            }
            words
        }
        other => other.to_string(),
    }
}

/// rustls lists names as `DnsName("db")`.
fn bare(name: &str) -> &str {
    name.strip_prefix("DnsName(\"").and_then(|name| name.strip_suffix("\")")).unwrap_or(name)
}
