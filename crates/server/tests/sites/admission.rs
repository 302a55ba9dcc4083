//! Tests who may ask, and how often.

use crate::common::LIMITS;
use crate::common::metrics::figure;
use crate::world::{BOTH, HOST, OTHER, World};

#[tokio::test]
async fn addresses_are_judged_by_the_path_that_was_matched() {
    let site = r#"{
        "root": "FOLDER",
        "paths": [
            {"path": "/intranet", "root": "FOLDER", "allow": ["10.0.0.0/8"]},
            {"path": "/here", "root": "FOLDER", "allow": ["127.0.0.0/8"]},
            {"path": "/denied", "root": "FOLDER", "deny": ["127.0.0.1"], "allow": ["127.0.0.0/8"]}
        ]
    }"#;
    let files = [("intranet/x", "x"), ("here/x", "x"), ("denied/x", "x")];
    let world = World::new(site, &files);
    for version in BOTH {
        let mut client = world.connect(version, HOST).await;
        assert_eq!(client.get("/here/x").await.status, 200);
        assert_eq!(client.get("/denied/x").await.status, 403);
        for path in [
            "/intranet/x",
            "/%69ntranet/x",
            "//intranet/x",
            "/here/../intranet/x",
            "/./intranet/x",
            "/intranet",
        ] {
            assert_eq!(client.get(path).await.status, 403, "{path}");
        }
    }
    let name = r#"sekisho_requests_refused_total{reason="address"}"#;
    assert_eq!(figure(&world.running, name).await, 14);
}

#[tokio::test]
async fn a_burst_may_come_at_once() {
    let site = r#"{
        "root": "FOLDER", "rate": {"client": 1, "burst": 30},
        "paths": [{"path": "/one", "root": "FOLDER", "rate": {"client": 1, "burst": 1}}]
    }"#;
    let world = World::new(site, &[("index.html", "a"), ("one/index.html", "b")]);
    let mut client = world.connect(BOTH[0], HOST).await;
    for _ in 0..30 {
        assert_eq!(client.get("/").await.status, 200);
    }
    let mut refused = 0;
    for _ in 0..30 {
        refused += usize::from(client.get("/").await.status == 429);
    }
    assert!(refused >= 15, "{refused}");
    assert_eq!(client.get("/one/").await.status, 200);
    let answer = client.get("/one/").await;
    assert_eq!(answer.status, 429);
    assert_eq!(answer.field("retry-after").unwrap(), "1");
}

#[tokio::test]
async fn a_path_may_ask_for_a_client_certificate() {
    let site = r#"{
        "root": "FOLDER",
        "paths": [{"path": "/staff", "root": "FOLDER", "client_certificate": true}]
    }"#;
    let world = World::new(site, &[("index.html", "a"), ("staff/index.html", "b")]);
    for version in BOTH {
        let mut client = world.connect(version, HOST).await;
        assert_eq!(client.get("/").await.status, 200);
        assert_eq!(client.get("/staff/").await.status, 403);
    }
    let name = r#"sekisho_requests_refused_total{reason="certificate"}"#;
    assert_eq!(figure(&world.running, name).await, 2);
}

#[tokio::test]
async fn a_client_and_a_host_have_rates() {
    let site = |rate: &str| {
        format!(
            r#"{{
                "root": "FOLDER", "rate": {{"{rate}": 1}},
                "paths": [
                    {{"path": "/same", "root": "FOLDER"}},
                    {{"path": "/own", "root": "FOLDER", "rate": {{"{rate}": 1000}}}}
                ]
            }}"#
        )
    };
    for (rate, reason) in [("client", "client_rate"), ("host", "host_rate")] {
        let sites = [(HOST, &*site(rate)), (OTHER, &*site(rate))];
        let files = [
            ("index.html", "a"),
            ("same/index.html", "b"),
            ("own/index.html", "c"),
        ];
        let world = World::with(LIMITS, &sites, &files);
        for version in BOTH {
            let mut client = world.connect(version, HOST).await;
            // One request per second passes: of many in a row, most don't.
            let mut refused = 0;
            for turn in 0..50 {
                let path = if turn % 2 == 0 { "/" } else { "/same/" };
                let answer = client.get(path).await;
                if answer.status == 429 {
                    refused += 1;
                    assert_eq!(answer.field("retry-after").unwrap(), "1");
                } else {
                    assert_eq!(answer.status, 200);
                }
            }
            assert!(refused >= 25, "{refused}");
            assert_eq!(client.get("/own/").await.status, 200);
        }
        let mut other = world.connect(BOTH[0], OTHER).await;
        assert_eq!(other.get("/").await.status, 200);
        let name = format!("sekisho_requests_refused_total{{reason=\"{reason}\"}}");
        assert!(figure(&world.running, &name).await >= 50);
    }
}
