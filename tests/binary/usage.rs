//! Tests wrong usage, help, and readers that close standard output.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use crate::sandbox::{Sandbox, Server};

#[test]
fn a_command_names_the_configuration_that_it_found() {
    let sandbox = Sandbox::new();
    sandbox.ok(&["host", "set", "a.example"]);
    let errors = |args: &[&str]| {
        let output = sandbox.command(args).output().expect("it runs");
        assert!(output.status.success(), "{args:?}");
        String::from_utf8(output.stderr).expect("UTF-8")
    };
    let using = format!("using {}\n", sandbox.path("sekisho.toml").display());
    assert_eq!(errors(&["host", "list"]), using);
    let named = ["host", "list", "--config", "sekisho.toml"];
    assert_eq!(errors(&named), "");

    let password = "sqlite:hosts.db\"\n[cache]\nredis = \"redis://u:hush@127.0.0.1:1";
    let config = fs::read_to_string(sandbox.path("sekisho.toml")).expect("ours");
    sandbox.write("sekisho.toml", &config.replace("sqlite:hosts.db", password));
    let mode = |mode| {
        let mode = fs::Permissions::from_mode(mode);
        fs::set_permissions(sandbox.path("sekisho.toml"), mode).expect("ours");
    };
    for (bits, warning) in [
        (0o640, None),
        (
            0o644,
            Some("it holds a password, and everybody may read it (mode 644)"),
        ),
        (0o660, Some("it can be written by others (mode 660)")),
    ] {
        mode(bits);
        let text = errors(&named);
        assert_eq!(text.contains("warning: "), warning.is_some(), "{text}");
        assert!(text.contains(warning.unwrap_or_default()), "{text}");
        assert!(!text.contains("hush"), "{text}");
    }
    // The server writes the same warning to its log.
    let server =
        Server::start(sandbox.command(&["serve", "--config", "sekisho.toml", "--log", "json"]));
    assert!(server.log().contains("the configuration is exposed"));
}

#[test]
fn wrong_usage_exits_with_2_and_says_what() {
    let sandbox = Sandbox::new();
    for (args, says) in [
        (&["frobnicate"][..], "frobnicate"),
        (&["host", "set"], "<NAME>"),
        (&["host", "set", "a..b"], "a label between two dots"),
        (
            &["host", "set", "127.0.0.1"],
            "an IP address is no host name",
        ),
        (&["host", "set", "a.example:443"], "':'"),
        (&["host", "set", "../etc"], "a label"),
        (&["host", "set", &"a".repeat(254)], "254"),
        (
            &["host", "set", "a.example", "--min-tls", "1.1"],
            "there are 1.2 and 1.3",
        ),
        (
            &[
                "host",
                "set",
                "a.example",
                "--root",
                "/a",
                "--redirect",
                "https://b.example",
            ],
            "cannot be used with",
        ),
        (
            &["host", "set", "a.example", "--upstream", "127.0.0.1:1"],
            "`upstream`: \"127.0.0.1:1\" is no URL of a server",
        ),
        (
            &[
                "host",
                "set",
                "a.example",
                "--site",
                "-",
                "--client-ca",
                "-",
            ],
            "standard input holds one file",
        ),
        (
            &["host", "set", "a.example", "--redirect", "nonsense"],
            "redirect",
        ),
        (
            &["host", "set", "a.example", "--cert", "cert:12"],
            "no credential id",
        ),
        (&["cert", "import"], "--chain <FILE>"),
        (&["cert", "import", "--chain", "a.crt"], "--key <FILE>"),
        (
            &["cert", "import", "--dir", ".", "--host", "a.example"],
            "cannot be used with",
        ),
        (
            &["cert", "import", "--dir", ".", "--layout", "heap"],
            "heap",
        ),
        (
            &["cert", "remove", "a.example", "--type", "dsa"],
            "there are ecdsa, ed25519, rsa",
        ),
    ] {
        let ran = sandbox.run(args);
        assert_eq!(ran.code, Some(2), "{args:?}: {}", ran.err);
        assert!(ran.err.contains("error: "), "{args:?}: {}", ran.err);
        assert!(ran.err.contains(says), "{args:?}: {}", ran.err);
        assert!(
            !sandbox.path("hosts.db").exists(),
            "{args:?} created a store"
        );
    }
}

#[test]
fn every_command_helps() {
    let sandbox = Sandbox::new();
    for args in [
        "init",
        "serve",
        "check",
        "config show",
        "host set",
        "host show",
        "host list",
        "host remove",
        "cert import",
        "cert show",
        "cert list",
        "cert remove",
        "cert export",
        "acme account show",
        "acme account rotate",
        "acme account deactivate",
        "key new",
        "key rotate",
        "key list",
        "key remove",
        "store copy",
        "store backup",
        "demo",
        "completions",
    ] {
        let args: Vec<_> = args.split(' ').chain(["--help"]).collect();
        let help = sandbox.ok(&args);
        assert!(
            help.contains("Examples:\n  ") || help.contains("Example:\n  "),
            "{help}"
        );
        assert!(help.contains("--config"), "{help}");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let sandbox = Sandbox::new();
    // 2,000 hosts: more than a pipe holds.
    assert_eq!(
        sandbox.demo(&["--hosts", "2000", "--dir", "many"]).code,
        Some(0)
    );
    let mut child = sandbox
        .command(&["host", "list", "--config", "many/sekisho.toml"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let mut first = String::new();
    let out = child.stdout.take().expect("it is piped");
    BufReader::with_capacity(16, out)
        .read_line(&mut first)
        .expect("a line");
    assert!(first.starts_with("host-1.example"), "{first}");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn completions_know_the_commands() {
    let sandbox = Sandbox::new();
    assert!(sandbox.ok(&["completions", "bash"]).contains("import"));
    assert_eq!(sandbox.run(&["completions", "dos"]).code, Some(2));
}

#[test]
fn a_configuration_that_is_wrong_is_named_with_its_line() {
    let sandbox = Sandbox::new();
    sandbox.configure("[cache]\nmemroy = \"1MiB\"\n");
    for args in [
        &["check"][..],
        &["serve"],
        &["host", "list"],
        &["cert", "list"],
    ] {
        let error = sandbox.fails(args);
        assert!(
            error.contains("memroy") && error.contains("sekisho.toml"),
            "{error}"
        );
        assert!(error.contains(":14:"), "the line is missing: {error}");
    }
    let error = sandbox.fails(&["check", "--config", "nowhere.toml"]);
    assert!(error.contains("nowhere.toml"), "{error}");
    std::fs::remove_file(sandbox.path("sekisho.toml")).expect("a file");
    let error = sandbox.fails(&["host", "list"]);
    assert!(error.contains("/etc/sekisho/sekisho.toml"), "{error}");
    let error = sandbox.fails(&["serve"]);
    for command in ["sekisho init", "sekisho demo", "--config FILE"] {
        assert!(error.contains(command), "{command}: {error}");
    }
}
