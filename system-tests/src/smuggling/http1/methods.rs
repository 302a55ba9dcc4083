//! Methods with and without bodies, and HTTP/1.0.

use super::super::case::{Case, Expect};

pub(super) fn cases() -> Vec<Case> {
    let with_length = METHODS.iter().map(|method| {
        let request = request(method, "1.1", "Content-Length: 5", "hello");
        let what = format!("{method} with a length");
        Case::text("method", &what, request, Expect::either(&["hello"])).method(method)
    });
    let with_chunks = METHODS.iter().map(|method| {
        let request = request(method, "1.1", "Transfer-Encoding: chunked", CHUNKS);
        let what = format!("{method} with chunks");
        Case::text("method", &what, request, Expect::either(&["hello"])).method(method)
    });
    let without = METHODS.iter().map(|method| {
        let request = request(method, "1.1", "X: y", "");
        let what = format!("{method} alone");
        Case::text("method", &what, request, Expect::either(&[""])).method(method)
    });
    let refused = REFUSED.iter().map(|method| {
        let request = request(method, "1.1", "X: y", "");
        Case::text("method", method, request, Expect::Refused).method(method)
    });
    let old = OLD.iter().map(|(fields, body, bodies)| {
        let request = request("POST", "1.0", fields, body);
        Case::text("HTTP/1.0", fields, request, Expect::either(bodies))
    });
    with_length
        .chain(with_chunks)
        .chain(without)
        .chain(refused)
        .chain(old)
        .chain([tunnel()])
        .collect()
}

fn request(method: &str, version: &str, fields: &str, body: &str) -> String {
    let fields = fields.replace('|', "\r\n");
    format!("{method} /case/{{id}} HTTP/{version}\r\nHost: {{host}}\r\n{fields}\r\n\r\n{body}")
}

fn tunnel() -> Case {
    let request = "CONNECT {host}:443 HTTP/1.1\r\nHost: {host}:443\r\n\r\n".to_owned();
    Case::text("method", "CONNECT", request, Expect::Refused).method("CONNECT")
}

const CHUNKS: &str = "5\r\nhello\r\n0\r\n\r\n";

const METHODS: [&str; 9] = [
    "GET", "HEAD", "DELETE", "OPTIONS", "TRACE", "PUT", "PATCH", "PROPFIND", "QUERY",
];

/// Methods that no server takes in this place, or that differ from known ones.
const REFUSED: [&str; 3] = ["CONNECT", "G ET", "GET\u{b}"];

/// Fields, body, and bodies that may be seen. HTTP/1.0 knows no chunks.
const OLD: [(&str, &str, &[&str]); 7] = [
    ("X: y", "", &[""]),
    ("Content-Length: 5", "hello", &["hello"]),
    (
        "Content-Length: 5|Connection: keep-alive",
        "hello",
        &["hello"],
    ),
    ("Transfer-Encoding: chunked", CHUNKS, &[]),
    ("Transfer-Encoding: chunked|Content-Length: 5", CHUNKS, &[]),
    (
        "Transfer-Encoding: chunked|Connection: keep-alive",
        CHUNKS,
        &[],
    ),
    (
        "Expect: 100-continue|Content-Length: 5",
        "hello",
        &["hello"],
    ),
];
