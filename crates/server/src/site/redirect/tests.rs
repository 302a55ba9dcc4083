use super::*;

fn location(response: &Response<Body>) -> &str {
    response.headers()[LOCATION].to_str().unwrap()
}

#[test]
fn keeps_the_path_unless_the_target_has_one() {
    let host = HostName::parse("a.example").unwrap();
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
        let response = redirect.respond(&host, &request.parse().unwrap());
        assert_eq!(location(&response), expected, "{target} {request}");
        assert_eq!(response.status(), 308);
    }
}

#[test]
fn takes_only_statuses_that_redirect() {
    for status in [301, 302, 307, 308] {
        let redirect = Redirect::parse("https://b.example", Some(status)).unwrap();
        assert_eq!(i64::from(redirect.status.as_u16()), status);
    }
    for status in [-1, 0, 200, 300, 303, 304, 404, 70000] {
        let wrong = Redirect::parse("https://b.example", Some(status)).unwrap_err();
        assert_eq!(wrong.key(), ["status"]);
        assert!(wrong.problem().contains("301, 302, 307 or 308"), "{wrong}");
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
