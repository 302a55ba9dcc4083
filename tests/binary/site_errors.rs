//! Tests that a site that can't be read fails its own host alone.

use rusqlite::Connection;
use sekisho_testkit::services::free_ports;

use crate::sandbox::{SOON, Sandbox, Server, until};

/// Makes a sandbox with two hosts.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.page("a.example", "page of a");
    sandbox.page("b.example", "page of b");
    sandbox.import(&["a.example", "b.example"]);
    sandbox
}

/// Writes the row of a.example as another program might.
fn write_row(sandbox: &Sandbox, values: &str) {
    let store = Connection::open(sandbox.path("hosts.db")).expect("a store");
    let sql = format!("UPDATE hosts SET {values} WHERE pattern = 'a.example'");
    assert_eq!(store.execute(&sql, ()), Ok(1), "{sql}");
}

/// Asserts that a.example alone is refused, and that the log says why.
fn a_is_refused(server: &Server, why: &str) {
    let refusal = server.refusal("a.example");
    assert!(refusal.contains("InternalError"), "{why}: {refusal}");
    assert!(server.shows("b.example", "page of b"), "{why}");
    let log = server.log();
    let said = log
        .lines()
        .any(|line| line.contains("a.example") && line.contains(why));
    assert!(said, "{why}: {log}");
}

#[test]
fn a_document_that_can_not_be_read_fails_its_own_host() {
    for (values, why) in [
        (
            r#"site_format = 7, site = '{"status": 404}'"#,
            "the site has format 7",
        ),
        ("site_format = -1, site = '{}'", "the site has format"),
        (
            "site_format = 5000000000, site = '{}'",
            "the site has format",
        ),
        (
            "site_format = 2, site = NULL",
            "the site's document can't be read: EOF",
        ),
        (
            r#"site_format = 2, site = '{"status": 4'"#,
            "the site's document can't be read: EOF",
        ),
        (
            r#"site_format = 2, site = '{"status": 404, "rate": {"client": -1}}'"#,
            "`rate.client`: -1 is out of range",
        ),
        // Bytes that are not UTF-8.
        (
            "site_format = 2, site = CAST(X'7b2274657874223a22ff227d' AS TEXT)",
            "the site's document can't be read: expected value",
        ),
        (
            r#"tenant = 'a/b', site_format = 2, site = '{"root": "/srv/{tenant}"}'"#,
            r"{tenant} stands for",
        ),
    ] {
        let sandbox = sandbox();
        write_row(&sandbox, values);
        let server = sandbox.serve();
        a_is_refused(&server, why);
        let listed = sandbox.ok(&["check"]);
        assert!(listed.contains("1 hosts are not served"), "{listed}");
        assert!(
            listed.contains("  a.example: ") && listed.contains(why),
            "{listed}"
        );
        let strict = sandbox.run(&["check", "--strict"]);
        assert_eq!((strict.code, &strict.out), (Some(1), &listed), "{why}");
        // The right document, or none, is served at once.
        sandbox.ok(&[
            "host",
            "set",
            "a.example",
            "--tenant",
            "a",
            "--default-site",
        ]);
        assert!(server.shows("a.example", "page of a"), "{why}");
        assert!(!sandbox.ok(&["check", "--strict"]).contains("a.example"));
        server.stop();
    }
}

