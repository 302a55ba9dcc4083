use std::sync::Arc;

use percent_encoding::percent_decode_str;
use proptest::collection::vec;
use proptest::prelude::{Strategy, prop_assert, prop_assert_eq, proptest};
use proptest::sample::select;

use super::super::rule::{Action, RuleOptions};
use super::*;

fn parse(raw: &str) -> Option<SitePath<'_>> {
    SitePath::of_text(raw)
}

#[test]
fn decodes_once_and_encodes_again() {
    for (raw, decoded, encoded) in [
        ("/", "/", "/"),
        ("*", "*", "*"),
        ("/a/b.css", "/a/b.css", "/a/b.css"),
        ("/a/", "/a/", "/a/"),
        ("/%61%2d%7E", "/a-~", "/a-~"),
        ("/a%20b", "/a b", "/a%20b"),
        ("/b%c3%bccher", "/bücher", "/b%C3%BCcher"),
        ("/bücher", "/bücher", "/b%C3%BCcher"),
        ("/a%3Fb%23c", "/a?b#c", "/a%3Fb%23c"),
        ("/a\"{|}^`", "/a\"{|}^`", "/a%22%7B%7C%7D%5E%60"),
        ("/a%0a%7f", "/a\n\u{7f}", "/a%0A%7F"),
        // Twice encoded: a `%` that remains is part of the name.
        ("/%2561", "/%61", "/%2561"),
        ("/%252e%252e/x", "/%2e%2e/x", "/%252e%252e/x"),
        ("/a%252fb", "/a%2fb", "/a%252fb"),
        // Delimiters mean another thing escaped than plain.
        ("/a;v=1,2/b", "/a;v=1,2/b", "/a;v=1,2/b"),
        ("/a%3Bv%3d1", "/a;v=1", "/a%3Bv%3D1"),
        // Slashes that are no separators.
        ("/a%2fb%2Fc", "/a%2fb%2Fc", "/a%2fb%2Fc"),
        ("/a%5cb\\c", "/a%5cb%5Cc", "/a%5cb%5Cc"),
        // Dot segments and doubled slashes.
        ("/./a/./b/.", "/a/b/", "/a/b/"),
        ("/a/../b", "/b", "/b"),
        ("/a/b/..", "/a/", "/a/"),
        ("/a/b/../../c/", "/c/", "/c/"),
        ("/a/..", "/", "/"),
        ("//", "/", "/"),
        ("//a///b//", "/a/b/", "/a/b/"),
        ("/a//../b", "/b", "/b"),
        ("/%C3%BC/..", "/", "/"),
        ("/%5c/../a", "/a", "/a"),
        ("/a..b/c.", "/a..b/c.", "/a..b/c."),
        ("/.../a", "/.../a", "/.../a"),
        ("/.well-known/x", "/.well-known/x", "/.well-known/x"),
        ("/http://a.example", "/http:/a.example", "/http:/a.example"),
    ] {
        let path = parse(raw).unwrap_or_else(|| panic!("{raw} is refused"));
        assert_eq!((path.as_str(), path.encoded()), (decoded, encoded), "{raw}");
        let slash = decoded.contains("%5") || raw.to_lowercase().contains("%2fb");
        assert_eq!(path.has_encoded_slash(), slash, "{raw}");
    }
}

#[test]
fn refuses_what_a_server_may_read_otherwise() {
    for raw in [
        "",
        "a",
        "**",
        "?",
        "/%",
        "/%2",
        "/a%zz",
        "/%+1",
        "/%00",
        "/a/b%00.html",
        "/..",
        "/../a",
        "/a/../../b",
        "//../a",
        "/%2e",
        "/%2e%2E/a",
        "/a/.%2e/b",
        "/a/%2e./b",
        "/a/..%2fb",
        "/a/%2e%2e%2fb",
        "/a%2f..",
        "/a%2F..%2Fb",
        "/a%2f.%5cb",
        "/a/..%5c..%5cb",
        "/a\\..\\b",
        "/..\\a",
        "/..;/a",
        "/a/..;v=1/b",
        "/a/.;/b",
        "/a/..%3b/b",
        "/a%2f..;x",
        "/%ff",
        "/%c0%ae%c0%ae/a",
        "/%C3/%BC",
        "/%ed%a0%80",
    ] {
        assert_eq!(parse(raw), None, "{raw}");
    }
}

#[test]
fn a_plain_path_is_not_copied() {
    for raw in ["/", "/a/b.css", "/a;b/c@d", "*"] {
        let path = parse(raw).expect(raw);
        let is_same = |text: &str| std::ptr::eq(text.as_ptr(), raw.as_ptr());
        assert!(is_same(path.as_str()) && is_same(path.encoded()), "{raw}");
    }
}

