//! Tests prefixes that a rule strips and adds, and `{tenant}`.

use crate::common::upstream::{OK, Upstream};
use crate::world::{BOTH, HOST, World};

#[tokio::test]
async fn an_upstream_gets_the_rewritten_path() {
    let upstream = Upstream::bind().await;
    let url = upstream.url();
    let site = format!(
        r#"{{"paths": [
            {{"path": "/api", "upstream": "{url}", "strip": true, "add": "/v1"}},
            {{"path": "/strip", "upstream": "{url}", "strip": true}},
            {{"path": "/add", "upstream": "{url}", "add": "/v2"}}
        ]}}"#
    );
    let mut heads = upstream.answering(OK);
    let world = World::new(&site, &[]);
    for version in BOTH {
        let mut client = world.connect(version, HOST).await;
        for (path, expected) in [
            ("/api/users?q=1", "/v1/users?q=1"),
            ("/api", "/v1"),
            ("/api/", "/v1/"),
            ("/strip/a%2Fb", "/a%2Fb"),
            ("/strip", "/"),
            ("/add/x", "/v2/add/x"),
            ("/%61pi/../api/x", "/v1/x"),
        ] {
            assert_eq!(client.get(path).await.status, 200, "{path}");
            let head = heads.recv().await.unwrap();
            let line = format!("GET {expected} HTTP/1.1\r\n");
            assert!(head.starts_with(&line), "{path}: {head}");
        }
        assert_eq!(client.get("/apis").await.status, 404);
    }
}

#[tokio::test]
async fn files_are_found_by_the_rewritten_path() {
    let site = r#"{
        "root": "FOLDER/{tenant}/{host}",
        "paths": [
            {"path": "/static", "root": "FOLDER/static", "strip": true},
            {"path": "/img", "root": "FOLDER/static", "strip": true, "add": "/pictures"}
        ]
    }"#;
    let files = [
        ("acme/a.example/index.html", "home"),
        ("acme/a.example/static/x", "shadowed"),
        ("static/x", "x"),
        ("static/sub/index.html", "sub"),
        ("static/pictures/y", "y"),
    ];
    let world = World::new(site, &files);
    for version in BOTH {
        let mut client = world.connect(version, HOST).await;
        for (path, body) in [
            ("/", "home"),
            ("/static/x", "x"),
            ("/static/sub/", "sub"),
            ("/img/y", "y"),
        ] {
            let answer = client.get(path).await;
            assert_eq!((answer.status, &*answer.body), (200, body), "{path}");
        }
        // The redirect names the path that the client knows.
        let answer = client.get("/static/sub?q").await;
        assert_eq!(answer.field("location").unwrap(), "/static/sub/?q");
        assert_eq!(client.get("/img/x").await.status, 404);
    }
}
