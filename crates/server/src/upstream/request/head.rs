//! Head of a request on its way to an upstream, changed in place.

mod forwarded;

use bytes::Bytes;
use data_encoding::BASE64;
use http::header::{
    CONNECTION, CONTENT_LENGTH, COOKIE, EXPECT, HOST, HeaderMap, HeaderName, HeaderValue, TE,
    TRANSFER_ENCODING, UPGRADE,
};
use http::request::Parts;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{Method, StatusCode, Uri, Version};

use super::fields::{self, OurFields};
use crate::connection::request::RequestContext;
use crate::observe::access_log::X_REQUEST_ID;
use crate::site::reserved::folds_to;
use crate::site::{FieldOps, NamedFields};
use crate::upstream::ForwardTo;
use crate::upstream::parts::Upstreams;
use forwarded::Forwarded;

/// Facts of a request that its head no longer shows.
#[derive(Debug)]
pub(in crate::upstream) struct Outgoing {
    /// Protocols that the client asks to leave HTTP for, after the answer.
    pub(in crate::upstream) upgrade: Option<HeaderValue>,
    /// Whether the client waits for `100 Continue` before it sends the body.
    pub(in crate::upstream) expects: bool,
    /// Fields that must not come from the client, in trailers either.
    pub(in crate::upstream) ours: OurFields,
}

