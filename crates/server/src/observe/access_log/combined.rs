//! A line in the combined format of Apache and nginx.

use super::entry::Entry;
use super::text::{Text, or, put};
use super::time::{COMBINED, millis, show};

/// Writes the nine fields of the combined format, and the others after them as
/// `key=value`. What has no value is `-`.
pub(super) fn write(line: &mut Vec<u8>, entry: &Entry) {
    let (client, time) = (entry.client, show(entry.time, COMBINED));
    put(line, format_args!("{client} - "));
    match entry.user() {
        Some(user) => user.write_word(line),
        None => line.push(b'-'),
    }
    put(line, format_args!(" [{time}] \""));
    entry.method().write_combined(line);
    line.push(b' ');
    entry.target().write_combined(line);
    let (version, status, bytes) = (entry.head.version, entry.status(), entry.bytes);
    put(line, format_args!(" {version:?}\" {status} {bytes}"));
    for field in [entry.referer(), entry.user_agent()] {
        line.push(b' ');
        quoted(line, field);
    }
    for (key, value) in [("host", entry.host()), ("tenant", entry.tenant())] {
        put(line, format_args!(" {key}="));
        quoted(line, value);
    }
    line.extend_from_slice(b" id=");
    Text::whole(entry.id.as_bytes()).write_combined(line);
    let (tls, lookup) = (or(entry.tls(), "-"), or(entry.answered_by(), "-"));
    let resumed = entry.connection.resumed;
    put(
        line,
        format_args!(" tls={tls} resumed={resumed} lookup={lookup} upstream="),
    );
    quoted(line, entry.upstream().as_deref().map(Text::whole));
    let (received, complete) = (or(entry.received, "-"), entry.complete);
    let first = or(entry.first_byte.map(millis), "-");
    let total = millis(entry.elapsed());
    put(
        line,
        format_args!(
            " bytes_in={received} complete={complete} first_byte_ms={first} total_ms={total}"
        ),
    );
}

fn quoted(line: &mut Vec<u8>, text: Option<Text<'_>>) {
    line.push(b'"');
    match text {
        Some(text) => text.write_combined(line),
        None => line.push(b'-'),
    }
    line.push(b'"');
}
