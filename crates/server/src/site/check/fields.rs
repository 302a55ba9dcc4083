//! Checks header fields.

use http::{HeaderName, HeaderValue};

use crate::site::document::{Pairs, RawFields};
use crate::site::error::{Below, Checked, Wrong, each};
use crate::site::fields::FieldOps;

/// Checks `request` or `response`.
pub(super) fn fields(raw: &RawFields) -> Checked<FieldOps> {
    Ok(FieldOps {
        remove: each(&raw.remove, |name| field_name(name)).below("remove")?,
        set: pairs(&raw.set).below("set")?,
        add: pairs(&raw.add).below("add")?,
    })
}

fn pairs(raw: &Pairs) -> Checked<Box<[(HeaderName, HeaderValue)]>> {
    let mut pairs: Vec<(HeaderName, HeaderValue)> = Vec::with_capacity(raw.0.len());
    for (name, value) in &raw.0 {
        let pair = field_name(name).and_then(|name| {
            if pairs.iter().any(|(other, _)| *other == name) {
                return Err(Wrong::new("the field stands twice"));
            }
            Ok((name, field_value(value)?))
        });
        pairs.push(pair.below(name)?);
    }
    Ok(pairs.into())
}

/// Checks the name of a field that a site may change.
pub(super) fn field_name(text: &str) -> Checked<HeaderName> {
    let name = HeaderName::from_bytes(text.as_bytes())
        .map_err(|_| Wrong::new(format!("{text:?} is no name of a field")))?;
    if OURS.contains(&name.as_str()) {
        return Err(Wrong::new(format!("{name} is set by the server alone")));
    }
    Ok(name)
}

/// Checks a value: visible ASCII, with single spaces and tabs inside.
pub(super) fn field_value(text: &str) -> Checked<HeaderValue> {
    let is_visible = |byte: u8| matches!(byte, b'\t' | b' '..=b'~');
    if text.is_empty() || text.trim() != text || !text.bytes().all(is_visible) {
        return Err(Wrong::new(format!(
            "{text:?} is no value of a field; write visible ASCII characters"
        )));
    }
    if text.len() > MAX_VALUE {
        let length = text.len();
        return Err(Wrong::new(format!(
            "{length} bytes are more than {MAX_VALUE}"
        )));
    }
    HeaderValue::from_str(text).map_err(|error| Wrong::new(error.to_string()))
}

/// Fields that frame messages or name hosts (RFC 9110, section 7.6.1), and the
/// one that ends loops (RFC 8586). `Host` is a key of `upstream`.
const OURS: &[&str] = &[
    "cdn-loop",
    "connection",
    "content-length",
    "expect",
    "host",
    "http2-settings",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];
const MAX_VALUE: usize = 8 << 10;
