//! A certificate authority that only the demo's clients trust.

use std::fs;
use std::io::{ErrorKind, Write};
use std::path::Path;

use anyhow::Context;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose,
};
use sekisho_stores::own_file;
use time::{Duration, OffsetDateTime, Time};

use crate::cli::demo::folder::replace;
use crate::terminal::failure::Result;

/// Authority that signs certificates for the demo's hosts.
pub(super) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// Root certificate that clients trust, PEM.
    root: String,
    /// Beginning of the day.
    today: OffsetDateTime,
}

impl Authority {
    /// Loads the authority of the folder, which clients may trust already, or
    /// creates it.
    pub(super) fn of(folder: &Path) -> Result<Self> {
        let today = OffsetDateTime::now_utc().replace_time(Time::MIDNIGHT);
        let (cert, key) = (folder.join(CERTIFICATE), folder.join(KEY));
        let (root, pair) = match (read(&cert)?, read(&key)?) {
            (Some(root), Some(pem)) => {
                let pair = KeyPair::from_pem(&pem).with_context(|| key.display().to_string())?;
                (root, pair)
            }
            _ => {
                let pair = KeyPair::generate()?;
                let made = own_file::remove(&key).and_then(|()| own_file::create(&key));
                let written =
                    made.and_then(|mut file| file.write_all(pair.serialize_pem().as_bytes()));
                written.with_context(|| key.display().to_string())?;
                let root = params(today)?.self_signed(&pair)?.pem();
                replace(&cert, root.as_bytes()).with_context(|| cert.display().to_string())?;
                (root, pair)
            }
        };
        let issuer = Issuer::new(params(today)?, pair);
        Ok(Self {
            issuer,
            root,
            today,
        })
    }

    /// Issues a certificate for one host, with its own ECDSA key. Returns the chain and
    /// the key, PEM.
    pub(super) fn issue(&self, host: &str) -> Result<(String, String), rcgen::Error> {
        let mut params = CertificateParams::new([host.to_owned()])?;
        params.distinguished_name = DistinguishedName::new();
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        set_validity(&mut params, self.today, LEAF_DAYS);
        let key = KeyPair::generate()?;
        let chain = params.signed_by(&key, &self.issuer)?.pem() + &self.root;
        Ok((chain, key.serialize_pem()))
    }
}

fn params(today: OffsetDateTime) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new([])?;
    params.distinguished_name = DistinguishedName::new();
    params
        .distinguished_name
        .push(DnType::CommonName, "sekisho demo CA");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    set_validity(&mut params, today, CA_DAYS);
    Ok(params)
}

/// Sets a validity from yesterday on, for clocks that are behind.
fn set_validity(params: &mut CertificateParams, today: OffsetDateTime, days: i64) {
    params.not_before = today - Duration::days(1);
    params.not_after = today + Duration::days(days);
}

fn read(path: &Path) -> Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| path.display().to_string()),
    }
}

/// File of the certificate that clients must trust.
pub(super) const CERTIFICATE: &str = "ca.pem";
const KEY: &str = "ca.key";
const CA_DAYS: i64 = 3650;
const LEAF_DAYS: i64 = 365;
