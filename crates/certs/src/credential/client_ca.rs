//! Client CA: the certificates that a host's clients are verified by.

use std::hash::{Hash, Hasher};

use aws_lc_rs::digest::{Context, SHA256};
use rustls_pki_types::CertificateDer;
use webpki::anchor_from_trusted_cert;

use super::chain;
use super::error::CredentialError;
use super::pem::{self, Contents, Wanted};

/// Certificates that issue a host's client certificates. Two are equal if their
/// certificates are, in the same order.
#[derive(Clone, Debug)]
pub struct ClientCa {
    pem: Box<str>,
    hash: [u8; 32],
}

impl ClientCa {
    /// Most bytes of the stored PEM.
    pub const MAX: usize = 16 << 10;

    /// Checks an operator's file, PEM or DER, before it is stored. Each
    /// certificate must parse, and be an authority's or self-signed. Dates do not
    /// count, as in a handshake: a trust anchor has none (RFC 5280, section 6.1.1).
    /// Text around the certificates and copies are left out.
    ///
    /// # Errors
    /// The first check that failed, in words for an operator.
    pub fn check(file: &[u8]) -> Result<Self, CredentialError> {
        let certificates = authorities(file)?;
        let mut pem = String::new();
        for der in &certificates {
            pem::write(&mut pem, "CERTIFICATE", der);
        }
        CredentialError::check_size("the client CA", pem.len(), Self::MAX)?;
        Ok(Self {
            pem: pem.into(),
            hash: hash(&certificates),
        })
    }

    /// Reads the stored form. None for text that [`Self::check`] can't have made.
    #[must_use]
    pub fn parse(pem: &str) -> Option<Self> {
        let certificates = read(pem)?;
        Some(Self {
            pem: pem.into(),
            hash: hash(&certificates),
        })
    }

    /// Returns the stored form: PEM of the certificates alone.
    #[must_use]
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// Returns the SHA-256 of the certificates, DER, one behind the other.
    #[must_use]
    pub fn hash(&self) -> &[u8; 32] {
        &self.hash
    }

    /// Returns the certificates.
    #[must_use]
    pub fn certificates(&self) -> Vec<CertificateDer<'static>> {
        read(&self.pem).unwrap_or_default()
    }

    /// Returns the certificates' subject names, for the operator; of one that can't be
    /// parsed, no name.
    #[must_use]
    pub fn subjects(&self) -> Vec<String> {
        let certificates = self.certificates();
        let parse = |der: &CertificateDer<'static>| {
            let parsed = chain::parse(std::slice::from_ref(der)).ok()?;
            Some(parsed.first()?.subject())
        };
        let subjects = certificates.iter().map(parse);
        subjects.map(Option::unwrap_or_default).collect()
    }
}

impl PartialEq for ClientCa {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash
    }
}

impl Eq for ClientCa {}

impl Hash for ClientCa {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.hash.hash(state);
    }
}

/// Reads certificates that others are to be verified by, PEM or DER, each once.
/// Each must parse, and be an authority's or self-signed.
///
/// # Errors
/// The first check that failed, in words for an operator.
pub fn authorities(file: &[u8]) -> Result<Vec<CertificateDer<'static>>, CredentialError> {
    let Contents { certificates, keys } = pem::read(file, Wanted::Certificates)?;
    if !keys.is_empty() {
        return Err(CredentialError::KeyOfAuthority);
    }
    if certificates.is_empty() {
        return Err(CredentialError::NoCertificate);
    }
    let certificates = chain::without_copies(certificates, &mut Vec::new());
    for (certificate, number) in chain::parse(&certificates)?.into_iter().zip(1..) {
        if !certificate.is_authority() && !certificate.is_self_signed() {
            return Err(CredentialError::NoAuthority(certificate.subject()));
        }
        let anchor = anchor_from_trusted_cert(certificate.der());
        anchor.map_err(|_| CredentialError::BrokenCertificate {
            number,
            why: "no certificate can be verified by it",
        })?;
    }
    Ok(certificates)
}