/// Changes the head of a request for an HTTP/1.1 upstream:
///
/// 1. requests that came through this catalog before are refused (RFC 8586);
/// 2. fields of the connection, those that `Connection` names, and those that
///    only we may set are removed, also those with `_` that applications take for
///    a name of the rule's;
/// 3. the id of the request is set, and the rule's `request` fields are applied, which
///    may replace it;
/// 4. `Cookie`, which HTTP/2 may split, is made one (RFC 9113, section 8.2.3);
/// 5. our fields are set, among them one `Host`.
///
/// # Errors
/// 508 for a loop, 400 for a head that can't be passed on, 501 for a method that
/// recipients may read as another one.
pub(in crate::upstream) fn prepare(
    head: &mut Parts,
    has_body: bool,
    to: ForwardTo<'_>,
    (context, upstreams): (&RequestContext<'_>, &Upstreams),
) -> Result<Outgoing, StatusCode> {
    let (options, _) = to.recipient.options_and_script();
    if head
        .method
        .as_str()
        .bytes()
        .any(|byte| byte.is_ascii_lowercase())
    {
        // Methods are case-sensitive (RFC 9110, section 9.1), but not to all servers.
        return Err(StatusCode::NOT_IMPLEMENTED);
    }
    if head.version == Version::HTTP_2 && head.headers.values().any(is_padded) {
        return Err(StatusCode::BAD_REQUEST);
    }
    let loop_id = &upstreams.loop_id;
    let ours = OurFields {
        named: upstreams.guard.fields().clone(),
        underscores: options.underscores,
        is_trusted: context.connection.is_trusted,
    };
    let mut unfit = Vec::new();
    let seen = Seen::of(&head.headers, &ours, &mut unfit);
    if seen.loop_id && loops(&head.headers, loop_id) {
        return Err(StatusCode::LOOP_DETECTED);
    }
    let host = host_of(head)?;
    let upgrade = match has_body || !seen.connection {
        true => None,
        false => requested_upgrade(head),
    };
    let expects = has_body && fields::has_token(&head.headers, &EXPECT, "100-continue");
    let trailers = seen.te && fields::has_token(&head.headers, &TE, "trailers");
    let forwarded = Forwarded::of(&head.headers, context);
    let fields = &mut head.headers;
    if seen.connection {
        let named = fields::named_in_connection(fields).ok_or(StatusCode::BAD_REQUEST)?;
        unfit.extend(named);
    }
    if let Some(rule) = to.options.filter(|_| options.underscores) {
        unfit.extend(shadows(fields, &rule.request_fields));
    }
    for name in &unfit {
        fields.remove(name);
    }
    set_id(fields, context);
    if let Some(rule) = to.options {
        // `site/check/fields.rs` refuses what frames requests, and what is ours.
        rule.request_fields.apply(fields, &context.fill());
    }
    join_cookies(fields);
    if !expects {
        fields.remove(EXPECT);
    }
    name_in_connection(fields, trailers, upgrade.is_some());
    if trailers {
        fields.insert(TE, TRAILERS);
    }
    if let Some(protocols) = &upgrade {
        fields.insert(UPGRADE, protocols.clone());
    }
    frame(&head.method, fields, has_body);
    // Grows once, if at all.
    fields.reserve(OURS);
    forwarded.set(fields, &host, options, context);
    fields.insert(HOST, options.host.clone().unwrap_or(host));
    fields.append(CDN_LOOP, loop_id.clone());
    set_named(fields, &ours.named, context);
    head.version = Version::HTTP_11;
    Ok(Outgoing {
        upgrade,
        expects,
        ours,
    })
}

/// Changes a prepared head for an HTTP/2 upstream, where the host is a part of
/// the target.
///
/// # Errors
/// 400, if `Host` can't be one.
pub(in crate::upstream) fn for_http2(head: &mut Parts, tls: bool) -> Result<(), StatusCode> {
    let bad = |_| StatusCode::BAD_REQUEST;
    let host = head.headers.remove(HOST).ok_or(StatusCode::BAD_REQUEST)?;
    let authority = Authority::try_from(host.as_bytes()).map_err(bad)?;
    let mut target = std::mem::take(&mut head.uri).into_parts();
    target.scheme = Some(if tls { Scheme::HTTPS } else { Scheme::HTTP });
    target.authority = Some(authority);
    head.uri = Uri::from_parts(target).map_err(|_| StatusCode::BAD_REQUEST)?;
    for field in [CONNECTION, UPGRADE, TRANSFER_ENCODING, EXPECT] {
        head.headers.remove(field);
    }
    head.version = Version::HTTP_2;
    Ok(())
}

/// Changes a head back that was meant for HTTP/2 and not sent.
///
/// # Errors
/// 400, if there is no host.
pub(in crate::upstream) fn for_http1(head: &mut Parts, has_body: bool) -> Result<(), StatusCode> {
    let host = host_of(head)?;
    head.headers.insert(HOST, host);
    let target = head.uri.path_and_query().cloned();
    head.uri = Uri::from(target.ok_or(StatusCode::BAD_REQUEST)?);
    frame(&head.method, &mut head.headers, has_body);
    head.version = Version::HTTP_11;
    Ok(())
}

/// Sets the target in origin form: the path that was matched, and the query.
///
/// # Errors
/// 400, if they are no target.
pub(in crate::upstream) fn retarget(head: &mut Parts, path: &str) -> Result<(), StatusCode> {
    let uri = &mut head.uri;
    if path == "*" && head.method != Method::OPTIONS {
        return Err(StatusCode::BAD_REQUEST);
    }
    if uri.path() == path && uri.authority().is_none() {
        return Ok(());
    }
    let target = match uri.query() {
        Some(query) => Bytes::from(format!("{path}?{query}")),
        None => Bytes::copy_from_slice(path.as_bytes()),
    };
    let target = PathAndQuery::from_maybe_shared(target).map_err(|_| StatusCode::BAD_REQUEST)?;
    *uri = Uri::from(target);
    Ok(())
}

/// Returns whether a value begins or ends with a space or tab, which makes a message of
/// HTTP/2 malformed (RFC 9113, section 8.2.1). HTTP/1.1 has none: hyper trims them.
fn is_padded(value: &HeaderValue) -> bool {
    let is_blank = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    let bytes = value.as_bytes();
    is_blank(bytes.first()) || is_blank(bytes.last())
}

/// Returns whether a request has passed a server of this catalog before: one
/// element of `CDN-Loop` has our id, perhaps with parameters.
fn loops(fields: &HeaderMap, id: &HeaderValue) -> bool {
    fields::elements_of(fields, &CDN_LOOP)
        .filter_map(|element| element.split(|byte| *byte == b';').next())
        .any(|element| element.trim_ascii().eq_ignore_ascii_case(id.as_bytes()))
}

/// Returns the host that the client asked for, with the port as it sent it.
fn host_of(head: &Parts) -> Result<HeaderValue, StatusCode> {
    // A target in absolute form overrides Host (RFC 9112, section 3.2.2).
    let host = match head.uri.authority() {
        Some(authority) => HeaderValue::from_str(authority.as_str()).ok(),
        None => head.headers.get(HOST).cloned(),
    };
    host.ok_or(StatusCode::BAD_REQUEST)
}

/// Fields that few requests have. One pass over the names costs less than a search for
/// each.
#[derive(Default)]
struct Seen {
    connection: bool,
    loop_id: bool,
    te: bool,
}

impl Seen {
    /// Looks for the fields, and adds those to `unfit` that are not passed on.
    fn of(fields: &HeaderMap, ours: &OurFields, unfit: &mut Vec<HeaderName>) -> Self {
        let mut seen = Self::default();
        for name in fields.keys() {
            seen.connection |= *name == CONNECTION;
            seen.te |= *name == TE;
            seen.loop_id |= *name == CDN_LOOP;
            if fields::is_hop_by_hop(name.as_str()) || ours.is_ours(name) {
                unfit.push(name.clone());
            }
        }
        seen
    }
}

/// Returns the client's names with `_` that WSGI, CGI and PHP read as one of those that
/// a rule removes or replaces.
fn shadows<'a>(
    fields: &'a HeaderMap,
    rule: &'a FieldOps,
) -> impl Iterator<Item = HeaderName> + use<'a> {
    let is_ruled = |name: &HeaderName| {
        let set = rule.set.iter().map(|(ruled, _)| ruled);
        let mut ruled = rule.remove.iter().chain(set);
        ruled.any(|ruled| ruled != name && folds_to(ruled.as_str(), name.as_str()))
    };
    let folded = fields.keys().filter(|name| name.as_str().contains('_'));
    folded.filter(move |name| is_ruled(name)).cloned()
}

