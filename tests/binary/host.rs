//! Tests `sekisho host`.

use std::fs::File;

use serde_json::json;

use crate::sandbox::{Ran, Sandbox};

#[test]
fn host_show_shows_what_host_set_stored() {
    let sandbox = Sandbox::new();
    let ran = sandbox.run(&[
        "host",
        "set",
        "BÜCHER.example.",
        "--tenant",
        "anna",
        "--min-tls",
        "1.3",
    ]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(ran.err.contains("created"), "{}", ran.err);
    assert!(ran.err.contains("no certificate yet"), "{}", ran.err);
    let shown = sandbox.json(&["host", "show", "bücher.example", "--json"]);
    assert_eq!(shown["name"], "xn--bcher-kva.example");
    assert_eq!(shown["unicode"], "bücher.example");
    assert_eq!(shown["tenant"], "anna");
    assert_eq!(shown["min_tls"], "1.3");
    assert_eq!(shown["site"], json!(null));
    assert_eq!(shown["credentials"], json!({}));
    let text = sandbox.ok(&["host", "show", "xn--bcher-kva.example"]);
    assert!(
        text.contains("xn--bcher-kva.example (bücher.example)"),
        "{text}"
    );
}

#[test]
fn only_the_given_fields_change() {
    let sandbox = Sandbox::new();
    let set = |args: &[&str]| sandbox.ok(&[&["host", "set", "a.example"], args].concat());
    let show = || sandbox.json(&["host", "show", "a.example", "--json"]);
    set(&["--tenant", "anna", "--root", "pages"]);
    let root = sandbox
        .root()
        .canonicalize()
        .expect("a folder")
        .join("pages");
    assert_eq!(show()["site"]["root"], root.to_str().expect("UTF-8"));
    set(&["--disabled"]);
    assert_eq!(
        (&show()["disabled"], &show()["tenant"]),
        (&json!(true), &json!("anna"))
    );
    set(&["--disabled=false", "--redirect", "https://b.example"]);
    assert_eq!(show()["disabled"], json!(false));
    assert_eq!(show()["site"], json!({"redirect": "https://b.example"}));
    let version = show()["version"].clone();
    set(&["--tenant", "anna"]);
    assert_eq!(
        show()["version"],
        version,
        "what is the same is not written"
    );
    set(&["--default-site", "--tenant", ""]);
    assert_eq!(
        (&show()["site"], &show()["tenant"]),
        (&json!(null), &json!(""))
    );
}

#[test]
fn lists_are_paged_and_in_order() {
    let sandbox = Sandbox::new();
    for name in ["b.example", "*.b.example", "a.example", "c.b.example"] {
        sandbox.ok(&["host", "set", name]);
    }
    let names = |args: &[&str]| -> Vec<String> {
        let list = sandbox.json(&[&["host", "list", "--json"], args].concat());
        let hosts = list.as_array().expect("an array");
        hosts
            .iter()
            .map(|host| host["name"].as_str().expect("a name").to_owned())
            .collect()
    };
    assert_eq!(
        names(&[]),
        ["*.b.example", "a.example", "b.example", "c.b.example"]
    );
    assert_eq!(
        names(&["--after", "a.example", "--limit", "1"]),
        ["b.example"]
    );
    assert_eq!(names(&["--after", "c.b.example"]), [""; 0]);
    let text = sandbox.ok(&["host", "list"]);
    assert_eq!(text.lines().count(), 4, "{text}");
    sandbox.ok(&["host", "remove", "b.example"]);
    assert_eq!(names(&[]).len(), 3);
}

#[test]
fn a_host_that_is_not_there_is_an_error() {
    let sandbox = Sandbox::new();
    sandbox.ok(&["host", "set", "a.example"]);
    for command in ["show", "remove"] {
        let error = sandbox.fails(&["host", command, "b.example"]);
        assert!(error.contains("there is no host b.example"), "{error}");
    }
}

#[test]
fn a_host_takes_the_certificates_of_another() {
    let sandbox = Sandbox::new();
    sandbox.import(&["a.example", "*.a.example"]);
    let credentials =
        |host: &str| sandbox.json(&["host", "show", host, "--json"])["credentials"].clone();
    let id = credentials("a.example")["ecdsa"].clone();
    sandbox.ok(&["host", "set", "www.a.example", "--cert", "a.example"]);
    assert_eq!(credentials("www.a.example")["ecdsa"], id);
    sandbox.ok(&[
        "host",
        "set",
        "www2.a.example",
        "--cert",
        id.as_str().expect("an id"),
    ]);
    assert_eq!(credentials("www2.a.example")["ecdsa"], id);

    let error = sandbox.fails(&["host", "set", "b.example", "--cert", "a.example"]);
    assert!(error.contains("not for b.example"), "{error}");
    let error = sandbox.fails(&[
        "host",
        "set",
        "x.a.example",
        "--cert",
        "cert:0000000000000001",
    ]);
    assert!(
        error.contains("there is no credential cert:0000000000000001"),
        "{error}"
    );
    assert!(
        sandbox
            .fails(&["host", "show", "x.a.example"])
            .contains("no host")
    );
}

#[test]
fn a_root_that_is_not_there_is_warned_of() {
    let sandbox = Sandbox::new();
    sandbox.page("pages", "some");
    for (root, missing) in [
        ("www/pages", None),
        ("www/{host}", None),
        ("no/pages", Some("no/pages")),
        ("no/{host}/pages", Some("no")),
    ] {
        let ran = sandbox.run(&["host", "set", "a.example", "--root", root]);
        assert_eq!(ran.code, Some(0), "{}", ran.err);
        let warning = missing.map(|folder| format!("warning: {folder} is not there"));
        match warning {
            Some(warning) => assert!(ran.err.contains(&warning), "{}", ran.err),
            None => assert!(!ran.err.contains("warning"), "{}", ran.err),
        }
    }
}

#[test]
fn a_root_that_is_not_allowed_is_refused_and_listed() {
    let sandbox = Sandbox::new();
    let set = |root: &str| ["host", "set", "a.example", "--root", root].map(str::to_owned);
    let outside = sandbox.fails(&set("/etc").each_ref().map(String::as_str));
    assert!(
        outside.contains("outside of the folders of [sites] allow"),
        "{outside}"
    );
    assert!(outside.contains("sekisho.toml allows "), "{outside}");
    assert!(!sandbox.path("hosts.db").exists(), "nothing was created");
    let own = sandbox.fails(&set(".").each_ref().map(String::as_str));
    assert!(own.contains("the server's own files"), "{own}");

    // A root that the configuration allows at first, and later no more.
    sandbox.ok(&["host", "set", "a.example", "--root", "www/../pages"]);
    assert!(!sandbox.ok(&["check"]).contains("503"));
    let config = std::fs::read_to_string(sandbox.path("sekisho.toml")).expect("a file");
    sandbox.write(
        "sekisho.toml",
        &config.replace("allow = [\".\"]", "allow = [\"www\"]"),
    );
    let listed = sandbox.ok(&["check"]);
    assert!(listed.contains("1 hosts are answered with 503"), "{listed}");
    assert!(listed.contains("a.example: root "), "{listed}");
}

#[test]
fn an_entry_with_a_tenant_keeps_tenants_apart() {
    let sandbox = Sandbox::new();
    let set = |tenant: &str| ["host", "set", "a.example", "--tenant", tenant].map(str::to_owned);
    let set = |tenant: &str, more: &[&str]| {
        let args: Vec<_> = set(tenant)
            .into_iter()
            .chain(more.iter().map(ToString::to_string))
            .collect();
        let args: Vec<_> = args.iter().map(String::as_str).collect();
        sandbox.run(&args)
    };
    let together =
        "1 hosts have a tenant and a folder in an entry of [sites] allow without {tenant}";
    let own = set("anna", &["--root", "sites/anna/shop"]);
    assert_eq!(own.code, Some(0), "{}", own.err);
    assert!(sandbox.ok(&["check", "--strict"]).contains(together));

    sandbox.allow(&["sites/{tenant}"]);
    let checked = sandbox.ok(&["check", "--strict"]);
    assert!(!checked.contains("{tenant}"), "{checked}");
    // The record's own tenant counts where none is named.
    sandbox.ok(&["host", "set", "a.example", "--root", "sites/anna/app"]);
    for (tenant, more) in [("berta", &["--root", "sites/anna/app"][..]), ("berta", &[])] {
        let refused = set(tenant, more);
        assert_eq!(refused.code, Some(1), "{}", refused.err);
        assert!(
            refused
                .err
                .contains("outside of the folders of [sites] allow"),
            "{}",
            refused.err
        );
    }
    let refused = sandbox.fails(&["host", "set", "b.example", "--root", "sites/anna/app"]);
    assert!(refused.contains("sites/{tenant}"), "{refused}");
}

#[test]
fn a_folder_of_the_hooks_keys_is_no_root() {
    let sandbox = Sandbox::new();
    sandbox.write("certs/a.key", "key");
    sandbox.write("a.luau", "function handshake(tls) end");
    let config = std::fs::read_to_string(sandbox.path("sekisho.toml")).expect("a file");
    let hook = "[hook]\nscript = \"a.luau\"\nfolders = [\"certs\"]\n";
    sandbox.write("sekisho.toml", &format!("{config}\n{hook}"));
    for root in ["certs", "certs/a"] {
        let refused = sandbox.fails(&["host", "set", "a.example", "--root", root]);
        assert!(refused.contains("the keys of [hook] folders"), "{refused}");
    }
    sandbox.ok(&["host", "set", "a.example", "--root", "pages"]);
}

#[test]
fn a_site_is_a_document_or_a_short_form() {
    let sandbox = Sandbox::new();
    sandbox.allow(&[".", "127.0.0.1:3000-3999", "unix:run"]);
    let set = |args: &[&str]| sandbox.ok(&[&["host", "set", "a.example"], args].concat());
    let site = || sandbox.json(&["host", "show", "a.example", "--json"])["site"].clone();
    set(&["--upstream", "http://127.0.0.1:3000"]);
    assert_eq!(site(), json!({ "upstream": "http://127.0.0.1:3000" }));
    set(&["--status", "503"]);
    assert_eq!(site(), json!({ "status": 503 }));
    sandbox.write("text", "Closed.\n");
    set(&["--status", "451", "--text", "text"]);
    assert_eq!(site(), json!({ "status": 451, "text": "Closed.\n" }));

    let document = json!({
        "root": sandbox.path("www/{tenant}"),
        "paths": [{ "path": "/api", "upstream": "http://127.0.0.1:3001", "strip": true }],
        "hsts": { "max_age": 3600 },
    });
    sandbox.write("site.json", &format!("{document:#}"));
    set(&["--tenant", "anna", "--site", "site.json"]);
    assert_eq!(site(), document);
    sandbox.write("site.json", &site().to_string());
    let before = sandbox.json(&["host", "show", "a.example", "--json"])["version"].clone();
    set(&["--site", "site.json"]);
    let after = sandbox.json(&["host", "show", "a.example", "--json"])["version"].clone();
    assert_eq!(before, after, "what is the same is not written");

    // A folder depends on the tenant.
    let args = ["host", "set", "a.example", "--tenant", "a/b"];
    let refused = sandbox.run(&args);
    assert_eq!(refused.code, Some(2), "{}", refused.err);
    assert!(
        refused.err.contains("{tenant} stands for \"a/b\""),
        "{}",
        refused.err
    );
}

#[test]
fn a_site_is_read_from_standard_input() {
    let sandbox = Sandbox::new();
    let document = json!({ "status": 451, "text": "Closed.\n" });
    sandbox.write("site.json", &document.to_string());
    sandbox.write("text", "Back soon.\n");
    for (input, args, expected) in [
        ("site.json", &["--site", "-"][..], document),
        (
            "text",
            &["--status", "503", "--text", "-"],
            json!({ "status": 503, "text": "Back soon.\n" }),
        ),
    ] {
        let mut command = sandbox.command(&[&["host", "set", "a.example"], args].concat());
        command.stdin(File::open(sandbox.path(input)).expect("a file"));
        let ran = Ran::of(&command.output().expect("it runs"));
        assert_eq!(ran.code, Some(0), "{args:?}: {}", ran.err);
        let shown = sandbox.json(&["host", "show", "a.example", "--json"]);
        assert_eq!(shown["site"], expected, "{args:?}");
    }
    // No document is not the document's absence.
    let ran = sandbox.run(&["host", "set", "a.example", "--site", "-"]);
    assert_eq!(ran.code, Some(2), "{}", ran.err);
    assert!(ran.err.contains("can't be read: EOF"), "{}", ran.err);
}

#[test]
fn a_wrong_document_is_refused_by_its_path_of_keys() {
    let sandbox = Sandbox::new();
    for (document, expected) in [
        ("{", "can't be read: EOF"),
        (
            r#"{"paths": [{"path": "/", "upstream": {"servers": ["x"]}}]}"#,
            "`paths[0].upstream.servers[0]`: \"x\" is no URL of a server; write",
        ),
    ] {
        sandbox.write("site.json", document);
        let ran = sandbox.run(&["host", "set", "a.example", "--site", "site.json"]);
        assert_eq!(ran.code, Some(2), "{}", ran.err);
        assert!(ran.err.contains(expected), "{}", ran.err);
    }
    sandbox.write("site.json", &" ".repeat(1 << 20));
    let error = sandbox.fails(&["host", "set", "a.example", "--site", "site.json"]);
    assert!(
        error.contains("site.json has more than the 262144 bytes"),
        "{error}"
    );
    sandbox.fails(&["host", "set", "a.example", "--site", "missing.json"]);
    assert!(!sandbox.path("hosts.db").exists(), "nothing was created");
}

#[test]
fn an_upstream_that_is_not_allowed_is_refused_and_listed() {
    let sandbox = Sandbox::new();
    let refused = |url: &str| {
        let error = sandbox.fails(&["host", "set", "a.example", "--upstream", url]);
        assert!(
            error.contains("outside of the networks and sockets"),
            "{url}: {error}"
        );
    };
    refused("http://127.0.0.1:3000");
    refused("unix:/run/a.sock");
    sandbox.allow(&["0.0.0.0/0"]);
    refused("http://169.254.169.254");
    refused("http://[::ffff:169.254.169.254]");
    sandbox.ok(&[
        "host",
        "set",
        "a.example",
        "--upstream",
        "http://127.0.0.1:3000",
    ]);
    assert!(!sandbox.ok(&["check"]).contains("503"));
    sandbox.allow(&["10.0.0.0/8"]);
    let listed = sandbox.ok(&["check"]);
    assert!(listed.contains("1 hosts are answered with 503"), "{listed}");
    assert!(
        listed.contains("a.example: upstream 127.0.0.1:3000: "),
        "{listed}"
    );
}

#[test]
fn a_document_that_can_not_be_read_is_listed() {
    let sandbox = Sandbox::new();
    for name in ["a.example", "b.example", "c.example"] {
        sandbox.ok(&["host", "set", name, "--status", "404"]);
    }
    let store = rusqlite::Connection::open(sandbox.path("hosts.db")).expect("a store");
    for (name, format, document) in [
        ("a.example", 7, r#"{"status": 404}"#),
        ("b.example", 2, r#"{"status": 404, "rate": {"client": -1}}"#),
    ] {
        let changed = store.execute(
            "UPDATE hosts SET site_format = ?1, site = ?2 WHERE pattern = ?3",
            (format, document, name),
        );
        assert_eq!(changed, Ok(1));
    }
    let listed = sandbox.ok(&["check"]);
    assert!(listed.contains("2 hosts are not served"), "{listed}");
    assert!(
        listed.contains("a.example: the site has format 7"),
        "{listed}"
    );
    assert!(
        listed.contains("b.example: `rate.client`: -1 is out of range"),
        "{listed}"
    );
}
