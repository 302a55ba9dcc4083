//! Certificates that a hook gives.

use std::sync::Arc;

use sekisho_server::tickets::Ring;
use sekisho_server::{Made, Publisher};
use sekisho_testkit::{Key, Pair, TestCa};

use crate::world::publisher;

/// Returns why these pairs are refused.
fn refusal(publisher: &Publisher, pairs: &[(&str, &str)], site: Option<&str>) -> String {
    let pairs: Vec<_> = pairs
        .iter()
        .map(|(chain, key)| (chain.as_bytes(), key.as_bytes()))
        .collect();
    let made = publisher.make(&Made {
        pairs: &pairs,
        tenant: "t",
        site,
        key: Some("key"),
        signatures: true,
    });
    made.expect_err("a refusal")
}

#[test]
fn a_bad_pair_says_what_is_wrong() {
    let publisher = publisher(&Arc::new(Ring::random()));
    let ca = TestCa::new();
    let pem = |pair: &Pair| (pair.chain_pem(), pair.key_pem());
    let (chain, key) = pem(&ca.issue(&["a.example"], Key::P256));
    let (other, other_key) = pem(&ca.issue(&["b.example"], Key::P256));
    let large = format!("{}\n{chain}", "# filler\n".repeat(120_000));
    for (pairs, want) in [
        (&[][..], "there is no certificate"),
        (
            &[(chain.as_str(), other_key.as_str())],
            "certificate 1: the private key does not belong",
        ),
        (&[(&large, &key)], "certificate 1: the file has"),
        (&[(&key, &key)], "holds no certificate"),
        (&[(&chain, &chain)], "holds no private key"),
        (&[("", "")], "holds no certificate"),
        (
            &[(&chain, &key), (&other, &other_key)],
            "two of its keys are ecdsa",
        ),
        (
            &[(&chain, &key), (&other, &other_key), (&chain, &key)],
            "there are 3 certificates",
        ),
    ] {
        let got = refusal(&publisher, pairs, None);
        assert!(got.contains(want), "{got}");
        let secret = other_key.lines().nth(1).unwrap();
        assert!(!got.contains(secret), "{got}");
    }
    let site = r#"{"redirect":5}"#;
    let got = refusal(&publisher, &[(&chain, &key)], Some(site));
    assert!(got.starts_with("site: "), "{got}");
}

/// Chains are checked as at an import: order, issuers and their signatures.
#[test]
fn chains_are_verified_and_put_in_order() {
    let publisher = publisher(&Arc::new(Ring::random()));
    let (ca, other) = (TestCa::new(), TestCa::new());
    let pair = ca.issue(&["a.example"], Key::P256);
    let foreign = other.issue(&["a.example"], Key::P256);
    let key = pair.key_pem();
    let parts = |pair: &Pair| {
        let (whole, leaf) = (pair.chain_pem(), pair.leaf_pem());
        let issuer = whole.strip_prefix(&*leaf).unwrap().to_owned();
        (leaf, issuer)
    };
    let ((leaf, issuer), (_, other_issuer)) = (parts(&pair), parts(&foreign));
    let refused = |chain: &str, key: &str| refusal(&publisher, &[(chain, key)], None);
    let alone = refused(&leaf, &key);
    assert!(alone.contains("the chain is incomplete"), "{alone}");
    assert!(!alone.contains("--ca"), "{alone}");
    let wrong = refused(&format!("{leaf}{other_issuer}"), &key);
    assert!(wrong.contains("the chain is incomplete"), "{wrong}");
    let served = |chain: &str, signatures| {
        let made = publisher.make(&Made {
            pairs: &[(chain.as_bytes(), key.as_bytes())],
            tenant: "t",
            site: None,
            key: None,
            signatures,
        });
        made.map(|made| made.host().credentials[0].certified().cert.clone())
    };
    let root = ca.root_pem();
    for signatures in [true, true, false, false] {
        for chain in [
            format!("{leaf}{issuer}"),
            format!("{leaf}{issuer}{root}"),
            format!("{issuer}{leaf}"),
            format!("{root}{leaf}{issuer}{leaf}"),
        ] {
            assert_eq!(served(&chain, signatures).unwrap(), pair.chain);
        }
        // A chain that passed before does not make another key pass.
        let mismatch = refused(&format!("{leaf}{issuer}"), &foreign.key_pem());
        assert!(mismatch.contains("does not belong"), "{mismatch}");
        let alone = served(&leaf, signatures).unwrap_err();
        assert!(alone.contains("the chain is incomplete"), "{alone}");
    }
    // An issuer of that name with another key: only signatures tell.
    let wrong = format!("{leaf}{other_issuer}");
    let chain = served(&wrong, false).expect("names fit");
    assert_eq!(chain[1], foreign.chain[1]);
    assert!(served(&wrong, true).is_err());
    // An expired chain is served on.
    let old = ca.issue_valid(&["a.example"], Key::P256, (2020, 1, 1), (2021, 1, 1));
    let made = publisher.make(&Made {
        pairs: &[(old.chain_pem().as_bytes(), old.key_pem().as_bytes())],
        tenant: "t",
        site: None,
        key: None,
        signatures: true,
    });
    assert!(made.is_ok());
}

#[test]
fn two_key_types_are_one_host() {
    let publisher = publisher(&Arc::new(Ring::random()));
    let ca = TestCa::new();
    let [ecdsa, rsa] = [Key::P256, Key::Rsa2048].map(|key| ca.issue(&["a.example"], key));
    let made = |pairs: &[&Pair]| {
        let pem: Vec<_> = pairs
            .iter()
            .map(|pair| (pair.chain_pem(), pair.key_pem()))
            .collect();
        let pairs: Vec<_> = pem
            .iter()
            .map(|(chain, key)| (chain.as_bytes(), key.as_bytes()))
            .collect();
        let made = publisher.make(&Made {
            pairs: &pairs,
            tenant: "t",
            site: None,
            key: None,
            signatures: false,
        });
        made.unwrap()
    };
    let (one, both) = (made(&[&ecdsa]), made(&[&rsa, &ecdsa]));
    assert_eq!(both.host().credentials.len(), 2);
    assert_eq!(both.host().record.tenant.as_str(), "t");
    let chain: usize = rsa.chain.iter().map(|der| der.len()).sum();
    assert!(both.weight() > one.weight() + chain as u64);
}
