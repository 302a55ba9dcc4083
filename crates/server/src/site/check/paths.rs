//! Checks paths and methods of rules: `path`, `methods`, `add` and `try`.

use http::Method;

use super::action::error_status;
use crate::site::error::{Checked, Wrong, each, one_to, unlike};
use crate::site::path::SitePath;
use crate::site::rule::Candidate;

/// Checks `path` of a rule. Returns it without the slash of `/`, or, if the rule is for that
/// path alone, as it is, and true.
pub(super) fn prefix(path: Option<&str>) -> Checked<(Box<str>, bool)> {
    let path = path.ok_or_else(|| Wrong::new("is missing; write a path such as \"/api\""))?;
    if let Some(exact) = path.strip_prefix("= ") {
        return plain_path(exact).map(|path| (path, true));
    }
    if let Some(exact) = path.strip_prefix('=') {
        let instead = format!("= {exact}");
        let text = format!("write {instead:?}, with a space, for this path alone");
        return Err(Wrong::new(text));
    }
    let prefix = match path {
        "/" => Box::default(),
        _ => plain_prefix(path)?,
    };
    Ok((prefix, false))
}

/// Checks a decoded path that begins with a slash and ends without.
pub(super) fn plain_prefix(path: &str) -> Checked<Box<str>> {
    if path.ends_with('/') {
        return Err(Wrong::new(format!(
            "{path:?} ends with a slash; leave that out"
        )));
    }
    plain_path(path)
}

/// Checks a decoded path, which may end with a slash.
pub(super) fn plain_path(path: &str) -> Checked<Box<str>> {
    if !is_plain(path) {
        return Err(Wrong::new(format!(
            "{path:?} is no plain path; write it decoded, from its first slash, without \
             `%`, `\\`, `//`, `.` and `..`"
        )));
    }
    Ok(path.into())
}

/// Checks the methods of a rule.
pub(super) fn methods(texts: &[String]) -> Checked<Box<[Method]>> {
    one_to(MAX_METHODS, texts, "methods, such as [\"GET\", \"POST\"]")?;
    let is_plain = |byte: u8| byte.is_ascii_uppercase() || byte == b'-';
    let method = |text: &String| {
        let has_form = (1..=MAX_METHOD).contains(&text.len()) && text.bytes().all(is_plain);
        let method = Method::from_bytes(text.as_bytes()).ok();
        let method = method.filter(|_| has_form);
        method.ok_or_else(|| Wrong::new(format!("{text:?} is no method in capital letters")))
    };
    let methods = each(texts, method)?;
    unlike(&methods, "method")?;
    Ok(methods)
}

/// Returns whether a decoded path is the one that requests for it have.
fn is_plain(path: &str) -> bool {
    let is_same = |found: SitePath<'_>| found.as_str() == path;
    path.starts_with('/')
        && !path.contains(char::is_control)
        && SitePath::of_text(path).is_some_and(is_same)
}

/// Checks `try`.
pub(super) fn candidates(texts: &[String]) -> Checked<Box<[Candidate]>> {
    let what = "paths, such as [\"{path}\", \"/index.html\"]";
    one_to(MAX_CANDIDATES, texts, what)?;
    if let Some(at) = texts.iter().position(|text| text.starts_with('='))
        && at + 1 < texts.len()
    {
        return Err(Wrong::new("only the last may be a status"));
    }
    each(texts, |text| candidate(text))
}

fn candidate(text: &str) -> Checked<Candidate> {
    if let Some(status) = text.strip_prefix('=') {
        return error_status(status.parse().unwrap_or_default()).map(Candidate::Status);
    }
    let plain = |path: &str| !path.contains(['{', '}']) && is_plain(path);
    let is_before = |text: &str| text.is_empty() || !text.ends_with('/') && plain(text);
    // Behind a path stands more of its last name, or further segments.
    let is_after = |text: &str| plain(&format!("/a{text}"));
    match text.split_once(PATH) {
        None if plain(text) => Ok(Candidate::Fixed(text.into())),
        Some((before, after)) if is_before(before) && is_after(after) => Ok(Candidate::Path {
            before: before.into(),
            after: after.into(),
        }),
        _ => Err(Wrong::new(format!(
            "{text:?} is no path to try; write \"{PATH}\", \"{PATH}.html\" or \"/index.html\""
        ))),
    }
}

/// Placeholder of the request's path in `try`.
const PATH: &str = "{path}";
/// Methods of one rule.
const MAX_METHODS: usize = 16;
/// Bytes of a method. The longest that IANA registers has 17.
const MAX_METHOD: usize = 32;
/// Paths that are tried for one request.
const MAX_CANDIDATES: usize = 8;
