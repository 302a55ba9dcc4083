//! Tests files whose answers are compressed.

use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime};

use http::{Method, Version};

use super::coding::{Coded, page};
use crate::world::{BOTH, HOST, World, write};

#[tokio::test]
async fn files_are_compressed_small_or_large() {
    let (small, large) = (page(20_000), page(1_000_000));
    let site = r#"{"root": "FOLDER", "compress": true}"#;
    let files = [("small.html", &*small), ("large.html", &*large)];
    let world = World::new(site, &files);
    for version in BOTH {
        let mut client = world.connect(version, HOST).await;
        for _ in 0..2 {
            let coded = Coded::get(&mut client, "/small.html", "br, gzip").await;
            assert_eq!(coded.field("content-encoding"), Some("br"));
            assert!(coded.text() == small);
            assert!(coded.field("etag").unwrap().starts_with("W/"));
            assert_eq!(coded.field("accept-ranges"), None);
            // As the file is.
            let head = Coded::of(&mut client, Method::HEAD, "/small.html", "br, gzip").await;
            assert_eq!(head.field("content-encoding"), None);
            assert_eq!(head.field("content-length"), Some("20000"));
            assert_eq!(head.field("vary"), coded.field("vary"));
            let coded = Coded::get(&mut client, "/large.html", "br, gzip").await;
            assert_eq!(coded.field("content-encoding"), Some("gzip"));
            assert!(coded.text() == large);
        }
        let tag = Coded::get(&mut client, "/large.html", "gzip").await;
        let tag = tag.field("etag").unwrap();
        let fields = [("accept-encoding", "gzip"), ("if-none-match", tag)];
        let answer = client.send(Method::GET, "/large.html", &fields).await;
        assert_eq!(answer.status, 304);
        assert_eq!(answer.field("etag").as_deref(), Some(tag));
        assert_eq!(answer.field("vary").unwrap(), "Accept-Encoding");
        let fields = [("accept-encoding", "gzip"), ("range", "bytes=3-5")];
        let part = client.send(Method::GET, "/large.html", &fields).await;
        assert_eq!((part.status, &*part.body), (206, &large[3..6]));
    }
}

#[tokio::test]
async fn a_copy_keeps_its_tag_where_others_are_compressed() {
    let site = r#"{"root": "FOLDER", "precompressed": ["gzip"], "compress": true}"#;
    let world = World::new(site, &[("a.html", "page"), ("a.html.gz", "copy")]);
    let mut client = world.connect(Version::HTTP_2, HOST).await;
    let coded = Coded::get(&mut client, "/a.html", "gzip").await;
    let tag = coded.field("etag").unwrap();
    assert!(coded.body == "copy" && tag.starts_with('"'), "{tag}");
    let fields = [("accept-encoding", "gzip"), ("if-none-match", tag)];
    let answer = client.send(Method::GET, "/a.html", &fields).await;
    assert_eq!(
        (answer.status, answer.field("etag").as_deref()),
        (304, Some(tag))
    );
}

/// What a client keeps has the tag and the `Vary` that it came with (RFC 9110, section 15.4.5).
#[tokio::test]
async fn a_304_has_the_tag_that_the_client_has() {
    let text = page(2000);
    let site = r#"{"root": "FOLDER", "compress": true}"#;
    let world = World::new(site, &[("a.png", &*text), ("a.txt", &*text)]);
    for version in BOTH {
        let mut client = world.connect(version, HOST).await;
        for (path, accept, is_weak, vary) in [
            ("/a.png", "gzip", false, None),
            ("/a.txt", "", false, Some("Accept-Encoding")),
            ("/a.txt", "gzip", true, Some("Accept-Encoding")),
        ] {
            let whole = Coded::get(&mut client, path, accept).await;
            let tag = whole.field("etag").unwrap();
            assert_eq!(tag.starts_with("W/"), is_weak, "{path}");
            assert_eq!(whole.field("vary"), vary, "{path}");
            let fields = [("accept-encoding", "gzip"), ("if-none-match", tag)];
            let answer = client.send(Method::GET, path, &fields).await;
            assert_eq!(answer.status, 304, "{path}");
            assert_eq!(answer.field("etag").as_deref(), Some(tag), "{path}");
            assert_eq!(answer.field("vary").as_deref(), vary, "{path}");
        }
    }
}

