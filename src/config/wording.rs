//! Words for what TOML finds wrong.

use std::ops::Range;

use sekisho_server::site::reworded;

/// Leaves a value that may be a secret out of TOML's words for a wrong type.
pub(super) fn wrong_type(text: &str, span: Option<Range<usize>>, message: &str) -> Option<String> {
    let found = message.strip_prefix("invalid type: ")?;
    let (kind, _) = found.split_once(['`', '"'])?;
    let (_, expected) = found.rsplit_once(", expected ")?;
    let is_secret = span.is_none_or(|span| may_be_secret(text, span.start));
    let kind = kind.trim_end();
    is_secret.then(|| reworded(&format!("invalid type: {kind}, expected {expected}")))
}

/// Tells whether the value at `at` may be a secret: by the words before it, or by what
/// marks a URL, which may hold a password, in its line.
fn may_be_secret(text: &str, at: usize) -> bool {
    let Some(equals) = text.get(..at).and_then(|before| before.rfind('=')) else {
        return true;
    };
    let begin = text[..equals].rfind('\n').map_or(0, |end| end + 1);
    let end = text[at..].find('\n').map_or(text.len(), |end| at + end);
    let (keys, value) = (text[begin..equals].to_ascii_lowercase(), &text[equals..end]);
    let marks = ["@", "://"];
    OF_SECRETS.iter().any(|word| keys.contains(word))
        || marks.iter().any(|mark| value.contains(mark))
}

/// Words in keys of secrets, misspelt and misplaced ones too.
const OF_SECRETS: [&str; 7] = ["master", "token", "pass", "secret", "tsig", "key", "eab"];

/// Says what to write where TOML's own words for a mistake in the syntax name neither the
/// key nor the value.
pub(super) fn syntax(text: &str, span: Option<Range<usize>>, message: &str) -> Option<String> {
    let span = span?;
    if message.starts_with("duplicate key") {
        let key = text.get(span)?.trim();
        return Some(format!("{key} stands twice; leave one of them out"));
    }
    let mut begins = OF_VALUES.iter();
    let is_value = begins.any(|begin| message.starts_with(begin));
    let begin = text.get(..span.start)?.rfind(['=', '[', ',', '\n'])? + 1;
    let rest = text.get(begin..)?;
    let value = rest.split([',', ']', '#', '\n']).next()?.trim();
    match value {
        _ if !is_value || value.starts_with(['"', '\'', '{']) => None,
        "" => Some("the value is missing; write a text as \"…\", a number or true".into()),
        _ if may_be_secret(text, span.start) => {
            Some("the value is a text without quotes; write it as \"…\"".into())
        }
        "True" | "yes" | "on" => Some(format!("{value} is no value; write true")),
        "False" | "no" | "off" => Some(format!("{value} is no value; write false")),
        _ => Some(format!(
            "{value} is no value; a text stands in quotes: \"{value}\""
        )),
    }
}

/// How TOML's messages about a value without quotes begin.
const OF_VALUES: [&str; 5] = [
    "string values must be quoted",
    "invalid float",
    "invalid integer",
    "invalid boolean",
    "invalid datetime",
];
