use std::sync::Arc;
use std::sync::atomic::AtomicI64;

use sekisho_certs::store::{Precondition, Write};
use sekisho_certs::{Clock, Lineage, Obtained};
use sekisho_issuance::admission::FirstAccess;
use sekisho_testkit::contract::fixture::all_credentials;
use sekisho_testkit::services::PebbleOptions;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::fixture::{Fixture, nobody, pattern, visit};

#[tokio::test]
async fn the_first_visitor_gets_a_certificate() {
    let fixture = Fixture::start().await;
    let record = fixture.host("a.example").await;
    let issuer = fixture.issuer().await;
    let obtained = visit(&issuer, "a.example", Some(&record)).await;
    assert!(matches!(obtained, Obtained::Stored), "{obtained:?}");
    let record = fixture.record("a.example").await.unwrap();
    let lineage = fixture.lineage("a.example").await.unwrap();
    let credential = lineage.credential.unwrap();
    assert!(record.references.iter().any(|(_, id)| id == credential));
    assert_eq!(lineage.names, [pattern("a.example")]);
    assert!(lineage.due.unwrap() > Clock::System.now());
    assert!(lineage.claim.is_none() && lineage.order.is_none() && lineage.last_error.is_none());
    assert_eq!(fixture.orders(), 1);
}

#[tokio::test]
async fn visitors_of_all_servers_share_one_order() {
    let fixture = Fixture::start().await;
    let record = fixture.host("a.example").await;
    let servers = [fixture.issuer().await, fixture.issuer().await];
    let visits = (0..20).map(|n| visit(&servers[n % 2], "a.example", Some(&record)));
    for obtained in futures_util::future::join_all(visits).await {
        assert!(matches!(obtained, Obtained::Stored), "{obtained:?}");
    }
    assert_eq!(fixture.orders(), 1);
}

#[tokio::test]
async fn names_that_may_have_none_cost_nothing() {
    let fixture = Fixture::start().await;
    let issuer = fixture.issuer().await;
    let before = fixture.catalog.count_lineages().await.unwrap();
    let obtained = visit(&issuer, "unknown.example", None).await;
    assert!(
        matches!(obtained, Obtained::Refused { retry_after: None }),
        "{obtained:?}"
    );
    assert_eq!(fixture.catalog.count_lineages().await.unwrap(), before);
    assert_eq!(fixture.orders(), 0);
}

/// An operator who wonders why a host has no certificate looks at the host.
#[tokio::test]
async fn a_host_keeps_why_it_was_refused_until_it_is_admitted() {
    let fixture = Fixture::start().await;
    let issuer = fixture.issuer().await;
    let suffix = fixture.host("co.uk").await;
    let record = fixture.host("a.example").await;
    for deny in ["a.example", "*.example"] {
        let strict = fixture
            .issuer_with(|settings| settings.admission.deny = vec![pattern(deny)])
            .await;
        for _ in 0..2 {
            let obtained = visit(&strict, "a.example", Some(&record)).await;
            assert!(matches!(obtained, Obtained::Refused { .. }), "{obtained:?}");
        }
        let kept = fixture.lineage("a.example").await.unwrap();
        assert_eq!(
            kept.last_error.unwrap().text,
            "refused, a.example is denied"
        );
        assert!(kept.due.is_none() && kept.claim.is_none() && kept.credential.is_none());
    }
    let obtained = visit(&issuer, "co.uk", Some(&suffix)).await;
    assert!(matches!(obtained, Obtained::Refused { .. }), "{obtained:?}");
    let kept = fixture.lineage("co.uk").await.unwrap().last_error.unwrap();
    assert_eq!(kept.text, "refused, co.uk is a public suffix");
    assert_eq!(fixture.orders(), 0);
    let obtained = visit(&issuer, "a.example", Some(&record)).await;
    assert!(matches!(obtained, Obtained::Stored), "{obtained:?}");
    let lineage = fixture.lineage("a.example").await.unwrap();
    assert!(lineage.last_error.is_none() && lineage.credential.is_some());
}

#[tokio::test]
async fn a_failed_validation_is_kept_in_words_and_not_tried_at_once() {
    let options = PebbleOptions {
        http_port: Some(nobody().port()),
        ..PebbleOptions::default()
    };
    let fixture = Fixture::with(options).await;
    let record = fixture.host("a.example").await;
    let issuer = fixture.issuer().await;
    for _ in 0..3 {
        let obtained = visit(&issuer, "a.example", Some(&record)).await;
        let Obtained::Failed { why, retry_after } = obtained else {
            panic!("{obtained:?}");
        };
        assert!(why.contains("connection"), "{why}");
        assert!((50..80).contains(&retry_after.as_secs()), "{retry_after:?}");
    }
    let lineage = fixture.lineage("a.example").await.unwrap();
    assert_eq!(lineage.attempts, 1);
    assert!(lineage.last_error.unwrap().text.contains("connection"));
    assert!(
        fixture
            .record("a.example")
            .await
            .unwrap()
            .references
            .iter()
            .next()
            .is_none()
    );
    assert_eq!(fixture.orders(), 1);
}

