//! Keys of accounts that another tool has made: RSA, P-256 and P-384, in the forms of
//! certbot, Traefik, and of all that write PEM.

use std::collections::BTreeMap;
use std::fmt;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeyPairComponents;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair,
    EcdsaSigningAlgorithm, KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair, RsaPublicKeyComponents,
};
use data_encoding::{BASE64, BASE64URL_NOPAD};
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject;
use sekisho_certs::credential::Secret;
use sekisho_certs::der;
use serde::Deserialize;
use serde_json::{Value, json};
use zeroize::Zeroizing;

/// Key that signs requests of an account (RFC 8555, section 6.2). Never shown.
pub struct ForeignKey(Pair);

enum Pair {
    Rsa(Box<RsaKeyPair>),
    Ec(EcdsaKeyPair, Curve),
}

/// Curve by its names in JWK and JWS (RFC 7518, sections 6.2.1.1 and 3.1).
#[derive(Clone, Copy, PartialEq, Eq)]
enum Curve {
    P256,
    P384,
}

impl ForeignKey {
    /// Reads the content of a file: a JWK, PEM, or Traefik's `acme.json`. `resolver` names
    /// one of the resolvers in the latter.
    ///
    /// # Errors
    /// Says what is there instead, without the key.
    pub fn read(content: &[u8], resolver: Option<&str>) -> Result<Self, String> {
        if content.trim_ascii_start().starts_with(b"{") {
            return Self::of_json(content, resolver);
        }
        let key = PrivateKeyDer::from_pem_slice(content)
            .map_err(|_| "it is neither JSON nor a private key in PEM".to_owned())?;
        Self::of_der(key.secret_der()).ok_or_else(|| UNKNOWN.to_owned())
    }

    fn of_json(content: &[u8], resolver: Option<&str>) -> Result<Self, String> {
        // Errors of the parser could repeat a part of a key.
        let unknown = |_| "it is neither a JWK nor an acme.json of Traefik".to_owned();
        let file: File<'_> = serde_json::from_slice(content).map_err(unknown)?;
        if file.kty.is_some() {
            return file.jwk().ok_or_else(|| UNKNOWN.to_owned());
        }
        if let Some(account) = file.account {
            return account.key();
        }
        let resolvers: BTreeMap<String, Resolver<'_>> =
            serde_json::from_slice(content).map_err(unknown)?;
        let mut chosen = resolvers.iter().filter_map(|(name, one)| {
            let is_it = resolver.is_none_or(|resolver| resolver == name);
            one.account.as_ref().filter(|_| is_it)
        });
        match (chosen.next(), chosen.next()) {
            (Some(account), None) => account.key(),
            (None, _) => Err("it has no such account".to_owned()),
            (Some(_), Some(_)) => {
                let names: Vec<_> = resolvers.keys().map(String::as_str).collect();
                let names = names.join(", ");
                Err(format!("it has several accounts; choose one with --resolver: {names}"))
            }
        }
    }

    /// Reads PKCS#8, SEC 1 or PKCS#1. None for other keys, and RSA below 2048 bits.
    pub(super) fn of_der(der: &[u8]) -> Option<Self> {
        for curve in [Curve::P256, Curve::P384] {
            if let Ok(pair) = EcdsaKeyPair::from_private_key_der(curve.algorithm(), der) {
                return Some(Self(Pair::Ec(pair, curve)));
            }
        }
        let pair = RsaKeyPair::from_pkcs8(der).or_else(|_| RsaKeyPair::from_der(der));
        Some(Self(Pair::Rsa(Box::new(pair.ok()?))))
    }

    /// Returns the key as PKCS#8 if it is of the kind that accounts of a store have.
    pub(super) fn p256(&self) -> Option<Secret> {
        match &self.0 {
            Pair::Ec(pair, Curve::P256) => {
                let der = pair.to_pkcs8v1().ok()?;
                Some(Secret::new(der.as_ref().to_vec()))
            }
            Pair::Ec(..) | Pair::Rsa(_) => None,
        }
    }

    /// Tells whether the account needs another key before a store can have it.
    #[must_use]
    pub fn must_change(&self) -> bool {
        !matches!(self.0, Pair::Ec(_, Curve::P256))
    }

