//! What becomes of a failure once its cause is gone.

use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::time::{Duration, Instant};

use sekisho_certs::store::Write;
use sekisho_certs::{Clock, Fence, LastError, Lineage, Obtained};
use sekisho_issuance::admission::FirstAccess;
use sekisho_issuance::settings::Settings;
use sekisho_testkit::services::PebbleOptions;
use sekisho_testkit::{Answer, Cut, Endpoint, Proxy, Speaks};

use crate::fixture::{Fixture, eventually, nobody, pattern, visit};

#[tokio::test]
async fn a_first_visitor_is_served_once_the_ca_works_again() {
    // A pause of the CA is 5 s then, in place of 10 s.
    let options = PebbleOptions {
        profiles: vec![("short".into(), 120)],
        ..PebbleOptions::default()
    };
    let fixture = Fixture::with(options).await;
    let proxy = Proxy::before(port_of(&fixture.pebble.directory()));
    let through = format!("https://127.0.0.1:{}/dir", proxy.port());
    let issuer = fixture
        .issuer_with(|settings| settings.cas[0].ca.directory = through)
        .await;
    let short = fixture.issued(&issuer, "short.example").await;
    issuer.issue(&short).await.unwrap();
    let record = fixture.host("a.example").await;
    proxy.cut(Cut::Reset);
    let begun = Instant::now();
    let visitor = tokio::spawn({
        let (issuer, record) = (Arc::clone(&issuer), record.clone());
        async move { visit(&issuer, "a.example", Some(&record)).await }
    });
    eventually(async || {
        let lineage = fixture.lineage("a.example").await;
        lineage.is_some_and(|lineage| lineage.last_error.is_some())
    })
    .await;
    proxy.open();
    // So is who comes later: the CA is passed over, and the row is not due.
    let later = visit(&issuer, "a.example", Some(&record)).await;
    assert!(matches!(later, Obtained::Stored), "{later:?}");
    let obtained = visitor.await.unwrap();
    assert!(matches!(obtained, Obtained::Stored), "{obtained:?}");
    assert!(
        begun.elapsed() < Duration::from_secs(20),
        "within `handshake_timeout`"
    );
    let lineage = fixture.lineage("a.example").await.unwrap();
    assert_eq!((lineage.attempts, lineage.last_error), (0, None));
}

#[tokio::test]
async fn a_failed_renewal_by_hand_is_made_by_a_server() {
    let fixture = Fixture::start().await;
    let name = fixture.issued(&fixture.issuer().await, "a.example").await;
    let first = fixture.stored("a.example").await;
    let failed = down(&fixture).await.issue(&name).await.unwrap_err();
    assert!(failed.next.is_some(), "{failed:?}");
    assert_eq!(fixture.lineage("a.example").await.unwrap().attempts, 1);
    fixture.make_due("a.example").await;
    let renewing = tokio::spawn(Arc::clone(&fixture.issuer().await).renew_due());
    eventually(async || fixture.stored("a.example").await.chain != first.chain).await;
    renewing.abort();
    let lineage = fixture.lineage("a.example").await.unwrap();
    assert_eq!((lineage.attempts, lineage.last_error), (0, None));
    assert_eq!(fixture.orders(), 2);
}

#[tokio::test]
async fn what_is_not_due_fails_no_more() {
    let fixture = Fixture::start().await;
    let issuer = fixture.issuer().await;
    fixture.issued(&issuer, "a.example").await;
    fail(&fixture, "a.example", Some(0)).await;
    let renewing = tokio::spawn(Arc::clone(&issuer).renew_due());
    eventually(async || fixture.lineage("a.example").await.unwrap().due > Some(0)).await;
    renewing.abort();
    let lineage = fixture.lineage("a.example").await.unwrap();
    assert_eq!((lineage.attempts, lineage.last_error), (0, None));
    assert_eq!(fixture.orders(), 1, "it was not renewed");
}

#[tokio::test]
async fn a_revoked_certificate_fails_no_more() {
    let fixture = Fixture::start().await;
    let issuer = fixture.issuer().await;
    let name = fixture.issued(&issuer, "a.example").await;
    fail(&fixture, "a.example", None).await;
    issuer.revoke(&name, None, false).await.unwrap();
    let lineage = fixture.lineage("a.example").await.unwrap();
    assert_eq!((lineage.attempts, lineage.last_error), (0, None));
    assert_eq!((lineage.due, lineage.claim), (None, None));
}

#[tokio::test]
async fn a_revocation_that_fails_holds_nobody_up() {
    let fixture = Fixture::start().await;
    let issuer = fixture.issuer().await;
    let name = fixture.issued(&issuer, "a.example").await;
    let before = fixture.lineage("a.example").await.unwrap();
    let failed = down(&fixture).await.revoke(&name, None, false).await;
    let why = failed.unwrap_err().why;
    assert!(why.contains("no account"), "{why}");
    assert_eq!(fixture.lineage("a.example").await.unwrap(), before);
    issuer.revoke(&name, None, false).await.unwrap();
}

