//! Tests which requests are answered, and how long a connection may stay.

use super::*;
use crate::run::admin::unauthenticated::MAX_UNAUTHENTICATED;

#[tokio::test]
async fn without_a_token_only_loopback_names_are_answered() {
    let fixture = Fixture::start(None).await;
    for (host, expected) in [
        ("localhost", 200),
        ("LOCALHOST:9443", 200),
        ("127.0.0.1", 200),
        ("127.0.0.1:9443", 200),
        ("127.9.9.9", 200),
        ("[::1]:9443", 200),
        ("evil.example", 403),
        ("evil.example:9443", 403),
        ("localhost.evil.example", 403),
        ("127.0.0.1.evil.example", 403),
        ("192.0.2.1", 403),
        ("0.0.0.0", 403),
        ("127.0.0.1@evil.example", 403),
        ("evil.example@127.0.0.1", 403),
        ("", 403),
    ] {
        let head = format!("GET /healthz HTTP/1.1\r\nHost: {host}\r\n");
        assert_eq!(fixture.ask(&head).await.0, expected, "{host}");
    }
    let both = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n";
    assert_ne!(fixture.ask(both).await.0, 200);
    let absolute = "GET http://evil.example/healthz HTTP/1.1\r\nHost: localhost\r\n";
    assert_eq!(fixture.ask(absolute).await.0, 403);
    assert_eq!(fixture.ask("GET /healthz HTTP/1.0\r\n").await.0, 200);
}

#[tokio::test]
async fn with_a_token_nothing_is_answered_without_it() {
    let token = Token::parse("0123456789abcdef").unwrap();
    let fixture = Fixture::start(Some(token)).await;
    for (header, expected) in [
        ("", 401),
        ("Authorization: Bearer 0123456789abcdef\r\n", 200),
        ("authorization: bearer  0123456789abcdef \r\n", 200),
        ("Authorization: Bearer 0123456789abcdeF\r\n", 401),
        ("Authorization: Bearer 0123456789abcdef0\r\n", 401),
        ("Authorization: Bearer\r\n", 401),
        ("Authorization: 0123456789abcdef\r\n", 401),
        ("Authorization: Basic 0123456789abcdef\r\n", 401),
    ] {
        for path in ["/healthz", "/metrics"] {
            let head = format!("GET {path} HTTP/1.1\r\nHost: admin.example\r\n{header}");
            let (status, answer) = fixture.ask(&head).await;
            assert_eq!(status, expected, "{path} {header}");
            assert_eq!(answer.contains("www-authenticate: Bearer"), expected == 401);
            assert!(expected == 200 || !answer.contains("version"));
        }
    }
    let unknown = fixture.ask("GET /secret HTTP/1.1\r\nHost: a\r\n").await;
    assert_eq!(unknown.0, 401, "paths are not revealed either");
}

#[tokio::test]
async fn connections_are_bounded_and_idle_ones_end() {
    let fixture = Fixture::start(None).await;
    let mut idle = Vec::new();
    // Each connection holds its permit once it was answered.
    for _ in 0..MAX_CONNECTIONS {
        let mut socket = TcpStream::connect(fixture.address).await.unwrap();
        let request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
        socket.write_all(request).await.unwrap();
        assert!(socket.read(&mut [0; 4096]).await.unwrap() > 0);
        idle.push(socket);
    }
    let request = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n";
    let (status, answer) = fixture.ask(request).await;
    assert_eq!(status, 503);
    assert!(answer.contains("connection: close"), "{answer}");
    drop(idle.pop());
    let freed = async { while fixture.ask(request).await.0 != 200 {} };
    timeout(Duration::from_secs(10), freed).await.unwrap();

    tokio::time::pause();
    let mut rest = Vec::new();
    // Only the idle timeout ends this connection.
    idle.pop().unwrap().read_to_end(&mut rest).await.unwrap();
}

#[tokio::test]
async fn the_unauthenticated_hold_no_permit() {
    let fixture = Fixture::start(None).await;
    let mut silent = TcpStream::connect(fixture.address).await.unwrap();
    let mut refused = TcpStream::connect(fixture.address).await.unwrap();
    let request = b"GET /healthz HTTP/1.1\r\nHost: evil.example\r\n\r\n";
    refused.write_all(request).await.unwrap();
    let mut answer = String::new();
    // The clock is not paused yet: no timeout ends this connection.
    refused.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
    assert!(answer.contains("connection: close"), "{answer}");

    let mut known = TcpStream::connect(fixture.address).await.unwrap();
    let request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    known.write_all(request).await.unwrap();
    assert!(known.read(&mut [0; 4096]).await.unwrap() > 0);
    tokio::time::pause();
    let begun = Instant::now();
    silent.read_to_end(&mut Vec::new()).await.unwrap();
    assert!(begun.elapsed() <= UNAUTHENTICATED_LIFE + Duration::from_secs(1));
    known.read_to_end(&mut Vec::new()).await.unwrap();
    assert!(
        begun.elapsed() > UNAUTHENTICATED_LIFE * 2,
        "{:?}",
        begun.elapsed()
    );
}

#[tokio::test]
async fn the_unauthenticated_keep_nobody_out() {
    let token = Token::parse("0123456789abcdef").unwrap();
    let fixture = Fixture::start(Some(token)).await;
    let request = "GET /healthz HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer 0123456789abcdef\r\n";
    let mut known = TcpStream::connect(fixture.address).await.unwrap();
    let head = format!("{request}\r\n");
    known.write_all(head.as_bytes()).await.unwrap();
    assert!(known.read(&mut [0; 4096]).await.unwrap() > 0);

    let mut silent = Vec::new();
    for _ in 0..2 * MAX_UNAUTHENTICATED {
        silent.push(TcpStream::connect(fixture.address).await.unwrap());
    }
    // The answer comes before any timeout of the silent.
    let begun = Instant::now();
    assert_eq!(fixture.ask(request).await.0, 200);
    assert!(begun.elapsed() < UNAUTHENTICATED_LIFE);
    // The first silent one made room, and the authorized connection did not.
    assert_eq!(silent[0].read(&mut [0; 1]).await.unwrap_or(0), 0);
    known.write_all(head.as_bytes()).await.unwrap();
    assert!(known.read(&mut [0; 4096]).await.unwrap() > 0);
}

#[tokio::test]
async fn the_listener_closes_on_shutdown() {
    let fixture = Fixture::start(None).await;
    let mut open = TcpStream::connect(fixture.address).await.unwrap();
    assert_eq!(fixture.get("/healthz").await.0, 200);
    fixture.end.send(()).unwrap();
    fixture.served.await.unwrap();
    assert_eq!(open.read(&mut [0; 1]).await.unwrap_or(0), 0);
    assert!(TcpStream::connect(fixture.address).await.is_err());
}
