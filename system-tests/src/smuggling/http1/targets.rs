//! Targets in unusual forms, and hosts that disagree.

use super::super::case::{Case, Expect};

pub(super) fn cases() -> Vec<Case> {
    let get = |target: &str, fields: &str| {
        let fields = fields.replace('|', "\r\n");
        format!("GET {target} HTTP/1.1\r\n{fields}\r\n\r\n")
    };
    let case = |target: &str, fields: &str, expect| {
        let what = format!("{target} {fields}");
        Case::text("target", &what, get(target, fields), expect).method("GET")
    };
    let refused = REFUSED
        .iter()
        .map(|(target, fields)| case(target, fields, Expect::Refused));
    let either = EITHER
        .iter()
        .map(|(target, fields)| case(target, fields, Expect::either(&[""])));
    let paths = PATHS
        .iter()
        .map(|path| case(path, "Host: {host}", Expect::either(&[""])));
    let served = SERVED
        .iter()
        .map(|(target, fields)| case(target, fields, Expect::Served(String::new())));
    refused.chain(either).chain(paths).chain(served).collect()
}

const SERVED: [(&str, &str); 5] = [
    ("/case/{id}", "Host: {host}"),
    ("/case/{id}?a=b", "Host: {host}:443"),
    ("/case/{id}", "HOST: {host}"),
    ("https://{host}/case/{id}", "Host: {host}"),
    ("/case/{id}?a=/../b", "Host: {host}"),
];

/// Requests for another host than the fields say, for several, or for none.
const REFUSED: [(&str, &str); 30] = [
    ("/case/{id}", "X: y"),
    ("/case/{id}", "Host:"),
    ("/case/{id}", "Host: other.test"),
    ("/case/{id}", "Host: {host}|Host: other.test"),
    ("/case/{id}", "Host: other.test|Host: {host}"),
    ("/case/{id}", "Host: {host}|Host: {host}"),
    ("/case/{id}", "Host: {host}, other.test"),
    ("/case/{id}", "Host: {host} other.test"),
    ("/case/{id}", "Host: {host}/x"),
    ("/case/{id}", "Host: {host}#x"),
    ("/case/{id}", "Host: {host}?x"),
    ("/case/{id}", "Host: other.test@{host}"),
    ("/case/{id}", "Host: {host}@other.test"),
    ("/case/{id}", "Host: {host}:x"),
    ("/case/{id}", "Host: {host}:443:443"),
    ("/case/{id}", "Host: {host}:99999"),
    ("/case/{id}", "Host: {host}\u{0}"),
    ("/case/{id}", "Host: \\{host}"),
    ("/case/{id}", "Host : {host}"),
    ("/case/{id}", "Host: {host}|Host : other.test"),
    ("/case/{id}", "Host: {host}| Host: other.test"),
    ("https://other.test/case/{id}", "Host: {host}"),
    ("http://other.test/case/{id}", "Host: {host}"),
    ("https://{host}@other.test/case/{id}", "Host: {host}"),
    ("https://other.test@{host}/case/{id}", "Host: {host}"),
    ("https://{host}/case/{id}", "X: y"),
    ("ftp://{host}/case/{id}", "Host: {host}"),
    ("file:///case/{id}", "Host: {host}"),
    ("https:///case/{id}", "Host: {host}"),
    ("https:/case/{id}", "Host: {host}"),
];

/// Requests with one meaning that a server may refuse.
const EITHER: [(&str, &str); 12] = [
    ("http://{host}/case/{id}", "Host: {host}"),
    ("HTTPS://{host}/case/{id}", "Host: {host}"),
    ("https://{host}/case/{id}", "Host: other.test"),
    ("https://{host}:443/case/{id}", "Host: {host}"),
    ("https://{host}?/case/{id}", "Host: {host}"),
    ("/case/{id}", "Host: {host}."),
    ("/case/{id}", "Host:{host}"),
    ("/case/{id}", "Host: \t{host}\t"),
    ("/case/{id}", "Host: {host}:"),
    ("/case/{id}", "Host: {host}:80"),
    ("/case/{id}", "Host: {host}|X-Host: other.test"),
    ("/case/{id}", "Host: {host}|X-Forwarded-Host: other.test"),
];

/// Paths that servers decode and shorten differently.
const PATHS: [&str; 40] = [
    "//case/{id}",
    "/case//{id}",
    "/./case/{id}",
    "/x/../case/{id}",
    "/../case/{id}",
    "/case/{id}/..?{id}",
    "/case/{id}/.",
    "/case/{id}/../../etc?{id}",
    "/case/{id}/%2e%2e/x",
    "/case/{id}/%2e%2e%2fx",
    "/case/{id}/..%2fx",
    "/case/{id}/..%5cx",
    "/case/{id}/..\\x",
    "/case/{id}\\..\\x",
    "/case/{id}/%252e%252e/x",
    "/case/{id}/..;/x",
    "/case/{id};a=b",
    "/case/{id}/.%00./x",
    "/case/{id}%00",
    "/case/{id}%0d%0aX-Injected:%20y",
    "/case/{id}%0a",
    "/case/{id}%20HTTP/1.1%0d%0aX-Injected:%20y",
    "/case/{id}%",
    "/case/{id}%2",
    "/case/{id}%zz",
    "/case/{id}%2fx",
    "/case/{id}%c0%af",
    "/case/{id}%ff",
    "/case/{id}\u{ff}",
    "/case/{id}\u{0}",
    "/case/{id}\u{1}",
    "/case/{id}\u{7f}",
    "/case/{id}#fragment",
    "/case/{id}#?a",
    "/case/{id}?a#b",
    "/case/{id}?a b",
    "/case/{id}\"<>^`{|}",
    "case/{id}",
    "?case/{id}",
    "*/case/{id}",
];
