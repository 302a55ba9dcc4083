//! Fields that belong to one connection, that name clients, or that applications take
//! for others.

use super::super::case::{Case, Expect};
use super::{get, post};

pub(super) fn cases() -> Vec<Case> {
    let served = SERVED.iter().map(|fields| {
        let request = get(&format!("{}\r\n", fields.replace('|', "\r\n")));
        let expect = Expect::Served(String::new());
        Case::text("field", fields, request, expect).method("GET")
    });
    let either = EITHER.iter().map(|fields| {
        let request = get(&format!("{}\r\n", fields.replace('|', "\r\n")));
        Case::text("field", fields, request, Expect::either(&[""])).method("GET")
    });
    let bodies = BODIES.iter().map(|fields| {
        let request = post(&format!("{}\r\n", fields.replace('|', "\r\n")), "hello");
        Case::text(
            "field with a body",
            fields,
            request,
            Expect::either(&["hello"]),
        )
    });
    let chunked = CHUNKED.iter().map(|fields| {
        let fields = fields.replace('|', "\r\n");
        let request = post(&format!("{fields}\r\n"), "5\r\nhello\r\n0\r\n\r\n");
        Case::text(
            "field with chunks",
            &fields,
            request,
            Expect::either(&["hello"]),
        )
    });
    served.chain(either).chain(bodies).chain(chunked).collect()
}

/// Fields that a server strips, replaces or passes on.
const SERVED: [&str; 41] = [
    "X-Forwarded-For: 6.6.6.6",
    "X-Forwarded-For: 6.6.6.6|X-Forwarded-For: 6.6.6.6",
    "x-forwarded-for: 6.6.6.6, 127.0.0.1",
    "X_Forwarded_For: 6.6.6.6",
    "X-Forwarded_For: 6.6.6.6",
    "x_forwarded-for: 6.6.6.6",
    "X-Forwarded-Proto: 6.6.6.6",
    "X-Forwarded-Host: 6.6.6.6",
    "X_Forwarded_Host: 6.6.6.6",
    "X-Real-IP: 6.6.6.6",
    "Proxy: 6.6.6.6",
    "pROXY: 6.6.6.6",
    "Connection: Proxy|Proxy: 6.6.6.6",
    "X.Forwarded.For: 6.6.6.6",
    "X_Real_IP: 6.6.6.6",
    "Forwarded: for=6.6.6.6",
    "Connection: X-Forwarded-For",
    "Connection: keep-alive, X-Forwarded-For",
    "Connection: Host",
    "Connection: host, keep-alive",
    "Connection: X-Real-IP|X-Real-IP: 6.6.6.6",
    "Connection: X-Named|X-Named: 6.6.6.6",
    "Connection: x-named|Connection: keep-alive|X-Named: 6.6.6.6",
    "Connection: \"x\", , x-named|X-Named: 6.6.6.6",
    "Connection: CDN-Loop",
    "Connection: Cookie|Cookie: a=b",
    "Connection: Content-Length",
    "Connection: Transfer-Encoding",
    "Keep-Alive: 6.6.6.6",
    "Proxy-Connection: 6.6.6.6",
    "Proxy-Authorization: 6.6.6.6",
    "TE: trailers",
    "TE: 6.6.6.6",
    "Script-Filename: /etc/passwd",
    "script_filename: 6.6.6.6",
    "SCRIPT_FILENAME: 6.6.6.6|SCRIPT_NAME: 6.6.6.6|PATH_INFO: 6.6.6.6",
    "HTTP_PROXY: 6.6.6.6|Http-Proxy: 127.0.0.1",
    "Remote-User: ann|REMOTE_USER: 6.6.6.6",
    "Content-Type: a/b|Content_Type: 6.6.6.6",
    "PATH: 127.0.0.1|LD-Preload: x.so|LD_PRELOAD: 6.6.6.6",
    "X: HTTP_PROXY=127.0.0.1",
];

const EITHER: [&str; 23] = [
    "Connection: close",
    "Connection: close, keep-alive",
    "Connection: Upgrade",
    "Upgrade: websocket",
    "Upgrade: h2c|HTTP2-Settings: AAMAAABkAAQAAP__|Connection: Upgrade, HTTP2-Settings",
    "Upgrade: h2c|Connection: Upgrade",
    "Upgrade: TLS/1.2|Connection: Upgrade",
    "Upgrade: a, b|Connection: upgrade",
    "Upgrade: x|Upgrade: y|Connection: upgrade",
    "HTTP2-Settings: AAMAAABkAAQAAP__",
    "Trailer: Content-Length",
    "Max-Forwards: 0",
    "Expect: 100-continue",
    "Expect: 100-continue, x",
    "Expect: x",
    "Expect: 100-continue|Expect: 100-continue",
    "Content-Encoding: gzip",
    "Range: bytes=0-0",
    "X-HTTP-Method-Override: DELETE",
    "X-Original-URL: /smuggled/{id}",
    "X-Rewrite-URL: /smuggled/{id}",
    "Cookie: a=b|Cookie: c=d",
    "HTTP_PROXY=6.6.6.6: y",
];

/// Fields beside a body of five bytes.
const BODIES: [&str; 14] = [
    "Content-Length: 5|Connection: Content-Length",
    "Connection: content-length|Content-Length: 5",
    "Content-Length: 5|Connection: close, Content-Length",
    "Content-Length: 5|Connection: Transfer-Encoding",
    "Content-Length: 5|Connection: Host, Content-Length, X-Forwarded-For",
    "Content-Length: 5|Expect: 100-continue",
    "Content-Length: 5|Expect: 100-Continue",
    "Content-Length: 5|Expect: 100-continue, 100-continue",
    "Content-Length: 5|Upgrade: websocket|Connection: Upgrade|Sec-WebSocket-Version: 13|Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
    "Content-Length: 5|Upgrade: h2c|HTTP2-Settings: AAMAAABkAAQAAP__|Connection: Upgrade, HTTP2-Settings",
    "Content-Length: 5|Content_Length: 0",
    "Content-Length: 5|Transfer_Encoding: chunked",
    "Content-Length: 5|X: Transfer-Encoding: chunked",
    "Content-Length: 5|TE: chunked",
];

/// Fields beside a chunked body.
const CHUNKED: [&str; 8] = [
    "Transfer-Encoding: chunked|Connection: Transfer-Encoding",
    "Connection: transfer-encoding, close|Transfer-Encoding: chunked",
    "Transfer-Encoding: chunked|Expect: 100-continue",
    "Transfer-Encoding: chunked|Trailer: X-Trailer",
    "Transfer-Encoding: chunked|TE: trailers, chunked",
    "Transfer-Encoding: chunked|Content_Length: 5",
    "Transfer-Encoding: chunked|Connection: Host",
    "Transfer-Encoding: chunked|Upgrade: websocket|Connection: Upgrade|Sec-WebSocket-Version: 13|Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
];