#[tokio::test]
async fn a_range_that_does_not_apply_gets_the_file_as_it_is() {
    let text = page(2000);
    let site = r#"{"root": "FOLDER", "compress": true, "precompressed": ["gzip"]}"#;
    let files = [("a.txt", &*text), ("b.txt", &*text), ("b.txt.gz", "copy")];
    let world = World::new(site, &files);
    for version in BOTH {
        let mut client = world.connect(version, HOST).await;
        for path in ["/a.txt", "/b.txt"] {
            let fields = [
                ("accept-encoding", "gzip"),
                ("range", "bytes=3-5"),
                ("if-range", "\"former\""),
            ];
            let answer = client.send(Method::GET, path, &fields).await;
            assert_eq!((answer.status, &answer.body), (200, &text), "{path}");
            assert_eq!(answer.field("content-encoding"), None, "{path}");
            assert!(answer.field("etag").unwrap().starts_with('"'), "{path}");
            assert_eq!(answer.field("vary").unwrap(), "Accept-Encoding", "{path}");
        }
    }
}

#[tokio::test]
async fn a_head_has_the_fields_of_a_text_as_it_is() {
    let text = page(2000);
    let site = format!(r#"{{"status": 410, "text": "{text}", "compress": true}}"#);
    let world = World::new(&site, &[]);
    for version in BOTH {
        let mut client = world.connect(version, HOST).await;
        let coded = Coded::get(&mut client, "/", "gzip").await;
        assert_eq!(coded.field("content-encoding"), Some("gzip"));
        let head = Coded::of(&mut client, Method::HEAD, "/", "gzip").await;
        assert_eq!(head.field("content-encoding"), None);
        assert_eq!(head.field("content-length"), Some("2000"));
    }
}

/// Each answer is one state of a file that is replaced all the time, and a new one each second.
#[tokio::test]
async fn a_file_that_changes_while_it_is_compressed_is_whole() {
    let state = |number: usize| format!("{number:06} ").repeat(3000);
    let site = r#"{"root": "FOLDER", "compress": true}"#;
    let world = World::new(site, &[]);
    write(&world.folder, "page.html", &state(0));
    let (path, stop) = (
        world.folder.path().to_owned(),
        Arc::new(AtomicBool::new(false)),
    );
    let stopped = Arc::clone(&stop);
    let then = SystemTime::now() - Duration::from_secs(60);
    let writer = std::thread::spawn(move || {
        for number in 1.. {
            // Another file in its place: what is read of one is one state. It is old, so that
            // its copy is kept.
            fs::write(path.join("next"), state(number)).unwrap();
            let next = fs::File::options().write(true).open(path.join("next"));
            next.unwrap().set_modified(then).unwrap();
            fs::rename(path.join("next"), path.join("page.html")).unwrap();
            if stopped.load(Relaxed) {
                return;
            }
        }
    });
    let mut client = world.connect(Version::HTTP_2, HOST).await;
    let (mut seen, until) = (BTreeSet::new(), Instant::now() + Duration::from_secs(30));
    while seen.len() < 3 {
        assert!(Instant::now() < until, "{seen:?}");
        let coded = Coded::get(&mut client, "/page.html", "gzip").await;
        assert_eq!(coded.field("content-encoding"), Some("gzip"));
        let text = coded.text();
        let number = text[..6].parse().unwrap();
        assert!(text == state(number), "{}", &text[..60]);
        seen.insert(number);
    }
    stop.store(true, Relaxed);
    writer.join().unwrap();
}

#[tokio::test]
async fn what_must_not_change_is_sent_as_it_is() {
    let (text, short) = (page(2000), page(500));
    let site = r#"{
        "root": "FOLDER", "compress": true,
        "paths": [{
            "path": "/fixed", "root": "FOLDER", "cache": {"*/*": "max-age=60, No-Transform"}
        }]
    }"#;
    let files = [
        ("short.txt", &*short),
        ("a.png", &*text),
        ("a.txt", &*text),
        ("fixed/a.txt", &*text),
    ];
    let world = World::new(site, &files);
    let mut client = world.connect(Version::HTTP_2, HOST).await;
    for (path, content) in [
        ("/short.txt", &short),
        ("/a.png", &text),
        ("/fixed/a.txt", &text),
    ] {
        for _ in 0..2 {
            let answer = Coded::get(&mut client, path, "gzip").await;
            assert_eq!(answer.field("content-encoding"), None, "{path}");
            assert_eq!(answer.text(), *content, "{path}");
        }
    }
    let fields = [("accept-encoding", "gzip"), ("range", "bytes=3-5")];
    let part = client.send(Method::GET, "/a.txt", &fields).await;
    assert_eq!((part.status, &*part.body), (206, &text[3..6]));
}
