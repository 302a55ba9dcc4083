//! Certificate authority whose leaves name their host and generation.

use anyhow::{Context, Result, ensure};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SerialNumber, date_time_ymd,
};
use rustls::pki_types::CertificateDer;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

/// Authority for all hosts. A leaf's generation is its serial number minus one.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

/// Certificate chain and key in PEM.
pub(crate) struct Pair {
    pub(crate) chain: String,
    pub(crate) key: String,
}

impl Authority {
    pub(crate) fn new() -> Result<Self> {
        let mut params = params(Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        params
            .distinguished_name
            .push(DnType::CommonName, "sekisho chaos");
        let key = KeyPair::generate()?;
        Ok(Self {
            pem: params.self_signed(&key)?.pem(),
            issuer: Issuer::new(params, key),
        })
    }

    pub(crate) fn issue(&self, host: &str, generation: u64) -> Result<Pair> {
        let mut params = params(vec![host.to_owned()])?;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.serial_number = Some(SerialNumber::from(generation + 1));
        let key = KeyPair::generate()?;
        Ok(Pair {
            chain: params.signed_by(&key, &self.issuer)?.pem() + &self.pem,
            key: key.serialize_pem(),
        })
    }
}

/// Returns the host and the generation of a leaf.
pub(crate) fn read(leaf: &CertificateDer<'_>) -> Result<(String, u64)> {
    let (_, leaf) = X509Certificate::from_der(leaf).context("the leaf can't be read")?;
    let names = leaf.subject_alternative_name()?.context("it has no name")?;
    let [GeneralName::DNSName(host)] = names.value.general_names[..] else {
        anyhow::bail!("it has not one name");
    };
    Ok((host.to_owned(), generation(leaf.raw_serial())?))
}

/// Converts a serial number to a generation.
pub(crate) fn generation(serial: &[u8]) -> Result<u64> {
    let fold = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
    let number = serial.iter().fold(0, fold);
    ensure!(number > 0, "the serial number is not one of ours");
    Ok(number - 1)
}

fn params(names: Vec<String>) -> Result<CertificateParams> {
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name = DistinguishedName::new();
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(2120, 1, 1);
    Ok(params)
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::pem::PemObject;

    use super::*;

    #[test]
    fn a_leaf_says_whose_and_which_it_is() {
        let authority = Authority::new().unwrap();
        for number in [0, 1, 126, 127, 128, 255, 256, 70_000] {
            let pair = authority.issue("a.example.test", number).unwrap();
            let leaf = CertificateDer::from_pem_slice(pair.chain.as_bytes()).unwrap();
            assert_eq!(read(&leaf).unwrap(), ("a.example.test".into(), number));
        }
    }
}
