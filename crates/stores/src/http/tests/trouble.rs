//! Answers that break off, never end or never come.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sekisho_testkit::{Answer as Says, Key, TestCa};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::runtime::Handle;

use super::rig::{HASTY, Rig, bundle, find};
use crate::Options;
use crate::http::Http;
use crate::tiers::Tiers;
use sekisho_certs::host::HostName;
use sekisho_certs::seal::OpenKey;
use sekisho_certs::store::{Answer, Store, StoreError};

#[tokio::test]
async fn a_host_without_an_answer_fails_in_time() {
    for http2 in [false, true] {
        let rig = Rig::with(http2, HASTY);
        rig.says(
            "a.example",
            Says::status(404).after(Duration::from_secs(600)),
        );
        let begun = Instant::now();
        let error = rig.failed("a.example").await;
        assert!(
            error.to_string().contains("no answer within 500ms"),
            "{error}"
        );
        assert!(begun.elapsed() < Duration::from_secs(5));
        // A name that hangs keeps no other from being answered.
        assert!(rig.absent("b.example").await);
    }
}

/// The endpoint's breaker opens only if several hosts in a row get no answer.
#[tokio::test]
async fn one_host_that_hangs_shuts_the_endpoint_off_for_no_other() {
    let deadline = Duration::from_millis(100);
    let rig = Rig::with(true, deadline);
    let hangs = || Says::status(404).after(Duration::from_secs(600));
    rig.says("a.example", hangs());
    rig.put("b.example");
    let url = format!("https://{}/{{host}}", rig.endpoint.address);
    let store = Tiers::plain(Arc::new(
        rig.store(&url, &Options::default(), deadline).unwrap(),
    ));
    let ask = async |name: &str| store.find(&HostName::parse(name).unwrap()).await;
    for _ in 0..15 {
        let error = ask("a.example").await.unwrap_err();
        assert!(matches!(error, StoreError::Failed(_)), "{error}");
    }
    assert!(ask("b.example").await.unwrap().found.is_some());

    rig.endpoint.otherwise(hangs());
    rig.says("b.example", hangs());
    let begun = Instant::now();
    let mut number = 0;
    let asked = |number: u32| rig.times(&format!("h{number}.other"));
    while number == 0 || asked(number - 1) > 0 {
        assert!(begun.elapsed() < Duration::from_secs(20));
        ask(&format!("h{number}.other")).await.unwrap_err();
        number += 1;
    }
    assert!((10..=20).contains(&number), "{number}");
}

/// The server takes the connection, and not even the handshake goes on.
#[tokio::test]
async fn a_handshake_that_hangs_fails_in_time() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let rig = Rig::new(true);
    for scheme in ["http", "https"] {
        let url = format!("{scheme}://{address}/{{host}}");
        let store = rig.store(&url, &Options::default(), HASTY).unwrap();
        let error = find(&store, "a.example").await.unwrap_err();
        assert!(matches!(error, StoreError::Failed(_)), "{error}");
    }
}

