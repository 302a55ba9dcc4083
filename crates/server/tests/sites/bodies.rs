//! Tests limits on bodies.

use bytes::Bytes;
use http::Method;
use http_body_util::{BodyExt, Full};

use crate::common::metrics::figure;
use crate::common::upstream::{OK, Upstream};
use crate::world::{Answer, BOTH, HOST, Upload, World, channel};

fn site(upstream: &Upstream) -> String {
    format!(
        r#"{{"upstream": "{}", "body_limit": "1KiB"}}"#,
        upstream.url()
    )
}

fn full(bytes: usize) -> Upload {
    let body = Full::new(Bytes::from(vec![b'x'; bytes]));
    body.map_err(|never| match never {}).boxed()
}

#[tokio::test]
async fn a_long_body_is_refused_before_the_upstream_is_asked() {
    let upstream = Upstream::bind().await;
    let world = World::new(&site(&upstream), &[]);
    for version in BOTH {
        let mut client = world.connect(version, HOST).await;
        let answer = client.begin(Method::POST, "/", &[], full(1025)).await;
        let answer = Answer::of(answer.unwrap()).await.unwrap();
        assert_eq!(answer.status, 413, "{version:?}");
    }
    assert!(upstream.is_alone());
    let name = r#"sekisho_requests_refused_total{reason="body"}"#;
    assert_eq!(figure(&world.running, name).await, 2);
}

#[tokio::test]
async fn a_body_of_the_limit_passes() {
    let upstream = Upstream::bind().await;
    let world = World::new(&site(&upstream), &[]);
    for version in BOTH {
        let mut client = world.connect(version, HOST).await;
        let answering = async {
            let mut socket = upstream.accept().await;
            socket.head().await;
            socket.exact(1024).await;
            socket
                .send(OK.replace("OK", "OK\r\nConnection: close"))
                .await;
        };
        let asking = client.begin(Method::POST, "/", &[], full(1024));
        let (answer, ()) = tokio::join!(asking, answering);
        assert_eq!(answer.unwrap().status(), 200, "{version:?}");
    }
}

#[tokio::test]
async fn a_stream_that_grows_too_long_aborts_the_upstreams_request() {
    let upstream = Upstream::bind().await;
    let world = World::new(&site(&upstream), &[]);
    for version in BOTH {
        let mut client = world.connect(version, HOST).await;
        let (sender, body) = channel();
        let receiving = async {
            sender.send(Bytes::from(vec![b'x'; 500])).await.unwrap();
            let mut socket = upstream.accept().await;
            socket.head().await;
            for _ in 0..2 {
                sender.send(Bytes::from(vec![b'x'; 500])).await.unwrap();
            }
            socket.rest().await
        };
        let asking = client.begin(Method::POST, "/", &[], body);
        let (answer, sent) = tokio::join!(asking, receiving);
        assert_eq!(answer.unwrap().status(), 413, "{version:?}");
        // The last chunk is missing: to the upstream, the request has no end.
        assert!(!sent.ends_with(b"0\r\n\r\n"));
        assert!(sent.len() < 1500, "{}", sent.len());
    }
}

#[tokio::test]
async fn behind_the_head_of_an_answer_a_long_body_ends_both() {
    let upstream = Upstream::bind().await;
    let world = World::new(&site(&upstream), &[]);
    for version in BOTH {
        let mut client = world.connect(version, HOST).await;
        let (sender, body) = channel();
        sender.send(Bytes::from(vec![b'x'; 500])).await.unwrap();
        let answering = async {
            let mut socket = upstream.accept().await;
            socket.head().await;
            socket
                .send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nbegin")
                .await;
            socket
        };
        let asking = client.begin(Method::POST, "/", &[], body);
        let (answer, mut socket) = tokio::join!(asking, answering);
        let answer = answer.unwrap();
        assert_eq!(answer.status(), 200);
        for _ in 0..2 {
            sender.send(Bytes::from(vec![b'x'; 500])).await.unwrap();
        }
        let ended = Answer::of(answer).await;
        assert!(ended.is_err(), "{version:?}: {ended:?}");
        socket.rest().await;
    }
}
