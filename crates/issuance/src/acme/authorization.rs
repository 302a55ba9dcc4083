//! Authorizations of an order and their challenges (RFC 8555, section 8).

use aws_lc_rs::digest::{SHA256, digest};
use data_encoding::BASE64URL_NOPAD;
use instant_acme::{AuthorizationStatus, ChallengeType as Wire};

/// Proof that the CA wants for one name of an order.
#[derive(Clone, Debug)]
pub struct Authorization {
    /// The name, with `*.` in front of a wildcard.
    pub name: String,
    /// A valid one needs no challenge: the CA remembers an earlier proof.
    pub status: AuthorizationStatus,
    /// Ways to prove it, as far as they are known here.
    pub challenges: Vec<Challenge>,
}

impl Authorization {
    /// Returns the challenge of this kind, if the CA offers it.
    #[must_use]
    pub fn challenge(&self, kind: ChallengeType) -> Option<&Challenge> {
        self.challenges
            .iter()
            .find(|challenge| challenge.kind == kind)
    }
}

/// Way to prove that a name is one's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChallengeType {
    /// A file over plain HTTP (RFC 8555, section 8.3).
    Http01,
    /// A TXT record (RFC 8555, section 8.4).
    Dns01,
    /// A certificate in a handshake (RFC 8737).
    TlsAlpn01,
}

impl ChallengeType {
    /// All.
    pub const ALL: [Self; 3] = [Self::Http01, Self::Dns01, Self::TlsAlpn01];

    /// Returns the protocol's word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http01 => "http-01",
            Self::Dns01 => "dns-01",
            Self::TlsAlpn01 => "tls-alpn-01",
        }
    }

    pub(super) fn of(kind: &Wire) -> Option<Self> {
        Self::ALL.into_iter().find(|own| own.wire() == *kind)
    }

    pub(super) fn wire(self) -> Wire {
        match self {
            Self::Http01 => Wire::Http01,
            Self::Dns01 => Wire::Dns01,
            Self::TlsAlpn01 => Wire::TlsAlpn01,
        }
    }
}

/// Way to prove a name, with all that is to be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Challenge {
    /// Kind of the challenge.
    pub kind: ChallengeType,
    /// Name of the file for HTTP-01, in base64url.
    pub token: String,
    /// Content of the file for HTTP-01.
    pub key_authorization: String,
    /// Content of the TXT record for DNS-01.
    pub txt: String,
}

impl Challenge {
    /// Returns none if the token holds other characters than base64url: it becomes a path.
    pub(super) fn new(kind: ChallengeType, token: &str, thumbprint: &str) -> Option<Self> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        if token.is_empty() || !token.bytes().all(is_plain) {
            return None;
        }
        let key_authorization = format!("{token}.{thumbprint}");
        let sha256 = digest(&SHA256, key_authorization.as_bytes());
        Some(Self {
            kind,
            token: token.to_owned(),
            key_authorization,
            txt: BASE64URL_NOPAD.encode(sha256.as_ref()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_that_could_lead_elsewhere_are_refused() {
        for token in ["", "../a", "a/b", "a.b", "a b", "a%2e"] {
            assert_eq!(Challenge::new(ChallengeType::Http01, token, "x"), None);
        }
    }

    #[test]
    fn answers_follow_from_token_and_thumbprint() {
        // The example of RFC 8555, section 8.1, and SHA-256 by openssl.
        let token = "evaGxfADs6pSRb2LAv9IZf17Dt3juxGJ-PCt92wr-oA";
        let thumbprint = "9jg46WB3rR_AHD-EBXdN7cBkH1WOu0tA3M9fm21mqTI";
        let challenge = Challenge::new(ChallengeType::Dns01, token, thumbprint).unwrap();
        assert_eq!(challenge.key_authorization, format!("{token}.{thumbprint}"));
        assert_eq!(challenge.txt, "lCM7cZyQXcVHK2nnW3jjAhNT3Fvm18UN-kWZZknKoYM");
    }
}
