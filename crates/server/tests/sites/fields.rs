//! Tests the fields that a rule changes.

use http::Method;

use crate::common::upstream::Upstream;
use crate::world::{BOTH, HOST, World};

#[tokio::test]
async fn an_answer_has_the_fields_of_its_rule() {
    let site = r#"{
        "root": "FOLDER",
        "hsts": {"max_age": 31536000, "subdomains": true},
        "response": {
            "set": {"X-Frame-Options": "DENY"},
            "add": {"Vary": "Origin"},
            "remove": ["Accept-Ranges"]
        },
        "paths": [{"path": "/old", "redirect": "https://b.example"}]
    }"#;
    let world = World::new(site, &[("index.html", "page")]);
    for version in BOTH {
        let mut client = world.connect(version, HOST).await;
        for (path, status) in [("/", 200), ("/missing", 404), ("/old", 308)] {
            let answer = client.get(path).await;
            assert_eq!(answer.status, status, "{path}");
            let hsts = answer.field("strict-transport-security");
            let expected = "max-age=31536000; includeSubDomains";
            assert_eq!(hsts.as_deref(), Some(expected), "{path}");
            assert_eq!(answer.field("x-frame-options").unwrap(), "DENY");
            assert_eq!(answer.field("vary").unwrap(), "Origin");
            assert_eq!(answer.field("accept-ranges"), None);
        }
    }
}

#[tokio::test]
async fn fields_of_an_upstream_change_both_ways() {
    let upstream = Upstream::bind().await;
    let site = format!(
        r#"{{
            "upstream": "{}",
            "hsts": {{"max_age": 5}},
            "request": {{
                "set": {{"X-App": "one"}}, "add": {{"X-Tag": "b"}}, "remove": ["X-Debug"]
            }},
            "response": {{"set": {{"X-Set": "ours"}}, "add": {{"X-Add": "b"}}, "remove": ["Server"]}}
        }}"#,
        upstream.url()
    );
    let mut heads = upstream.answering(
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nServer: app\r\nX-Set: app\r\nX-Add: a\r\n\
         Strict-Transport-Security: max-age=0\r\n\r\nok",
    );
    let world = World::new(&site, &[]);
    for version in BOTH {
        let mut client = world.connect(version, HOST).await;
        let fields = [("x-app", "two"), ("x-tag", "a"), ("x-debug", "1")];
        let answer = client.send(Method::GET, "/", &fields).await;
        assert_eq!((answer.status, &*answer.body), (200, "ok"));
        assert_eq!(answer.field("server"), None);
        assert_eq!(answer.field("x-set").unwrap(), "ours");
        assert_eq!(answer.field("x-add").unwrap(), "a|b");
        assert_eq!(
            answer.field("strict-transport-security").unwrap(),
            "max-age=5"
        );
        let head = heads.recv().await.unwrap().to_ascii_lowercase();
        assert!(head.contains("x-app: one\r\n"), "{head}");
        assert!(!head.contains("x-app: two"), "{head}");
        assert!(head.contains("x-tag: a\r\n"), "{head}");
        assert!(head.contains("x-tag: b\r\n"), "{head}");
        assert!(!head.contains("x-debug"), "{head}");
    }
}

#[tokio::test]
async fn files_are_cached_by_media_type() {
    let site = r#"{
        "root": "FOLDER",
        "cache": {"image/*": "max-age=604800", "text/css": "max-age=60", "*/*": "no-cache"}
    }"#;
    let files = [("a.png", "p"), ("a.css", "c"), ("index.html", "i")];
    let world = World::new(site, &files);
    for version in BOTH {
        let mut client = world.connect(version, HOST).await;
        for (path, expected) in [
            ("/a.png", "max-age=604800"),
            ("/a.css", "max-age=60"),
            ("/", "no-cache"),
        ] {
            let answer = client.get(path).await;
            assert_eq!(answer.field("cache-control").unwrap(), expected);
            let tag = answer.field("etag").unwrap();
            for (method, name, value, status) in [
                (Method::HEAD, "accept", "*/*", 200),
                (Method::GET, "if-none-match", &*tag, 304),
                (Method::GET, "range", "bytes=0-0", 206),
            ] {
                let answer = client.send(method, path, &[(name, value)]).await;
                assert_eq!(answer.status, status);
                assert_eq!(answer.field("cache-control").unwrap(), expected);
                assert_eq!(answer.field("content-type").is_some(), status != 304);
            }
        }
        let missing = client.get("/missing").await;
        assert_eq!(
            (missing.status, missing.field("cache-control")),
            (404, None)
        );
    }
}

#[tokio::test]
async fn an_upstream_that_says_how_to_cache_is_believed() {
    let silent = Upstream::bind().await;
    let saying = Upstream::bind().await;
    let site = format!(
        r#"{{
            "cache": {{"text/*": "max-age=60"}},
            "paths": [
                {{"path": "/silent", "upstream": "{}"}}, {{"path": "/saying", "upstream": "{}"}}
            ]
        }}"#,
        silent.url(),
        saying.url()
    );
    let _silent = silent
        .answering("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Type: text/plain\r\n\r\nok");
    let _saying = saying.answering(
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Type: text/plain\r\n\
         Cache-Control: private\r\n\r\nok",
    );
    let world = World::new(&site, &[]);
    for version in BOTH {
        let mut client = world.connect(version, HOST).await;
        let answer = client.get("/silent").await;
        assert_eq!(answer.field("cache-control").unwrap(), "max-age=60");
        let answer = client.get("/saying").await;
        assert_eq!(answer.field("cache-control").unwrap(), "private");
        let answer = client.send(Method::POST, "/silent", &[]).await;
        assert_eq!((answer.status, answer.field("cache-control")), (200, None));
    }
}
