//! The condition CAA.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use hickory_proto::op::{Message, OpCode, ResponseCode};
use hickory_proto::rr::rdata::CAA;
use hickory_proto::rr::{Name, RData};
use sekisho_issuance::acme::Meta;
use sekisho_issuance::admission::{Admission, Decision, Settings};
use sekisho_testkit::services::{Pebble, PebbleOptions};
use sekisho_testkit::{Answer, Endpoint};

use super::fixture::*;
use super::nameserver::{self, add};

fn checking(server: SocketAddr) -> Admission {
    let settings = Settings {
        caa: true,
        ..resolving_by(server)
    };
    Admission::new(settings).unwrap()
}

async fn decide_by(admission: &Admission, pattern: &str, cas: &[Meta]) -> Decision {
    let record = record(pattern, "acme");
    let host = name(&pattern.replace('*', "a"));
    admission.decide(&host, Some(&record), cas).await
}

#[tokio::test]
async fn nothing_is_looked_up_where_no_ca_heeds_caa() {
    // A name server that answers nothing.
    let silent = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    silent.set_nonblocking(true).unwrap();
    let admission = checking(silent.local_addr().unwrap());
    let decision = decide_by(&admission, "a.example.com", &[ca(&[]), ca(&[])]).await;
    assert!(is_allowed(&decision), "{decision:?}");
    assert!(silent.recv(&mut [0; 512]).is_err(), "it was asked");
    // One CA heeds it, or is not known.
    for (host, cas) in [
        ("b.example.com", &[ca(&[]), ca(&["ca.example"])][..]),
        ("c.example.com", &[]),
    ] {
        let decision = decide_by(&admission, host, cas).await;
        assert!(!is_allowed(&decision), "{decision:?}");
        assert!(silent.recv(&mut [0; 512]).is_ok(), "it was not asked");
    }
}

#[tokio::test]
async fn a_tenant_whose_name_servers_hang_holds_up_no_other() {
    let endpoint = endpoint();
    endpoint.otherwise(Answer::ok(""));
    for with_records in [true, false] {
        hung_name_servers_hold_up_no_other(&endpoint, with_records).await;
    }
}

async fn hung_name_servers_hold_up_no_other(endpoint: &Endpoint, with_records: bool) {
    let server = tokio::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0));
    let server = server.await.unwrap();
    let settings = Settings {
        caa: true,
        resolvers: resolving_by(server.local_addr().unwrap()).resolvers,
        ..asking(endpoint)
    };
    let admission = Arc::new(Admission::new(settings).unwrap());
    tokio::spawn(async move {
        let mut buffer = [0; 1500];
        loop {
            let (length, client) = server.recv_from(&mut buffer).await.unwrap();
            let question = Message::from_vec(&buffer[..length]).unwrap();
            if !question.queries[0].name().to_string().contains("hung") {
                let mut answer = Message::response(question.metadata.id, OpCode::Query);
                answer.add_queries(question.queries.iter().cloned());
                let _ = server.send_to(&answer.to_vec().unwrap(), client).await;
            }
        }
    });
    let decide = |host: String, tenant: &'static str| {
        let admission = Arc::clone(&admission);
        async move {
            let record = with_records.then(|| record(&host, tenant));
            admission.decide(&name(&host), record.as_ref(), &[]).await
        }
    };
    let hung =
        (0..200).map(|number| tokio::spawn(decide(format!("n{number}.hung.example"), "hung")));
    let _hung: Vec<_> = hung.collect();
    for _ in 0..9 {
        tokio::task::yield_now().await;
    }
    let well = decide("a.well.example".into(), "well");
    let decision = tokio::time::timeout(Duration::from_secs(2), well).await;
    assert!(is_allowed(&decision.expect("in time")));
}

