//! Tests requests that break the rules of HTTP/1.1, and unusual valid ones.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Scripted, Setup, host, start};
use sekisho_testkit::{Key, TestCa, client};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Requests with their status, and whether the connection ends.
const CASES: &[(&str, &str, bool)] = &[
    ("GET / HTTP/1.1\r\nHost: a.example\r\n\r\n", "308", false),
    // The only transfer coding is chunked, once (RFC 9112, sections 6.1 and 7).
    (
        "POST / HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "308",
        false,
    ),
    (
        "POST / HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\
         Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "400",
        true,
    ),
    (
        "POST / HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
        "400",
        true,
    ),
    (
        "POST / HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        "501",
        true,
    ),
    // A target in absolute form overrides Host (section 3.2.2).
    (
        "GET http://a.example/ HTTP/1.1\r\nHost: b.example\r\n\r\n",
        "308",
        false,
    ),
    ("GET http://a.example/ HTTP/1.1\r\n\r\n", "400", false),
    (
        "GET ftp://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n",
        "400",
        false,
    ),
    // A port has 16 bits.
    (
        "GET / HTTP/1.1\r\nHost: a.example:65535\r\n\r\n",
        "308",
        false,
    ),
    (
        "GET / HTTP/1.1\r\nHost: a.example:99999\r\n\r\n",
        "400",
        false,
    ),
    (
        "GET http://a.example:99999/ HTTP/1.1\r\nHost: a.example\r\n\r\n",
        "400",
        false,
    ),
    // After CONNECT, the client may send bytes that are not HTTP.
    (
        "CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n\r\n",
        "400",
        true,
    ),
    // hyper answers these itself, as docs/configuration.md documents.
    ("GET / HTTP/2.0\r\nHost: a.example\r\n\r\n", "400", true),
];

#[tokio::test]
async fn each_request_gets_its_status() {
    let ca = TestCa::new();
    let pair = ca.issue(&["a.example", "b.example"], Key::P256);
    let hosts = ["a.example", "b.example"].map(|name| host(name, &[(&pair, Key::P256)]));
    let running = start(Scripted::new(hosts), &Setup::default());
    for (request, status, ends) in CASES {
        let config = client::config(&ca);
        let stream = client::connect(running.address, "a.example", config).await;
        let mut stream = stream.unwrap();
        // The answer to the second request shows whether the connection ended.
        let last = "GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n";
        let both = format!("{request}{last}");
        stream.write_all(both.as_bytes()).await.unwrap();
        let mut answers = String::new();
        stream.read_to_string(&mut answers).await.unwrap();
        let mut statuses = answers.match_indices("HTTP/1.1 ");
        let (first, _) = statuses.next().expect("an answer");
        assert_eq!(&answers[first + 9..first + 12], *status, "{request}");
        assert_eq!(statuses.count(), usize::from(!ends), "{request}{answers}");
    }
}
