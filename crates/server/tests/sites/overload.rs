//! Tests the load past which requests are refused.

use std::num::NonZeroUsize;

use crate::common::LIMITS;
use crate::common::metrics::figure;
use crate::common::upstream::Upstream;
use crate::world::{BOTH, HOST, OTHER, World, patiently};
use sekisho_server::Limits;

#[tokio::test]
async fn the_host_whose_upstream_hangs_is_refused() {
    let upstream = Upstream::bind().await;
    let slow = format!(r#"{{"upstream": "{}"}}"#, upstream.url());
    let limits = Limits {
        requests: NonZeroUsize::new(2),
        ..LIMITS
    };
    let sites = [(HOST, &*slow), (OTHER, r#"{"root": "FOLDER"}"#)];
    let world = World::with(limits, &sites, &[("index.html", "fine")]);
    for version in BOTH {
        let mut waiting = Vec::new();
        let mut sockets = Vec::new();
        for _ in 0..2 {
            let mut client = world.connect(version, HOST).await;
            waiting.push(tokio::spawn(async move { client.get("/").await.status }));
            let mut socket = upstream.accept().await;
            socket.head().await;
            sockets.push(socket);
        }
        let answer = world.get(version, "/").await;
        assert_eq!(answer.status, 503);
        assert_eq!(answer.field("retry-after").unwrap(), "5");
        let mut other = world.connect(version, OTHER).await;
        for _ in 0..3 {
            assert_eq!(other.get("/").await.body, "fine");
        }
        let gauge = "sekisho_requests_in_flight";
        assert_eq!(figure(&world.running, gauge).await, 2);
        // A client that leaves gives its place back, and so does the end of an
        // answer.
        waiting.pop().unwrap().abort();
        sockets.pop();
        let answer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        sockets[0].send(answer).await;
        assert_eq!(waiting.pop().unwrap().await.unwrap(), 200);
        let gone = async {
            while figure(&world.running, gauge).await > 0 {
                tokio::task::yield_now().await;
            }
        };
        patiently(gone).await;
    }
    let name = r#"sekisho_requests_refused_total{reason="overload"}"#;
    assert_eq!(figure(&world.running, name).await, 2);
}
