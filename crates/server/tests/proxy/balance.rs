//! Sites with several servers: choice, health, waits and names.

use std::collections::{HashMap, HashSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hickory_proto::op::{Message, OpCode, ResponseCode};
use hickory_proto::rr::rdata::A;
use hickory_proto::rr::{RData, Record, RecordType};
use tokio::net::{TcpListener, UdpSocket};

use crate::common::LIMITS;
use crate::world::{HOST, OK, Upstream, World, patiently, status};

const GET: &str = "GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n";

/// Returns a site with these servers and further keys.
fn site(servers: &[&str], more: &str) -> String {
    let servers: Vec<_> = servers
        .iter()
        .map(|at| format!("\"http://{at}\""))
        .collect();
    let servers = servers.join(", ");
    format!(r#"{{"upstream": {{"servers": [{servers}] {more}}}}}"#)
}

/// Starts a server that answers all requests with its name, and returns where.
async fn named(name: &'static str) -> String {
    answering(TcpListener::bind(("127.0.0.1", 0)).await.unwrap(), name)
}

fn answering(listener: TcpListener, name: &'static str) -> String {
    let upstream = Upstream::of(listener);
    let address = upstream.address();
    let length = name.len();
    let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{name}");
    upstream.answering(answer.leak());
    address
}

/// Returns an address where no server listens.
async fn nobody() -> String {
    Upstream::bind().await.address()
}

async fn body(world: &World) -> String {
    let answer = world.exchange(GET).await;
    assert_eq!(status(&answer), 200, "{answer}");
    answer.rsplit("\r\n").next().unwrap().to_owned()
}

/// Asks until the answer's body is this.
async fn becomes(world: &World, expected: &str) {
    patiently(async {
        while body(world).await != expected {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn all_servers_get_requests() {
    let (one, other) = (named("one").await, named("other").await);
    let world = World::new(&site(&[&one, &other], ""));
    let mut answered = HashMap::new();
    for _ in 0..60 {
        *answered.entry(body(&world).await).or_insert(0) += 1;
    }
    // By chance, one of two has fewer than ten of sixty once in 30 million times.
    let least = |name: &str| answered.get(name).is_some_and(|count| *count >= 10);
    assert!(least("one") && least("other"), "{answered:?}");
}

#[tokio::test]
async fn a_request_goes_to_another_server_if_one_is_gone() {
    let (gone, live) = (nobody().await, named("live").await);
    let world = World::new(&site(&[&gone, &live], ""));
    for _ in 0..30 {
        assert_eq!(body(&world).await, "live");
    }
}

#[tokio::test]
async fn a_server_that_fails_five_times_in_a_row_gets_no_requests() {
    let failing = Upstream::bind().await;
    let address = failing.address();
    failing.answering("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n");
    let world = World::new(&site(&[&address, &named("live").await], ""));
    let mut failures = 0;
    while failures < 5 {
        let answer = world.exchange(GET).await;
        failures += usize::from(status(&answer) == 503);
    }
    for _ in 0..10 {
        assert_eq!(body(&world).await, "live");
    }
}

#[tokio::test]
async fn the_only_server_is_asked_however_often_it_failed() {
    let failing = Upstream::bind().await;
    let world = World::new(&failing.site());
    failing.answering("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 4\r\n\r\nbusy");
    for _ in 0..10 {
        let answer = world.exchange(GET).await;
        assert!(answer.ends_with("\r\n\r\nbusy"), "{answer}");
    }
}

#[tokio::test]
async fn a_client_keeps_its_server() {
    let (one, other) = (named("one").await, named("other").await);
    let world = World::new(&site(&[&one, &other], r#", "balance": "client""#));
    let first = body(&world).await;
    for _ in 0..10 {
        assert_eq!(body(&world).await, first);
    }
}

#[tokio::test]
async fn a_cookie_keeps_its_server() {
    let (one, other) = (named("one").await, named("other").await);
    let by_cookie = r#", "balance": {"cookie": "session"}"#;
    keeps_servers(&World::new(&site(&[&one, &other], by_cookie))).await;
}

#[tokio::test]
async fn a_cookie_that_is_not_passed_on_keeps_its_server() {
    let (one, other) = (named("one").await, named("other").await);
    let by_cookie = r#", "balance": {"cookie": "session"}"#;
    let site = site(&[&one, &other], by_cookie);
    let removes = r#", "request": {"remove": ["Cookie"]}}"#;
    let site = format!("{}{removes}", site.strip_suffix('}').unwrap());
    keeps_servers(&World::new(&site)).await;
}

/// Asserts that each value of the cookie has a server.
async fn keeps_servers(world: &World) {
    let mut servers = HashSet::new();
    for cookie in 0..20 {
        let fields = format!("Host: {HOST}\r\nCookie: a=b; session={cookie}\r\nConnection: close");
        let request = format!("GET / HTTP/1.1\r\n{fields}\r\n\r\n");
        let answers = [
            world.exchange(&request).await,
            world.exchange(&request).await,
        ];
        let [first, second] = answers.map(|one| one.rsplit("\r\n").next().unwrap().to_owned());
        assert_eq!(first, second);
        servers.insert(first);
    }
    assert_eq!(servers.len(), 2);
}

#[tokio::test]
async fn requests_wait_for_a_connection_up_to_a_number_of_them() {
    let upstream = Upstream::bind().await;
    let bounds = r#", "connections": 1, "waiting": 1"#;
    let world = World::new(&site(&[&upstream.address()], bounds));
    let mut clients = [
        world.connect().await,
        world.connect().await,
        world.connect().await,
    ];
    for client in &mut clients {
        client.send(GET).await;
    }
    let mut server = upstream.accept().await;
    server.head().await;
    // One holds the connection, one waits, and one is refused.
    let [a, b, c] = &mut clients;
    let refused = tokio::select! {
        head = a.head() => head,
        head = b.head() => head,
        head = c.head() => head,
    };
    assert_eq!(status(&refused), 503, "{refused}");
    assert!(upstream.is_alone());
    server
        .send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        .await;
    let mut server = upstream.accept().await;
    server.head().await;
}

#[tokio::test]
async fn localhost_is_resolved() {
    let address = named("here").await;
    let port = address.rsplit(':').next().unwrap();
    let world = World::new(&site(&[&format!("localhost:{port}")], ""));
    assert_eq!(body(&world).await, "here");
}

/// Starts a name server: `app.test` is 127.0.0.1 for a second, or 127.0.0.2 once
/// it has moved; `two.test` is both; `broken.test` has no answer; other names are not
/// there.
pub(crate) async fn name_server() -> (SocketAddr, Arc<AtomicBool>) {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let (address, moved) = (
        socket.local_addr().unwrap(),
        Arc::new(AtomicBool::new(false)),
    );
    let has_moved = Arc::clone(&moved);
    tokio::spawn(async move {
        let mut buffer = [0; 1500];
        loop {
            let (length, client) = socket.recv_from(&mut buffer).await.unwrap();
            let question = Message::from_vec(&buffer[..length]).unwrap();
            let query = question.queries[0].clone();
            let mut answer = Message::response(question.metadata.id, OpCode::Query);
            let name = query.name().clone();
            let last = 1 + u8::from(has_moved.load(Ordering::SeqCst));
            let all: &[u8] = match &*name.to_ascii() {
                "app.test." => &[last],
                "two.test." => &[1, 2],
                "broken.test." => {
                    answer.metadata.response_code = ResponseCode::ServFail;
                    &[]
                }
                _ => {
                    answer.metadata.response_code = ResponseCode::NXDomain;
                    &[]
                }
            };
            if query.query_type() == RecordType::A {
                for last in all {
                    let data = RData::A(A(Ipv4Addr::new(127, 0, 0, *last)));
                    answer.add_answer(Record::from_rdata(name.clone(), 1, data));
                }
            }
            answer.add_queries([query]);
            let bytes = answer.to_vec().unwrap();
            socket.send_to(&bytes, client).await.unwrap();
        }
    });
    (address, moved)
}

/// Listens at 127.0.0.1 and 127.0.0.2.
pub(crate) async fn two_with_one_port() -> (TcpListener, TcpListener) {
    loop {
        let one = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = one.local_addr().unwrap().port();
        if let Ok(two) = TcpListener::bind(("127.0.0.2", port)).await {
            return (one, two);
        }
    }
}

#[tokio::test]
async fn a_name_is_resolved_again_after_its_ttl() {
    let (before, after) = two_with_one_port().await;
    let port = before.local_addr().unwrap().port();
    answering(before, "before");
    answering(after, "after");
    let (name_server, moved) = name_server().await;
    let site = site(&[&format!("app.test:{port}")], "");
    let world = World::resolving(name_server, LIMITS, &[(HOST, &site)]);
    assert_eq!(body(&world).await, "before");
    moved.store(true, Ordering::SeqCst);
    becomes(&world, "after").await;
}

#[tokio::test]
async fn a_name_without_an_address_is_502() {
    let (name_server, _) = name_server().await;
    let site = site(&["absent.test:80"], "");
    let world = World::resolving(name_server, LIMITS, &[(HOST, &site)]);
    assert_eq!(status(&world.exchange(GET).await), 502);
}

#[tokio::test]
async fn a_check_ends_its_connection_in_order() {
    let upstream = Upstream::bind().await;
    let check = r#", "check": {"path": "/health", "interval": "1s"}"#;
    let world = World::new(&site(&[&upstream.address()], check));
    // The request and the first check come in either order.
    let served = patiently(async {
        let (mut asked, mut ended) = (false, None);
        while !asked || ended.is_none() {
            let mut server = upstream.accept_any().await;
            let Some(head) = server.next_head().await else {
                continue;
            };
            server.send(OK).await;
            if head.starts_with("GET /health ") {
                ended = Some(server.end().await);
            } else {
                asked = true;
            }
        }
        ended.flatten()
    });
    // The first request begins the checks.
    let (ended, _) = tokio::join!(served, world.exchange(GET));
    assert_eq!(ended, None);
}

#[tokio::test]
async fn a_server_whose_check_fails_gets_no_requests() {
    let (sick, live) = (Upstream::bind().await, named("live").await);
    let servers = [&sick.address() as &str, &live];
    let check = r#", "check": {"path": "/health?deep", "interval": "1s", "status": "200"}"#;
    let world = World::new(&site(&servers, check));
    let (heads, mut seen) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        loop {
            let mut wire = sick.accept_any().await;
            let heads = heads.clone();
            tokio::spawn(async move {
                while let Some(head) = wire.next_head().await {
                    let is_check = head.starts_with("GET /health?deep HTTP/1.1\r\n");
                    let answer = match is_check {
                        true => "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
                        false => "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nsick",
                    };
                    wire.send(answer).await;
                    let _ = heads.send((is_check, head));
                }
            });
        }
    });
    // The first request begins the checks. Once the third comes, two have failed.
    let mut checks = 0;
    patiently(async {
        while checks < 3 {
            body(&world).await;
            while let Ok((is_check, head)) = seen.try_recv() {
                checks += usize::from(is_check);
                assert!(
                    !is_check || head.contains("user-agent: sekisho-check\r\n"),
                    "{head}"
                );
            }
        }
    })
    .await;
    becomes(&world, "live").await;
    for _ in 0..10 {
        assert_eq!(body(&world).await, "live");
    }
}
