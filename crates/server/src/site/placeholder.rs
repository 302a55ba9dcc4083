//! Values of fields that a rule sets, with placeholders that each request fills.

use std::borrow::Cow;
use std::net::IpAddr;

use http::HeaderValue;

use super::check::{MAX_VALUE, field_value, is_value};
use super::error::{Checked, Wrong};

/// Value of a field that a rule sets or adds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FieldValue {
    /// The same for all requests.
    Fixed(HeaderValue),
    /// Text around placeholders.
    Filled(Box<[Piece]>),
}

/// Part of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// Text as it stands.
    Text(Box<str>),
    /// `{host}`: the name that was asked for.
    Host,
    /// `{client}`: the address of the client.
    Client,
    /// `{tenant}`: the tenant of the host.
    Tenant,
    /// `{id}`: the id of the request in the access log.
    Id,
    /// `{label.NAME}`: a label of the hook, by its name. The hook gives none: it is empty.
    Label(Box<str>),
}

/// Facts of a request that fill the placeholders.
#[derive(Clone, Copy, Debug)]
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
        let fixed = field_value(text)?;
        if !text.contains(['{', '}']) {
            return Ok(Self::Fixed(fixed));
        }
        let (mut pieces, mut plain, mut rest) = (Vec::new(), String::new(), text);
        while let Some(at) = rest.find(['{', '}']) {
            plain.push_str(&rest[..at]);
            let (brace, after) = rest[at..].split_at(1);
            if let Some(after) = after.strip_prefix(brace) {
                plain.push_str(brace);
                rest = after;
                continue;
            }
            let (name, after) = named(brace, after, text)?;
            if !plain.is_empty() {
                pieces.push(Piece::Text(std::mem::take(&mut plain).into()));
            }
            pieces.push(Piece::parse(name)?);
            rest = after;
        }
        plain.push_str(rest);
        if pieces.is_empty() {
            // Braces alone, which are text.
            return field_value(&plain).map(Self::Fixed);
        }
        if !plain.is_empty() {
            pieces.push(Piece::Text(plain.into()));
        }
        Ok(Self::Filled(pieces.into()))
    }

    /// Returns the value for a request; none if it is empty, too long, or no visible ASCII.
    /// Spaces around it are left out.
    pub(crate) fn fill(&self, fill: &Fill<'_>) -> Option<HeaderValue> {
        let pieces = match self {
            Self::Fixed(value) => return Some(value.clone()),
            Self::Filled(pieces) => pieces,
        };
        let mut text = String::new();
        for piece in pieces {
            text.push_str(&piece.fill(fill)?);
            // A value of placeholders alone may become forty times as long as it was written.
            if text.len() > MAX_VALUE {
                return None;
            }
        }
        let text = text.trim();
        is_value(text).then(|| HeaderValue::from_str(text).ok())?
    }
}

impl Piece {
    /// Reads a placeholder without its braces.
    fn parse(name: &str) -> Checked<Self> {
        if let Some(label) = name.strip_prefix("label.")
            && is_label(label)
        {
            return Ok(Self::Label(label.into()));
        }
        match name {
            "host" => Ok(Self::Host),
            "client" => Ok(Self::Client),
            "tenant" => Ok(Self::Tenant),
            "id" => Ok(Self::Id),
            _ => Err(Wrong::new(format!(
                "{{{name}}} is no placeholder; there are {{host}}, {{client}}, {{tenant}}, {{id}} \
                 and {{label.NAME}}, and {{{{ is a brace"
            ))),
        }
    }

    /// Returns what stands for the piece. None if that is no text.
    fn fill<'a>(&'a self, fill: &Fill<'a>) -> Option<Cow<'a, str>> {
        Some(match self {
            Self::Text(plain) => (&**plain).into(),
            Self::Host => fill.host.into(),
            Self::Client => match fill.client {
                Some(client) => client.to_string().into(),
                None => Cow::default(),
            },
            Self::Tenant => fill.tenant.into(),
            Self::Id => fill.id.map_or(Ok(""), HeaderValue::to_str).ok()?.into(),
            Self::Label(_) => Cow::default(),
        })
    }
}

/// Splits the text after a brace into the name of a placeholder and what follows it.
fn named<'a>(brace: &str, after: &'a str, whole: &str) -> Checked<(&'a str, &'a str)> {
    if brace == "}" {
        let text = format!("{whole:?} has a }} without its {{; }}}} is a brace");
        return Err(Wrong::new(text));
    }
    after.split_once('}').ok_or_else(|| {
        Wrong::new(format!(
            "{whole:?} has a {{ without its }}; {{{{ is a brace"
        ))
    })
}

fn is_label(name: &str) -> bool {
    let is_plain = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_');
    (1..=MAX_LABEL).contains(&name.len()) && name.bytes().all(is_plain)
}

/// Bytes of a label's name.
const MAX_LABEL: usize = 32;

#[cfg(test)]
mod tests;
