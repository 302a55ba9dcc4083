//! Outcomes: found, absent, failed, and never one for another.

use std::sync::Arc;

use sekisho_certs::credential::Secret;
use sekisho_certs::{Absence, HostName, KeyType, LookupError, OpenKey, Outcome};
use sekisho_testkit::Key;

use crate::scripted::{CA, ask, credential, host, lookup, pattern, store, watched};

#[tokio::test]
async fn exact_comes_before_wildcard() {
    let store = store();
    store.put(host("a.test", 1));
    store.put(host("*.test", 2));
    let lookup = lookup(&store);
    assert_eq!(pattern(&lookup, "a.test").await, "a.test");
    assert_eq!(pattern(&lookup, "b.test").await, "*.test");
    assert_eq!(pattern(&lookup, "a.test").await, "a.test");
    assert_eq!(pattern(&lookup, "a.b.test").await, "Absent(NoHost)");
}

#[tokio::test]
async fn what_may_not_be_served_hides_the_wildcard() {
    let store = store();
    store.put(host("*.test", 1));
    let mut off = host("off.test", 2);
    off.record.disabled = true;
    store.put(off);
    let mut bare = host("bare.test", 3);
    bare.credentials.clear();
    store.put(bare);
    let lookup = watched(&store);
    for _ in 0..2 {
        assert_eq!(pattern(&lookup, "off.test").await, "Absent(Disabled)");
        assert_eq!(pattern(&lookup, "bare.test").await, "Absent(NoCredential)");
        assert_eq!(pattern(&lookup, "on.test").await, "*.test");
    }
    // on.test is one more call: its wildcard is shadowed.
    assert_eq!(store.calls(), 3);
}

#[tokio::test]
async fn failed_is_not_absent() {
    let store = store();
    store.fail(true);
    let lookup = watched(&store);
    assert!(matches!(
        ask(&lookup, "a.test").await,
        Outcome::Failed(LookupError::Store(_))
    ));
    store.fail(false);
    assert!(matches!(
        ask(&lookup, "a.test").await,
        Outcome::Absent(Absence::NoHost)
    ));
    store.fail(true);
    // Known from before, so the store is not even asked.
    assert!(matches!(
        ask(&lookup, "a.test").await,
        Outcome::Absent(Absence::NoHost)
    ));
    assert_eq!(store.calls(), 2);
}

#[tokio::test]
async fn a_bad_pair_counts_as_failed() {
    let store = store();
    let mut mixed = host("mixed.test", 1);
    let other = CA.issue(&["mixed.test"], Key::P256);
    mixed.credentials[0].chain = other.chain;
    store.put(mixed);
    let mut rubbish = host("rubbish.test", 2);
    rubbish.credentials[0].chain = vec![vec![0x30, 0x82].into()];
    store.put(rubbish);
    let lookup = watched(&store);
    for (name, why) in [
        ("mixed.test", "does not belong"),
        ("rubbish.test", "no certificate"),
    ] {
        match ask(&lookup, name).await {
            Outcome::Failed(LookupError::Unusable(text)) => assert!(text.contains(why), "{text}"),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn every_key_type_loads_and_ecdsa_comes_first() {
    let store = store();
    let mut all = host("all.test", 1);
    all.credentials.clear();
    let types = [
        (Key::Rsa2048, KeyType::Rsa),
        (Key::Ed25519, KeyType::Ed25519),
        (Key::P384, KeyType::Ecdsa),
    ];
    for (id, (key, key_type)) in types.into_iter().enumerate() {
        all.credentials.push(credential(
            &CA.issue(&["all.test"], key),
            key_type,
            id as u64,
            1,
        ));
    }
    store.put(all);
    let lookup = lookup(&store);
    let Outcome::Found(served) = ask(&lookup, "all.test").await else {
        panic!("not found")
    };
    let chosen =
        |schemes: &[rustls::SignatureScheme]| served.host().choose(schemes).map(|c| c.key_type);
    use rustls::SignatureScheme as Scheme;
    assert_eq!(
        chosen(&[Scheme::RSA_PSS_SHA256, Scheme::ECDSA_NISTP384_SHA384]),
        Some(KeyType::Ecdsa)
    );
    assert_eq!(
        chosen(&[Scheme::RSA_PSS_SHA256, Scheme::ED25519]),
        Some(KeyType::Ed25519)
    );
    assert_eq!(chosen(&[Scheme::RSA_PSS_SHA256]), Some(KeyType::Rsa));
    assert_eq!(chosen(&[Scheme::ECDSA_NISTP256_SHA256]), None);
    let rsa = &served.host().credentials[2];
    let signer = rsa
        .certified()
        .key
        .choose_scheme(&[Scheme::RSA_PSS_SHA256])
        .expect("a scheme");
    assert!(signer.sign(b"message").is_ok());
}

#[tokio::test]
async fn a_key_of_another_leaf_is_refused() {
    let forms: [fn(Secret) -> OpenKey; 2] = [OpenKey::unproved, OpenKey::assumed];
    let keys = [
        (Key::Rsa2048, Key::Rsa2048, KeyType::Rsa),
        (Key::P256, Key::P256, KeyType::Ecdsa),
        (Key::P256, Key::P384, KeyType::Ecdsa),
        (Key::P256, Key::Rsa2048, KeyType::Ecdsa),
        (Key::Ed25519, Key::Ed25519, KeyType::Ed25519),
    ];
    for (form, (own, other, key_type)) in forms.into_iter().flat_map(|f| keys.map(|k| (f, k))) {
        let store = store();
        let mut wrong = host("wrong.test", 1);
        let pair = CA.issue(&["wrong.test"], own);
        let mut mixed = credential(&pair, key_type, 2, 1);
        mixed.chain = CA.issue(&["wrong.test"], other).chain;
        mixed.key = form(Secret::new(pair.key_der().secret_der().to_vec()));
        wrong.credentials = vec![mixed];
        store.put(wrong);
        match ask(&lookup(&store), "wrong.test").await {
            Outcome::Failed(LookupError::Unusable(text)) => {
                assert!(text.contains("does not belong"), "{text}");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_credential_covers_what_its_leaf_names() {
    let store = store();
    let pair = CA.issue(&["a.test", "*.b.test"], Key::P256);
    let mut found = host("a.test", 1);
    found.credentials = vec![credential(&pair, KeyType::Ecdsa, 1, 1)];
    store.put(found);
    let Outcome::Found(served) = ask(&lookup(&store), "a.test").await else {
        panic!("not found")
    };
    let covers = |name: &str| served.host().credentials[0].covers(&HostName::parse(name).unwrap());
    assert!(covers("a.test") && covers("x.b.test"));
    assert!(!covers("b.test") && !covers("x.y.b.test") && !covers("c.test"));
}

#[tokio::test]
async fn hosts_share_one_copy_of_a_credential() {
    let store = store();
    store.put(host("a.test", 1));
    store.put(host("b.test", 1));
    let lookup = lookup(&store);
    let (Outcome::Found(a), Outcome::Found(b)) =
        (ask(&lookup, "a.test").await, ask(&lookup, "b.test").await)
    else {
        panic!("not found")
    };
    assert!(Arc::ptr_eq(
        &a.host().credentials[0],
        &b.host().credentials[0]
    ));
    assert_eq!(lookup.stats().credentials, 1);
}