/// A byte that is not UTF-8 hides no other byte of the document.
#[test]
fn a_site_of_other_bytes_than_text_is_shown() {
    let sandbox = sandbox();
    let site = "site_format = 2, site = CAST(X'7b2274657874223a22ff227d' AS TEXT)";
    write_row(&sandbox, site);
    let shown = sandbox.ok(&["host", "show", "a.example"]);
    assert!(shown.contains(r#"{"text":"#), "{shown}");
}

/// Names of fields stood in documents before one name held for all sites.
#[test]
fn a_site_that_names_or_changes_a_field_of_the_operators_is_503() {
    for (key, value, why) in [
        (
            "upstream",
            r#"{"servers": ["http://127.0.0.1:1"], "tenant_field": "X-Own"}"#,
            "stands in the configuration, as [sites] tenant_field",
        ),
        (
            "request",
            r#"{"set": {"X-Tenant": "b"}}, "upstream": "http://127.0.0.1:1""#,
            "field x-tenant: only the server sets the field of [sites] tenant_field",
        ),
    ] {
        let sandbox = sandbox();
        let document = format!(r#"{{"{key}": {value}}}"#);
        write_row(&sandbox, &format!("site_format = 2, site = '{document}'"));
        let file = sandbox.path("sekisho.toml");
        let config = std::fs::read_to_string(&file).expect("a file");
        let named = config.replace("[sites]\n", "[sites]\ntenant_field = \"X-Tenant\"\n");
        assert_ne!(named, config);
        sandbox.write("sekisho.toml", &named);
        sandbox.allow(&["127.0.0.1:1"]);
        let listed = sandbox.ok(&["check"]);
        assert!(listed.contains("1 hosts are answered with 503"), "{listed}");
        assert!(
            listed.contains("  a.example: ") && listed.contains(why),
            "{listed}"
        );
        let server = sandbox.serve();
        let answer = server.fetch("a.example").expect("an answer");
        assert!(answer.contains(" 503 "), "{answer}");
        sandbox.write("site.json", &document);
        let site = sandbox.path("site.json");
        let site = site.to_str().expect("UTF-8");
        let refused = sandbox.run(&["host", "set", "a.example", "--site", site]);
        assert_ne!(refused.code, Some(0));
        assert!(refused.err.contains(why), "{}", refused.err);
        server.stop();
    }
}

#[test]
fn a_record_that_can_not_be_read_fails_its_own_host() {
    for (values, why) in [
        ("tls = '1.2 later'", "its TLS policy is not known"),
        (
            "tenant = 'a' || char(7)",
            "must not hold control characters",
        ),
    ] {
        let sandbox = sandbox();
        write_row(&sandbox, values);
        let server = sandbox.serve();
        a_is_refused(&server, why);
        let listed = sandbox.ok(&["host", "list"]);
        let (first, second) = listed.split_once('\n').expect("two lines");
        assert!(
            first.starts_with("a.example\t-\t-\tnot served: "),
            "{listed}"
        );
        assert!(first.contains(why), "{listed}");
        assert!(second.starts_with("b.example\t-\t"), "{listed}");
        let shown = sandbox.ok(&["host", "show", "a.example"]);
        assert!(shown.contains("not served: ") && shown.contains(why));
        let json = sandbox.ok(&["host", "show", "a.example", "--json"]);
        assert!(json.contains("\"error\":") && json.contains(why), "{json}");
        let checked = sandbox.ok(&["check"]);
        assert!(checked.contains("1 hosts are not served"), "{checked}");
        assert!(checked.contains("  a.example: ") && checked.contains(why));
        assert_eq!(sandbox.run(&["check", "--strict"]).code, Some(1));
        // A change does not lose the parts that could not be read.
        let set = sandbox.run(&["host", "set", "a.example", "--disabled"]);
        assert_eq!(set.code, Some(1), "{}", set.out);
        assert!(set.err.contains("a.example") && set.err.contains(why));
        // The feed goes on, and takes what another program corrects.
        sandbox.ok(&["host", "set", "b.example", "--tenant", "b"]);
        sandbox.ok(&["host", "remove", "a.example"]);
        assert!(!sandbox.ok(&["check", "--strict"]).contains("a.example"));
        server.stop();
    }
}

#[test]
fn a_tenant_that_is_no_folder_fails_its_own_host() {
    let sandbox = sandbox();
    sandbox.page("a/a.example", "page of a");
    sandbox.page("b/b.example", "page of b");
    let file = sandbox.path("sekisho.toml");
    let config = std::fs::read_to_string(&file).expect("a file");
    let config = config.replace("www/{host}", "www/{tenant}/{host}");
    sandbox.write("sekisho.toml", &config);
    sandbox.ok(&["host", "set", "b.example", "--tenant", "b"]);
    let why = "{tenant} stands for";
    for tenant in ["a/a", "..", "a a"] {
        write_row(&sandbox, &format!("tenant = '{tenant}'"));
        let server = sandbox.serve();
        a_is_refused(&server, why);
        let listed = sandbox.ok(&["check"]);
        assert!(listed.contains("1 hosts are not served"), "{listed}");
        assert!(
            listed.contains("  a.example: ") && listed.contains(why),
            "{listed}"
        );
        server.stop();
    }
    let set = |tenant| sandbox.run(&["host", "set", "a.example", "--tenant", tenant]);
    let warned = set("a/b").err;
    assert!(
        warned.contains("warning: [site] `root`: {tenant}"),
        "{warned}"
    );
    let ran = set("a");
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(!ran.err.contains("warning"), "{}", ran.err);
    let server = sandbox.serve();
    assert!(server.shows("a.example", "page of a"));
    assert!(!sandbox.ok(&["check"]).contains("a.example"));
    server.stop();
}

/// A server reads `[sites]` at its start, a command when it runs.
#[test]
fn a_command_tells_that_the_server_has_read_another_list() {
    let sandbox = Sandbox::new();
    sandbox.import(&["a.example"]);
    let file = sandbox.path("sekisho.toml");
    let config = std::fs::read_to_string(&file).expect("a file");
    let [port] = free_ports();
    let at = "admin = \"127.0.0.1:0\"\n";
    let known = format!("admin = \"127.0.0.1:{port}\"\n");
    sandbox.write("sekisho.toml", &config.replace(at, &known));
    let set = || {
        let ran = sandbox.run(&[
            "host",
            "set",
            "a.example",
            "--upstream",
            "http://127.0.0.1:1",
        ]);
        assert_eq!(ran.code, Some(0), "{}", ran.err);
        ran.err
    };
    sandbox.allow(&["127.0.0.1:1"]);
    let said = set();
    assert!(said.contains("note: the server at 127.0.0.1:"), "{said}");
    let server = sandbox.serve();
    assert_eq!(set(), "");
    sandbox.allow(&["127.0.0.1:1", "127.0.0.1:2"]);
    let said = set();
    assert!(
        said.contains("has read another [sites] than that of"),
        "{said}"
    );
    // Sites that name no place are judged alike by all.
    let said = sandbox
        .run(&["host", "set", "a.example", "--status", "404"])
        .err;
    assert_eq!(said, "");
    server.stop();
}

#[test]
fn a_host_that_answers_as_itself_is_refused() {
    let sandbox = sandbox();
    sandbox.write("as.json", r#"{"as": "a.example"}"#);
    let error = sandbox.fails(&["host", "set", "a.example", "--site", "as.json"]);
    let says = "as: a.example is this host itself";
    assert!(error.contains(says), "{error}");
    sandbox.ok(&["host", "set", "b.example", "--site", "as.json"]);
}

/// The host itself is served: the log must say what its operator can mend.
#[test]
fn a_host_that_answers_as_one_that_is_gone_gets_503() {
    let sandbox = sandbox();
    sandbox.write("as.json", r#"{"as": "a.example"}"#);
    sandbox.ok(&["host", "set", "b.example", "--site", "as.json"]);
    let server = sandbox.serve();
    // `[site]` names the folder by the host that answers.
    assert!(server.shows("b.example", "page of a"));
    sandbox.ok(&["host", "remove", "a.example"]);
    let what = "site of another host can't be used";
    let says = |line: &str| line.contains(what) && line.contains("no such host");
    // The answer may come before the line.
    until("the site is gone, and the log says why", SOON, || {
        !server.shows("b.example", "page of a") && server.log().lines().any(says)
    });
    server.stop();
}
