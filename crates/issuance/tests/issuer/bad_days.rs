//! Days on which something fails, and somebody corrects it.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use sekisho_certs::store::Write;
use sekisho_certs::{Clock, Fence, LastError, Lineage, LineageName, Obtained};
use sekisho_issuance::acme::{CaSettings, ChallengeType};
use sekisho_issuance::issuer::Issuer;
use sekisho_issuance::quota::{Limit, Quotas};
use sekisho_issuance::settings::CaOptions;
use sekisho_testkit::services::PebbleOptions;

use crate::fixture::{Fixture, eventually, nobody, pattern, visit};

#[tokio::test]
async fn where_the_first_ca_is_down_the_second_one_issues() {
    let fixture = Fixture::start().await;
    let record = fixture.host("a.example").await;
    let issuer = fixture
        .issuer_with(|settings| {
            let down = CaOptions::new(CaSettings {
                name: "down".into(),
                directory: format!("https://{}/dir", nobody()),
                ..settings.cas[0].ca.clone()
            });
            settings.cas.insert(0, down);
        })
        .await;
    let obtained = visit(&issuer, "a.example", Some(&record)).await;
    assert!(matches!(obtained, Obtained::Stored), "{obtained:?}");
}

#[tokio::test]
async fn a_ca_that_is_down_is_tried_again_and_the_names_bear_no_blame() {
    let fixture = Fixture::start().await;
    let record = fixture.host("a.example").await;
    let unreachable = format!("https://{}/dir", nobody());
    let issuer = fixture
        .issuer_with(|settings| settings.cas[0].ca.directory = unreachable)
        .await;
    let new = Lineage::new(record.tenant.clone(), [record.pattern.clone()]).unwrap();
    issuer.add(new.clone()).await.unwrap();
    let failed = issuer.issue(&new.name).await.unwrap_err();
    let lineage = fixture.lineage("a.example").await.unwrap();
    assert_eq!(lineage.due, failed.next);
    // When the CA is asked again.
    let pause = lineage.due.unwrap() - Clock::System.now();
    assert!((5..20).contains(&pause), "{pause}");
    // The CA is up again: a server that has not seen the failure tries at once.
    let issuer = fixture.issuer().await;
    let issued = issuer.issue(&lineage.name).await.unwrap();
    assert_eq!(issued.names, [pattern("a.example")]);
    let lineage = fixture.lineage("a.example").await.unwrap();
    assert_eq!((lineage.attempts, lineage.last_error), (0, None));
}

#[tokio::test]
async fn the_challenge_that_works_is_tried_first_from_then_on() {
    let options = PebbleOptions {
        tls_port: Some(nobody().port()),
        ..PebbleOptions::default()
    };
    let fixture = Fixture::with(options).await;
    let record = fixture.host("a.example").await;
    let issuer = fixture
        .issuer_with(|settings| {
            settings.solvers = vec![ChallengeType::TlsAlpn01, ChallengeType::Http01];
        })
        .await;
    let obtained = visit(&issuer, "a.example", Some(&record)).await;
    assert!(matches!(obtained, Obtained::Stored), "{obtained:?}");
    assert_eq!(fixture.orders(), 2);
    let name = LineageName::from(&pattern("a.example"));
    issuer.issue(&name).await.unwrap();
    assert_eq!(fixture.orders(), 3);
}

#[tokio::test]
async fn all_servers_keep_to_the_limits_of_a_ca() {
    let fixture = Fixture::start().await;
    let limited = async || {
        let limit = |settings: &mut sekisho_issuance::settings::Settings| {
            settings.cas[0].quotas.orders = Limit::new(1, 3600);
        };
        fixture.issuer_with(limit).await
    };
    let servers = [limited().await, limited().await];
    for (server, name, is_stored) in [(0, "a.example", true), (1, "b.example", false)] {
        let record = fixture.host(name).await;
        let obtained = visit(&servers[server], name, Some(&record)).await;
        assert_eq!(
            matches!(obtained, Obtained::Stored),
            is_stored,
            "{obtained:?}"
        );
    }
    assert_eq!(fixture.orders(), 1);
    let lineage = fixture.lineage("b.example").await.unwrap();
    assert!(
        lineage
            .last_error
            .unwrap()
            .text
            .contains("limits of pebble")
    );
    let pause = lineage.due.unwrap() - Clock::System.now();
    assert!((3500..4200).contains(&pause), "{pause}");
    assert_eq!(lineage.attempts, 0, "nobody was refused");
}

