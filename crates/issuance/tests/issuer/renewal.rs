use std::sync::Arc;
use std::sync::atomic::AtomicI64;

use rustls_pki_types::CertificateDer;
use sekisho_certs::store::{DocumentKind, Precondition, Write};
use sekisho_certs::{Clock, Fence, KeyType, Lineage, Obtained};
use sekisho_issuance::acme::{CaSettings, KeyKind};
use sekisho_issuance::ledger::Ledger;
use sekisho_issuance::quota::{Charge, Limit};
use sekisho_issuance::settings::{CaOptions, Settings};
use sekisho_testkit::contract::fixture::all_credentials;
use sekisho_testkit::services::{Pebble, PebbleOptions};

use crate::fixture::{Fixture, eventually, metrics, pattern, take_left, visit};

#[tokio::test]
async fn what_is_due_is_renewed_in_place() {
    let fixture = Fixture::start().await;
    let issuer = fixture.issuer().await;
    let name = fixture.issued(&issuer, "a.example").await;
    let first = fixture.stored("a.example").await;
    // A renewal by hand is not asked whether it is due.
    let issued = issuer.issue(&name).await.unwrap();
    assert_eq!((issued.credential, fixture.orders()), (first.id, 2));
    let second = fixture.stored("a.example").await;
    assert_ne!(first.chain, second.chain);
    assert!(second.version > first.version, "it is announced");
}

#[tokio::test]
async fn a_server_takes_up_what_is_due_and_leaves_what_is_not() {
    let fixture = Fixture::start().await;
    let issuer = fixture.issuer().await;
    for name in ["a.example", "b.example"] {
        fixture.issued(&issuer, name).await;
    }
    // The first is looked at again, though it is not due; the last has never had a certificate.
    fixture.make_due("a.example").await;
    let tenant = fixture.host("c.example").await.tenant;
    let mut new = Lineage::new(tenant, [pattern("c.example")]).unwrap();
    new.due = Some(0);
    issuer.add(new).await.unwrap();
    let renewing = tokio::spawn(Arc::clone(&fixture.issuer().await).renew_due());
    eventually(async || {
        let [a, c] = ["a.example", "c.example"].map(|name| fixture.lineage(name));
        let (a, c) = (a.await.unwrap(), c.await.unwrap());
        a.due > Some(Clock::System.now()) && c.credential.is_some()
    })
    .await;
    renewing.abort();
    assert_eq!(fixture.orders(), 3);
}

#[tokio::test]
async fn a_window_of_the_ca_makes_a_certificate_due() {
    let fixture = Fixture::start().await;
    let issuer = fixture.issuer().await;
    let name = fixture.issued(&issuer, "a.example").await;
    // Pebble compares serial numbers as text, with the zero that DER puts before a
    // high bit or a first digit of zero, or without it: it does not find such a
    // certificate.
    let leaf = loop {
        let leaf = fixture.stored("a.example").await.chain.remove(0);
        if has_low_serial(&leaf) {
            break leaf;
        }
        issuer.issue(&name).await.unwrap();
    };
    let before = fixture.orders();
    let window = r#"{"suggestedWindow": {"start": "2026-01-02T03:04:05Z",
        "end": "2026-01-02T05:04:05Z"}}"#;
    fixture.pebble.set_renewal_info(&pem(&leaf), window).await;
    // The catalog's clock stands still, and the certificate may begin behind its time.
    fixture.end_claims();
    fixture.make_due("a.example").await;
    let renewing = tokio::spawn(Arc::clone(&issuer).renew_due());
    eventually(async || fixture.stored("a.example").await.chain[0] != leaf).await;
    renewing.abort();
    assert_eq!(fixture.orders(), before + 1);
}

#[tokio::test]
async fn a_renewal_with_another_account_replaces_nothing() {
    let fixture = Fixture::start().await;
    let name = fixture.issued(&fixture.issuer().await, "a.example").await;
    let kind = DocumentKind::new("acme-account");
    let account = fixture
        .catalog
        .list_documents(&kind, None, 1)
        .await
        .unwrap();
    let remove = Write::RemoveDocument(account[0].id.clone(), Precondition::Any);
    fixture.sealer.write(vec![remove]).await.unwrap();
    fixture.issuer().await.issue(&name).await.unwrap();
    assert_eq!(fixture.orders(), 2);
}

