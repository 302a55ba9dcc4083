//! Tests reloads and upgrades: what they change, what they refuse, and what goes wrong in the
//! middle of one.

mod bursts;
mod connections;
mod kills;
mod orders;
mod programs;
mod refusals;
mod state;
mod stores;
mod uptime;
mod websockets;
mod workers;

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use sekisho_testkit::services::free_ports;

use crate::sandbox::{Ran, SOON, Sandbox, Server, binary, until};

/// Server whose configuration has a number, which a redirect tells.
pub(crate) struct Handed {
    server: Server,
    sandbox: Sandbox,
    ports: [u16; 2],
}

impl Handed {
    /// Starts generation 1 with further sections.
    pub(crate) fn start(more: &str) -> Self {
        Self::start_by(&[], more)
    }

    /// Starts generation 1 by a program that executes its arguments.
    fn start_by(by: &[&str], more: &str) -> Self {
        let (sandbox, ports) = (Sandbox::new(), free_ports());
        fs::create_dir(sandbox.path("bin")).expect("a folder");
        install(&sandbox.path(PROGRAM), binary().as_ref());
        sandbox.write("sekisho.toml", &text(ports, 1, "", more));
        if !more.contains("[store]") {
            sandbox.import(&[HOST]);
        }
        let program = sandbox.path(PROGRAM).into_os_string();
        let mut words = by.iter().map(OsString::from).chain([program]);
        let mut command = Command::new(words.next().expect("a program"));
        command
            .args(words)
            .args(["serve", "--log", "json"])
            .current_dir(sandbox.root())
            .env_remove("SEKISHO_LOG")
            .env_remove("NOTIFY_SOCKET")
            .stdin(Stdio::null());
        let server = Server::start(command);
        Self {
            server,
            sandbox,
            ports,
        }
    }

    /// Writes a configuration, which counts from the next hand-over on. `listen` is text of
    /// its section `[listen]`.
    fn write(&self, generation: u32, listen: &str, more: &str) {
        let text = text(self.ports, generation, listen, more);
        self.sandbox.write("sekisho.toml", &text);
    }

    /// Returns whether a new connection is answered by this generation.
    fn serves(&self, generation: u32) -> bool {
        let answer = self.server.fetch(HOST);
        answer.is_ok_and(|answer| answer.contains(&format!("generation-{generation}.example/")))
    }

    /// Waits until new connections are answered by this generation alone.
    fn until_serves(&self, generation: u32) {
        let mut in_turn = 0;
        until(&format!("generation {generation}"), SOON, || {
            in_turn = if self.serves(generation) {
                in_turn + 1
            } else {
                0
            };
            in_turn == IN_TURN
        });
    }

    /// Runs `sekisho reload` or `sekisho upgrade`.
    fn run(&self, command: &str) -> Ran {
        self.sandbox.run(&[command])
    }

    /// Hands over, which must succeed; returns once all new connections see it.
    pub(crate) fn reload(&self, generation: u32, listen: &str, more: &str) {
        self.write(generation, listen, more);
        let ran = self.run("reload");
        assert_eq!(ran.code, Some(0), "{}: {}", ran.err, self.server.log());
        self.until_serves(generation);
    }

    /// Returns how many processes have said that they serve.
    fn starts(&self) -> usize {
        let log = self.server.log();
        log.matches(r#""message":"serving""#).count()
    }

    /// Returns the processes that run in the sandbox.
    fn processes(&self) -> Vec<Pid> {
        processes(self.sandbox.root())
    }

    /// Returns the processes beside the one that was started first.
    fn others(&self) -> Vec<Pid> {
        let first = i32::try_from(self.server.pid())
            .ok()
            .and_then(Pid::from_raw);
        let others = self.processes().into_iter();
        others.filter(|pid| Some(*pid) != first).collect()
    }

    fn program(&self) -> PathBuf {
        self.sandbox.path(PROGRAM)
    }
}

impl Drop for Handed {
    fn drop(&mut self) {
        for pid in self.processes() {
            // It may have ended meanwhile.
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

/// Replaces a program by a copy of another one, as a package manager does.
fn install(path: &Path, from: &Path) {
    let new = path.with_extension("new");
    fs::copy(from, &new).expect("a copy");
    fs::rename(new, path).expect("a file of ours");
}

/// Replaces a program by a script.
fn install_script(path: &Path, text: &str) {
    let new = path.with_extension("new");
    fs::write(&new, format!("#!/bin/sh\n{text}\n")).expect("a file");
    fs::set_permissions(&new, fs::Permissions::from_mode(0o755)).expect("ours");
    fs::rename(new, path).expect("a file of ours");
}

fn processes(folder: &Path) -> Vec<Pid> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").expect("Linux") {
        let path = entry.expect("an entry").path();
        let number = path
            .file_name()
            .and_then(|name| name.to_str()?.parse().ok());
        let Some(pid) = number.and_then(Pid::from_raw) else {
            continue;
        };
        // A process may end meanwhile, or belong to another user.
        if fs::read_link(path.join("cwd")).is_ok_and(|cwd| cwd == folder) {
            found.push(pid);
        }
    }
    found
}

fn text([https, http]: [u16; 2], generation: u32, listen: &str, more: &str) -> String {
    let store = match more.contains("[store]") {
        true => "",
        false => "[store]\nurl = \"sqlite:hosts.db\"\n[keys]\nmaster = \"file:master.key\"\n",
    };
    let more_https = listen.strip_prefix("https ").unwrap_or_default();
    format!(
        "[listen]\nhttps = [\"127.0.0.1:{https}\"{more_https}]\nhttp = [\"127.0.0.1:{http}\"]\n\
         admin = \"unix:admin.sock\"\n{store}\
         [site]\nredirect = \"https://generation-{generation}.example/\"\n\
         [sites]\nallow = [\".\", \"127.0.0.0/8\"]\n{more}"
    )
}

const HOST: &str = "a.example";
const PROGRAM: &str = "bin/sekisho";
/// New connections in turn that must see a generation: for a moment both processes accept.
const IN_TURN: u32 = 20;
/// A moment in which nothing must happen.
const A_WHILE: Duration = Duration::from_secs(3);
