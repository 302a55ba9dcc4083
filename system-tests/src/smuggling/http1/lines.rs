//! Ends of lines, folded lines, bytes that are no text, and request lines.

use super::super::case::{Case, Expect};
use super::{SMUGGLED, get};

pub(super) fn cases() -> Vec<Case> {
    let whole = |request: &&str, expect| {
        let request = request.replace("{get}", "GET /case/{id} HTTP/1.1\r\nHost: {host}");
        Case::text("line", &request, request.clone(), expect).method("GET")
    };
    let refused = REFUSED
        .iter()
        .map(|request| whole(request, Expect::Refused));
    let either = EITHER
        .iter()
        .map(|request| whole(request, Expect::either(&[""])));
    let served = whole(&"{get}\r\n\r\n", Expect::Served(String::new()));
    let values = VALUES.iter().map(|value| {
        let request = get(&format!("X-Value: a{value}b\r\n"));
        Case::text("value", value, request, Expect::either(&[""])).method("GET")
    });
    // A server may end lines at a bare LF (RFC 9112, section 2.2), if those behind it see
    // CRLF: a client that sends two heads then has sent two requests.
    let inside = VALUES.iter().filter(|value| !value.contains('\n'));
    let injected = inside.map(|value| {
        let request = get(&format!("X-Value: a{value}{value}{SMUGGLED}"));
        Case::text("value before a request", value, request, Expect::Refused).method("GET")
    });
    let names = NAMES.iter().map(|name| {
        let request = get(&format!("{name}: value\r\n"));
        Case::text("name", name, request, Expect::Refused).method("GET")
    });
    refused
        .chain(either)
        .chain([served])
        .chain(values)
        .chain(injected)
        .chain(names)
        .collect()
}

/// Requests that end lines otherwise, or begin them otherwise.
const REFUSED: [&str; 35] = [
    "{get}\r\nX: y\r\n folded\r\n\r\n",
    "{get}\r\nX: y\r\n\tfolded\r\n\r\n",
    "{get}\r\n folded: first\r\n\r\n",
    "{get}\r\nX: y\rX-Injected: z\r\n\r\n",
    "{get}\r\nX: y\u{0}\r\n\r\n",
    "{get}\r\nX: y\r\r\n\r\n",
    "{get}\r\nX y\r\n\r\n",
    "{get}\r\n: y\r\n\r\n",
    "{get}\r\n\u{0}\r\n\r\n",
    "{get}\r\nX : y\r\n\r\n",
    "{get}\r\nX\t: y\r\n\r\n",
    "{get}\r\r\n\r\n",
    "GET  /case/{id} HTTP/1.1\r\nHost: {host}\r\n\r\n",
    "GET /case/{id}  HTTP/1.1\r\nHost: {host}\r\n\r\n",
    "GET\t/case/{id}\tHTTP/1.1\r\nHost: {host}\r\n\r\n",
    "GET /case/{id} HTTP/1.1 \r\nHost: {host}\r\n\r\n",
    "GET /case/{id} x HTTP/1.1\r\nHost: {host}\r\n\r\n",
    "GET /case/{id}\r\nHost: {host}\r\n\r\n",
    "GET /case/{id}\r\n\r\n",
    "GET /case/{id} HTTP/1.2\r\nHost: {host}\r\n\r\n",
    "GET /case/{id} HTTP/2.0\r\nHost: {host}\r\n\r\n",
    "GET /case/{id} HTTP/0.9\r\nHost: {host}\r\n\r\n",
    "GET /case/{id} HTTP/1.10\r\nHost: {host}\r\n\r\n",
    "GET /case/{id} HTTP/01.1\r\nHost: {host}\r\n\r\n",
    "GET /case/{id} HTTP/1.\r\nHost: {host}\r\n\r\n",
    "GET /case/{id} HTTP/1.1x\r\nHost: {host}\r\n\r\n",
    "GET /case/{id} http/1.1\r\nHost: {host}\r\n\r\n",
    "GET /case/{id} HTTPS/1.1\r\nHost: {host}\r\n\r\n",
    "GET /case/{id} HTTP/1,1\r\nHost: {host}\r\n\r\n",
    "GET /case/{id} HTTP\u{2f}+1.1\r\nHost: {host}\r\n\r\n",
    " GET /case/{id} HTTP/1.1\r\nHost: {host}\r\n\r\n",
    "G\u{0}ET /case/{id} HTTP/1.1\r\nHost: {host}\r\n\r\n",
    "GET(x) /case/{id} HTTP/1.1\r\nHost: {host}\r\n\r\n",
    "GET /case/{id}\rHTTP/1.1\r\nHost: {host}\r\n\r\n",
    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
];

/// Requests that a server may take, if it rewrites what is unusual.
const EITHER: [&str; 8] = [
    "\r\n{get}\r\n\r\n",
    "\n{get}\r\n\r\n",
    "GET /case/{id} HTTP/1.1\nHost: {host}\n\n",
    "GET /case/{id} HTTP/1.1\nHost: {host}\r\n\n",
    "{get}\r\nX: y\nZ: z\r\n\r\n",
    "{get}\r\nX: y\r\n\n",
    "{get}\nX: y\n\r\n",
    "{get}\r\nX:\r\n\r\n",
];

/// Bytes in a value, of which some end it for one server.
const VALUES: [&str; 14] = [
    "\r", "\n", "\u{0}", "\u{1}", "\u{8}", "\u{b}", "\u{c}", "\u{1b}", "\u{7f}", "\u{80}",
    "\u{85}", "\u{a0}", "\u{ff}", "\n\r",
];

/// Names that are no tokens.
const NAMES: [&str; 14] = [
    "a b", "a(b", "a)b", "a,b", "a/b", "a;b", "a<b", "a=b", "a@b", "a[b", "a\u{7f}b", "a\u{ff}b",
    "a{b", "a\"b",
];
