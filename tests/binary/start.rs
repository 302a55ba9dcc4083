//! Tests `check` and the start of `serve`.

use std::fs::Permissions;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use sekisho_testkit::Key;

use crate::sandbox::{Sandbox, Server, binary, until};

#[test]
fn check_says_that_all_is_well() {
    let sandbox = Sandbox::new();
    sandbox.import(&["a.example"]);
    let out = sandbox.ok(&["check"]);
    assert!(out.contains("hosts.db"), "{out}");
}

#[test]
fn the_first_line_says_what_is_served_from_where() {
    let sandbox = Sandbox::new();
    sandbox.import(&["a.example"]);
    sandbox.configure("[cache]\nmemory = \"96MiB\"\n");
    let server = sandbox.serve();
    let log = server.log();
    let line = log.lines().find(|line| line.contains("\"serving\""));
    let line: serde_json::Value = serde_json::from_str(line.expect("a line")).expect("JSON");
    let fields = &line["fields"];
    assert_eq!(fields["cache_memory"], "96MiB");
    for (key, file) in [("store", "hosts.db"), ("config", "sekisho.toml")] {
        let shown = fields[key].as_str().expect(key);
        assert!(shown.ends_with(file), "{key}: {shown}");
    }
    let millis = fields["start_up_ms"].to_string();
    let (_, decimals) = millis.split_once('.').expect("a decimal");
    assert_eq!(decimals.len(), 1, "{millis}");
    server.stop();
}

#[test]
fn each_handshake_has_a_line_at_debug() {
    let sandbox = Sandbox::new();
    sandbox.import(&["a.example"]);
    let mut command = sandbox.command(&["serve", "--log", "json"]);
    command.env("SEKISHO_LOG", "info,sekisho_server=debug");
    let server = Server::start(command);
    let line = |name: &str, result: &str| {
        let log = server.log();
        let mut lines = log.lines().filter(|line| line.contains("\"handshake\""));
        let is_wanted =
            |line: &&str| line.contains(&format!("\"name\":\"{name}\"")) && line.contains(result);
        lines.find(is_wanted).map(str::to_owned)
    };
    assert!(server.fetch("a.example").is_ok());
    assert!(server.fetch("a.example").is_ok());
    assert!(server.refusal("no.example").contains("UnrecognisedName"));
    for (name, result, lookup) in [
        ("a.example", "full", "loaded"),
        ("no.example", "absent", "absent"),
    ] {
        until(name, Duration::from_secs(20), || {
            line(name, result).is_some()
        });
        let line = line(name, result).expect("it was just found");
        for key in ["\"peer\":\"127.0.0.1:", "\"elapsed_us\":", lookup] {
            assert!(line.contains(key), "{key}: {line}");
        }
    }
    server.stop();
}

#[test]
fn an_address_that_is_taken_is_named() {
    let sandbox = Sandbox::new();
    sandbox.import(&["a.example"]);
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let config = std::fs::read_to_string(sandbox.path("sekisho.toml")).expect("a file");
    sandbox.write("sekisho.toml", &config.replacen("127.0.0.1:0", &address, 1));
    let error = sandbox.fails(&["serve"]);
    assert!(error.contains(&address), "{error}");
    sandbox.ok(&["check"]);
}

#[test]
fn plain_files_are_served_without_a_catalog() {
    let sandbox = Sandbox::new();
    let config = std::fs::read_to_string(sandbox.path("sekisho.toml")).expect("a file");
    let config = config.replace("sqlite:hosts.db", "files:live/{host}");
    let config = config.replace("[keys]\nmaster = \"file:master.key\"\n", "");
    sandbox.write("sekisho.toml", &config);
    let pair = crate::sandbox::ca().issue(&["a.example"], sekisho_testkit::Key::P256);
    sandbox.write("live/a.example/fullchain.pem", &pair.chain_pem());
    sandbox.write("live/a.example/privkey.pem", &pair.key_pem());
    sandbox.page("a.example", "page of a");
    sandbox.ok(&["check"]);
    sandbox.write("sekisho.toml", &config.replace("live/{host}", "no/{host}"));
    let check = sandbox.run(&["check"]);
    assert_eq!(check.code, Some(0), "{}", check.err);
    assert!(check.err.starts_with("warning: "), "{}", check.err);
    assert!(check.err.contains("--reachable"), "{}", check.err);
    let error = sandbox.fails(&["check", "--reachable"]);
    assert!(error.contains("/no"), "{error}");
    sandbox.write("sekisho.toml", &config);
    let server = sandbox.serve();
    assert!(server.shows("a.example", "page of a"));
    assert!(server.refusal("b.example").contains("UnrecognisedName"));
    let error = sandbox.fails(&["host", "list"]);
    assert!(error.contains("files"), "{error}");
    server.stop();
}

