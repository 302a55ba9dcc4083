//! Two lineages of one name, as for two types of keys: TLS-ALPN-01 has one answer per
//! name.

use std::sync::Arc;
use std::time::Duration;

use sekisho_certs::store::{Precondition, Write};
use sekisho_certs::{ChallengeKind, Challenges, Clock, KeyAuthorization, Lineage};
use sekisho_issuance::acme::ChallengeType;
use sekisho_testkit::services::PebbleOptions;
use tokio::time::timeout;

use crate::fixture::{Fixture, eventually, nobody, pattern};

const TLS: ChallengeKind = ChallengeKind::TlsAlpn01;
/// Seconds for which answers are there if nobody removes them.
const EXPIRY: i64 = 2 * 24 * 3600;

#[tokio::test]
async fn a_lineage_waits_for_the_validation_of_another_one_of_its_name() {
    let (fixture, challenges) = start().await;
    // An order of many names is validated for minutes.
    let other = show(&fixture, 200).await;
    let issuer = fixture
        .issuer_with(|settings| settings.solvers = vec![ChallengeType::TlsAlpn01])
        .await;
    let name = lineage(&fixture, &issuer).await;
    let mut ordering = tokio::spawn(async move { issuer.issue(&name).await });
    eventually(async || fixture.orders() == 1).await;
    // Without the wait, the CA finds in less time that nobody listens.
    let ended = timeout(Duration::from_secs(2), &mut ordering).await;
    assert!(ended.is_err(), "{ended:?}");
    let shown = challenges.stored(TLS, "a.example").await.unwrap();
    assert_eq!(shown.unwrap().0, other);
    // The other one is done.
    let removed = Write::RemoveDocument(
        sekisho_certs::store::DocumentId::new(TLS.document(), "a.example".to_owned()),
        Precondition::Any,
    );
    fixture.sealer.write(vec![removed]).await.unwrap();
    let failed = ordering.await.unwrap().unwrap_err();
    assert!(failed.why.contains("Failed to connect"), "{failed:?}");
    let left = challenges.stored(TLS, "a.example").await.unwrap();
    assert!(left.is_none(), "its answer is removed");
}

#[tokio::test]
async fn what_a_killed_process_has_shown_is_overwritten() {
    let (fixture, challenges) = start().await;
    show(&fixture, 241).await;
    let issuer = fixture
        .issuer_with(|settings| settings.solvers = vec![ChallengeType::TlsAlpn01])
        .await;
    let name = lineage(&fixture, &issuer).await;
    let failed = timeout(Duration::from_secs(30), issuer.issue(&name)).await;
    let failed = failed.expect("it waits for nobody").unwrap_err();
    assert!(failed.why.contains("Failed to connect"), "{failed:?}");
    assert!(challenges.stored(TLS, "a.example").await.unwrap().is_none());
}

/// Starts a CA that reaches nobody.
async fn start() -> (Fixture, Challenges) {
    let options = PebbleOptions {
        tls_port: Some(nobody().port()),
        ..PebbleOptions::default()
    };
    let fixture = Fixture::with(options).await;
    let challenges = Challenges::new(fixture.sealer.clone(), Clock::System);
    (fixture, challenges)
}

/// Shows another order's answer for the name since so many seconds.
async fn show(fixture: &Fixture, since: i64) -> KeyAuthorization {
    let other = KeyAuthorization::new("another.order");
    let expires = fixture.now() + EXPIRY - since;
    let write = Challenges::write(TLS, "a.example", &other, expires, Precondition::Absent);
    fixture.sealer.write(vec![write]).await.unwrap();
    other
}

async fn lineage(
    fixture: &Fixture,
    issuer: &Arc<sekisho_issuance::issuer::Issuer>,
) -> sekisho_certs::LineageName {
    let tenant = fixture.host("a.example").await.tenant;
    let new = Lineage::new(tenant, [pattern("a.example")]).unwrap();
    let name = new.name.clone();
    issuer.add(new).await.unwrap();
    name
}
