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
