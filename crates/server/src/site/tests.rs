//! Tests that sites get the defaults that docs/sites.md names.

use std::time::Duration;

use super::*;

/// Returns the default in a key's row of a table, as it is written in a document.
fn documented<'a>(docs: &'a str, key: &str) -> &'a str {
    let row = format!("| `{key}` | `");
    let mut rows = docs.lines().filter_map(|line| line.strip_prefix(&row));
    let (found, other) = (rows.next(), rows.next());
    assert!(other.is_none(), "{key} has two rows");
    let found = found.or_else(|| {
        // Numbers stand without backquotes.
        let row = format!("| `{key}` | ");
        docs.lines().find_map(|line| line.strip_prefix(&row))
    });
    let found = found.unwrap_or_else(|| panic!("{key} has no row"));
    let (value, _) = found.split_once(" | ").unwrap();
    value.trim_end_matches('`')
}

/// Returns the default of a key in the text about `check`.
fn in_check<'a>(docs: &'a str, key: &str) -> &'a str {
    let (_, behind) = docs.split_once("| `check` | ").unwrap();
    let (_, behind) = behind.split_once(&format!("`{key}` (`")).unwrap();
    behind.split_once('`').unwrap().0
}

fn rule(document: &str) -> Rule {
    let site = SiteDocument::parse(document).unwrap_or_else(|error| panic!("{document}: {error}"));
    site.site.0.rules[0].clone()
}

fn upstream(rule: &Rule) -> &Upstream {
    match &rule.action {
        Action::Upstream(upstream) => upstream,
        other => panic!("{other:?}"),
    }
}

#[test]
fn sites_get_the_defaults_of_the_docs() {
    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/sites.md");
    let docs = std::fs::read_to_string(docs).unwrap();
    let set = |key| format!(r#""{key}": {}"#, documented(&docs, key));
    let all = |keys: &[&'static str]| {
        keys.iter()
            .map(|key| set(key))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let check = ["interval", "timeout", "status"].map(|key| {
        let value = in_check(&docs, key);
        format!(r#""{key}": {value}"#)
    });
    let written = format!(
        r#"{{{}, "upstream": {{
            "servers": ["http://127.0.0.1:1"], {},
            "timeouts": {{{}}}, "check": {{"path": "/", {}}}
        }}}}"#,
        set("body_limit"),
        all(&[
            "balance",
            "forwarded",
            "underscores",
            "connections",
            "waiting"
        ]),
        all(&["connect", "first_byte", "idle", "upgraded"]),
        check.join(", "),
    );
    let (written, left_out) = (
        rule(&written),
        rule(r#"{"upstream": {"servers": ["http://127.0.0.1:1"], "check": {"path": "/"}}}"#),
    );
    let shown = |rule: &Rule| format!("{:?}", upstream(rule).options());
    assert_eq!(shown(&written), shown(&left_out));
    let plain = rule(r#"{"upstream": "http://127.0.0.1:1"}"#);
    for rule in [&written, &left_out, &plain] {
        assert_eq!(rule.body_limit(), 100 << 20);
        let timeouts = &upstream(rule).options().timeouts;
        assert_eq!(timeouts.connect, Duration::from_secs(5));
        assert_eq!(timeouts.first_byte, Duration::from_mins(1));
        assert_eq!(timeouts.idle, Duration::from_mins(1));
        assert_eq!(timeouts.upgraded, Duration::from_hours(1));
    }
}
