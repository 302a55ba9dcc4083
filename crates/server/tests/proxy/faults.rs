//! Upstreams that break the protocol, or are not there.

use sekisho_testkit::client;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::world::{HOST, OK, Upstream, World, field, status};

const GET: &str = "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n";

/// Has an upstream send bytes and close, and returns what the client gets before
/// its connection ends.
async fn answered(answer: &str) -> String {
    let upstream = Upstream::bind().await;
    let world = World::new(&upstream.site());
    let mut client = world.connect().await;
    client
        .send("GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n")
        .await;
    let mut server = upstream.accept().await;
    server.head().await;
    server.send(answer).await;
    drop(server);
    String::from_utf8_lossy(&client.rest().await).into_owned()
}

#[tokio::test]
async fn what_is_no_answer_is_502() {
    let long = format!(
        "HTTP/1.1 200 OK\r\nX: {}\r\nContent-Length: 0\r\n\r\n",
        "x".repeat(64 << 10)
    );
    let early = format!("{}{OK}", "HTTP/1.1 103 Early Hints\r\n\r\n".repeat(9));
    for answer in [
        "",
        "HTTP/1.1 200",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n",
        "SSH-2.0-OpenSSH\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nab",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nab",
        "HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\nab",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\nab",
        "HTTP/1.1 200 OK\r\nX : 1\r\nContent-Length: 2\r\n\r\nab",
        "HTTP/1.1 200 OK\r\nX: 1\r\n 2\r\nContent-Length: 2\r\n\r\nab",
        "HTTP/1.1 200 OK\r\nX: \0\r\nContent-Length: 2\r\n\r\nab",
        "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nx",
        "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nabc",
        "HTTP/1.1 103 Early Hints\r\n\r\n",
        &long,
        &early,
    ] {
        let got = answered(answer).await;
        assert_eq!(status(&got), 502, "{answer:.60}: {got:.100}");
        assert_eq!(got.matches("HTTP/1.1 ").count(), 1, "{got}");
    }
}

/// RFC 9112, section 9.8: without close_notify, a client knows that an answer without a
/// length may be cut off.
#[tokio::test]
async fn an_answer_that_is_cut_off_ends_without_close_notify() {
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n";
    for (version, end, polite) in [
        ("1.0", "", false),
        ("1.1", "", false),
        ("1.0", "0\r\n\r\n", true),
    ] {
        let upstream = Upstream::bind().await;
        let world = World::new(&upstream.site());
        let config = client::config(&world.ca);
        let client = client::connect(world.running.address, HOST, config).await;
        let mut client = client.unwrap();
        let request = format!("GET / HTTP/{version}\r\nHost: {HOST}\r\nConnection: close\r\n\r\n");
        client.write_all(request.as_bytes()).await.unwrap();
        let mut server = upstream.accept().await;
        server.head().await;
        server.send(head).await;
        let mut answer = [0; 1024];
        let mut read = 0;
        while !answer[..read].windows(5).any(|five| five == b"first") {
            read += client.read(&mut answer[read..]).await.unwrap();
        }
        server.send(end).await;
        drop(server);
        let ended = client.read_to_end(&mut Vec::new()).await;
        assert_eq!(ended.is_ok(), polite, "{version}: {ended:?}");
    }
}

#[tokio::test]
async fn informational_answers_are_passed_over() {
    let early = format!(
        "{}{OK}",
        "HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n".repeat(8)
    );
    assert!(answered(&early).await.ends_with("\r\n\r\nok"));
}

#[tokio::test]
async fn a_large_head_is_passed_on() {
    let answer = format!(
        "HTTP/1.1 200 OK\r\nX: {}\r\nContent-Length: 2\r\n\r\nok",
        "x".repeat(60 << 10)
    );
    let got = answered(&answer).await;
    assert_eq!(field(&got, "x").unwrap().len(), 60 << 10);
}

#[tokio::test]
async fn an_answer_that_is_cut_looks_cut_to_the_client() {
    let half = answered("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf").await;
    assert!(half.ends_with("\r\n\r\nhalf"), "{half}");
    assert_eq!(field(&half, "content-length").as_deref(), Some("10"));
    // The end of the connection may come with the head, or behind it.
    let none = answered("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n").await;
    match status(&none) {
        200 => assert!(none.ends_with("\r\n\r\n"), "{none}"),
        other => assert_eq!(other, 502, "{none}"),
    }
    for chunks in [
        "5\r\nab",
        "2\r\nab\r\n",
        "2\r\nab\r\nx",
        "2\r\nabc\r\n0\r\n\r\n",
        "2\r\nab\r\n0\r\n",
    ] {
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        let got = answered(&format!("{head}{chunks}")).await;
        assert!(!got.ends_with("0\r\n\r\n"), "{chunks:?}: {got}");
        assert!(matches!(status(&got), 200 | 502), "{got}");
    }
    // Without a length, the end of the connection ends the body.
    let got = answered("HTTP/1.1 200 OK\r\n\r\nall").await;
    assert_eq!(status(&got), 200);
    assert!(got.contains("all"), "{got}");
}

#[tokio::test]
async fn bytes_behind_an_answer_answer_no_other_request() {
    let upstream = Upstream::bind().await;
    let world = World::new(&upstream.site());
    let mut client = world.connect().await;
    for behind in [OK, "x", "\r\n"] {
        client.send(GET).await;
        let mut server = upstream.accept().await;
        server.head().await;
        server
            .send(format!(
                "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfirst{behind}"
            ))
            .await;
        let (_, body) = client.answer().await;
        assert_eq!(body, "first");
        // The connection ends, and the next request takes another.
        server.closed().await;
    }
}

#[tokio::test]
async fn an_upstream_that_is_gone_is_502() {
    let upstream = Upstream::bind().await;
    let gone = upstream.site();
    drop(upstream);
    for (site, wanted) in [
        (&*gone, 502),
        (r#"{"upstream": "http://absent.invalid:80"}"#, 502),
        (r#"{"upstream": "unix:/tmp/sekisho-absent.sock"}"#, 502),
    ] {
        let world = World::new(site);
        let mut client = world.connect().await;
        for _ in 0..2 {
            client.send(GET).await;
            let (head, _) = client.answer().await;
            assert_eq!(status(&head), wanted, "{site}");
        }
    }
}

#[tokio::test]
async fn an_upstream_that_closes_at_once_is_502() {
    let upstream = Upstream::bind().await;
    let world = World::new(&upstream.site());
    let mut client = world.connect().await;
    for request in [
        GET,
        "POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 2\r\n\r\nab",
    ] {
        client.send(request).await;
        drop(upstream.accept().await);
        assert_eq!(status(&client.answer().await.0), 502);
        assert!(upstream.is_alone());
    }
}

#[tokio::test]
async fn an_upstream_that_is_not_allowed_is_503() {
    for url in [
        "http://192.0.2.1:80",
        "http://[2001:db8::1]",
        "unix:/run/a.sock",
    ] {
        let world = World::new(&format!(r#"{{"upstream": "{url}"}}"#));
        let mut client = world.connect().await;
        client.send(GET).await;
        let (head, _) = client.answer().await;
        // A connection in vain would be 502 or 504.
        assert_eq!(status(&head), 503, "{url}: {head}");
        assert_eq!(
            world.running.responder.refused().upstreams.get(),
            1,
            "{url}"
        );
    }
}
