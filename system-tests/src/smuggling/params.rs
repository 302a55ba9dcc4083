//! Parameters that a script or a program gets: how they may not look.

use std::path::Path;

use crate::hosting::Seen;
use crate::hosting::fastcgi::Request;

/// Says what is wrong with a request's parameters and its length. `more` names parameters
/// that this script also gets.
pub(super) fn faults(request: &Request, script: &Path, more: &[&str]) -> Vec<String> {
    let mut faults = Vec::new();
    let length = request.param("CONTENT_LENGTH");
    let bytes = request.body.len();
    let promised = if length.is_empty() {
        Ok(0)
    } else {
        length.parse()
    };
    match promised {
        Ok(promised) if bytes == promised || !request.is_whole && bytes < promised => {}
        _ => faults.push(format!("CONTENT_LENGTH {length:?}, and {bytes} bytes")),
    }
    let client = request.param("HTTP_X_FORWARDED_FOR");
    for (name, want) in [
        ("SCRIPT_FILENAME", &*script.to_string_lossy()),
        ("GATEWAY_INTERFACE", "CGI/1.1"),
        ("HTTPS", "on"),
        ("REMOTE_ADDR", client),
    ] {
        let value = request.param(name);
        if value != want {
            faults.push(format!("{name} {value:?}, not {want:?}"));
        }
    }
    for (name, value) in &request.params {
        let field = name.strip_prefix("HTTP_");
        let is_field = field.is_some_and(|field| {
            let mut letters = field.bytes();
            let is_plain = letters.all(|one| matches!(one, b'A'..=b'Z' | b'0'..=b'9' | b'_'));
            is_plain && !FORGED.contains(&field)
        });
        let is_known = KNOWN.contains(&name.as_str()) || more.contains(&name.as_str());
        if !(is_field || is_known) || value.contains(['\r', '\n', '\0']) {
            faults.push(format!("a parameter {name:?} {value:?}"));
        }
    }
    let id = request.param("REQUEST_URI");
    faults
        .iter()
        .map(|fault| format!("{fault} in {id}"))
        .collect()
}

/// Returns a request as a server of HTTP would note it.
pub(super) fn seen(request: &Request) -> Seen {
    let (method, target) = (
        request.param("REQUEST_METHOD"),
        request.param("REQUEST_URI"),
    );
    let mut head = format!("{method} {target} HTTP/1.1\r\n");
    for (name, value) in &request.params {
        let field = match name.as_str() {
            "CONTENT_LENGTH" | "CONTENT_TYPE" => Some(name.as_str()),
            _ => name.strip_prefix("HTTP_"),
        };
        if let Some(field) = field {
            let field = field.to_ascii_lowercase().replace('_', "-");
            head += &format!("{field}: {value}\r\n");
        }
    }
    Seen {
        head: head + "\r\n",
        body: request.is_whole.then(|| request.body.clone()),
        said: format!("200 {target}"),
    }
}

/// Fields that a script must never see.
const FORGED: [&str; 3] = ["PROXY", "CONTENT_LENGTH", "TRANSFER_ENCODING"];
/// Parameters that no client sends.
const KNOWN: [&str; 22] = [
    "CONTENT_LENGTH",
    "CONTENT_TYPE",
    "DOCUMENT_ROOT",
    "DOCUMENT_URI",
    "GATEWAY_INTERFACE",
    "HTTPS",
    "PATH_INFO",
    "PATH_TRANSLATED",
    "QUERY_STRING",
    "REDIRECT_STATUS",
    "REMOTE_ADDR",
    "REMOTE_PORT",
    "REQUEST_METHOD",
    "REQUEST_SCHEME",
    "REQUEST_URI",
    "SCRIPT_FILENAME",
    "SCRIPT_NAME",
    "SERVER_ADDR",
    "SERVER_NAME",
    "SERVER_PORT",
    "SERVER_PROTOCOL",
    "SERVER_SOFTWARE",
];