#[tokio::test]
async fn the_closest_records_at_or_above_the_name_count() {
    let pebble = Pebble::start(&PebbleOptions::default());
    let dns = pebble.challenges();
    dns.add_caa("example.com", "issue", "ca.example");
    dns.add_caa("deep.example.com", "issue", "other.example");
    dns.add_caa("both.example.com", "issue", "other.example");
    dns.add_caa(
        "both.example.com",
        "issue",
        "CA.example; accounturi=https://a/1",
    );
    dns.add_caa("none.example.com", "issue", ";");
    dns.add_caa("wild.example.com", "issuewild", "other.example");
    dns.add_caa("mail.example.com", "iodef", "mailto:a@example.com");
    dns.set_cname("alias.example.com.", "none.example.com.");
    let admission = checking(dns_of(&pebble));
    let ours = [ca(&["ca.example", "ca2.example"])];
    for pattern in [
        "example.com",
        "*.example.com",
        "a.b.example.com",
        "both.example.com",
        "mail.example.com",
        "a.wild.example.com",
        "unrestricted.example",
    ] {
        let decision = decide_by(&admission, pattern, &ours).await;
        assert!(is_allowed(&decision), "{pattern}: {decision:?}");
    }
    for pattern in [
        "deep.example.com",
        "a.b.deep.example.com",
        "none.example.com",
        "alias.example.com",
        "*.wild.example.com",
    ] {
        let decision = decide_by(&admission, pattern, &ours).await;
        let why = format!("the CAA records of {pattern} allow none of the CAs");
        assert_eq!(refused(&decision), (why.as_str(), Some(60)));
    }
}

#[tokio::test]
async fn the_cas_that_are_allowed_are_told() {
    let pebble = Pebble::start(&PebbleOptions::default());
    pebble
        .challenges()
        .add_caa("example.com", "issue", "second.example");
    let admission = checking(dns_of(&pebble));
    let (first, second) = (ca(&["first.example"]), ca(&["second.example"]));
    let cas = [first.clone(), second.clone()];
    let Decision::Allowed(allowed) = decide_by(&admission, "example.com", &cas).await else {
        panic!("the second CA is allowed");
    };
    assert!(!allowed.issuers.permits(&first.caa_identities));
    assert!(allowed.issuers.permits(&second.caa_identities));
    // The answer is remembered; the CAs are compared with it each time.
    let decision = decide_by(&admission, "example.com", &[first]).await;
    assert!(refused(&decision).1 <= Some(60));
    // A CA that does not say that it heeds CAA, and none that is known.
    assert!(is_allowed(
        &decide_by(&admission, "example.com", &[ca(&[])]).await
    ));
    assert!(is_allowed(&decide_by(&admission, "example.com", &[]).await));
}

#[tokio::test]
async fn an_unknown_critical_property_refuses() {
    let server = nameserver::start(|question, _, answer| {
        let ours = Name::from_ascii("ca.example").unwrap();
        let mut future = CAA::new_issue(true, None, Vec::new());
        future.tag = "future".into();
        match question.name.to_ascii().as_str() {
            "critical.example." => add(answer, "critical.example.", RData::CAA(future)),
            "known.example." => {
                let known = CAA::new_issue(true, Some(ours), Vec::new());
                add(answer, "known.example.", RData::CAA(known));
            }
            _ => {}
        }
    })
    .await;
    let admission = checking(server);
    let ours = [ca(&["ca.example"])];
    let decision = decide_by(&admission, "a.critical.example", &ours).await;
    let why = "CAA: critical.example: a critical CAA property is unknown: future";
    assert_eq!(refused(&decision), (why, Some(60)));
    assert!(is_allowed(
        &decide_by(&admission, "known.example", &ours).await
    ));
}

#[tokio::test]
async fn records_that_can_not_be_read_fail() {
    // The name has no records, and its parent's can't be read.
    let server = nameserver::start(|question, _, answer| {
        if question.name.to_ascii() == "example.com." {
            answer.metadata.response_code = ResponseCode::ServFail;
        }
    })
    .await;
    let admission = checking(server);
    let decision = decide_by(&admission, "www.example.com", &[]).await;
    let (why, seconds) = failed(&decision);
    assert!(
        why.starts_with("CAA: CAA of example.com. from name server"),
        "{why}"
    );
    assert_eq!(seconds, 10);
}

#[tokio::test]
async fn a_name_server_that_hangs_fails_at_the_deadline() {
    let silent = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let admission = checking(silent.local_addr().unwrap());
    tokio::time::pause();
    let decision = decide_by(&admission, "a.example", &[]).await;
    assert!(
        failed(&decision).0.contains("no answer within"),
        "{decision:?}"
    );
}
