//! Contents of a bundle.

use sekisho_testkit::{Answer as Says, Key};

use super::rig::{Rig, bundle};
use sekisho_certs::credential::KeyType;
use sekisho_certs::record::{Tenant, TlsPolicy};
use sekisho_certs::store::StoreError;

#[tokio::test]
async fn a_bundle_is_read_in_any_order() {
    let rig = Rig::new(true);
    for (key, key_type) in [
        (Key::P256, KeyType::Ecdsa),
        (Key::P384, KeyType::Ecdsa),
        (Key::Ed25519, KeyType::Ed25519),
        (Key::Rsa2048, KeyType::Rsa),
    ] {
        let pair = rig.ca.issue(&["a.example"], key);
        let (chain, key) = (pair.chain_pem(), pair.key_pem());
        let issuer = chain.replace(&pair.leaf_pem(), "");
        for body in [
            chain.clone() + &key,
            key.clone() + &chain,
            format!("# a comment\n{issuer}{key}{}", pair.leaf_pem()),
            bundle(&pair).replace('\n', "\r\n"),
        ] {
            rig.says("a.example", Says::ok(body));
            let found = rig.found("a.example").await;
            let [stored] = &found.credentials[..] else {
                panic!("one credential")
            };
            assert_eq!(stored.chain, pair.chain);
            assert_eq!(stored.key_type, key_type);
            let secret = stored.key.secret();
            assert_eq!(secret.expose(), pair.key_der().secret_der());
            assert_eq!(found.record.references.of(key_type), Some(stored.id));
            assert_eq!(found.record.tenant, Tenant::default());
            assert_eq!(found.record.tls, TlsPolicy::default());
            assert!(found.record.site.is_none() && !found.record.disabled);
        }
    }
}

#[tokio::test]
async fn a_renewal_is_another_version() {
    let rig = Rig::new(true);
    rig.put("a.example");
    let before = rig.found("a.example").await;
    assert_eq!(before.record, rig.found("a.example").await.record);
    rig.put("a.example");
    let after = rig.found("a.example").await;
    assert_ne!(before.credentials[0].id, after.credentials[0].id);
    assert_ne!(before.record.version, after.record.version);
}

#[tokio::test]
async fn what_is_no_pair_is_failed_and_says_why() {
    let rig = Rig::new(true);
    let one = rig.ca.issue(&["a.example"], Key::P256);
    let other = rig.ca.issue(&["a.example"], Key::P256);
    let whole = bundle(&one);
    for (body, says) in [
        (one.chain_pem(), "no private key"),
        (one.key_pem(), "no certificate"),
        (one.chain_pem() + &other.key_pem(), "does not belong"),
        (whole.clone() + &other.key_pem(), "2 private keys"),
        (whole[..whole.len() - 60].to_owned(), "was cut"),
        (String::new(), "no certificate"),
        ("<html>not found</html>".into(), "no certificate"),
    ] {
        let key_lines: Vec<_> = one.key_pem().lines().map(str::to_owned).collect();
        rig.says("a.example", Says::ok(body));
        let error = rig.failed("a.example").await;
        let text = error.to_string();
        assert!(matches!(error, StoreError::Corrupt(_)), "{text}");
        assert!(text.contains(says), "{text}");
        assert!(
            text.contains("host a.example: https://127.0.0.1:"),
            "{text}"
        );
        assert!(!text.contains(&key_lines[1]), "{text}");
    }
}

/// An endpoint that reads two files while they are being replaced.
#[tokio::test]
async fn a_pair_that_does_not_fit_is_asked_for_again() {
    let rig = Rig::new(true);
    let old = rig.ca.issue(&["a.example"], Key::P256);
    let new = rig.ca.issue(&["a.example"], Key::P256);
    rig.says("a.example", Says::ok(new.chain_pem() + &old.key_pem()));
    let (found, ()) = tokio::join!(rig.found("a.example"), async {
        while rig.times("a.example") == 0 {
            tokio::task::yield_now().await;
        }
        rig.says("a.example", Says::ok(bundle(&new)));
    });
    assert_eq!(found.credentials[0].chain, new.chain);
}

#[tokio::test]
async fn expired_ones_are_served_on() {
    let rig = Rig::new(true);
    let dates = ((2019, 1, 1), (2020, 1, 1));
    let old = rig
        .ca
        .issue_valid(&["a.example"], Key::P256, dates.0, dates.1);
    rig.says("a.example", Says::ok(bundle(&old)));
    assert_eq!(rig.found("a.example").await.credentials[0].chain, old.chain);
}
