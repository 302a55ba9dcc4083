//! Servers of one catalog whose configurations differ.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use sekisho_certs::Lineage;
use sekisho_certs::lineage::UNTAKEN;
use sekisho_certs::store::Write;
use sekisho_certs::{Fence, LineageName};
use sekisho_issuance::issuer::Issuer;

use tokio::task::JoinHandle;

use crate::fixture::{Fixture, eventually, metrics, pattern};

#[tokio::test]
async fn a_lineage_is_left_to_the_server_that_has_its_ca() {
    let fixture = Fixture::start().await;
    let without = fixture
        .issuer_with(|settings| settings.cas[0].ca.name = "outer".into())
        .await;
    let with = fixture
        .issuer_with(|settings| settings.cas[0].ca.name = "internal".into())
        .await;
    let name = wanted(&fixture, "a.example", Some("internal"), 0).await;
    // A command where the CA is not configured puts nothing off for the other server.
    let refused = without.issue(&name).await.unwrap_err();
    assert!(
        refused.why.contains("\"internal\" is not configured"),
        "{refused:?}"
    );
    advance(&fixture, 9);
    let renewing = [&without, &with].map(|issuer| tokio::spawn(Arc::clone(issuer).renew_due()));
    eventually(async || {
        let lineage = fixture.lineage("a.example").await.unwrap();
        lineage.credential.is_some()
    })
    .await;
    renewing.iter().for_each(JoinHandle::abort);
    let lineage = fixture.lineage("a.example").await.unwrap();
    assert_eq!((lineage.attempts, lineage.last_error), (0, None));
    let attempts = |issuer: &Issuer| {
        let shown = metrics(issuer);
        let lines = shown
            .lines()
            .filter(|line| line.starts_with("acme_attempts_total"));
        let counts = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
        counts.sum::<u64>()
    };
    assert_eq!((attempts(&without), attempts(&with)), (1, 1));
}

#[tokio::test]
async fn what_no_server_can_get_says_what_is_missing() {
    let fixture = Fixture::start().await;
    let issuer = fixture.issuer().await;
    let late = UNTAKEN - 9;
    wanted(&fixture, "*.wild.example", None, late).await;
    wanted(&fixture, "a.example", None, 0).await;
    let renewing = tokio::spawn(Arc::clone(&issuer).renew_due());
    let lineage = async |name| fixture.lineage(name).await.unwrap();
    eventually(async || lineage("a.example").await.credential.is_some()).await;
    let wild = lineage("*.wild.example").await;
    assert_eq!(
        (wild.attempts, wild.last_error, wild.claim),
        (0, None, None)
    );
    advance(&fixture, 9);
    eventually(async || lineage("*.wild.example").await.last_error.is_some()).await;
    let wild = lineage("*.wild.example").await;
    let why = wild.last_error.unwrap().text;
    assert!(why.contains(r#"add [acme.dns."wild.example"]"#), "{why}");
    // It is listed as failing, and looked at again in an hour or so.
    let again = wild.due.unwrap() - fixture.now();
    assert!((3600..=4050).contains(&again), "{again}");
    assert_eq!((wild.attempts, wild.claim), (1, None));
    renewing.abort();
    assert_eq!(fixture.orders(), 1);
}

/// Stores a host and a lineage that has been due for so many seconds.
async fn wanted(fixture: &Fixture, name: &str, ca: Option<&str>, for_s: i64) -> LineageName {
    let tenant = fixture.host(name).await.tenant;
    let mut lineage = Lineage::new(tenant, [pattern(name)]).unwrap();
    lineage.wishes.ca = ca.map(str::to_owned);
    lineage.due = Some(fixture.now() - for_s);
    let named = lineage.name.clone();
    let put = Write::PutLineage(lineage, Fence::Absent);
    fixture.sealer.write(vec![put]).await.unwrap();
    named
}

fn advance(fixture: &Fixture, seconds: i64) {
    fixture.time.fetch_add(seconds * 1000, Ordering::SeqCst);
}
