use std::pin::pin;
use std::task::{Context, Poll, Waker};

use hickory_proto::op::Query;
use proptest::prelude::*;

use super::*;

fn zone() -> Zone {
    let addresses = vec![ip("192.0.2.1"), ip("2001:db8::1")];
    Zone::new("dcv.example", addresses).unwrap()
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn question(name: &str, kind: RecordType) -> Message {
    let mut message = Message::query();
    message.metadata.recursion_desired = true;
    message.add_query(Query::query(Name::from_ascii(name).unwrap(), kind));
    message
}

fn with_edns(mut message: Message, payload: u16, version: u8) -> Message {
    let mut edns = Edns::new();
    edns.set_max_payload(payload).set_version(version);
    edns.set_dnssec_ok(true);
    message.set_edns(edns);
    message
}

/// Texts of `a.dcv.example` and `a.b.dcv.example`.
fn texts(texts: &[&str]) -> Option<Arc<Texts>> {
    let texts: Vec<_> = texts.iter().map(|text| (*text).to_owned()).collect();
    let names = ["a.dcv.example.", "a.b.dcv.example."];
    Some(Arc::new(
        names.map(|name| (name.to_owned(), texts.clone())).into(),
    ))
}

/// Sends bytes to a zone, which must not wait for anything else than these texts.
fn send(
    zone: &Zone,
    message: &[u8],
    via: Transport,
    texts: Option<Arc<Texts>>,
) -> Option<(Vec<u8>, Outcome)> {
    let texts = std::future::ready(texts);
    let answer = pin!(zone.answer(message, via, Some(ip("192.0.2.9")), texts));
    match answer.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer,
        Poll::Pending => panic!("it waits"),
    }
}

/// Returns the answer, and how many bytes it has.
fn ask(message: &Message, via: Transport, with: &[&str]) -> (Message, Outcome, usize) {
    let message = message.to_vec().unwrap();
    let (bytes, outcome) = send(&zone(), &message, via, texts(with)).unwrap();
    let answer = Message::from_vec(&bytes).expect("our own answer");
    assert_eq!(answer.metadata.message_type, MessageType::Response);
    (answer, outcome, bytes.len())
}

fn udp(name: &str, kind: RecordType) -> (Message, Outcome) {
    let (message, outcome, _) = ask(&question(name, kind), Transport::Udp, &["text"]);
    (message, outcome)
}

#[test]
fn every_name_below_is_there() {
    for (name, kind, outcome, answers) in [
        ("dcv.example.", RecordType::SOA, Outcome::Answered, 1),
        ("dcv.example.", RecordType::NS, Outcome::Answered, 1),
        ("ns.dcv.example.", RecordType::A, Outcome::Answered, 1),
        ("ns.dcv.example.", RecordType::AAAA, Outcome::Answered, 1),
        ("a.b.dcv.example.", RecordType::TXT, Outcome::Answered, 1),
        ("b.dcv.example.", RecordType::TXT, Outcome::Empty, 0),
        ("dcv.example.", RecordType::TXT, Outcome::Empty, 0),
        ("dcv.example.", RecordType::A, Outcome::Empty, 0),
        ("a.b.dcv.example.", RecordType::A, Outcome::Empty, 0),
        ("b.dcv.example.", RecordType::NS, Outcome::Empty, 0),
        ("b.dcv.example.", RecordType::CNAME, Outcome::Empty, 0),
        ("b.dcv.example.", RecordType::CAA, Outcome::Empty, 0),
        (
            "b.dcv.example.",
            RecordType::Unknown(999),
            Outcome::Empty,
            0,
        ),
        ("*.dcv.example.", RecordType::A, Outcome::Empty, 0),
    ] {
        let (answer, is) = udp(name, kind);
        assert_eq!(
            (is, answer.answers.len()),
            (outcome, answers),
            "{name} {kind}"
        );
        assert_eq!(
            answer.metadata.response_code,
            ResponseCode::NoError,
            "{name}"
        );
        let flags = answer.metadata;
        assert!(flags.authoritative && flags.recursion_desired, "{name}");
        assert!(!flags.recursion_available && !flags.truncation, "{name}");
        let authorities: Vec<_> = answer.authorities.iter().collect();
        match outcome {
            Outcome::Empty => {
                assert_eq!(authorities[0].record_type(), RecordType::SOA, "{name}");
                assert_eq!(authorities[0].ttl, 0, "{name}");
            }
            _ => assert!(authorities.is_empty(), "{name}"),
        }
    }
}

