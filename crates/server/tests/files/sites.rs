//! Tests redirects, status sites, and site documents that are refused.

use crate::server::{exchange, serve, site};

#[tokio::test]
async fn a_site_may_redirect_or_refuse() {
    let redirect = site(r#"{"redirect": "https://b.example", "status": 302}"#).unwrap();
    let address = serve(redirect).await;
    let request = b"POST /x?y HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n";
    let answer = exchange(address, request).await;
    assert_eq!(answer.status(), 302);
    assert_eq!(answer.header("location"), Some("https://b.example/x?y"));

    let gone = site(r#"{"status": 410}"#).unwrap();
    let answer = exchange(serve(gone).await, request).await;
    assert_eq!((answer.status(), &*answer.body), (410, &b"410 Gone\n"[..]));
}

#[test]
fn a_site_that_can_not_be_is_refused_with_the_reason() {
    for (json, reason) in [
        ("", "can't be read"),
        ("{}", "exactly one"),
        ("[]", "expected a table"),
        (r#"{"root": "/a", "status": 404}"#, "exactly one"),
        (
            r#"{"root": "/a", "redirect": "https://b.example"}"#,
            "exactly one",
        ),
        (
            r#"{"root": "/a", "autoindex": true}"#,
            "unknown key `autoindex`",
        ),
        (r#"{"root": "www"}"#, "absolute path"),
        (r#"{"root": ""}"#, "must not be empty"),
        (r#"{"root": "/a\u0000"}"#, "NUL"),
        (r#"{"root": "/a/{name}"}"#, "{host} and {tenant}"),
        (r#"{"root": 1}"#, "expected a text"),
        (
            r#"{"redirect": "b.example"}"#,
            "no absolute http or https URL",
        ),
        (
            r#"{"redirect": "https://b.example", "status": 200}"#,
            "301, 302, 303, 307 or 308",
        ),
        (r#"{"status": 200}"#, "400 to 599"),
        (r#"{"status": -1}"#, "400 to 599"),
    ] {
        let error = site(json).unwrap_err().to_string();
        assert!(error.contains(reason), "{json}: {error}");
    }
}

#[test]
fn a_site_weighs_what_it_keeps() {
    let short = site(r#"{"root": "/a"}"#).unwrap().weight();
    let long = site(&format!(r#"{{"root": "/{}"}}"#, "a".repeat(1000)))
        .unwrap()
        .weight();
    assert!((990..1300).contains(&(long - short)), "{short} {long}");
    assert!(short < 300, "{short}");
}
