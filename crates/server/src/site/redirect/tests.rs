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
    ] {
        let wrong = Redirect::parse(target, None).unwrap_err();
        assert_eq!(wrong.key(), ["redirect"]);
        assert!(wrong.problem().contains(expected), "{target}: {wrong}");
    }
}

#[test]
fn a_table_leads_to_urls_and_paths() {
    for (target, request, expected) in [
        ("/new", "/old?q", "/new"),
        ("/new/?q=1#top", "/old", "/new/?q=1#top"),
        ("/of/{host}", "/old", "/of/a.example"),
        ("https://b.example", "/old?q", "https://b.example/old?q"),
        ("https://b.example/", "/old?q", "https://b.example/"),
    ] {
        let redirect = Redirect::parse_moved(target).unwrap();
        assert_eq!(sent(&redirect, "/old", request), expected, "{target}");
    }
    for (target, expected) in [
        ("b", "is no absolute http or https URL and no path; write"),
        ("//b.example", "and no path"),
        ("/\\b.example", "and no path"),
        ("", "and no path"),
        ("javascript:alert(1)", "and no path"),
        ("/a b", "percent-encode"),
        ("/a\r\nX: y", "percent-encode"),
        ("/new{rest}", "has braces other than {host}"),
        ("https://b.example{rest}", "is no host"),
        ("https://user@b.example", "is no host"),
    ] {
        let wrong = Redirect::parse_moved(target).unwrap_err();
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
        "/path",
        "//b.example",
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
        "https://{host}/path",
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
