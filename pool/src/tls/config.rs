//! From settings to rustls: reads the files, for each connection anew.
//!
//! Errors name the file and what is wrong with it, and show nothing of what is in it.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};

use super::verifier::Verifier;
use super::{TlsFailure, TlsIdentity, TlsRequest, TlsRoots, TlsSettings, TlsVerification, TlsVersion};

/// The largest collection of certificates in use has some hundred kilobytes; who names a larger file means another.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// Stands for a host that has no name, where no name is checked and none is sent.
const NO_NAME: &str = "localhost";

/// What rustls needs for one connection.
pub(super) fn prepare(request: &TlsRequest) -> Result<(Arc<ClientConfig>, ServerName<'static>), TlsFailure> {
    let settings = &request.settings;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let (roots, pinned) = match settings.verification {
        TlsVerification::None => (RootCertStore::empty(), Vec::new()),
        TlsVerification::Chain | TlsVerification::ChainAndName => read_roots(&settings.roots)?,
    };
    let verifier = Verifier {
        verification: settings.verification,
        roots,
        pinned,
        algorithms: provider.signature_verification_algorithms,
    };
    let name = request.host.as_deref().and_then(|host| ServerName::try_from(host.to_owned()).ok());
    if name.is_none() && settings.verification == TlsVerification::ChainAndName {
        let host = request.host.as_deref().unwrap_or("a Unix socket");
        return Err(TlsFailure::Settings(format!("no certificate can name the host: {host:?}")));
    }
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&versions(settings)?)
        .map_err(|error| TlsFailure::Settings(format!("TLS cannot be set up: {error}")))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));
    let mut config = match &settings.identity {
        None => builder.with_no_client_auth(),
        Some(identity) => {
            let chain = certificates(&identity.certificate)?;
            let key = key(&identity.key)?;
            builder.with_client_auth_cert(chain, key).map_err(|error| unusable(identity, &error))?
        }
    };
    config.enable_sni = settings.sends_server_name && name.is_some();
    config.alpn_protocols.clone_from(&settings.application_protocols);
    // Connections last, so a session is never taken up again.
    config.resumption = Resumption::disabled();
    let no_name = || ServerName::try_from(NO_NAME).map_err(|error| TlsFailure::Settings(error.to_string()));
    let name = name.map_or_else(no_name, Ok)?;
    Ok((Arc::new(config), name))
}

fn versions(settings: &TlsSettings) -> Result<Vec<&'static SupportedProtocolVersion>, TlsFailure> {
    let known = [(TlsVersion::V1_2, &rustls::version::TLS12), (TlsVersion::V1_3, &rustls::version::TLS13)];
    let range = settings.version_min..=settings.version_max;
    let versions: Vec<_> =
        known.iter().filter(|(version, _)| range.contains(version)).map(|(_, version)| *version).collect();
    if versions.is_empty() {
        return Err(TlsFailure::Settings("the oldest TLS version allowed is newer than the newest".to_owned()));
    }
    Ok(versions)
}

fn read_roots(roots: &TlsRoots) -> Result<(RootCertStore, Vec<CertificateDer<'static>>), TlsFailure> {
    let mut store = RootCertStore::empty();
    match roots {
        TlsRoots::System => {
            let found = rustls_native_certs::load_native_certs();
            store.add_parsable_certificates(found.certs);
            if store.is_empty() {
                let why = found.errors.first().map_or("none was found".to_owned(), ToString::to_string);
                return Err(TlsFailure::Settings(format!("the system's root certificates cannot be had: {why}")));
            }
            Ok((store, Vec::new()))
        }
        TlsRoots::File(path) => {
            let pinned = certificates(path)?;
            store.add_parsable_certificates(pinned.iter().cloned());
            if store.is_empty() {
                let words = "holds no certificate that can be read";
                return Err(about(path, words));
            }
            Ok((store, pinned))
        }
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsFailure> {
    let text = read(path)?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let certificates = certificates.map_err(|error| about(path, &pem_words(&error)))?;
    if certificates.is_empty() {
        return Err(about(path, "holds no certificate in PEM form"));
    }
    Ok(certificates)
}

fn key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsFailure> {
    let text = read(path)?;
    PrivateKeyDer::from_pem_slice(&text).map_err(|error| match error {
        pem::Error::NoItemsFound if contains(&text, b"ENCRYPTED PRIVATE KEY") => {
            about(path, "holds an encrypted key, which is not supported")
        }
        pem::Error::NoItemsFound => about(path, "holds no private key in PEM form"),
        // How an RSA key used to be encrypted: within the form of one that is not.
        _ if contains(&text, b"Proc-Type: 4,ENCRYPTED") => {
            about(path, "holds an encrypted key, which is not supported")
        }
        error => about(path, &pem_words(&error)),
    })
}

fn contains(text: &[u8], words: &[u8]) -> bool {
    text.windows(words.len()).any(|window| window == words)
}

/// Not the error's own words: they repeat lines of the file.
fn pem_words(error: &pem::Error) -> String {
    match error {
        pem::Error::MissingSectionEnd { .. } => "has a PEM section without an end".to_owned(),
        pem::Error::IllegalSectionStart { .. } => "has a PEM section with a broken first line".to_owned(),
        pem::Error::Base64Decode(_) => "has a PEM section that is not Base64".to_owned(),
        _ => "is not in PEM form".to_owned(),
    }
}

fn unusable(identity: &TlsIdentity, error: &rustls::Error) -> TlsFailure {
    match error {
        rustls::Error::InconsistentKeys(_) => TlsFailure::Settings(format!(
            "the key in {} is not that of the certificate in {}",
            identity.key.display(),
            identity.certificate.display()
        )),
        rustls::Error::InvalidCertificate(_) => about(&identity.certificate, "holds a certificate that cannot be read"),
        _ => about(&identity.key, "holds a key of a kind that is not supported"),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, TlsFailure> {
    let mut text = Vec::new();
    let read = File::open(path).and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_end(&mut text));
    read.map_err(|error| about(path, &format!("cannot be read: {error}")))?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(about(path, "is larger than 16 MiB"));
    }
    Ok(text)
}

fn about(path: &Path, words: &str) -> TlsFailure {
    TlsFailure::Settings(format!("the file {} {words}", path.display()))
}
