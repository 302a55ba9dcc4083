//! Requests of clients that two servers could read differently.

use crate::world::{OK, Upstream, World, field, status};

/// Sends a request, and returns the status that the server answers with.
async fn refused(world: &World, upstream: &Upstream, request: &str) -> u16 {
    let answer = world.exchange(request).await;
    assert!(upstream.is_alone(), "passed on: {request}");
    assert_eq!(
        answer.matches("HTTP/1.1 ").count(),
        1,
        "{request}: {answer}"
    );
    status(&answer)
}

#[tokio::test]
async fn ambiguous_requests_are_not_passed_on() {
    let upstream = Upstream::bind().await;
    let world = World::new(&upstream.site());
    let with = |fields: &str, body: &str| {
        format!("POST / HTTP/1.1\r\nHost: a.example\r\n{fields}\r\n{body}")
    };
    for (request, wanted) in [
        (
            with("Content-Length: 3\r\nContent-Length: 4\r\n", "abcd"),
            400,
        ),
        (with("Content-Length: 3, 4\r\n", "abcd"), 400),
        (with("Content-Length: +3\r\n", "abc"), 400),
        (
            with("Content-Length: 3\r\nContent-Length: x\r\n", "abc"),
            400,
        ),
        (with("Transfer-Encoding: gzip\r\n", ""), 400),
        (
            with("Transfer-Encoding: chunked, gzip\r\n", "0\r\n\r\n"),
            400,
        ),
        (
            with("Transfer-Encoding: gzip, chunked\r\n", "0\r\n\r\n"),
            501,
        ),
        (
            with("Transfer-Encoding: chunked, chunked\r\n", "0\r\n\r\n"),
            400,
        ),
        (with("Transfer-Encoding: xchunked\r\n", "0\r\n\r\n"), 400),
        (with("Transfer-Encoding : chunked\r\n", "0\r\n\r\n"), 400),
        (with("X: a\r\n b\r\n", ""), 400),
        (with("X: a\0b\r\n", ""), 400),
        (with("X: a\rb\r\n", ""), 400),
        (
            "POST / HTTP/1.0\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
                .into(),
            400,
        ),
        (
            "GET / HTTP/1.1\r\nHost: a.example\r\nHost: a.example\r\n\r\n".into(),
            400,
        ),
        (
            "GET / HTTP/1.1\r\nHost: a.example, b.example\r\n\r\n".into(),
            400,
        ),
        (
            "GET http://b.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n".into(),
            421,
        ),
        (
            "CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n\r\n".into(),
            400,
        ),
        ("GET /a b HTTP/1.1\r\nHost: a.example\r\n\r\n".into(), 400),
        (
            "GET /%00 HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n".into(),
            400,
        ),
        (
            "GET /..%2f HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n".into(),
            400,
        ),
    ] {
        let request = request.replace("HTTP/1.1\r\nHost", "HTTP/1.1\r\nConnection: close\r\nHost");
        let status = refused(&world, &upstream, &request).await;
        assert!(
            status == wanted || (status, wanted) == (0, 400),
            "{status}: {request}"
        );
    }
}

/// Servers that take the one and those that take the other find different requests.
#[tokio::test]
async fn a_length_beside_chunked_is_refused() {
    let upstream = Upstream::bind().await;
    let world = World::new(&upstream.site());
    let coding = "Transfer-Encoding: chunked\r\n";
    for length in [
        "Content-Length: 100\r\n",
        "content-length:13\r\n",
        "X: y\r\nContent-Length: x\r\n",
    ] {
        for fields in [format!("{length}{coding}"), format!("{coding}{length}")] {
            let request = format!(
                "POST / HTTP/1.1\r\nHost: a.example\r\n{fields}\r\n3\r\nabc\r\n0\r\n\r\n\
                 GET /smuggled HTTP/1.1\r\nHost: a.example\r\n\r\n"
            );
            assert_eq!(refused(&world, &upstream, &request).await, 400, "{request}");
            // In pieces, too.
            let mut client = world.connect().await;
            for byte in request.as_bytes() {
                client.send([*byte]).await;
            }
            let answer = String::from_utf8(client.rest().await).unwrap();
            assert_eq!(status(&answer), 400, "{request}");
            assert!(upstream.is_alone(), "passed on: {request}");
        }
    }
}

