//! Which connections requests share, and which requests are sent again.

use crate::common::{LIMITS, Setup};
use crate::world::{OK, Upstream, World, status};

const GET: &str = "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n";
const POST: &str = "POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 2\r\n\r\nab";

/// Starts a server with one worker: connections belong to workers.
fn world(upstream: &Upstream) -> World {
    let limits = sekisho_server::Limits {
        workers: 1,
        ..LIMITS
    };
    World::with(limits, &[("a.example", &upstream.site())])
}

#[tokio::test]
async fn requests_follow_each_other_on_one_connection() {
    let upstream = Upstream::bind().await;
    let world = world(&upstream);
    let (mut one, mut other) = (world.connect().await, world.connect().await);
    one.send(GET).await;
    let mut server = upstream.accept().await;
    server.head().await;
    server.send(OK).await;
    assert_eq!(one.answer().await.1, "ok");
    for client in [&mut one, &mut other] {
        for answer in [
            OK,
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: x\r\n\r\n2\r\nok\r\n0\r\nx: 1\r\n\r\n",
        ] {
            client.send(GET).await;
            server.head().await;
            server.send(answer).await;
            assert_eq!(status(&client.head().await), 200);
            client.until("ok").await;
            if answer.contains("chunked") {
                client.until("0\r\n\r\n").await;
            }
        }
    }
    assert!(upstream.is_alone());
}

#[tokio::test]
async fn a_connection_is_not_used_again_after_close() {
    for answer in [
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok",
        "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nKeep-Alive: timeout=1\r\n\r\nok",
    ] {
        let upstream = Upstream::bind().await;
        let world = world(&upstream);
        let mut client = world.connect().await;
        for _ in 0..2 {
            client.send(GET).await;
            let mut server = upstream.accept().await;
            server.head().await;
            server.send(answer).await;
            assert_eq!(client.answer().await.1, "ok");
            server.closed().await;
        }
    }
}

#[tokio::test]
async fn an_early_answer_ends_the_connection() {
    let upstream = Upstream::bind().await;
    let world = world(&upstream);
    let mut client = world.connect().await;
    client
        .send("POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 100000\r\n\r\nabc")
        .await;
    let mut server = upstream.accept().await;
    server.head().await;
    server.exact(3).await;
    server
        .send("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno")
        .await;
    assert_eq!(status(&client.head().await), 403);
    server.closed().await;
}

#[tokio::test]
async fn a_reused_connection_that_closes_unanswered_is_replaced() {
    let upstream = Upstream::bind().await;
    let world = world(&upstream);
    let mut client = world.connect().await;
    for method in ["GET", "HEAD", "OPTIONS"] {
        client.send(GET).await;
        let mut server = upstream.accept().await;
        server.head().await;
        server.send(OK).await;
        client.answer().await;
        client.send(GET.replace("GET", method)).await;
        // It has read the request, and closes.
        server.head().await;
        drop(server);
        let mut server = upstream.accept().await;
        assert!(server.head().await.starts_with(method));
        server
            .send("HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
            .await;
        assert_eq!(status(&client.head().await), 204, "{method}");
    }
}

#[tokio::test]
async fn a_request_that_may_have_been_acted_on_is_not_repeated() {
    let upstream = Upstream::bind().await;
    let world = world(&upstream);
    let mut client = world.connect().await;
    for (request, part) in [
        (POST, ""),
        ("DELETE / HTTP/1.1\r\nHost: a.example\r\n\r\n", ""),
        (GET, "H"),
    ] {
        client.send(GET).await;
        let mut server = upstream.accept().await;
        server.head().await;
        server.send(OK).await;
        client.answer().await;
        client.send(request).await;
        server.head().await;
        server.send(part).await;
        drop(server);
        assert_eq!(status(&client.answer().await.0), 502, "{request}");
        assert!(upstream.is_alone());
    }
}

#[tokio::test]
async fn a_new_connection_that_closes_unanswered_is_not_replaced() {
    let upstream = Upstream::bind().await;
    let world = world(&upstream);
    let mut client = world.connect().await;
    client.send(GET).await;
    let mut server = upstream.accept().await;
    server.head().await;
    drop(server);
    assert_eq!(status(&client.answer().await.0), 502);
    assert!(upstream.is_alone());
}

#[tokio::test]
async fn another_server_takes_over_from_one_that_is_gone() {
    let (gone, upstream) = (Upstream::bind().await, Upstream::bind().await);
    let site = format!(
        r#"{{"upstream": {{"servers": ["http://{}", "http://{}"]}}}}"#,
        gone.address(),
        upstream.address()
    );
    drop(gone);
    let world = World::new(&site);
    let mut client = world.connect().await;
    let mut heads = upstream.answering(OK);
    for _ in 0..3 {
        client
            .send("DELETE / HTTP/1.1\r\nHost: a.example\r\n\r\n")
            .await;
        assert!(heads.recv().await.unwrap().starts_with("DELETE"));
        assert_eq!(client.answer().await.1, "ok");
    }
}

#[tokio::test]
async fn another_server_takes_over_from_one_that_goes_with_its_connections() {
    let (one, other) = (Upstream::bind().await, Upstream::bind().await);
    let site = format!(
        r#"{{"upstream": {{"servers": ["http://{}", "http://{}"], "balance": "client"}}}}"#,
        one.address(),
        other.address()
    );
    let limits = sekisho_server::Limits {
        workers: 1,
        ..LIMITS
    };
    let world = World::with(limits, &[("a.example", &site)]);
    let mut client = world.connect().await;
    client.send(GET).await;
    let (mut wire, gone, live) = tokio::select! {
        wire = one.accept() => (wire, one, other),
        wire = other.accept() => (wire, other, one),
    };
    wire.head().await;
    wire.send(OK).await;
    client.answer().await;
    drop(gone);
    client.send(GET).await;
    // The server has read the request, and is gone.
    wire.head().await;
    drop(wire);
    let mut heads = live.answering(OK);
    assert_eq!(client.answer().await.1, "ok");
    assert!(heads.recv().await.unwrap().starts_with("GET"));
    assert!(heads.try_recv().is_err());
}

#[tokio::test]
async fn a_connection_to_an_address_that_became_forbidden_is_not_used_again() {
    for is_announced in [false, true] {
        let upstream = Upstream::bind().await;
        let limits = sekisho_server::Limits {
            workers: 1,
            ..LIMITS
        };
        let setup = Setup::limits(limits);
        let own = std::sync::Arc::clone(&setup.own_addresses);
        let world = World::of_setup(setup, &[("a.example", &upstream.site())]);
        let mut client = world.connect().await;
        client.send(GET).await;
        let mut server = upstream.accept().await;
        server.head().await;
        server.send(OK).await;
        assert_eq!(client.answer().await.1, "ok");
        // The server learns that the address is its own, or that of a store's node.
        let address: std::net::SocketAddr = upstream.address().parse().unwrap();
        match is_announced {
            true => own.announce([address.port()]),
            false => own.bind([address]),
        }
        client.send(GET).await;
        assert_eq!(status(&client.answer().await.0), 503);
        assert!(upstream.is_alone());
    }
}
