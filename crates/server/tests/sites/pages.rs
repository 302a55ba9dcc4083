//! Tests error pages.

use http::Method;
use http_body_util::{BodyExt, Full};

use crate::common::upstream::Upstream;
use crate::world::{Answer, BOTH, HOST, World};

const PAGES: [(&str, &str); 5] = [
    ("errors/404.html", "no such page"),
    ("errors/502.html", "bad gateway"),
    ("errors/503.html", "come back later"),
    ("errors/504.html", "too late"),
    ("www/index.html", "home"),
];

#[tokio::test]
async fn an_error_of_the_server_has_its_page() {
    let dead = Upstream::bind().await.url();
    // Takes connections, and never answers.
    let late = Upstream::bind().await;
    let late_url = late.url();
    let site = format!(
        r#"{{
            "root": "FOLDER/www",
            "errors": "FOLDER/errors",
            "response": {{"set": {{"X-Site": "a"}}}},
            "paths": [
                {{"path": "/dead", "upstream": "{dead}"}},
                {{"path": "/late", "upstream": {{
                    "servers": ["{late_url}"], "timeouts": {{"first_byte": "100ms"}}
                }}}},
                {{"path": "/later", "status": 503}},
                {{"path": "/said", "status": 503, "text": "closed"}},
                {{"path": "/gone", "status": 410}}
            ]
        }}"#
    );
    let world = World::new(&site, &PAGES);
    for version in BOTH {
        let mut client = world.connect(version, HOST).await;
        for (path, status, body) in [
            ("/missing", 404, "no such page"),
            ("/dead", 502, "bad gateway"),
            ("/late", 504, "too late"),
            ("/later", 503, "come back later"),
            ("/said", 503, "closed"),
            ("/gone", 410, "410 Gone\n"),
            ("/", 200, "home"),
        ] {
            let answer = client.get(path).await;
            assert_eq!((answer.status, &*answer.body), (status, body), "{path}");
            assert_eq!(answer.field("x-site").unwrap(), "a", "{path}");
        }
        let fields = [
            ("if-none-match", "*"),
            ("if-modified-since", "Fri, 01 Jan 2100 00:00:00 GMT"),
            ("range", "bytes=0-1"),
        ];
        let answer = client.send(Method::GET, "/missing", &fields).await;
        assert_eq!((answer.status, &*answer.body), (404, "no such page"));
        assert_eq!(
            answer.field("content-type").unwrap(),
            "text/html; charset=utf-8"
        );
        assert_eq!(answer.field("etag"), None);
        assert_eq!(answer.field("x-content-type-options").unwrap(), "nosniff");
        let answer = client.send(Method::HEAD, "/missing", &[]).await;
        assert_eq!((answer.status, &*answer.body), (404, ""));
        assert_eq!(answer.field("content-length").unwrap(), "12");
        let answer = client.send(Method::POST, "/later", &[]).await;
        assert_eq!((answer.status, &*answer.body), (503, "come back later"));
    }
}

/// Nobody writes into it: a read would wait for ever.
#[tokio::test]
async fn a_fifo_is_no_page() {
    let site = r#"{"root": "FOLDER/www", "errors": "FOLDER/errors", "compress": true}"#;
    let world = World::new(site, &PAGES);
    let fifo = world.folder.path().join("errors/404.html");
    std::fs::remove_file(&fifo).unwrap();
    let made = std::process::Command::new("mkfifo").arg(&fifo).status();
    assert!(made.unwrap().success());
    for version in BOTH {
        let answer = world.get(version, "/missing").await;
        assert_eq!((answer.status, &*answer.body), (404, "404 Not Found\n"));
    }
}

#[tokio::test]
async fn each_status_has_its_page() {
    let statuses = [403, 404, 413, 429, 500, 502, 503, 504];
    let paths = statuses.map(|status| format!(r#"{{"path": "/{status}", "status": {status}}}"#));
    let site = format!(
        r#"{{
            "status": 410, "errors": "FOLDER",
            "paths": [
                {}, {{"path": "/denied", "status": 410, "deny": ["127.0.0.0/8"]}},
                {{"path": "/long", "upstream": "http://127.0.0.1:1", "body_limit": "1B"}}
            ]
        }}"#,
        paths.join(", ")
    );
    let pages = statuses.map(|status| (format!("{status}.html"), format!("page of {status}")));
    let pages = pages.each_ref().map(|(name, text)| (&**name, &**text));
    let world = World::new(&site, &pages);
    for version in BOTH {
        let mut client = world.connect(version, HOST).await;
        for status in statuses {
            let answer = client.get(&format!("/{status}")).await;
            let page = format!("page of {status}");
            assert_eq!((answer.status, answer.body), (status, page));
        }
        let answer = client.get("/denied").await;
        assert_eq!((answer.status, &*answer.body), (403, "page of 403"));
        let body = Full::from("too long").map_err(|never| match never {});
        let answer = client.begin(Method::POST, "/long", &[], body.boxed());
        let answer = Answer::of(answer.await.unwrap()).await.unwrap();
        assert_eq!((answer.status, &*answer.body), (413, "page of 413"));
        assert_eq!(client.get("/").await.body, "410 Gone\n");
    }
}

#[tokio::test]
async fn an_upstreams_error_keeps_its_content() {
    let upstream = Upstream::bind().await;
    let site = format!(
        r#"{{"upstream": "{}", "errors": "FOLDER/errors"}}"#,
        upstream.url()
    );
    let _heads = upstream.answering("HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\napp.");
    let world = World::new(&site, &PAGES);
    for version in BOTH {
        let answer = world.get(version, "/missing").await;
        assert_eq!((answer.status, &*answer.body), (404, "app."));
    }
}

#[tokio::test]
async fn without_a_page_an_error_is_plain() {
    let large = "x".repeat(100_000);
    let site = r#"{"root": "FOLDER/www", "errors": "FOLDER/errors"}"#;
    for (files, body) in [
        (&[("errors/x", "")][..], "404 Not Found\n"),
        (&[("errors/404.html/x", "")], "404 Not Found\n"),
        (&[("errors/404.html", &*large)], &*large),
    ] {
        let world = World::new(site, files);
        for version in BOTH {
            let answer = world.get(version, "/missing").await;
            assert_eq!(answer.status, 404);
            assert!(answer.body == body, "{} bytes", answer.body.len());
        }
    }
}

#[tokio::test]
async fn pages_lie_where_sites_may() {
    let outside = tempfile::tempdir().unwrap();
    crate::world::write(&outside, "404.html", "secret");
    let errors = outside.path().display();
    let site = format!(r#"{{"root": "FOLDER", "errors": "{errors}"}}"#);
    let world = World::new(&site, &[("index.html", "home")]);
    for version in BOTH {
        let answer = world.get(version, "/missing").await;
        assert_eq!(
            (answer.status, &*answer.body),
            (503, "503 Service Unavailable\n")
        );
    }
    // A link out of the folder is no page.
    let site = r#"{"root": "FOLDER", "errors": "FOLDER/errors"}"#;
    let world = World::new(site, &[("errors/x", "")]);
    let link = world.folder.path().join("errors/404.html");
    std::os::unix::fs::symlink(outside.path().join("404.html"), link).unwrap();
    let answer = world.get(BOTH[0], "/missing").await;
    assert_eq!((answer.status, &*answer.body), (404, "404 Not Found\n"));
}