/// Servers write and read due dates in the store's time, whatever their own clocks say.
#[tokio::test]
async fn a_server_with_a_wrong_clock_waits_as_long_as_the_others() {
    let options = PebbleOptions {
        http_port: Some(nobody().port()),
        ..PebbleOptions::default()
    };
    let fixture = Fixture::with(options).await;
    let now = Clock::System.now_ms();
    let ahead = Clock::Manual(Arc::new(AtomicI64::new(now + 120_000)));
    let right = fixture.issuer().await;
    let ahead = fixture.built(fixture.settings(), ahead).await;
    let hosts = [
        fixture.host("a.example").await,
        fixture.host("b.example").await,
    ];
    let names = ["a.example", "b.example"];
    // Each server learns the store's time with the first host, and then waits for both.
    for visits in [[(&right, 0), (&ahead, 1)], [(&right, 1), (&ahead, 0)]] {
        for (server, host) in visits {
            let obtained = visit(server, names[host], Some(&hosts[host])).await;
            let Obtained::Failed { why, retry_after } = obtained else {
                panic!("{obtained:?}");
            };
            assert!(why.contains("connection"), "{why}");
            assert!((40..80).contains(&retry_after.as_secs()), "{retry_after:?}");
        }
    }
    assert_eq!(fixture.orders(), 2);
}

#[tokio::test]
async fn a_host_that_is_removed_meanwhile_stays_so() {
    let fixture = Fixture::start().await;
    let record = fixture.host("a.example").await;
    let issuer = fixture.issuer().await;
    // The order begins with the record that the lookup has read; it is gone since.
    let remove = Write::RemoveHost(pattern("a.example"), Precondition::Any);
    fixture.sealer.write(vec![remove]).await.unwrap();
    let obtained = visit(&issuer, "a.example", Some(&record)).await;
    assert!(matches!(obtained, Obtained::Failed { .. }), "{obtained:?}");
    assert!(fixture.record("a.example").await.is_none());
    assert!(fixture.lineage("a.example").await.is_none());
    assert!(all_credentials(&*fixture.catalog).await.is_empty());
}

#[tokio::test]
async fn a_host_that_comes_back_is_served_with_what_is_there() {
    let fixture = Fixture::start().await;
    let record = fixture.host("a.example").await;
    let issuer = fixture.issuer().await;
    let [one, other] = ["a.example", "b.example"].map(pattern);
    fixture.host("b.example").await;
    let lineage = Lineage::new(record.tenant.clone(), [one, other]).unwrap();
    assert!(issuer.add(lineage.clone()).await.unwrap());
    issuer.issue(&lineage.name).await.unwrap();
    // The other host keeps the certificate in use.
    let remove = Write::RemoveHost(pattern("a.example"), Precondition::Any);
    fixture.sealer.write(vec![remove]).await.unwrap();
    let record = fixture.host("a.example").await;
    let obtained = visit(&issuer, "a.example", Some(&record)).await;
    assert!(matches!(obtained, Obtained::Stored), "{obtained:?}");
    let records = ["a.example", "b.example"].map(|name| fixture.record(name));
    let [one, other] = records;
    let references = (
        one.await.unwrap().references,
        other.await.unwrap().references,
    );
    assert_eq!(references.0, references.1);
    assert_eq!(fixture.orders(), 1);
}

#[tokio::test]
async fn a_name_that_the_ask_url_admits_gets_its_record_with_the_certificate() {
    let fixture = Fixture::start().await;
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("http://{}/check", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut head = [0; 1024];
        let read = stream.read(&mut head).await.unwrap();
        assert!(head[..read].starts_with(b"GET /check?domain=new.example "));
        let answer = b"HTTP/1.1 204 No Content\r\nsekisho-tenant: asked\r\n\r\n";
        stream.write_all(answer).await.unwrap();
    });
    let issuer = fixture
        .issuer_with(|settings| {
            settings.admission.first_access = FirstAccess::Ask;
            settings.admission.ask = Some(url);
        })
        .await;
    let obtained = visit(&issuer, "new.example", None).await;
    assert!(matches!(obtained, Obtained::Stored), "{obtained:?}");
    let record = fixture.record("new.example").await.unwrap();
    assert_eq!(record.tenant.as_str(), "asked");
    assert!(record.references.iter().next().is_some());
}