fn read(pem: &str) -> Option<Vec<CertificateDer<'static>>> {
    if pem.len() > ClientCa::MAX || !pem.starts_with(BEGIN) {
        return None;
    }
    let Contents { certificates, keys } = pem::read(pem.as_bytes(), Wanted::Certificates).ok()?;
    (!certificates.is_empty() && keys.is_empty()).then_some(certificates)
}

fn hash(certificates: &[CertificateDer<'_>]) -> [u8; 32] {
    let mut context = Context::new(&SHA256);
    // Each DER says its own length: other lists are other bytes.
    certificates.iter().for_each(|der| context.update(der));
    let digest = context.finish();
    digest.as_ref().try_into().expect("SHA-256 has 32 bytes")
}

const BEGIN: &str = "-----BEGIN CERTIFICATE-----";

#[cfg(test)]
mod tests {
    use sekisho_testkit::{Key, TestCa};

    use super::*;

    #[test]
    fn only_certificates_are_kept_each_once() {
        let (one, other) = (TestCa::new(), TestCa::new());
        let file = format!(
            "# ours\r\n{}text\n{}{}",
            one.root_pem().replace('\n', "\r\n"),
            other.root_pem(),
            one.root_pem()
        );
        let ca = ClientCa::check(file.as_bytes()).unwrap();
        assert_eq!(ca.certificates(), [one.root(), other.root()]);
        assert!(!ca.pem().contains('#') && !ca.pem().contains('\r'));
        let read = ClientCa::parse(ca.pem()).unwrap();
        assert_eq!((read.pem(), read.hash()), (ca.pem(), ca.hash()));
        let der = ClientCa::check(&one.root()).unwrap();
        assert_eq!(der, ClientCa::check(one.root_pem().as_bytes()).unwrap());
        assert_ne!(der, ca);
    }

    #[test]
    fn what_verifies_no_client_is_refused() {
        let ca = TestCa::new();
        let pair = ca.issue(&["a.example"], Key::P256);
        let refused = |file: &str, says: &str| {
            let error = ClientCa::check(file.as_bytes()).unwrap_err();
            assert!(error.to_string().contains(says), "{error}");
        };
        refused("", "holds no certificate");
        refused(&pair.leaf_pem(), "neither an authority's");
        refused(
            &(ca.root_pem() + &pair.leaf_pem()),
            "neither an authority's",
        );
        refused(&(ca.root_pem() + &pair.key_pem()), "private key");
        let broken = format!("{BEGIN}\nAAAA\n-----END CERTIFICATE-----\n");
        refused(&(ca.root_pem() + &broken), "certificate 2 is broken");
        let many: String = (0..40).map(|_| TestCa::new().root_pem()).collect();
        refused(&many, "at most 16384");
        assert!(ClientCa::check(pair.chain_pem().replace(&pair.leaf_pem(), "").as_bytes()).is_ok());
    }

    /// A certificate of its own key needs no CA: the client itself is trusted.
    #[test]
    fn a_self_signed_certificate_is_taken() {
        let key = rcgen::KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new(vec!["client".to_owned()]).unwrap();
        let client = params.self_signed(&key).unwrap();
        let ca = ClientCa::check(client.pem().as_bytes()).unwrap();
        assert_eq!(ca.certificates(), [client.der().clone()]);
    }

    #[test]
    fn stored_text_is_a_client_ca_or_none() {
        let ca = TestCa::new();
        let pem = ca.root_pem();
        let long = pem.repeat(ClientCa::MAX / pem.len() + 1);
        let pair = ca.issue(&["a.example"], Key::P256);
        for text in [
            "",
            "x",
            &pem[..99],
            &format!("x{pem}"),
            &long,
            &(pem.clone() + &pair.key_pem()),
        ] {
            assert!(ClientCa::parse(text).is_none(), "{text}");
        }
    }
}
