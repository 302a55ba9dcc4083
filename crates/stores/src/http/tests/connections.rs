//! How many connections there are, and how they come back.

use std::sync::Arc;
use std::time::Duration;

use sekisho_testkit::{Answer as Says, Endpoint, Key, Speaks, TestCa};

use super::rig::{HASTY, Rig, bundle, find};
use crate::Options;
use sekisho_certs::host::HostName;
use sekisho_certs::store::{Answer, Store, StoreError};

#[tokio::test]
async fn connections_are_kept() {
    for http2 in [false, true] {
        let rig = Rig::new(http2);
        rig.put("a.example");
        for _ in 0..20 {
            rig.found("a.example").await;
            assert!(rig.absent("b.example").await);
        }
        // The first two requests open one each. Over HTTP/1.1 both stay, beside
        // what a wildcard needs that nobody waited for.
        let most = if http2 { 2 } else { 4 };
        let opened = rig.endpoint.connections();
        assert!(opened <= most, "{opened} connections, HTTP/2: {http2}");
        let wanted = if http2 {
            http::Version::HTTP_2
        } else {
            http::Version::HTTP_11
        };
        assert!(
            rig.endpoint
                .asked()
                .iter()
                .all(|asked| asked.version == wanted)
        );
    }
}

/// The name and its wildcard are one round trip.
#[tokio::test]
async fn both_requests_are_under_way_together() {
    for http2 in [false, true] {
        let rig = Rig::new(http2);
        rig.endpoint
            .otherwise(Says::status(404).after(Duration::from_millis(500)));
        assert!(rig.absent("a.example").await);
        assert_eq!(rig.endpoint.most_in_flight(), 2);
    }
}

#[tokio::test]
async fn a_slow_wildcard_holds_nothing_up() {
    let rig = Rig::new(false);
    rig.put("a.example");
    rig.says(
        "_.example",
        Says::status(404).after(Duration::from_secs(600)),
    );
    rig.found("a.example").await;
}

/// Nor is what others use given up with it, whatever the name's own answer is.
#[tokio::test]
async fn a_host_that_fails_costs_no_connection() {
    let rig = Rig::new(true);
    let slow = Says::status(404).after(Duration::from_millis(50));
    rig.says("_.example", slow);
    assert!(rig.absent("first.example").await);
    let opened = rig.endpoint.connections();
    for status in [200, 403, 500, 403] {
        rig.says("a.example", Says::status(status));
        rig.failed("a.example").await;
        assert_eq!(rig.endpoint.connections(), opened, "{status}");
    }
}

#[tokio::test]
async fn connections_are_bounded() {
    for http2 in [false, true] {
        let rig = Arc::new(Rig::with(http2, Duration::from_secs(20)));
        // Before the first answer the client does not know that one will do.
        assert!(rig.absent("first.example").await);
        rig.endpoint
            .otherwise(Says::status(404).after(Duration::from_millis(10)));
        let finds = (0..300).map(|number| {
            let rig = Arc::clone(&rig);
            tokio::spawn(async move { rig.absent(&format!("h{number}.example")).await })
        });
        for find in finds.collect::<Vec<_>>() {
            assert!(find.await.unwrap());
        }
        // Up to 64 that work, and as many that are kept.
        let most = if http2 { 2 } else { 128 };
        let open = rig.endpoint.most_open();
        assert!(open <= most, "{open}, HTTP/2: {http2}");
        assert!(rig.endpoint.most_in_flight() <= 64);
    }
}

#[tokio::test]
async fn a_lost_connection_is_replaced_at_once() {
    for http2 in [false, true] {
        let mut rig = Rig::new(http2);
        let pair = rig.put("a.example");
        rig.found("a.example").await;
        let address = rig.endpoint.address;
        let speaks = |server| match http2 {
            true => Speaks::Http2(server),
            false => Speaks::Http1(server),
        };
        // Everything that was open breaks.
        let elsewhere = Endpoint::start(Speaks::Plain);
        drop(std::mem::replace(&mut rig.endpoint, elsewhere));
        rig.endpoint = Endpoint::start_at(address, speaks(&rig.server));
        rig.endpoint.put("/a.example", Says::ok(bundle(&pair)));
        rig.found("a.example").await;
    }
}

#[tokio::test]
async fn an_endpoint_that_comes_later_is_found() {
    let mut rig = Rig::with(true, HASTY);
    let address = rig.endpoint.address;
    drop(std::mem::replace(
        &mut rig.endpoint,
        Endpoint::start(Speaks::Plain),
    ));
    let error = rig.failed("a.example").await;
    let text = error.to_string();
    assert!(matches!(error, StoreError::Unavailable(_)), "{text}");
    let wanted = format!("https://{address}/a.example: no connection: ");
    assert!(text.contains(&wanted) && text.contains("refused"), "{text}");
    rig.endpoint = Endpoint::start_at(address, Speaks::Http2(&rig.server));
    rig.put("a.example");
    rig.found("a.example").await;
}

#[tokio::test]
async fn only_the_right_certificate_is_believed() {
    let rig = Rig::new(true);
    let stranger = TestCa::new().issue(&["127.0.0.1"], Key::P256);
    let other_name = rig.ca.issue(&["certs.example"], Key::P256);
    let dates = ((2019, 1, 1), (2020, 1, 1));
    let old = rig
        .ca
        .issue_valid(&["127.0.0.1"], Key::P256, dates.0, dates.1);
    for (pair, says) in [
        // Of the same name as the one that is believed.
        (&stranger, "BadSignature"),
        (&other_name, "not valid for name"),
        (&old, "expired"),
    ] {
        let endpoint = Endpoint::start(Speaks::Http2(pair));
        let url = format!("https://{}/{{host}}", endpoint.address);
        let store = rig.store(&url, &Options::default(), HASTY).unwrap();
        let error = find(&store, "a.example").await.unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, StoreError::Unavailable(_)), "{text}");
        assert!(
            text.contains("no connection: ") && text.contains(says),
            "{text}"
        );
        assert!(endpoint.asked().is_empty());
    }
    // The system's roots do not hold the test's root.
    let url = format!("https://{}/{{host}}", rig.endpoint.address);
    let runtime = tokio::runtime::Handle::current();
    let system = super::super::Http::new(url.parse().unwrap(), &Options::default(), HASTY, runtime);
    let error = find(&system.unwrap(), "a.example").await.unwrap_err();
    assert!(error.to_string().contains("UnknownIssuer"), "{error}");
}

/// No future of a call depends on the runtime that polls it: one without
/// timers and sockets will do.
#[test]
fn any_executor_can_poll_a_call() {
    let background = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let rig = background.block_on(async { Rig::new(true) });
    rig.put("a.example");
    let name = HostName::parse("a.example").unwrap();
    let bare = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let found = bare.block_on(rig.store.find(&name));
    assert!(
        matches!(found, Ok(Answer { found: Some(_), .. })),
        "{found:?}"
    );
    drop(background);
    let ended = bare.block_on(rig.store.find(&name));
    assert!(
        matches!(ended, Err(StoreError::Unavailable(_))),
        "{ended:?}"
    );
}
