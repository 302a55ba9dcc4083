//! The chain: the leaf found by its key, then issuer by issuer.

use rustls::crypto::aws_lc_rs::default_provider;
use rustls_pki_types::{CertificateDer, SignatureVerificationAlgorithm};
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;

use super::error::CredentialError;
use crate::der::{self, SEQUENCE, element};
use crate::printable;

/// A chain in its order.
pub(super) struct Chain {
    /// Leaf first, then each certificate's issuer, without the root.
    pub(super) ders: Vec<CertificateDer<'static>>,
    /// Which of the known roots issued a leaf that stands alone.
    pub(super) root: Option<CertificateDer<'static>>,
    /// What was left out.
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
    let (leaf, others) = find_leaf(&certificates, public)?;
    let Walked {
        order,
        unused,
        is_whole,
    } = walk(leaf, others);
    let root = match is_whole {
        true => None,
        false => Some(root_of(leaf, roots).ok_or_else(|| incomplete(leaf, &unused))?),
    };
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

struct Certificate<'a> {
    der: &'a CertificateDer<'static>,
    parsed: X509Certificate<'a>,
    algorithms: &'static [&'static dyn SignatureVerificationAlgorithm],
}

impl Certificate<'_> {
    fn subject(&self) -> String {
        describe(&self.parsed)
    }

    /// Whether this one is the issuer of the other: an authority of that name
    /// whose key made the signature.
    fn issued(&self, other: &Self) -> bool {
        self.parsed.is_ca() && self.signed(other)
    }

    fn is_self_signed(&self) -> bool {
        self.signed(self)
    }

    fn signed(&self, other: &Self) -> bool {
        self.parsed.subject().as_raw() == other.parsed.issuer().as_raw()
            && verifies(self.der, other.der, self.algorithms).unwrap_or(true)
    }
}

/// How a certificate is called in errors.
pub(super) fn describe(certificate: &X509Certificate<'_>) -> String {
    let subject = certificate.subject().to_string();
    let name = match subject.is_empty() {
        true => format!("serial number {}", certificate.raw_serial_as_string()),
        false => subject,
    };
    printable(&name)
}

fn without_copies(
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

fn parse<'a>(ders: &'a [CertificateDer<'static>]) -> Result<Vec<Certificate<'a>>, CredentialError> {
    if ders.len() > MAX_GIVEN {
        return Err(CredentialError::TooMany {
            certificates: ders.len(),
            most: MAX_GIVEN,
        });
    }
    let algorithms = default_provider().signature_verification_algorithms.all;
    let parse = |(der, number): (&'a CertificateDer<'static>, usize)| {
        let broken = |why| CredentialError::BrokenCertificate { number, why };
        let (rest, parsed) =
            X509Certificate::from_der(der).map_err(|_| broken("it is no X.509 certificate"))?;
        if !rest.is_empty() {
            return Err(broken("something follows it"));
        }
        // The reader of the load must understand it too.
        der::leaf(der).ok_or_else(|| broken("its header can't be read"))?;
        Ok(Certificate {
            der,
            parsed,
            algorithms,
        })
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

/// The way from the leaf upwards.
struct Walked<'a, 'b> {
    order: Vec<&'b Certificate<'a>>,
    unused: Vec<&'b Certificate<'a>>,
    /// Whether it brings an issuer, or needs none.
    is_whole: bool,
}

fn walk<'a, 'b>(leaf: &'b Certificate<'a>, mut others: Vec<&'b Certificate<'a>>) -> Walked<'a, 'b> {
    let mut order = vec![leaf];
    let mut current = leaf;
    while !current.is_self_signed() {
        let Some(issuer) = others.iter().position(|other| other.issued(current)) else {
            break;
        };
        current = others.remove(issuer);
        order.push(current);
    }
    let rooted = current.is_self_signed();
    let is_whole = order.len() > 1 || rooted;
    // Clients have the root, or do not trust it.
    if order.len() > 1 && rooted {
        order.pop();
    }
    Walked {
        order,
        unused: others,
        is_whole,
    }
}

/// The root among those known that issued a leaf. A root that can't be parsed
/// issued nothing.
fn root_of(
    leaf: &Certificate<'_>,
    roots: &[CertificateDer<'static>],
) -> Option<CertificateDer<'static>> {
    let issued = |root: &&CertificateDer<'static>| {
        X509Certificate::from_der(root).is_ok_and(|(_, parsed)| {
            let algorithms = leaf.algorithms;
            let root = Certificate {
                der: root,
                parsed,
                algorithms,
            };
            root.issued(leaf)
        })
    };
    roots.iter().find(issued).cloned()
}

fn incomplete(leaf: &Certificate<'_>, unused: &[&Certificate<'_>]) -> CredentialError {
    let issuer = leaf.parsed.issuer();
    let namesake = unused
        .iter()
        .find(|other| other.parsed.subject().as_raw() == issuer.as_raw());
    let (leaf, issuer) = (leaf.subject(), printable(&issuer.to_string()));
    match namesake {
        None => CredentialError::Incomplete { leaf, issuer },
        Some(namesake) => CredentialError::WrongIssuer {
            leaf,
            issuer,
            why: match namesake.parsed.is_ca() {
                true => "has another key",
                false => "is no authority's (CA:TRUE is missing)",
            },
        },
    }
}

/// Whether the key of one made the signature of the other; none for an
/// algorithm that is not known.
fn verifies(
    by: &[u8],
    of: &[u8],
    algorithms: &[&'static dyn SignatureVerificationAlgorithm],
) -> Option<bool> {
    let (spki, _) = element(der::leaf(by)?.spki, SEQUENCE)?;
    let (key_algorithm, rest) = element(spki, SEQUENCE)?;
    let key = element(rest, BIT_STRING)?.0.get(1..)?;
    let (certificate, _) = element(of, SEQUENCE)?;
    let (_, rest) = element(certificate, SEQUENCE)?;
    let signed = &certificate[..certificate.len() - rest.len()];
    let (algorithm, rest) = element(rest, SEQUENCE)?;
    let signature = element(rest, BIT_STRING)?.0.get(1..)?;
    let known = |known: &&&dyn SignatureVerificationAlgorithm| {
        known.signature_alg_id().as_ref() == algorithm
    };
    algorithms.iter().find(known)?;
    let fits = |known: &&&dyn SignatureVerificationAlgorithm| {
        known.public_key_alg_id().as_ref() == key_algorithm
    };
    let mut fitting = algorithms.iter().filter(known).filter(fits);
    Some(fitting.any(|known| known.verify_signature(key, signed, signature).is_ok()))
}

const BIT_STRING: u8 = 0x03;
/// Bounds the search for issuers, which tries each with each.
const MAX_GIVEN: usize = 50;
