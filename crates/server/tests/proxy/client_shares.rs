//! Client networks share a tenant's connections to a server: slow uploads of one keep no
//! other's requests waiting.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use sekisho_testkit::client;
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{sleep, timeout};
use tokio_rustls::client::TlsStream;

use crate::world::{HOST, OK, Upstream, Wire, World, patiently, status};

const POST: &str = "POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 1000\r\n\r\nx";
const GET: &str = "GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n";
const UPGRADE: &str = "GET / HTTP/1.1\r\nHost: a.example\r\nConnection: upgrade\r\n\
    Upgrade: echo\r\n\r\n";
const SWITCHED: &str = "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\n\
    Upgrade: echo\r\n\r\n";

/// Upstream that answers a POST once its body is whole, which it never is.
struct Reading {
    address: String,
    posts: Arc<AtomicUsize>,
}

impl Reading {
    async fn start() -> Self {
        let upstream = Upstream::bind().await;
        let (address, posts) = (upstream.address(), Arc::new(AtomicUsize::new(0)));
        let seen = Arc::clone(&posts);
        tokio::spawn(async move {
            loop {
                let mut wire = upstream.accept_any().await;
                let seen = Arc::clone(&seen);
                tokio::spawn(async move {
                    while let Some(head) = wire.next_head().await {
                        if head.starts_with("POST") {
                            seen.fetch_add(1, SeqCst);
                            wire.end().await;
                            return;
                        }
                        let is_upgrade = head.contains("echo");
                        wire.send(if is_upgrade { SWITCHED } else { OK }).await;
                    }
                });
            }
        });
        Self { address, posts }
    }

    fn world(&self, more: &str) -> World {
        let address = &self.address;
        World::new(&format!(
            r#"{{"upstream": {{"servers": ["http://{address}"], {more}}}}}"#
        ))
    }

    /// Waits until so many POSTs came.
    async fn has(&self, posts: usize) {
        patiently(async {
            while self.posts.load(SeqCst) < posts {
                sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
    }
}

/// Connects from an address of a network.
async fn connect(world: &World, net: u8, protocol: &[u8]) -> Wire<TlsStream<TcpStream>> {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(([127, 66, net, 1], 0).into()).unwrap();
    let socket = socket.connect(world.running.address).await.unwrap();
    let mut config = client::config(&world.ca);
    config.alpn_protocols = vec![protocol.to_vec()];
    let stream = client::handshake(socket, HOST, config).await;
    Wire::new(stream.unwrap())
}

/// Asks from a network, and returns the status and how long the answer took.
async fn get(world: &World, net: u8) -> (u16, Duration) {
    let mut client = connect(world, net, b"http/1.1").await;
    let begun = Instant::now();
    client.send(GET).await;
    let head = client.head().await;
    (status(&head), begun.elapsed())
}

/// Makes POSTs on so many streams, each with one byte of its body.
fn posts(streams: u8) -> Vec<u8> {
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec();
    for stream in (0..streams).map(|number| 2 * number + 1) {
        // POST, https, `/`, and the authority.
        bytes.extend([0, 0, 14, 1, 4, 0, 0, 0, stream]);
        bytes.extend(b"\x83\x87\x84\x01\x09a.example");
        bytes.extend([0, 0, 1, 0, 0, 0, 0, 0, stream, b'x']);
    }
    bytes
}

#[tokio::test]
async fn slow_uploads_of_a_network_keep_no_other_waiting() {
    let upstream = Reading::start().await;
    let world = upstream.world(r#""connections": 16, "waiting": 16"#);
    let mut slow = Vec::new();
    for _ in 0..3 {
        let mut client = connect(&world, 1, b"h2").await;
        client.send(posts(40)).await;
        slow.push(client);
    }
    // One network alone has half.
    upstream.has(8).await;
    sleep(Duration::from_millis(300)).await;
    for _ in 0..5 {
        let (status, took) = get(&world, 2).await;
        assert_eq!(status, 200);
        assert!(took < Duration::from_secs(1), "{took:?}");
    }
    assert_eq!(upstream.posts.load(SeqCst), 8);
}

#[tokio::test]
async fn the_upload_that_waits_longest_makes_room_for_a_network_without_a_connection() {
    let upstream = Reading::start().await;
    let world = upstream.world(r#""connections": 8"#);
    let mut slow = Vec::new();
    for net in [1, 1, 1, 1, 2, 2, 3, 4] {
        let mut client = connect(&world, net, b"http/1.1").await;
        client.send(POST).await;
        slow.push(client);
        upstream.has(slow.len()).await;
    }
    let (answered, took) = get(&world, 9).await;
    assert_eq!(answered, 200);
    assert!(took < Duration::from_secs(1), "{took:?}");
    assert_eq!(status(&slow[0].head().await), 408);
    // All others go on.
    for client in &mut slow[1..] {
        let head = timeout(Duration::from_millis(20), client.next_head());
        assert!(head.await.is_err());
    }
    // Its connection is free: the next request finds one.
    assert_eq!(get(&world, 9).await.0, 200);
}

#[tokio::test]
async fn upgraded_connections_count_for_their_network() {
    let upstream = Reading::start().await;
    let world = upstream.world(r#""connections": 2, "timeouts": {"connect": "300ms"}"#);
    let mut upgraded = connect(&world, 1, b"http/1.1").await;
    upgraded.send(UPGRADE).await;
    assert_eq!(status(&upgraded.head().await), 101);
    assert_eq!(get(&world, 1).await.0, 503);
    assert_eq!(get(&world, 2).await.0, 200);
}