#[tokio::test]
async fn another_type_of_key_takes_the_place_of_the_old_one() {
    let fixture = Fixture::start().await;
    let name = fixture.issued(&fixture.issuer().await, "a.example").await;
    let rsa = |settings: &mut Settings| settings.key = KeyKind::Rsa2048;
    let issuer = fixture.issuer_with(rsa).await;
    let issued = issuer.issue(&name).await.unwrap();
    let references = fixture.record("a.example").await.unwrap().references;
    assert_eq!(references.of(KeyType::Rsa), Some(issued.credential));
    assert_eq!(references.of(KeyType::Ecdsa), None);
    let all = all_credentials(&*fixture.catalog).await;
    assert_eq!(all.len(), 1, "the old one is gone");
}

#[tokio::test]
async fn a_name_that_has_left_its_certificate_gets_one_of_its_own() {
    let fixture = Fixture::start().await;
    let record = fixture.host("a.example").await;
    fixture.host("b.example").await;
    let issuer = fixture.issuer().await;
    let both = ["a.example", "b.example"].map(pattern);
    let lineage = Lineage::new(record.tenant.clone(), both).unwrap();
    issuer.add(lineage.clone()).await.unwrap();
    issuer.issue(&lineage.name).await.unwrap();
    let remove = Write::RemoveHost(pattern("a.example"), Precondition::Any);
    fixture.sealer.write(vec![remove]).await.unwrap();
    issuer.issue(&lineage.name).await.unwrap();
    let left = fixture.lineage("a.example").await.unwrap();
    assert_eq!(left.names, [pattern("b.example")]);
    let record = fixture.host("a.example").await;
    for _ in 0..2 {
        let obtained = visit(&issuer, "a.example", Some(&record)).await;
        assert!(matches!(obtained, Obtained::Stored), "{obtained:?}");
    }
    assert_eq!(fixture.orders(), 3);
    let record = fixture.record("a.example").await.unwrap();
    assert_ne!(record.references.of(KeyType::Ecdsa), left.credential);
}

#[tokio::test]
async fn a_server_replaces_a_revoked_certificate_with_another_key() {
    let fixture = Fixture::start().await;
    let keeps_keys = async || {
        fixture
            .issuer_with(|settings| settings.reuse_key = true)
            .await
    };
    let issuer = keeps_keys().await;
    let name = fixture.issued(&issuer, "a.example").await;
    let key = async || public_key(&fixture.stored("a.example").await.chain[0]);
    let first = key().await;
    issuer.issue(&name).await.unwrap();
    assert_eq!(key().await, first, "renewals keep the key");
    // The revoking process ends before it orders another one.
    issuer.revoke(&name, None, true).await.unwrap();
    let due = fixture.lineage("a.example").await.unwrap().due.unwrap();
    let pause = due - Clock::System.now();
    assert!((30..=60).contains(&pause), "{pause}");
    fixture.make_due("a.example").await;
    let renewing = tokio::spawn(keeps_keys().await.renew_due());
    eventually(async || key().await != first).await;
    renewing.abort();
    let next = key().await;
    issuer.issue(&name).await.unwrap();
    assert_eq!(key().await, next, "renewals keep it again");
}

pub(crate) fn public_key(leaf: &CertificateDer<'_>) -> Vec<u8> {
    use x509_parser::prelude::FromDer as _;
    let (_, leaf) = x509_parser::certificate::X509Certificate::from_der(leaf).unwrap();
    leaf.public_key().subject_public_key.data.to_vec()
}

pub(crate) fn has_low_serial(leaf: &CertificateDer<'_>) -> bool {
    use x509_parser::prelude::FromDer as _;
    let (_, leaf) = x509_parser::certificate::X509Certificate::from_der(leaf).unwrap();
    leaf.raw_serial()[0] > 0x0f
}

