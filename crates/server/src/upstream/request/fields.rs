//! Fields of messages that a proxy must not pass on.

use bytes::Bytes;
use http::header::{CONNECTION, HeaderMap, HeaderName, HeaderValue};

use crate::site::NamedFields;
use crate::site::reserved::{Reserved, folded, is_odd};

/// Returns whether a field belongs to one connection.
pub(in crate::upstream) fn is_hop_by_hop(name: &str) -> bool {
    Reserved::of(name) == Some(Reserved::HopByHop)
}

/// Fields of requests that an upstream gets from us alone.
#[derive(Clone, Debug)]
pub(in crate::upstream) struct OurFields {
    /// Names of the operator's choice.
    pub(in crate::upstream) named: NamedFields,
    /// Whether names with `_` are passed on.
    pub(in crate::upstream) underscores: bool,
    /// Whether the peer is a proxy whose claims about the client are believed.
    pub(in crate::upstream) is_trusted: bool,
}

impl OurFields {
    /// Returns whether a request's field must not come from the client. Recipients may
    /// read all punctuation alike: other names than those with `-` and, with
    /// `underscores`, `_` are never passed on, and names are compared like that.
    pub(in crate::upstream) fn is_ours(&self, name: &HeaderName) -> bool {
        let text = name.as_str();
        if is_odd(text) {
            return true;
        }
        let is_named = || self.named.key_of(text).is_some();
        if text.contains('_') {
            return !self.underscores || folded(text).is_some() || is_named();
        }
        match Reserved::of(text) {
            Some(Reserved::Forwarding) => true,
            Some(Reserved::Claim) => !self.is_trusted || is_named(),
            _ => is_named(),
        }
    }
}

/// Returns the names of the fields that `Connection` names, and that may be
/// removed. Those that say where a message ends or goes stay. None if there are more
/// than [`MAX_NAMED`]: such a message is not passed on.
pub(in crate::upstream) fn named_in_connection(fields: &HeaderMap) -> Option<Vec<HeaderName>> {
    let named: Vec<HeaderName> = elements_of(fields, &CONNECTION)
        .filter_map(|token| HeaderName::from_bytes(token).ok())
        .filter(|name| {
            let kind = Reserved::of(name.as_str());
            !matches!(kind, Some(Reserved::Framing | Reserved::Route))
        })
        .take(MAX_NAMED + 1)
        .collect();
    (named.len() <= MAX_NAMED).then_some(named)
}

/// Returns whether a list field holds a token, regardless of case.
pub(in crate::upstream) fn has_token(fields: &HeaderMap, name: &HeaderName, token: &str) -> bool {
    elements_of(fields, name).any(|one| one.eq_ignore_ascii_case(token.as_bytes()))
}

/// Returns the elements of all values of a list field.
pub(in crate::upstream) fn elements_of<'a>(
    fields: &'a HeaderMap,
    name: &HeaderName,
) -> impl Iterator<Item = &'a [u8]> + use<'a> {
    fields.get_all(name).iter().flat_map(elements)
}

/// Returns the elements of a list, none of which may have a comma in quotes.
pub(in crate::upstream) fn elements(list: &HeaderValue) -> impl Iterator<Item = &[u8]> {
    let elements = list.as_bytes().split(|byte| *byte == b',');
    elements.map(<[u8]>::trim_ascii)
}

/// Returns all values of a field as one; none if it is not there.
pub(in crate::upstream) fn joined(
    fields: &HeaderMap,
    name: &HeaderName,
    separator: &[u8],
) -> Option<HeaderValue> {
    let values = fields.get_all(name).iter().map(HeaderValue::as_bytes);
    let values: Vec<&[u8]> = values.collect();
    if values.is_empty() {
        return None;
    }
    HeaderValue::from_maybe_shared(Bytes::from(values.join(separator))).ok()
}

/// Removes the fields whose name `is_unfit`.
pub(in crate::upstream) fn remove(fields: &mut HeaderMap, is_unfit: impl Fn(&HeaderName) -> bool) {
    let unfit: Vec<HeaderName> = fields
        .keys()
        .filter(|name| is_unfit(name))
        .cloned()
        .collect();
    for name in unfit {
        fields.remove(name);
    }
}

/// Removes from trailers what must not come after a body (RFC 9110, section
/// 6.5.1), and what `is_ours`: some recipients merge trailers with the head.
pub(in crate::upstream) fn clean_trailers(
    trailers: &mut HeaderMap,
    is_ours: impl Fn(&HeaderName) -> bool,
) {
    remove(trailers, |field| {
        let name = field.as_str();
        is_ours(field)
            || OF_HEADS.contains(&name)
            || Reserved::of(name)
                .is_some_and(|kind| !matches!(kind, Reserved::Forwarding | Reserved::Claim))
    });
}

/// Fields that say something of the body or of who sends it.
const OF_HEADS: [&str; 6] = [
    "authorization",
    "content-encoding",
    "content-range",
    "content-type",
    "cookie",
    "set-cookie",
];
/// Names in `Connection`; a head has at most 100 fields.
const MAX_NAMED: usize = 100;
