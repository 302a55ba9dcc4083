//! From an order to a certificate that clients verify.

use std::sync::Arc;

use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use sekisho_certs::credential::{Credential, KeyType};
use sekisho_issuance::acme::{
    Ca, CertificateKey, ChallengeType, Fault, KeyKind, Order, OrderStatus, Retry,
};
use sekisho_testkit::services::PebbleOptions;
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;

use crate::fixture::{Fixture, PATIENCE, fetch, finish, leaf, names, order_of, settings};

#[tokio::test]
async fn each_challenge_leads_to_a_certificate_that_clients_verify() {
    let fixture = Fixture::start();
    let account = fixture.account().await;
    let root = fixture.pebble.issuer(0).await;
    for (kind, ordered, asked) in [
        (
            ChallengeType::Http01,
            ["a.example", "b.example"],
            "b.example",
        ),
        (
            ChallengeType::TlsAlpn01,
            ["c.example", "d.example"],
            "c.example",
        ),
        (
            ChallengeType::Dns01,
            ["e.example", "*.e.example"],
            "x.e.example",
        ),
    ] {
        let names = names(&ordered);
        let mut order = account.order(&order_of(&names)).await.unwrap();
        assert_eq!(order.status(), OrderStatus::Pending);
        fixture.answer(&mut order, kind).await.unwrap();
        let credential = finish(&mut order, &names, None).await.unwrap();
        assert_eq!(credential.key_type(), KeyType::Ecdsa);
        verify(&credential, asked, &root);
    }
}

#[tokio::test]
async fn keys_of_all_types_are_certified() {
    let fixture = Fixture::start();
    let account = fixture.account().await;
    for (kind, key_type) in [
        (KeyKind::P384, KeyType::Ecdsa),
        (KeyKind::Rsa2048, KeyType::Rsa),
    ] {
        let names = names(&[&format!("{}.example", key_type.as_str())]);
        let mut order = account.order(&order_of(&names)).await.unwrap();
        fixture
            .answer(&mut order, ChallengeType::Http01)
            .await
            .unwrap();
        order.wait_ready(PATIENCE).await.unwrap();
        let key = CertificateKey::generate(kind).unwrap();
        order.finalize(&key, &names).await.unwrap();
        let credential = fetch(&mut order, &names, &key.to_pkcs8(), None)
            .await
            .unwrap();
        assert_eq!(credential.key_type(), key_type);
    }
}

#[tokio::test]
async fn an_order_goes_on_in_another_process_after_each_step() {
    let fixture = Fixture::start();
    let names = names(&["a.example", "b.example"]);
    let account = fixture.account().await;
    let bytes = account.to_bytes();
    let mut order = account.order(&order_of(&names)).await.unwrap();
    let url = order.url().to_owned();
    // A client of its own for each step shares nothing but bytes and URL.
    let resumed = async || -> Order {
        let ca = Ca::new(&settings(&fixture.pebble)).unwrap();
        ca.account(&bytes).unwrap().resume(&url).await.unwrap()
    };
    order = {
        drop((order, account));
        resumed().await
    };
    assert_eq!(order.status(), OrderStatus::Pending);
    fixture
        .answer(&mut order, ChallengeType::Http01)
        .await
        .unwrap();
    order = resumed().await;
    order.wait_ready(PATIENCE).await.unwrap();
    order = resumed().await;
    assert_eq!(order.status(), OrderStatus::Ready);
    assert!(
        order
            .authorizations()
            .await
            .unwrap()
            .iter()
            .all(|one| one.challenges.is_empty())
    );
    let key = CertificateKey::generate(KeyKind::P256).unwrap().to_pkcs8();
    let saved = CertificateKey::from_pkcs8(&key).unwrap();
    order.finalize(&saved, &names).await.unwrap();
    order = resumed().await;
    // A process that does not know whether that was done does it again.
    order.wait_ready(PATIENCE).await.unwrap();
    order.finalize(&saved, &names).await.unwrap();
    let first = fetch(&mut order, &names, &key, None).await.unwrap();
    order = resumed().await;
    assert_eq!(order.status(), OrderStatus::Valid);
    let second = fetch(&mut order, &names, &key, None).await.unwrap();
    assert_eq!(leaf(&first), leaf(&second));
}

#[tokio::test]
async fn two_processes_may_ask_for_the_same_validation() {
    let fixture = Fixture::start();
    let account = fixture.account().await;
    let names = names(&["a.example"]);
    let mut one = account.order(&order_of(&names)).await.unwrap();
    let mut other = account.resume(one.url()).await.unwrap();
    assert_eq!(other.authorizations().await.unwrap().len(), 1);
    fixture
        .answer(&mut one, ChallengeType::Http01)
        .await
        .unwrap();
    one.wait_ready(PATIENCE).await.unwrap();
    // That process still believes that the challenge is pending.
    let told = other.set_ready("a.example", ChallengeType::Http01).await;
    told.unwrap();
    finish(&mut other, &names, None).await.unwrap();
}

