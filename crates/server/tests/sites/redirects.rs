//! Tests the table of redirects, and what the top level's options do to them.

use std::fmt::Write;

use http::Method;

use crate::common::LIMITS;
use crate::world::{BOTH, HOST, OTHER, World};

#[tokio::test]
async fn a_table_leads_single_paths_elsewhere() {
    let site = r#"{
        "root": "FOLDER", "hsts": {"max_age": 5},
        "redirects": {
            "/old": "/new",
            "/old/": "/new/?from=old",
            "/all": "https://b.example",
            "/ä": "/%C3%B6",
            "/": "/home.html",
            "/host": "https://www.{host}/x",
            "/query": "/new{rest}"
        },
        "paths": [
            {"path": "/old", "root": "FOLDER"},
            {"path": "= /see", "redirect": "https://b.example/x", "status": 303},
            {"path": "/blog", "redirect": "https://b.example/a{rest}", "status": 301},
            {"path": "/news", "redirect": "/archive{rest}", "status": 301},
            {"path": "/own", "redirect": "https://{host}/home.html"}
        ]
    }"#;
    let files = [("home.html", "home"), ("old/x", "x"), ("index.html", "i")];
    let world = World::new(site, &files);
    for version in BOTH {
        let mut client = world.connect(version, HOST).await;
        for (path, status, location) in [
            ("/old", 308, "/new"),
            ("/old?q=1", 308, "/new"),
            ("/%6Fld", 308, "/new"),
            ("/old/", 308, "/new/?from=old"),
            ("/see", 303, "https://b.example/x"),
            ("/all?q=1", 308, "https://b.example/all?q=1"),
            ("/%C3%A4", 308, "/%C3%B6"),
            ("/", 308, "/home.html"),
            ("/host", 308, "https://www.a.example/x"),
            ("/blog/19/x?p=1", 301, "https://b.example/a/19/x?p=1"),
            ("/blog", 301, "https://b.example/a"),
            ("/query?q=1", 308, "/new?q=1"),
            ("/query", 308, "/new"),
            ("/news/19/x?p=1", 301, "/archive/19/x?p=1"),
            ("/news//evil.example", 301, "/archive/evil.example"),
            ("/own/x", 308, "https://a.example/home.html"),
        ] {
            let answer = client.send(Method::POST, path, &[]).await;
            assert_eq!(answer.status, status, "{path}");
            assert_eq!(answer.field("location").unwrap(), location, "{path}");
            let hsts = answer.field("strict-transport-security");
            assert_eq!(hsts.unwrap(), "max-age=5", "{path}");
        }
        for (path, status) in [
            ("/old/x", 200),
            ("/Old", 404),
            ("/see/", 404),
            ("/see/x", 404),
            ("/home.html", 200),
        ] {
            assert_eq!(client.get(path).await.status, status, "{path}");
        }
    }
}

/// The server follows none: a circle is the browser's to end.
#[tokio::test]
async fn a_thousand_that_lead_to_each_other_are_one_answer_each() {
    let mut all = String::new();
    for at in 0..1000 {
        let separator = if at == 0 { "" } else { "," };
        write!(all, r#"{separator}"/p/{at}": "/p/{}""#, (at + 1) % 1000).unwrap();
    }
    let world = World::new(&format!(r#"{{"redirects": {{{all}}}}}"#), &[]);
    for version in BOTH {
        let mut client = world.connect(version, HOST).await;
        for at in (0..1000).step_by(9) {
            let answer = client.get(&format!("/p/{at}")).await;
            assert_eq!(answer.status, 308);
            let next = format!("/p/{}", (at + 1) % 1000);
            assert_eq!(answer.field("location").unwrap(), next);
        }
        assert_eq!(client.get("/p/1000").await.status, 404);
    }
}

#[tokio::test]
async fn options_of_the_top_level_hold_for_redirects() {
    let denied = r#"{"redirects": {"/a": "/b"}, "deny": ["127.0.0.0/8"]}"#;
    let asking = r#"{
        "redirects": {"/a": "/b"},
        "auth": {"users": {"ann": "{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ="}},
        "rate": {"client": 1, "burst": 20}
    }"#;
    let world = World::with(LIMITS, &[(HOST, denied), (OTHER, asking)], &[]);
    for version in BOTH {
        let mut client = world.connect(version, HOST).await;
        assert_eq!(client.get("/a").await.status, 403);
        let mut client = world.connect(version, OTHER).await;
        assert_eq!(client.get("/a").await.status, 401);
        assert_eq!(client.get("/b").await.status, 404);
    }
    let mut client = world.connect(BOTH[0], OTHER).await;
    let mut refused = false;
    for _ in 0..40 {
        refused |= client.get("/a").await.status == 429;
    }
    assert!(refused);
}

#[tokio::test]
async fn error_pages_of_a_tenant_stand_beside_redirects() {
    let site = r#"{
        "redirects": {"/a": "/b"}, "errors": "FOLDER/{tenant}",
        "paths": [{"path": "/c", "status": 404}]
    }"#;
    let world = World::new(site, &[("acme/404.html", "no such page")]);
    let mut client = world.connect(BOTH[0], HOST).await;
    let answer = client.get("/c").await;
    assert_eq!((answer.status, &*answer.body), (404, "no such page"));
    assert_eq!(client.get("/a").await.status, 308);
}
