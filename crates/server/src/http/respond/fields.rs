//! Fields that a rule changes in the answers to its requests.

use http::header::{CACHE_CONTROL, CONTENT_TYPE, EXPIRES, SET_COOKIE, STRICT_TRANSPORT_SECURITY};
use http::{HeaderMap, Response, StatusCode};

use crate::site::{CacheRule, Fill, RuleOptions};

/// Changes the fields of an answer: sets `Strict-Transport-Security` (RFC 6797),
/// also over one of the upstream; then applies the rule's own changes, which
/// prevail. Leaves answers alone that leave HTTP.
pub(super) fn change<B>(response: &mut Response<B>, options: &RuleOptions, fill: &Fill<'_>) {
    if response.status().is_informational() {
        return;
    }
    let fields = response.headers_mut();
    if let Some(value) = &options.hsts {
        fields.insert(STRICT_TRANSPORT_SECURITY, value.clone());
    }
    options.response_fields.apply(fields, fill);
}

/// Sets `Cache-Control` of an upstream's answer by its media type, if that is a
/// success of GET or HEAD, and the upstream has not said itself how long it may
/// be kept. An answer that sets a cookie is for one client: no cache that
/// clients share gets it.
pub(super) fn cache<B>(response: &mut Response<B>, is_read: bool, rules: &[CacheRule]) {
    let status = response.status();
    if !is_read || !(status.is_success() || status == StatusCode::NOT_MODIFIED) {
        return;
    }
    let fields = response.headers_mut();
    if says_itself(fields) {
        return;
    }
    if let Some(value) = CacheRule::of(rules, fields.get(CONTENT_TYPE)) {
        fields.insert(CACHE_CONTROL, value.clone());
    }
}

fn says_itself(fields: &HeaderMap) -> bool {
    [CACHE_CONTROL, EXPIRES, SET_COOKIE]
        .iter()
        .any(|name| fields.contains_key(name))
}

#[cfg(test)]
mod tests {
    use http::header::{HeaderName, HeaderValue, SERVER};

    use super::*;
    use crate::site::{FieldOps, FieldValue, MediaRange};

    const WEEK: HeaderValue = HeaderValue::from_static("max-age=604800");
    const MINUTE: HeaderValue = HeaderValue::from_static("max-age=60");
    const FILL: Fill<'_> = Fill {
        host: "a.example",
        client: None,
        tenant: "",
        id: None,
    };

    fn response(status: u16, fields: &[(HeaderName, &'static str)]) -> Response<()> {
        let mut response = Response::new(());
        *response.status_mut() = StatusCode::from_u16(status).unwrap();
        for (name, value) in fields {
            let value = HeaderValue::from_static(value);
            response.headers_mut().append(name, value);
        }
        response
    }

    fn options() -> RuleOptions {
        let value = HeaderValue::from_static;
        RuleOptions {
            hsts: Some(value("max-age=1")),
            response_fields: FieldOps {
                remove: [SERVER].into(),
                set: [(CACHE_CONTROL, FieldValue::Fixed(value("no-store")))].into(),
                add: Box::default(),
            },
            ..RuleOptions::default()
        }
    }

    #[test]
    fn changes_every_answer_that_stays_in_http() {
        for status in [200, 304, 404, 502] {
            let given = [
                (SERVER, "app"),
                (STRICT_TRANSPORT_SECURITY, "max-age=0"),
                (CACHE_CONTROL, "public"),
            ];
            let mut response = response(status, &given);
            change(&mut response, &options(), &FILL);
            let fields = response.headers();
            assert_eq!(fields.len(), 2, "{fields:?}");
            assert_eq!(fields[STRICT_TRANSPORT_SECURITY], "max-age=1");
            assert_eq!(fields[CACHE_CONTROL], "no-store");
        }
        let mut switched = response(101, &[(SERVER, "app")]);
        change(&mut switched, &options(), &FILL);
        assert_eq!(switched.headers().len(), 1);
    }

    #[test]
    fn caches_what_the_upstream_says_nothing_of() {
        let rules = [
            CacheRule {
                media: MediaRange::Type("image/".into()),
                value: WEEK,
            },
            CacheRule {
                media: MediaRange::Any,
                value: MINUTE,
            },
        ];
        let (png, html) = ((CONTENT_TYPE, "image/png"), (CONTENT_TYPE, "text/html"));
        for (status, is_read, fields, expected) in [
            (200, true, vec![png.clone()], Some("max-age=604800")),
            (206, true, vec![png.clone()], Some("max-age=604800")),
            (200, true, vec![html], Some("max-age=60")),
            (304, true, vec![], Some("max-age=60")),
            (200, false, vec![png.clone()], None),
            (404, true, vec![png.clone()], None),
            (302, true, vec![png.clone()], None),
            (200, true, vec![png.clone(), (SET_COOKIE, "a=b")], None),
            (200, true, vec![png.clone(), (EXPIRES, "0")], None),
            (
                200,
                true,
                vec![png, (CACHE_CONTROL, "private")],
                Some("private"),
            ),
        ] {
            let mut response = response(status, &fields);
            cache(&mut response, is_read, &rules);
            let found = response.headers().get(CACHE_CONTROL);
            let expected = expected.map(HeaderValue::from_static);
            assert_eq!(found, expected.as_ref(), "{status} {fields:?}");
        }
        let mut plain = response(200, &[]);
        cache(&mut plain, true, &rules[..1]);
        assert!(plain.headers().get(CACHE_CONTROL).is_none());
    }
}
