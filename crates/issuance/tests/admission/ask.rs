//! The condition `ask`.

use std::net::{Ipv4Addr, TcpListener};
use std::time::Duration;

use sekisho_issuance::admission::{Admission, Decision, FirstAccess, Settings};
use sekisho_testkit::{Answer, Endpoint, Speaks};

use super::fixture::*;

fn target(name: &str) -> String {
    format!("/check?domain={name}")
}

#[track_caller]
fn tenant(decision: &Decision) -> &str {
    match decision {
        Decision::Allowed(allowed) => allowed.tenant.as_str(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn the_endpoint_decides_for_names_without_a_record() {
    let endpoint = endpoint();
    let admission = Admission::new(asking(&endpoint)).unwrap();
    endpoint.put(&target("yes.example"), Answer::status(204));
    assert!(is_allowed(&decide_unknown(&admission, "yes.example").await));
    let decision = decide_unknown(&admission, "no.example").await;
    let (why, seconds) = refused(&decision);
    assert!(why.starts_with("ask: ") && why.contains("404"), "{why}");
    assert_eq!(seconds, Some(60));
    // A redirect is no answer: what it leads to was not configured.
    let elsewhere = Answer::status(302).with("location", &target("yes.example"));
    endpoint.put(&target("redirected.example"), elsewhere);
    endpoint.put(&target("broken.example"), Answer::status(500));
    for host in ["redirected.example", "broken.example"] {
        assert_eq!(
            failed(&decide_unknown(&admission, host).await).1,
            10,
            "{host}"
        );
    }
    assert_eq!(endpoint.asked().len(), 4);
}

#[tokio::test]
async fn a_record_is_not_enough_if_the_endpoint_says_no() {
    let endpoint = endpoint();
    let settings = Settings {
        first_access: FirstAccess::Hosts,
        ..asking(&endpoint)
    };
    let admission = Admission::new(settings).unwrap();
    endpoint.put(
        &target("yes.example"),
        Answer::ok("").with("sekisho-tenant", "other"),
    );
    // The record's tenant stands.
    assert_eq!(tenant(&decide(&admission, "yes.example").await), "acme");
    assert_eq!(refused(&decide(&admission, "no.example").await).1, Some(60));
    // Names without a record are not even asked for.
    assert_eq!(
        refused(&decide_unknown(&admission, "unknown.example").await).1,
        None
    );
    assert_eq!(endpoint.asked().len(), 2);
}

#[tokio::test]
async fn a_wildcard_is_asked_for_once() {
    let endpoint = endpoint();
    endpoint.put(&target("*.example.com"), Answer::ok(""));
    let admission = Admission::new(asking(&endpoint)).unwrap();
    let wildcard = record("*.example.com", "acme");
    let (first, second) = (name("a.example.com"), name("b.example.com"));
    let (first, second) = tokio::join!(
        admission.decide(&first, Some(&wildcard), &[]),
        admission.decide(&second, Some(&wildcard), &[]),
    );
    assert!(is_allowed(&first) && is_allowed(&second));
    assert_eq!(endpoint.asked().len(), 1);
}

#[tokio::test]
async fn a_new_name_never_gets_the_operator_s_tenant() {
    let endpoint = endpoint();
    let admission = Admission::new(asking(&endpoint)).unwrap();
    for (host, field, expected) in [
        ("a.example.com", Some("customer 7"), "customer 7"),
        ("b.example.com", Some(""), "example.com"),
        ("c.example.com", Some("  "), "example.com"),
        ("d.example.co.uk", None, "example.co.uk"),
        ("e.bücher.example", None, "xn--bcher-kva.example"),
        ("f.github.io", None, "f.github.io"),
        ("g.example.com", Some("Bücher"), "Bücher"),
    ] {
        let answer = Answer::ok("");
        let answer = match field {
            Some(tenant) => answer.with("sekisho-tenant", tenant),
            None => answer,
        };
        endpoint.put(&target(name(host).as_str()), answer);
        let decision = decide_unknown(&admission, host).await;
        assert_eq!(tenant(&decision), expected, "{host}");
    }
    let long = "x".repeat(129);
    endpoint.put(
        &target("h.example.com"),
        Answer::ok("").with("sekisho-tenant", &long),
    );
    let decision = decide_unknown(&admission, "h.example.com").await;
    let (why, _) = failed(&decision);
    assert!(
        why.contains("sekisho-tenant") && why.contains("128 bytes"),
        "{why}"
    );
}

#[tokio::test]
async fn an_answer_is_remembered_until_its_end() {
    let endpoint = endpoint();
    let admission = Admission::new(asking(&endpoint)).unwrap();
    let ask = async || decide_unknown(&admission, "a.example").await;
    assert_eq!(refused(&ask().await).1, Some(60));
    endpoint.put(&target("a.example"), Answer::status(503));
    pass(50).await;
    assert_eq!(refused(&ask().await).1, Some(10));
    pass(10).await;
    assert_eq!(failed(&ask().await).1, 10);
    endpoint.put(&target("a.example"), Answer::ok(""));
    assert!(failed(&ask().await).1 <= 10);
    assert_eq!(endpoint.times(&target("a.example")), 2);
    pass(10).await;
    assert!(is_allowed(&ask().await));
    // Withdrawn, it is noticed a minute later.
    endpoint.put(&target("a.example"), Answer::status(403));
    assert!(is_allowed(&ask().await));
    pass(60).await;
    assert_eq!(refused(&ask().await).1, Some(60));
    assert_eq!(endpoint.times(&target("a.example")), 4);
}

#[tokio::test]
async fn an_endpoint_that_is_down_refuses_nobody() {
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let admission = Admission::new(asking_at(address)).unwrap();
    let decision = decide_unknown(&admission, "a.example").await;
    let (why, seconds) = failed(&decision);
    assert!(why.contains("no connection"), "{why}");
    assert_eq!(seconds, 10);
    let endpoint = Endpoint::start_at(address, Speaks::Plain);
    endpoint.put(&target("a.example"), Answer::ok(""));
    failed(&decide_unknown(&admission, "a.example").await);
    pass(10).await;
    assert!(is_allowed(&decide_unknown(&admission, "a.example").await));
}

#[tokio::test]
async fn an_endpoint_that_hangs_fails_at_the_deadline() {
    let endpoint = endpoint();
    endpoint.otherwise(Answer::ok("").after(Duration::from_secs(3600)));
    let admission = Admission::new(asking(&endpoint)).unwrap();
    tokio::time::pause();
    let begun = tokio::time::Instant::now();
    let decision = decide_unknown(&admission, "a.example").await;
    assert!(
        begun.elapsed() <= Duration::from_secs(6),
        "{:?}",
        begun.elapsed()
    );
    assert!(failed(&decision).0.starts_with("ask: "));
}

#[tokio::test]
async fn ten_thousand_random_names_hold_little_memory() {
    // Nothing listens there.
    let admission = Admission::new(asking_at((Ipv4Addr::LOCALHOST, 1).into())).unwrap();
    for number in 0..10_000 {
        let host = format!("{number}.{}.example", "a".repeat(60));
        failed(&decide_unknown(&admission, &host).await);
    }
    let shown = format!("{admission:?}");
    let (_, rest) = shown.split_once("bytes: ").unwrap();
    let bytes = rest.split(|c: char| !c.is_ascii_digit()).next().unwrap();
    let bytes: usize = bytes.parse().unwrap();
    assert!((1 << 20..=2 << 20).contains(&bytes), "{shown}");
}

#[test]
fn settings_that_can_not_be_used_are_named() {
    let refused = |settings| Admission::new(settings).unwrap_err().to_string();
    let settings = Settings {
        first_access: FirstAccess::Ask,
        ..Settings::default()
    };
    assert_eq!(refused(settings), "ask: first_access = \"ask\" needs a URL");
    let settings = Settings {
        ask: Some("ask.example/check".into()),
        ..Settings::default()
    };
    assert!(refused(settings).contains("ask.example/check"));
    let settings = Settings {
        ask: Some("https://ask.example/check".into()),
        ask_ca: Some("/nowhere/ca.pem".into()),
        ..Settings::default()
    };
    assert!(refused(settings).starts_with("ask_ca: /nowhere/ca.pem: "));
}
