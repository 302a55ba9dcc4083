//! Tests answers of scripts that are compressed.

use http::Method;

use crate::coding::{Coded, page};
use crate::fastcgi_server::{FastCgiServer, STDOUT, record};
use crate::world::{BOTH, HOST, World};

const SITE: &str = r#"{"root": "FOLDER/www", "compress": {"upstream": true}, "fastcgi": {
    "servers": ["unix:FOLDER/run/{tenant}/php.sock"], "keep": 2}}"#;

/// Starts a server whose script answers with a whole page, and goes on then.
fn start(page: &str) -> (World, FastCgiServer) {
    let world = World::new(SITE, &[("www/index.php", "<?php")]);
    let length = page.len();
    let head =
        format!("Content-Type: text/html\r\nETag: \"a\"\r\nContent-Length: {length}\r\n\r\n");
    let records = [head.as_bytes(), page.as_bytes()].map(|output| record(STDOUT, output));
    let socket = world.folder.path().join("run/acme/php.sock");
    let server = FastCgiServer::start(&socket, move |_| records.concat());
    (world, server)
}

#[tokio::test]
async fn a_script_that_goes_on_behind_its_answer_keeps_no_client_waiting() {
    let page = page(50_000);
    let (world, _server) = start(&page);
    for version in BOTH {
        let mut client = world.connect(version, HOST).await;
        for (accept, coding) in [("", None), ("gzip", Some("gzip"))] {
            let answer = Coded::get(&mut client, "/index.php", accept).await;
            assert_eq!(answer.field("content-encoding"), coding);
            assert!(answer.text() == page, "{version:?} {accept}");
        }
    }
}

#[tokio::test]
async fn a_head_does_not_depend_on_how_quick_a_script_is() {
    let (world, _server) = start(&page(50_000));
    for version in BOTH {
        let mut client = world.connect(version, HOST).await;
        let head = Coded::of(&mut client, Method::HEAD, "/index.php", "gzip").await;
        assert_eq!(head.field("content-length"), Some("50000"), "{version:?}");
        assert_eq!(head.field("content-encoding"), None, "{version:?}");
        assert_eq!(head.field("etag"), Some("\"a\""), "{version:?}");
        assert_eq!(head.field("vary"), Some("Accept-Encoding"), "{version:?}");
    }
}
