//! The condition `addresses`.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hickory_proto::op::ResponseCode;
use hickory_proto::rr::rdata::{A, CNAME};
use hickory_proto::rr::{Name, RData, RecordType};
use sekisho_issuance::admission::{Admission, Settings};
use sekisho_testkit::services::{Pebble, PebbleOptions};

use super::fixture::*;
use super::nameserver::{self, Over, add};

fn leading_here(server: SocketAddr) -> Admission {
    let settings = Settings {
        addresses: vec![HERE.into(), "2001:db8::1".parse().unwrap()],
        ..resolving_by(server)
    };
    Admission::new(settings).unwrap()
}

fn cname(target: &str) -> RData {
    RData::CNAME(CNAME(Name::from_ascii(target).unwrap()))
}

#[tokio::test]
async fn a_name_leads_here_by_either_family_and_through_cnames() {
    let pebble = Pebble::start(&PebbleOptions::default());
    let dns = pebble.challenges();
    dns.set_address("v4.example", HERE);
    dns.set_address("v6.example", "2001:db8::1".parse::<Ipv6Addr>().unwrap());
    dns.set_cname("www.v4.example.", "v4.example.");
    dns.set_address("*.wild.example", HERE);
    let admission = leading_here(dns_of(&pebble));
    for host in ["v4.example", "v6.example", "www.v4.example"] {
        let decision = decide(&admission, host).await;
        assert!(is_allowed(&decision), "{host}: {decision:?}");
    }
    let wildcard = record("*.wild.example", "acme");
    let below = name("a.wild.example");
    assert!(is_allowed(
        &admission.decide(&below, Some(&wildcard), &[]).await
    ));
    let decision = decide(&admission, "elsewhere.example").await;
    let why = "addresses: elsewhere.example leads to 127.0.0.1, none of `addresses`";
    assert_eq!(refused(&decision), (why, Some(60)));
}

#[tokio::test]
async fn dns_that_is_corrected_counts_a_minute_later() {
    let pebble = Pebble::start(&PebbleOptions::default());
    let admission = leading_here(dns_of(&pebble));
    let decision = decide(&admission, "late.example").await;
    assert_eq!(refused(&decision).1, Some(60));
    pebble.challenges().set_address("late.example", HERE);
    pass(59).await;
    assert_eq!(
        refused(&decide(&admission, "late.example").await).1,
        Some(1)
    );
    pass(1).await;
    assert!(is_allowed(&decide(&admission, "late.example").await));
}

#[tokio::test]
async fn a_name_server_that_fails_refuses_nobody() {
    let pebble = Pebble::start(&PebbleOptions::default());
    let dns = pebble.challenges();
    dns.set_servfail("a.example.");
    let admission = leading_here(dns_of(&pebble));
    let decision = decide(&admission, "a.example").await;
    let (why, seconds) = failed(&decision);
    assert!(
        why.starts_with("addresses: A of a.example. from name server"),
        "{why}"
    );
    assert_eq!(seconds, 10);
    dns.clear_servfail("a.example.");
    dns.set_address("a.example", HERE);
    pass(10).await;
    assert!(is_allowed(&decide(&admission, "a.example").await));
}

#[tokio::test]
async fn a_name_server_that_hangs_fails_at_the_deadline() {
    // Bound, and never read.
    let silent = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let admission = leading_here(silent.local_addr().unwrap());
    tokio::time::pause();
    let begun = tokio::time::Instant::now();
    let decision = decide(&admission, "a.example").await;
    assert!(
        begun.elapsed() <= Duration::from_secs(6),
        "{:?}",
        begun.elapsed()
    );
    assert!(
        failed(&decision).0.contains("no answer within"),
        "{decision:?}"
    );
}

