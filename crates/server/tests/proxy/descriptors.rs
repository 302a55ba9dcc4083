//! Bound on connections to upstreams of the process, which tenants share.

use sekisho_server::Limits;

use crate::common::metrics::figure;
use crate::common::{LIMITS, Setup};
use crate::world::{HOST, OK, Upstream, World, status};

/// Host of another tenant than [`HOST`]'s.
const OTHER: &str = "b.example";

fn bounded(upstreams: usize) -> Setup {
    let mut setup = Setup::limits(Limits {
        workers: 1,
        ..LIMITS
    });
    setup.settings.upstreams = upstreams;
    setup
}

#[tokio::test]
async fn a_tenant_with_many_connections_leaves_another_some() {
    let (slow, good) = (Upstream::bind().await, Upstream::bind().await);
    let bad = format!(
        r#"{{"upstream": {{"servers": ["{}"], "timeouts": {{"connect": "1s"}}}}}}"#,
        slow.url()
    );
    let site = good.site();
    good.answering(OK);
    let sites = [(HOST, "acme", &*site), (OTHER, "evil", &*bad)];
    let world = World::of_tenants_with(bounded(8), &sites);
    let request = format!("GET / HTTP/1.1\r\nHost: {OTHER}\r\n\r\n");
    let mut held = Vec::new();
    for _ in 0..4 {
        let mut client = world.connect_to(OTHER).await;
        client.send(&request).await;
        let mut server = slow.accept().await;
        server.head().await;
        held.push((client, server));
    }
    let waiting = world.get(OTHER);
    let other = async {
        let got = world.get(HOST).await;
        assert_eq!(got, (200, "ok".into()));
    };
    let (refused, ()) = tokio::join!(waiting, other);
    assert_eq!(refused.0, 503);
    assert!(slow.is_alone());
    let open = figure(&world.running, "sekisho_upstream_connections").await;
    assert_eq!(open, 5);
    // A connection that ends leaves room for another.
    let (mut client, mut server) = held.pop().unwrap();
    server.send(OK).await;
    assert_eq!(status(&client.answer().await.0), 200);
    client.send(&request).await;
    server.head().await;
    server.send(OK).await;
    assert_eq!(status(&client.answer().await.0), 200);
}

#[tokio::test]
async fn unused_connections_make_room() {
    let upstreams = [
        Upstream::bind().await,
        Upstream::bind().await,
        Upstream::bind().await,
        Upstream::bind().await,
    ];
    let names = ["a.example", "b.example", "c.example", "d.example"];
    let sites: Vec<_> = upstreams.iter().map(Upstream::site).collect();
    let sites: Vec<_> = names.iter().zip(&sites).collect();
    let sites: Vec<_> = sites
        .iter()
        .map(|(name, site)| (**name, "acme", site.as_str()))
        .collect();
    let world = World::of_tenants_with(bounded(4), &sites);
    for upstream in upstreams {
        upstream.answering(OK);
    }
    for _ in 0..3 {
        for name in names {
            assert_eq!(world.get(name).await, (200, "ok".into()), "{name}");
        }
    }
    let open = figure(&world.running, "sekisho_upstream_connections").await;
    assert!((1..=2).contains(&open), "{open}");
}
