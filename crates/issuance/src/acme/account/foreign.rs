//! Keys of accounts that another tool has made: RSA and P-256, in the forms of certbot,
//! Traefik, and of all that write PEM.

use std::collections::BTreeMap;

use aws_lc_rs::encoding::{AsDer, PublicKeyX509Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeyPairComponents;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair,
    RsaPublicKeyComponents,
};
use data_encoding::{BASE64, BASE64URL_NOPAD};
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject;
use sekisho_certs::credential::Secret;
use sekisho_certs::der;
use serde::Deserialize;
use serde_json::{Value, json};
use zeroize::Zeroizing;

/// Key that signs requests of an account (RFC 8555, section 6.2). Its form for debugging has
/// the public key alone.
#[derive(Debug)]
pub enum ForeignKey {
    /// RSA of 2048 bits or more: a store can't have it.
    Rsa(Box<RsaKeyPair>),
    /// ECDSA on P-256, as accounts of a store have it.
    P256(Box<EcdsaKeyPair>),
}

impl ForeignKey {
    /// Reads the content of a file: certbot's JWK, PEM, or Traefik's `acme.json`. `resolver`
    /// names one of the resolvers in the latter.
    ///
    /// # Errors
    /// Says what is there instead, without the key.
    pub fn read(content: &[u8], resolver: Option<&str>) -> Result<Self, String> {
        // Texts are borrowed from the content, which the caller wipes.
        let key = if let Ok(jwk) = serde_json::from_slice::<BTreeMap<&str, &str>>(content) {
            of_jwk(&jwk)
        } else if let Ok(resolvers) = serde_json::from_slice(content) {
            of_traefik(&resolvers, resolver)?
        } else {
            let key = PrivateKeyDer::from_pem_slice(content);
            let key = key.map_err(|_| "it is no key in PEM, no JWK and no acme.json of Traefik")?;
            Self::of_der(key.secret_der())
        };
        key.ok_or_else(|| UNKNOWN.to_owned())
    }

    /// Reads PKCS#8, SEC 1 or PKCS#1.
    pub(super) fn of_der(der: &[u8]) -> Option<Self> {
        let p256 = EcdsaKeyPair::from_private_key_der(&ECDSA_P256_SHA256_FIXED_SIGNING, der);
        if let Ok(pair) = p256 {
            return Some(Self::P256(Box::new(pair)));
        }
        let pair = RsaKeyPair::from_pkcs8(der).or_else(|_| RsaKeyPair::from_der(der));
        Some(Self::Rsa(Box::new(pair.ok()?)))
    }

    /// Returns the key as PKCS#8 if a store can have it; else the account needs another one.
    #[must_use]
    pub fn p256(&self) -> Option<Secret> {
        let Self::P256(pair) = self else {
            return None;
        };
        let der = pair.to_pkcs8v1().ok()?;
        Some(Secret::new(der.as_ref().to_vec()))
    }

    /// Returns the public key (RFC 7517).
    pub(super) fn jwk(&self) -> Option<Value> {
        match self {
            Self::P256(pair) => {
                // An uncompressed point: a byte, and two numbers.
                let (x, y) = pair.public_key().as_ref().get(1..)?.split_at_checked(32)?;
                Some(json!({"kty": "EC", "crv": "P-256", "x": encode(x), "y": encode(y)}))
            }
            Self::Rsa(pair) => {
                let spki: PublicKeyX509Der<'_> = pair.public_key().as_der().ok()?;
                let [n, e] = der::rsa_public(spki.as_ref())?;
                Some(json!({"kty": "RSA", "n": encode(n), "e": encode(e)}))
            }
        }
    }

    /// Signs a request (RFC 7515, section 7.2.2). `protected` gets the algorithm.
    pub(super) fn sign(&self, mut protected: Value, payload: &[u8]) -> Option<Vec<u8>> {
        protected["alg"] = match self {
            Self::Rsa(_) => "RS256".into(),
            Self::P256(_) => "ES256".into(),
        };
        let (protected, payload) = (encode(protected.to_string().as_bytes()), encode(payload));
        let message = format!("{protected}.{payload}");
        let (message, random) = (message.as_bytes(), SystemRandom::new());
        let signature = match self {
            Self::P256(pair) => encode(pair.sign(&random, message).ok()?.as_ref()),
            Self::Rsa(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                let signed = pair.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature);
                signed.ok()?;
                encode(&signature)
            }
        };
        let signed = json!({"protected": protected, "payload": payload, "signature": signature});
        Some(signed.to_string().into_bytes())
    }
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

/// Reads an RSA key (RFC 7518, section 6.3).
fn of_jwk(jwk: &BTreeMap<&str, &str>) -> Option<ForeignKey> {
    let number = |name: &str| {
        let text = jwk.get(name)?.trim_end_matches('=');
        let bytes = BASE64URL_NOPAD.decode(text.as_bytes()).ok()?;
        Some(Zeroizing::new(bytes))
    };
    let (n, e) = (number("n")?, number("e")?);
    let components = KeyPairComponents {
        public_key: RsaPublicKeyComponents { n, e },
        d: number("d")?,
        p: number("p")?,
        q: number("q")?,
        dP: number("dp")?,
        dQ: number("dq")?,
        qInv: number("qi")?,
    };
    let pair = RsaKeyPair::from_components(&components).ok()?;
    Some(ForeignKey::Rsa(Box::new(pair)))
}