#[tokio::test]
async fn a_key_whose_revocation_may_have_been_answered_is_not_used_again() {
    let fixture = Fixture::start().await;
    // Pebble revokes, and its answer is lost.
    let proxy = fixture
        .pebble
        .proxy(|path, status| !(path.contains("revoke") && status.is_some()));
    let through = format!("https://127.0.0.1:{}/dir", proxy.port());
    let issuer = fixture
        .issuer_with(|settings| {
            settings.reuse_key = true;
            settings.cas[0].ca.directory = through;
            settings.cas[0].ca.deadline = Duration::from_secs(3);
        })
        .await;
    let name = fixture.issued(&issuer, "a.example").await;
    let key = async || {
        let leaf = fixture.stored("a.example").await.chain.remove(0);
        crate::renewal::public_key(&leaf)
    };
    let first = key().await;
    issuer.revoke(&name, None, false).await.unwrap_err();
    let lineage = fixture.lineage("a.example").await.unwrap();
    assert!(lineage.claim.is_none(), "{lineage:?}");
    issuer.issue(&name).await.unwrap();
    assert_ne!(key().await, first);
}

#[tokio::test]
async fn a_clock_that_is_wrong_puts_nothing_off_for_others() {
    let fixture = Fixture::start().await;
    let tenant = fixture.host("a.example").await.tenant;
    let new = Lineage::new(tenant, [pattern("a.example")]).unwrap();
    for days in [-60, 60] {
        let now = Clock::System.now_ms() + days * 86_400_000;
        let mut settings = fixture.settings();
        unreachable(&mut settings);
        let clock = Clock::Manual(Arc::new(AtomicI64::new(now)));
        let issuer = fixture.built(settings, clock).await;
        issuer.add(new.clone()).await.unwrap();
        issuer.issue(&new.name).await.unwrap_err();
        let lineage = fixture.lineage("a.example").await.unwrap();
        let pause = lineage.due.unwrap() - fixture.now();
        assert!((5..30).contains(&pause), "{days}: {pause}");
        let failed = lineage.last_error.unwrap().at - fixture.now();
        assert!((-2..=2).contains(&failed), "{days}: {failed}");
    }
}

#[tokio::test]
async fn a_name_that_was_only_asked_for_is_forgotten_after_three_failures() {
    let options = PebbleOptions {
        http_port: Some(nobody().port()),
        ..PebbleOptions::default()
    };
    let fixture = Fixture::with(options).await;
    let endpoint = Endpoint::start(Speaks::Plain);
    endpoint.otherwise(Answer::ok(""));
    let url = format!("http://{}/check", endpoint.address);
    let issuer = fixture
        .issuer_with(|settings| {
            settings.admission.first_access = FirstAccess::Ask;
            settings.admission.ask = Some(url);
        })
        .await;
    let obtained = visit(&issuer, "new.example", None).await;
    assert!(matches!(obtained, Obtained::Failed { .. }), "{obtained:?}");
    let renewing = tokio::spawn(Arc::clone(&issuer).renew_due());
    for attempts in [1, 2] {
        eventually(async || {
            let lineage = fixture.lineage("new.example").await.unwrap();
            lineage.attempts == attempts && lineage.claim.is_none()
        })
        .await;
        fixture.make_due("new.example").await;
    }
    eventually(async || fixture.lineage("new.example").await.is_none()).await;
    renewing.abort();
    assert_eq!(fixture.orders(), 3);
}

/// Makes a lineage one whose last attempt has failed.
async fn fail(fixture: &Fixture, name: &str, due: Option<i64>) {
    let mut lineage = fixture.lineage(name).await.unwrap();
    lineage.attempts = 2;
    let text = "no way".into();
    lineage.last_error = Some(LastError { at: 7, text });
    lineage.due = due;
    let put = Write::PutLineage(lineage, Fence::Any);
    fixture.sealer.write(vec![put]).await.unwrap();
}

/// Starts a server that reaches no CA.
async fn down(fixture: &Fixture) -> Arc<sekisho_issuance::issuer::Issuer> {
    fixture.issuer_with(unreachable).await
}

fn unreachable(settings: &mut Settings) {
    settings.cas[0].ca.directory = format!("https://{}/dir", nobody());
}

fn port_of(directory: &str) -> u16 {
    let port = directory
        .rsplit(':')
        .next()
        .and_then(|rest| rest.split('/').next());
    port.and_then(|port| port.parse().ok()).expect("a port")
}
