//! Reads the fields of a leaf certificate for people.

use anyhow::anyhow;
use aws_lc_rs::digest;
use data_encoding::HEXLOWER;
use sekisho_certs::{HostPattern, StoredCredential};
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::terminal::failure::Result;

/// Fields of a leaf certificate that are shown.
pub(crate) struct Leaf {
    /// DNS names of the leaf.
    pub(crate) names: Vec<HostPattern>,
    pub(crate) issuer: String,
    /// Serial number, hexadecimal.
    pub(crate) serial: String,
    /// SHA-256 of the whole certificate, hexadecimal.
    pub(crate) sha256: String,
}

impl Leaf {
    /// Reads a stored credential's leaf.
    pub(crate) fn of<K>(credential: &StoredCredential<K>) -> Result<Self> {
        let unreadable = || anyhow!("the leaf of {} can't be read", credential.id);
        let der = credential.chain.first().ok_or_else(unreadable)?;
        let (_, leaf) = X509Certificate::from_der(der).map_err(|_| unreadable())?;
        Ok(Self {
            names: names(&leaf),
            issuer: leaf.issuer().to_string(),
            serial: HEXLOWER.encode(leaf.raw_serial()),
            sha256: HEXLOWER.encode(digest::digest(&digest::SHA256, der).as_ref()),
        })
    }
}

/// Refuses a host that no name of a certificate covers: every client would
/// refuse it.
pub(crate) fn check_covers(names: &[HostPattern], host: &HostPattern) -> Result<(), String> {
    if names.iter().any(|name| name.includes(host)) {
        return Ok(());
    }
    Err(format!(
        "the certificate is for {}, not for {host}",
        joined(names)
    ))
}

/// Joins the first names, and the number of further ones.
pub(crate) fn joined(names: &[HostPattern]) -> String {
    let first = names.iter().take(NAMES_SHOWN);
    let first: Vec<_> = first.map(HostPattern::as_str).collect();
    let mut text = first.join(", ");
    match names.len().saturating_sub(NAMES_SHOWN) {
        0 if names.is_empty() => text.push_str("no host"),
        0 => {}
        more => text.push_str(&format!(" and {more} more")),
    }
    text
}

fn names(leaf: &X509Certificate<'_>) -> Vec<HostPattern> {
    let Ok(Some(extension)) = leaf.subject_alternative_name() else {
        return Vec::new();
    };
    let names = extension.value.general_names.iter();
    let parsed = names.filter_map(|name| match name {
        GeneralName::DNSName(name) => HostPattern::parse(name).ok(),
        _ => None,
    });
    parsed.collect()
}

const NAMES_SHOWN: usize = 3;
