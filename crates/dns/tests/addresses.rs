//! Addresses by a real name server, and by one that drops questions.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use hickory_proto::op::{Message, OpCode};
use hickory_proto::rr::rdata::A;
use hickory_proto::rr::{RData, Record, RecordType};
use sekisho_dns::{Addresses, HALF_TTL, ResolveError, Resolver};
use sekisho_testkit::services::{Knot, Zone};
use tokio::net::UdpSocket;

/// Records with TTLs of their own; others have 60 s.
const RECORDS: &str = "\
both 30 A 192.0.2.1
both 20 AAAA 2001:db8::1
four 1 A 192.0.2.1
four 1 A 192.0.2.2
six 3600 AAAA 2001:db8::1
alias 10 CNAME both
longer 100 CNAME both
text TXT \"no address\"";

fn knot() -> (Knot, Resolver) {
    let key = ("hmac-sha256", "key", "c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0");
    let zone = Zone {
        name: "test",
        records: RECORDS,
        key: "key",
    };
    let knot = Knot::start(Ipv4Addr::LOCALHOST, &[key], &[zone]);
    let resolver = Resolver::new(&[knot.address()]);
    (knot, resolver)
}

fn addresses(ips: &[&str], ttl: u64) -> Addresses {
    let ips = ips.iter().map(|ip| ip.parse().unwrap()).collect();
    let ttl = Duration::from_secs(ttl);
    Addresses { ips, ttl }
}

#[tokio::test]
async fn a_name_has_its_addresses_and_the_smallest_ttl() {
    let (_knot, resolver) = knot();
    let both: &[&str] = &["192.0.2.1", "2001:db8::1"];
    for (name, ips, ttl) in [
        ("both.test", both, 20),
        ("both.test.", both, 20),
        ("six.test", &["2001:db8::1"], 3600),
        ("alias.test", both, 10),
        ("longer.test", both, 20),
        ("text.test", &[], 0),
        ("absent.test", &[], 0),
    ] {
        let found = resolver.addresses(name).await;
        assert_eq!(found, Ok(addresses(ips, ttl)), "{name}");
    }
    let mut four = resolver.addresses("four.test").await.unwrap();
    four.ips.sort();
    assert_eq!(four, addresses(&["192.0.2.1", "192.0.2.2"], 1));
}

#[tokio::test]
async fn a_server_that_refuses_has_no_answer() {
    let (_knot, resolver) = knot();
    let refused = resolver.addresses("elsewhere.example").await;
    let Err(ResolveError::NoAnswer(why)) = refused else {
        panic!("{refused:?}");
    };
    assert!(why.contains("elsewhere.example"), "{why}");
}

/// Starts a name server that knows one address and drops questions for AAAA.
async fn without_aaaa() -> SocketAddr {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = socket.local_addr().unwrap();
    tokio::spawn(async move {
        let mut buffer = [0; 1500];
        loop {
            let (length, client) = socket.recv_from(&mut buffer).await.unwrap();
            let question = Message::from_vec(&buffer[..length]).unwrap();
            let query = question.queries[0].clone();
            if query.query_type() != RecordType::A {
                continue;
            }
            let mut answer = Message::response(question.metadata.id, OpCode::Query);
            let data = RData::A(A(Ipv4Addr::new(192, 0, 2, 1)));
            answer.add_answer(Record::from_rdata(query.name().clone(), 3600, data));
            answer.add_queries([query]);
            let bytes = answer.to_vec().unwrap();
            socket.send_to(&bytes, client).await.unwrap();
        }
    });
    address
}

#[tokio::test]
async fn an_address_of_one_kind_is_enough() {
    let resolver = Resolver::new(&[without_aaaa().await]);
    let found = resolver.addresses("app.example").await.unwrap();
    let ip: IpAddr = "192.0.2.1".parse().unwrap();
    assert_eq!((found.ips, found.ttl), (vec![ip], HALF_TTL));
}
