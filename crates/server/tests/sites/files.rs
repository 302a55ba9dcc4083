//! Tests files that a rule tries in order.

use std::fs;

use http::Method;

use crate::world::{BOTH, HOST, World};

#[tokio::test]
async fn the_first_file_of_the_tried_answers() {
    let site = r#"{"root": "FOLDER", "try": ["{path}", "{path}.html", "/app/index.html"]}"#;
    let files = [
        ("app/index.html", "app"),
        ("style.css", "css"),
        ("about.html", "about"),
        ("docs/index.html", "docs"),
        ("empty/x/y", "deep"),
        (".env", "secret"),
    ];
    let world = World::new(site, &files);
    for version in BOTH {
        let mut client = world.connect(version, HOST).await;
        for (path, body) in [
            ("/style.css", "css"),
            ("/about", "about"),
            ("/about.html", "about"),
            ("/docs/", "docs"),
            ("/", "app"),
            ("/users/7", "app"),
            ("/empty/", "app"),
            ("/.env", "app"),
            ("/%73tyle.css", "css"),
        ] {
            let answer = client.get(path).await;
            assert_eq!((answer.status, &*answer.body), (200, body), "{path}");
        }
        for path in ["/docs", "/empty"] {
            let answer = client.get(path).await;
            assert_eq!(answer.status, 308, "{path}");
            assert_eq!(answer.field("location").unwrap(), format!("{path}/"));
        }
        for path in ["/a%2Fb", "/a%5Cb"] {
            assert_eq!(client.get(path).await.status, 400, "{path}");
        }
        let answer = client.send(Method::POST, "/users/7", &[]).await;
        assert_eq!(answer.status, 405);
        let answer = client.send(Method::HEAD, "/users/7", &[]).await;
        assert_eq!((answer.status, &*answer.body), (200, ""));
        assert_eq!(answer.field("content-length").unwrap(), "3");
        let tag = client.get("/users/7").await.field("etag").unwrap();
        let fields = [("if-none-match", &*tag)];
        let answer = client.send(Method::GET, "/users/8", &fields).await;
        assert_eq!(answer.status, 304);
    }
}

#[tokio::test]
async fn the_last_may_be_a_status() {
    let site = r#"{
        "root": "FOLDER", "try": ["{path}"],
        "paths": [{"path": "/old", "root": "FOLDER", "try": ["{path}", "=410"]}]
    }"#;
    let world = World::new(site, &[("old/a", "kept")]);
    for version in BOTH {
        let mut client = world.connect(version, HOST).await;
        assert_eq!(client.get("/old/a").await.status, 200);
        assert_eq!(client.get("/old/b").await.status, 410);
        assert_eq!(client.get("/b").await.status, 404);
    }
}

#[tokio::test]
async fn a_missing_file_is_not_looked_for_twice() {
    let site = r#"{"root": "FOLDER", "try": ["{path}", "{path}.html", "/index.html"]}"#;
    let world = World::new(site, &[("index.html", "app")]);
    let mut client = world.connect(BOTH[0], HOST).await;
    assert_eq!(client.get("/users").await.body, "app");
    // What was read is fresh for a second: the files may come and go.
    fs::write(world.folder.path().join("users"), "new").unwrap();
    fs::remove_file(world.folder.path().join("index.html")).unwrap();
    assert_eq!(client.get("/users").await.body, "app");
}