    /// Returns the public key (RFC 7517).
    pub(super) fn jwk(&self) -> Option<Value> {
        match &self.0 {
            Pair::Ec(pair, curve) => {
                let point = pair.public_key().as_ref().get(1..)?;
                let (x, y) = point.split_at(point.len() / 2);
                let (crv, _) = curve.names();
                Some(json!({"kty": "EC", "crv": crv, "x": encode(x), "y": encode(y)}))
            }
            Pair::Rsa(pair) => {
                let (numbers, _) = der::element(pair.public_key().as_ref(), SEQUENCE)?;
                let (n, rest) = der::element(numbers, INTEGER)?;
                let (e, _) = der::element(rest, INTEGER)?;
                let bare = |number: &[u8]| encode(number.strip_prefix(&[0]).unwrap_or(number));
                Some(json!({"kty": "RSA", "n": bare(n), "e": bare(e)}))
            }
        }
    }

    /// Signs a request (RFC 7515, section 7.2.2). `protected` gets the algorithm.
    pub(super) fn sign(&self, mut protected: Value, payload: &[u8]) -> Option<Vec<u8>> {
        protected["alg"] = self.algorithm().into();
        let protected = encode(&serde_json::to_vec(&protected).ok()?);
        let payload = encode(payload);
        let signature = self.sign_bytes(format!("{protected}.{payload}").as_bytes())?;
        let signature = encode(&signature);
        let signed = json!({"protected": protected, "payload": payload, "signature": signature});
        serde_json::to_vec(&signed).ok()
    }

    fn algorithm(&self) -> &'static str {
        match &self.0 {
            Pair::Rsa(_) => "RS256",
            Pair::Ec(_, curve) => curve.names().1,
        }
    }

    fn sign_bytes(&self, message: &[u8]) -> Option<Vec<u8>> {
        let random = SystemRandom::new();
        match &self.0 {
            Pair::Ec(pair, _) => Some(pair.sign(&random, message).ok()?.as_ref().to_vec()),
            Pair::Rsa(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature)
                    .ok()?;
                Some(signature)
            }
        }
    }
}

impl fmt::Debug for ForeignKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ForeignKey({})", self.algorithm())
    }
}

impl Curve {
    fn algorithm(self) -> &'static EcdsaSigningAlgorithm {
        match self {
            Self::P256 => &ECDSA_P256_SHA256_FIXED_SIGNING,
            Self::P384 => &ECDSA_P384_SHA384_FIXED_SIGNING,
        }
    }

    fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::P256 => ("P-256", "ES256"),
            Self::P384 => ("P-384", "ES384"),
        }
    }
}

/// A JWK (RFC 7518, section 6), or `acme.json` before resolvers had names. Its texts are
/// those of the file, which is wiped.
#[derive(Deserialize)]
struct File<'a> {
    kty: Option<&'a str>,
    crv: Option<&'a str>,
    x: Option<&'a str>,
    y: Option<&'a str>,
    n: Option<&'a str>,
    e: Option<&'a str>,
    d: Option<&'a str>,
    p: Option<&'a str>,
    q: Option<&'a str>,
    dp: Option<&'a str>,
    dq: Option<&'a str>,
    qi: Option<&'a str>,
    #[serde(borrow, rename = "Account")]
    account: Option<Account<'a>>,
}

/// Resolver of `acme.json`.
#[derive(Deserialize)]
struct Resolver<'a> {
    #[serde(borrow, rename = "Account")]
    account: Option<Account<'a>>,
}

/// Account of a resolver.
#[derive(Deserialize)]
struct Account<'a> {
    /// DER in base64.
    #[serde(rename = "PrivateKey")]
    private_key: &'a str,
}

impl File<'_> {
    fn jwk(&self) -> Option<ForeignKey> {
        let number = |text: Option<&str>| {
            let bytes = BASE64URL_NOPAD.decode(text?.trim_end_matches('=').as_bytes());
            bytes.ok().map(Zeroizing::new)
        };
        if self.kty == Some("EC") {
            let curves = [Curve::P256, Curve::P384].into_iter();
            let curve = curves.clone().find(|one| self.crv == Some(one.names().0))?;
            let public = [&[4][..], &number(self.x)?, &number(self.y)?].concat();
            let (algorithm, private) = (curve.algorithm(), number(self.d)?);
            let pair =
                EcdsaKeyPair::from_private_key_and_public_key(algorithm, &private, &public).ok()?;
            return Some(ForeignKey(Pair::Ec(pair, curve)));
        }
        let components = KeyPairComponents {
            public_key: RsaPublicKeyComponents {
                n: number(self.n)?,
                e: number(self.e)?,
            },
            d: number(self.d)?,
            p: number(self.p)?,
            q: number(self.q)?,
            dP: number(self.dp)?,
            dQ: number(self.dq)?,
            qInv: number(self.qi)?,
        };
        let pair = RsaKeyPair::from_components(&components).ok()?;
        Some(ForeignKey(Pair::Rsa(Box::new(pair))))
    }
}

