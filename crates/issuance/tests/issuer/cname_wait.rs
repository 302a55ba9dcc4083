//! Tests the wait for the CNAMEs of hosts, before any CA is asked.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use sekisho_certs::{HostName, Lineage, Secret, Tenant};
use sekisho_dns::Resolver;
use sekisho_issuance::acme::ChallengeType;
use sekisho_issuance::issuer::wait_for_cname;
use sekisho_issuance::solver::Served;
use sekisho_testkit::services::{Knot, Zone};

use crate::fixture::{Fixture, eventually, metrics, pattern};

const NAME: &str = "a.example";

/// Starts a name server of the host's zone, which has no CNAME yet, and of the zone above
/// the served one.
fn knot() -> Knot {
    let key = ("hmac-sha256", "key", "c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0");
    let zone = Zone {
        name: "example",
        records: "@ NS ns\nns A 127.0.0.1\na A 127.0.0.1",
        key: "key",
    };
    Knot::start(Ipv4Addr::LOCALHOST, &[key], &[zone])
}

fn set_cname(knot: &Knot, target: &str) {
    let (zone, name) = ("example", "_acme-challenge.a.example.");
    let target = format!("{target}.");
    for args in [
        &["zone-begin", zone][..],
        &["zone-set", zone, name, "60", "CNAME", &target],
        &["zone-commit", zone],
    ] {
        assert!(knot.control(args).status().unwrap().success(), "{args:?}");
    }
}

/// Waits until the last error of the lineage contains a text; returns the lineage.
async fn told(fixture: &Fixture, text: &str) -> Lineage<Secret> {
    let told = async || {
        let lineage = fixture.lineage(NAME).await.unwrap();
        lineage
            .last_error
            .is_some_and(|error| error.text.contains(text))
    };
    eventually(told).await;
    fixture.lineage(NAME).await.unwrap()
}

#[tokio::test]
async fn a_wait_is_no_failure_and_asks_no_ca() {
    let (fixture, knot) = (Fixture::start().await, knot());
    let served = Served {
        zone: HostName::parse("dcv.example").unwrap(),
        resolver: Resolver::new(&[knot.address()]),
    };
    let issuer = fixture
        .issuer_with(|settings| {
            settings.served = Some(served.clone());
            settings.solvers = vec![ChallengeType::Http01, ChallengeType::Dns01];
        })
        .await;
    let tenant = fixture.host(NAME).await.tenant;
    let mut lineage = Lineage::new(tenant.clone(), [pattern(NAME)]).unwrap();
    lineage.due = Some(0);
    lineage.wishes.solver = Some("dns-01".into());
    lineage.order = wait_for_cname(None, fixture.now() + 3600);
    assert!(issuer.add(lineage).await.unwrap());
    let renewing = tokio::spawn(Arc::clone(&issuer).renew_due());

    let waiting = told(&fixture, "waits until ").await;
    let catalog = fixture.catalog.id().await.unwrap();
    let labels = Secret::new(catalog.0.to_vec());
    let own = served.delegation(&pattern(NAME), &tenant, &labels);
    let text = waiting.last_error.unwrap().text;
    let expected = format!("_acme-challenge.{NAME} leads nowhere; set {own}");
    assert!(text.ends_with(&expected), "{text}");
    assert_eq!(waiting.attempts, 0);
    // Orders go first, and renewals.
    assert!(waiting.turn > fixture.now() + 10 * 365 * 24 * 3600);
    let pause = waiting.due.unwrap() - fixture.now();
    assert!((240..=340).contains(&pause), "{pause}");

    // That of another tenant, such as the former owner's.
    let other = served.delegation(&pattern(NAME), &Tenant::default(), &labels);
    set_cname(&knot, &other.target);
    fixture.make_due(NAME).await;
    let expected = format!("leads to {}; set {own}", other.target);
    assert_eq!(told(&fixture, &expected).await.attempts, 0);

    // The time is over.
    fixture.time.fetch_add(3_700_000, Ordering::SeqCst);
    fixture.make_due(NAME).await;
    let failed = told(&fixture, &format!("dns-01: {NAME}: ")).await;
    assert_eq!(failed.attempts, 1);
    assert!(failed.turn < fixture.now() + 3600, "{}", failed.turn);
    renewing.abort();
    assert_eq!(fixture.orders(), 0);
    let shown = metrics(&issuer);
    let failures = r#"acme_attempts_total{outcome="failed_host"} 1"#;
    assert!(shown.contains(failures), "{shown}");
}

#[tokio::test]
async fn a_wildcard_without_its_cname_costs_no_order() {
    let (fixture, knot) = (Fixture::start().await, knot());
    let served = Served {
        zone: HostName::parse("dcv.example").unwrap(),
        resolver: Resolver::new(&[knot.address()]),
    };
    let issuer = fixture
        .issuer_with(|settings| {
            settings.served = Some(served);
            settings.solvers = vec![ChallengeType::Http01, ChallengeType::Dns01];
        })
        .await;
    let name = format!("*.{NAME}");
    let tenant = fixture.host(&name).await.tenant;
    let lineage = Lineage::new(tenant, [pattern(&name)]).unwrap();
    let lineage_name = lineage.name.clone();
    issuer.add(lineage).await.unwrap();
    let why = issuer.issue(&lineage_name).await.unwrap_err().why;
    assert!(why.contains("leads nowhere; set "), "{why}");
    assert_eq!(fixture.orders(), 0);
}

#[tokio::test]
async fn a_server_without_the_zone_orders_nothing_meanwhile() {
    let fixture = Fixture::start().await;
    let issuer = fixture.issuer().await;
    let tenant = fixture.host(NAME).await.tenant;
    let mut lineage = Lineage::new(tenant, [pattern(NAME)]).unwrap();
    lineage.due = Some(0);
    lineage.order = wait_for_cname(None, fixture.now() + 3600);
    issuer.add(lineage).await.unwrap();
    let renewing = tokio::spawn(Arc::clone(&issuer).renew_due());
    let waiting = told(&fixture, "this server has no zone").await;
    renewing.abort();
    assert_eq!((waiting.attempts, fixture.orders()), (0, 0));
    // A command that does not wait orders at once.
    issuer.issue(&waiting.name).await.unwrap();
    assert_eq!(fixture.orders(), 1);
}