#[tokio::test]
async fn the_next_name_server_is_asked_if_one_fails() {
    let broken = nameserver::start(|_, _, answer| {
        answer.metadata.response_code = ResponseCode::ServFail;
    })
    .await;
    let works = nameserver::start(|question, _, answer| {
        if question.query_type == RecordType::A {
            add(answer, "a.example.", RData::A(A(HERE)));
        }
    })
    .await;
    let settings = Settings {
        addresses: vec![HERE.into()],
        resolvers: vec![broken, works],
        ..Settings::default()
    };
    let admission = Admission::new(settings).unwrap();
    assert!(is_allowed(&decide(&admission, "a.example").await));
}

#[tokio::test]
async fn one_family_decides_yes_but_not_no() {
    let server = nameserver::start(|question, _, answer| {
        if question.query_type == RecordType::AAAA {
            answer.metadata.response_code = ResponseCode::ServFail;
        } else if question.name.to_ascii() == "here.example." {
            add(answer, "here.example.", RData::A(A(HERE)));
        }
    })
    .await;
    let admission = leading_here(server);
    assert!(is_allowed(&decide(&admission, "here.example").await));
    assert_eq!(failed(&decide(&admission, "elsewhere.example").await).1, 10);
}

#[tokio::test]
async fn an_answer_that_was_cut_off_is_read_over_tcp() {
    let server = nameserver::start(|question, over, answer| {
        if over == Over::Udp {
            answer.metadata.truncation = true;
        } else if question.query_type == RecordType::A {
            for last in 2..=250 {
                add(
                    answer,
                    "a.example.",
                    RData::A(A(Ipv4Addr::new(192, 0, 2, last))),
                );
            }
            add(answer, "a.example.", RData::A(A(HERE)));
        }
    })
    .await;
    assert!(is_allowed(
        &decide(&leading_here(server), "a.example").await
    ));
}

#[tokio::test]
async fn eight_cnames_are_followed() {
    // Each answer holds one step: n8 leads to n7, and so on to n0.
    let server = nameserver::start(|question, _, answer| {
        let name = question.name.to_ascii();
        match name.trim_start_matches('n').split_once('.') {
            Some(("0", _)) if question.query_type == RecordType::A => {
                add(answer, &name, RData::A(A(HERE)));
            }
            Some(("0", _)) | None => {}
            Some((step, _)) => {
                let next: u8 = step.parse::<u8>().unwrap() - 1;
                add(answer, &name, cname(&format!("n{next}.example.")));
            }
        }
    })
    .await;
    let admission = leading_here(server);
    assert!(is_allowed(&decide(&admission, "n8.example").await));
    assert!(
        refused(&decide(&admission, "n9.example").await)
            .0
            .contains("CNAMEs")
    );
}

#[tokio::test]
async fn a_loop_of_cnames_is_refused() {
    let questions = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&questions);
    let server = nameserver::start(move |question, _, answer| {
        counted.fetch_add(1, Ordering::SeqCst);
        match question.name.to_ascii().as_str() {
            // Each name leads to a longer one.
            name if name.ends_with("endless.example.") => {
                add(answer, name, cname(&format!("a.{name}")));
            }
            "self.example." => add(answer, "self.example.", cname("self.example.")),
            _ => {
                add(answer, "a.example.", cname("b.example."));
                add(answer, "b.example.", cname("a.example."));
            }
        }
    })
    .await;
    let admission = leading_here(server);
    for host in ["a.example", "self.example", "endless.example"] {
        let decision = decide(&admission, host).await;
        let (why, seconds) = refused(&decision);
        assert!(why.contains("CNAMEs"), "{why}");
        assert_eq!(seconds, Some(60));
    }
    assert!(questions.load(Ordering::SeqCst) <= 3 * 2 * 9);
}

#[tokio::test]
async fn an_answer_about_another_name_counts_for_nothing() {
    let server = nameserver::start(|question, _, answer| {
        if question.query_type == RecordType::A {
            add(answer, "other.example.", RData::A(A(HERE)));
        }
    })
    .await;
    let decision = decide(&leading_here(server), "a.example").await;
    assert_eq!(
        refused(&decision).0,
        "addresses: a.example leads to no address"
    );
}