#[test]
fn texts_may_not_be_kept() {
    let (answer, _) = udp("a.dcv.example.", RecordType::TXT);
    assert_eq!(answer.answers[0].ttl, 0);
    let RData::TXT(text) = &answer.answers[0].data else {
        panic!("{answer}");
    };
    assert_eq!(*text.txt_data[0], *b"text");
}

#[test]
fn a_server_without_addresses_is_where_it_was_reached() {
    let zone = Zone::new("dcv.example", Vec::new()).unwrap();
    for (kind, outcome) in [
        (RecordType::A, Outcome::Answered),
        (RecordType::AAAA, Outcome::Empty),
    ] {
        let message = question("ns.dcv.example.", kind).to_vec().unwrap();
        let (answer, is) = send(&zone, &message, Transport::Udp, None).unwrap();
        assert_eq!(is, outcome, "{kind}");
        let answer = Message::from_vec(&answer).unwrap();
        let addresses: Vec<_> = answer
            .answers
            .iter()
            .map(|one| one.data.ip_addr())
            .collect();
        assert!(addresses.is_empty() || addresses == [Some(ip("192.0.2.9"))]);
    }
}

#[test]
fn case_comes_back_and_texts_are_found_without_it() {
    let message = question("a.dCv.ExAmPlE.", RecordType::TXT)
        .to_vec()
        .unwrap();
    let (answer, outcome) = send(&zone(), &message, Transport::Udp, texts(&["text"])).unwrap();
    assert_eq!(outcome, Outcome::Answered);
    // The question begins after 12 bytes, and the owner of the answer points to it.
    assert_eq!(answer[12..message.len()], message[12..]);
    assert_eq!(answer[message.len()..][..2], [0xc0, 12]);
}

#[test]
fn other_zones_and_kinds_are_refused() {
    for (name, kind) in [
        ("dcv.example.", RecordType::ANY),
        ("a.dcv.example.", RecordType::ANY),
        ("dcv.example.", RecordType::AXFR),
        ("dcv.example.", RecordType::IXFR),
        ("example.", RecordType::NS),
        ("adcv.example.", RecordType::TXT),
        (".", RecordType::NS),
    ] {
        let (answer, outcome) = udp(name, kind);
        assert_eq!(outcome, Outcome::Refused, "{name} {kind}");
        assert_eq!(answer.metadata.response_code, ResponseCode::Refused);
        assert!(answer.answers.is_empty() && answer.authorities.is_empty());
    }
    let mut chaos = question("a.dcv.example.", RecordType::TXT);
    chaos.queries[0].set_query_class(DNSClass::CH);
    let (answer, ..) = ask(&chaos, Transport::Udp, &[]);
    assert_eq!(answer.metadata.response_code, ResponseCode::Refused);
    let mut update = question("a.dcv.example.", RecordType::SOA);
    update.metadata.op_code = OpCode::Update;
    let (answer, ..) = ask(&update, Transport::Udp, &[]);
    assert_eq!(answer.metadata.response_code, ResponseCode::NotImp);
}

#[test]
fn answers_fit_or_are_truncated() {
    let value = "v".repeat(43);
    let long = "v".repeat(255);
    let values = |text: &'static str, count| vec![text; count];
    let (value, long): (&'static str, &'static str) = (value.leak(), long.leak());
    let plain = question("a.dcv.example.", RecordType::TXT);
    let edns = with_edns(plain.clone(), 4096, 0);
    let small = with_edns(plain.clone(), 100, 0);
    for (message, via, texts, is_whole) in [
        (&plain, Transport::Udp, values(value, 7), true),
        (&plain, Transport::Udp, values(value, 8), true),
        (&plain, Transport::Udp, values(long, 2), false),
        (&small, Transport::Udp, values(long, 2), false),
        (&edns, Transport::Udp, values(long, 4), true),
        (&edns, Transport::Udp, values(long, 5), false),
        (&edns, Transport::Udp, values(value, 9), false),
        (&edns, Transport::Flood, values(value, 1), false),
        (&plain, Transport::Tcp, values(long, 100), true),
        (&plain, Transport::Tcp, values(long, 1000), false),
    ] {
        let (answer, outcome, bytes) = ask(message, via, &texts);
        let label = format!("{via:?} {} {bytes}", texts.len());
        assert_eq!(answer.metadata.truncation, !is_whole, "{label}");
        assert_eq!(outcome == Outcome::Truncated, !is_whole, "{label}");
        assert_eq!(
            answer.answers.len(),
            if is_whole { texts.len() } else { 0 },
            "{label}"
        );
        let limit = match (via, &message.edns) {
            (Transport::Tcp, _) => usize::from(u16::MAX),
            (_, None) => 512,
            (_, Some(edns)) => usize::from(edns.max_payload()).min(1232),
        };
        assert!(bytes <= limit, "{label}");
        assert_eq!(answer.edns.is_some(), message.edns.is_some(), "{label}");
        if let Some(edns) = answer.edns {
            assert!(
                edns.max_payload() == 1232 && edns.flags().dnssec_ok,
                "{label}"
            );
        }
    }
}

