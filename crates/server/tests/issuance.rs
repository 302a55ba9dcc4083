//! Tests what clients get while a certificate is obtained for their host.

#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::store::{bare, issuer};
use common::{LIMITS, Running, Scripted, Setup, alert, host, start, status};
use sekisho_certs::{Found, Obtained, OpenKey};
use sekisho_server::{CertificateWaits, Limits};
use sekisho_testkit::{Issuer, Key, TestCa, client};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinHandle;
use tokio::time::timeout;

const SEES: &str = "HTTP/1.1 308 Permanent Redirect";

/// Server whose issuance stores a certificate for each host below `w.example` once
/// it is released.
struct Fixture {
    running: Running,
    issuer: Arc<Issuer>,
    ca: TestCa,
}

impl Fixture {
    fn new(limits: Limits, hosts: impl IntoIterator<Item = Found<OpenKey>>) -> Self {
        let ca = TestCa::new();
        let store = Arc::new(Scripted::new(hosts));
        let cold = ca.issue(&["cold.example"], Key::P256);
        store.put(host("cold.example", &[(&cold, Key::P256)]));
        let pair = ca.issue(&["*.w.example"], Key::P256);
        store.put(host("known.w.example", &[(&pair, Key::P256)]));
        let issuer = issuer(&store, pair);
        let mut setup = Setup::limits(limits);
        setup.obtain = issuer.clone();
        Self {
            running: start(store, &setup),
            issuer,
            ca,
        }
    }

    /// Begins a handshake and a request; returns the status or the error.
    fn visit(&self, name: &str) -> JoinHandle<String> {
        let (address, config) = (self.running.address, client::config(&self.ca));
        let name = name.to_owned();
        tokio::spawn(async move {
            match client::fetch(address, &name, "/", config).await {
                Ok(answer) => answer.lines().next().unwrap_or_default().to_owned(),
                Err(error) => error.to_string(),
            }
        })
    }

    /// Waits until no load is in flight.
    async fn loads_end(&self) {
        while self.running.lookup.stats().in_flight > 0 {
            tokio::task::yield_now().await;
        }
    }

