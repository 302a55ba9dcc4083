//! Validation over HTTP (RFC 8555, section 8.3).

use std::time::Duration;

use bytes::Bytes;
use http_body_util::Empty;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use sekisho_certs::ChallengeKind;
use sekisho_server::Limits;
use sekisho_testkit::client;

use crate::common::{LIMITS, raw};
use crate::{AUTHORIZATION, Fixture};

const TOKEN: &str = "evaGxfADs6pSRb2LAv9IZf17Dt3juxGJ-PCt92wr-oA";

/// Asks for a path over plain HTTP.
async fn plain(fixture: &Fixture, method: &str, path: &str) -> String {
    let request = format!("{method} {path} HTTP/1.1\r\nHost: new.example\r\n\r\n");
    let answer = raw(fixture.running.http, request.as_bytes()).await;
    String::from_utf8(answer).unwrap()
}

/// Asks the host with a site for a path.
async fn secure(fixture: &Fixture, path: &str) -> String {
    let config = client::config(&fixture.ca);
    let answer = client::fetch(fixture.running.address, "a.example", path, config);
    answer.await.unwrap()
}

#[tokio::test]
async fn a_token_is_answered_over_http_and_https() {
    let fixture = Fixture::new().await;
    let kind = ChallengeKind::Http01;
    fixture.orders.put(kind, TOKEN, AUTHORIZATION).await;
    let path = format!("/.well-known/acme-challenge/{TOKEN}");
    for answer in [
        plain(&fixture, "GET", &path).await,
        secure(&fixture, &path).await,
    ] {
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let head = head.to_ascii_lowercase();
        assert!(head.starts_with("http/1.1 200 ok"), "{head}");
        assert!(head.contains("content-type: application/octet-stream"));
        assert!(head.contains("cache-control: no-store"), "{head}");
        assert_eq!(body, AUTHORIZATION);
    }
    assert_eq!(fixture.orders.catalog.reads(), 1);
}

#[tokio::test]
async fn other_paths_go_to_the_redirect_and_to_the_site() {
    let fixture = Fixture::new().await;
    let folder = "/.well-known/acme-challenge/";
    let unknown = format!("{folder}{}", "x".repeat(43));
    for path in [
        unknown.clone(),
        format!("{folder}{}", "x".repeat(129)),
        format!("{folder}{}", "x".repeat(21)),
        format!("{folder}{TOKEN}.txt"),
        folder.to_owned(),
        format!("{folder}../acme-challenge/{TOKEN}"),
    ] {
        let before = fixture.orders.catalog.reads();
        let answer = plain(&fixture, "GET", &path).await;
        assert!(answer.starts_with("HTTP/1.1 308 "), "{answer}");
        assert!(answer.contains("https://new.example:"), "{answer}");
        let answer = secure(&fixture, &path).await;
        assert!(
            answer.contains("https://served.example/a.example"),
            "{answer}"
        );
        let reads = fixture.orders.catalog.reads() - before;
        assert_eq!(reads, if path == unknown { 2 } else { 0 }, "{path}");
    }
    let known = format!("{folder}{TOKEN}");
    let kind = ChallengeKind::Http01;
    fixture.orders.put(kind, TOKEN, AUTHORIZATION).await;
    let answer = plain(&fixture, "POST", &known).await;
    assert!(answer.starts_with("HTTP/1.1 308 "), "{answer}");
    let nameless = format!("GET {known} HTTP/1.1\r\n\r\n");
    let answer = raw(fixture.running.http, nameless.as_bytes()).await;
    assert!(answer.starts_with(b"HTTP/1.1 400 "), "without a host");
    fixture.orders.catalog.fail(true);
    let answer = secure(&fixture, &known).await;
    assert!(
        answer.contains("https://served.example/a.example"),
        "{answer}"
    );
}

#[tokio::test]
async fn a_cancelled_request_for_an_unknown_token_stays_charged() {
    let fixture = Fixture::with(Limits {
        absent_per_prefix: 3,
        ..LIMITS
    })
    .await;
    let catalog = &fixture.orders.catalog;
    let mut config = client::config(&fixture.ca);
    config.alpn_protocols = vec![b"h2".to_vec()];
    let stream = client::connect(fixture.running.address, "a.example", config).await;
    let io = TokioIo::new(stream.unwrap());
    let (mut sender, connection) = http2::handshake(TokioExecutor::new(), io).await.unwrap();
    tokio::spawn(connection);
    let mut ask = |number: usize| {
        let uri = format!("https://a.example/.well-known/acme-challenge/{number:043}");
        let request = http::Request::get(uri).body(Empty::<Bytes>::new()).unwrap();
        sender.send_request(request)
    };
    catalog.hold();
    for number in 0..3 {
        let called = async {
            while catalog.reads() == number {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        // Dropping the request resets its stream.
        tokio::select! {
            () = called => {}
            answer = ask(number) => panic!("answered: {answer:?}"),
        }
    }
    let answer = tokio::time::timeout(Duration::from_secs(10), ask(3)).await;
    assert_eq!(answer.unwrap().unwrap().status(), 308, "the site's answer");
    assert_eq!(catalog.reads(), 3);
}
