//! A line as a JSON object.

use std::sync::PoisonError;

use super::entry::Entry;
use super::text::{Text, put};
use super::time::{Time, millis};

/// Writes the object. Keys without a value have `null`.
pub(super) fn write(line: &mut Vec<u8>, entry: &Entry) {
    let time = Time::from(entry.time);
    put(line, format_args!("{{\"time\":\"{}\"", time.rfc3339()));
    text(line, "id", Some(Text::whole(entry.id.as_bytes())));
    put(line, format_args!(",\"client\":\"{}\"", entry.client));
    text(line, "host", entry.host());
    text(line, "tenant", entry.tenant());
    text(line, "method", Some(entry.method()));
    text(line, "target", Some(entry.target()));
    put(
        line,
        format_args!(",\"version\":\"{:?}\"", entry.head.version),
    );
    put(line, format_args!(",\"status\":{}", entry.status()));
    put(line, format_args!(",\"bytes\":{}", entry.bytes));
    match entry.received {
        Some(received) => put(line, format_args!(",\"bytes_in\":{received}")),
        None => line.extend_from_slice(b",\"bytes_in\":null"),
    }
    put(line, format_args!(",\"complete\":{}", entry.complete));
    text(line, "referer", entry.referer());
    text(line, "user_agent", entry.user_agent());
    text(line, "tls", entry.tls().map(Text::whole));
    put(
        line,
        format_args!(",\"resumed\":{}", entry.connection.resumed),
    );
    text(line, "lookup", entry.answered_by().map(Text::whole));
    let upstream = entry.upstream.lock();
    let upstream = upstream.unwrap_or_else(PoisonError::into_inner);
    let upstream = upstream.as_ref().map(|address| address.as_bytes());
    text(line, "upstream", upstream.map(Text::whole));
    match entry.first_byte {
        Some(first) => put(line, format_args!(",\"first_byte_ms\":{}", millis(first))),
        None => line.extend_from_slice(b",\"first_byte_ms\":null"),
    }
    put(
        line,
        format_args!(",\"total_ms\":{}}}", millis(entry.elapsed())),
    );
}

fn text(line: &mut Vec<u8>, key: &str, text: Option<Text<'_>>) {
    put(line, format_args!(",\"{key}\":"));
    match text {
        Some(text) => {
            line.push(b'"');
            text.write_json(line);
            line.push(b'"');
        }
        None => line.extend_from_slice(b"null"),
    }
}
