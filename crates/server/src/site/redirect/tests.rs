use super::*;

fn location(response: &Response<Body>) -> &str {
    response.headers()[LOCATION].to_str().unwrap()
}

/// Returns where a rule with a prefix sends a request of `a.example`.
fn sent(redirect: &Redirect, prefix: &str, request: &str) -> String {
    let host = HostName::parse("a.example").unwrap();
    let uri: Uri = request.parse().unwrap();
    let path = SitePath::parse(&uri).unwrap();
    location(&redirect.respond(&host, &uri, (&path, prefix))).to_owned()
}

#[test]
fn keeps_the_path_unless_the_target_has_one() {
    for (target, request, expected) in [
        ("https://b.example", "/x/y?q=1", "https://b.example/x/y?q=1"),
        ("https://b.example:8443", "/", "https://b.example:8443/"),
        ("https://b.example/", "/x?q", "https://b.example/"),
        ("http://b.example/p?r=1", "/x?q", "http://b.example/p?r=1"),
        ("https://b.example?r", "/x", "https://b.example?r"),
        ("https://b.example#top", "/x", "https://b.example#top"),
        ("https://www.{host}", "/x", "https://www.a.example/x"),
        (
            "https://b.example/{host}",
            "/x",
            "https://b.example/a.example",
        ),
        (
            "https://b.example",
            "//evil.example/",
            "https://b.example//evil.example/",
        ),
        ("https://b.example", "*", "https://b.example/"),
        ("http://[::1]:80", "/x", "http://[::1]:80/x"),
        ("http://127.0.0.1", "/x", "http://127.0.0.1/x"),
        ("https://{host}/p", "/x?q", "https://a.example/p"),
        ("/p", "/x?q", "/p"),
        ("/p/?r=1#top", "/x?q", "/p/?r=1#top"),
        ("/of/{host}", "/x", "/of/a.example"),
    ] {
        let redirect = Redirect::parse(target, None).unwrap();
        assert_eq!(sent(&redirect, "", request), expected, "{target} {request}");
        assert_eq!(redirect.status, 308);
    }
}

#[test]
fn the_rest_of_the_path_follows_where_the_target_says() {
    for (target, prefix, request, expected) in [
        ("https://b/n{rest}", "/o", "/o/x?q=1", "https://b/n/x?q=1"),
        ("https://b/n{rest}", "/o", "/o", "https://b/n"),
        ("https://b/n{rest}", "/o", "/o/", "https://b/n/"),
        ("https://b/n{rest}", "/o", "/o?q", "https://b/n?q"),
        ("https://b{rest}", "/o", "/o?q", "https://b?q"),
        ("https://b{rest}", "", "*", "https://b/"),
        ("https://{host}.b{rest}", "", "/x", "https://a.example.b/x"),
        ("https://{host}/n{rest}", "", "/x", "https://a.example/n/x"),
        ("/n{rest}", "/o", "/o/x?q=1", "/n/x?q=1"),
        ("/n{rest}", "/o", "/o//evil.example", "/n/evil.example"),
        ("/n{rest}", "/o/", "/o/?q", "/n?q"),
        // Nothing of the client gets to the name of the host.
        ("https://b{rest}", "/o", "/o/.evil", "https://b/.evil"),
        ("https://b{rest}", "/o", "/o//evil", "https://b/evil"),
        ("https://b{rest}", "/o", "/o/%2Fevil", "https://b/%2Fevil"),
        ("https://b{rest}", "/o", "/o/@evil", "https://b/@evil"),
        ("https://b{rest}", "", "/%5Cevil", "https://b/%5Cevil"),
        // An escaped slash ends no segment of the rule's prefix.
        ("https://b{rest}", "/a%2Fb", "/a%2Fb/c", "https://b/c"),
    ] {
        let redirect = Redirect::parse(target, None).unwrap();
        let found = sent(&redirect, prefix, request);
        assert_eq!(found, expected, "{target} {prefix} {request}");
    }
}

#[test]
fn a_rest_has_one_place() {
    let place = "{rest} stands once, and behind the host";
    for (target, expected) in [
        ("https://{rest}.example", place),
        ("https://b.example{rest}/x", place),
        ("https://b.example{rest}{rest}", place),
        ("https://b.example/{rest}/{rest}", place),
        ("https://b.example/?to={rest}", place),
        ("https://b.example/#{rest}", place),
        (
            "https://b.example/{rest}",
            "{rest} begins with a slash; leave out",
        ),
        ("https://{rest}", "is no host"),
        ("{rest}", "is no absolute http or https URL"),
        ("/{rest}", "{rest} begins with a slash; leave out"),
        ("/n?to={rest}", place),
        ("https://{host}{rest}", "points each host at itself"),
    ] {
        let wrong = Redirect::parse(target, None).unwrap_err();
        assert_eq!(wrong.key(), ["redirect"]);
        assert!(wrong.problem().contains(expected), "{target}: {wrong}");
    }
}

#[test]
fn takes_only_statuses_that_redirect() {
    for status in [301, 302, 303, 307, 308] {
        let redirect = Redirect::parse("https://b.example", Some(status)).unwrap();
        assert_eq!(i64::from(redirect.status.as_u16()), status);
    }
    for status in [-1, 0, 200, 300, 304, 404, 70000] {
        let wrong = Redirect::parse("https://b.example", Some(status)).unwrap_err();
        assert_eq!(wrong.key(), ["status"]);
        assert!(
            wrong.problem().contains("301, 302, 303, 307 or 308"),
            "{wrong}"
        );
    }
}

#[test]
fn refuses_targets_that_lead_nowhere() {
    for target in [
        "",
        "b.example",
        "//b.example",
        "/\\b.example",
        "/a b",
        "/a\r\nX: y",
        "/{name}",
        "ftp://b.example",
        "javascript:alert(1)",
        "https://",
        "https:///path",
        "https://user@b.example",
        "https://b.example:port",
        "https://b.example:",
        "https://b.example:99999",
        "https://[::1",
        "https://..",
        "https://b example",
        "https://b.example/\r\nSet-Cookie: a=b",
        "https://b.example/ü",
        "https://{host}",
        "https://{host}?a",
        "https://{name}.example",
    ] {
        let got = Redirect::parse(target, None);
        assert!(got.is_err(), "{target:?} gave {got:?}");
    }
}

#[test]
fn plain_http_goes_to_the_same_path_over_https() {
    let host = HostName::parse("a.example").unwrap();
    let uri: Uri = "/x?q=%20".parse().unwrap();
    let response = to_https(&host, 443, uri.path_and_query());
    assert_eq!(location(&response), "https://a.example/x?q=%20");
    let response = to_https(&host, 8443, uri.path_and_query());
    assert_eq!(location(&response), "https://a.example:8443/x?q=%20");
    assert_eq!(location(&to_https(&host, 443, None)), "https://a.example/");
    assert_eq!(response.status(), 308);
    // A browser that cached the redirect would go to a former port.
    assert_eq!(response.headers()[CACHE_CONTROL], "no-store");
}
