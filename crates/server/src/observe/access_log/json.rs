//! A line as a JSON object.

use super::entry::Entry;
use super::text::{Text, or, put};
use super::time::{RFC3339, millis, show};

/// Writes the object. Keys without a value have `null`.
pub(super) fn write(line: &mut Vec<u8>, entry: &Entry) {
    let time = show(entry.time, RFC3339);
    put(line, format_args!("{{\"time\":\"{time}\""));
    text(line, "id", Some(Text::whole(entry.id.as_bytes())));
    put(line, format_args!(",\"client\":\"{}\"", entry.client));
    text(line, "host", entry.host());
    text(line, "tenant", entry.tenant());
    text(line, "user", entry.user());
    text(line, "method", Some(entry.method()));
    text(line, "target", Some(entry.target()));
    put(
        line,
        format_args!(",\"version\":\"{:?}\"", entry.head.version),
    );
    put(line, format_args!(",\"status\":{}", entry.status()));
    put(line, format_args!(",\"bytes\":{}", entry.bytes));
    let received = or(entry.received, "null");
    put(line, format_args!(",\"bytes_in\":{received}"));
    put(line, format_args!(",\"complete\":{}", entry.complete));
    text(line, "referer", entry.referer());
    text(line, "user_agent", entry.user_agent());
    text(line, "tls", entry.tls().map(Text::whole));
    put(
        line,
        format_args!(",\"resumed\":{}", entry.connection.resumed),
    );
    text(line, "lookup", entry.answered_by().map(Text::whole));
    text(
        line,
        "upstream",
        entry.upstream().as_deref().map(Text::whole),
    );
    let first = or(entry.first_byte.map(millis), "null");
    put(line, format_args!(",\"first_byte_ms\":{first}"));
    let total = millis(entry.elapsed());
    put(line, format_args!(",\"total_ms\":{total}}}"));
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