#[tokio::test]
async fn a_refused_name_keeps_its_place_behind_those_of_other_tenants() {
    let fixture = Fixture::start().await;
    let limit = |settings: &mut sekisho_issuance::settings::Settings| {
        settings.cas[0].quotas.orders = Limit::new(1, 60);
    };
    let issuer = fixture.issuer_with(limit).await;
    let (now, hours) = (Clock::System.now(), 1000 * 3600);
    let record = fixture.host("a.example").await;
    let mut last = Lineage::new(record.tenant.clone(), [record.pattern.clone()]).unwrap();
    (last.due, last.turn) = (Some(now), now + hours);
    let late = last.name.clone();
    issuer.add(last).await.unwrap();
    let record = fixture.host("b.example").await;
    visit(&issuer, "b.example", Some(&record)).await;
    issuer.issue(&late).await.unwrap_err();
    let last = fixture.lineage("a.example").await.unwrap();
    assert_eq!(last.turn, now + hours);
    let pause = last.due.unwrap() - now;
    assert!(pause >= hours / 400, "{pause}");
}

#[tokio::test]
async fn an_order_by_hand_forgets_earlier_failures() {
    let fixture = Fixture::with(PebbleOptions {
        blocked: vec!["a.example".into()],
        ..PebbleOptions::default()
    })
    .await;
    let record = fixture.host("a.example").await;
    let mut failing = Lineage::new(record.tenant.clone(), [record.pattern.clone()]).unwrap();
    failing.attempts = 9;
    let name = failing.name.clone();
    let issuer = fixture.issuer().await;
    issuer.add(failing).await.unwrap();
    let failed = issuer.issue(&name).await.unwrap_err();
    let pause = failed.next.unwrap() - Clock::System.now();
    assert!((50..120).contains(&pause), "{pause}");
    assert_eq!(fixture.lineage("a.example").await.unwrap().attempts, 1);
}

#[tokio::test]
async fn after_an_outage_no_name_waits_for_its_turn() {
    let fixture = Fixture::start().await;
    let record = fixture.host("a.example").await;
    let mut late = Lineage::new(record.tenant.clone(), [record.pattern.clone()]).unwrap();
    late.turn = Clock::System.now() + 1000 * 3600;
    let name = late.name.clone();
    let unreachable = format!("https://{}/dir", nobody());
    let issuer = fixture
        .issuer_with(|settings| settings.cas[0].ca.directory = unreachable)
        .await;
    issuer.add(late).await.unwrap();
    issuer.issue(&name).await.unwrap_err();
    // Nothing is asked now: the CA is passed over.
    let failed = issuer.issue(&name).await.unwrap_err();
    assert!(failed.why.contains("no CA is worth asking"), "{failed:?}");
    let pause = failed.next.unwrap() - Clock::System.now();
    assert!(pause < 120, "{pause}");
}

