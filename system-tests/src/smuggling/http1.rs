//! Cases of HTTP/1.1.

mod chunks;
mod codings;
mod fields;
mod lengths;
mod lines;
mod methods;
mod targets;

use super::case::Case;

pub(super) fn cases() -> Vec<Case> {
    [
        codings::cases(),
        lengths::cases(),
        chunks::cases(),
        lines::cases(),
        targets::cases(),
        fields::cases(),
        methods::cases(),
    ]
    .concat()
}

/// Returns a POST; each line of `fields` ends with CRLF.
fn post(fields: &str, body: &str) -> String {
    format!("POST /case/{{id}} HTTP/1.1\r\nHost: {{host}}\r\n{fields}\r\n{body}")
}

/// Returns a GET without a body; each line of `fields` ends with CRLF.
fn get(fields: &str) -> String {
    format!("GET /case/{{id}} HTTP/1.1\r\nHost: {{host}}\r\n{fields}\r\n")
}

/// Request that no upstream may ever see.
const SMUGGLED: &str = "GET /smuggled/{id} HTTP/1.1\r\nHost: {host}\r\n\r\n";
