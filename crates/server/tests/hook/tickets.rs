//! Sessions of connections whose certificate the hook chose.

use std::sync::Arc;

use rustls::{ClientConfig, HandshakeKind};
use sekisho_server::hook::Choice;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::common::resuming;
use crate::world::{World, name};

/// Sends a request; returns the kind of its handshake.
async fn visit(world: &World, config: &Arc<ClientConfig>) -> HandshakeKind {
    let socket = TcpStream::connect(world.running.address).await.unwrap();
    let connector = TlsConnector::from(Arc::clone(config));
    let server_name = "a.example".try_into().unwrap();
    let mut stream = connector.connect(server_name, socket).await.unwrap();
    let kind = stream.get_ref().1.handshake_kind().unwrap();
    // The server sends the tickets with the answer.
    let request = b"GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 308"), "{answer}");
    kind
}

#[tokio::test]
async fn a_resumed_handshake_asks_the_hook() {
    let world = World::new(&["a.example", "b.example"]);
    for tls12 in [false, true] {
        let config = resuming(&world.ca, tls12);
        let calls = world.hook.calls();
        world.hook.chooses(|_| Choice::Use(name("b.example")));
        assert_eq!(visit(&world, &config).await, HandshakeKind::Full);
        assert_eq!(visit(&world, &config).await, HandshakeKind::Resumed);
        assert_eq!(world.hook.calls(), calls + 2);
        world.hook.chooses(|_| Choice::Lookup);
        let kind = visit(&world, &config).await;
        assert_eq!(kind, HandshakeKind::Full, "another host, tls12: {tls12}");
    }
}

#[tokio::test]
async fn a_ticket_is_bound_to_key_and_tenant() {
    let world = World::new(&["a.example"]);
    let all = [
        world.made("", Some("key")),
        world.made("", Some("other")),
        world.made("t", Some("key")),
        world.made("u", Some("key")),
        world.made("", None),
    ];
    for tls12 in [false, true] {
        for (first, made) in all.iter().enumerate() {
            for (second, other) in all.iter().enumerate() {
                let config = resuming(&world.ca, tls12);
                for (made, want) in [
                    (made, HandshakeKind::Full),
                    (
                        other,
                        match first == second {
                            true => HandshakeKind::Resumed,
                            false => HandshakeKind::Full,
                        },
                    ),
                ] {
                    let made = Arc::clone(made);
                    world.hook.chooses(move |_| Choice::Made(Arc::clone(&made)));
                    let kind = visit(&world, &config).await;
                    assert_eq!(kind, want, "{first} {second} tls12: {tls12}");
                }
            }
        }
    }
}

#[tokio::test]
async fn a_session_of_a_key_resumes_after_its_certificate_was_made_again() {
    let world = World::new(&[]);
    for key in [Some("key"), None] {
        let config = resuming(&world.ca, false);
        for want in [HandshakeKind::Full, HandshakeKind::Resumed] {
            let made = world.made("t", key);
            world.hook.chooses(move |_| Choice::Made(Arc::clone(&made)));
            assert_eq!(visit(&world, &config).await, want, "{key:?}");
        }
    }
}