    /// Waits until this many handshakes and requests wait for a certificate.
    async fn waiting(&self, count: u64) {
        let waiting = async {
            while self.running.metrics.certificate_waits() != count {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(Duration::from_secs(30), waiting).await.unwrap();
    }
}

fn waiting(waiting: usize) -> Limits {
    Limits {
        certificates: CertificateWaits {
            waiting,
            ..LIMITS.certificates
        },
        ..LIMITS
    }
}

#[tokio::test]
async fn hosts_that_wait_for_certificates_stop_no_cold_host() {
    assert_eq!(LIMITS.loads, 256);
    let names: Vec<_> = (0..300)
        .map(|number| format!("h{number}.w.example"))
        .collect();
    let fixture = Fixture::new(LIMITS, names.iter().map(|name| bare(name, "customer")));
    let visits: Vec<_> = names.iter().map(|name| fixture.visit(name)).collect();
    fixture.waiting(300).await;
    assert_eq!(fixture.issuer.calls(), 300);
    assert_eq!(fixture.visit("cold.example").await.unwrap(), SEES);
    fixture.waiting(300).await;
    fixture.issuer.release(300);
    for visit in visits {
        assert_eq!(visit.await.unwrap(), SEES);
    }
    fixture.waiting(0).await;
}

#[tokio::test]
async fn beyond_the_places_clients_are_refused_and_orders_go_on() {
    let names = ["a.w.example", "b.w.example", "c.w.example", "d.w.example"];
    let fixture = Fixture::new(waiting(3), names.map(|name| bare(name, "customer")));
    let visits: Vec<_> = names[..3].iter().map(|name| fixture.visit(name)).collect();
    fixture.waiting(3).await;
    let seen = alert(&fixture.running, names[3], client::config(&fixture.ca)).await;
    assert!(seen.contains("InternalError"), "{seen}");
    fixture.issuer.release(4);
    for visit in visits {
        assert_eq!(visit.await.unwrap(), SEES);
    }
    fixture.loads_end().await;
    let calls = (fixture.running.store.calls(), fixture.issuer.calls());
    assert_eq!(calls, (8, 4), "two reads and one order each");
    let seen = status(&fixture.running, names[3], client::config(&fixture.ca)).await;
    assert_eq!(seen.unwrap(), SEES);
    assert_eq!(fixture.running.store.calls(), 8, "the result is cached");
}

#[tokio::test]
async fn a_tenant_with_all_places_makes_room_for_another() {
    let names = ["a.w.example", "b.w.example", "c.w.example"];
    let hosts = names.map(|name| bare(name, "large"));
    let hosts = hosts.into_iter().chain([bare("d.w.example", "small")]);
    let fixture = Fixture::new(waiting(3), hosts);
    let large = names.map(|name| fixture.visit(name));
    fixture.waiting(3).await;
    let small = fixture.visit("d.w.example");
    // The large tenant's newest handshake ends.
    let refused = async {
        while !large.iter().any(JoinHandle::is_finished) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(Duration::from_secs(30), refused).await.unwrap();
    fixture.waiting(3).await;
    fixture.issuer.release(4);
    assert_eq!(small.await.unwrap(), SEES);
    let mut seen = Vec::new();
    for visit in large {
        seen.push(visit.await.unwrap());
    }
    seen.sort();
    assert!(seen.pop().unwrap().contains("InternalError"), "{seen:?}");
    assert_eq!(seen, [SEES, SEES]);
}

/// Lets the time of a handshake pass: one that waits for the store ends.
async fn handshake_passes(fixture: &Fixture) {
    fixture.running.store.hold();
    let seen = fixture.visit("cold.example").await.unwrap();
    assert!(seen.contains("InternalError"), "{seen}");
    fixture.running.store.unhold();
}

#[tokio::test]
async fn a_certificate_is_waited_for_longer_than_the_store() {
    let limits = Limits {
        handshake: Duration::from_secs(2),
        ..LIMITS
    };
    let hosts = ["a.w.example", "b.w.example"].map(|name| bare(name, ""));
    let fixture = Fixture::new(limits, hosts);
    let config = client::config(&fixture.ca);
    let stream = client::connect(fixture.running.address, "known.w.example", config).await;
    let mut stream = stream.unwrap();
    let request = b"GET / HTTP/1.1\r\nHost: b.w.example\r\nConnection: close\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let visit = fixture.visit("a.w.example");
    fixture.waiting(2).await;
    handshake_passes(&fixture).await;
    fixture.waiting(2).await;
    fixture.issuer.release(2);
    assert_eq!(visit.await.unwrap(), SEES);
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with(SEES), "{answer}");
}

#[tokio::test]
async fn a_late_certificate_is_an_error_and_its_order_goes_on() {
    let mut limits = waiting(3);
    limits.certificates.time = Duration::from_millis(500);
    let fixture = Fixture::new(limits, [bare("a.w.example", "")]);
    let seen = fixture.visit("a.w.example").await.unwrap();
    assert!(seen.contains("InternalError"), "{seen}");
    fixture.issuer.release(1);
    fixture.loads_end().await;
    assert_eq!(fixture.visit("a.w.example").await.unwrap(), SEES);
    assert_eq!(fixture.issuer.calls(), 1);
}

#[tokio::test]
async fn refused_and_failed_issuance_have_alerts_of_their_own() {
    for (answer, alerted) in [
        (
            Obtained::Refused {
                retry_after: Some(Duration::from_secs(60)),
            },
            "UnrecognisedName",
        ),
        (
            Obtained::Failed {
                why: "the test says so".into(),
                retry_after: Duration::from_secs(60),
            },
            "InternalError",
        ),
    ] {
        let issuer = Arc::new(Issuer::new(move |_, _| answer.clone()));
        let setup = Setup {
            obtain: issuer.clone(),
            ..Setup::default()
        };
        let running = start(Scripted::new([bare("a.w.example", "")]), &setup);
        let config = client::config(&TestCa::new());
        for _ in 0..3 {
            let seen = alert(&running, "a.w.example", config.clone()).await;
            assert!(seen.contains(alerted), "{seen}");
        }
        assert_eq!((running.store.calls(), issuer.calls()), (1, 1));
    }
}
