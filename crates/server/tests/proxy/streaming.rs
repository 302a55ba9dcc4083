//! Bodies that stream, with back-pressure, trailers and `Expect`.

use std::time::{Duration, Instant};

use crate::common::LIMITS;
use crate::world::{HOST, OK, Upstream, World, field, status};

const GET: &str = "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n";

#[tokio::test]
async fn bytes_pass_as_they_come() {
    let upstream = Upstream::bind().await;
    let world = World::new(&upstream.site());
    let mut client = world.connect().await;
    client
        .send("POST / HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n")
        .await;
    let mut server = upstream.accept().await;
    server.head().await;
    assert_eq!(server.until("a\r\n").await, "1\r\na\r\n");
    server
        .send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n")
        .await;
    assert_eq!(status(&client.head().await), 200);
    assert_eq!(client.until("x\r\n").await, "1\r\nx\r\n");
    // Both directions go on after the head of the answer.
    client.send("1\r\nb\r\n").await;
    assert_eq!(server.until("b\r\n").await, "1\r\nb\r\n");
    server.send("1\r\ny\r\n").await;
    assert_eq!(client.until("y\r\n").await, "1\r\ny\r\n");
    client.send("0\r\n\r\n").await;
    assert_eq!(server.until("\r\n\r\n").await, "0\r\n\r\n");
    server.send("0\r\n\r\n").await;
    assert_eq!(client.until("\r\n\r\n").await, "0\r\n\r\n");
    client.send(GET).await;
    server.head().await;
}

/// Only what is whole in memory waits for the end of the connection.
#[tokio::test]
async fn the_last_answer_passes_as_it_comes() {
    for request in [
        "GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n",
        "GET / HTTP/1.0\r\nHost: a.example\r\n\r\n",
    ] {
        let upstream = Upstream::bind().await;
        let world = World::new(&upstream.site());
        let mut client = world.connect().await;
        client.send(request).await;
        let mut server = upstream.accept().await;
        server.head().await;
        server
            .send("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n")
            .await;
        assert_eq!(status(&client.head().await), 200);
        for byte in ["a", "b", "c"] {
            server.send(byte).await;
            assert_eq!(client.until(byte).await, byte);
        }
        assert!(client.rest().await.is_empty());
    }
}

#[tokio::test]
async fn an_answer_waits_for_its_reader() {
    let upstream = Upstream::bind().await;
    let world = World::new(&upstream.site());
    let mut client = world.connect().await;
    client.send(GET).await;
    let mut server = upstream.accept().await;
    server.head().await;
    let size = 64 << 20;
    server
        .send(format!("HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n"))
        .await;
    client.head().await;
    // The client reads nothing: the upstream can't send much.
    let chunk = vec![b'x'; 64 << 10];
    let mut sent = 0;
    while sent < size
        && tokio::time::timeout(Duration::from_millis(500), server.send(&chunk))
            .await
            .is_ok()
    {
        sent += chunk.len();
    }
    assert!(sent < size / 2, "{sent} bytes are buffered");
}

#[tokio::test]
async fn an_upload_waits_for_its_reader() {
    let upstream = Upstream::bind().await;
    let world = World::new(&upstream.site());
    let mut client = world.connect().await;
    let size = 64 << 20;
    client
        .send(format!(
            "POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: {size}\r\n\r\n"
        ))
        .await;
    let mut server = upstream.accept().await;
    server.head().await;
    let chunk = vec![b'x'; 64 << 10];
    let mut sent = 0;
    while sent < size
        && tokio::time::timeout(Duration::from_millis(500), client.send(&chunk))
            .await
            .is_ok()
    {
        sent += chunk.len();
    }
    assert!(sent < size / 2, "{sent} bytes are buffered");
}