fn pem(leaf: &CertificateDer<'_>) -> String {
    let text = data_encoding::BASE64.encode(leaf);
    let lines: Vec<_> = text
        .as_bytes()
        .chunks(64)
        .map(String::from_utf8_lossy)
        .collect();
    let body = lines.join("\n");
    format!("-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n")
}

#[tokio::test]
async fn no_ca_is_asked_about_an_expired_certificate() {
    let fixture = Fixture::start().await;
    let name = fixture.issued(&fixture.issuer().await, "a.example").await;
    for (days, asked) in [(89, true), (91, false)] {
        let time = Clock::System.now_ms() + days * 86_400_000;
        let clock = Clock::Manual(Arc::new(AtomicI64::new(time)));
        let issuer = fixture.issuer_at(clock).await;
        // With the later clock the new certificate has expired, too.
        let _ended = issuer.issue(&name).await;
        let none = ["answered", "failed"]
            .map(|outcome| format!("acme_renewal_information_total{{outcome=\"{outcome}\"}} 0\n"));
        let shown = metrics(&issuer);
        let is_none = none.iter().all(|line| shown.contains(line));
        assert_eq!(is_none, !asked, "{shown}");
    }
}

#[tokio::test]
async fn each_ca_that_is_asked_takes_from_the_limit_of_questions() {
    let fixture = Fixture::start().await;
    fixture.issued(&fixture.issuer().await, "a.example").await;
    // The limit of the cluster, as servers keep it, has one question left.
    let clock = Clock::Manual(Arc::new(AtomicI64::new(Clock::System.now_ms())));
    // Of an imported certificate nobody knows which CA has issued it.
    let mut lineage = fixture.lineage("a.example").await.unwrap();
    lineage.issued_by = None;
    let put = Write::PutLineage(lineage, Fence::Any);
    fixture.sealer.write(vec![put]).await.unwrap();
    let ledger = Ledger::new(fixture.sealer.clone(), clock.clone());
    let questions = Charge {
        key: "questions".into(),
        limit: Limit::new(10, 1).unwrap(),
    };
    let taken = take_left(&ledger, "renewal-info", &questions, 9).await;
    assert_eq!(taken, 9);
    fixture.make_due("a.example").await;
    let other = Pebble::start(&PebbleOptions::default());
    let mut settings = fixture.settings();
    settings.cas.insert(
        0,
        CaOptions::new(CaSettings {
            name: "other".into(),
            directory: other.directory(),
            root: Some(other.root()),
            ..settings.cas[0].ca.clone()
        }),
    );
    let issuer = fixture.built(settings, clock.clone()).await;
    let renewing = tokio::spawn(Arc::clone(&issuer).renew_due());
    eventually(async || fixture.lineage("a.example").await.unwrap().due > Some(0)).await;
    renewing.abort();
    let shown = metrics(&issuer);
    // The other CA does not know the certificate; the one that does was not asked.
    for line in [r#"{outcome="answered"} 0"#, r#"{outcome="failed"} 1"#] {
        assert!(
            shown.contains(&format!("acme_renewal_information_total{line}")),
            "{shown}"
        );
    }
    let due = fixture.lineage("a.example").await.unwrap().due.unwrap();
    assert!((60..600).contains(&(due - clock.now())), "{due}");
}

#[tokio::test]
async fn a_renewal_past_its_deadline_is_counted() {
    let fixture = Fixture::start().await;
    let name = fixture.issued(&fixture.issuer().await, "a.example").await;
    // Pebble's certificates are valid for 90 days, of which 15 are past the deadline.
    for (days, late) in [(74, 0), (76, 1)] {
        let time = Clock::System.now_ms() + days * 86_400_000;
        let clock = Clock::Manual(Arc::new(AtomicI64::new(time)));
        let issuer = fixture.issuer_at(clock).await;
        issuer.issue(&name).await.unwrap();
        let shown = metrics(&issuer);
        let line = format!("\nacme_late_renewals_total {late}\n");
        assert!(shown.contains(&line), "{shown}");
    }
}
