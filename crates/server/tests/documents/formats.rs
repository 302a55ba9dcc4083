//! Tests which format a document has, and which formats are read.

use sekisho_certs::{Site as StoredSite, Tenant};
use sekisho_server::site::{Site, SiteDocument};

#[test]
fn a_document_has_the_oldest_format_that_suffices() {
    for (json, format) in [
        (r#"{"root": "/srv/www/{host}"}"#, 1),
        (r#"{"redirect": "https://a.example", "status": 301}"#, 1),
        (r#"{"status": 404}"#, 1),
        (r#"{"root": "/srv/{tenant}"}"#, 2),
        (r#"{"status": 503, "text": "Back soon."}"#, 2),
        (r#"{"upstream": "http://127.0.0.1:3000"}"#, 2),
        (r#"{"root": "/srv", "try": ["{path}", "/index.html"]}"#, 2),
        (r#"{"paths": [{"path": "/", "status": 404}]}"#, 2),
        (r#"{"root": "/srv", "fastcgi": "unix:/run/php.sock"}"#, 3),
        (
            r#"{"paths": [{"path": "/", "root": "/srv", "fastcgi": "fastcgi://a"}]}"#,
            3,
        ),
        (r#"{"upstream": "unix:/run/{tenant}.sock"}"#, 3),
        (
            r#"{"upstream": {"servers": [{"url": "http://{host}.apps"}]}}"#,
            3,
        ),
        (r#"{"as": "b.example"}"#, 3),
        (r#"{"root": "/srv", "http": "redirect"}"#, 3),
        (r#"{"redirects": {"/a": "/b"}}"#, 3),
        (r#"{"root": "/srv", "index": ["a"]}"#, 3),
        (r#"{"root": "/srv", "precompressed": ["br"]}"#, 3),
        (r#"{"root": "/srv", "compress": false}"#, 3),
        (r#"{"root": "/srv", "in_flight": 9}"#, 3),
        (r#"{"root": "/srv", "upstream_errors": true}"#, 3),
        (r#"{"root": "/srv", "client_certificate": true}"#, 3),
        (r#"{"root": "/srv", "rate": {"client": 9, "burst": 1}}"#, 3),
        (r#"{"root": "/srv", "rate": {"client": 9}}"#, 2),
        (r#"{"redirect": "https://a.example", "status": 303}"#, 3),
        (r#"{"redirect": "https://a.example{rest}"}"#, 3),
        (r#"{"redirect": "https://{host}/a"}"#, 3),
        (r#"{"redirect": "/a"}"#, 3),
        (r#"{"paths": [{"path": "= /", "status": 404}]}"#, 3),
        (
            r#"{"paths": [{"path": "/", "methods": ["GET"], "status": 404}]}"#,
            3,
        ),
    ] {
        let tenant = Tenant::parse("anna").unwrap();
        let document = SiteDocument::parse(json).unwrap();
        let stored = document.stored();
        assert_eq!((stored.format, &*stored.json), (format, json));
        let parsed = |format| {
            let json = json.into();
            Site::parse(&StoredSite { format, json }, &tenant)
        };
        parsed(3).unwrap();
        for earlier in 1..format {
            let error = parsed(earlier).unwrap_err().to_string();
            let wanted = format!("format {earlier} has no such key");
            assert!(error.contains(&wanted), "{error}");
        }
        for later in [0, 4, 7] {
            let error = parsed(later).unwrap_err().to_string();
            assert!(error.contains(&format!("format {later}")), "{error}");
            assert!(error.contains("upgrade"), "{error}");
        }
    }
}

/// Documents of format 2 may hold JSON in a field's value, such as `NEL` has.
#[test]
fn earlier_formats_keep_braces_as_text() {
    let json = r#"{"status": 404, "response": {"set": {"NEL": "{\"report_to\": \"a\"}"}}}"#;
    let parsed = |format| {
        let json = json.into();
        Site::parse(&StoredSite { format, json }, &Tenant::default())
    };
    parsed(2).unwrap();
    for error in [
        parsed(3).unwrap_err(),
        SiteDocument::parse(json).unwrap_err(),
    ] {
        let error = error.to_string();
        assert!(error.contains("and {{ is a brace"), "{error}");
    }
    let doubled = json.replace("{\\", "{{\\").replace("\\\"}", "\\\"}}");
    let document = SiteDocument::parse(&doubled).unwrap();
    assert_eq!(document.stored().format, 3);
}
