//! Values of fields that a rule sets, with placeholders that each request fills.

use std::borrow::Cow;
use std::net::IpAddr;

use http::HeaderValue;

use super::check::{MAX_VALUE, field_value};
use super::error::{Checked, Wrong};

/// Value of a field that a rule sets or adds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FieldValue {
    /// The same for all requests.
    Fixed(HeaderValue),
    /// Text with placeholders, each of which is known, and double braces.
    Filled(Box<str>),
}

/// Facts of a request that fill the placeholders.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Fill<'a> {
    /// The name that was asked for.
    pub(crate) host: &'a str,
    /// Address of the client; none if a proxy hides it.
    pub(crate) client: Option<IpAddr>,
    /// The tenant's name, which may be any text.
    pub(crate) tenant: &'a str,
    /// The request's id; none without an access log.
    pub(crate) id: Option<&'a HeaderValue>,
}

impl FieldValue {
    /// Reads a value with placeholders, in which `{{` and `}}` stand for braces.
    pub(super) fn parse(text: &str) -> Checked<Self> {
        let mut is_filled = false;
        let plain = expand(text, |name| {
            is_filled = true;
            Fill::default().value(name)
        })?;
        match is_filled {
            true => field_value(text).map(|_| Self::Filled(text.into())),
            false => field_value(&plain).map(Self::Fixed),
        }
    }

    /// Returns the bytes of the longest value that a request may fill in.
    pub(super) fn longest(&self) -> usize {
        match self {
            Self::Fixed(value) => value.len(),
            Self::Filled(text) => {
                text.len() + LONGEST * text.replace("{{", "").matches('{').count()
            }
        }
    }

    /// Returns the value for a request; none if it is empty, too long, or no visible ASCII.
    /// Spaces around it are left out.
    pub(crate) fn fill(&self, fill: &Fill<'_>) -> Option<HeaderValue> {
        match self {
            Self::Fixed(value) => Some(value.clone()),
            Self::Filled(text) => {
                let text = expand(text, |name| fill.value(name)).ok()?;
                field_value(text.trim()).ok()
            }
        }
    }
}

impl<'a> Fill<'a> {
    /// Returns what stands for the placeholder of a name.
    fn value(&self, name: &str) -> Checked<Cow<'a, str>> {
        let id = |id: &'a HeaderValue| String::from_utf8_lossy(id.as_bytes());
        Ok(match name {
            "host" => self.host.into(),
            "client" => self
                .client
                .map_or_else(Cow::default, |it| it.to_string().into()),
            "tenant" => self.tenant.into(),
            "id" => self.id.map(id).unwrap_or_default(),
            // Reserved: the hook gives no labels yet. Documents need no new format once it does.
            _ if name.strip_prefix("label.").is_some_and(is_label) => Cow::default(),
            _ => {
                return Err(Wrong::new(format!(
                    "{{{name}}} is no placeholder; there are {{host}}, {{client}}, {{tenant}}, \
                     {{id}} and {{label.NAME}}, and {{{{ is a brace"
                )));
            }
        })
    }
}

/// Replaces placeholders by what `value` returns for their names, and double braces by one.
fn expand<'a>(text: &str, mut value: impl FnMut(&str) -> Checked<Cow<'a, str>>) -> Checked<String> {
    let (mut expanded, mut rest) = (String::new(), text);
    while let Some(at) = rest.find(['{', '}']) {
        expanded.push_str(&rest[..at]);
        let (brace, after) = rest[at..].split_at(1);
        rest = if let Some(after) = after.strip_prefix(brace) {
            expanded.push_str(brace);
            after
        } else if let ("{", Some((name, after))) = (brace, after.split_once('}')) {
            expanded.push_str(&value(name)?);
            after
        } else {
            let other = if brace == "{" { "}" } else { "{" };
            return Err(Wrong::new(format!(
                "{text:?} has a {brace} without its {other}; {brace}{brace} is a brace"
            )));
        };
        // A value of placeholders alone may become forty times as long as it was written.
        if expanded.len() > MAX_VALUE {
            return Err(Wrong::new("is too long"));
        }
    }
    expanded.push_str(rest);
    Ok(expanded)
}

fn is_label(name: &str) -> bool {
    let is_plain = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_');
    (1..=MAX_LABEL).contains(&name.len()) && name.bytes().all(is_plain)
}

/// Bytes of the longest text that stands for a placeholder: the name of a host.
const LONGEST: usize = 253;
/// Bytes of a label's name.
const MAX_LABEL: usize = 32;

#[cfg(test)]
mod tests;
