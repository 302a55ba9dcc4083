//! Tests what `sekisho host` shows of records.

use serde_json::{Map, Value, json};

use crate::sandbox::Sandbox;

#[test]
fn the_wildcard_that_answers_a_name_is_told() {
    let sandbox = Sandbox::new();
    sandbox.ok(&["host", "set", "*.a.example", "--status", "404"]);
    let error = sandbox.fails(&["host", "show", "b.a.example"]);
    let told = "there is no host b.a.example; *.a.example answers requests for it: \
                sekisho host show '*.a.example'";
    assert!(error.contains(told), "{error}");
    let error = sandbox.fails(&["host", "show", "c.b.a.example"]);
    assert!(error.contains("'sekisho host list' shows"), "{error}");
}

#[test]
fn a_host_is_one_line_of_the_list_whatever_its_text() {
    let sandbox = Sandbox::new();
    sandbox.write("page.txt", "line\nline\u{1b}[2J\n");
    sandbox.ok(&[
        "host",
        "set",
        "a.example",
        "--status",
        "503",
        "--text",
        "page.txt",
    ]);
    let listed = sandbox.ok(&["host", "list"]);
    assert_eq!(listed.lines().count(), 1, "{listed}");
    assert!(!listed.contains('\u{1b}'), "{listed}");
    let shown = sandbox.ok(&["host", "show", "a.example"]);
    assert!(
        shown
            .lines()
            .any(|line| line.starts_with("site ") && line.ends_with("\\n")),
        "{shown}"
    );
}

#[test]
fn the_largest_document_is_stored_and_shown() {
    let sandbox = Sandbox::new();
    let rest = "x".repeat(100);
    let moved = |at| (format!("/{at}/{rest}"), format!("/to/{at}/{rest}").into());
    let redirects: Map<String, Value> = (0..1000).map(moved).collect();
    let document = json!({ "redirects": redirects });
    let mut text = document.to_string();
    text.push_str(&" ".repeat((256 << 10) - text.len()));
    sandbox.write("site.json", &text);
    sandbox.ok(&["host", "set", "a.example", "--site", "site.json"]);
    let shown = sandbox.json(&["host", "show", "a.example", "--json"]);
    assert_eq!(shown["site"], document);
    let listed = sandbox.ok(&["host", "list"]);
    assert_eq!(listed.lines().count(), 1);
    text.push(' ');
    sandbox.write("site.json", &text);
    let error = sandbox.fails(&["host", "set", "a.example", "--site", "site.json"]);
    let expected = "site.json has more than the 262144 bytes that a site's document may have";
    assert!(error.contains(expected), "{error}");
}