#[tokio::test]
async fn a_preferred_chain_is_taken_where_it_is_offered() {
    let options = PebbleOptions {
        alternate_roots: 2,
        ..PebbleOptions::default()
    };
    let fixture = Fixture::with(&options);
    let account = fixture.account().await;
    let names = names(&["a.example"]);
    let mut order = account.order(&order_of(&names)).await.unwrap();
    fixture
        .answer(&mut order, ChallengeType::Http01)
        .await
        .unwrap();
    let key = CertificateKey::generate(KeyKind::P256).unwrap();
    order.wait_ready(PATIENCE).await.unwrap();
    order.finalize(&key, &names).await.unwrap();
    let key = key.to_pkcs8();
    for number in [0, 1, 2] {
        let root = fixture.pebble.issuer(number).await;
        let authority = common_name(&root);
        let credential = fetch(&mut order, &names, &key, Some(&authority))
            .await
            .unwrap();
        verify(&credential, "a.example", &root);
    }
    let default = fetch(&mut order, &names, &key, Some("no such root"))
        .await
        .unwrap();
    verify(&default, "a.example", &fixture.pebble.issuer(0).await);
}

#[tokio::test]
async fn a_profile_decides_how_long_a_certificate_is_valid() {
    let day = 24 * 60 * 60;
    let options = PebbleOptions {
        profiles: vec![("classic".into(), 90 * day), ("shortlived".into(), 6 * day)],
        ..PebbleOptions::default()
    };
    let fixture = Fixture::with(&options);
    let meta = fixture.ca.meta().await.unwrap();
    let offered: Vec<_> = meta.profiles.keys().collect();
    assert_eq!(offered, ["classic", "shortlived"]);
    assert_eq!(meta.caa_identities, ["pebble.letsencrypt.org"]);
    assert!(meta.terms_of_service.is_some() && !meta.external_account_required);
    let account = fixture.account().await;
    let names = names(&["a.example"]);
    let mut new = order_of(&names);
    new.profile = Some("shortlived");
    let credential = fixture.issue(&account, &new).await;
    let now = sekisho_certs::Clock::System.now();
    let left = credential.not_after() - now;
    assert!(
        (5 * day..=6 * day).contains(&left.cast_unsigned()),
        "{left}"
    );
    new.profile = Some("eternal");
    let error = account.order(&new).await.unwrap_err();
    assert!(
        matches!(&error.fault, Fault::Setting { key: "profile", why } if why.contains("classic, shortlived")),
        "{error}"
    );
}

#[tokio::test]
async fn rejected_nonces_cost_no_order() {
    let options = PebbleOptions {
        rejected_nonces: 15,
        ..PebbleOptions::default()
    };
    let fixture = Fixture::with(&options);
    // The client tries each request three times, so that one in 300 still fails.
    let account = loop {
        match fixture.ca.create_account(&crate::fixture::agreed()).await {
            Ok(account) => break account,
            Err(error) => assert_bad_nonce(&error),
        }
    };
    let (mut issued, mut tried) = (0, 0);
    let sent = || fixture.pebble.log().matches("POST /order-plz").count();
    while issued < 2 || sent() < tried + 2 {
        tried += 1;
        assert!(tried < 1000, "no nonce is rejected");
        let names = names(&[&format!("n{tried}.example")]);
        let done = async {
            let mut order = account.order(&order_of(&names)).await?;
            fixture.answer(&mut order, ChallengeType::Http01).await?;
            finish(&mut order, &names, None).await
        };
        match done.await {
            Ok(_) => issued += 1,
            Err(error) => assert_bad_nonce(&error),
        }
    }
}

fn assert_bad_nonce(error: &sekisho_issuance::acme::Error) {
    let kind = error.problem().map(|problem| problem.kind.as_str());
    assert_eq!(kind, Some("badNonce"), "{error}");
    assert_eq!(error.retry(), Retry::Later);
}

/// Verifies a chain as a browser that trusts this root.
fn verify(credential: &Credential, name: &str, root: &str) {
    let mut roots = RootCertStore::empty();
    let root = CertificateDer::from_pem_slice(root.as_bytes()).unwrap();
    roots.add(root).unwrap();
    let provider = Arc::new(default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider);
    let (leaf, above) = credential.chain().split_first().unwrap();
    let name = ServerName::try_from(name).unwrap();
    let verifier = verifier.build().unwrap();
    let verified = verifier.verify_server_cert(leaf, above, &name, &[], UnixTime::now());
    verified.unwrap_or_else(|error| panic!("{name:?}: {error}"));
}

fn common_name(pem: &str) -> String {
    let der = CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
    let (_, certificate) = X509Certificate::from_der(&der).unwrap();
    let mut names = certificate.subject().iter_common_name();
    names.next().unwrap().as_str().unwrap().to_owned()
}
