//! Budget of retries: a server that fails gets few more requests.

use sekisho_server::Limits;
use sekisho_testkit::TestCa;

use crate::common::LIMITS;
use crate::world::{HOST, OK, Upstream, Wire, World, status};

/// A server that closes each connection behind its first answer, unannounced, costs a
/// retry for each request. Once the budget is empty, nothing is sent again.
#[tokio::test]
async fn nothing_is_sent_again_once_the_budget_is_empty() {
    let upstream = Upstream::bind().await;
    let limits = Limits {
        workers: 1,
        ..LIMITS
    };
    let world = World::with(limits, &[(HOST, &upstream.site())]);
    let mut client = world.connect().await;
    let request = format!("GET / HTTP/1.1\r\nHost: {HOST}\r\n\r\n");
    client.send(&request).await;
    let mut server = upstream.accept().await;
    server.head().await;
    server.send(OK).await;
    client.answer().await;
    for sent_again in 0..40 {
        client.send(&request).await;
        server.head().await;
        drop(server);
        // Another connection, or the end.
        let another: Option<Wire<_>> = tokio::select! {
            biased;
            another = upstream.accept() => Some(another),
            head = client.head() => {
                assert_eq!(status(&head), 502, "{head}");
                None
            }
        };
        let Some(another) = another else {
            assert!(sent_again >= 10, "{sent_again}");
            assert!(upstream.is_alone());
            return;
        };
        server = another;
        server.head().await;
        server.send(OK).await;
        assert_eq!(status(&client.answer().await.0), 200);
    }
    panic!("40 requests were sent again");
}

/// Host of another tenant than [`HOST`]'s.
const OTHER: &str = "b.example";

#[tokio::test]
async fn a_tenant_that_takes_all_it_may_leaves_another_its_retries() {
    let upstream = Upstream::bind().await;
    let site = upstream.site();
    let sites = [(HOST, "acme", &*site), (OTHER, "evil", &*site)];
    let world = World::shared(TestCa::new(), &sites);
    // Closes each connection behind its first answer, with the next request unanswered.
    tokio::spawn(async move {
        loop {
            let mut server = upstream.accept_any().await;
            tokio::spawn(async move {
                server.next_head().await;
                server.send(OK).await;
                server.next_head().await;
            });
        }
    });
    let mut refused = 0;
    for _ in 0..60 {
        refused += u32::from(world.get(OTHER).await.0 == 502);
    }
    assert!(refused > 1, "{refused}");
    // At least one request is sent again: without the budget, each second one.
    for _ in 0..3 {
        assert_eq!(world.get(HOST).await, (200, "ok".into()));
    }
}
