//! Checks `index`, `precompressed` and `compress`.

use super::options::{media_range, number};
use crate::site::compress::{Coding, Compress};
use crate::site::document::{BoolOr, RawCompress};
use crate::site::error::{Checked, Wrong, checked, each, one_to, unlike};
use crate::site::rule::MediaRange;

/// Checks the names of `index`.
pub(super) fn index(names: &[String]) -> Checked<Box<[Box<str>]>> {
    one_to(MAX_INDEX, names, "names of files, such as [\"index.html\"]")?;
    each(names, |name| {
        let is_odd = |letter: char| letter.is_control() || matches!(letter, '/' | '\\' | '{' | '}');
        let is_hidden = name.is_empty() || name.starts_with('.');
        match is_hidden || name.len() > MAX_NAME || name.contains(is_odd) {
            true => Err(Wrong::new(format!("{name:?} is no name of a file"))),
            false => Ok(name.as_str().into()),
        }
    })
}

/// Checks `precompressed`.
pub(super) fn precompressed(texts: &[String]) -> Checked<Box<[Coding]>> {
    let codings = each(texts, |text| match text.as_str() {
        "br" => Ok(Coding::Br),
        "zstd" => Ok(Coding::Zstd),
        "gzip" => Ok(Coding::Gzip),
        _ => Err(Wrong::new(format!(
            "{text:?} is none of \"br\", \"zstd\" and \"gzip\""
        ))),
    })?;
    unlike(&codings, "coding")?;
    Ok(codings)
}

/// Checks `compress`; `false` takes that of the top level off a path.
pub(super) fn compress(raw: &BoolOr<RawCompress>) -> Checked<Option<Box<Compress>>> {
    let defaults = RawCompress::default();
    let raw = match raw {
        BoolOr::Bool(false) => return Ok(None),
        BoolOr::Bool(true) => &defaults,
        BoolOr::Table(raw) => raw,
    };
    let level = checked("level", raw.level, |level| number(level, 1..=9))?;
    Ok(Some(Box::new(Compress {
        types: checked("types", raw.types.as_deref(), types)?,
        level: level.unwrap_or(DEFAULT_LEVEL),
        upstream: raw.upstream,
        cookies: raw.cookies,
    })))
}

fn types(texts: &[String]) -> Checked<Box<[MediaRange]>> {
    one_to(MAX_TYPES, texts, "media ranges, such as [\"text/*\"]")?;
    each(texts, |text| media_range(text))
}

/// Names that are looked for, one after the other.
const MAX_INDEX: usize = 8;
/// Bytes of a file's name: Linux's limit.
const MAX_NAME: usize = 255;
/// Media ranges that each answer is compared with.
const MAX_TYPES: usize = 32;
/// Level of gzip: above it, CPU time grows faster than answers shrink.
const DEFAULT_LEVEL: u8 = 4;
