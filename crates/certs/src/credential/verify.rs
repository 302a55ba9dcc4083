//! The chain as clients judge it (RFC 5280, section 6), up to its topmost
//! certificate: its issuer is known to clients alone.

use std::time::Duration;

use rustls::crypto::aws_lc_rs::default_provider;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use webpki::{EndEntityCert, anchor_from_trusted_cert};
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::KeyUsage;
use x509_parser::prelude::FromDer;

use super::chain::describe;
use super::error::{CredentialError, Date};
use super::validate::{Credential, Dates};
use crate::der;
use crate::host::HostPattern;

type Result<T> = std::result::Result<T, CredentialError>;

impl Credential {
    /// Verifies what clients verify, but for trust: critical extensions, usage,
    /// dates and path lengths of each certificate, then signatures and name
    /// constraints of the path, then the hosts. A self-signed leaf is judged by
    /// its own extensions alone, and may be an authority's.
    ///
    /// # Errors
    /// Names the certificate and what clients find wrong with it.
    pub fn verify(&self, hosts: &[HostPattern], dates: Dates) -> Result<()> {
        let ders: Vec<_> = self.chain().iter().chain(self.root()).collect();
        let certificates: Vec<_> = ders.iter().map(|der| parsed(der)).collect();
        certificates.iter().try_for_each(critical_extensions)?;
        let (leaf, issuers) = certificates.split_first().expect("a chain has a leaf");
        server_usage(leaf)?;
        for (at, issuer) in issuers.iter().enumerate() {
            let header = der::leaf(ders[at + 1]).expect("arranging has read it");
            issuer_usage(issuer, &issuers[..at])?;
            dates
                .check(header.not_before, header.not_after)
                .map_err(|_| expired(issuer, header.not_after))?;
        }
        let refused = |why: &str| refused(leaf, why);
        if let Some((anchor, below)) = ders[1..].split_last() {
            let below: Vec<_> = below.iter().map(|der| (**der).clone()).collect();
            path(ders[0], &below, anchor, self.time(dates)).map_err(|why| refused(&why))?;
        }
        names(ders[0], hosts).map_err(|why| refused(&why))
    }

    /// Returns when to verify: where dates do not count, once the whole chain
    /// has begun.
    fn time(&self, dates: Dates) -> (Dates, UnixTime) {
        let seconds = match dates {
            Dates::ValidAt(now) => now,
            Dates::Any => {
                let headers = self.chain().iter().filter_map(|der| der::leaf(der));
                headers.map(|header| header.not_before).max().unwrap_or(0)
            }
        };
        let since = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
        (dates, UnixTime::since_unix_epoch(since))
    }
}

fn parsed<'a>(der: &'a CertificateDer<'_>) -> X509Certificate<'a> {
    let (_, certificate) = X509Certificate::from_der(der).expect("arranging has parsed it");
    certificate
}

fn refused(certificate: &X509Certificate<'_>, why: &str) -> CredentialError {
    CredentialError::Refused {
        subject: describe(certificate),
        why: why.to_owned(),
    }
}

fn expired(issuer: &X509Certificate<'_>, not_after: i64) -> CredentialError {
    let end = Date(not_after);
    refused(
        issuer,
        &format!("this issuer is not valid now (until {end}); get its successor from your CA"),
    )
}

/// Refuses critical extensions that clients do not know, as they must (RFC
/// 5280, section 4.2).
fn critical_extensions(certificate: &X509Certificate<'_>) -> Result<()> {
    for extension in certificate.extensions() {
        let oid = extension.oid.to_id_string();
        if !extension.critical || KNOWN.contains(&oid.as_str()) {
            continue;
        }
        let why = match oid == PRECERTIFICATE {
            true => "it is a precertificate, made for logs alone (RFC 6962)".to_owned(),
            false => format!("clients do not know its critical extension {oid}"),
        };
        return Err(refused(certificate, &why));
    }
    Ok(())
}

/// Checks that the leaf is for servers, if it says what it is for (RFC 5280,
/// sections 4.2.1.3 and 4.2.1.12).
fn server_usage(leaf: &X509Certificate<'_>) -> Result<()> {
    extended_usage(leaf)?;
    let usage = leaf.key_usage().map_err(|_| unreadable(leaf))?;
    let signs = |usage: &KeyUsage| {
        usage.digital_signature() || usage.key_encipherment() || usage.key_agreement()
    };
    ensure(usage.is_none_or(|usage| signs(usage.value)), leaf, || {
        "its key usage does not allow a TLS server's signature".into()
    })
}