#[test]
fn later_versions_of_edns_are_told_ours() {
    let later = with_edns(question("a.dcv.example.", RecordType::TXT), 1232, 1);
    let (answer, outcome, _) = ask(&later, Transport::Udp, &[]);
    // BADVERS, whose number TSIG has for BADSIG.
    assert_eq!(u16::from(answer.metadata.response_code), 16);
    assert_eq!(outcome, Outcome::Malformed);
    assert_eq!(answer.edns.unwrap().version(), 0);
}

#[test]
fn minimised_questions_go_on() {
    // A resolver asks for each ancestor, and ends at NXDOMAIN.
    for name in [
        "l.dcv.example.",
        "example.l.dcv.example.",
        "shop.example.l.dcv.example.",
    ] {
        for kind in [RecordType::A, RecordType::NS] {
            let (answer, outcome) = udp(name, kind);
            assert_eq!(outcome, Outcome::Empty, "{name} {kind}");
            assert_eq!(answer.metadata.response_code, ResponseCode::NoError);
        }
    }
}

#[test]
fn failures_are_told() {
    let message = question("a.dcv.example.", RecordType::TXT)
        .to_vec()
        .unwrap();
    for via in [Transport::Udp, Transport::Tcp] {
        let (answer, outcome) = send(&zone(), &message, via, None).unwrap();
        let code = Message::from_vec(&answer).unwrap().metadata.response_code;
        assert_eq!((code, outcome), (ResponseCode::ServFail, Outcome::Failed));
    }
}

#[test]
fn what_is_no_question_gets_no_data() {
    let whole = question("a.dcv.example.", RecordType::TXT)
        .to_vec()
        .unwrap();
    let mut answer = whole.clone();
    answer[2] |= 0x80;
    for (bytes, code) in [
        (&whole[..11], None),
        (&whole[..0], None),
        (&answer[..], None),
        (&whole[..12], Some(ResponseCode::FormErr)),
        (&whole[..whole.len() - 1], Some(ResponseCode::FormErr)),
    ] {
        let sent = send(&zone(), bytes, Transport::Udp, None);
        let is = sent.map(|(answer, _)| {
            assert!(answer.len() <= bytes.len());
            Message::from_vec(&answer).unwrap().metadata.response_code
        });
        assert_eq!(is, code, "{bytes:?}");
    }
    for count in [0, 2, u16::MAX] {
        let mut counted = whole.clone();
        counted[4..6].copy_from_slice(&count.to_be_bytes());
        let (answer, outcome) = send(&zone(), &counted, Transport::Tcp, None).unwrap();
        assert_eq!((answer.len(), outcome), (12, Outcome::Malformed));
    }
}

#[test]
fn names_that_dns_can_t_carry_are_refused() {
    let long = format!("{}example", "a23456789.".repeat(24));
    assert!(Zone::new(&long, Vec::new()).is_err());
    assert!(Zone::new(&"a".repeat(64), Vec::new()).is_err());
}

proptest! {
    #[test]
    fn malformed_questions_are_no_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..600),
        at in 0usize..40,
        whole in any::<bool>(),
    ) {
        let mut message = with_edns(question("a.dcv.example.", RecordType::TXT), 1232, 0);
        message.metadata.id = 1;
        let mut question = message.to_vec().unwrap();
        match whole {
            true => question = bytes,
            false => {
                let end = question.len().min(at + bytes.len().min(8));
                question[at..end].copy_from_slice(&bytes[..end - at]);
            }
        }
        for via in [Transport::Udp, Transport::Flood, Transport::Tcp] {
            send(&zone(), &question, via, texts(&["text"]));
        }
    }
}