impl Account<'_> {
    fn key(&self) -> Result<ForeignKey, String> {
        let der = BASE64.decode(self.private_key.as_bytes()).ok();
        let der = der.map(Zeroizing::new);
        let key = der.and_then(|der| ForeignKey::of_der(&der));
        key.ok_or_else(|| UNKNOWN.to_owned())
    }
}

fn encode(bytes: &[u8]) -> String {
    BASE64URL_NOPAD.encode(bytes)
}

const UNKNOWN: &str = "it has no key of an account that can be taken over: RSA of 2048 bits or \
                       more, P-256 or P-384";
const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;

#[cfg(test)]
mod tests {
    use aws_lc_rs::encoding::{AsBigEndian as _, EcPrivateKeyBin};
    use aws_lc_rs::signature::{
        ECDSA_P384_SHA384_FIXED, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey,
    };
    use rcgen::{KeyPair, RsaKeySize};

    use super::*;

    fn key(text: &str) -> ForeignKey {
        ForeignKey::read(text.as_bytes(), None).unwrap()
    }

    /// Returns protected header, signed text and signature of a request.
    fn signed(key: &ForeignKey) -> (Value, String, Vec<u8>) {
        let signed = key.sign(json!({"url": "https://ca/x"}), b"{}").unwrap();
        let signed: Value = serde_json::from_slice(&signed).unwrap();
        let part = |name: &str| signed[name].as_str().unwrap().to_owned();
        let decode = |text: &str| BASE64URL_NOPAD.decode(text.as_bytes()).unwrap();
        let protected = serde_json::from_slice(&decode(&part("protected"))).unwrap();
        let text = format!("{}.{}", part("protected"), part("payload"));
        (protected, text, decode(&part("signature")))
    }

    #[test]
    fn the_rsa_key_of_the_rfc_is_read_and_signs() {
        let key = key(RSA);
        assert!(key.must_change() && key.p256().is_none());
        let jwk = key.jwk().unwrap();
        assert_eq!(jwk["e"], "AQAB");
        let n = jwk["n"].as_str().unwrap();
        assert!(RSA.contains(n), "{n}");
        let (protected, text, signature) = signed(&key);
        assert_eq!(protected["alg"], "RS256");
        let Pair::Rsa(pair) = &key.0 else {
            panic!("{key:?}");
        };
        let public = pair.public_key().as_ref();
        let public = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, public);
        public.verify(text.as_bytes(), &signature).unwrap();
        assert!(!format!("{key:?}").contains(n));
    }

    #[test]
    fn keys_in_pem_are_read_in_all_their_forms() {
        let p256 = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
        let p384 = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384).unwrap();
        let rsa = RsaKeySize::_2048;
        let rsa = KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, rsa).unwrap();
        for (pair, algorithm, must_change) in [
            (&p256, "ES256", false),
            (&p384, "ES384", true),
            (&rsa, "RS256", true),
        ] {
            let key = key(&format!("a comment\n{}", pair.serialize_pem()));
            assert_eq!((key.algorithm(), key.must_change()), (algorithm, must_change));
            assert_eq!(key.p256().is_none(), must_change);
        }
        let own = key(&p256.serialize_pem()).p256().unwrap();
        assert!(ForeignKey::of_der(own.expose()).is_some());
        let (_, text, signature) = signed(&key(&p384.serialize_pem()));
        let public = UnparsedPublicKey::new(&ECDSA_P384_SHA384_FIXED, p384.public_key_raw());
        public.verify(text.as_bytes(), &signature).unwrap();
    }

    #[test]
    fn a_jwk_of_a_curve_comes_back() {
        let pair = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
        let pair = key(&pair.serialize_pem());
        let Pair::Ec(ec, _) = &pair.0 else {
            panic!("{pair:?}");
        };
        let private: EcPrivateKeyBin<'_> = ec.private_key().as_be_bytes().unwrap();
        let mut jwk = pair.jwk().unwrap();
        jwk["d"] = encode(private.as_ref()).into();
        let again = key(&jwk.to_string());
        assert_eq!(again.p256(), pair.p256());
    }

    #[test]
    fn accounts_of_acme_json_are_chosen() {
        let pair = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
        let der = BASE64.encode(&pair.serialize_der());
        let account = format!(
            "{{\"Account\": {{\"Email\": \"a@b.example\", \"PrivateKey\": \"{der}\", \"KeyType\": \
             \"4096\"}}, \"Certificates\": [{{\"key\": \"c2VjcmV0\"}}]}}"
        );
        assert!(!key(&account).must_change());
        let two = format!("{{\"le\": {account}, \"staging\": {account}, \"none\": {{}}}}");
        let error = ForeignKey::read(two.as_bytes(), None).unwrap_err();
        assert!(error.ends_with("--resolver: le, none, staging"), "{error}");
        assert!(ForeignKey::read(two.as_bytes(), Some("le")).is_ok());
        for resolver in ["none", "other"] {
            let error = ForeignKey::read(two.as_bytes(), Some(resolver)).unwrap_err();
            assert_eq!(error, "it has no such account");
        }
    }

    #[test]
    fn other_files_are_refused_without_their_content() {
        let ed25519 = KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
        for text in [
            "",
            "c2VjcmV0",
            "{",
            "{\"kty\": \"c2VjcmV0\"}",
            "{\"kty\": \"oct\", \"k\": \"c2VjcmV0\"}",
            "{\"kty\": 1}",
            "{\"Account\": {\"PrivateKey\": \"c2VjcmV0\"}}",
            "{\"a\": \"c2VjcmV0\"}",
            "[1]",
            &ed25519.serialize_pem(),
        ] {
            let error = ForeignKey::read(text.as_bytes(), None).unwrap_err();
            assert!(!error.contains("c2VjcmV0"), "{error}");
        }
    }

    /// Key of RFC 7515, appendix A.2.
    const RSA: &str = r#"{"kty":"RSA",
