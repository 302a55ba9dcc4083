use std::sync::Arc;

use sekisho_certs::{Clock, LineageName, Obtained};
use sekisho_issuance::ledger::Ledger;
use sekisho_issuance::quota::{Kind, Limit, Quotas};
use sekisho_issuance::settings::Settings;
use sekisho_testkit::services::PebbleOptions;
use tokio::net::TcpListener;

use crate::fixture::{Fixture, eventually, pattern, take_left, visit};

#[tokio::test]
async fn another_server_goes_on_with_the_order_of_a_dead_one() {
    // Accepts validations and never answers them.
    let silent = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let options = PebbleOptions {
        http_port: Some(silent.local_addr().unwrap().port()),
        ..PebbleOptions::default()
    };
    let fixture = Fixture::with(options).await;
    let record = fixture.host("a.example").await;
    let quotas = Quotas {
        duplicates: Limit::new(5, 7 * 24 * 3600),
        ..Quotas::default()
    };
    let limited = async || {
        let limit = |settings: &mut Settings| settings.cas[0].quotas = quotas;
        fixture.issuer_with(limit).await
    };
    let doomed = Fixture::visit_by(limited().await, "a.example", &record);
    eventually(async || {
        let lineage = fixture.lineage("a.example").await;
        lineage.is_some_and(|one| one.claim.is_some() && one.order.is_some())
    })
    .await;
    doomed.shutdown_background();
    let issuer = limited().await;
    let name = LineageName::from(&pattern("a.example"));
    let waiting = tokio::spawn({
        let issuer = Arc::clone(&issuer);
        async move { issuer.issue(&name).await }
    });
    fixture.end_claims();
    let failed = waiting.await.unwrap().unwrap_err();
    assert!(failed.why.contains("a.example"), "{failed:?}");
    assert_eq!(fixture.orders(), 1, "the same order");
    // It gives back what the dead server had taken for the certificate.
    let ledger = Ledger::new(fixture.sealer.clone(), Clock::System);
    let charges = quotas.certificate_charges(Kind::First, &[pattern("a.example")]);
    let left = take_left(&ledger, "pebble", &charges[0], 9).await;
    assert_eq!(left, 5);
    drop(silent);
    let obtained = visit(&issuer, "a.example", Some(&record)).await;
    assert!(matches!(obtained, Obtained::Failed { .. }));
}

#[tokio::test]
async fn the_order_of_a_dead_server_is_brought_to_its_certificate() {
    let fixture = Fixture::start().await;
    let record = fixture.host("a.example").await;
    fixture.held.send_replace(true);
    let doomed = fixture.visit_doomed("a.example", &record).await;
    let validates = || fixture.pebble.log().contains("Attempting to validate");
    eventually(async || validates()).await;
    doomed.shutdown_background();
    fixture.end_claims();
    fixture.held.send_replace(false);
    let issuer = fixture.issuer().await;
    let obtained = visit(&issuer, "a.example", Some(&record)).await;
    assert!(matches!(obtained, Obtained::Stored), "{obtained:?}");
    assert_eq!(fixture.orders(), 1, "the same order");
}
