//! Tests which privileges a server keeps.

use std::fs;
use std::net::TcpStream;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

use rustix::process::{Signal, geteuid};
use serde_json::Value;

use crate::sandbox::{SOON, Sandbox, Server, binary, needs, until};

/// Returns this line of each thread's status, with the thread's name.
fn statuses(pid: u32, line: &str) -> Vec<(String, String)> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("it runs");
    tasks
        .map(|task| {
            let task = task.expect("a thread").path();
            let read = |file: &str| fs::read_to_string(task.join(file)).expect("it lives");
            let status = read("status");
            let value = status.lines().find_map(|found| found.strip_prefix(line));
            let value = value.expect("each kernel has it").trim().to_owned();
            (read("comm").trim().to_owned(), value)
        })
        // The allocator starts its thread before `main` drops any privilege.
        .filter(|(thread, _)| thread != "jemalloc_bg_thd")
        .collect()
}

#[test]
fn no_program_that_is_started_gains_rights() {
    let sandbox = Sandbox::new();
    sandbox.import(&["a.example"]);
    let server = sandbox.serve();
    for (thread, value) in statuses(server.pid(), "NoNewPrivs:") {
        assert_eq!(value, "1", "{thread}");
    }
    let warned = server.log().contains("running as root");
    assert_eq!(warned, geteuid().is_root());
}

#[test]
fn low_ports_are_bound_and_no_capability_is_left() {
    if !needs("root, to pass on a capability", geteuid().is_root()) {
        return;
    }
    let sandbox = Sandbox::new();
    prepare(&sandbox, "127.83.1.9:443");
    let command = as_nobody(&sandbox, binary().as_ref(), "+net_bind_service,+chown");
    let server = Server::start(command);
    assert!(server.fetch("a.example").is_ok());
    assert_only_idle_threads_may_bind(server.pid());
    let newest = hand_over(&sandbox, &server, "127.83.1.9");
    assert_only_idle_threads_may_bind(newest);
    server.stop();
}

#[test]
fn a_right_of_the_programs_file_is_passed_on() {
    if !needs("root, to give a file a capability", geteuid().is_root()) {
        return;
    }
    let sandbox = Sandbox::new();
    let program = sandbox.path("sekisho");
    fs::copy(binary(), &program).expect("room for a copy");
    prepare(&sandbox, "127.83.1.10:443");
    // As of capabilities(7): version 2, effective, and the right to bind low ports.
    let mut right = [0_u8; 20];
    right[..8].copy_from_slice(&[1, 0, 0, 2, 0, 4, 0, 0]);
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(&program, "security.capability", &right, flags).expect("root may");
    let server = Server::start(as_nobody(&sandbox, &program, "-all"));
    assert!(server.fetch("a.example").is_ok());
    let newest = hand_over(&sandbox, &server, "127.83.1.10");
    assert_only_idle_threads_may_bind(newest);
    server.stop();
}

/// A first page that is not there, in most cases.
#[test]
fn a_page_that_the_server_s_user_may_not_read_is_told() {
    if !needs("root, to serve as another user", geteuid().is_root()) {
        return;
    }
    let sandbox = Sandbox::new();
    sandbox.page("a.example", "page");
    prepare(&sandbox, "127.0.0.1:0");
    let page = sandbox.path("www/a.example/index.html");
    fs::set_permissions(&page, fs::Permissions::from_mode(0o600)).expect("ours");
    let server = Server::start(as_nobody(&sandbox, binary().as_ref(), "-all"));
    let answer = server.fetch("a.example").expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
    let told = "file can't be read: answered with 403";
    until("the reason", SOON, || server.log().contains(told));
    assert!(
        server.log().contains("Permission denied"),
        "{}",
        server.log()
    );
    server.stop();
}

/// Imports a host, and gives the folder to `nobody`.
fn prepare(sandbox: &Sandbox, https: &str) {
    sandbox.import(&["a.example"]);
    let config = fs::read_to_string(sandbox.path("sekisho.toml")).expect("ours");
    let config = config.replacen("127.0.0.1:0", https, 1);
    sandbox.write("sekisho.toml", &config);
    let entries = fs::read_dir(sandbox.root()).expect("ours");
    let entries = entries.map(|entry| entry.expect("ours").path());
    for path in entries.chain([sandbox.root().to_owned()]) {
        chown(path, Some(NOBODY), Some(NOBODY)).expect("ours");
    }
}

/// Makes the command of a server of `nobody` with these capabilities.
fn as_nobody(sandbox: &Sandbox, program: &Path, capabilities: &str) -> Command {
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(format!("--inh-caps={capabilities}"))
        .arg(format!("--ambient-caps={capabilities}"))
        .arg(program)
        .args(["serve", "--log", "json"])
        .current_dir(sandbox.root())
        .env_remove("SEKISHO_LOG");
    command
}

/// Reloads with one more low port, and returns the new process.
fn hand_over(sandbox: &Sandbox, server: &Server, address: &str) -> u32 {
    let config = fs::read_to_string(sandbox.path("sekisho.toml")).expect("ours");
    let (before, after) = (
        format!("{address}:443\""),
        format!("{address}:443\", \"{address}:444\""),
    );
    sandbox.write("sekisho.toml", &config.replacen(&before, &after, 1));
    server.signal(Signal::HUP);
    until("a hand-over", SOON, || server.log().contains("handed over"));
    TcpStream::connect((address, 444)).expect("the new process listens");
    assert!(server.fetch("a.example").is_ok());
    let log = server.log();
    let line = log.lines().find(|line| line.contains("handed over"));
    let line: Value = serde_json::from_str(line.expect("a line")).expect("JSON");
    let pid = line["fields"]["pid"].as_u64().expect("a pid");
    u32::try_from(pid).expect("a pid")
}

/// Checks that no thread that clients reach may bind low ports.
fn assert_only_idle_threads_may_bind(pid: u32) {
    let bind_only = format!("{:016x}", 1 << 10);
    for line in ["CapPrm:", "CapEff:", "CapInh:", "CapAmb:"] {
        for (thread, value) in statuses(pid, line) {
            let serves = thread == "sekisho" || thread.starts_with("worker");
            let allowed = value == NONE || !serves && value == bind_only;
            assert!(allowed, "{thread}: {line} {value}");
        }
    }
    let launcher = statuses(pid, "CapAmb:");
    let launcher = launcher.iter().find(|(thread, _)| thread == "launcher");
    assert_eq!(launcher.expect("a thread").1, bind_only);
}

/// User `nobody`.
const NOBODY: u32 = 65534;
const NONE: &str = "0000000000000000";
