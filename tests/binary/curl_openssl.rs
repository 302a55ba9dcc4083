//! Tests curl and OpenSSL as clients.

use std::net::SocketAddr;
use std::process::{Command, Stdio};

use sekisho_testkit::Key;

use crate::sandbox::{Ran, Sandbox, ca};

#[test]
fn curl_gets_each_hosts_page() {
    let sandbox = Sandbox::new();
    sandbox.write("ca.pem", &ca().root_pem());
    let hosts = ["a.example", "b.example", "x.b.example"];
    for host in hosts {
        sandbox.page(host, &format!("page of {host}"));
    }
    sandbox.import(&["a.example"]);
    sandbox.import_type(&["b.example", "*.b.example"], Key::Rsa2048);
    let server = sandbox.serve();
    for host in hosts {
        for version in ["--http1.1", "--http2"] {
            let ran = curl(&sandbox, server.https, host, &[version]);
            assert_eq!(ran.code, Some(0), "{}", ran.err);
            assert_eq!(ran.out, format!("page of {host}"));
        }
    }
    let ran = curl(&sandbox, server.https, "c.example", &[]);
    assert_eq!(ran.code, Some(35), "{}", ran.err);
}

#[test]
fn openssl_gets_the_certificate_that_is_stored() {
    let sandbox = Sandbox::new();
    sandbox.import(&["a.example"]);
    sandbox.import_type(&["*.b.example"], Key::Rsa2048);
    sandbox.import_type(&["c.example"], Key::Ed25519);
    let server = sandbox.serve();
    for (host, stored) in [
        ("a.example", "a.example"),
        ("www.b.example", "*.b.example"),
        ("c.example", "c.example"),
    ] {
        let shown = sandbox.json(&["cert", "show", stored, "--json"]);
        for version in ["-tls1_2", "-tls1_3"] {
            assert_eq!(
                shown[0]["sha256"],
                fingerprint(server.https, host, &[version])
            );
        }
    }
}

#[test]
fn unknown_and_missing_names_get_their_alerts() {
    let sandbox = Sandbox::new();
    sandbox.import(&["a.example"]);
    let server = sandbox.serve();
    for (args, alert) in [
        (&["-servername", "b.example"][..], "unrecognized name"),
        (&["-servername", "a.a.example"], "unrecognized name"),
        (&["-noservername"], "alert number 109"),
        (&["-noservername", "-tls1_2"], "unrecognized name"),
    ] {
        let ran = openssl(server.https, args);
        assert_ne!(ran.code, Some(0));
        assert!(ran.err.contains(alert), "{args:?}: {}", ran.err);
    }
}

#[test]
fn a_default_is_sent_without_a_name() {
    let sandbox = Sandbox::new();
    sandbox.configure("[default]\n\"*\" = \"a.example\"\n");
    sandbox.import(&["a.example"]);
    let server = sandbox.serve();
    let shown = sandbox.json(&["cert", "show", "a.example", "--json"]);
    let ran = openssl(server.https, &["-noservername"]);
    assert_eq!(shown[0]["sha256"], sha256(&ran).expect("a certificate"));
    let ran = openssl(server.https, &["-servername", "b.example"]);
    assert!(
        ran.err.contains("unrecognized name"),
        "never for an unknown name: {}",
        ran.err
    );
}

#[test]
fn a_session_is_resumed_over_a_restart() {
    let sandbox = Sandbox::new();
    sandbox.import(&["a.example"]);
    let session = sandbox.path("session.pem");
    let session = session.to_str().expect("UTF-8");
    for version in ["-tls1_2", "-tls1_3"] {
        let server = sandbox.serve();
        let named = ["-servername", "a.example", version];
        let first = openssl(
            server.https,
            &[&named[..], &["-sess_out", session]].concat(),
        );
        assert!(first.out.contains("New, TLSv1"), "{}", first.out);
        server.stop();
        let server = sandbox.serve();
        let again = openssl(server.https, &[&named[..], &["-sess_in", session]].concat());
        assert!(
            again.out.contains("Reused, TLSv1"),
            "{version}: {}",
            again.out
        );
        let other = ["-servername", "b.example", version, "-sess_in", session];
        assert!(!openssl(server.https, &other).out.contains("Reused"));
        server.stop();
    }
}

pub(crate) fn curl(sandbox: &Sandbox, server: SocketAddr, host: &str, args: &[&str]) -> Ran {
    let output = Command::new("curl")
        .args(["-sS", "--max-time", "20", "--cacert", "ca.pem", "--resolve"])
        .arg(format!("{host}:{}:{}", server.port(), server.ip()))
        .args(args)
        .arg(format!("https://{host}:{}/", server.port()))
        .current_dir(sandbox.root())
        .output()
        .expect("curl is installed; see 'make deps'");
    Ran::of(&output)
}

/// Runs `openssl s_client`. It ends with the answer to a request, which comes
/// after the session tickets.
pub(crate) fn openssl(server: SocketAddr, args: &[&str]) -> Ran {
    let output = Command::new("openssl")
        .args(["s_client", "-connect", &server.to_string(), "-ign_eof"])
        .args(args)
        .stdin(request())
        .output()
        .expect("openssl is installed; see 'make deps'");
    Ran::of(&output)
}

/// Returns the SHA-256 of the certificate that a client gets for this name.
pub(crate) fn fingerprint(server: SocketAddr, host: &str, args: &[&str]) -> String {
    try_fingerprint(server, host, args).unwrap_or_else(|error| panic!("{error}"))
}

/// Returns the same, or what `openssl` says of a handshake that failed.
pub(crate) fn try_fingerprint(
    server: SocketAddr,
    host: &str,
    args: &[&str],
) -> Result<String, String> {
    let ran = openssl(server, &[&["-servername", host], args].concat());
    sha256(&ran).ok_or(ran.err)
}

/// Returns a request after whose answer the server closes the connection.
fn request() -> Stdio {
    let mut echo = Command::new("printf")
        .arg("GET / HTTP/1.0\\r\\n\\r\\n")
        .stdout(Stdio::piped())
        .spawn()
        .expect("printf is everywhere");
    let out = echo.stdout.take().expect("it is piped");
    echo.wait().expect("it ends");
    out.into()
}

/// Returns the SHA-256 of the certificate that `openssl s_client` printed, if it did.
fn sha256(ran: &Ran) -> Option<String> {
    use std::io::Write;
    let mut child = Command::new("openssl")
        .args(["x509", "-noout", "-fingerprint", "-sha256"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("openssl is installed; see 'make deps'");
    let mut stdin = child.stdin.take().expect("it is piped");
    stdin.write_all(ran.out.as_bytes()).expect("it reads");
    drop(stdin);
    let printed = Ran::of(&child.wait_with_output().expect("it ends"));
    let hexadecimal = printed.out.split('=').nth(1)?;
    Some(hexadecimal.trim().replace(':', "").to_lowercase())
}