fn rule(prefix: &str, strip_prefix: bool, add: Option<&str>) -> Rule {
    Rule {
        prefix: prefix.into(),
        is_exact: false,
        methods: None,
        action: Action::Status {
            code: StatusCode::NOT_FOUND,
            text: None,
        },
        options: Some(Arc::new(RuleOptions {
            strip_prefix,
            add_prefix: add.map(Box::from),
            ..RuleOptions::default()
        })),
    }
}

#[test]
fn a_rule_for_one_path_strips_all_of_it() {
    for (path, raw) in [
        ("/", "/"),
        ("/a", "/a"),
        ("/a/b/", "/a/b/"),
        ("/ä", "/%C3%A4"),
    ] {
        let rule = Rule {
            is_exact: true,
            ..rule(path, true, None)
        };
        let parsed = parse(raw).expect(raw);
        let rewritten = parsed.rewritten(&rule);
        assert_eq!(
            (rewritten.as_str(), rewritten.encoded()),
            ("/", "/"),
            "{path}"
        );
    }
}

#[test]
fn a_prefix_is_stripped_and_added() {
    for (prefix, strip, add, raw, decoded, encoded) in [
        ("", false, None, "/a", "/a", "/a"),
        ("", true, None, "/a%20", "/a ", "/a%20"),
        ("", true, Some("/v1"), "/", "/v1/", "/v1/"),
        ("/api", true, None, "/api", "/", "/"),
        ("/api", true, None, "/api/", "/", "/"),
        ("/api", true, None, "/api/a%2Fb/", "/a%2Fb/", "/a%2Fb/"),
        ("/api", true, None, "/%61pi/%C3%BC", "/ü", "/%C3%BC"),
        ("/a b/ü", true, None, "/a%20b/%C3%BC/c", "/c", "/c"),
        ("/api", true, Some("/v1"), "/api", "/v1", "/v1"),
        ("/api", true, Some("/v 1"), "/api/x", "/v 1/x", "/v%201/x"),
        (
            "/api",
            true,
            Some("/g%2Fp"),
            "/api/x",
            "/g%2Fp/x",
            "/g%2Fp/x",
        ),
        (
            "/api",
            false,
            Some("/v1"),
            "/api/x",
            "/v1/api/x",
            "/v1/api/x",
        ),
        ("", true, Some("/v1"), "*", "*", "*"),
    ] {
        let rule = rule(prefix, strip, add);
        let path = parse(raw).expect(raw);
        assert!(rule.matches(path.as_str()), "{raw}");
        let rewritten = path.rewritten(&rule);
        let found = (rewritten.as_str(), rewritten.encoded());
        assert_eq!(found, (decoded, encoded), "{prefix} {raw}");
    }
}

proptest! {
    #[test]
    fn the_forwarded_path_is_the_matched_one(pieces in vec(piece(), 0..12)) {
        let raw = format!("/{}", pieces.concat());
        let Some(path) = parse(&raw) else { return Ok(()) };
        // An upstream that decodes once finds what the rules matched.
        let kept = path.encoded().replace("%2f", "%252f").replace("%2F", "%252F");
        let kept = kept.replace("%5c", "%255c").replace("%5C", "%255C");
        let decoded = percent_decode_str(&kept).decode_utf8().unwrap();
        prop_assert_eq!(&*decoded, path.as_str(), "{}", raw);
        // One that cleans the path changes nothing.
        let again = parse(path.encoded()).unwrap();
        prop_assert_eq!(again.as_str(), path.as_str());
        prop_assert_eq!(again.encoded(), path.encoded());
        prop_assert_eq!(again.has_encoded_slash(), path.has_encoded_slash());
        // One that takes encoded slashes for slashes climbs nowhere.
        let slashed = path.encoded().to_lowercase().replace("%2f", "/").replace("%5c", "/");
        let slashed = percent_decode_str(&slashed).decode_utf8_lossy();
        let mut names = slashed.split('/').filter_map(|name| name.split(';').next());
        prop_assert!(names.all(|name| name != "." && name != ".."), "{}", slashed);
        prop_assert!(!slashed.contains('\0') && !path.encoded().contains("//"));
    }
}

fn piece() -> impl Strategy<Value = &'static str> {
    select(&[
        "/", "//", ".", "..", "a", "B", ";", ";v=1", "%2f", "%2F", "%5c", "%5C", "\\", "%2e",
        "%2E", "%25", "%252f", "%252e", "%00", "%20", "%0a", "%3b", "%3B", "%c3%bc", "ü", "%ff",
        "%", "%4", "\"", "{", "+", "%2B", "@", ":", "~", "%7e", "*", "%61",
    ])
}
