//! Locates problems in the configuration file.

use std::ops::Range;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::{ConfigError, Invalid};

/// Problem of a key.
#[derive(Debug)]
pub(crate) struct Problem {
    /// Path of keys; empty if the file breaks TOML's grammar.
    pub(super) path: Vec<String>,
    /// Where the problem begins; None if the path tells.
    offset: Option<usize>,
    pub(super) text: String,
}

impl Problem {
    /// Makes a problem of the value at a path of keys. If the value is missing,
    /// the nearest key above it is shown.
    pub(crate) fn at(path: &[&str], text: impl Into<String>) -> Self {
        Self {
            path: path.iter().map(|key| (*key).to_owned()).collect(),
            offset: None,
            text: text.into(),
        }
    }

    /// Makes a problem of this part of the text.
    pub(super) fn with_offset(path: Vec<String>, span: Option<Range<usize>>, text: String) -> Self {
        Self {
            path,
            offset: span.map(|span| span.start),
            text,
        }
    }

    /// Makes a problem of a key that is written as a path below a section, such as
    /// `dns."example.com".tsig`.
    pub(crate) fn below(section: &str, key: &str, text: String) -> Self {
        let mut path = vec![section.to_owned()];
        for (index, piece) in key.split('"').enumerate() {
            match index % 2 {
                // A quoted piece is one key, with its dots.
                1 => path.push(piece.to_owned()),
                _ => {
                    let keys = piece.split('.').filter(|key| !key.is_empty());
                    path.extend(keys.map(str::to_owned));
                }
            }
        }
        let offset = None;
        Self { path, offset, text }
    }
}

/// Makes the error of these problems in this text, in the order of its lines. Problems
/// without a line, which are missing sections, come last.
pub(crate) fn invalid(text: &str, file: &Path, problems: Vec<Problem>) -> ConfigError {
    let root = DeTable::parse(text).ok();
    let table = root.as_ref().map(Spanned::get_ref);
    let located = problems.into_iter().map(|problem| {
        let offset = problem.offset.or_else(|| offset_of(table?, &problem.path));
        Invalid {
            line: offset.map(|offset| 1 + text[..offset].matches('\n').count()),
            key: display(&problem.path),
            problem: problem.text,
        }
    });
    let mut problems: Vec<_> = located.collect();
    problems.sort_by_key(|problem| problem.line.unwrap_or(usize::MAX));
    ConfigError::Invalid {
        file: file.to_owned(),
        problems,
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

/// Tells whether TOML has the key without quotes.
pub(super) fn is_bare(key: &str) -> bool {
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
pub(super) fn path_to(table: &DeTable<'_>, span: &Range<usize>) -> Vec<String> {
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
