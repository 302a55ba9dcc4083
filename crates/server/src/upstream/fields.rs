//! Fields of messages that a proxy must not pass on.

use http::header::{CONNECTION, HeaderMap, HeaderName};

use crate::reserved::{Reserved, folds_to};

/// Returns whether a field belongs to one connection.
pub(super) fn is_hop_by_hop(name: &str) -> bool {
    Reserved::of(name) == Some(Reserved::HopByHop)
}

/// Returns whether a request's field says who the client is: only ours goes to
/// an upstream.
fn is_forwarding(name: &str) -> bool {
    Reserved::of(name) == Some(Reserved::Forwarding)
}

/// Names of a site's choice that an upstream gets from us alone.
#[derive(Clone, Debug)]
pub(super) struct OurFields {
    pub(super) tenant: Option<HeaderName>,
    pub(super) certificate: Option<HeaderName>,
    /// Whether names with `_` are passed on.
    pub(super) underscores: bool,
}

impl OurFields {
    /// Returns whether a request's field must not come from the client. WSGI, CGI
    /// and PHP read `_` and `-` as one: with `underscores`, names are compared
    /// like that.
    pub(super) fn is_ours(&self, name: &HeaderName) -> bool {
        let own = |name: &str| {
            let is = |ours: &Option<HeaderName>| {
                ours.as_ref()
                    .is_some_and(|ours| folds_to(ours.as_str(), name))
            };
            is(&self.tenant) || is(&self.certificate)
        };
        let text = name.as_str();
        if !text.contains('_') {
            return is_forwarding(text) || own(text);
        }
        !self.underscores || { Reserved::of(&text.replace('_', "-")).is_some() || own(text) }
    }
}

/// Returns the names of the fields that `Connection` names, and that may be
/// removed. Those that say where a message ends or goes stay. None if there are more
/// than [`MAX_NAMED`]: such a message is not passed on.
pub(super) fn named_in_connection(fields: &HeaderMap) -> Option<Vec<HeaderName>> {
    let named: Vec<HeaderName> = fields
        .get_all(CONNECTION)
        .iter()
        .flat_map(|value| value.as_bytes().split(|byte| *byte == b','))
        .filter_map(|token| HeaderName::from_bytes(token.trim_ascii()).ok())
        .filter(|name| {
            let kind = Reserved::of(name.as_str());
            !matches!(kind, Some(Reserved::Framing | Reserved::Route))
        })
        .take(MAX_NAMED + 1)
        .collect();
    (named.len() <= MAX_NAMED).then_some(named)
}

/// Returns whether a list field holds a token, regardless of case.
pub(super) fn has_token(fields: &HeaderMap, name: &HeaderName, token: &str) -> bool {
    fields
        .get_all(name)
        .iter()
        .flat_map(|value| value.as_bytes().split(|byte| *byte == b','))
        .any(|one| one.trim_ascii().eq_ignore_ascii_case(token.as_bytes()))
}

/// Removes from trailers what must not come behind a body (RFC 9110, section
/// 6.5.1), and what `is_ours`: some recipients merge trailers with the head.
pub(super) fn clean_trailers(trailers: &mut HeaderMap, is_ours: impl Fn(&HeaderName) -> bool) {
    let is_unfit = |field: &HeaderName| {
        let name = field.as_str();
        is_ours(field)
            || OF_HEADS.contains(&name)
            || Reserved::of(name).is_some_and(|kind| kind != Reserved::Forwarding)
    };
    let unfit: Vec<HeaderName> = trailers
        .keys()
        .filter(|name| is_unfit(name))
        .cloned()
        .collect();
    for name in unfit {
        trailers.remove(name);
    }
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
