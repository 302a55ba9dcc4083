//! Tests with several CAs: the next one does what the first does not.

use sekisho_certs::{LineageName, Obtained};
use sekisho_issuance::acme::CaSettings;
use sekisho_issuance::settings::CaOptions;
use sekisho_testkit::services::{Pebble, PebbleOptions};
use sekisho_testkit::{Answer, Endpoint, Key, Speaks, TestCa};
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::fixture::{Fixture, metrics, pattern, visit};

/// Returns the options of another CA than the fixture's.
fn other(pebble: &Pebble) -> CaOptions {
    CaOptions::new(CaSettings {
        name: "other".into(),
        directory: pebble.directory(),
        root: Some(pebble.root()),
        deadline: CaSettings::DEADLINE,
    })
}

#[tokio::test]
async fn a_ca_that_refuses_the_account_is_passed_over() {
    let fixture = Fixture::start().await;
    let key = "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W";
    let strict = Pebble::start(&PebbleOptions {
        external_account: Some(("kid-1".into(), key.into())),
        ..PebbleOptions::default()
    });
    let issuer = fixture
        .issuer_with(|settings| settings.cas.insert(0, other(&strict)))
        .await;
    let record = fixture.host("a.example").await;
    let obtained = visit(&issuer, "a.example", Some(&record)).await;
    assert!(matches!(obtained, Obtained::Stored), "{obtained:?}");
    let shown = metrics(&issuer);
    for line in [
        r#"acme_ca_passed_over{ca="other"} 1"#,
        r#"acme_ca_passed_over{ca="pebble"} 0"#,
        r#"acme_attempts_total{outcome="issued"} 1"#,
        r#"acme_first_access_total{decision="allowed"} 1"#,
        "acme_orders_in_flight 0",
    ] {
        assert!(shown.contains(&format!("\n{line}\n")), "{line}: {shown}");
    }
}

#[tokio::test]
async fn where_caa_records_allow_only_the_second_ca_it_issues() {
    let fixture = Fixture::start().await;
    // Pebble does not look at CAA records.
    let authority = TestCa::new();
    let pair = authority.issue(&["127.0.0.1"], Key::P256);
    let endpoint = Endpoint::start(Speaks::Http2(&pair));
    let url = |name: &str| format!("https://{}/{name}", endpoint.address);
    let urls = ["newNonce", "newAccount", "newOrder"];
    let urls = urls.map(|name| format!(r#""{name}": "{}""#, url(name)));
    let directory = Answer::ok(format!("{{{}}}", urls.join(",")));
    let forbidden = Answer {
        body: r#"{"type": "urn:ietf:params:acme:error:caa", "detail": "forbidden"}"#.into(),
        ..Answer::status(403)
    };
    for (name, answer) in [
        ("dir", directory),
        ("newNonce", Answer::ok("")),
        (
            "newAccount",
            Answer::status(201).with("location", &url("account")),
        ),
        ("newOrder", forbidden),
    ] {
        let answer = answer.with("replay-nonce", "nonce");
        endpoint.put(&format!("/{name}"), answer);
    }
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("root.pem");
    std::fs::write(&root, authority.root_pem()).unwrap();
    let first = CaOptions::new(CaSettings {
        name: "first".into(),
        directory: url("dir"),
        root: Some(root),
        deadline: CaSettings::DEADLINE,
    });
    let issuer = fixture
        .issuer_with(|settings| settings.cas.insert(0, first))
        .await;
    let record = fixture.host("a.example").await;
    let obtained = visit(&issuer, "a.example", Some(&record)).await;
    assert!(matches!(obtained, Obtained::Stored), "{obtained:?}");
    assert_eq!(fixture.orders(), 1);
}

#[tokio::test]
async fn a_revocation_asks_cas_with_an_account_alone() {
    let fixture = Fixture::start().await;
    let unused = Pebble::start(&PebbleOptions::default());
    let issuer = fixture.issuer().await;
    let record = fixture.host("a.example").await;
    visit(&issuer, "a.example", Some(&record)).await;
    let lineage = fixture.lineage("a.example").await.unwrap();
    let id = lineage.credential.unwrap();
    let stored = fixture.catalog.credentials(&[id]).await.unwrap();
    let (_, leaf) = X509Certificate::from_der(&stored[0].chain[0]).unwrap();
    let serial = format!("{:x}", leaf.serial);

    let issuer = fixture
        .issuer_with(|settings| settings.cas.insert(0, other(&unused)))
        .await;
    let name = LineageName::from(&pattern("a.example"));
    issuer.revoke(&name, None, false).await.unwrap();
    let status = fixture.pebble.status(&serial).await;
    assert!(status.contains("Revoked"), "{status}");
    assert!(!unused.log().contains("account"), "{}", unused.log());
}
