//! Waits before a connection to an upstream: bounded, and no fault of a server.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use sekisho_testkit::TestCa;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::client::TlsStream;

use crate::balance::{name_server, two_with_one_port};
use crate::common::LIMITS;
use crate::common::metrics::figure;
use crate::http2_heads::{HEADERS, NO_CONTENT, accept};
use crate::timeouts::full;
use crate::tls::json;
use crate::world::{HOST, OK, Upstream, Wire, World, status};

/// Host of another tenant than [`HOST`]'s.
const OTHER: &str = "b.example";
const GET: &str = "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n";

/// SETTINGS with one stream.
const ONE_STREAM: &[u8] = b"\0\0\x06\x04\0\0\0\0\0\0\x03\0\0\0\x01";
const PING: &[u8] = b"\0\0\x08\x06\0\0\0\0\0sekisho!";
/// Kind of the frame that answers it.
const PONG: u8 = 6;

const EJECTIONS: &str = "sekisho_upstream_ejections_total";

/// Sends a request over a connection of its own, and waits until it waits at its upstream.
/// The server has one worker, which began it before it answers a client that came later.
async fn send_waiting(world: &World) -> Wire<TlsStream<TcpStream>> {
    let mut client = world.connect().await;
    client.send(GET).await;
    let mut later = world.connect().await;
    later
        .send("GET / HTTP/1.1\r\nHost: c.example\r\n\r\n")
        .await;
    assert_eq!(status(&later.answer().await.0), 421);
    client
}

#[tokio::test]
async fn requests_that_wait_for_anothers_connection_eject_no_server() {
    // The server accepts, and never begins TLS.
    let silent = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let site = format!(
        r#"{{"upstream": {{"servers": ["https://{}"], "protocol": "http2", "tls": {{"ca": {}}},
             "timeouts": {{"connect": "500ms"}}}}}}"#,
        silent.local_addr().unwrap(),
        json(&TestCa::new().root_pem())
    );
    let world = World::shared(TestCa::new(), &[(HOST, "acme", &*site)]);
    let all = join_all((0..12).map(|_| world.get(HOST))).await;
    assert!(all.iter().all(|(status, _)| *status == 504), "{all:?}");
    assert_eq!(figure(&world.running, EJECTIONS).await, 0);
    // Failures of the server itself still do.
    for _ in 0..5 {
        world.get(HOST).await;
    }
    assert_eq!(figure(&world.running, EJECTIONS).await, 1);
}

#[tokio::test]
async fn a_tenant_that_waits_for_a_connection_keeps_no_other_from_opening_one() {
    let upstream = Upstream::bind().await;
    let site = format!(
        r#"{{"upstream": {{"servers": ["h2c://{}"], "connections": 1}}}}"#,
        upstream.address()
    );
    // The operator's own site: tenants share connections.
    let world = World::of_operator(&site, &[(HOST, "acme"), (OTHER, "other")]);
    let serving = async {
        let mut server = accept(&upstream).await;
        server.send([ONE_STREAM, PING].concat()).await;
        while server.next_frame().await != PONG {}
        // The tenant has no second connection, and the first no second stream.
        let mut waiting = Box::pin(send_waiting(&world)).await;
        let mut waits = Box::pin(waiting.answer());
        let opened = Box::pin(async {
            let mut server = accept(&upstream).await;
            server.send(NO_CONTENT).await;
            server
        });
        let (other, _server) = tokio::select! {
            _ = &mut waits => panic!("an answer"),
            answered = async { tokio::join!(Box::pin(world.get(OTHER)), opened) } => answered,
        };
        assert_eq!(other.0, 204);
        server.send(NO_CONTENT).await;
        server
    };
    let (first, _server) = tokio::join!(Box::pin(world.get(HOST)), Box::pin(serving));
    assert_eq!(first.0, 204);
}

