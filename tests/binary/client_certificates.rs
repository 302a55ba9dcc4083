//! Tests `host set --client-ca` with curl and OpenSSL as clients.

use std::process::Stdio;

use rusqlite::Connection;
use sekisho_testkit::{Key, Pair, TestCa};
use serde_json::{Value, json};

use crate::curl_openssl::{curl, openssl};
use crate::sandbox::{SOON, Sandbox, Server, ca, until};

const SET: [&str; 5] = ["host", "set", "a.example", "--client-ca", "clients.pem"];

/// Makes a sandbox with a host, a file with the CA of its clients, and a certificate.
fn sandbox() -> (Sandbox, TestCa) {
    let sandbox = Sandbox::new();
    sandbox.write("ca.pem", &ca().root_pem());
    sandbox.page("a.example", "page of a");
    sandbox.import(&["a.example"]);
    let clients = TestCa::named("clients");
    sandbox.write("clients.pem", &clients.root_pem());
    client(&sandbox, "client", &issue(&clients));
    (sandbox, clients)
}

fn issue(ca: &TestCa) -> Pair {
    ca.issue(&["client.example"], Key::P256)
}

/// Writes the files of a client.
fn client(sandbox: &Sandbox, name: &str, pair: &Pair) {
    sandbox.write(&format!("{name}.pem"), &pair.chain_pem());
    sandbox.write(&format!("{name}.key"), &pair.key_pem());
}

fn shown(sandbox: &Sandbox) -> Value {
    sandbox.json(&["host", "show", "a.example", "--json"])["client_ca"].clone()
}

#[test]
fn host_show_names_the_certificates_of_the_client_ca() {
    let (sandbox, clients) = sandbox();
    assert_eq!(shown(&sandbox), json!(null));
    sandbox.ok(&SET);
    let certificates = shown(&sandbox);
    assert_eq!(certificates[0]["subject"], "CN=clients root");
    let sha256 = certificates[0]["sha256"].as_str().expect("a text");
    assert_eq!(sha256.len(), 64);
    let text = sandbox.ok(&["host", "show", "a.example"]);
    let line = format!("client ca CN=clients root, SHA-256 {sha256}");
    assert!(text.contains(&line), "{text}");
    // Other fields stay, and the CA stays with other fields.
    sandbox.ok(&["host", "set", "a.example", "--min-tls", "1.3"]);
    assert_eq!(shown(&sandbox), certificates);
    sandbox.write("both.pem", &(clients.root_pem() + &ca().root_pem()));
    let mut from_stdin = sandbox.command(&["host", "set", "a.example", "--client-ca", "-"]);
    let both = std::fs::File::open(sandbox.path("both.pem")).expect("a file");
    let status = from_stdin.stdin(both).stderr(Stdio::null()).status();
    assert!(status.expect("it runs").success());
    assert_eq!(shown(&sandbox).as_array().expect("an array").len(), 2);
    sandbox.ok(&["host", "set", "a.example", "--no-client-ca"]);
    assert_eq!(shown(&sandbox), json!(null));
    let host = sandbox.json(&["host", "show", "a.example", "--json"]);
    assert_eq!(host["min_tls"], "1.3");
}

#[test]
fn a_file_that_verifies_no_client_is_refused() {
    let (sandbox, _) = sandbox();
    sandbox.write("empty.pem", "");
    for (file, says) in [
        ("none.pem", "--client-ca none.pem: No such file"),
        ("empty.pem", "--client-ca empty.pem: holds no certificate"),
        ("client.key", "holds a private key"),
        (
            "import.crt",
            "neither an authority's (CA:TRUE) nor self-signed",
        ),
    ] {
        let error = sandbox.fails(&["host", "set", "a.example", "--client-ca", file]);
        assert!(error.contains(says), "{error}");
    }
    assert_eq!(shown(&sandbox), json!(null));
}

/// Other programs may write a store, without the checks of `host set`.
#[test]
fn a_client_ca_that_verifies_nobody_is_listed_and_not_served() {
    let (sandbox, _) = sandbox();
    sandbox.ok(&SET);
    let listed = || {
        sandbox
            .ok(&["check"])
            .contains("client CA that can't be used")
    };
    assert!(!listed());
    let raw = Connection::open(sandbox.path("hosts.db")).expect("a store");
    let broken = "1.2 client-ca\n-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let changed = raw.execute("UPDATE hosts SET tls = ?1", [broken]);
    assert_eq!(changed, Ok(1));
    drop(raw);
    assert!(listed());
    let server = sandbox.serve();
    let ran = visit(&sandbox, &server, &["-tls1_3"]);
    assert!(ran.contains("internal error"), "{ran}");
    server.stop();
}

