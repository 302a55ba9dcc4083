//! Tests which privileges a server keeps.

use std::fs;
use std::os::unix::fs::chown;
use std::process::Command;

use rustix::process::geteuid;

use crate::sandbox::{Sandbox, Server, binary, needs};

/// Returns this line of each thread's status, with the thread's name.
fn statuses(server: &Server, line: &str) -> Vec<(String, String)> {
    let tasks = fs::read_dir(format!("/proc/{}/task", server.pid())).expect("it runs");
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
    for (thread, value) in statuses(&server, "NoNewPrivs:") {
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
    sandbox.import(&["a.example"]);
    let config = fs::read_to_string(sandbox.path("sekisho.toml")).expect("ours");
    let config = config.replacen("127.0.0.1:0", "127.83.1.9:443", 1);
    sandbox.write("sekisho.toml", &config);
    let entries = fs::read_dir(sandbox.root()).expect("ours");
    let entries = entries.map(|entry| entry.expect("ours").path());
    for path in entries.chain([sandbox.root().to_owned()]) {
        chown(path, Some(NOBODY), Some(NOBODY)).expect("ours");
    }
    let mut command = Command::new("setpriv");
    command
        .args([
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            "--inh-caps=+net_bind_service,+chown",
            "--ambient-caps=+net_bind_service,+chown",
        ])
        .arg(binary())
        .args(["serve", "--log", "json"])
        .current_dir(sandbox.root())
        .env_remove("SEKISHO_LOG");
    let server = Server::start(command);
    assert!(server.fetch("a.example").is_ok());
    let bind_only = format!("{:016x}", 1 << 10);
    for line in ["CapPrm:", "CapEff:", "CapInh:", "CapAmb:"] {
        for (thread, value) in statuses(&server, line) {
            let serves = thread == "sekisho" || thread.starts_with("worker");
            let allowed = value == NONE || !serves && value == bind_only;
            assert!(allowed, "{thread}: {line} {value}");
        }
    }
    server.stop();
}

/// User `nobody`.
const NOBODY: u32 = 65534;
const NONE: &str = "0000000000000000";
