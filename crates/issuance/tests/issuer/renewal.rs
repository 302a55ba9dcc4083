use std::sync::Arc;
use std::sync::atomic::AtomicI64;

use sekisho_certs::store::Write;
use sekisho_certs::{Clock, Fence, LineageName};

use rustls_pki_types::CertificateDer;

use crate::fixture::{Fixture, eventually, metrics, pattern, visit};

#[tokio::test]
async fn what_is_due_is_renewed_in_place() {
    let fixture = Fixture::start().await;
    let record = fixture.host("a.example").await;
    let issuer = fixture.issuer().await;
    visit(&issuer, "a.example", Some(&record)).await;
    let before = fixture.lineage("a.example").await.unwrap();
    let id = before.credential.unwrap();
    let first = fixture.catalog.credentials(&[id]).await.unwrap();
    let name = LineageName::from(&pattern("a.example"));
    // A renewal by hand is not asked whether it is due.
    let issued = issuer.issue(&name).await.unwrap();
    assert_eq!((issued.credential, fixture.orders()), (id, 2));
    let second = fixture.catalog.credentials(&[id]).await.unwrap();
    assert_ne!(first[0].chain, second[0].chain);
    assert!(second[0].version > first[0].version, "it is announced");
}

#[tokio::test]
async fn a_server_takes_up_what_is_due_and_leaves_what_is_not() {
    let fixture = Fixture::start().await;
    let issuer = fixture.issuer().await;
    for name in ["a.example", "b.example"] {
        let record = fixture.host(name).await;
        visit(&issuer, name, Some(&record)).await;
    }
    // One is looked at again, though it is not due; one has never had a certificate.
    let mut known = fixture.lineage("a.example").await.unwrap();
    known.due = Some(0);
    fixture.host("c.example").await;
    let tenant = known.tenant.clone();
    let mut new = sekisho_certs::Lineage::new(tenant, [pattern("c.example")]).unwrap();
    new.due = Some(0);
    let writes = [known, new].map(|one| Write::PutLineage(one, Fence::Any));
    fixture.sealer.write(writes.to_vec()).await.unwrap();
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
    let record = fixture.host("a.example").await;
    let issuer = fixture.issuer().await;
    visit(&issuer, "a.example", Some(&record)).await;
    let name = LineageName::from(&pattern("a.example"));
    let id = fixture
        .lineage("a.example")
        .await
        .unwrap()
        .credential
        .unwrap();
    // Pebble compares serial numbers as text, with the zero that DER puts before a
    // high bit or without it: it does not find such a certificate.
    let leaf = loop {
        let chain = &fixture.catalog.credentials(&[id]).await.unwrap()[0].chain;
        if has_low_serial(&chain[0]) {
            break chain[0].clone();
        }
        issuer.issue(&name).await.unwrap();
    };
    let before = fixture.orders();
    let window = r#"{"suggestedWindow": {"start": "2026-01-02T03:04:05Z",
        "end": "2026-01-02T05:04:05Z"}}"#;
    fixture.pebble.set_renewal_info(&pem(&leaf), window).await;
    let mut looked_at = fixture.lineage("a.example").await.unwrap();
    looked_at.due = Some(0);
    let put = Write::PutLineage(looked_at, Fence::Any);
    fixture.sealer.write(vec![put]).await.unwrap();
    let renewing = tokio::spawn(Arc::clone(&issuer).renew_due());
    eventually(async || {
        let chain = &fixture.catalog.credentials(&[id]).await.unwrap()[0].chain;
        chain[0] != leaf
    })
    .await;
    renewing.abort();
    assert_eq!(fixture.orders(), before + 1);
}

fn has_low_serial(leaf: &CertificateDer<'_>) -> bool {
    use x509_parser::prelude::FromDer as _;
    let (_, leaf) = x509_parser::certificate::X509Certificate::from_der(leaf).unwrap();
    leaf.raw_serial()[0] != 0
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
async fn a_renewal_past_its_deadline_is_counted() {
    let fixture = Fixture::start().await;
    let record = fixture.host("a.example").await;
    visit(&fixture.issuer().await, "a.example", Some(&record)).await;
    let name = LineageName::from(&pattern("a.example"));
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