#[tokio::test]
async fn a_request_that_waits_takes_the_stream_that_came_free() {
    let upstream = Upstream::bind().await;
    let site = format!(
        r#"{{"upstream": {{"servers": ["h2c://{}"], "connections": 1}}}}"#,
        upstream.address()
    );
    let world = World::shared(TestCa::new(), &[(HOST, "acme", &*site)]);
    let serving = Box::pin(async {
        let mut server = accept(&upstream).await;
        server.send([ONE_STREAM, PING].concat()).await;
        while server.next_frame().await != PONG {}
        let mut waiting = Box::pin(send_waiting(&world)).await;
        let mut waits = Box::pin(waiting.answer());
        let asked = async {
            // What the server has sent by now comes before its answer to this.
            server.send(PING).await;
            loop {
                match server.next_frame().await {
                    PONG => break,
                    HEADERS => panic!("a second stream"),
                    _ => {}
                }
            }
        };
        tokio::select! {
            _ = &mut waits => panic!("an answer"),
            () = asked => {}
        }
        server.send(NO_CONTENT).await;
        let follows = async {
            while server.next_frame().await != HEADERS {}
            let mut answer = NO_CONTENT.to_vec();
            answer[8] = 3;
            server.send(answer).await;
            server
        };
        let ((second, _), server) = tokio::join!(waits, follows);
        assert_eq!(status(&second), 204);
        server
    });
    let (first, _server) = tokio::join!(Box::pin(world.get(HOST)), serving);
    assert_eq!(first.0, 204);
}

#[tokio::test]
async fn a_request_that_waited_takes_the_connection_that_came_free() {
    let upstream = Upstream::bind().await;
    let site = format!(
        r#"{{"upstream": {{"servers": ["http://{}"], "connections": 1}}}}"#,
        upstream.address()
    );
    let world = World::shared(TestCa::new(), &[(HOST, "acme", &*site)]);
    let mut first = world.connect().await;
    first.send(GET).await;
    let mut server = upstream.accept().await;
    server.head().await;
    let mut second = send_waiting(&world).await;
    let mut third = send_waiting(&world).await;
    for client in [&mut first, &mut second, &mut third] {
        server.send(OK).await;
        assert_eq!(client.answer().await.1, "ok");
    }
    assert!(upstream.is_alone());
}

#[tokio::test]
async fn name_servers_that_fail_eject_no_server() {
    let live = Upstream::bind().await;
    let site = format!(
        r#"{{"upstream": {{"servers": ["http://broken.test:80", "http://{}"]}}}}"#,
        live.address()
    );
    live.answering(OK);
    let (name_server, _) = name_server().await;
    let world = World::resolving(name_server, LIMITS, &[(HOST, &site)]);
    // Each request may take one retry: there are ten, and one more for five requests.
    for _ in 0..12 {
        assert_eq!(world.get(HOST).await.0, 200);
    }
    assert_eq!(figure(&world.running, EJECTIONS).await, 0);
    let alone = r#"{"upstream": "http://broken.test:80"}"#;
    let world = World::resolving(name_server, LIMITS, &[(HOST, alone)]);
    assert_eq!(world.get(HOST).await.0, 502);
}

#[tokio::test]
async fn all_addresses_of_a_name_share_the_time_to_connect() {
    let (one, two) = two_with_one_port().await;
    let port = one.local_addr().unwrap().port();
    let site = format!(
        r#"{{"upstream": {{"servers": ["http://two.test:{port}"], "timeouts": {{"connect": "2s"}}}}}}"#
    );
    let (name_server, _) = name_server().await;
    let world = World::resolving(name_server, LIMITS, &[(HOST, &site)]);
    let (_one, two) = (full(one).await, full(two).await);
    let begun = Instant::now();
    let mut client = world.connect().await;
    client.send(GET).await;
    assert_eq!(status(&client.answer().await.0), 504);
    assert!(begun.elapsed() < Duration::from_millis(3500));
    // The other address is tried in time.
    let (two, _) = two;
    Upstream::of(two).answering(OK);
    client.send(GET).await;
    assert_eq!(client.answer().await.1, "ok");
}
