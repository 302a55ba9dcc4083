//! Tests which rule answers: paths for themselves alone, and methods.

use http::{Method, Version};

use crate::common::LIMITS;
use crate::world::{BOTH, HOST, OTHER, World};

#[tokio::test]
async fn a_rule_for_one_path_comes_before_prefixes() {
    let site = r#"{
        "root": "FOLDER",
        "paths": [
            {"path": "/a", "status": 410, "text": "below a"},
            {"path": "= /a", "status": 410, "text": "a itself"},
            {"path": "= /a/", "status": 410, "text": "a with a slash"},
            {"path": "= /", "status": 410, "text": "the root itself"},
            {"path": "= /secret.html", "status": 403, "text": "none"}
        ]
    }"#;
    let files = [
        ("index.html", "page"),
        ("b.html", "b"),
        ("secret.html", "s"),
    ];
    let world = World::new(site, &files);
    for version in BOTH {
        let mut client = world.connect(version, HOST).await;
        for (path, body) in [
            ("/", "the root itself"),
            ("/?q", "the root itself"),
            ("/a", "a itself"),
            ("/a?q", "a itself"),
            ("/%61", "a itself"),
            ("/x/../a", "a itself"),
            ("/a/", "a with a slash"),
            ("/a/b", "below a"),
            ("/b.html", "b"),
            ("/index.html", "page"),
            ("/./secret.html", "none"),
            ("/s%65cret.html", "none"),
        ] {
            assert_eq!(client.get(path).await.body, body, "{path}");
        }
    }
}

#[tokio::test]
async fn a_rule_is_for_its_methods() {
    let site = r#"{
        "paths": [
            {"path": "/api", "methods": ["GET"], "status": 410, "text": "read"},
            {"path": "/api", "methods": ["POST", "PUT"], "status": 410, "text": "write"},
            {"path": "/api/open", "status": 410, "text": "open"},
            {"path": "/form", "methods": ["POST"], "status": 410, "text": "sent"},
            {"path": "= /form/done", "methods": ["GET"], "status": 410, "text": "done"},
            {"path": "/form", "status": 410, "text": "shown"},
            {"path": "/list", "methods": ["PUT", "DELETE"], "status": 410},
            {"path": "/list/a", "methods": ["PUT", "GET"], "status": 410}
        ]
    }"#;
    let fallback = r#"{
        "status": 410, "text": "all",
        "paths": [{"path": "/form", "methods": ["POST"], "status": 410, "text": "sent"}]
    }"#;
    let world = World::with(LIMITS, &[(HOST, site), (OTHER, fallback)], &[]);
    for version in BOTH {
        let mut client = world.connect(version, HOST).await;
        for (method, path, body) in [
            (Method::GET, "/api/x", "read"),
            (Method::HEAD, "/api/x", ""),
            (Method::POST, "/api", "write"),
            (Method::PUT, "/api/x", "write"),
            (Method::PATCH, "/api/open/x", "open"),
            (Method::POST, "/form/x", "sent"),
            (Method::GET, "/form/x", "shown"),
            (Method::GET, "/form/done", "done"),
            (Method::POST, "/form/done", "sent"),
        ] {
            let answer = client.send(method.clone(), path, &[]).await;
            assert_eq!(
                (answer.status, &*answer.body),
                (410, body),
                "{method} {path}"
            );
            assert_eq!(answer.field("allow"), None);
        }
        // A path that rules take, but none with the method; a path that none takes.
        let answer = client.send(Method::DELETE, "/api", &[]).await;
        assert_eq!(answer.status, 405);
        assert_eq!(answer.field("allow").unwrap(), "GET, HEAD, POST, PUT");
        // In order and each once, of all rules for the path.
        let answer = client.send(Method::POST, "/list/a", &[]).await;
        assert_eq!(answer.field("allow").unwrap(), "DELETE, GET, HEAD, PUT");
        assert_eq!(client.get("/other").await.status, 404);
        let mut client = world.connect(version, OTHER).await;
        for (method, body) in [(Method::POST, "sent"), (Method::GET, "all")] {
            let answer = client.send(method, "/form", &[]).await;
            assert_eq!(answer.body, body);
        }
    }
}

/// `OPTIONS *` asks for the server, not for a path.
#[tokio::test]
async fn no_rule_for_one_path_is_for_all_of_the_server() {
    let site = r#"{"paths": [{"path": "= /", "status": 410}], "redirects": {"/x": "/"}}"#;
    let world = World::new(site, &[]);
    let mut client = world.connect(Version::HTTP_11, HOST).await;
    let answer = client.send(Method::OPTIONS, "*", &[]).await;
    assert_eq!(answer.status, 404);
    assert_eq!(client.get("/").await.status, 410);
}
