//! Locates problems in the configuration file.

use std::ops::Range;
use std::path::Path;

use sekisho_server::site::reworded;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::ConfigError;
use super::gone;
use super::raw::RawConfig;

/// Problem whose line is not known yet.
#[derive(Debug)]
pub(crate) struct Problem {
    place: Place,
    text: String,
}

impl Problem {
    /// Makes a problem of the value at a path of keys. If the value is missing,
    /// the nearest key above it is shown.
    pub(crate) fn at(path: &[&str], text: impl Into<String>) -> Self {
        Self {
            place: Place::Path(path.iter().map(|key| (*key).to_owned()).collect()),
            text: text.into(),
        }
    }

    /// Returns the problem of the value at another path of keys.
    pub(crate) fn moved(self, path: &[&str]) -> Self {
        Self::at(path, self.text)
    }

    /// Makes a problem of a key that is written as a path below a section, such as
    /// `dns."example.com".tsig`.
    pub(crate) fn below(section: &str, key: &str, text: String) -> Self {
        let mut path = vec![section.to_owned()];
        for (index, piece) in key.split('"').enumerate() {
            match index % 2 {
                // A quoted piece is one key, with its dots.
                1 => path.push(piece.to_owned()),
                _ => path.extend(
                    piece
                        .split('.')
                        .filter(|key| !key.is_empty())
                        .map(str::to_owned),
                ),
            }
        }
        let place = Place::Path(path);
        Self { place, text }
    }
}

#[derive(Debug)]
enum Place {
    Path(Vec<String>),
    Span(Option<Range<usize>>),
}

/// Parses the keys.
pub(crate) fn deserialize(text: &str) -> Result<RawConfig, Problem> {
    toml::from_str(text).map_err(|error| Problem {
        place: Place::Span(error.span()),
        text: syntax(text, error.span(), error.message())
            .or_else(|| wrong_type(text, error.span(), error.message()))
            .unwrap_or_else(|| reworded(error.message())),
    })
}

/// Leaves a value that may be a secret out of TOML's words for a wrong type.
fn wrong_type(text: &str, span: Option<Range<usize>>, message: &str) -> Option<String> {
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
fn syntax(text: &str, span: Option<Range<usize>>, message: &str) -> Option<String> {
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

/// Makes the error of a problem in this text.
pub(crate) fn invalid(text: &str, file: &Path, problem: Problem) -> ConfigError {
    let root = DeTable::parse(text).ok();
    let table = root.as_ref().map(Spanned::get_ref);
    let (path, offset, problem) = match problem.place {
        Place::Path(path) => {
            let offset = table.and_then(|table| offset_of(table, &path));
            (path, offset, problem.text)
        }
        Place::Span(span) => {
            let path = table
                .zip(span.as_ref())
                .map(|(table, span)| path_to(table, span));
            let path = path.unwrap_or_default();
            let text = gone::instead(&path).map_or(problem.text, str::to_owned);
            (path, span.map(|span| span.start), text)
        }
    };
    ConfigError::Invalid {
        file: file.to_owned(),
        line: offset.map(|offset| 1 + text[..offset].matches('\n').count()),
        key: display(&path),
        problem,
    }
}

/// Shows a path of keys: `[cache] memory`, `[listen] https[1]`.
fn display(path: &[String]) -> String {
    let mut shown = String::new();
    for (depth, key) in path.iter().enumerate() {
        match depth {
            0 => shown = format!("[{key}]"),
            _ if key.parse::<usize>().is_ok() => shown += &format!("[{key}]"),
            1 if is_bare(key) => shown += &format!(" {key}"),
            1 => shown += &format!(" {key:?}"),
            _ if is_bare(key) => shown += &format!(".{key}"),
            _ => shown += &format!(".{key:?}"),
        }
    }
    shown
}

fn is_bare(key: &str) -> bool {
    key.bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

/// Returns where the value at `path` begins, or the deepest key above it that
/// exists.
fn offset_of(table: &DeTable<'_>, path: &[String]) -> Option<usize> {
    let (first, rest) = path.split_first()?;
    let (key, value) = table.iter().find(|(key, _)| key.get_ref() == first)?;
    let here = key.span().start;
    let below = match (value.get_ref(), rest) {
        (DeValue::Table(table), rest) => offset_of(table, rest),
        (DeValue::Array(items), [index, rest @ ..]) => {
            let index: usize = index.parse().ok()?;
            let item = items.get(index)?;
            let below = match item.get_ref() {
                DeValue::Table(table) => offset_of(table, rest),
                _ => None,
            };
            Some(below.unwrap_or(item.span().start))
        }
        _ => None,
    };
    Some(below.unwrap_or(here))
}

/// Returns the path of keys to the value that a span covers.
fn path_to(table: &DeTable<'_>, span: &Range<usize>) -> Vec<String> {
    for (key, value) in table {
        let name = key.get_ref().to_string();
        if covers(&key.span(), span) {
            return vec![name];
        }
        let below = match value.get_ref() {
            // A table with its own section lies outside of its name's span.
            DeValue::Table(table) => path_to(table, span),
            _ => Vec::new(),
        };
        if !below.is_empty() || covers(&value.span(), span) {
            return std::iter::once(name).chain(below).collect();
        }
    }
    Vec::new()
}

fn covers(outer: &Range<usize>, inner: &Range<usize>) -> bool {
    outer.start <= inner.start && inner.end <= outer.end
}
