//! Tests what `sekisho host` shows of records.

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