#[test]
fn check_reads_the_admin_token() {
    let sandbox = Sandbox::new();
    sandbox.import(&["a.example"]);
    let config = std::fs::read_to_string(sandbox.path("sekisho.toml")).expect("a file");
    let with_token = "[listen]\nadmin_token = \"file:token\"";
    sandbox.write("sekisho.toml", &config.replace("[listen]", with_token));
    let error = sandbox.fails(&["check"]);
    assert!(
        error.contains("admin_token") && error.contains("/token: "),
        "{error}"
    );
    let error = sandbox.fails(&["serve"]);
    assert!(error.contains("/token: "), "{error}");
    sandbox.write_private("token", "short");
    let error = sandbox.fails(&["check"]);
    assert!(error.contains("16 to 512 characters"), "{error}");
    sandbox.write_private("token", "0123456789abcdef0123456789abcdef");
    sandbox.ok(&["check"]);
}

#[test]
fn check_reads_the_ticket_keys_of_a_plain_store() {
    let sandbox = Sandbox::new();
    let config = std::fs::read_to_string(sandbox.path("sekisho.toml")).expect("a file");
    let config = config.replace("sqlite:hosts.db", "files:live/{host}");
    let config = format!("{config}[tickets]\nkey = \"file:tickets.key\"\n");
    sandbox.write("sekisho.toml", &config);
    sandbox.write("live/README", "where the pairs will be");
    let error = sandbox.fails(&["check"]);
    assert!(error.contains("tickets.key can't be read"), "{error}");
    sandbox.write("tickets.key", "too short");
    let key = sandbox.path("tickets.key");
    std::fs::set_permissions(&key, Permissions::from_mode(0o644)).expect("ours");
    let error = sandbox.fails(&["check"]);
    assert!(error.contains("others may read it (mode 644)"), "{error}");
    std::fs::set_permissions(&key, Permissions::from_mode(0o600)).expect("ours");
    let error = sandbox.fails(&["check"]);
    assert!(error.contains("must have 48 or 80 bytes"), "{error}");
    sandbox.write("tickets.key", &"k".repeat(80));
    sandbox.ok(&["check"]);
}

#[test]
fn a_limit_of_files_below_the_connections_is_told() {
    let sandbox = Sandbox::new();
    sandbox.import(&["a.example"]);
    for (connections, warned) in [(20_000, true), (16, false)] {
        sandbox.configure(&format!(
            "[server]\nworkers = 1\nconnections = {connections}\n"
        ));
        let mut command = Command::new("sh");
        command
            .args(["-c", "ulimit -n 10000 && exec \"$0\" serve --log json"])
            .arg(binary())
            .current_dir(sandbox.root());
        let server = Server::start(command);
        let log = server.log();
        assert_eq!(log.contains("LimitNOFILE="), warned, "{log}");
        server.stop();
    }
}

#[test]
fn signals_are_caught_before_the_server_is_announced() {
    const SIGTERM: u32 = 15;
    let sandbox = Sandbox::new();
    sandbox.import(&["a.example"]);
    // 16 connections fit any limit of files: no warning comes before the first
    // line.
    sandbox.configure("[server]\nconnections = 16\n");
    // A full log pipe blocks the server at its first line.
    let (mut log, mut full) = std::io::pipe().expect("a pipe");
    full.write_all(&vec![b'\n'; PIPE]).expect("it has room");
    let mut child = sandbox
        .command(&["serve"])
        .stderr(full)
        .spawn()
        .expect("the binary runs");
    let status = format!("/proc/{}/status", child.id());
    until("SIGTERM is caught", Duration::from_secs(20), || {
        let status = std::fs::read_to_string(&status).expect("it runs");
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let caught = u64::from_str_radix(caught.expect("a mask").trim(), 16).expect("a mask");
        caught & (1 << (SIGTERM - 1)) != 0
    });
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    kill_process(pid.expect("a child has an id"), Signal::TERM).expect("it runs");
    let mut said = String::new();
    log.read_to_string(&mut said).expect("a log");
    assert!(said.contains("serving"), "{said}");
    let ended = child.wait().expect("it ends");
    assert!(ended.success(), "{ended}");
}

#[test]
fn the_log_level_is_what_the_environment_says() {
    let sandbox = Sandbox::new();
    sandbox.import(&["a.example"]);
    let mut command = sandbox.command(&["serve", "--log", "json"]);
    command.env("SEKISHO_LOG", "nonsense=nonsense");
    let ran = crate::sandbox::Ran::of(&command.output().expect("the binary runs"));
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("SEKISHO_LOG"), "{}", ran.err);
}

/// Bytes that a pipe holds on Linux.
const PIPE: usize = 64 * 1024;

/// Operators may set this variable on Zen 3 (docs/operating.md); others take it, too.
#[test]
fn a_server_without_adx_signs_with_keys_of_both_kinds() {
    let sandbox = Sandbox::new();
    sandbox.import(&["a.example"]);
    sandbox.import_type(&["b.example"], Key::Rsa2048);
    let mut command = sandbox.command(&["serve", "--log", "json"]);
    command.env("OPENSSL_ia32cap", "~0x0:~0x80000");
    let server = Server::start(command);
    for name in ["a.example", "b.example"] {
        assert!(server.fetch(name).is_ok(), "{name}");
    }
    server.stop();
}
