//! Upstreams that flood: their connections end, and count as one failure each.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::join_all;
use http::Request;
use http_body_util::{BodyExt as _, Empty};
use sekisho_testkit::{Key, TestCa};
use tokio::net::TcpStream;

use crate::common::metrics::figure;
use crate::http2_heads::{NO_CONTENT, accept};
use crate::tls::{NAME, Secure, json};
use crate::world::{HOST, OK, Upstream, Wire, World};

const PING: &[u8] = b"\0\0\x08\x06\0\0\0\0\0sekisho!";
const SETTINGS: &[u8] = b"\0\0\0\x04\0\0\0\0\0";
/// WINDOW_UPDATE of the connection by one byte.
const WINDOW: &[u8] = b"\0\0\x04\x08\0\0\0\0\0\0\0\0\x01";
/// Frame of an unknown kind.
const UNKNOWN: &[u8] = b"\0\0\0\xc8\0\0\0\0\0";
/// DATA without a byte, on stream 1, behind the answer's head.
const EMPTY: &[u8] = b"\0\0\0\x00\0\0\0\0\x01";
/// HEADERS on stream 1 with `:status: 200`.
const HEAD: &[u8] = b"\0\0\x01\x01\x04\0\0\0\x01\x88";

const EJECTIONS: &str = "sekisho_upstream_ejections_total";

/// Sends many of these frames.
async fn flood(server: &mut Wire<TcpStream>, frame: &[u8]) {
    for _ in 0..100 {
        server.send(frame.repeat(100)).await;
    }
}

async fn start() -> (Upstream, World) {
    let upstream = Upstream::bind().await;
    let site = format!(r#"{{"upstream": "h2c://{}"}}"#, upstream.address());
    let world = World::shared(TestCa::new(), &[(HOST, "acme", &*site)]);
    (upstream, world)
}

#[tokio::test]
async fn frames_that_no_answer_needs_end_the_connection() {
    for frame in [PING, SETTINGS, WINDOW, UNKNOWN] {
        let (upstream, world) = start().await;
        let serving = Box::pin(async {
            let mut server = accept(&upstream).await;
            flood(&mut server, frame).await;
            server.send(NO_CONTENT).await;
            server
        });
        let (got, _server) = tokio::join!(Box::pin(world.get(HOST)), serving);
        assert_eq!(got.0, 502, "{frame:?}");
    }
}

#[tokio::test]
async fn an_answer_with_a_flood_behind_its_head_never_looks_whole() {
    for frame in [PING, EMPTY] {
        let (upstream, world) = start().await;
        let serving = Box::pin(async {
            let mut server = accept(&upstream).await;
            server.send(HEAD).await;
            flood(&mut server, frame).await;
            server.send(b"\0\0\0\0\x01\0\0\0\x01").await;
            server
        });
        let asking = format!("GET / HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\r\n");
        let (got, _server) = tokio::join!(Box::pin(world.exchange(&asking)), serving);
        // The head may have been read with the flood.
        let is_refused = got.starts_with("HTTP/1.1 502");
        assert!(is_refused || !got.ends_with("0\r\n\r\n"), "whole: {got}");
    }
}

#[tokio::test]
async fn a_few_frames_with_each_answer_are_no_flood() {
    let (upstream, world) = start().await;
    let serving = Box::pin(async {
        let mut server = accept(&upstream).await;
        let some = [PING, SETTINGS, WINDOW, UNKNOWN].concat().repeat(50);
        server.send([&some, NO_CONTENT].concat()).await;
        server
    });
    let (got, _server) = tokio::join!(Box::pin(world.get(HOST)), serving);
    assert_eq!(got.0, 204);
}

#[tokio::test]
async fn a_flood_is_one_failure_however_many_streams_it_ends() {
    const STREAMS: usize = 20;
    let (upstream, world) = start().await;
    for round in 1..=5 {
        let serving = Box::pin(async {
            let mut server = accept(&upstream).await;
            for _ in 1..STREAMS {
                while server.next_frame().await != crate::http2_heads::HEADERS {}
            }
            flood(&mut server, PING).await;
            server
        });
        let client = world.http2().await;
        let get = |_| {
            let mut client = client.clone();
            let request = Request::get(format!("https://{HOST}/"));
            let body = Empty::<Bytes>::new().map_err(|never| match never {});
            let sent = client.send_request(request.body(body.boxed_unsync()).unwrap());
            async move { sent.await.unwrap().status() }
        };
        let (got, _server) = tokio::join!(Box::pin(join_all((0..STREAMS).map(get))), serving);
        assert!(got.iter().all(|status| *status == 502), "{got:?}");
        // Five failures in a row eject a server.
        let ejections = u64::from(round == 5);
        assert_eq!(figure(&world.running, EJECTIONS).await, ejections);
    }
}

#[tokio::test]
async fn tickets_without_end_are_502() {
    for (tickets, expected) in [(20, 200), (100, 200), (5_000, 502)] {
        let ca = TestCa::new();
        let mut upstream = Secure::bind(&ca.issue(&[NAME], Key::P256), None, b"http/1.1").await;
        let config = Arc::get_mut(&mut upstream.config).unwrap();
        config.send_tls13_tickets = tickets;
        // About one ticket in each record.
        config.max_fragment_size = Some(128);
        let tls = format!(r#""name": "{NAME}", "ca": {}"#, json(&ca.root_pem()));
        let world = World::new(&upstream.site(&tls));
        upstream.answering(OK);
        assert_eq!(world.get(HOST).await.0, expected, "{tickets}");
    }
}
