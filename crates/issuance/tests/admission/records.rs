//! Conditions that need no network.

use std::future::Future;

use super::fixture::*;
use sekisho_certs::HostPattern;
use sekisho_issuance::admission::{Admission, Decision, FirstAccess, Settings};

fn admission(first_access: FirstAccess) -> Admission {
    let settings = Settings {
        first_access,
        ..Settings::default()
    };
    Admission::new(settings).unwrap()
}

#[tokio::test]
async fn a_name_with_a_record_is_allowed_for_its_tenant() {
    let admission = admission(FirstAccess::Hosts);
    let Decision::Allowed(allowed) = decide(&admission, "www.example.com").await else {
        panic!("it has a record");
    };
    assert_eq!(allowed.pattern.as_str(), "www.example.com");
    assert_eq!(allowed.tenant.as_str(), "acme");
    let decision = decide_unknown(&admission, "other.example").await;
    assert_eq!(refused(&decision), ("other.example has no record", None));
}

#[tokio::test]
async fn nothing_is_ordered_on_first_access_if_that_is_off() {
    let decision = decide(&admission(FirstAccess::Off), "www.example.com").await;
    assert_eq!(refused(&decision), ("first_access is off", None));
}

#[tokio::test]
async fn below_a_wildcard_record_the_wildcard_is_ordered() {
    let admission = admission(FirstAccess::Hosts);
    let wildcard = record("*.example.com", "acme");
    for host in ["a.example.com", "b.example.com"] {
        let decision = admission.decide(&name(host), Some(&wildcard), &[]).await;
        let Decision::Allowed(allowed) = decision else {
            panic!("{decision:?}");
        };
        assert_eq!(allowed.pattern, wildcard.pattern);
    }
}

#[tokio::test]
async fn what_no_ca_issues_for_is_refused_for_good() {
    let endpoint = endpoint();
    endpoint.otherwise(sekisho_testkit::Answer::ok(""));
    let admission = Admission::new(asking(&endpoint)).unwrap();
    for host in ["co.uk", "a_b.example.com"] {
        let decision = decide(&admission, host).await;
        assert_eq!(refused(&decision).1, None, "{host}");
        let decision = decide_unknown(&admission, host).await;
        assert_eq!(refused(&decision).1, None, "{host}");
    }
    let wildcard = record("*.co.uk", "acme");
    let host = name("any.co.uk");
    let decision = admission.decide(&host, Some(&wildcard), &[]).await;
    assert_eq!(refused(&decision), ("co.uk is a public suffix", None));
    assert!(endpoint.asked().is_empty());
}

#[tokio::test]
async fn the_operator_s_lists_outweigh_a_record() {
    let settings = Settings {
        allow: vec![HostPattern::parse("*.example.com").unwrap()],
        deny: vec![HostPattern::parse("bad.example.com").unwrap()],
        ..Settings::default()
    };
    let admission = Admission::new(settings).unwrap();
    assert!(is_allowed(&decide(&admission, "good.example.com").await));
    for host in ["bad.example.com", "example.com"] {
        assert_eq!(refused(&decide(&admission, host).await).1, None, "{host}");
    }
}

#[tokio::test]
async fn ten_thousand_names_without_a_record_ask_nobody() {
    let endpoint = endpoint();
    let settings = Settings {
        first_access: FirstAccess::Hosts,
        ..asking(&endpoint)
    };
    let admission = Admission::new(settings).unwrap();
    for number in 0..10_000 {
        let decision = decide_unknown(&admission, &format!("{number}.example")).await;
        assert_eq!(refused(&decision).1, None);
    }
    assert!(endpoint.asked().is_empty());
    assert!(format!("{admission:?}").contains("answers: 0"));
}

#[test]
fn a_decision_may_move_between_threads() {
    fn moves(_: impl Future + Send) {}
    let admission = admission(FirstAccess::Hosts);
    moves(admission.decide(&name("example.com"), None, &[]));
}
