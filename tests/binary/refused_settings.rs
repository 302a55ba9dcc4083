//! Tests that settings which a CA refuses are named with their line.

use std::fs;

use sekisho_testkit::services::PebbleOptions;

use crate::first_access::Fixture;
use crate::sandbox::{Sandbox, ca};

#[test]
fn an_external_account_and_a_root_that_do_not_fit_are_named_with_their_line() {
    let key = "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W";
    let options = PebbleOptions {
        external_account: Some(("kid-1".into(), key.into())),
        ..PebbleOptions::default()
    };
    let fixture = Fixture::with("sqlite:hosts.db", options);
    let sandbox = &fixture.sandbox;
    sandbox.write_private("eab", &key.to_lowercase());
    sandbox.write("other.pem", &ca().root_pem());
    let acme = fixture.acme("");
    let account = "eab_id = \"kid-1\"\neab_key = \"file:eab\"\n";
    let root = fixture.pebble.root().display().to_string();
    for (text, at, expected) in [
        (
            acme.clone(),
            "[acme.ca.pebble]",
            "ca.pebble.eab_id: the CA asks for an external account",
        ),
        (
            format!("{acme}{account}"),
            "eab_key = ",
            "ca.pebble.eab_key: the CA refuses this external account",
        ),
        (
            format!("{acme}{account}").replace(&root, "other.pem"),
            "ca = \"other.pem\"",
            "ca.pebble.ca: 127.0.0.1",
        ),
    ] {
        fixture.configure(&text);
        let ran = sandbox.run(&["cert", "issue", "a.example"]);
        assert_eq!(ran.code, Some(1), "{}", ran.err);
        let hint = format!("{}: [acme] {expected}", line_of(sandbox, at));
        assert!(ran.err.contains(&hint), "{hint}: {}", ran.err);
        assert!(!ran.err.contains(&key.to_lowercase()), "{}", ran.err);
    }
    fixture.configure(&format!("{acme}{account}"));
    sandbox.write_private("eab", key);
    let _server = sandbox.serve();
    sandbox.ok(&["cert", "issue", "a.example"]);
}

/// Returns the hint's beginning for the line that begins so.
pub(crate) fn line_of(sandbox: &Sandbox, begin: &str) -> String {
    let file = sandbox.path("sekisho.toml");
    let text = fs::read_to_string(&file).expect("a file");
    let line = text.lines().position(|line| line.starts_with(begin));
    format!("hint: {}:{}", file.display(), line.expect("a line") + 1)
}