fn of_traefik(
    resolvers: &BTreeMap<&str, Resolver<'_>>,
    chosen: Option<&str>,
) -> Result<Option<ForeignKey>, String> {
    let chosen = |name: &str| chosen.is_none_or(|chosen| chosen == name);
    let accounts = resolvers.iter().filter(|(name, _)| chosen(name));
    let mut accounts = accounts.filter_map(|(_, one)| one.account.as_ref());
    let (Some(account), None) = (accounts.next(), accounts.next()) else {
        let names: Vec<_> = resolvers.keys().copied().collect();
        let names = names.join(", ");
        return Err(format!("choose one account of it with --resolver: {names}"));
    };
    let der = BASE64.decode(account.private_key.as_bytes());
    let der = der.ok().map(Zeroizing::new);
    Ok(der.and_then(|der| ForeignKey::of_der(&der)))
}

fn encode(bytes: &[u8]) -> String {
    BASE64URL_NOPAD.encode(bytes)
}

const UNKNOWN: &str = "it has no key of an account that can be taken over: P-256, or RSA of \
                       2048 bits or more";

#[cfg(test)]
mod tests {
    use aws_lc_rs::signature::{
        ECDSA_P256_SHA256_FIXED, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey,
    };
    use data_encoding::HEXLOWER;
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
        assert!(key.p256().is_none());
        let jwk = key.jwk().unwrap();
        assert_eq!(jwk["e"], "AQAB");
        let n = jwk["n"].as_str().unwrap();
        assert!(RSA.contains(n), "{n}");
        assert_eq!(signed(&key).0["alg"], "RS256");
        let shown = format!("{key:?}").to_lowercase();
        let secret = BASE64URL_NOPAD.decode(b"4BzEEOtIpmVdVEZN").unwrap();
        assert!(!shown.contains(&HEXLOWER.encode(&secret)), "{shown}");
    }

    #[test]
    fn keys_in_pem_are_read_in_all_their_forms() {
        let p256 = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
        let rsa = RsaKeySize::_2048;
        let rsa = KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, rsa).unwrap();
        for (pair, algorithm, must_change) in [(&p256, "ES256", false), (&rsa, "RS256", true)] {
            let key = key(&format!("a comment\n{}", pair.serialize_pem()));
            let (protected, text, signature) = signed(&key);
            assert_eq!(protected["alg"], algorithm);
            assert_eq!(key.p256().is_none(), must_change);
            let public = pair.public_key_raw();
            let verified = match must_change {
                true => UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, public)
                    .verify(text.as_bytes(), &signature),
                false => UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, public)
                    .verify(text.as_bytes(), &signature),
            };
            verified.unwrap();
        }
        let own = key(&p256.serialize_pem()).p256().unwrap();
        let again = ForeignKey::of_der(own.expose()).unwrap();
        assert_eq!(again.jwk(), key(&p256.serialize_pem()).jwk());
    }

    #[test]
    fn accounts_of_acme_json_are_chosen() {
        let pair = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
        let der = BASE64.encode(&pair.serialize_der());
        let account = format!(
            "{{\"Account\": {{\"Email\": \"a@b.example\", \"PrivateKey\": \"{der}\", \"KeyType\": \
             \"4096\"}}, \"Certificates\": [{{\"key\": \"c2VjcmV0\"}}]}}"
        );
        assert!(key(&format!("{{\"le\": {account}}}")).p256().is_some());
        let two = format!("{{\"le\": {account}, \"staging\": {account}, \"none\": {{}}}}");
        let error = ForeignKey::read(two.as_bytes(), None).unwrap_err();
        assert!(error.ends_with("--resolver: le, none, staging"), "{error}");
        assert!(ForeignKey::read(two.as_bytes(), Some("le")).is_ok());
        for resolver in ["none", "other"] {
            let error = ForeignKey::read(two.as_bytes(), Some(resolver)).unwrap_err();
            assert!(error.contains("choose one account"), "{error}");
        }
    }

    #[test]
    fn other_files_are_refused_without_their_content() {
        let ed25519 = KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
        let p384 = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384).unwrap();
        for text in [
            "",
            "c2VjcmV0",
            "{",
            "{\"kty\": \"c2VjcmV0\"}",
            "{\"kty\": \"oct\", \"k\": \"c2VjcmV0\"}",
            "{\"kty\": 1}",
            "{\"le\": {\"Account\": {\"PrivateKey\": \"c2VjcmV0\"}}}",
            "{\"a\": \"c2VjcmV0\"}",
            "[1]",
            &ed25519.serialize_pem(),
            &p384.serialize_pem(),
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
