//! Test certificate authority: root, intermediate, leaves.

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DistinguishedName, DnType, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, RsaKeySize, SerialNumber, date_time_ymd,
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

/// Root and intermediate, which signs the leaves.
pub struct TestCa {
    root: Certificate,
    intermediate: Certificate,
    issuer: Issuer<'static, KeyPair>,
}

impl TestCa {
    /// Makes both with fresh keys.
    ///
    /// # Panics
    /// If keys can't be made.
    #[must_use]
    pub fn new() -> Self {
        Self::named("sekisho test")
    }

    /// Makes a CA whose certificates have names that begin so.
    ///
    /// # Panics
    /// As [`TestCa::new`].
    #[must_use]
    pub fn named(name: &str) -> Self {
        let root_key = KeyPair::generate().expect("a key");
        let root_params = authority(&format!("{name} root"));
        let root = root_params.self_signed(&root_key).expect("a root");
        let root_issuer = Issuer::new(root_params, root_key);
        let key = KeyPair::generate().expect("a key");
        let params = authority(&format!("{name} intermediate"));
        let intermediate = params
            .signed_by(&key, &root_issuer)
            .expect("an intermediate");
        Self {
            root,
            intermediate,
            issuer: Issuer::new(params, key),
        }
    }

    /// Issues a leaf for these names (wildcards, too) with a key of that type,
    /// valid from 2020 to 2120.
    #[must_use]
    pub fn issue(&self, names: &[&str], key: Key) -> Pair {
        self.issue_valid(names, key, (2020, 1, 1), (2120, 1, 1))
    }

    /// Issues a certificate with its own validity: year, month, day.
    ///
    /// # Panics
    /// If a name is none, or a date is none.
    #[must_use]
    pub fn issue_valid(
        &self,
        names: &[&str],
        key: Key,
        from: (i32, u8, u8),
        to: (i32, u8, u8),
    ) -> Pair {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(names).expect("DNS names");
        params.distinguished_name = DistinguishedName::new();
        params.not_before = date_time_ymd(from.0, from.1, from.2);
        params.not_after = date_time_ymd(to.0, to.1, to.2);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let key = key.generate();
        let leaf = params.signed_by(&key, &self.issuer).expect("a leaf");
        Pair {
            chain: vec![leaf.der().clone(), self.intermediate.der().clone()],
            leaf,
            key,
            issuer: self.intermediate.pem(),
        }
    }

    /// Returns the root certificate that clients trust.
    #[must_use]
    pub fn root(&self) -> CertificateDer<'static> {
        self.root.der().clone()
    }

    /// Returns the intermediate and its key as PEM: another CA may issue under it.
    #[must_use]
    pub fn intermediate_pem(&self) -> (String, String) {
        (self.intermediate.pem(), self.issuer.key().serialize_pem())
    }

    /// Returns the certificate as PEM.
    #[must_use]
    pub fn root_pem(&self) -> String {
        self.root.pem()
    }
}

impl Default for TestCa {
    fn default() -> Self {
        Self::new()
    }
}

/// Leaf with its chain and key.
pub struct Pair {
    /// Leaf and intermediate.
    pub chain: Vec<CertificateDer<'static>>,
    leaf: Certificate,
    key: KeyPair,
    issuer: String,
}

impl Pair {
    /// Returns leaf and intermediate as PEM.
    #[must_use]
    pub fn chain_pem(&self) -> String {
        format!("{}{}", self.leaf.pem(), self.issuer)
    }

    /// Returns the leaf alone as PEM.
    #[must_use]
    pub fn leaf_pem(&self) -> String {
        self.leaf.pem()
    }

    /// Returns the key as PKCS#8 PEM.
    #[must_use]
    pub fn key_pem(&self) -> String {
        self.key.serialize_pem()
    }

    /// Returns the key as PKCS#8 DER.
    #[must_use]
    pub fn key_der(&self) -> PrivateKeyDer<'static> {
        PrivatePkcs8KeyDer::from(self.key.serialize_der()).into()
    }
}

/// Type of a leaf's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// ECDSA on P-256.
    P256,
    /// ECDSA on P-384.
    P384,
    /// Ed25519.
    Ed25519,
    /// RSA with 2048 bits.
    Rsa2048,
    /// RSA with 4096 bits; making one takes about a second.
    Rsa4096,
}

impl Key {
    fn generate(self) -> KeyPair {
        let made = match self {
            Self::P256 => KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256),
            Self::P384 => KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384),
            Self::Ed25519 => KeyPair::generate_for(&rcgen::PKCS_ED25519),
            Self::Rsa2048 => KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, RsaKeySize::_2048),
            Self::Rsa4096 => KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, RsaKeySize::_4096),
        };
        made.expect("a key")
    }
}

fn authority(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(2121, 1, 1);
    params.serial_number = Some(SerialNumber::from(name.len() as u64));
    params
}
