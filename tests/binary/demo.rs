//! Tests `sekisho demo`.

use std::net::TcpListener;

use crate::sandbox::Sandbox;

#[test]
fn demo_verifies_its_server_and_can_be_run_again() {
    let sandbox = Sandbox::new();
    let demo = |hosts: &str| sandbox.demo(&["--hosts", hosts, "--dir", "made"]);
    let ran = demo("20");
    assert_eq!(ran.code, Some(0), "{}{}", ran.out, ran.err);
    assert!(
        ran.out
            .contains("verified https://host-1.example/: HTTP/1.1 200"),
        "{}",
        ran.out
    );
    assert!(
        ran.out.contains("refused https://unknown.example/"),
        "{}",
        ran.out
    );
    let ca = std::fs::read(sandbox.path("made/ca.pem")).expect("a file");
    let ran = demo("5");
    assert_eq!(ran.code, Some(0), "{}{}", ran.out, ran.err);
    assert_eq!(
        std::fs::read(sandbox.path("made/ca.pem")).expect("a file"),
        ca
    );
    sandbox.ok(&["check", "--config", "made/sekisho.toml"]);
    let hosts = sandbox.ok(&["host", "list", "--config", "made/sekisho.toml"]);
    assert_eq!(hosts.lines().count(), 20, "those of the first time stay");
}

#[test]
fn a_folder_of_somebody_elses_is_left_alone() {
    let sandbox = Sandbox::new();
    sandbox.write("mine/precious", "text");
    let error = sandbox.fails(&["demo", "--dir", "mine"]);
    assert!(error.contains("--dir"), "{error}");
    sandbox.write("configured/sekisho.toml", "[listen]\n");
    let error = sandbox.fails(&["demo", "--dir", "configured"]);
    assert!(error.contains("--dir"), "{error}");
    assert_eq!(
        std::fs::read_dir(sandbox.path("mine"))
            .expect("a folder")
            .count(),
        1
    );
}

#[test]
fn a_port_that_is_taken_is_told() {
    let sandbox = Sandbox::new();
    // The port is taken, by this process or by another one.
    let _taken = TcpListener::bind("127.0.0.1:8443");
    let ran = sandbox.demo(&["--hosts", "1", "--dir", "made"]);
    assert_eq!(ran.code, Some(0), "{}{}", ran.out, ran.err);
    assert!(ran.err.contains("127.0.0.1:8443 is taken"), "{}", ran.err);
}