/// Checks that an issuer may sign servers' certificates. `below` are the
/// authorities that its path length counts.
fn issuer_usage(issuer: &X509Certificate<'_>, below: &[X509Certificate<'_>]) -> Result<()> {
    extended_usage(issuer)?;
    let usage = issuer.key_usage().map_err(|_| unreadable(issuer))?;
    let signs = usage.is_none_or(|usage| usage.value.key_cert_sign());
    ensure(signs, issuer, || {
        "its key usage does not allow it to sign certificates".into()
    })?;
    let constraints = issuer.basic_constraints();
    let constraints = constraints.map_err(|_| unreadable(issuer))?;
    let most = constraints.and_then(|found| found.value.path_len_constraint);
    // Self-issued certificates do not count (RFC 5280, section 4.2.1.9).
    let is_counted = |one: &&X509Certificate<'_>| one.subject().as_raw() != one.issuer().as_raw();
    let counted = below.iter().filter(is_counted).count();
    let most = most.map_or(usize::MAX, |most| most as usize);
    ensure(counted <= most, issuer, || {
        format!("it allows {most} authorities below it, and there are {counted}")
    })
}

fn extended_usage(certificate: &X509Certificate<'_>) -> Result<()> {
    let usage = certificate.extended_key_usage();
    let usage = usage.map_err(|_| unreadable(certificate))?;
    let serves = usage.is_none_or(|usage| usage.value.any || usage.value.server_auth);
    ensure(serves, certificate, || {
        "its extended key usage is not for TLS servers (serverAuth is missing)".into()
    })
}

fn ensure(
    holds: bool,
    certificate: &X509Certificate<'_>,
    why: impl FnOnce() -> String,
) -> Result<()> {
    match holds {
        true => Ok(()),
        false => Err(refused(certificate, &why())),
    }
}

fn unreadable(certificate: &X509Certificate<'_>) -> CredentialError {
    refused(
        certificate,
        "one of its extensions is broken or stands there twice",
    )
}

/// Verifies signatures and name constraints with the topmost certificate as
/// trust anchor.
fn path(
    leaf: &CertificateDer<'_>,
    intermediates: &[CertificateDer<'_>],
    anchor: &CertificateDer<'_>,
    (dates, time): (Dates, UnixTime),
) -> std::result::Result<(), String> {
    let anchor = anchor_from_trusted_cert(anchor).map_err(|error| explain(&error))?;
    let verified = EndEntityCert::try_from(leaf)
        .map_err(|error| explain(&error))?
        .verify_for_usage(
            default_provider().signature_verification_algorithms.all,
            &[anchor],
            intermediates,
            time,
            webpki::KeyUsage::server_auth(),
            None,
            None,
        )
        .map(drop);
    match verified {
        // Decided above: clients know more of them than this library.
        Err(webpki::Error::UnsupportedCriticalExtension) => Ok(()),
        Err(webpki::Error::CertExpired { .. } | webpki::Error::CertNotValidYet { .. })
            if dates == Dates::Any =>
        {
            Ok(())
        }
        other => other.map_err(|error| explain(&error)),
    }
}

/// Describes an error of webpki.
fn explain(error: &webpki::Error) -> String {
    use webpki::Error;
    match error {
        Error::NameConstraintViolation => {
            "an issuer's name constraints do not allow one of its names".into()
        }
        Error::CaUsedAsEndEntity => {
            "it is an authority's certificate (CA:TRUE), not a server's".into()
        }
        Error::EndEntityUsedAsCa => "one of its issuers is no authority".into(),
        Error::UnsupportedSignatureAlgorithmContext(_)
        | Error::UnsupportedSignatureAlgorithmForPublicKeyContext(_) => {
            "its chain is signed with an algorithm that clients do not take".into()
        }
        Error::UnknownIssuer | Error::InvalidSignatureForPublicKey => {
            "one of its issuers did not sign it".into()
        }
        other => format!("its encoding breaks RFC 5280 ({other})"),
    }
}

/// Compares the names as clients do. A wildcard stands for each name one label
/// below it.
fn names(leaf: &CertificateDer<'_>, hosts: &[HostPattern]) -> std::result::Result<(), String> {
    // A self-signed leaf of an old version has no names that could fit.
    let Ok(leaf) = EndEntityCert::try_from(leaf) else {
        return Ok(());
    };
    for host in hosts {
        let name = host.as_str().replacen('*', "any", 1);
        let Ok(name) = ServerName::try_from(name) else {
            continue;
        };
        leaf.verify_is_valid_for_subject_name(&name).map_err(|_| {
            format!("none of its names stands for {host}; a wildcard must have two labels below it")
        })?;
    }
    Ok(())
}

/// Extensions that browsers or OpenSSL process: key usage, alternative names,
/// basic and name constraints, distribution points, policies, extended usage.
const KNOWN: [&str; 10] = [
    "2.5.29.15",
    "2.5.29.17",
    "2.5.29.19",
    "2.5.29.30",
    "2.5.29.31",
    "2.5.29.32",
    "2.5.29.33",
    "2.5.29.36",
    "2.5.29.37",
    "2.5.29.54",
];
const PRECERTIFICATE: &str = "1.3.6.1.4.1.11129.2.4.3";

#[cfg(test)]
mod tests;
