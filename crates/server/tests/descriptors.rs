//! Server whose process has no descriptor left. A process of its own: the limit is one
//! of all threads.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;
#[allow(
    dead_code,
    unused_imports,
    reason = "shared with the tests of the proxy"
)]
#[path = "proxy/world.rs"]
mod world;

use std::fs::File;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sekisho_server::Limits;
use tokio::net::TcpListener;
use tokio::task::yield_now;

use common::LIMITS;
use common::metrics::figure;
use world::{HOST, OK, Wire, World, status};

const OTHER: &str = "b.example";

/// Answers requests; waits for a descriptor where there is none.
fn answering(listener: TcpListener) {
    tokio::spawn(async move {
        loop {
            let Ok((socket, _)) = listener.accept().await else {
                yield_now().await;
                continue;
            };
            tokio::spawn(async move {
                let mut wire = Wire::new(socket);
                while wire.next_head().await.is_some() {
                    wire.send(OK).await;
                }
            });
        }
    });
}

/// Takes all descriptors up to a limit.
fn exhaust(limit: u64) -> Vec<File> {
    let maximum = getrlimit(Resource::Nofile).maximum;
    let lowered = Rlimit {
        current: Some(limit),
        maximum,
    };
    setrlimit(Resource::Nofile, lowered).unwrap();
    std::iter::from_fn(|| File::open("/dev/null").ok()).collect()
}

#[tokio::test]
async fn an_unused_connection_makes_room_for_one_to_another_server() {
    let listen = async || TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let (one, two) = (listen().await, listen().await);
    let site = |listener: &TcpListener| {
        let address = listener.local_addr().unwrap();
        format!(r#"{{"upstream": "http://{address}"}}"#)
    };
    let (first, second) = (site(&one), site(&two));
    let limits = Limits {
        workers: 1,
        ..LIMITS
    };
    let world = World::with(limits, &[(HOST, &first), (OTHER, &second)]);
    answering(one);
    answering(two);
    let (mut client, mut other) = (world.connect().await, world.connect_to(OTHER).await);
    let request = |host: &str| format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n");
    client.send(request(HOST)).await;
    assert_eq!(status(&client.answer().await.0), 200);
    let held = exhaust(256);
    assert!(!held.is_empty());
    for _ in 0..4 {
        other.send(request(OTHER)).await;
        assert_eq!(status(&other.answer().await.0), 200);
        client.send(request(HOST)).await;
        assert_eq!(status(&client.answer().await.0), 200);
    }
    drop(held);
    let failed = figure(&world.running, "sekisho_upstream_servers_ejected").await;
    assert_eq!(failed, 0);
}
