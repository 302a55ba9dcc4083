//! Tests fields that the server alone sets.

use sekisho_server::site::{Guard, NamedFields, Site, SiteError};
use serde_json::{Value, json};

use super::site;

/// A rule would set or remove such a field in vain.
#[test]
fn a_rule_changes_no_field_that_the_server_sets() {
    let changing = |place: &str, how: &str, name: &str| {
        let fields = match how {
            "remove" => json!({ "remove": [name] }),
            how => json!({ how: { name: "x" } }),
        };
        site(&json!({ "upstream": "http://a", place: fields }).to_string())
    };
    for (name, instead) in [
        ("Connection", "it frames messages; leave it out"),
        ("content-length", "it frames messages"),
        ("Transfer-Encoding", "it frames messages"),
        ("Host", "write `host` in `upstream`"),
        ("CDN-Loop", "leave it out"),
        ("Proxy", "HTTP_PROXY; choose another name"),
        ("X-Forwarded-For", "[listen] trusted says"),
        ("x-forwarded-proto", "[listen] trusted says"),
        ("Forwarded", "write `forwarded` in `upstream`"),
        ("X-Real-IP", "in x-forwarded-for"),
    ] {
        for how in ["set", "add", "remove"] {
            let error = changing("request", how, name).unwrap_err().to_string();
            let key = if how == "remove" { "[0]" } else { "." };
            assert!(
                error.starts_with(&format!("`request.{how}{key}")),
                "{error}"
            );
            let said = format!("{} is set by the server alone; ", name.to_lowercase());
            assert!(error.contains(&said) && error.contains(instead), "{error}");
            let is_about_the_client =
                name.to_lowercase().contains("forwarded") || name == "X-Real-IP";
            let response = changing("response", how, name);
            assert_eq!(response.is_ok(), is_about_the_client, "{name}");
        }
    }
    for name in ["X-Request-Id", "X-Forwarded-Port", "Authorization"] {
        changing("request", "set", name).unwrap();
    }
}

/// The server tells every upstream the tenant and the certificate in the same fields.
#[test]
fn a_rule_changes_no_field_of_the_configuration() {
    let named = NamedFields::check(Some("X-Tenant"), Some("X_Cert")).unwrap();
    let guard = Guard::default().with_fields(named);
    for (request, expected) in [
        (
            json!({"set": {"X-Tenant": "x"}}),
            Some(("x-tenant", "tenant_field")),
        ),
        (
            json!({"set": {"X_Tenant": "x"}}),
            Some(("x_tenant", "tenant_field")),
        ),
        (
            json!({"add": {"X-Cert": "x"}}),
            Some(("x-cert", "certificate_field")),
        ),
        (
            json!({"remove": ["X-Cert"]}),
            Some(("x-cert", "certificate_field")),
        ),
        (json!({"set": {"X-Own": "x"}}), None),
    ] {
        for document in [top, path, inherited] {
            let site = document(true, &request).unwrap();
            let refused = site
                .refused(&guard, None)
                .map(|refused| refused.to_string());
            let expected = expected.map(|(name, key)| {
                format!("field {name}: only the server sets the field of [sites] {key}")
            });
            assert_eq!(refused, expected, "{request}");
        }
    }
}

/// The upstream of a rule decides which names it gets from the server alone.
#[test]
fn a_rule_sets_no_field_that_its_upstream_reads_as_another() {
    let documents = [top, path, inherited];
    for (underscores, request, expected) in [
        (
            false,
            json!({"add": {"X_Own": "x"}}),
            "request.add.x_own`: no name with `_`",
        ),
        (
            true,
            json!({"set": {"X_Forwarded_For": "x"}}),
            "may read it as x-forwarded-for",
        ),
        (
            true,
            json!({"set": {"Content_Length": "1"}}),
            "may read it as content-length",
        ),
        (
            true,
            json!({"set": {"Content.Length": "1"}}),
            "may read it as another name",
        ),
    ] {
        for document in documents {
            let error = document(underscores, &request).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
    let error = path(false, &json!({"add": {"X_Own": "x"}}))
        .unwrap_err()
        .to_string();
    assert!(error.starts_with("`paths[0].request.add"), "{error}");
    for document in documents {
        document(true, &json!({"set": {"X_Own": "x"}})).unwrap();
        document(false, &json!({"remove": ["X_Own"]})).unwrap();
    }
}

fn upstream(underscores: bool) -> Value {
    json!({ "servers": ["http://a"], "underscores": underscores })
}

fn top(underscores: bool, request: &Value) -> Result<Site, SiteError> {
    let document = json!({ "upstream": upstream(underscores), "request": request });
    site(&document.to_string())
}

fn path(underscores: bool, request: &Value) -> Result<Site, SiteError> {
    let path = json!({ "path": "/a", "upstream": upstream(underscores), "request": request });
    site(&json!({ "paths": [path] }).to_string())
}

fn inherited(underscores: bool, request: &Value) -> Result<Site, SiteError> {
    let path = json!({ "path": "/a", "upstream": upstream(underscores), "body_limit": "1B" });
    site(&json!({ "request": request, "paths": [path] }).to_string())
}
