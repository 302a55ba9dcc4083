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
        let fields = items(200, |field| format!(r#""X-{field}": "{{{{{{host}}""#));
        format!(r#"{{"path": "/{at}", "status": 404, "response": {{"set": {{{fields}}}}}}}"#)
    };
    let field = |at| format!(r#""A{at}":"b""#);
    for (name, json) in [
        (
            "redirects",
            format!(r#"{{"redirects": {{{}}}}}"#, items(1000, moved)),
        ),
        (
            "fields",
            format!(
                r#"{{"status": 404, "response": {{"set": {{{}}}}}}}"#,
                items(usize::MAX, field)
            ),
        ),
        ("paths", format!(r#"{{"paths": [{}]}}"#, items(64, path))),
        (
            "types",
            format!(
                r#"{{"status": 404, "cache": {{{}}}}}"#,
                items(usize::MAX, |at| format!(r#""a/{at}":"b""#))
            ),
        ),
    ] {
        let read = || {
            let begun = Instant::now();
            parsed(3, &json).unwrap_or_else(|error| panic!("{name}: {error}"));
            begun.elapsed()
        };
        let least = (0..5).map(|_| read()).min().unwrap();
        println!("{name}: {} bytes in {least:?}", json.len());
        // Without optimization; what compares each with each takes seconds.
        assert!(least < Duration::from_secs(1), "{name}: {least:?}");
    }
}
