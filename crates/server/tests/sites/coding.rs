//! Tests answers that are compressed on their way.

use std::io::Read;

use bytes::Bytes;
use flate2::read::GzDecoder;
use flate2::{Decompress, FlushDecompress};
use http::{HeaderMap, Method, Version};
use http_body_util::{BodyExt, Empty};
use sekisho_testkit::client;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::common::upstream::{Upstream, patiently};
use crate::world::{BOTH, Client, HOST, World};

/// Whole answer, as it came.
pub(super) struct Coded {
    status: u16,
    fields: HeaderMap,
    pub(super) body: Bytes,
    trailers: Option<HeaderMap>,
}

impl Coded {
    pub(super) async fn get(client: &mut Client, path: &str, accept: &str) -> Self {
        Self::of(client, Method::GET, path, accept).await
    }

    pub(super) async fn of(client: &mut Client, method: Method, path: &str, accept: &str) -> Self {
        let body = Empty::new().map_err(|never| match never {}).boxed();
        let fields = [("accept-encoding", accept)];
        let response = client.begin(method, path, &fields, body).await.unwrap();
        let (head, body) = response.into_parts();
        let body = patiently(body.collect()).await.unwrap();
        Self {
            status: head.status.as_u16(),
            fields: head.headers,
            trailers: body.trailers().cloned(),
            body: body.to_bytes(),
        }
    }

    pub(super) fn field(&self, name: &str) -> Option<&str> {
        Some(self.fields.get(name)?.to_str().unwrap())
    }

    /// Returns the body without its coding.
    pub(super) fn text(&self) -> String {
        let mut decoded = Vec::new();
        match self.field("content-encoding") {
            None => decoded.extend(&self.body),
            Some("gzip") => {
                let mut decoder = GzDecoder::new(&*self.body);
                decoder.read_to_end(&mut decoded).unwrap();
            }
            Some("br") => brotli::BrotliDecompress(&mut &*self.body, &mut decoded).unwrap(),
            Some(other) => panic!("{other}"),
        }
        String::from_utf8(decoded).unwrap()
    }
}

pub(super) fn page(bytes: usize) -> String {
    let words = (0..bytes).map(|number| format!("<p>{number} texts "));
    let mut page: String = words.take(bytes / 8 + 1).collect();
    page.truncate(bytes);
    page
}

