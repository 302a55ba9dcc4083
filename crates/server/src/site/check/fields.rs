//! Checks header fields.

use std::collections::HashSet;

use http::{HeaderName, HeaderValue};

use crate::site::document::{Pairs, RawFields};
use crate::site::error::{Below, Checked, Wrong, at_most, each};
use crate::site::fields::FieldOps;
use crate::site::placeholder::FieldValue;
use crate::site::reserved::{Reserved, folded, is_odd};
use crate::site::upstream::UpstreamOptions;

/// Checks `request`.
pub(super) fn request_fields(raw: &RawFields) -> Checked<FieldOps> {
    fields(raw, &[Reserved::Claim, Reserved::RequestId])
}

/// Checks `response`. Fields about the client mean nothing in it.
pub(super) fn response_fields(raw: &RawFields) -> Checked<FieldOps> {
    let free = [Reserved::Forwarding, Reserved::Claim, Reserved::RequestId];
    fields(raw, &free)
}

/// Checks fields. Of the reserved kinds, a rule may change those in `free`.
fn fields(raw: &RawFields, free: &[Reserved]) -> Checked<FieldOps> {
    let count = raw.remove.len() + raw.set.0.len() + raw.add.0.len();
    at_most(MAX_FIELDS, count, "fields")?;
    let name = |text: &str| {
        let name = field_name(text)?;
        match Reserved::of(name.as_str()).filter(|kind| !free.contains(kind)) {
            Some(kind) => Err(reserved(&name, kind)),
            None => Ok(name),
        }
    };
    let value = FieldValue::parse;
    let ops = FieldOps {
        remove: each(&raw.remove, |text| name(text)).below("remove")?,
        set: pairs(&raw.set, "field", name, value).below("set")?.into(),
        add: pairs(&raw.add, "field", name, value).below("add")?.into(),
    };
    let values = ops.set.iter().chain(&ops.add).map(|(_, value)| value);
    let bytes: usize = values.map(FieldValue::longest).sum();
    at_most(MAX_VALUES, bytes, "bytes of filled values")?;
    Ok(ops)
}

/// Checks values of fields under keys of one kind, none of which may stand twice, letters'
/// case aside.
pub(super) fn pairs<K, V>(
    raw: &Pairs,
    kind: &str,
    key: impl Fn(&str) -> Checked<K>,
    value: impl Fn(&str) -> Checked<V>,
) -> Checked<Vec<(K, V)>> {
    let mut pairs = Vec::with_capacity(raw.0.len());
    // Not each with each: a document has room for thousands, and is checked on a worker.
    let mut seen = HashSet::with_capacity(raw.0.len());
    for (text, written) in &raw.0 {
        let pair = key(text).and_then(|key| {
            if !seen.insert(text.to_ascii_lowercase()) {
                return Err(Wrong::new(format!("the {kind} stands twice")));
            }
            Ok((key, value(written)?))
        });
        pairs.push(pair.below(text)?);
    }
    Ok(pairs)
}

/// Checks whether the upstream of a rule gets the fields of `request`.
pub(super) fn reach(request: &FieldOps, upstream: &UpstreamOptions) -> Checked<()> {
    for (key, pairs) in [("set", &request.set), ("add", &request.add)] {
        for (name, _) in pairs {
            let checked = passed_on(name, upstream);
            checked.below(name.as_str()).below(key)?;
        }
    }
    Ok(())
}

fn passed_on(name: &HeaderName, upstream: &UpstreamOptions) -> Checked<()> {
    let text = name.as_str();
    if is_odd(text) {
        return Err(Wrong::new(
            "upstreams may read it as another name; write letters, digits and `-`",
        ));
    }
    if !text.contains('_') {
        return Ok(());
    }
    let usual = text.replace('_', "-");
    let problem = if folded(text).is_some() {
        format!("upstreams may read it as {usual}, which the server sets; choose another name")
    } else if !upstream.underscores {
        format!(
            "no name with `_` is passed on; write {usual}, or `underscores` = true in `upstream`"
        )
    } else {
        return Ok(());
    };
    Err(Wrong::new(problem))
}

/// Returns the error of a field that the server alone sets, and what to write instead.
pub(super) fn reserved(name: &HeaderName, kind: Reserved) -> Wrong {
    let instead = match (name.as_str(), kind) {
        ("host", _) => "write `host` in `upstream`",
        ("forwarded", _) => "write `forwarded` in `upstream`",
        ("x-real-ip", _) => "upstreams find the client in x-forwarded-for",
        ("proxy", _) => "CGI would read it as HTTP_PROXY; choose another name",
        ("proxy-authorization" | "proxy-authenticate", _) => {
            "it ends at each proxy; write authorization"
        }
        (_, Reserved::Forwarding | Reserved::Claim) => {
            "[listen] trusted says whose is continued; leave it out"
        }
        (_, Reserved::HopByHop | Reserved::Framing) => "it frames messages; leave it out",
        (_, Reserved::Route | Reserved::RequestId) => "leave it out",
    };
    Wrong::new(format!("{name} is set by the server alone; {instead}"))
}

/// Checks the name of a field.
pub(in crate::site) fn field_name(text: &str) -> Checked<HeaderName> {
    HeaderName::from_bytes(text.as_bytes())
        .map_err(|_| Wrong::new(format!("{text:?} is no name of a field")))
}

/// Checks a value: visible ASCII, with single spaces and tabs inside.
pub(in crate::site) fn field_value(text: &str) -> Checked<HeaderValue> {
    let is_visible = |byte: u8| matches!(byte, b'\t' | b' '..=b'~');
    if text.is_empty() || text.trim() != text || !text.bytes().all(is_visible) {
        return Err(Wrong::new(format!(
            "{text:?} is no value of a field; write visible ASCII characters"
        )));
    }
    at_most(MAX_VALUE, text.len(), "bytes")?;
    HeaderValue::from_str(text).map_err(|error| Wrong::new(error.to_string()))
}

/// Bytes of a value.
pub(in crate::site) const MAX_VALUE: usize = 8 << 10;
/// Bytes of all values that one rule gives a head: each answer that waits for its client holds
/// them, and a document of 256 KiB has room for megabytes of `{host}`.
const MAX_VALUES: usize = 32 << 10;
/// Fields that one rule changes in a head. `HeaderMap` panics beyond 24,576.
const MAX_FIELDS: usize = 64;
