//! Tests the page of a suspended host.

use crate::common::LIMITS;
use crate::world::{BOTH, HOST, OTHER, World};

const SITE: &str = r#"{"root": "FOLDER",
    "auth": {"users": {"ann": "$apr1$8sFt66rZ$j2BEVt9a8XrdWkzTR5wQ5/"}}}"#;
const OPEN: &str = r#"{"root": "FOLDER"}"#;
const PAGE: &str = r#"{"status": 451, "text": "suspended"}"#;

#[tokio::test]
async fn a_suspended_host_answers_with_its_page() {
    for version in BOTH {
        for site in [SITE, OPEN] {
            let hosts = [(HOST, site), (OTHER, OPEN)];
            let world = World::with(LIMITS, &hosts, &[("index.html", "home")]);
            let mut before = world.connect(version, HOST).await;
            let mut other = world.connect(version, OTHER).await;
            let served = before.get("/").await.status;
            assert_eq!(served, if site == OPEN { 200 } else { 401 });

            world.suspend(HOST, site, Some(PAGE));
            let mut after = world.connect(version, HOST).await;
            for client in [&mut before, &mut after] {
                for path in ["/", "/index.html", "/missing"] {
                    let answer = client.get(path).await;
                    assert_eq!((answer.status, &*answer.body), (451, "suspended"), "{path}");
                }
            }
            assert_eq!(other.get("/").await.body, "home");

            world.suspend(HOST, site, None);
            for client in [&mut before, &mut after] {
                assert_eq!(client.get("/").await.status, served);
            }
        }
    }
}
