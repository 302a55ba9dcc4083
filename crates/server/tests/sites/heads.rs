//! Tests answers to HEAD (RFC 9110, section 9.3.2).

use http::{Method, Version};

use crate::world::{BOTH, HOST, OTHER, World};

/// Site with an answer of each kind.
const SITE: &str = r#"{
    "root": "FOLDER",
    "paths": [
        {"path": "/text", "status": 503, "text": "Back at 8."},
        {"path": "/empty", "status": 410},
        {"path": "/away", "redirect": "https://b.example"},
        {"path": "/pages", "root": "FOLDER", "errors": "FOLDER"}
    ]
}"#;

#[tokio::test]
async fn head_gets_the_head_that_get_has() {
    let files = [("index.html", "page"), ("404.html", "not here")];
    let world = World::new(SITE, &files);
    let paths = [
        ("/", 200),
        ("/missing", 404),
        ("/text", 503),
        ("/empty", 410),
        ("/away", 308),
        ("/pages/missing", 404),
        // Refused as a path.
        ("/%zz", 400),
    ];
    for version in BOTH {
        let mut client = world.connect(version, HOST).await;
        for (path, status) in paths {
            let get = client.get(path).await;
            let head = client.send(Method::HEAD, path, &[]).await;
            let statuses = [get.status, head.status];
            assert_eq!(statuses, [status; 2], "{version:?} {path}");
            assert_eq!(head.body, "", "{version:?} {path}");
            for name in ["content-type", "location"] {
                assert_eq!(head.field(name), get.field(name), "{version:?} {path}");
            }
            let length = head.field("content-length");
            // Without content, HTTP/1.1 may leave it out (RFC 9110, section 8.6).
            let is_left_out = length.is_none() && get.body.is_empty();
            let is_same = length == get.field("content-length");
            assert!(is_left_out || is_same, "{version:?} {path}: {length:?}");
        }
    }
}

/// A connection of HTTP/2 may ask for hosts that its certificate does not cover.
#[tokio::test]
async fn a_refused_head_has_no_content_either() {
    let world = World::new(SITE, &[]);
    let mut client = world.connect(Version::HTTP_2, HOST).await;
    client.host = OTHER.into();
    let answer = client.send(Method::HEAD, "/", &[]).await;
    assert_eq!((answer.status, &*answer.body), (421, ""));
}