#[tokio::test]
async fn trailers_pass_both_ways() {
    let upstream = Upstream::bind().await;
    let world = World::new(&upstream.site());
    let mut client = world.connect().await;
    client
        .send(
            "POST / HTTP/1.1\r\nHost: a.example\r\nTE: trailers\r\nTransfer-Encoding: chunked\r\n\
             Trailer: x-sum, x-forwarded-for, host\r\n\r\n1\r\na\r\n0\r\nX-Sum: 1\r\n\
             X-Forwarded-For: 192.0.2.1\r\nHost: evil\r\n\r\n",
        )
        .await;
    let mut server = upstream.accept().await;
    let head = server.head().await;
    assert_eq!(
        field(&head, "trailer").as_deref(),
        Some("x-sum, x-forwarded-for, host")
    );
    assert_eq!(
        server.until("\r\n\r\n").await,
        "1\r\na\r\n0\r\nx-sum: 1\r\n\r\n"
    );
    server
        .send(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: x-end\r\n\r\n\
             1\r\nb\r\n0\r\nX-End: 2\r\nSet-Cookie: evil\r\n\r\n",
        )
        .await;
    client.head().await;
    assert_eq!(
        client.until("\r\n\r\n").await,
        "1\r\nb\r\n0\r\nx-end: 2\r\n\r\n"
    );
}

#[tokio::test]
async fn a_client_that_expects_100_sends_its_body_when_the_upstream_asks() {
    let upstream = Upstream::bind().await;
    let world = World::new(&upstream.site());
    let mut client = world.connect().await;
    let request =
        "POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n";
    client.send(request).await;
    let mut server = upstream.accept().await;
    let head = server.head().await;
    assert_eq!(field(&head, "expect").as_deref(), Some("100-continue"));
    server.send("HTTP/1.1 100 Continue\r\n\r\n").await;
    assert_eq!(client.head().await, "HTTP/1.1 100 Continue\r\n\r\n");
    client.send("ab").await;
    assert_eq!(server.exact(2).await, b"ab");
    server.send(OK).await;
    assert_eq!(client.answer().await.1, "ok");
    // An upstream that knows no 100 gets the body all the same.
    client.send(request).await;
    server.head().await;
    assert_eq!(client.head().await, "HTTP/1.1 100 Continue\r\n\r\n");
    client.send("cd").await;
    assert_eq!(server.exact(2).await, b"cd");
    server.send(OK).await;
    assert_eq!(client.answer().await.1, "ok");
    // A refusal comes without a body.
    client.send(request).await;
    server.head().await;
    server
        .send("HTTP/1.1 417 Expectation Failed\r\nContent-Length: 0\r\n\r\n")
        .await;
    assert_eq!(status(&client.head().await), 417);
    server.closed().await;
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused_while_it_comes() {
    let upstream = Upstream::bind().await;
    let site = format!(
        r#"{{"upstream": "http://{}", "body_limit": "4B"}}"#,
        upstream.address()
    );
    let world = World::with(LIMITS, &[(HOST, &site)]);
    let mut client = world.connect().await;
    client
        .send(
            "POST / HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n\
             5\r\nabcde\r\n0\r\n\r\n",
        )
        .await;
    assert_eq!(status(&client.head().await), 413);
    // The request may end before its head is sent.
    let rest = upstream.accept().await.rest().await;
    assert!(!String::from_utf8_lossy(&rest).contains("abcd"));
}

#[tokio::test]
async fn a_body_waits_for_100_whatever_else_comes() {
    let upstream = Upstream::bind().await;
    let world = World::new(&upstream.site());
    let mut client = world.connect().await;
    let begun = Instant::now();
    client
        .send("POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n")
        .await;
    let mut server = upstream.accept().await;
    server.head().await;
    server.send("HTTP/1.1 103 Early Hints\r\n\r\n").await;
    // The upstream asks for no body, which comes once a second is over.
    assert_eq!(client.head().await, "HTTP/1.1 100 Continue\r\n\r\n");
    assert!(begun.elapsed() >= Duration::from_secs(1));
}
