//! Client certificates towards upstreams: whose, and where they come from.

use std::sync::Arc;

use sekisho_certs::Obtained;
use sekisho_testkit::{Issuer, Key, TestCa};

use crate::common::store::bare;
use crate::common::{LIMITS, Setup};
use crate::tls::{NAME, Secure, json};
use crate::world::{HOST, World, status};

const HOLDER: &str = "holder.example";

/// Starts an upstream that demands client certificates of `clients`, and returns it
/// with the document of a site that shows the holder's.
async fn upstream(clients: &TestCa) -> (Secure, String) {
    let ca = TestCa::new();
    let pair = ca.issue(&[NAME], Key::P256);
    let upstream = Secure::bind(&pair, Some(clients), b"http/1.1").await;
    let pem = json(&ca.root_pem());
    let tls = format!(r#""name": "{NAME}", "ca": {pem}, "certificate_of": "{HOLDER}""#);
    let site = upstream.site(&tls);
    (upstream, site)
}

#[tokio::test]
async fn the_certificate_of_another_tenants_host_is_refused() {
    let clients = TestCa::new();
    let (upstream, site) = upstream(&clients).await;
    let sites = [
        (HOST, "acme", &*site),
        (HOLDER, "other", r#"{"redirect": "https://c.example/"}"#),
    ];
    let world = World::shared(clients, &sites);
    for _ in 0..2 {
        assert_eq!(world.get(HOST).await.0, 502);
    }
    assert!(upstream.is_alone());
}

#[tokio::test]
async fn no_certificate_is_obtained_for_an_upstream() {
    let clients = TestCa::new();
    let (upstream, site) = upstream(&clients).await;
    let issuer = Issuer::new(|_, _| Obtained::Refused { retry_after: None });
    let issuer = Arc::new(issuer);
    let setup = Setup {
        obtain: Arc::clone(&issuer) as _,
        ..Setup::limits(LIMITS)
    };
    let world = World::of_setup(setup, &[(HOST, &site)]);
    world.running.store.put(bare(HOLDER, "acme"));
    assert_eq!(world.get(HOST).await.0, 502);
    assert_eq!(issuer.calls(), 0);
    // An absence is remembered for a while.
    let calls = world.running.store.calls();
    assert_eq!(world.get(HOST).await.0, 502);
    assert_eq!(world.running.store.calls(), calls);
    assert!(upstream.is_alone());
}

#[tokio::test]
async fn a_store_that_fails_leaves_no_host_absent() {
    let clients = TestCa::new();
    let (upstream, site) = upstream(&clients).await;
    let sites = [
        (HOST, "acme", &*site),
        (HOLDER, "acme", r#"{"redirect": "https://c.example/"}"#),
    ];
    let world = World::shared(clients, &sites);
    let mut client = world.connect().await;
    let get = format!("GET / HTTP/1.1\r\nHost: {HOST}\r\n\r\n");
    world.running.store.fail(true);
    client.send(&get).await;
    assert_eq!(status(&client.answer().await.0), 503);
    world.running.store.fail(false);
    client.send(&get).await;
    let (answer, served) = tokio::join!(client.answer(), upstream.serve());
    assert_eq!(status(&answer.0), 200);
    assert!(served.is_some());
}
