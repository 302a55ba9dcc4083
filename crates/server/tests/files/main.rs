//! Tests sites as a client sees them, through hyper on a real socket.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod partial;
mod paths;
mod server;
mod sites;

use std::fs;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::server::{MODIFIED, Server};

#[tokio::test]
async fn a_file_comes_with_its_type_and_validators() {
    let server = Server::start().await;
    server.write("index.html", "<p>hello");
    server.write("sub/index.html", "<p>sub");
    server.write("empty.txt", "");
    server.write(".well-known/security.txt", "Contact:");
    server.write("bücher & x.txt", "books");
    for (path, kind, body) in [
        ("/", "text/html; charset=utf-8", "<p>hello"),
        ("/?q=/../x", "text/html; charset=utf-8", "<p>hello"),
        ("/index.html", "text/html; charset=utf-8", "<p>hello"),
        ("/sub/", "text/html; charset=utf-8", "<p>sub"),
        ("//sub//", "text/html; charset=utf-8", "<p>sub"),
        ("/empty.txt", "text/plain; charset=utf-8", ""),
        (
            "/.well-known/security.txt",
            "text/plain; charset=utf-8",
            "Contact:",
        ),
        (
            "/b%C3%BCcher%20&%20x.txt",
            "text/plain; charset=utf-8",
            "books",
        ),
    ] {
        for _ in 0..2 {
            let answer = server.get(path, "").await;
            assert_eq!(answer.status(), 200, "{path}");
            assert_eq!(answer.header("content-type"), Some(kind), "{path}");
            assert_eq!(answer.header("last-modified"), Some(MODIFIED));
            assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
            assert_eq!(answer.header("accept-ranges"), Some("bytes"));
            let length = body.len().to_string();
            assert_eq!(answer.header("content-length"), Some(&*length), "{path}");
            assert!(answer.header("etag").unwrap().starts_with('"'));
            assert!(answer.header("date").is_some());
            assert_eq!(answer.body, body.as_bytes(), "{path}");
        }
    }
}

#[tokio::test]
async fn a_directory_without_a_slash_is_redirected() {
    let server = Server::start().await;
    server.write("sub/deep/index.html", "deep");
    for (path, location) in [
        ("/sub", "/sub/"),
        ("/sub/deep?a=b&c", "/sub/deep/?a=b&c"),
        ("//sub", "/sub/"),
        ("/%73ub", "/sub/"),
    ] {
        for _ in 0..2 {
            let answer = server.get(path, "").await;
            assert_eq!(answer.status(), 308, "{path}");
            assert_eq!(answer.header("location"), Some(location), "{path}");
        }
    }
    // The folder exists, but folders are never listed.
    assert_eq!(server.get("/sub/", "").await.status(), 404);
}

#[tokio::test]
async fn only_get_and_head_are_answered() {
    let server = Server::start().await;
    server.write("page.txt", "page");
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "BREW"] {
        let answer = server.request(method, "/page.txt", "").await;
        assert_eq!(answer.status(), 405, "{method}");
        assert_eq!(answer.header("allow"), Some("GET, HEAD"));
    }
    server.write("large.bin", vec![b'x'; 200_000]);
    for (path, length) in [("/page.txt", "4"), ("/large.bin", "200000")] {
        for headers in ["", "Range: bytes=0-1\r\n"] {
            let answer = server.request("HEAD", path, headers).await;
            assert_eq!(answer.status(), 200);
            assert_eq!(answer.header("content-length"), Some(length));
            assert!(answer.body.is_empty());
        }
    }
    let answer = server.request("HEAD", "/missing", "").await;
    assert_eq!((answer.status(), answer.body.len()), (404, 0));
}

#[tokio::test]
async fn a_large_file_arrives_whole() {
    let server = Server::start().await;
    let content: Vec<u8> = (0..3_000_001_u32).map(|n| (n % 251) as u8).collect();
    server.write("large.bin", &content);
    let answer = server.get("/large.bin", "").await;
    assert_eq!(answer.header("content-length"), Some("3000001"));
    assert_eq!(answer.body, content);
}

#[tokio::test]
async fn a_file_cut_while_it_is_sent_breaks_the_answer() {
    let server = Server::start().await;
    server.write("large.bin", vec![b'x'; 32 << 20]);
    let mut socket = TcpStream::connect(server.address).await.unwrap();
    let request = b"GET /large.bin HTTP/1.1\r\nHost: a.example\r\n\r\n";
    socket.write_all(request).await.unwrap();
    // The rest exceeds the socket's buffers.
    let mut head = [0; 1000];
    socket.read_exact(&mut head).await.unwrap();
    let file = fs::File::options()
        .write(true)
        .open(server.path("large.bin"));
    file.unwrap().set_len(1000).unwrap();
    let mut rest = Vec::new();
    // Without `Connection: close`, only a broken answer ends the connection.
    let _ = socket.read_to_end(&mut rest).await;
    assert!(rest.len() + head.len() < 32 << 20, "{}", rest.len());
}

#[tokio::test]
async fn http2_gets_the_same() {
    let server = Server::start().await;
    server.write("small.txt", "page");
    server.write("large.bin", vec![b'x'; 200_000]);
    let socket = TcpStream::connect(server.address).await.unwrap();
    let (mut client, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(socket))
            .await
            .unwrap();
    tokio::spawn(connection);
    for (method, path, range, status, length, body) in [
        ("GET", "/small.txt", "", 200, 4, 4),
        ("HEAD", "/small.txt", "", 200, 4, 0),
        ("GET", "/large.bin", "", 200, 200_000, 200_000),
        ("HEAD", "/large.bin", "", 200, 200_000, 0),
        ("GET", "/large.bin", "bytes=-100000", 206, 100_000, 100_000),
        ("GET", "/missing", "", 404, 14, 14),
    ] {
        let request = hyper::Request::builder()
            .method(method)
            .uri(format!("http://a.example{path}"))
            .header("range", range)
            .body(Empty::<Bytes>::new())
            .unwrap();
        let response = client.send_request(request).await.unwrap();
        assert_eq!(response.status(), status, "{method} {path}");
        assert_eq!(response.headers()["content-length"], length.to_string());
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(bytes.len(), body, "{method} {path}");
    }
}

#[tokio::test]
async fn a_file_with_a_strange_date_is_served() {
    let server = Server::start().await;
    for (name, time) in [
        ("old.txt", UNIX_EPOCH - Duration::from_secs(1000)),
        (
            "future.txt",
            SystemTime::now() + Duration::from_secs(86_400),
        ),
    ] {
        server.write(name, "page");
        let file = fs::File::options()
            .write(true)
            .open(server.path(name))
            .unwrap();
        file.set_modified(time).unwrap();
        let answer = server.get(&format!("/{name}"), "").await;
        assert_eq!(answer.status(), 200, "{name}");
        assert_eq!(answer.header("last-modified"), None, "{name}");
    }
}