/// Returns the protocols that an HTTP/1.1 request without a body asks for.
/// HTTP/2 in plain text is none of them: its frames would pass unread.
fn requested_upgrade(head: &Parts) -> Option<HeaderValue> {
    if head.version != Version::HTTP_11 || !fields::has_token(&head.headers, &CONNECTION, "upgrade")
    {
        return None;
    }
    let mut protocols = head.headers.get_all(UPGRADE).iter();
    let protocol = protocols.next()?;
    let refused = [&b"h2c"[..], b"http", b"tls"];
    let is_http = fields::elements(protocol).any(|one| {
        let one = one.to_ascii_lowercase();
        refused.iter().any(|refused| one.starts_with(refused))
    });
    (protocols.next().is_none() && !is_http).then(|| protocol.clone())
}

/// Sets `Connection` for `TE` and `Upgrade`.
fn name_in_connection(fields: &mut HeaderMap, te: bool, upgrade: bool) {
    let options = match (te, upgrade) {
        (true, true) => TE_AND_UPGRADE_OPTIONS,
        (true, false) => TE_OPTION,
        (false, true) => UPGRADE_OPTION,
        (false, false) => return,
    };
    fields.insert(CONNECTION, options);
}

fn join_cookies(fields: &mut HeaderMap) {
    let is_split = fields.get_all(COOKIE).iter().nth(1).is_some();
    if is_split && let Some(joined) = fields::joined(fields, &COOKIE, b"; ") {
        fields.insert(COOKIE, joined);
    }
}

/// Leaves the framing to hyper, but for what it does not do by itself.
fn frame(method: &Method, fields: &mut HeaderMap, has_body: bool) {
    let length = fields.remove(CONTENT_LENGTH);
    if !has_body {
        // A body may be expected: its length is said even so (RFC 9110, section
        // 8.6).
        if matches!(*method, Method::POST | Method::PUT | Method::PATCH) {
            fields.insert(CONTENT_LENGTH, ZERO);
        }
    } else if length.is_none() {
        // hyper would drop such a body of a GET.
        fields.insert(TRANSFER_ENCODING, CHUNKED);
    }
}

/// Sets the fields of the operator's choice. The client's were removed.
fn set_named(fields: &mut HeaderMap, named: &NamedFields, context: &RequestContext<'_>) {
    if let Some(name) = &named.tenant
        && let Ok(tenant) = HeaderValue::from_bytes(context.tenant.as_str().as_bytes())
    {
        fields.insert(name, tenant);
    }
    let certificate = &context.connection.tls.client_certificate;
    if let (Some(name), Some(certificate)) = (&named.certificate, certificate) {
        // RFC 9440, section 2.1: a byte sequence of RFC 8941.
        let value = format!(":{}:", BASE64.encode(certificate));
        if let Ok(value) = HeaderValue::try_from(value) {
            fields.insert(name, value);
        }
    }
}

/// Sets the id of the request, which the access log has, too. A client's own is
/// passed on from trusted peers alone.
fn set_id(fields: &mut HeaderMap, context: &RequestContext<'_>) {
    if let Some(entry) = context.entry {
        fields.insert(X_REQUEST_ID, entry.id().clone());
    } else if !context.connection.is_trusted {
        fields.remove(X_REQUEST_ID);
    }
}

/// Fields of ours that most requests get.
const OURS: usize = 5;

const CDN_LOOP: HeaderName = HeaderName::from_static("cdn-loop");

const CHUNKED: HeaderValue = HeaderValue::from_static("chunked");
const TE_OPTION: HeaderValue = HeaderValue::from_static("te");
pub(in crate::upstream) const UPGRADE_OPTION: HeaderValue = HeaderValue::from_static("upgrade");
const TE_AND_UPGRADE_OPTIONS: HeaderValue = HeaderValue::from_static("te, upgrade");
const TRAILERS: HeaderValue = HeaderValue::from_static("trailers");
const ZERO: HeaderValue = HeaderValue::from_static("0");
