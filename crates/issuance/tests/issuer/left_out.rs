//! One name that fails does not let the others of its certificate expire.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use sekisho_certs::{Clock, CredentialId, KeyType, Lineage};
use sekisho_issuance::issuer::Issuer;

use crate::fixture::{Fixture, eventually, pattern};

const NAMES: [&str; 3] = ["a.example", "b.example", "dead.example"];

#[tokio::test]
async fn a_late_renewal_leaves_out_the_name_that_fails() {
    let fixture = Fixture::start().await;
    let issuer = fixture.issuer().await;
    let old = issued(&fixture, &issuer).await;
    lead(&fixture, Ipv4Addr::new(127, 9, 9, 9));
    let before = fixture.stored("a.example").await;
    // Before its deadline, all names are tried again.
    let lifetime = before.not_after - before.not_before;
    let early = at(&fixture, before.not_after - lifetime / 5).await;
    for _ in 0..2 {
        let errors = fixture.orders();
        renew(&fixture, &early, "a.example", async || {
            fixture.orders() > errors
        })
        .await;
        settled(&fixture).await;
    }
    let lineage = fixture.lineage("a.example").await.unwrap();
    assert_eq!(lineage.names, NAMES.map(pattern));
    let why = lineage.last_error.unwrap().text;
    assert!(why.contains("dead.example"), "{why}");

    let late = at(&fixture, before.not_after - lifetime / 7).await;
    renew(&fixture, &late, "a.example", async || {
        used(&fixture, "a.example").await != old
    })
    .await;
    let new = used(&fixture, "a.example").await;
    assert_eq!(used(&fixture, "b.example").await, new);
    let lineage = fixture.lineage("a.example").await.unwrap();
    assert_eq!(lineage.names, ["a.example", "b.example"].map(pattern));
    assert_eq!((lineage.credential, lineage.last_error), (Some(new), None));
    // The other host keeps what it has, and says why.
    assert_eq!(used(&fixture, "dead.example").await, old);
    assert_eq!(fixture.stored("dead.example").await.chain, before.chain);
    let dead = fixture.lineage("dead.example").await.unwrap();
    assert_eq!(dead.names, [pattern("dead.example")]);
    assert_eq!(dead.credential, Some(old));
    assert!(dead.last_error.unwrap().text.contains("dead.example"));
    assert!(dead.due > Some(fixture.now()) && dead.attempts > 0);

    // Once it is mended, it is renewed alone, in place.
    lead(&fixture, Ipv4Addr::LOCALHOST);
    let renewed = async || fixture.stored("dead.example").await.chain != before.chain;
    renew(&fixture, &late, "dead.example", renewed).await;
    assert_eq!(used(&fixture, "dead.example").await, old);
    assert_ne!(used(&fixture, "a.example").await, old);
}

#[tokio::test]
async fn a_name_that_is_the_lineages_own_is_left_out_under_another() {
    let fixture = Fixture::start().await;
    let issuer = fixture.issuer().await;
    let tenant = fixture.host("dead.example").await.tenant;
    fixture.host("z.example").await;
    let both = ["dead.example", "z.example"].map(pattern);
    let lineage = Lineage::new(tenant, both).unwrap();
    issuer.add(lineage.clone()).await.unwrap();
    let old = issuer.issue(&lineage.name).await.unwrap().credential;
    lead(&fixture, Ipv4Addr::new(127, 9, 9, 9));
    let before = fixture.stored("dead.example").await;
    let late = at(&fixture, before.not_after - 9).await;
    let failed = async || {
        let lineage = fixture.lineage("dead.example").await.unwrap();
        lineage.last_error.is_some()
    };
    renew(&fixture, &late, "dead.example", failed).await;
    renew(&fixture, &late, "dead.example", async || {
        used(&fixture, "z.example").await != old
    })
    .await;
    let own = fixture.catalog.lineages_of(&[old]).await.unwrap();
    let [own] = &own[..] else { panic!("{own:?}") };
    assert_eq!(own.name.as_str(), old.to_string());
    assert_eq!(own.names, [pattern("dead.example")]);
    let rest = fixture.lineage("dead.example").await.unwrap();
    assert_eq!(rest.names, [pattern("z.example")]);
}

/// Gets a certificate of all names.
async fn issued(fixture: &Fixture, issuer: &Arc<Issuer>) -> CredentialId {
    let mut tenant = None;
    for name in NAMES {
        tenant = Some(fixture.host(name).await.tenant);
    }
    let lineage = Lineage::new(tenant.unwrap(), NAMES.map(pattern)).unwrap();
    issuer.add(lineage.clone()).await.unwrap();
    issuer.issue(&lineage.name).await.unwrap().credential
}

/// Starts a server at this time, Unix seconds.
async fn at(fixture: &Fixture, now: i64) -> Arc<Issuer> {
    fixture.time.store(now * 1000, Ordering::SeqCst);
    let clock = Clock::Manual(Arc::clone(&fixture.time));
    fixture.built(fixture.settings(), clock).await
}

/// Makes a lineage due, and lets a server renew until it is so.
async fn renew(
    fixture: &Fixture,
    issuer: &Arc<Issuer>,
    name: &str,
    is_so: impl AsyncFnMut() -> bool,
) {
    fixture.make_due(name).await;
    let renewing = tokio::spawn(Arc::clone(issuer).renew_due());
    eventually(is_so).await;
    renewing.abort();
}

/// Waits until nobody works on the lineage.
async fn settled(fixture: &Fixture) {
    eventually(async || {
        let lineage = fixture.lineage("a.example").await.unwrap();
        lineage.claim.is_none() && lineage.last_error.is_some()
    })
    .await;
}

fn lead(fixture: &Fixture, address: Ipv4Addr) {
    let challenges = fixture.pebble.challenges();
    challenges.set_address("dead.example.", address);
}

async fn used(fixture: &Fixture, name: &str) -> CredentialId {
    let record = fixture.record(name).await.unwrap();
    record.references.of(KeyType::Ecdsa).unwrap()
}
