//! Tests limits on bodies.

use std::path::Path;

use bytes::Bytes;
use http::{Method, Version};
use http_body_util::{BodyExt, Full};
use tokio::process::Command;

use crate::common::metrics::figure;
use crate::common::upstream::{OK, Upstream};
use crate::world::{Answer, BOTH, HOST, Upload, World, channel, patiently};

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

/// Uploads `file` with curl over HTTP/2, and returns the status that it saw.
async fn curl(world: &World, file: &Path, with_length: bool) -> String {
    let ca = world.folder.path().join("ca.pem");
    std::fs::write(&ca, world.ca.root_pem()).unwrap();
    let port = world.running.address.port();
    let mut curl = Command::new("curl");
    curl.args(["--http2", "-sS", "-o", "/dev/null", "-w", "%{http_code}"])
        .arg("--cacert")
        .arg(ca)
        .arg("--resolve")
        .arg(format!("{HOST}:{port}:127.0.0.1"))
        .arg("-T");
    match with_length {
        true => curl.arg(file),
        false => curl.arg("-").stdin(std::fs::File::open(file).unwrap()),
    };
    curl.arg(format!("https://{HOST}:{port}/"));
    let output = patiently(curl.output()).await.unwrap();
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}

/// curl 7.88 reads record by record. A reset in the record of the answer hides that.
#[tokio::test]
async fn curl_learns_that_its_upload_is_too_large() {
    let upstream = Upstream::bind().await;
    let world = World::new(&site(&upstream), &[]);
    let file = world.folder.path().join("large");
    std::fs::write(&file, vec![b'x'; 4 << 20]).unwrap();
    for _ in 0..5 {
        assert_eq!(curl(&world, &file, true).await, "413");
    }
    for _ in 0..5 {
        let taking = async {
            upstream.accept().await.rest().await;
        };
        let (status, ()) = tokio::join!(curl(&world, &file, false), taking);
        assert_eq!(status, "413");
    }
}

/// An upstream that answers early gets no more of the body: the stream is reset.
#[tokio::test]
async fn curl_learns_what_an_upstream_answers_to_the_begin_of_its_upload() {
    let upstream = Upstream::bind().await;
    let world = World::new(&upstream.site(), &[]);
    let file = world.folder.path().join("large");
    std::fs::write(&file, vec![b'x'; 32 << 20]).unwrap();
    for with_length in [true, false, true, false] {
        let refusing = async {
            let mut socket = upstream.accept().await;
            socket.head().await;
            socket
                .send(OK.replace("200 OK", "403 Forbidden\r\nConnection: close"))
                .await;
            socket
        };
        let (status, _socket) = tokio::join!(curl(&world, &file, with_length), refusing);
        assert_eq!(status, "403");
    }
}

/// Some clients read no answer before they have sent all of their upload.
#[tokio::test]
async fn an_upload_that_is_too_large_is_discarded_to_its_end() {
    let upstream = Upstream::bind().await;
    let world = World::new(&site(&upstream), &[]);
    for fields in [&[("content-length", "8388608")][..], &[]] {
        let mut client = world.connect(Version::HTTP_2, HOST).await;
        let (sender, body) = channel();
        let answer = client.begin(Method::POST, "/", fields, body);
        let sending = async {
            for _ in 0..8 {
                let piece = Bytes::from(vec![b'x'; 1 << 20]);
                patiently(sender.send(piece)).await.unwrap();
            }
        };
        let (answer, ()) = tokio::join!(answer, sending);
        drop(sender);
        assert_eq!(answer.unwrap().status(), 413);
    }
}

/// Only who sends too much is heard out: any other refusal ends an upload soon.
#[tokio::test]
async fn an_upload_refused_for_another_reason_is_cut_off() {
    let site = r#"{"root": "FOLDER", "rate": {"client": 1}}"#;
    let world = World::new(site, &[("index.html", "x")]);
    let mut client = world.connect(Version::HTTP_2, HOST).await;
    let mut statuses = Vec::new();
    while !statuses.contains(&429) {
        let (sender, body) = channel();
        let sending = async {
            let mut sent = 0;
            let piece = Bytes::from(vec![b'x'; 1 << 20]);
            while patiently(sender.send(piece.clone())).await.is_ok() {
                sent += 1;
                assert!(sent < 64, "64 MiB were read");
            }
        };
        let asking = client.begin(Method::POST, "/", &[], body);
        let (answer, ()) = tokio::join!(asking, sending);
        statuses.push(answer.unwrap().status().as_u16());
    }
    assert_eq!(statuses[0], 405);
}
