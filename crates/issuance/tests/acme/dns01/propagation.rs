//! All authoritative servers have a record before the CA asks one of them.

use std::net::Ipv4Addr;
use std::time::Duration;

use sekisho_issuance::solver::dns01::{Check, Dns01, Fault, Waits};
use sekisho_testkit::services::{Knot, Zone};

use super::{SECRET, presented, rfc2136, settings, solver};

const FIRST: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const SECOND: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);
const KEY: (&str, &str, &str) = ("hmac-sha256", "acme", SECRET);
/// Both servers are primaries, so that a test decides when the second has a record.
const ZONE: Zone<'_> = Zone {
    name: "example.test",
    records: "@ NS ns1\n@ NS ns2\nns1 A 127.0.0.2\nns2 A 127.0.0.3",
    key: "acme",
};

#[tokio::test]
async fn a_record_is_awaited_on_every_server() {
    let first = Knot::start(FIRST, &[KEY], &[ZONE]);
    let port = Some(first.address().port());
    let second = Knot::start_at(SECOND, port, &[KEY], &[ZONE]);
    let key = format!("acme:{SECRET}");
    let bounded = |propagation| {
        let mut settings = settings(&first, rfc2136(first.address(), &key));
        settings.propagation = propagation;
        Dns01::new(settings, Waits::default())
    };
    let error = bounded(Duration::from_millis(500))
        .present(&presented("x"))
        .await;
    let error = error.unwrap_err();
    assert!(matches!(error.fault, Fault::Propagation(_)), "{error}");
    let text = error.to_string();
    let expected = "after 0.5 s, 1 of 2 authoritative servers have the record: \
                    ns2.example.test. lacks the record";
    assert!(text.ends_with(expected), "{text}");
    // The record that is there already does not end the wait before the second's.
    let (patient, other) = (bounded(super::PATIENCE), solver(&second));
    let record = presented("x");
    let on_both = async {
        let mut wait = std::pin::pin!(patient.present(&record));
        let early = tokio::time::timeout(Duration::from_millis(100), &mut wait).await;
        assert!(early.is_err(), "{early:?}");
        // Its own wait ends with the record on both.
        tokio::join!(wait, other.present(&record))
    };
    let (waited, written) = on_both.await;
    waited.unwrap();
    written.unwrap();
}

#[tokio::test]
async fn a_dead_server_is_left_out_if_another_has_the_record() {
    let first = Knot::start(FIRST, &[KEY], &[ZONE]);
    let key = format!("acme:{SECRET}");
    let mut settings = settings(&first, rfc2136(first.address(), &key));
    settings.propagation = Duration::from_millis(500);
    let solver = Dns01::new(settings.clone(), Waits::default());
    solver.present(&presented("x")).await.unwrap();
    // No server has it: nothing listens at this port.
    settings.port = 9;
    let mut named = settings.clone();
    named.check = Check::At(vec![first.address()]);
    let named = Dns01::new(named, Waits::default());
    named.present(&presented("x")).await.unwrap();
    let solver = Dns01::new(settings, Waits::default());
    let error = solver.present(&presented("x")).await.unwrap_err();
    assert!(
        matches!(&error.fault, Fault::Propagation(why) if why.contains("0 of 2")),
        "{error}"
    );
}