#[tokio::test]
async fn a_whole_answer_is_found() {
    let body = pem();
    let length = body.len();
    for head in [
        format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}"),
        format!("HTTP/1.0 200 OK\r\nContent-Length: {length}\r\n\r\n{body}"),
        format!(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{}0\r\n\r\n",
            chunk(&body)
        ),
    ] {
        let found = answered(head, Then::Close).await;
        assert!(
            matches!(found, Ok(Answer { found: Some(_), .. })),
            "{found:?}"
        );
    }
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_failed() {
    let body = pem();
    let length = body.len() + 1;
    // A whole bundle seems to arrive: only the framing tells that it is not.
    for answer in [
        format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}"),
        format!(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{}",
            chunk(&body)
        ),
        "HTTP/1.1 200 O".to_owned(),
        "nonsense\r\n\r\n".to_owned(),
        String::new(),
    ] {
        let failed = answered(answer, Then::Close).await;
        assert!(
            matches!(failed, Err(StoreError::Unavailable(_))),
            "{failed:?}"
        );
    }
    let endless = format!("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{body}");
    match answered(endless, Then::Close).await {
        Err(StoreError::Corrupt(text)) => assert!(text.contains("Content-Length"), "{text}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_body_that_does_not_end_is_too_late() {
    let body = pem();
    for answer in [
        "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n".to_owned(),
        format!(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{}",
            chunk(&body)
        ),
        "HTTP/1.1 200 OK\r\nX-Half: ".to_owned(),
    ] {
        let failed = answered(answer, Then::Wait).await;
        assert!(matches!(failed, Err(StoreError::Failed(_))), "{failed:?}");
    }
    // The status alone says it all: nobody reads the page to its end.
    let page = "HTTP/1.1 404 Not Found\r\nContent-Length: 1000\r\n\r\nno";
    let absent = answered(page.to_owned(), Then::Wait).await;
    assert!(
        matches!(absent, Ok(Answer { found: None, .. })),
        "{absent:?}"
    );
}

#[tokio::test]
async fn a_body_that_is_too_large_is_failed() {
    let large = "HTTP/1.1 200 OK\r\nContent-Length: 262145\r\n\r\n";
    let endless = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    for (head, then) in [(large, Then::Wait), (endless, Then::Chunks)] {
        match answered(head.to_owned(), then).await {
            Err(StoreError::Corrupt(text)) => assert!(text.contains("over 262144 bytes"), "{text}"),
            other => panic!("{other:?}"),
        }
    }
    // An answer of one byte less is read, and is then no pair.
    let rig = Rig::new(true);
    for (size, says) in [(262_144, "no certificate"), (262_145, "over 262144 bytes")] {
        rig.says("a.example", Says::ok("x".repeat(size)));
        let text = rig.failed("a.example").await.to_string();
        assert!(text.contains(says), "{text}");
    }
}

#[tokio::test]
async fn a_head_that_is_too_large_is_failed() {
    let long = format!("HTTP/1.1 200 OK\r\nX-Long: {}\r\n\r\n", "x".repeat(1 << 20));
    let failed = answered(long, Then::Close).await;
    assert!(
        matches!(failed, Err(StoreError::Unavailable(_))),
        "{failed:?}"
    );
    let rig = Rig::new(true);
    rig.put_with("a.example", |answer| {
        answer.with("x-long", &"x".repeat(20_000))
    });
    rig.failed("a.example").await;
}

/// Behaviour of the other side behind its answer.
#[derive(Clone, Copy)]
enum Then {
    Close,
    Wait,
    /// Sends more, without an end.
    Chunks,
}

/// Asks an endpoint that sends exactly this for each request.
async fn answered(answer: String, then: Then) -> sekisho_certs::store::Result<Answer<OpenKey>> {
    let address = raw(answer, then).await;
    let url = format!("http://{address}/{{host}}");
    let store = Http::new(
        url.parse().unwrap(),
        &Options::default(),
        HASTY,
        Handle::current(),
    );
    find(&store.unwrap(), "example").await
}

async fn raw(answer: String, then: Then) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut socket, _) = listener.accept().await.unwrap();
            let answer = answer.clone();
            tokio::spawn(async move {
                let mut head = [0; 4096];
                let _ = socket.read(&mut head).await;
                let _ = socket.write_all(answer.as_bytes()).await;
                match then {
                    Then::Close => {
                        // Until the client has read it: a reset would lose it.
                        let _ = socket.shutdown().await;
                        let _ = socket.read(&mut head).await;
                    }
                    Then::Wait => std::future::pending().await,
                    Then::Chunks => {
                        let chunk = chunk(&"x".repeat(4096));
                        while socket.write_all(chunk.as_bytes()).await.is_ok() {}
                    }
                }
            });
        }
    });
    address
}

fn pem() -> String {
    bundle(&TestCa::new().issue(&["a.example"], Key::P256))
}

fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}
