//! The chain: the leaf found by its key, then issuer by issuer.

use rustls::crypto::aws_lc_rs::default_provider;
use rustls_pki_types::{CertificateDer, SignatureVerificationAlgorithm, SubjectPublicKeyInfoDer};
use webpki::RawPublicKeyEntity;
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;

use super::error::CredentialError;
use crate::der;
use crate::printable;

/// A chain in its order.
pub(super) struct Chain {
    /// Leaf first, then each certificate's issuer, without the root.
    pub(super) ders: Vec<CertificateDer<'static>>,
    /// Known root that issued a leaf which stands alone.
    pub(super) root: Option<CertificateDer<'static>>,
    /// Notes on what was left out.
    pub(super) notes: Vec<String>,
}

/// Puts a chain into its order. The root, what stands there twice and other
/// authorities are left out, each with a note.
pub(super) fn arrange(
    ders: Vec<CertificateDer<'static>>,
    public: &[u8],
    roots: &[CertificateDer<'static>],
) -> Result<Chain, CredentialError> {
    let mut notes = Vec::new();
    let ders = without_copies(ders, &mut notes);
    let certificates = parse(&ders)?;
    let (leaf, mut unused) = find_leaf(&certificates, public)?;
    let mut order = walk(leaf, &mut unused);
    let root = match order.len() > 1 || leaf.is_self_signed() {
        true => None,
        false => Some(root_of(leaf, roots).ok_or_else(|| incomplete(leaf, &unused))?),
    };
    // Clients have the root, or do not trust it.
    if order.len() > 1 {
        order.pop_if(|top| top.is_self_signed());
    }
    for other in unused {
        if !other.parsed.is_ca() {
            return Err(CredentialError::Unrelated(other.subject()));
        }
        notes.push(format!(
            "left out {}, which the chain does not need",
            other.subject()
        ));
    }
    let ders = order.into_iter().map(|one| one.der.clone()).collect();
    Ok(Chain { ders, root, notes })
}

/// Certificate with its parsed form.
pub(super) struct Certificate<'a> {
    der: &'a CertificateDer<'static>,
    parsed: X509Certificate<'a>,
}

impl<'a> Certificate<'a> {
    pub(super) fn der(&self) -> &'a CertificateDer<'static> {
        self.der
    }

    /// Tells whether the certificate says that it is an authority's.
    pub(super) fn is_authority(&self) -> bool {
        self.parsed.is_ca()
    }

    pub(super) fn subject(&self) -> String {
        describe(&self.parsed)
    }

    /// Tells whether this one is the issuer of the other: an authority of that name
    /// whose key made the signature.
    fn issued(&self, other: &Certificate<'_>) -> bool {
        self.parsed.is_ca() && self.is_named_by(other) && self.signed(other) == Some(true)
    }

    /// Tells whether the certificate names itself as issuer. Clients do not check the
    /// signature of a root, so its algorithm does not matter.
    pub(super) fn is_self_signed(&self) -> bool {
        self.is_named_by(self) && self.signed(self) != Some(false)
    }

    fn is_named_by(&self, other: &Certificate<'_>) -> bool {
        self.parsed.subject().as_raw() == other.parsed.issuer().as_raw()
    }

    /// Tells whether this certificate's key made the signature of the other.
    /// Returns none for an algorithm that clients do not take.
    fn signed(&self, other: &Certificate<'_>) -> Option<bool> {
        let oid = other.parsed.signature_algorithm.algorithm.as_bytes();
        // Behind tag and length of the identifier.
        let is_named = |known: &&&dyn SignatureVerificationAlgorithm| {
            let id = known.signature_alg_id();
            id.get(2..).is_some_and(|id| id.starts_with(oid))
        };
        let known = default_provider().signature_verification_algorithms.all;
        let mut named = known.iter().filter(is_named).peekable();
        named.peek()?;
        let spki = SubjectPublicKeyInfoDer::from(self.parsed.public_key().raw);
        let Ok(key) = RawPublicKeyEntity::try_from(&spki) else {
            return Some(false);
        };
        let signed = other.parsed.tbs_certificate.as_ref();
        let signature = &other.parsed.signature_value.data;
        Some(named.any(|known| key.verify_signature(*known, signed, signature).is_ok()))
    }
}

/// Names a certificate in errors: by its subject, else by its serial number.
pub(super) fn describe(certificate: &X509Certificate<'_>) -> String {
    let subject = certificate.subject().to_string();
    let name = match subject.is_empty() {
        true => format!("serial number {}", certificate.raw_serial_as_string()),
        false => subject,
    };
    printable(&name)
}

