//! Keys of certificates, and requests for certificates (RFC 2986).

use std::fmt;
use std::str::FromStr;

use rcgen::{CertificateParams, DistinguishedName, KeyPair, RsaKeySize};
use rustls_pki_types::PrivatePkcs8KeyDer;
use sekisho_certs::KeyType;
use sekisho_certs::credential::Secret;
use sekisho_certs::host::HostPattern;
use zeroize::Zeroizing;

/// Type of the key of a new certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum KeyKind {
    /// ECDSA on P-256.
    #[default]
    P256,
    /// ECDSA on P-384.
    P384,
    /// RSA with 2048 bits.
    Rsa2048,
    /// RSA with 3072 bits.
    Rsa3072,
    /// RSA with 4096 bits.
    Rsa4096,
}

impl KeyKind {
    /// Returns the type of the key, whatever its size.
    #[must_use]
    pub fn key_type(self) -> KeyType {
        match self {
            Self::P256 | Self::P384 => KeyType::Ecdsa,
            Self::Rsa2048 | Self::Rsa3072 | Self::Rsa4096 => KeyType::Rsa,
        }
    }

    /// Tells whether making such a key takes longer than a server's thread may be kept: up
    /// to a second and more for RSA.
    #[must_use]
    pub fn is_slow(self) -> bool {
        !matches!(self, Self::P256 | Self::P384)
    }
}

/// Reads the configured form.
impl FromStr for KeyKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "p256" => Ok(Self::P256),
            "p384" => Ok(Self::P384),
            "rsa2048" => Ok(Self::Rsa2048),
            "rsa3072" => Ok(Self::Rsa3072),
            "rsa4096" => Ok(Self::Rsa4096),
            _ => Err(format!(
                "{text:?} is no key type: p256, p384, rsa2048, rsa3072 or rsa4096"
            )),
        }
    }
}

/// Private key of a certificate to come. It is saved before the order is finalized,
/// since the certificate is worthless without it. Its memory is wiped.
pub struct CertificateKey(Zeroizing<KeyPair>);

impl CertificateKey {
    /// Makes a key. A kind that [`KeyKind::is_slow`] is made on a thread of its own.
    ///
    /// # Errors
    /// Says why the system can't.
    pub fn generate(kind: KeyKind) -> Result<Self, String> {
        let rsa = |size| KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, size);
        let made = match kind {
            KeyKind::P256 => KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256),
            KeyKind::P384 => KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384),
            KeyKind::Rsa2048 => rsa(RsaKeySize::_2048),
            KeyKind::Rsa3072 => rsa(RsaKeySize::_3072),
            KeyKind::Rsa4096 => rsa(RsaKeySize::_4096),
        };
        made.map(|pair| Self(Zeroizing::new(pair)))
            .map_err(|error| error.to_string())
    }

    /// Reads a key that [`CertificateKey::to_pkcs8`] gave.
    ///
    /// # Errors
    /// Says what is wrong with the bytes.
    pub fn from_pkcs8(key: &Secret) -> Result<Self, String> {
        let der = PrivatePkcs8KeyDer::from(key.expose());
        let pair = KeyPair::try_from(&der);
        pair.map(|pair| Self(Zeroizing::new(pair)))
            .map_err(|error| error.to_string())
    }

    /// Returns the key as PKCS#8 DER.
    #[must_use]
    pub fn to_pkcs8(&self) -> Secret {
        Secret::new(self.0.serialize_der())
    }

    /// Returns a request for a certificate of these names, DER.
    ///
    /// # Errors
    /// Says which name no certificate can have.
    pub fn request(&self, names: &[HostPattern]) -> Result<Vec<u8>, String> {
        let names: Vec<_> = names.iter().map(|name| name.as_str().to_owned()).collect();
        let request = CertificateParams::new(names).and_then(|mut params| {
            // Public CAs fill in the subject themselves.
            params.distinguished_name = DistinguishedName::new();
            params.serialize_request(&*self.0)
        });
        let request = request.map_err(|error| error.to_string())?;
        Ok(request.der().to_vec())
    }
}

impl fmt::Debug for CertificateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CertificateKey(…)")
    }
}

#[cfg(test)]
mod tests {
    use x509_parser::certification_request::X509CertificationRequest;
    use x509_parser::extensions::{GeneralName, ParsedExtension};
    use x509_parser::prelude::FromDer;

    use super::*;

    #[test]
    fn requests_carry_the_names_and_the_saved_key() {
        let names = ["a.example", "*.b.example"].map(|name| HostPattern::parse(name).unwrap());
        for kind in [KeyKind::P256, KeyKind::P384, KeyKind::Rsa2048] {
            let key = CertificateKey::generate(kind).unwrap();
            let saved = CertificateKey::from_pkcs8(&key.to_pkcs8()).unwrap();
            let der = saved.request(&names).unwrap();
            let (_, request) = X509CertificationRequest::from_der(&der).unwrap();
            let info = &request.certification_request_info;
            let public = &info.subject_pki.subject_public_key.data;
            assert_eq!(&**public, key.0.public_key_raw(), "{kind:?}");
            assert!(info.subject.as_raw().ends_with(&[0x30, 0]), "{kind:?}");
            let mut found = Vec::new();
            for extension in request.requested_extensions().unwrap() {
                if let ParsedExtension::SubjectAlternativeName(names) = extension {
                    let name = |name: &GeneralName<'_>| name.to_string();
                    found = names.general_names.iter().map(name).collect();
                }
            }
            assert_eq!(found.len(), 2);
            assert!(found[1].contains("*.b.example"), "{found:?}");
        }
    }

    #[test]
    fn a_key_is_wiped_once_it_is_not_used() {
        fn is_wiped(_: &impl zeroize::ZeroizeOnDrop) {}
        let key = CertificateKey::generate(KeyKind::P256).unwrap();
        is_wiped(&key.0);
        let pkcs8 = key.to_pkcs8();
        let mut pair = key.0;
        zeroize::Zeroize::zeroize(&mut *pair);
        assert_ne!(pkcs8.expose(), pair.serialized_der());
    }

    #[test]
    fn kinds_are_read_as_they_are_written() {
        for (text, kind) in [
            ("p256", KeyKind::P256),
            ("p384", KeyKind::P384),
            ("rsa2048", KeyKind::Rsa2048),
            ("rsa3072", KeyKind::Rsa3072),
            ("rsa4096", KeyKind::Rsa4096),
        ] {
            assert_eq!(text.parse(), Ok(kind));
        }
        let error = "rsa".parse::<KeyKind>().unwrap_err();
        assert!(error.contains("rsa2048"), "{error}");
    }

    #[test]
    fn bytes_that_are_no_key_are_refused() {
        let broken = Secret::new(vec![0x30, 0]);
        assert!(CertificateKey::from_pkcs8(&broken).is_err());
    }
}
