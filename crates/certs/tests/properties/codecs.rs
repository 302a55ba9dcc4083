//! Texts that are stored or typed, and read again.

use std::sync::LazyLock;

use proptest::prelude::*;
use sekisho_certs::credential::split_chain;
use sekisho_certs::seal::{Bound, KeyRing, MasterKey};
use sekisho_certs::store::{CatalogId, DocumentId};
use sekisho_certs::{CredentialId, KeyType, SealedBytes, Secret, Tenant, TlsPolicy, TlsVersion};
use sekisho_testkit::contract::fixture::client_ca;

static RING: LazyLock<KeyRing> = LazyLock::new(|| KeyRing::new(MasterKey::new(&[7; 32])));

fn document(kind: &str, key: &str) -> DocumentId {
    DocumentId::new(kind.to_owned(), key.to_owned())
}

fn bound(document: &DocumentId) -> Bound {
    Bound::document(CatalogId([1; 16]), document)
}

proptest! {
    #[test]
    fn a_credential_id_is_read_as_it_is_shown(number: u64) {
        let id = CredentialId::from_u64(number);
        prop_assert_eq!(id.to_string().parse(), Ok(id));
        prop_assert_eq!(CredentialId::from_u64(id.as_u64()), id);
    }

    #[test]
    fn only_the_shown_form_is_an_id(text in "(cert:)?[0-9a-fA-F+-]{14,18}") {
        if let Ok(id) = text.parse::<CredentialId>() {
            prop_assert_eq!(id.to_string(), text.to_ascii_lowercase());
        }
    }

    #[test]
    fn other_words_are_no_key_type_and_no_policy(text in "[a-z0-9.]{0,8}") {
        prop_assert!(KeyType::parse(&text).is_none_or(|found| found.as_str() == text));
        prop_assert!(TlsPolicy::parse(&text).is_none_or(|found| found.to_text() == text));
    }

    #[test]
    fn a_policy_is_read_as_it_is_stored(
        tls13 in any::<bool>(),
        clients in prop::option::of((1..9_u8, any::<bool>())),
    ) {
        let policy = TlsPolicy {
            min: if tls13 { TlsVersion::Tls13 } else { TlsVersion::Tls12 },
            client_ca: clients.map(|(fill, _)| client_ca(fill)),
            client_optional: clients.is_some_and(|(_, is_optional)| is_optional),
        };
        let text = policy.to_text();
        prop_assert_eq!(TlsPolicy::parse(&text), Some(policy.clone()));
        // Earlier programs know a client CA by these words alone.
        prop_assert!(!policy.client_optional || !text.contains(" client-ca\n"));
    }

    #[test]
    fn other_demands_are_no_policy(demand in "( |optional-|client-ca|client|ca){0,3}") {
        let stored = client_ca(1);
        let text = format!("1.2{demand}\n{}", stored.pem());
        let policy = TlsPolicy::parse(&text);
        let known = [" client-ca", " optional-client-ca"].contains(&&*demand);
        prop_assert_eq!(policy.is_some(), known);
        prop_assert!(policy.is_none_or(|policy| policy.to_text() == text));
    }

    #[test]
    fn a_tenant_is_kept_as_it_is_or_refused(text in any::<String>()) {
        let refused = text.len() > 128 || text.chars().any(char::is_control);
        match Tenant::parse(&text) {
            Ok(tenant) => prop_assert!(!refused && tenant.as_str() == text),
            Err(_) => prop_assert!(refused),
        }
    }

    /// Elements of any length up to 70,000 bytes: all forms of a DER length
    /// that a certificate has.
    #[test]
    fn a_chain_is_split_as_it_was_joined(lengths in prop::collection::vec(0..70_000_usize, 1..4)) {
        let parts: Vec<_> = lengths.into_iter().map(element).collect();
        let split = split_chain(&parts.concat()).unwrap();
        prop_assert_eq!(split.iter().map(|part| part.to_vec()).collect::<Vec<_>>(), parts);
    }

    #[test]
    fn a_secret_opens_where_it_was_sealed_and_nowhere_else(
        secret in any::<Vec<u8>>(), kind in ".{0,8}", key in ".{0,8}", other in ".{0,8}",
    ) {
        let secret = Secret::new(secret);
        let sealed = RING.seal(&secret, &bound(&document(&kind, &key)));
        let opened = RING.unseal(sealed.clone(), &bound(&document(&kind, &key)));
        prop_assert_eq!(opened, Ok(secret));
        // Moving a character from one part to the other gives another place.
        let moved = [(format!("{kind}{key}"), String::new()), (key.clone(), kind.clone())];
        for (kind_there, key_there) in moved.into_iter().chain([(kind.clone(), other)]) {
            let same = (&kind_there, &key_there) == (&kind, &key);
            let opened = RING.unseal(sealed.clone(), &bound(&document(&kind_there, &key_there)));
            prop_assert_eq!(opened.is_ok(), same);
        }
    }

    #[test]
    fn a_changed_bit_does_not_open(secret in any::<Vec<u8>>(), at: prop::sample::Index) {
        let sealed = RING.seal(&Secret::new(secret), &bound(&document("kind", "key")));
        let mut bytes = sealed.bytes.clone();
        let bit = at.index(bytes.len() * 8);
        bytes[bit / 8] ^= 1 << (bit % 8);
        let changed = SealedBytes { bytes, ..sealed };
        prop_assert!(RING.unseal(changed, &bound(&document("kind", "key"))).is_err());
    }
}

/// A SEQUENCE with that many bytes in it.
fn element(length: usize) -> Vec<u8> {
    let digits = length.to_be_bytes();
    let digits = &digits[length.leading_zeros() as usize / 8..];
    let mut element = vec![0x30];
    match u8::try_from(length) {
        Ok(short @ ..=0x7f) => element.push(short),
        _ => {
            element.push(0x80 | u8::try_from(digits.len()).unwrap());
            element.extend_from_slice(digits);
        }
    }
    element.resize(element.len() + length, 0x55);
    element
}
