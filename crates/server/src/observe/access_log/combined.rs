//! A line in the combined format of Apache and nginx.

use std::sync::PoisonError;

use super::entry::Entry;
use super::text::{Text, put};
use super::time::{Time, millis};

/// Writes the nine fields of the combined format, and the others behind them as
/// `key=value`. What has no value is `-`.
pub(super) fn write(line: &mut Vec<u8>, entry: &Entry) {
    let time = Time::from(entry.time);
    put(
        line,
        format_args!("{} - - [{}] \"", entry.client, time.combined()),
    );
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
    let word = |word: Option<&'static str>| word.unwrap_or("-");
    let (tls, lookup) = (word(entry.tls()), word(entry.answered_by()));
    let resumed = entry.connection.resumed;
    put(
        line,
        format_args!(" tls={tls} resumed={resumed} lookup={lookup} upstream="),
    );
    let upstream = entry.upstream.lock();
    let upstream = upstream.unwrap_or_else(PoisonError::into_inner);
    let upstream = upstream.as_ref().map(|address| address.as_bytes());
    quoted(line, upstream.map(Text::whole));
    match entry.received {
        Some(received) => put(line, format_args!(" bytes_in={received}")),
        None => line.extend_from_slice(b" bytes_in=-"),
    }
    let complete = entry.complete;
    match entry.first_byte {
        Some(first) => put(
            line,
            format_args!(" complete={complete} first_byte_ms={}", millis(first)),
        ),
        None => put(line, format_args!(" complete={complete} first_byte_ms=-")),
    }
    put(line, format_args!(" total_ms={}", millis(entry.elapsed())));
}

fn quoted(line: &mut Vec<u8>, text: Option<Text<'_>>) {
    line.push(b'"');
    match text {
        Some(text) => text.write_combined(line),
        None => line.push(b'-'),
    }
    line.push(b'"');
}