"n":"ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ",
"e":"AQAB",
"d":"Eq5xpGnNCivDflJsRQBXHx1hdR1k6Ulwe2JZD50LpXyWPEAeP88vLNO97IjlA7_GQ5sLKMgvfTeXZx9SE-7YwVol2NXOoAJe46sui395IW_GO-pWJ1O0BkTGoVEn2bKVRUCgu-GjBVaYLU6f3l9kJfFNS3E0QbVdxzubSu3Mkqzjkn439X0M_V51gfpRLI9JYanrC4D4qAdGcopV_0ZHHzQlBjudU2QvXt4ehNYTCBr6XCLQUShb1juUO1ZdiYoFaFQT5Tw8bGUl_x_jTj3ccPDVZFD9pIuhLhBOneufuBiB4cS98l2SR_RQyGWSeWjnczT0QU91p1DhOVRuOopznQ",
"p":"4BzEEOtIpmVdVEZNCqS7baC4crd0pqnRH_5IB3jw3bcxGn6QLvnEtfdUdiYrqBdss1l58BQ3KhooKeQTa9AB0Hw_Py5PJdTJNPY8cQn7ouZ2KKDcmnPGBY5t7yLc1QlQ5xHdwW1VhvKn-nXqhJTBgIPgtldC-KDV5z-y2XDwGUc",
"q":"uQPEfgmVtjL0Uyyx88GZFF1fOunH3-7cepKmtH4pxhtCoHqpWmT8YAmZxaewHgHAjLYsp1ZSe7zFYHj7C6ul7TjeLQeZD_YwD66t62wDmpe_HlB-TnBA-njbglfIsRLtXlnDzQkv5dTltRJ11BKBBypeeF6689rjcJIDEz9RWdc",
"dp":"BwKfV3Akq5_MFZDFZCnW-wzl-CCo83WoZvnLQwCTeDv8uzluRSnm71I3QCLdhrqE2e9YkxvuxdBfpT_PI7Yz-FOKnu1R6HsJeDCjn12Sk3vmAktV2zb34MCdy7cpdTh_YVr7tss2u6vneTwrA86rZtu5Mbr1C1XsmvkxHQAdYo0",
"dq":"h_96-mK1R_7glhsum81dZxjTnYynPbZpHziZjeeHcXYsXaaMwkOlODsWa7I9xXDoRwbKgB719rrmI2oKr6N3Do9U0ajaHF-NKJnwgjMd2w9cjz3_-kyNlxAr2v4IKhGNpmM5iIgOS1VZnOZ68m6_pbLBSp3nssTdlqvd0tIiTHU",
"qi":"IYd7DHOhrWvxkwPQsRM2tOgrjbcrfvtQJipd-DlcxyVuuM9sQLdgjVk2oy26F0EmpScGLq2MowX7fhd_QJQ3ydy5cY7YIBi87w93IKLEdfnbJtoOPLUW0ITrJReOgo1cq9SbsxYawBgfp_gh6A5603k2-ZQwVK0JKSHuLFkuQ3U"}"#;
}