/// Starts an upstream that answers all requests with these bytes, and a site before it.
async fn behind(answer: String, compress: &str) -> World {
    let upstream = Upstream::bind().await;
    let url = upstream.url();
    let _heads = upstream.answering(answer.leak());
    World::new(&format!(r#"{{"upstream": "{url}", {compress}}}"#), &[])
}

fn answer(fields: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: {length}\r\n\r\n{body}")
}

const HTML: &str = "Content-Type: text/html\r\n";
const UPSTREAM: &str = r#""compress": {"upstream": true}"#;

#[tokio::test]
async fn an_upstreams_answer_is_compressed_where_the_site_says_so() {
    // A page that comes with its head.
    let page = page(4000);
    let html = format!("{HTML}ETag: \"a\"\r\nAccept-Ranges: bytes\r\nVary: Origin\r\n");
    let world = behind(answer(&html, &page), UPSTREAM).await;
    for version in BOTH {
        let mut client = world.connect(version, HOST).await;
        for (accept, coding) in [
            ("gzip, br", "br"),
            ("gzip", "gzip"),
            ("br;q=0.5, gzip", "gzip"),
        ] {
            let coded = Coded::get(&mut client, "/", accept).await;
            assert_eq!(coded.field("content-encoding"), Some(coding), "{accept}");
            assert!(coded.text() == page, "{accept}");
            assert!(coded.body.len() < page.len() / 2, "{accept}");
            let vary: Vec<_> = coded.fields.get_all("vary").iter().collect();
            assert_eq!(vary, ["Origin", "Accept-Encoding"]);
            assert_eq!(coded.field("etag"), Some("W/\"a\""));
            assert_eq!(coded.field("accept-ranges"), None);
        }
        for accept in ["", "zstd", "deflate", "gzip;q=0"] {
            let plain = Coded::get(&mut client, "/", accept).await;
            assert_eq!(plain.field("content-encoding"), None, "{accept}");
            assert!(plain.text() == page);
            assert_eq!(plain.field("etag"), Some("\"a\""));
            assert_eq!(plain.field("content-length"), Some("4000"));
            assert_eq!(plain.fields.get_all("vary").iter().count(), 2);
        }
    }
    for compress in [r#""compress": true"#, r#""compress": false"#] {
        let world = behind(answer(HTML, &page), compress).await;
        let mut client = world.connect(BOTH[0], HOST).await;
        let plain = Coded::get(&mut client, "/", "gzip").await;
        assert_eq!(plain.field("content-encoding"), None);
        assert_eq!(plain.field("vary"), None);
    }
}

#[tokio::test]
async fn a_head_is_that_of_the_answer_as_it_is() {
    let head = format!("HTTP/1.1 200 OK\r\n{HTML}ETag: \"a\"\r\nContent-Length: 4000\r\n\r\n");
    let world = behind(head, UPSTREAM).await;
    for version in BOTH {
        let mut client = world.connect(version, HOST).await;
        for accept in ["gzip", ""] {
            let head = Coded::of(&mut client, Method::HEAD, "/", accept).await;
            assert_eq!((head.status, head.body.len()), (200, 0));
            assert_eq!(head.field("content-length"), Some("4000"));
            assert_eq!(head.field("content-encoding"), None);
            assert_eq!(head.field("etag"), Some("\"a\""));
            assert_eq!(head.field("vary"), Some("Accept-Encoding"));
        }
    }
}

#[tokio::test]
async fn what_must_not_change_is_sent_as_it_is() {
    let page = page(20_000);
    for fields in [
        "Content-Type: image/png\r\n",
        "Content-Type: text/event-stream\r\n",
        "Content-Type: application/grpc\r\n",
        "",
        &format!("{HTML}Set-Cookie: a=b\r\n"),
        &format!("{HTML}Cache-Control: no-transform\r\n"),
        &format!("{HTML}Content-Encoding: x-own\r\n"),
    ] {
        let world = behind(answer(fields, &page), UPSTREAM).await;
        for version in BOTH {
            let mut client = world.connect(version, HOST).await;
            let plain = Coded::get(&mut client, "/", "gzip").await;
            assert!(plain.body == page, "{fields}");
            assert_eq!(plain.field("content-length"), Some("20000"), "{fields}");
        }
    }
    let short = behind(answer(HTML, &page[..500]), UPSTREAM).await;
    let plain = Coded::get(&mut short.connect(BOTH[0], HOST).await, "/", "gzip").await;
    assert_eq!(plain.text(), page[..500]);
    assert_eq!(plain.field("vary"), Some("Accept-Encoding"));
    assert_eq!(plain.field("content-encoding"), None);
    // A site may ask for it: its pages hold no secrets.
    let compress = r#""compress": {"upstream": true, "cookies": true}"#;
    let cookie = answer(&format!("{HTML}Set-Cookie: a=b\r\n"), &page);
    let world = behind(cookie, compress).await;
    let coded = Coded::get(&mut world.connect(BOTH[0], HOST).await, "/", "gzip").await;
    assert_eq!(coded.field("content-encoding"), Some("gzip"));
    assert!(coded.text() == page);
}

#[tokio::test]
async fn fields_of_the_rule_count() {
    let compress = r#""compress": {"upstream": true}, "response": {"add": {"Set-Cookie": "a=b"}}"#;
    let world = behind(answer(HTML, &page(20_000)), compress).await;
    let plain = Coded::get(&mut world.connect(BOTH[0], HOST).await, "/", "gzip").await;
    assert_eq!(plain.field("content-encoding"), None);
}

#[tokio::test]
async fn a_long_answer_is_compressed_while_it_is_sent() {
    let page = page(1_000_000);
    let chunked = format!(
        "HTTP/1.1 200 OK\r\n{HTML}Trailer: X-End\r\nTransfer-Encoding: chunked\r\n\r\n\
         {:x}\r\n{page}\r\n0\r\nX-End: yes\r\n\r\n",
        page.len()
    );
    for (whole, has_trailers) in [(answer(HTML, &page), false), (chunked, true)] {
        let world = behind(whole, UPSTREAM).await;
        for version in BOTH {
            let mut client = world.connect(version, HOST).await;
            let coded = Coded::get(&mut client, "/", "br, gzip").await;
            // br takes too much memory for a stream.
            assert_eq!(coded.field("content-encoding"), Some("gzip"));
            assert_eq!(coded.field("content-length"), None);
            assert!(coded.text() == page);
            if version == Version::HTTP_2 {
                assert_eq!(coded.trailers.is_some(), has_trailers);
            }
            let plain = Coded::get(&mut client, "/", "br").await;
            assert_eq!(plain.field("content-encoding"), None);
            assert!(plain.text() == page);
        }
    }
}

/// HTTP/1.0 has no chunks: such an answer ends with its connection.
#[tokio::test]
async fn a_client_of_http_1_0_gets_a_compressed_answer_without_chunks() {
    let page = page(1_000_000);
    let world = behind(answer(HTML, &page), UPSTREAM).await;
    let config = client::config(&world.ca);
    let mut stream = client::connect(world.running.address, HOST, config)
        .await
        .unwrap();
    let request = format!("GET / HTTP/1.0\r\nHost: {HOST}\r\nAccept-Encoding: gzip\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut response = Vec::new();
    let read = stream.read_to_end(&mut response);
    patiently(read).await.unwrap();
    let end = response.windows(4).position(|bytes| bytes == b"\r\n\r\n");
    let (head, body) = response.split_at(end.unwrap() + 4);
    let head = String::from_utf8_lossy(head).to_ascii_lowercase();
    assert!(head.contains("content-encoding: gzip"), "{head}");
    assert!(!head.contains("transfer-encoding"), "{head}");
    let mut text = String::new();
    GzDecoder::new(body).read_to_string(&mut text).unwrap();
    assert!(text == page);
}

const CHUNKED: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n";

#[tokio::test]
async fn a_slow_page_is_flushed() {
    for version in BOTH {
        let upstream = Upstream::bind().await;
        let site = format!(r#"{{"upstream": "{}", {UPSTREAM}}}"#, upstream.url());
        let world = World::new(&site, &[]);
        let mut client = world.connect(version, HOST).await;
        let served = async {
            let mut wire = upstream.accept().await;
            wire.head().await;
            wire.send(format!("{CHUNKED}5\r\nfirst\r\n")).await;
            wire
        };
        let body = Empty::new().map_err(|never| match never {}).boxed();
        let fields = [("accept-encoding", "gzip")];
        let asked = client.begin(Method::GET, "/", &fields, body);
        let (response, mut wire) = tokio::join!(asked, served);
        let mut body = response.unwrap().into_body();
        let (mut decoder, mut text) = (Decompress::new_gzip(15), Vec::with_capacity(100));
        let mut is_sent = false;
        while let Some(frame) = patiently(body.frame()).await {
            let piece = frame.unwrap().into_data().unwrap();
            let flush = FlushDecompress::Sync;
            decoder.decompress_vec(&piece, &mut text, flush).unwrap();
            if text == b"first" && !is_sent {
                is_sent = true;
                wire.send("6\r\nsecond\r\n0\r\n\r\n").await;
            }
        }
        assert_eq!(text, b"firstsecond");
    }
}

#[tokio::test]
async fn a_broken_answer_stays_broken() {
    for version in BOTH {
        let upstream = Upstream::bind().await;
        let site = format!(r#"{{"upstream": "{}", {UPSTREAM}}}"#, upstream.url());
        let world = World::new(&site, &[]);
        let mut client = world.connect(version, HOST).await;
        let served = async {
            let mut wire = upstream.accept().await;
            wire.head().await;
            wire.send(format!("{CHUNKED}5\r\nfirst\r\n")).await;
        };
        let body = Empty::new().map_err(|never| match never {}).boxed();
        let fields = [("accept-encoding", "gzip")];
        let asked = client.begin(Method::GET, "/", &fields, body);
        let (response, ()) = tokio::join!(asked, served);
        let read = async {
            let body = response?.into_body();
            body.collect().await
        };
        assert!(patiently(read).await.is_err(), "{version:?}");
    }
}

#[tokio::test]
async fn an_error_of_an_upstream_gets_a_page_if_the_site_says_so() {
    let page = page(3000);
    let fields = "Content-Encoding: gzip\r\nETag: \"a\"\r\nLast-Modified: \
                  Thu, 01 Jan 2026 00:00:00 GMT\r\nRetry-After: 7\r\nContent-Location: /a\r\n\
                  Content-Digest: a\r\nRepr-Digest: a\r\nDigest: a\r\nContent-MD5: a\r\n";
    let error = answer(&format!("{HTML}{fields}"), "error").replace("200 OK", "503 Busy");
    let upstream = Upstream::bind().await;
    let url = upstream.url();
    let _heads = upstream.answering(error.leak());
    let site = format!(
        r#"{{
            "upstream": "{url}", "errors": "FOLDER", "upstream_errors": true, "compress": true,
            "paths": [
                {{"path": "/own", "upstream": "{url}", "upstream_errors": false}},
                {{"path": "/none", "upstream": "{url}", "errors": "FOLDER/none"}}
            ]
        }}"#
    );
    let world = World::new(&site, &[("503.html", &page), ("none/503.html/x", "")]);
    for version in BOTH {
        let mut client = world.connect(version, HOST).await;
        let answer = Coded::get(&mut client, "/", "").await;
        assert_eq!((answer.status, answer.text()), (503, page.clone()));
        assert_eq!(answer.field("retry-after"), Some("7"));
        for name in [
            "content-encoding",
            "etag",
            "last-modified",
            "content-location",
            "content-digest",
            "repr-digest",
            "digest",
            "content-md5",
        ] {
            assert_eq!(answer.field(name), None, "{name}");
        }
        for path in ["/own", "/none"] {
            let answer = Coded::get(&mut client, path, "").await;
            assert_eq!(
                (answer.status, &*answer.body),
                (503, &b"error"[..]),
                "{path}"
            );
            assert_eq!(answer.field("etag"), Some("\"a\""), "{path}");
        }
    }
}