/// Drops what stands there twice.
pub(super) fn without_copies(
    ders: Vec<CertificateDer<'static>>,
    notes: &mut Vec<String>,
) -> Vec<CertificateDer<'static>> {
    let mut kept: Vec<CertificateDer<'static>> = Vec::with_capacity(ders.len());
    for (der, number) in ders.into_iter().zip(1..) {
        match kept.contains(&der) {
            true => notes.push(format!("left out certificate {number}, a copy of another")),
            false => kept.push(der),
        }
    }
    kept
}

pub(super) fn parse<'a>(
    ders: &'a [CertificateDer<'static>],
) -> Result<Vec<Certificate<'a>>, CredentialError> {
    CredentialError::check_count(ders.len(), MAX_CERTIFICATES)?;
    let parse = |(der, number): (&'a CertificateDer<'static>, usize)| {
        let broken = |why| CredentialError::BrokenCertificate { number, why };
        let (rest, parsed) =
            X509Certificate::from_der(der).map_err(|_| broken("it is no X.509 certificate"))?;
        if !rest.is_empty() {
            return Err(broken("something follows it"));
        }
        // The reader of the load must understand it too.
        der::leaf(der).ok_or_else(|| broken("its header can't be read"))?;
        Ok(Certificate { der, parsed })
    };
    ders.iter().zip(1..).map(parse).collect()
}

type Split<'a, 'b> = (&'b Certificate<'a>, Vec<&'b Certificate<'a>>);

fn find_leaf<'a, 'b>(
    certificates: &'b [Certificate<'a>],
    public: &[u8],
) -> Result<Split<'a, 'b>, CredentialError> {
    let (mut of_key, others): (Vec<_>, Vec<_>) = certificates
        .iter()
        .partition(|one| one.parsed.public_key().raw == public);
    match (of_key.pop(), of_key.pop()) {
        (Some(leaf), None) => Ok((leaf, others)),
        (Some(one), Some(other)) => Err(CredentialError::TwoOfOneKey {
            one: other.subject(),
            other: one.subject(),
        }),
        _ => Err(CredentialError::KeyMismatch {
            certificates: certificates.len(),
            first: certificates
                .first()
                .map(Certificate::subject)
                .unwrap_or_default(),
        }),
    }
}

/// Goes from the leaf upwards, and takes what it passes out of `unused`.
fn walk<'a, 'b>(
    leaf: &'b Certificate<'a>,
    unused: &mut Vec<&'b Certificate<'a>>,
) -> Vec<&'b Certificate<'a>> {
    let mut order = vec![leaf];
    let mut current = leaf;
    while !current.is_self_signed()
        && let Some(issuer) = unused.iter().position(|other| other.issued(current))
    {
        current = unused.remove(issuer);
        order.push(current);
    }
    order
}

/// Finds the known root that issued a leaf. A root that can't be parsed issued
/// nothing.
fn root_of(
    leaf: &Certificate<'_>,
    roots: &[CertificateDer<'static>],
) -> Option<CertificateDer<'static>> {
    let issued = |der: &&CertificateDer<'static>| {
        X509Certificate::from_der(der)
            .is_ok_and(|(_, parsed)| Certificate { der, parsed }.issued(leaf))
    };
    roots.iter().find(issued).cloned()
}

fn incomplete(leaf: &Certificate<'_>, unused: &[&Certificate<'_>]) -> CredentialError {
    let namesake = unused.iter().find(|other| other.is_named_by(leaf));
    let issuer = printable(&leaf.parsed.issuer().to_string());
    let subject = leaf.subject();
    let why = match namesake.map(|namesake| (namesake.parsed.is_ca(), namesake.signed(leaf))) {
        None => {
            return CredentialError::Incomplete {
                leaf: subject,
                issuer,
            };
        }
        Some((true, None)) => {
            return CredentialError::Refused {
                subject,
                why: "it is signed with an algorithm that clients do not take".to_owned(),
            };
        }
        Some((true, _)) => "has another key",
        Some((false, _)) => "is no authority's (CA:TRUE is missing)",
    };
    CredentialError::WrongIssuer {
        leaf: subject,
        issuer,
        why,
    }
}

/// Bounds the search for issuers, which tries each with each.
const MAX_CERTIFICATES: usize = 50;
