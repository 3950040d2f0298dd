//! Certificates of a test's own, good and bad, and files with them.

use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use crate::own_pool::unique_name;

/// A certificate and its key.
#[derive(Debug)]
pub struct Certified {
    certificate: rcgen::Certificate,
    key: KeyPair,
}

impl Certified {
    /// One that signed itself, and says that it is an authority, as `openssl req -x509` makes them.
    pub fn self_signed(names: &[&str]) -> Certified {
        let (mut parameters, key) = parameters(names);
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = parameters.self_signed(&key).expect("a certificate can be made");
        Certified { certificate, key }
    }

    /// The certificate as text (PEM).
    pub fn certificate_pem(&self) -> String {
        self.certificate.pem()
    }

    /// The key as text (PEM).
    pub fn key_pem(&self) -> String {
        self.key.serialize_pem()
    }

    pub(crate) fn der(&self) -> (CertificateDer<'static>, PrivateKeyDer<'static>) {
        (self.certificate.der().clone(), PrivatePkcs8KeyDer::from(self.key.serialize_der()).into())
    }
}

/// An authority that nobody else knows.
#[derive(Debug)]
pub struct Authority {
    certificate: rcgen::Certificate,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// A new one.
    pub fn create(name: &str) -> Authority {
        let (mut parameters, key) = parameters(&[]);
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters.distinguished_name.push(DnType::CommonName, name);
        let certificate = parameters.self_signed(&key).expect("a certificate can be made");
        Authority { certificate, issuer: Issuer::new(parameters, key) }
    }

    /// Its own certificate as text (PEM).
    pub fn pem(&self) -> String {
        self.certificate.pem()
    }

    /// A certificate for these hosts.
    pub fn issue(&self, names: &[&str]) -> Certified {
        self.issue_by(names, |_| {})
    }

    /// One that was valid long ago.
    pub fn issue_expired(&self, names: &[&str]) -> Certified {
        self.issue_by(names, |parameters| {
            parameters.not_before = rcgen::date_time_ymd(2001, 1, 1);
            parameters.not_after = rcgen::date_time_ymd(2002, 1, 1);
        })
    }

    /// One for a client.
    pub fn issue_client(&self, user: &str) -> Certified {
        self.issue_by(&[], |parameters| {
            parameters.distinguished_name.push(DnType::CommonName, user);
        })
    }

    fn issue_by(&self, names: &[&str], change: impl FnOnce(&mut CertificateParams)) -> Certified {
        let (mut parameters, key) = parameters(names);
        change(&mut parameters);
        let certificate = parameters.signed_by(&key, &self.issuer).expect("a certificate can be made");
        Certified { certificate, key }
    }
}

fn parameters(names: &[&str]) -> (CertificateParams, KeyPair) {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut parameters = CertificateParams::new(names).expect("names of hosts");
    // rcgen's own name for what has none.
    parameters.distinguished_name = rcgen::DistinguishedName::new();
    (parameters, KeyPair::generate().expect("a key can be made"))
}

/// A file of a test's own; removed when this is dropped.
#[derive(Debug)]
pub struct OwnFile(PathBuf);

impl OwnFile {
    /// A file with this content.
    pub fn create(content: impl AsRef<[u8]>) -> OwnFile {
        let path = std::env::temp_dir().join(unique_name("cenote_file"));
        std::fs::write(&path, content).expect("the system's folder for temporary files takes one");
        OwnFile(path)
    }

    /// Puts this in the place of its content.
    pub fn replace(&self, content: impl AsRef<[u8]>) {
        std::fs::write(&self.0, content).expect("the file can be written again");
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for OwnFile {
    fn drop(&mut self) {
        // One that stays is in nobody's way.
        let _ = std::fs::remove_file(&self.0);
    }
}
