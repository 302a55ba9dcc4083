//! Which CA has issued a certificate, and what its renewal counts as there.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use sekisho_certs::Fence;
use sekisho_certs::store::Write;
use sekisho_issuance::issuer::Issuer;
use sekisho_issuance::ledger::Ledger;
use sekisho_issuance::quota::{Charge, Limit, Quotas};
use sekisho_testkit::services::{CaLimits, LimitedCa, Pebble, PebbleOptions};

use crate::fixture::{metrics, take_left};
use crate::limits::{Limited, lineage};

const NAME: &str = "a.example";

fn one_order() -> Quotas {
    Quotas {
        orders: Limit::new(1, 3600),
        exempts_renewals: true,
        ..Quotas::default()
    }
}

/// Stores a host with a certificate of the fixture's CA.
async fn issued(limited: &Limited) -> Arc<Issuer> {
    let issuer = limited.issuer().await;
    limited.fixture.issued(&issuer, NAME).await;
    issuer
}

/// Makes the certificate one whose CA is not known.
async fn forget_issuer(limited: &Limited) {
    let mut known = limited.fixture.lineage(NAME).await.unwrap();
    assert_eq!(known.issued_by.take(), Some(limited.ca.directory()));
    let put = Write::PutLineage(known, Fence::Any);
    limited.fixture.sealer.write(vec![put]).await.unwrap();
}

/// Starts a server whose only CA, named as the fixture's, has this directory.
async fn issuer_at(limited: &Limited, directory: String, root: &Pebble) -> Arc<Issuer> {
    let mut settings = limited.fixture.settings();
    settings.cas[0].ca.directory = directory;
    settings.cas[0].ca.root = Some(root.root());
    settings.cas[0].quotas = limited.quotas;
    limited.fixture.built(settings, limited.clock()).await
}

/// Takes the only new order of the ledger.
async fn take_order(limited: &Limited) {
    let ledger = Ledger::new(limited.fixture.sealer.clone(), limited.clock());
    let orders = Charge {
        key: "orders".into(),
        limit: limited.quotas.orders.unwrap(),
    };
    take_left(&ledger, "pebble", &orders, 1).await;
}

fn second(limited: &Limited) -> LimitedCa {
    let time = Arc::clone(&limited.fixture.time);
    let now_ms = move || time.load(Ordering::SeqCst);
    limited
        .fixture
        .pebble
        .limited(CaLimits::letsencrypt(), now_ms)
}

#[tokio::test]
async fn a_renewal_is_one_only_at_the_ca_that_has_issued() {
    let limited = Limited::start(CaLimits::letsencrypt(), one_order()).await;
    let issuer = issued(&limited).await;
    take_order(&limited).await;
    issuer.issue(&lineage(NAME)).await.unwrap();
    // Another CA, which would answer the question for this certificate.
    let other = second(&limited);
    let pebble = &limited.fixture.pebble;
    let elsewhere = issuer_at(&limited, other.directory(), pebble).await;
    let failed = elsewhere.issue(&lineage(NAME)).await.unwrap_err();
    assert!(failed.why.contains("limits of pebble"), "{failed:?}");
    assert_eq!(other.asked(), 0);
    let asked = metrics(&elsewhere);
    let line = r#"acme_renewal_information_total{outcome="answered"} 0"#;
    assert!(
        asked.contains(line),
        "only the CA that has issued is asked: {asked}"
    );
    limited.advance(3600);
    elsewhere.issue(&lineage(NAME)).await.unwrap();
    let there = limited.fixture.lineage(NAME).await.unwrap();
    assert_eq!(there.issued_by, Some(other.directory()));
}

#[tokio::test]
async fn a_certificate_of_an_unknown_ca_counts_as_the_first_unless_ari_knows_it() {
    let limited = Limited::start(CaLimits::letsencrypt(), one_order()).await;
    let issuer = issued(&limited).await;
    // Pebble finds only serial numbers without a high bit.
    while !crate::renewal::has_low_serial(&limited.fixture.stored(NAME).await.chain[0]) {
        issuer.issue(&lineage(NAME)).await.unwrap();
    }
    forget_issuer(&limited).await;
    take_order(&limited).await;
    let stranger = Pebble::start(&PebbleOptions::default());
    let directory = stranger.directory();
    let elsewhere = issuer_at(&limited, directory, &stranger).await;
    let failed = elsewhere.issue(&lineage(NAME)).await.unwrap_err();
    assert!(failed.why.contains("limits of pebble"), "{failed:?}");
    assert_eq!(stranger.orders(), 0);
    issuer.issue(&lineage(NAME)).await.unwrap();
}

#[tokio::test]
async fn a_renewal_that_is_refused_as_a_new_order_waits_as_one() {
    let limits = CaLimits {
        orders: (1, 3600),
        exempts_renewals: false,
        ..CaLimits::letsencrypt()
    };
    let limited = Limited::start(limits, one_order()).await;
    let issuer = issued(&limited).await;
    let failed = issuer.issue(&lineage(NAME)).await.unwrap_err();
    assert!(failed.why.contains("too many new orders"), "{failed:?}");
    // It waits in the ledger, and asks the CA no more.
    let asked = limited.ca.asked();
    for _ in 0..3 {
        limited.advance(60);
        let failed = issuer.issue(&lineage(NAME)).await.unwrap_err();
        assert!(failed.why.contains("limits of pebble"), "{failed:?}");
    }
    assert_eq!(limited.ca.asked(), asked);
    limited.advance(3600);
    issuer.issue(&lineage(NAME)).await.unwrap();
    let order = limited.fixture.lineage(NAME).await.unwrap().order;
    assert_eq!(order, None, "the next renewal is one again");
}