/// A length belongs to its own request.
#[tokio::test]
async fn a_chunked_request_follows_one_with_a_length() {
    let upstream = Upstream::bind().await;
    let world = World::new(&upstream.site());
    let mut heads = upstream.answering("HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
    let host = "HTTP/1.1\r\nHost: a.example\r\n";
    let requests = format!(
        "POST /1 {host}Content-Length: 2\r\n\r\nab\
         POST /2 {host}Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    );
    let answers = world.exchange(&requests).await;
    assert_eq!(answers.matches("HTTP/1.1 204 ").count(), 2, "{answers}");
    for path in 1..=2 {
        let head = heads.recv().await.unwrap();
        assert!(head.starts_with(&format!("POST /{path} ")), "{head}");
    }
}

#[tokio::test]
async fn a_body_is_framed_anew() {
    let upstream = Upstream::bind().await;
    let world = World::new(&upstream.site());
    let mut client = world.connect().await;
    client
        .send(
            "PUT /a HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: Chunked\r\n\r\n\
             2;ext=\"a;b\"\r\nab\r\n0001\r\nc\r\n0\r\n\r\n",
        )
        .await;
    let mut server = upstream.accept().await;
    server.head().await;
    let mut body = String::new();
    let chunks = server.until("0\r\n\r\n").await;
    for line in chunks.split("\r\n").skip(1).step_by(2) {
        body.push_str(line);
    }
    assert_eq!(body, "abc");
    assert!(!chunks.contains("ext"), "{chunks}");
    server.send(OK).await;
    client.answer().await;
    client
        .send("PUT /b HTTP/1.1\r\nHost: a.example\r\nContent-Length: 2\r\n\r\nab")
        .await;
    let head = server.head().await;
    assert_eq!(field(&head, "content-length").as_deref(), Some("2"));
    assert_eq!(server.exact(2).await, b"ab");
    server.send(OK).await;
    client.answer().await;
    client
        .send("POST /c HTTP/1.1\r\nHost: a.example\r\nContent-Length: 0\r\n\r\n")
        .await;
    let head = server.head().await;
    assert_eq!(field(&head, "content-length").as_deref(), Some("0"));
}

#[tokio::test]
async fn chunks_that_are_none_end_the_request_at_the_upstream() {
    let blanks = " ".repeat(5000);
    for chunks in [
        // 17 digits, of which none, some and all count.
        "00000000000000005\r\nhello\r\n0\r\n\r\n",
        "10000000000000005\r\nhello\r\n0\r\n\r\n",
        "fffffffffffffffff\r\nhello\r\n0\r\n\r\n",
        "5\r\nhello\r\n00000000000000000\r\n\r\n",
        // 16 digits, beyond what any server counts.
        "ffffffffffffffff\r\nhello\r\n0\r\n\r\n",
        &format!("5{blanks}\r\nhello\r\n0\r\n\r\n"),
        &format!("5;{blanks}\r\nhello\r\n0\r\n\r\n"),
        // The line must not end where it got too long, at the X.
        &format!("5;{}Xabc\r\n0\r\n\r\n", "a".repeat(4094)),
        "\r\nhello\r\n0\r\n\r\n",
        " 5\r\nhello\r\n0\r\n\r\n",
        "-1\r\n\r\n",
        "0x5\r\nhello\r\n0\r\n\r\n",
        "5\nhello\n0\n\n",
        "5 \thello\r\n0\r\n\r\n",
        "3\r\nabcd\r\n0\r\n\r\n",
        "g\r\n\r\n",
    ] {
        let upstream = Upstream::bind().await;
        let world = World::new(&upstream.site());
        let mut client = world.connect().await;
        client
            .send(format!(
                "POST / HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}"
            ))
            .await;
        let mut server = upstream.accept().await;
        // The request may end before its head is sent.
        server.next_head().await;
        client.shutdown().await;
        let body = String::from_utf8(server.rest().await).unwrap();
        assert!(!body.ends_with("0\r\n\r\n"), "{chunks:?}: {body:?}");
        let answer = String::from_utf8(client.rest().await).unwrap();
        let digits = chunks.bytes().take_while(u8::is_ascii_hexdigit).count();
        assert!(
            status(&answer) == 400 || (answer.is_empty() && digits < 16),
            "{chunks:?}: {answer}"
        );
    }
}

#[tokio::test]
async fn an_absolute_target_sets_the_host() {
    let upstream = Upstream::bind().await;
    let world = World::new(&upstream.site());
    let mut client = world.connect().await;
    client
        .send("GET https://a.example:8443/x?y HTTP/1.1\r\nHost: b.example\r\n\r\n")
        .await;
    let head = upstream.accept().await.head().await;
    assert!(head.starts_with("GET /x?y HTTP/1.1\r\n"), "{head}");
    assert_eq!(field(&head, "host").as_deref(), Some("a.example:8443"));
    assert_eq!(
        field(&head, "x-forwarded-host").as_deref(),
        Some("a.example:8443")
    );
}

/// Servers that take LF alone for the end of a line, and those that do not, find
/// different requests in the same bytes.
#[tokio::test]
async fn a_bare_lf_in_a_head_is_refused() {
    let upstream = Upstream::bind().await;
    let world = World::new(&upstream.site());
    for request in [
        "\nGET / HTTP/1.1\r\nHost: a.example\r\n\r\n",
        "GET / HTTP/1.1\nHost: a.example\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a.example\nX: y\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a.example\r\nX: y\n\r\n",
        "GET / HTTP/1.1\r\nHost: a.example\r\n\n",
        "GET / HTTP/1.1\nHost: a.example\n\n",
        "POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 1\n\r\nx",
    ] {
        assert_eq!(refused(&world, &upstream, request).await, 400, "{request}");
        // In pieces, too.
        let mut client = world.connect().await;
        for byte in request.as_bytes() {
            client.send([*byte]).await;
        }
        let answer = String::from_utf8(client.rest().await).unwrap();
        assert_eq!(status(&answer), 400, "{request}");
        assert!(upstream.is_alone(), "passed on: {request}");
    }
}

#[tokio::test]
async fn a_bare_lf_behind_a_body_is_refused() {
    let upstream = Upstream::bind().await;
    let world = World::new(&upstream.site());
    let second = "GET /second HTTP/1.1\nHost: a.example\r\n\r\n";
    for (framing, body) in [
        ("Content-Length: 4", "a\nb\n"),
        ("Transfer-Encoding: chunked", "2\r\n\n\n\r\n0\r\n\r\n"),
        (
            "Transfer-Encoding: chunked",
            "1;x=\"y\"\r\n\n\r\n0\r\nT: u\r\n\r\n",
        ),
    ] {
        let mut client = world.connect().await;
        client
            .send(format!(
                "POST / HTTP/1.1\r\nHost: a.example\r\n{framing}\r\n\r\n{body}{second}"
            ))
            .await;
        let mut server = upstream.accept().await;
        let head = server.head().await;
        assert!(head.starts_with("POST / "), "{head}");
        server
            .send("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok")
            .await;
        let answers = String::from_utf8(client.rest().await).unwrap();
        assert!(answers.starts_with("HTTP/1.1 200 OK\r\n"), "{answers}");
        assert!(answers.contains("HTTP/1.1 400 "), "{answers}");
        assert!(upstream.is_alone());
    }
}

#[tokio::test]
async fn a_bare_lf_in_trailers_is_refused() {
    let upstream = Upstream::bind().await;
    let world = World::new(&upstream.site());
    let answer = world
        .exchange(
            "POST / HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n\
             1\r\nx\r\n0\r\nT: u\nContent-Length: 0\r\n\r\n",
        )
        .await;
    assert_eq!(status(&answer), 400, "{answer}");
}

/// Heads are handed to hyper one by one: each request must be answered all the same.
#[tokio::test]
async fn pipelined_requests_with_bodies_are_all_answered() {
    let upstream = Upstream::bind().await;
    let site = upstream.site();
    let mut heads = upstream.answering("HTTP/1.1 204 No Content\r\n\r\n");
    let world = World::new(&site.replace('}', r#", "body_limit": "1MiB"}"#));
    let host = "HTTP/1.1\r\nHost: a.example\r\n";
    let requests = format!(
        "GET /1 {host}\r\n\r\nGET /2 {host}Content-Length: 0\r\n\r\n\
         GET /3 {host}\r\nGET /4 {host}Connection: close\r\n\r\n"
    );
    let answers = world.exchange(&requests).await;
    assert_eq!(answers.matches("HTTP/1.1 204 ").count(), 4, "{answers}");
    for path in 1..=4 {
        let head = heads.recv().await.unwrap();
        assert!(head.starts_with(&format!("GET /{path} ")), "{head}");
    }
}
