//! Tests documents of the largest size: their bounds by format, and that reading them takes no
//! worker long.

use std::fmt::Write;
use std::time::{Duration, Instant};

use sekisho_certs::{Site as StoredSite, Tenant};
use sekisho_server::site::{MAX_DOCUMENT, Site, SiteDocument};

fn parsed(format: u32, json: &str) -> Result<Site, String> {
    let json = json.into();
    let site = Site::parse(&StoredSite { format, json }, &Tenant::default());
    site.map_err(|error| error.to_string())
}

#[test]
fn each_format_has_its_own_bound() {
    let padded = |length: usize| {
        let mut json = r#"{"upstream": "http://127.0.0.1:3000"}"#.to_owned();
        json.push_str(&" ".repeat(length - json.len()));
        json
    };
    for (format, most) in [(2, 64 << 10), (3, MAX_DOCUMENT)] {
        parsed(format, &padded(most)).unwrap();
        let error = parsed(format, &padded(most + 1)).unwrap_err();
        let expected = format!(
            "has {} bytes, more than the {most} that its format",
            most + 1
        );
        assert!(error.contains(&expected), "{error}");
    }
    for (length, format) in [(64 << 10, 2), ((64 << 10) + 1, 3), (MAX_DOCUMENT, 3)] {
        let document = SiteDocument::parse(&padded(length)).unwrap();
        assert_eq!(document.stored().format, format, "{length}");
    }
    SiteDocument::parse(&padded(MAX_DOCUMENT + 1)).unwrap_err();
}

/// Returns a list of so many items in JSON, as long as a document has room for them.
fn items(most: usize, item: impl Fn(usize) -> String) -> String {
    let mut items = String::new();
    for number in 0..most {
        let item = item(number);
        if items.len() + item.len() > MAX_DOCUMENT - 200 {
            break;
        }
        let separator = if items.is_empty() { "" } else { "," };
        write!(items, "{separator}{item}").unwrap();
    }
    items
}

/// A host with such a document is read on a worker, beside others' handshakes.
#[test]
fn the_largest_documents_are_read_quickly() {
    let moved = |at| {
        let rest = "x".repeat(110);
        format!(r#""/{at}/{rest}": "https://www.example.com/{at}/{rest}""#)
    };
    let path = |at| {
        let text = "x".repeat(40);
        let fields = items(64, |field| format!(r#""X-{field}": "{{{{{{host}}{text}""#));
        let types = items(6, |kind| format!(r#""a/{kind}": "b""#));
        format!(
            r#"{{"path": "/{at}", "status": 404, "response": {{"set": {{{fields}}}}},
                "cache": {{{types}}}}}"#
        )
    };
    for (name, json) in [
        (
            "redirects",
            format!(r#"{{"redirects": {{{}}}}}"#, items(1000, moved)),
        ),
        ("paths", format!(r#"{{"paths": [{}]}}"#, items(64, path))),
    ] {
        let least = least_time(name, &json);
        // Without optimization; what compares each with each takes seconds.
        assert!(least < Duration::from_secs(1), "{name}: {least:?}");
    }
}

/// Returns the time that a document is read in, of five times the least.
fn least_time(name: &str, json: &str) -> Duration {
    let read = || {
        let begun = Instant::now();
        parsed(3, json).unwrap_or_else(|error| panic!("{name}: {error}"));
        begun.elapsed()
    };
    let least = (0..5).map(|_| read()).min().unwrap();
    println!("{name}: {} bytes in {least:?}", json.len());
    least
}

/// Methods of different paths are not compared with each other.
#[test]
fn methods_of_many_paths_are_read_as_quickly_as_other_text() {
    let path = |methods: &str| {
        let of = |at| format!(r#"{{"path": "/{at}", "methods": [{methods}], "status": 404}}"#);
        format!(r#"{{"paths": [{}]}}"#, items(64, of))
    };
    let all = items(16, |at| format!(r#""METHOD-{}""#, "X".repeat(at)));
    let one = format!(r#""METHOD"{}"#, " ".repeat(all.len()));
    let (many, few) = (path(&all), path(&one));
    let (many, few) = (least_time("methods", &many), least_time("one", &few));
    assert!(many < 16 * few, "{many:?}, one method each {few:?}");
}

/// An answer has the fields of one rule, and waits with them for its client.
#[test]
fn fields_of_a_rule_are_bounded() {
    let site = |fields: &str| format!(r#"{{"status": 404, "response": {{{fields}}}}}"#);
    let most = items(40, |at| format!(r#""X-{at}": "b""#));
    let (set, add) = (format!(r#""set": {{{most}}}"#), r#""add": {"A": "b"}"#);
    let remove = |count| {
        format!(
            r#""remove": [{}]"#,
            items(count, |at| format!(r#""Y-{at}""#))
        )
    };
    parsed(3, &site(&format!("{set}, {add}, {}", remove(23)))).unwrap();
    let error = parsed(3, &site(&format!("{set}, {add}, {}", remove(24)))).unwrap_err();
    assert_eq!(error, "`response`: 65 fields are more than 64");
    // More fields than a head can have.
    let all = items(usize::MAX, |at| format!(r#""a{at}":"b""#));
    let error = parsed(3, &site(&format!(r#""set": {{{all}}}"#))).unwrap_err();
    assert!(error.ends_with("fields are more than 64"), "{error}");
    let request = format!(r#"{{"upstream": "http://a", "request": {{"set": {{{all}}}}}}}"#);
    let error = parsed(3, &request).unwrap_err();
    assert!(error.starts_with("`request`: "), "{error}");
    let types = items(65, |at| format!(r#""a/{at}": "b""#));
    let error = parsed(3, &format!(r#"{{"status": 404, "cache": {{{types}}}}}"#)).unwrap_err();
    assert_eq!(error, "`cache`: 65 media ranges are more than 64");
}

/// A name of 253 bytes may stand for each `{host}`: a document has room for megabytes of them.
#[test]
fn values_of_a_rule_are_bounded_by_what_fills_them() {
    let site = |count, value: &str| {
        let fields = items(count, |at| format!(r#""X-{at}": "{value}""#));
        format!(r#"{{"status": 404, "response": {{"add": {{{fields}}}}}}}"#)
    };
    let hosts = "{host}".repeat(32);
    parsed(3, &site(3, &hosts)).unwrap();
    for json in [site(5, &hosts), site(64, &hosts)] {
        let error = parsed(3, &json).unwrap_err();
        let bound = "bytes of filled values are more than 32768";
        assert!(error.starts_with("`response`: "), "{error}");
        assert!(error.ends_with(bound), "{error}");
    }
    // Text counts as it is, and braces are no placeholders.
    let text = "{{host}}".repeat(60);
    parsed(3, &site(64, &text)).unwrap();
    parsed(2, &site(8, &"b".repeat(4096))).unwrap();
    parsed(3, &site(9, &"b".repeat(4096))).unwrap_err();
}