#[test]
fn curl_needs_a_certificate_of_the_client_ca() {
    let (sandbox, _) = sandbox();
    client(&sandbox, "stranger", &issue(&TestCa::named("strangers")));
    let server = sandbox.serve();
    let fetch = |args: &[&str]| curl(&sandbox, server.https, "a.example", args);
    assert_eq!(fetch(&[]).out, "page of a");
    sandbox.ok(&SET);
    until("a certificate is demanded", SOON, || {
        fetch(&[]).code != Some(0)
    });
    for version in ["--tlsv1.3", "--tls-max=1.2"] {
        for protocol in ["--http1.1", "--http2"] {
            let version = version.replace('=', " ");
            let version: Vec<_> = version.split(' ').collect();
            let with = |name: &str| {
                let (cert, key) = (format!("{name}.pem"), format!("{name}.key"));
                let args = ["--cert", &cert, "--key", &key, protocol];
                fetch(&[&version[..], &args].concat())
            };
            let ran = with("client");
            assert_eq!(ran.out, "page of a", "{version:?}: {}", ran.err);
            let ran = with("stranger");
            assert_ne!(ran.code, Some(0));
            assert!(ran.err.contains("unknown ca"), "{}", ran.err);
        }
    }
    sandbox.ok(&["host", "set", "a.example", "--no-client-ca"]);
    until("no certificate is demanded", SOON, || {
        fetch(&[]).code == Some(0)
    });
    server.stop();
}

#[test]
fn a_client_ca_may_be_optional() {
    let (sandbox, _) = sandbox();
    client(&sandbox, "stranger", &issue(&TestCa::named("strangers")));
    let optional = ["host", "set", "a.example", "--client-ca-optional"];
    let error = sandbox.fails(&optional);
    assert!(error.contains("the host has no client CA"), "{error}");
    sandbox.ok(&[&SET[..], &["--client-ca-optional"]].concat());
    let is_optional = || {
        let shown = sandbox.json(&["host", "show", "a.example", "--json"]);
        shown["client_ca_optional"] == true
    };
    assert!(is_optional());
    let text = sandbox.ok(&["host", "show", "a.example"]);
    assert!(text.contains(" (optional)\n"), "{text}");
    let server = sandbox.serve();
    let fetch = |args: &[&str]| curl(&sandbox, server.https, "a.example", args);
    assert_eq!(fetch(&[]).out, "page of a");
    let own = ["--cert", "client.pem", "--key", "client.key"];
    assert_eq!(fetch(&own).out, "page of a");
    let ran = fetch(&["--cert", "stranger.pem", "--key", "stranger.key"]);
    assert!(ran.err.contains("unknown ca"), "{}", ran.err);
    // A CA that is set without the option is required.
    sandbox.ok(&SET);
    assert!(!is_optional());
    until("a certificate is demanded", SOON, || {
        fetch(&[]).code != Some(0)
    });
    sandbox.ok(&optional);
    until("no certificate is demanded", SOON, || {
        fetch(&[]).code == Some(0)
    });
    sandbox.ok(&["host", "set", "a.example", "--no-client-ca"]);
    assert_eq!(shown(&sandbox), json!(null));
    assert!(!is_optional());
    server.stop();
}

#[test]
fn openssl_resumes_only_under_the_same_client_ca() {
    let (sandbox, _) = sandbox();
    sandbox.ok(&SET);
    let stranger = TestCa::named("strangers");
    client(&sandbox, "stranger", &issue(&stranger));
    sandbox.write("strangers.pem", &stranger.root_pem());
    for version in ["-tls1_2", "-tls1_3"] {
        sandbox.ok(&SET);
        let server = sandbox.serve();
        let ran = visit(&sandbox, &server, &[version]);
        assert!(ran.contains("alert number 116"), "{ran}");
        let own = [
            version,
            "-cert",
            "client.pem",
            "-cert_chain",
            "client.pem",
            "-key",
            "client.key",
        ];
        let ran = visit(&sandbox, &server, &[&own[..], &["-sess_out", "s"]].concat());
        assert!(
            ran.contains("New, TLSv1") && ran.contains("HTTP/1.0 "),
            "{ran}"
        );
        // The session holds the certificate: it takes the place of one.
        let resumed = [&own[..], &["-sess_in", "s"]].concat();
        let ran = visit(&sandbox, &server, &resumed);
        assert!(ran.contains("Reused, TLSv1"), "{ran}");
        let change = ["host", "set", "a.example", "--client-ca", "strangers.pem"];
        sandbox.ok(&change);
        until("the session is refused", SOON, || {
            let ran = visit(&sandbox, &server, &resumed);
            ran.contains("unknown ca") && !ran.contains("Reused, TLSv1")
        });
        let new = [
            version,
            "-cert",
            "stranger.pem",
            "-cert_chain",
            "stranger.pem",
            "-key",
            "stranger.key",
        ];
        let ran = visit(&sandbox, &server, &new);
        assert!(ran.contains("HTTP/1.0 "), "{ran}");
        server.stop();
    }
}

/// Returns all that `openssl s_client` prints.
fn visit(sandbox: &Sandbox, server: &Server, args: &[&str]) -> String {
    let files = ["-cert", "-cert_chain", "-key", "-sess_out", "-sess_in"];
    let mut all = vec!["-servername".to_owned(), "a.example".to_owned()];
    for (at, arg) in args.iter().enumerate() {
        let is_file = at > 0 && files.contains(&args[at - 1]);
        all.push(match is_file {
            true => sandbox.path(arg).display().to_string(),
            false => (*arg).to_owned(),
        });
    }
    let all: Vec<_> = all.iter().map(String::as_str).collect();
    let ran = openssl(server.https, &all);
    ran.out + &ran.err
}
