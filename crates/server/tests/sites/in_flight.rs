//! Tests the bound on requests in flight of a client network.

use std::time::Duration;

use http::{Method, Version};
use tokio::time::sleep;

use crate::common::LIMITS;
use crate::common::metrics::figure;
use crate::common::upstream::{OK, Upstream};
use crate::world::{BOTH, Client, HOST, OTHER, World, empty, patiently};

/// Waits until a request passes that the bound refuses while it is reached.
async fn passes(client: &mut Client) {
    let passed = async {
        while client.get("/quick").await.status != 410 {
            sleep(Duration::from_millis(10)).await;
        }
    };
    patiently(passed).await;
}

fn site(upstream: &Upstream, most: usize) -> String {
    format!(
        r#"{{"upstream": "{}", "in_flight": {most}, "paths": [
            {{"path": "/quick", "status": 410}},
            {{"path": "/own", "status": 410, "in_flight": 9}}
        ]}}"#,
        upstream.url()
    )
}

#[tokio::test]
async fn more_than_the_bound_get_429_until_one_has_ended() {
    for version in BOTH {
        let upstream = Upstream::bind().await;
        let other = r#"{"status": 410, "in_flight": 1}"#;
        let sites = [(HOST, &*site(&upstream, 2)), (OTHER, other)];
        let world = World::with(LIMITS, &sites, &[]);
        let (mut waiting, mut servers) = (Vec::new(), Vec::new());
        for _ in 0..2 {
            let mut client = world.connect(version, HOST).await;
            waiting.push(tokio::spawn(async move { client.get("/").await.status }));
            let mut server = upstream.accept().await;
            server.head().await;
            servers.push(server);
        }
        let mut client = world.connect(version, HOST).await;
        for path in ["/", "/quick"] {
            let answer = client.get(path).await;
            assert_eq!(answer.status, 429, "{path}");
            assert_eq!(answer.field("retry-after").unwrap(), "1");
        }
        // Another path with a bound of its own, another site.
        assert_eq!(client.get("/own").await.status, 410);
        let mut elsewhere = world.connect(version, OTHER).await;
        assert_eq!(elsewhere.get("/").await.status, 410);
        let name = r#"sekisho_requests_refused_total{reason="in_flight"}"#;
        assert_eq!(figure(&world.running, name).await, 2);
        for mut server in servers {
            server.send(OK).await;
        }
        for request in waiting {
            assert_eq!(request.await.unwrap(), 200);
        }
        passes(&mut client).await;
    }
}

/// A slow reader holds its permit; a stream that is reset gives it back.
#[tokio::test]
async fn a_stream_counts_until_its_answer_has_ended() {
    let upstream = Upstream::bind().await;
    let world = World::new(&site(&upstream, 3), &[]);
    let mut client = world.connect(Version::HTTP_2, HOST).await;
    let mut held = Vec::new();
    for _ in 0..3 {
        let server = async {
            let mut server = upstream.accept().await;
            server.head().await;
            let begun = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello";
            server.send(begun).await;
            server
        };
        let begun = client.begin(Method::GET, "/", &[], empty());
        let (response, server) = tokio::join!(begun, server);
        let response = response.unwrap();
        assert_eq!(response.status(), 200);
        held.push((response, server));
    }
    for _ in 0..100 {
        assert_eq!(client.get("/quick").await.status, 429);
    }
    held.pop();
    passes(&mut client).await;
    drop(held);
    passes(&mut client).await;
}
