//! Names of upstream servers that lead where no site may connect.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use hickory_proto::op::{Message, OpCode};
use hickory_proto::rr::rdata::{A, AAAA};
use hickory_proto::rr::{RData, Record, RecordType};
use tokio::net::{TcpListener, UdpSocket};

use crate::common::metrics::figure;
use crate::common::{LIMITS, Setup};
use crate::world::{HOST, OK, Upstream, World, patiently, status};

const GET: &str = "GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n";

/// Name server: each name leads to these addresses for a second.
struct NameServer {
    at: SocketAddr,
    ips: Arc<Mutex<Vec<IpAddr>>>,
}

impl NameServer {
    async fn start(ips: &[&str]) -> Self {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let server = Self {
            at: socket.local_addr().unwrap(),
            ips: Arc::default(),
        };
        server.lead_to(ips);
        let ips = Arc::clone(&server.ips);
        tokio::spawn(async move {
            let mut buffer = [0; 1500];
            loop {
                let (length, client) = socket.recv_from(&mut buffer).await.unwrap();
                let question = Message::from_vec(&buffer[..length]).unwrap();
                let answer = answer(&question, &ips.lock().unwrap());
                socket.send_to(&answer, client).await.unwrap();
            }
        });
        server
    }

    fn lead_to(&self, ips: &[&str]) {
        let ips = ips.iter().map(|ip| ip.parse().unwrap());
        *self.ips.lock().unwrap() = ips.collect();
    }

    /// Starts a server whose site has an upstream at `app.test`.
    fn world(&self, allow: &[&str], port: u16) -> World {
        let site = format!(r#"{{"upstream": "http://app.test:{port}"}}"#);
        let mut setup = Setup::limits(LIMITS);
        setup.settings.name_servers = vec![self.at];
        World::allowing(allow, setup, &[(HOST, &site)])
    }
}

fn answer(question: &Message, ips: &[IpAddr]) -> Vec<u8> {
    let query = question.queries[0].clone();
    let mut answer = Message::response(question.metadata.id, OpCode::Query);
    for ip in ips {
        let data = match (ip, query.query_type()) {
            (IpAddr::V4(ip), RecordType::A) => RData::A(A(*ip)),
            (IpAddr::V6(ip), RecordType::AAAA) => RData::AAAA(AAAA(*ip)),
            _ => continue,
        };
        answer.add_answer(Record::from_rdata(query.name().clone(), 1, data));
    }
    answer.add_queries([query]);
    answer.to_vec().unwrap()
}

/// Binds listeners to one port of two addresses.
async fn two_listeners() -> (Upstream, Upstream, u16) {
    loop {
        let one = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = one.local_addr().unwrap().port();
        if let Ok(other) = TcpListener::bind(("127.0.0.2", port)).await {
            return (Upstream::of(one), Upstream::of(other), port);
        }
    }
}

/// `[sites] allow` has all networks, as an operator may have it for public upstreams.
#[tokio::test]
async fn a_name_that_leads_to_metadata_is_refused() {
    for ip in [
        "169.254.169.254",
        "::ffff:169.254.169.254",
        "64:ff9b::a9fe:a9fe",
        "fe80::1",
        "fd00:ec2::254",
    ] {
        let names = NameServer::start(&[ip]).await;
        let world = names.world(&["0.0.0.0/0", "::/0"], 80);
        let answer = patiently(world.exchange(GET)).await;
        // A connection in vain would be 502 or 504.
        assert_eq!(status(&answer), 503, "{ip}: {answer}");
        let tried = r#"sekisho_upstream_requests_total{outcome="unreachable"}"#;
        assert_eq!(figure(&world.running, tried).await, 0, "{ip}");
    }
}

#[tokio::test]
async fn a_name_is_served_at_those_of_its_addresses_that_are_allowed() {
    let (allowed, refused, port) = two_listeners().await;
    let names = NameServer::start(&["127.0.0.2", "169.254.169.254", "127.0.0.1"]).await;
    let world = names.world(&["127.0.0.1"], port);
    let mut heads = allowed.answering(OK);
    for _ in 0..5 {
        let answer = world.exchange(GET).await;
        assert_eq!(status(&answer), 200, "{answer}");
        heads.recv().await.unwrap();
    }
    assert!(refused.is_alone());
}

/// Rebinding: a name is judged by where it leads at each connect.
#[tokio::test]
async fn a_name_that_leads_to_a_refused_address_later_is_refused_then() {
    let (allowed, refused, port) = two_listeners().await;
    let names = NameServer::start(&["127.0.0.1"]).await;
    let world = names.world(&["127.0.0.1"], port);
    let _heads = allowed.answering(OK);
    assert_eq!(status(&world.exchange(GET).await), 200);
    names.lead_to(&["127.0.0.2"]);
    patiently(async {
        loop {
            let answer = world.exchange(GET).await;
            match status(&answer) {
                200 => tokio::task::yield_now().await,
                503 => break,
                other => panic!("{other}: {answer}"),
            }
        }
    })
    .await;
    assert!(refused.is_alone());
    names.lead_to(&["127.0.0.1"]);
    patiently(async { while status(&world.exchange(GET).await) != 200 {} }).await;
}

/// Requests try all addresses of a name; so do checks.
#[tokio::test]
async fn a_check_asks_at_the_addresses_of_a_name_in_turn() {
    let upstream = Upstream::bind().await;
    let names = NameServer::start(&["127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.1"]).await;
    let port = upstream.address().parse::<SocketAddr>().unwrap().port();
    let check = r#""check": {"path": "/health", "interval": "1s"}"#;
    let site = format!(r#"{{"upstream": {{"servers": ["http://app.test:{port}"], {check}}}}}"#);
    let mut setup = Setup::limits(LIMITS);
    setup.settings.name_servers = vec![names.at];
    // The first two are refused by the server's system, the third by the list.
    let allow = ["127.0.0.1", "127.0.0.2", "127.0.0.3"];
    let world = World::allowing(&allow, setup, &[(HOST, &site)]);
    let mut heads = upstream.answering(OK);
    assert_eq!(status(&world.exchange(GET).await), 200);
    patiently(async {
        for _ in 0..3 {
            while !heads.recv().await.unwrap().starts_with("GET /health ") {}
        }
    })
    .await;
    let failed = figure(&world.running, "sekisho_upstream_checks_failed_total").await;
    assert_eq!(failed, 0);
}
