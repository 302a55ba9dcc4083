//! Tests `sekisho host`.

use serde_json::json;

use crate::sandbox::Sandbox;

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