#[tokio::test]
async fn names_that_fail_for_weeks_stay_behind_others_after_an_outage_or_a_closed_limit() {
    let fixture = Fixture::start().await;
    fixture.issued(&fixture.issuer().await, "a.example").await;
    let current = fixture.stored("a.example").await;
    let deadline = current.not_after - (current.not_after - current.not_before) / 6;
    let clock = Clock::Manual(Arc::clone(&fixture.time));
    fixture.time.store((deadline + 1) * 1000, Ordering::SeqCst);
    let late = deadline + 15 * 86_400;
    let mut settings = fixture.settings();
    settings.cas[0].quotas.orders = Limit::new(1, 3600);
    let limited = fixture.built(settings.clone(), clock.clone()).await;
    fixture.issued(&limited, "b.example").await;
    settings.cas[0].ca.directory = format!("https://{}/dir", nobody());
    let down = fixture.built(settings, clock).await;
    for (issuer, expected) in [
        (limited, "the limits of pebble"),
        (Arc::clone(&down), ""),
        // Nothing is asked now: the CA is passed over.
        (down, "no CA is worth asking"),
    ] {
        let mut dead = fixture.lineage("a.example").await.unwrap();
        (dead.due, dead.turn, dead.attempts) = (Some(0), late, 30);
        let text = "no such name".into();
        dead.last_error = Some(LastError { at: 7, text });
        let put = Write::PutLineage(dead, Fence::Any);
        fixture.sealer.write(vec![put]).await.unwrap();
        let renewing = tokio::spawn(issuer.renew_due());
        eventually(async || {
            let dead = fixture.lineage("a.example").await.unwrap();
            dead.claim.is_none() && dead.last_error.is_some_and(|error| error.at != 7)
        })
        .await;
        renewing.abort();
        let dead = fixture.lineage("a.example").await.unwrap();
        let why = dead.last_error.unwrap().text;
        assert!(why.contains(expected), "{why}");
        assert_eq!((dead.turn, dead.attempts), (late, 30), "{why}");
    }
}

#[tokio::test]
async fn past_the_bound_of_orders_a_name_waits_for_its_turn() {
    let fixture = Fixture::start().await;
    let record = fixture.host("a.example").await;
    let issuer = fixture.issuer_with(|settings| settings.orders = 0).await;
    let obtained = visit(&issuer, "a.example", Some(&record)).await;
    let Obtained::Failed { why, retry_after } = obtained else {
        panic!("{obtained:?}");
    };
    assert!(
        why.contains("in flight") && retry_after.as_secs() < 10,
        "{why}"
    );
    let lineage = fixture.lineage("a.example").await.unwrap();
    assert!(lineage.due.unwrap() <= Clock::System.now(), "it is due");
}

#[tokio::test]
async fn a_clock_that_is_a_day_off_holds_nothing_up() {
    let fixture = Fixture::start().await;
    let limited = || {
        let mut settings = fixture.settings();
        settings.cas[0].quotas = Quotas::letsencrypt();
        settings
    };
    let servers = [(-1, "a.one.example"), (1, "a.two.example")];
    for (day, name) in servers {
        let now = Clock::System.now_ms() + day * 86_400_000;
        let clock = Clock::Manual(Arc::new(AtomicI64::new(now)));
        let record = fixture.host(name).await;
        let issuer = fixture.built(limited(), clock.clone()).await;
        let obtained = visit(&issuer, name, Some(&record)).await;
        assert!(matches!(obtained, Obtained::Stored), "{day}: {obtained:?}");
        let due = fixture.lineage(name).await.unwrap().due.unwrap();
        assert!(due > fixture.now(), "{day}");
    }
    // Their use of the limits holds no server up whose clock is right.
    let issuer = fixture.built(limited(), Clock::System).await;
    for name in ["b.one.example", "b.two.example"] {
        let record = fixture.host(name).await;
        let obtained = visit(&issuer, name, Some(&record)).await;
        assert!(matches!(obtained, Obtained::Stored), "{obtained:?}");
    }
}

#[tokio::test]
async fn a_setting_that_can_not_be_used_is_named() {
    let fixture = Fixture::start().await;
    let mut settings = fixture.settings();
    settings.cas[0].ca.root = Some("/nowhere/ca.pem".into());
    let sealer = fixture.sealer.clone();
    let challenges = sekisho_certs::Challenges::new(sealer.clone(), Clock::System);
    let error = Issuer::new(settings, sealer, Arc::new(challenges), Clock::System).unwrap_err();
    assert_eq!(error.key, "ca.pebble.ca");
}
